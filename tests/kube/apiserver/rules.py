"""The rules that objects are kept by: what a new one is, what is refused, and what an address may write."""

import copy
import datetime
import re
import time
import uuid

from . import schema
from .errors import ApiError, bad_request, conflict, invalid

NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
QUANTITY = re.compile(r"^[+-]?(\d+\.?\d*|\.\d+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?\d+)?$")
# Fields of a pod's spec that may be changed.
POD_MUTABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "nodeName")


def stamp(seconds):
    """A time, in seconds since 1970, as objects have it."""
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def now():
    return stamp(time.time())


def waits(obj):
    """Whether an object that is deleted stays for a while."""
    metadata = obj["metadata"]
    if obj["kind"] == "Namespace" and obj["spec"].get("finalizers"):
        return True
    return bool(metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"))


def content(obj):
    """All but what the server keeps itself, for comparison."""
    metadata = {
        name: value
        for name, value in obj.get("metadata", {}).items()
        if name not in ("resourceVersion", "managedFields", "generation")
    }
    return {**obj, "metadata": metadata}


def without_times(obj):
    entries = [{**entry, "time": ""} for entry in obj["metadata"].get("managedFields") or ()]
    return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}


def parsed(kind, obj):
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata", {}), dict):
        raise bad_request("the body is no object")
    obj = copy.deepcopy(obj)
    if obj.setdefault("apiVersion", kind.api_version) != kind.api_version or obj.setdefault(
            "kind", kind.kind) != kind.kind:
        raise bad_request(f"the object provided is unrecognized: it is no {kind.kind} of {kind.api_version}")
    obj.setdefault("metadata", {})
    return obj


def check_name(kind, name):
    if not name:
        raise invalid(kind, "", [("metadata.name", "Required value: name or generateName is required")])
    if not NAME.match(name) or len(name) > 253:
        raise invalid(kind, name, [("metadata.name", f"Invalid value: {name!r}: a lowercase RFC 1123 name")])


def begin(kind, obj):
    """A new object, as the server begins it."""
    metadata = obj["metadata"]
    for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
        metadata.pop(name, None)
    metadata.update({"uid": str(uuid.uuid4()), "creationTimestamp": now(), "generation": 1})
    if kind.has_status:
        obj.pop("status", None)
    if kind.kind == "Pod":
        spec = obj.get("spec") or {}
        obj["spec"] = {
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "serviceAccountName": "default",
            **spec
        }
        obj["status"] = {"phase": "Pending"}
    if kind.kind == "CustomResourceDefinition":
        metadata.setdefault("finalizers", []).append("customresourcecleanup.apiextensions.k8s.io")
    if kind.kind == "Namespace":
        obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
        obj["status"] = {"phase": "Active"}


def check(kind, obj, change, old=None):
    name = obj["metadata"].get("name", "")
    if kind.is_custom:
        gone = schema.prune(obj, kind.schema)
        if gone and change.validation == "Strict":
            raise bad_request("strict decoding error: " + ", ".join(f'unknown field "{field}"'
                                                                    for field in gone))
        schema.fill_in(obj, kind.schema)
        problems = schema.validate(obj, kind.schema)
        if problems:
            raise invalid(kind, name, problems)
    if kind.kind == "Pod":
        check_pod(kind, obj, old)
    if kind.kind == "PodTemplate":
        check_containers(kind, name, "template.spec", (obj.get("template") or {}).get("spec") or {})
    if kind.kind == "CustomResourceDefinition":
        check_crd(kind, obj)


def check_pod(kind, pod, old):
    name = pod["metadata"].get("name", "")
    check_containers(kind, name, "spec", pod["spec"])
    if old is None:
        return
    for field in ("priorityClassName", "priority", "preemptionPolicy"):
        if field in old["spec"]:
            pod["spec"].setdefault(field, old["spec"][field])

    def fixed(spec):
        kept = {field: value for field, value in spec.items() if field not in POD_MUTABLE}
        kept["containers"] = [{**container, "image": ""} for container in spec["containers"]]
        return kept

    if fixed(pod["spec"]) != fixed(old["spec"]) or pod["spec"].get("nodeName") != old["spec"].get("nodeName"):
        raise ApiError(
            422, "Invalid", f'Pod "{name}" is invalid: spec: Forbidden: pod updates may not change fields '
            "other than image, activeDeadlineSeconds, tolerations")


