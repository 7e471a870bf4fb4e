"""What pods have besides: they are evicted, and logs and streams come from the kubelet of their node."""

import copy
import http.client
import socket
import urllib.parse

from . import rules
from .errors import ApiError, bad_request

# What of a request for a log is the kubelet's to answer.
OPTIONS = ("follow", "tailLines", "sinceTime", "sinceSeconds", "timestamps")
# What a stream of a program is called by clients, and by kubelets.
STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}


def evict(rest, kind, key, eviction):
    """As a deletion, of which the pod says why."""
    if eviction.get("kind", "Eviction") != "Eviction":
        raise bad_request("the body is no Eviction")
    if (eviction.get("metadata") or {}).get("name", key[1]) != key[1]:
        raise bad_request("the name in the body is not the pod's")
    options = eviction.get("deleteOptions") or {}
    with rest.store.lock:
        pod = copy.deepcopy(rest.get(kind, key))
        phase = pod.get("status", {}).get("phase")
        if phase not in ("Succeeded", "Failed", "Pending") and not pod["metadata"].get("deletionTimestamp"):
            conditions = pod["status"].setdefault("conditions", [])
            conditions[:] = [item for item in conditions if item["type"] != "DisruptionTarget"]
            conditions.append({
                "type": "DisruptionTarget",
                "status": "True",
                "reason": "EvictionByEvictionAPI",
                "message": "Eviction API: evicting",
                "lastTransitionTime": rules.now()
            })
            rest.store.put(kind, key, pod)
        rest.delete(kind, key, options)


def _container_of(pod, name):
    names = [one["name"] for one in (pod["spec"].get("initContainers") or []) + pod["spec"]["containers"]]
    if name and name not in names:
        raise bad_request(f"container {name} is not valid for pod {pod['metadata']['name']}")
    if not name and len(pod["spec"]["containers"]) > 1:
        raise bad_request(
            f"a container name must be specified for pod {pod['metadata']['name']}, choose one of: "
            f"{names}")
    return name or pod["spec"]["containers"][0]["name"]


def open_log(registry, rest, kind, key, query):
    """The kubelet's answer, to be read and closed."""
    for option in query:
        if option not in (*OPTIONS, "container", "previous", "insecureSkipTLSVerifyBackend"):
            raise bad_request(f"of logs, this double has no {option}")
    pod = rest.get(kind, key)
    container = _container_of(pod, query.get("container", ""))
    if query.get("previous") == "true":
        raise bad_request(f'previous terminated container "{container}" in pod "{key[1]}" not found')
    node = _node_of(registry, rest, pod)
    statuses = [
        *(pod["status"].get("initContainerStatuses") or ()), *(pod["status"].get("containerStatuses") or ())
    ]
    state = next((one["state"] for one in statuses if one["name"] == container), {"waiting": {}})
    if "waiting" in state:
        reason = state["waiting"].get("reason", "ContainerCreating")
        raise bad_request(f'container "{container}" in pod "{key[1]}" is waiting to start: {reason}')
    return _ask(node, (*key, container), {name: query[name] for name in OPTIONS if name in query})


def stream_path(rest, kind, key, what, query):
    """Where the kubelet has the pod's streams. `query`: pairs."""
    pod = rest.get(kind, key)
    if what == "portforward":
        return "/portForward/" + "/".join(key)
    given = dict(query)
    path = "/".join((*key, _container_of(pod, given.get("container", ""))))
    wanted = [("command", value) for name, value in query if name == "command"]
    wanted += [(mine, "1") for theirs, mine in STREAMS.items() if given.get(theirs) == "true"]
    return f"/exec/{path}?{urllib.parse.urlencode(wanted)}"


def connect(registry, rest, kind, key):
    """A connection to the kubelet of the pod's node."""
    address, port = _kubelet_of(_node_of(registry, rest, rest.get(kind, key)))
    try:
        return socket.create_connection((address, port))
    except OSError as error:
        raise ApiError(500, "InternalError", f"error dialing backend: {error}") from error


def _node_of(registry, rest, pod):
    node_name = pod["spec"].get("nodeName")
    if not node_name:
        raise bad_request(f"pod {pod['metadata']['name']} does not have a host assigned")
    return rest.get(registry.find("", "v1", "nodes"), ("", node_name))


def _kubelet_of(node):
    status = node.get("status") or {}
    address = next((one["address"] for one in status.get("addresses") or () if one["type"] == "InternalIP"),
                   None)
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    if not address or not port:
        raise ApiError(500, "InternalError", f"node {node['metadata']['name']} has no kubelet")
    return address, port


def _ask(node, path, query):
    address, port = _kubelet_of(node)
    connection = http.client.HTTPConnection(address, port)
    try:
        connection.request("GET", "/containerLogs/" + "/".join(path) + "?" + urllib.parse.urlencode(query))
        answer = connection.getresponse()
    except OSError as error:
        raise ApiError(500, "InternalError", f"Get http://{address}:{port}/containerLogs: {error}") from error
    if answer.status != 200:
        raise ApiError(answer.status, "NotFound", answer.read().decode(errors="replace"))
    return answer
