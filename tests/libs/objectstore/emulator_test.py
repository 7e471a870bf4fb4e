"""Moto's server with a bucket, for the tests of a program, which is told its address."""

import os
import subprocess
import sys
import urllib.request

from moto.server import ThreadedMotoServer

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
host, port = server.get_host_and_port()
endpoint = f"http://{host}:{port}"
urllib.request.urlopen(urllib.request.Request(f"{endpoint}/models", method="PUT")).close()
result = subprocess.run(sys.argv[1:], env=dict(os.environ, S3_ENDPOINT=endpoint), check=False)
server.stop()
sys.exit(result.returncode)
