"""A scheduler, the kubelets of some nodes, and the controllers that look after nodes. Prints where it takes orders (server.py), and goes
on until SIGTERM; then everything that it has started ends."""

import argparse
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading

from .claims import Claims
from .client import Client
from .hollow import HollowPod, Workers
from .images import Images
from .kubelet import Kubelet, addresses
from .node import Shared
from .pod import Pod
from .sandbox import Machine, NotPermitted, check_permitted
from .server import Server

CLONE_NEWNS = 0x20000
# Says that this machine does not permit what containers need.
SKIPPED = 77


def have_own_mounts():
    """So that what is mounted goes with this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    subprocess.run(["mount", "--make-rprivate", "/"], check=True)


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def main():
    parser = argparse.ArgumentParser(prog="kubelet", description=__doc__)
    parser.add_argument("--server", required=True, metavar="URL", help="of the API server")
    parser.add_argument("--token", default="", help="who it is to the API server")
    parser.add_argument("--nodes", required=True, metavar="FILE", help="JSON: a list, as README.md has it")
    parser.add_argument("--images", metavar="FILE", help="JSON, as README.md has it")
    parser.add_argument("--root", required=True, metavar="FOLDER", help="for volumes and logs")
    parser.add_argument("--hollow", action="store_true", help="pods are not run: they are Running")
    parser.add_argument("--node-grace",
                        type=float,
                        default=40,
                        metavar="SECONDS",
                        help="that a node may be silent")
    parser.add_argument("--eviction",
                        type=float,
                        default=300,
                        metavar="SECONDS",
                        help="that pods stay on a silent node")
    options = parser.parse_args()
    machine = None
    os.makedirs(options.root, exist_ok=True)
    root = os.path.realpath(options.root)
    if not options.hollow:
        try:
            check_permitted()
        except NotPermitted as error:
            print(f"kubelet: error: {error}", file=sys.stderr)
            sys.exit(SKIPPED)
        have_own_mounts()
        machine = Machine(root)
    client = Client(options.server, options.token)
    shared = Shared(client, machine, Claims(client, os.path.join(root, "claims")),
                    Images(read(options.images) if options.images else {}),
                    Workers() if options.hollow else None, HollowPod if options.hollow else Pod, addresses())
    kubelet = Kubelet(shared, read(options.nodes), options.node_grace, options.eviction)
    server = Server(kubelet)
    shared.port = server.server_port
    kubelet.start()
    # shutdown() waits for the loop that this handler interrupts.
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever(poll_interval=0.05)
    kubelet.stop()
    # Without waiting for threads that wait for news.
    os._exit(0)


main()
