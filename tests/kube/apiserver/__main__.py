"""The double as a program. Prints its address (with a certificate, a second one with TLS), and serves until SIGTERM. faults.py says what tests can do to it."""

import argparse
import signal
import threading

from .cluster import Cluster
from .http_api import Server
from .identity import read_people


def main():
    parser = argparse.ArgumentParser(prog="apiserver", description=__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    parser.add_argument("--bookmark-period", type=float, default=60, metavar="SECONDS")
    parser.add_argument("--state",
                        metavar="FILE",
                        help="written at the end, and read at the start if it is there")
    parser.add_argument("--token-auth-file",
                        metavar="FILE",
                        help="token,user,uid,\"group1,group2\" a line; then tokens are "
                        "needed and roles count")
    parser.add_argument("--tls-cert", metavar="FILE", help="with --tls-key: it also speaks TLS, on a port of its own")
    parser.add_argument("--tls-key", metavar="FILE")
    parser.add_argument("--services", metavar="FILE", help="where services of webhooks are: admission.py")
    options = parser.parse_args()
    people = read_people(options.token_auth_file) if options.token_auth_file else None
    cluster = Cluster(options.bookmark_period, options.state, people, options.services)
    servers = [Server((options.host, options.port), cluster)]
    addresses = [f"http://{options.host}:{servers[0].server_port}"]
    if options.tls_cert:
        servers.append(Server((options.host, 0), cluster, (options.tls_cert, options.tls_key)))
        addresses.append(f"https://{options.host}:{servers[1].server_port}")
        threading.Thread(target=servers[1].serve_forever, daemon=True).start()
    # shutdown() waits for the loop that this handler interrupts.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=servers[0].shutdown).start())
    print(*addresses, flush=True)
    servers[0].serve_forever(poll_interval=0.05)
    cluster.save()


main()
