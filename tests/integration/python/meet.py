"""A job without any library: meets its peers over HTTP as AdaptDL's package does, then waits to be stopped.

    meet.py [hang|leave]     rank 1 never comes to the rendezvous; or all exit with 143 though nobody asks them to
"""

import http.client
import json
import os
import signal
import socket
import sys
import urllib.parse

rank = int(os.environ["ADAPTDL_REPLICA_RANK"])
mode = sys.argv[1] if len(sys.argv) > 1 else ""
if mode == "leave":
    sys.exit(143)
if mode == "hang" and os.environ["ADAPTDL_NUM_REPLICAS"] == "2":
    # Deaf, as a program is that waits in a library.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if rank == 1:
        signal.pause()
else:
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(143))
# A pod is known by its address, which it has by itself in a cluster, and not where all are on one machine's network: there
# others may have the port on theirs.
address = os.environ.get("MEET_FROM", "")
if rank == 0:
    listener = socket.create_server((address, int(os.environ["ADAPTDL_MASTER_PORT"])), reuse_port=False)
url = urllib.parse.urlsplit(
    "{ADAPTDL_SUPERVISOR_URL}/discover/{ADAPTDL_JOB_ID}/{ADAPTDL_NUM_RESTARTS}".format(**os.environ))
source = (address, 0) if address else None
while True:
    connection = http.client.HTTPConnection(url.netloc, source_address=source)
    connection.request("GET", url.path)
    answer = connection.getresponse()
    if answer.status == 200:
        hosts = json.load(answer)
        break
    if answer.status != 408:
        sys.exit(f"discover: {answer.status} {answer.read()}")
if rank == 0:
    for _ in hosts[1:]:
        listener.accept()
else:
    socket.create_connection((hosts[0], int(os.environ["ADAPTDL_MASTER_PORT"])))
print(f"start {os.environ['ADAPTDL_NUM_RESTARTS']}: rank {rank} of {len(hosts)} on "
      f"{os.environ['ADAPTDL_NUM_NODES']} nodes has met the others", flush=True)
# pause() would sleep through a signal that comes just before it.
told, tells = socket.socketpair()
tells.setblocking(False)
signal.set_wakeup_fd(tells.fileno())
while True:
    told.recv(1)
