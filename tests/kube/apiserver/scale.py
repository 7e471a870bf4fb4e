"""The subresource scale: replicas of any type, as fields of the object."""

import copy

from .errors import invalid


def at(obj, path):
    for name in path.strip(".").split("."):
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def view(kind, obj):
    metadata = {
        name: obj["metadata"][name]
        for name in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
        if name in obj["metadata"]
    }
    status = {"replicas": at(obj, kind.scale["statusReplicasPath"]) or 0}
    if kind.scale.get("labelSelectorPath"):
        status["selector"] = at(obj, kind.scale["labelSelectorPath"]) or ""
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {
            "replicas": at(obj, kind.scale["specReplicasPath"]) or 0
        },
        "status": status
    }


def scaled(kind, obj, scale):
    """The object with the replicas that the view says."""
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if not isinstance(replicas, int) or replicas < 0:
        raise invalid(kind, obj["metadata"]["name"], [("spec.replicas", f"Invalid value: {replicas}")])
    new = copy.deepcopy(obj)
    version = (scale.get("metadata") or {}).get("resourceVersion")
    if version:
        new["metadata"]["resourceVersion"] = version
    *parents, last = kind.scale["specReplicasPath"].strip(".").split(".")
    place = new
    for name in parents:
        place = place.setdefault(name, {})
    place[last] = replicas
    return new
