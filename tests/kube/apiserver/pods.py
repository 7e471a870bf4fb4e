"""What pods have besides: they are evicted, and their logs come from the kubelet of their node."""

import copy
import http.client
import urllib.parse

from . import rules
from .errors import ApiError, bad_request

# What of a request for a log is the kubelet's to answer.
OPTIONS = ("follow", "tailLines", "sinceTime", "sinceSeconds", "timestamps")


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
    node_name = pod["spec"].get("nodeName")
    if not node_name:
        raise bad_request(f"pod {key[1]} does not have a host assigned")
    statuses = [
        *(pod["status"].get("initContainerStatuses") or ()), *(pod["status"].get("containerStatuses") or ())
    ]
    state = next((one["state"] for one in statuses if one["name"] == container), {"waiting": {}})
    if "waiting" in state:
        reason = state["waiting"].get("reason", "ContainerCreating")
        raise bad_request(f'container "{container}" in pod "{key[1]}" is waiting to start: {reason}')
    node = rest.get(registry.find("", "v1", "nodes"), ("", node_name))
    return _ask(node, (*key, container), {name: query[name] for name in OPTIONS if name in query})


def _ask(node, path, query):
    status = node.get("status") or {}
    address = next((one["address"] for one in status.get("addresses") or () if one["type"] == "InternalIP"),
                   None)
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port")
    if not address or not port:
        raise ApiError(500, "InternalError", f"node {node['metadata']['name']} has no kubelet")
    connection = http.client.HTTPConnection(address, port)
    try:
        connection.request("GET", "/containerLogs/" + "/".join(path) + "?" + urllib.parse.urlencode(query))
        answer = connection.getresponse()
    except OSError as error:
        raise ApiError(500, "InternalError", f"Get http://{address}:{port}/containerLogs: {error}") from error
    if answer.status != 200:
        raise ApiError(answer.status, "NotFound", answer.read().decode(errors="replace"))
    return answer