def check_containers(kind, name, path, spec):
    if not spec.get("containers"):
        raise invalid(kind, name, [(path + ".containers", "Required value")])
    for index, container in enumerate(spec["containers"]):
        if not container.get("name"):
            raise invalid(kind, name, [(f"{path}.containers[{index}].name", "Required value")])
    check_quantities(spec)


def check_quantities(spec):
    for container in [*(spec.get("initContainers") or ()), *spec["containers"]]:
        resources = container.get("resources") or {}
        for value in [*(resources.get("requests") or {}).values(), *(resources.get("limits") or {}).values()]:
            if not QUANTITY.match(str(value)):
                raise bad_request(
                    "Pod in version \"v1\" cannot be handled as a Pod: quantities must match the regular "
                    f"expression '{QUANTITY.pattern}': {value!r}")


def check_crd(kind, crd):
    spec = crd.get("spec") or {}
    name = crd["metadata"]["name"]
    try:
        expected = f"{spec['names']['plural']}.{spec['group']}"
        stored = [version["name"] for version in spec["versions"] if version["storage"]]
        all(version["schema"]["openAPIV3Schema"]["type"] == "object" for version in spec["versions"])
    except (KeyError, TypeError) as error:
        raise invalid(kind, name, [("spec", f"Required value: {error}")]) from error
    if name != expected or len(stored) != 1:
        raise invalid(kind, name,
                      [("metadata.name", f"Invalid value: it must be {expected}, with one stored version")])
    accepted = {
        "type": "Established",
        "status": "True",
        "reason": "InitialNamesAccepted",
        "lastTransitionTime": now(),
        "message": "the initial names have been accepted"
    }
    crd["status"] = {
        "conditions": [{
            **accepted, "type": "NamesAccepted",
            "reason": "NoConflicts"
        }, accepted],
        "acceptedNames": spec["names"],
        "storedVersions": stored
    }


def check_version(kind, key, old, new):
    metadata = new["metadata"]
    version = metadata.get("resourceVersion")
    if version and version != old["metadata"]["resourceVersion"]:
        raise conflict(
            kind, key[1], "the object has been modified; please apply your changes to the latest "
            "version and try again")
    if metadata.get("uid") and metadata["uid"] != old["metadata"]["uid"]:
        raise conflict(
            kind, key[1], f"Precondition failed: UID in precondition: {metadata['uid']}, "
            f"UID in object meta: {old['metadata']['uid']}")


def own_part(kind, obj, subresource):
    """Of a configuration, what the address may write."""
    if subresource == "status":
        kept = {name: obj[name] for name in ("apiVersion", "kind", "metadata", "status") if name in obj}
        kept["metadata"] = {
            name: value
            for name, value in (obj.get("metadata") or {}).items()
            if name in ("name", "namespace", "resourceVersion", "uid")
        }
        return kept
    if kind.has_status:
        return {name: value for name, value in obj.items() if name != "status"}
    return obj


def carried_over(kind, old, new, subresource):
    """The new object, with what this address does not write as it was."""
    if subresource == "status":
        result = {**old, "metadata": dict(old["metadata"])}
        result.pop("status", None)
        if "status" in new:
            result["status"] = new["status"]
        if "managedFields" in new["metadata"]:
            result["metadata"]["managedFields"] = new["metadata"]["managedFields"]
        return copy.deepcopy(result)
    result = copy.deepcopy(new)
    for name in ("uid", "creationTimestamp", "generation", "resourceVersion", "namespace", "name",
                 "deletionTimestamp", "deletionGracePeriodSeconds"):
        result["metadata"].pop(name, None)
        if name in old["metadata"]:
            result["metadata"][name] = old["metadata"][name]
    if kind.has_status:
        result.pop("status", None)
        if "status" in old:
            result["status"] = copy.deepcopy(old["status"])
    return result


def grace_of(kind, obj, options):
    """Seconds that the kubelet has."""
    if kind.kind != "Pod" or not obj["spec"].get("nodeName"):
        return 0
    if obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    wanted = options.get("gracePeriodSeconds")
    return obj["spec"].get("terminationGracePeriodSeconds", 30) if wanted is None else wanted
