"""The tuner of a search as a job of the cluster: one small replica, which may call the cluster's API.

Killed, or moved from its node, it is started again and goes on, since the trials' jobs are all that there is of a search.
"""

import copy
import dataclasses
import ipaddress
import os
import pathlib
import sys
from typing import Any, Dict, List

import adaptdl
from adaptdl.client import Client, Node
from adaptdl.tune.search_file import Search, parse

# The node's Python can't run searches: no use to try again (EX_CONFIG of sysexits.h).
UNFIT = 78
_MEMORY_BYTES = 512 << 20
_RESTARTS = 20
# What a node runs, and what is to be done where that can't be.
_PROGRAM = """import sys
try:
    from adaptdl.tune.command import main
except ImportError as error:
    print("error: " + sys.executable + " of the node has no package adaptdl with searches (" + str(error) + ")", file=sys.stderr)
    sys.exit({unfit})
code = main(sys.argv[1:])
sys.exit(code)
"""


@dataclasses.dataclass(frozen=True)
class Place:
    """Where the tuner's job runs."""

    python: str = "python3"
    # Of Python's packages, beside those that it finds by itself. Empty: none.
    packages: str = ""
    # Seconds between two looks at the trials.
    interval: float = 1.0


def place_of(client: Client, interval: float) -> Place:
    """On nodes that are this machine, as those of `adaptdl cluster up`: with this Python, and the packages it has."""
    nodes = client.nodes()
    if not nodes or not all(_is_here(node) for node in nodes):
        return Place(interval=interval)
    own = str(pathlib.Path(adaptdl.__file__).absolute().parents[1])
    return Place(sys.executable, ":".join(filter(None, (own, os.environ.get("PYTHONPATH", "")))), interval)


def job_of(search: Search, namespace: str, place: Place) -> Dict[str, Any]:
    """What of Client.submit() is the tuner's."""
    tuner = search.tuner
    env = dict(tuner.get("env", {}))
    in_environment = "requirements" in tuner
    if place.packages and not in_environment:
        env.setdefault("PYTHONPATH", place.packages)
    python = "python3" if in_environment else tuner.get("python", place.python)
    options: Dict[str, Any] = {
        "command": [python, "-c", _PROGRAM.format(unfit=UNFIT), "--namespace", namespace, "tuner",
                    f"--interval={place.interval}", search.name],
        "api_access": True, "env": env, "max_restarts": _RESTARTS, "memory_bytes": tuner.get("memory_bytes", _MEMORY_BYTES),
        # No core of its own: it waits, and the trials are to have them all.
        "cpus": tuner.get("cpus", 0),
        # Not in the trials' folder, whose files are not meant for it.
        "working_directory": "/"}
    if in_environment:
        options.update(python=tuner.get("python", "python3"), requirements=tuner["requirements"])
    return options


def with_folder_sent(client: Client, search: Search) -> Search:
    """The search without its folder on this machine: it is brought to the cluster, and named by its content."""
    if "folder" not in search.job:
        return search
    document = copy.deepcopy(search.document)
    code = client.upload(document["job"].pop("folder"))
    document["job"]["code"] = {"digest": code.digest, "size": code.size}
    return parse(document)


def errors_of(client: Client, search: Search) -> List[str]:
    """What the tuner's job said last that was wrong."""
    said = client.logs(search.name, rank=0, tail_lines=20, pattern="^error: ")
    return [line.text for line in said if line.text.startswith("error: ") and line.source != "UNSPECIFIED"]


def _is_here(node: Node) -> bool:
    host = node.raw.worker_address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
