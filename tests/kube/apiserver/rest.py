"""What can be done to objects, by the rules of Kubernetes' API."""

import copy
import datetime
import random
import re
import string
import uuid

from . import fields, kinds, patches, schema
from .errors import ApiError, already_exists, bad_request, conflict, expired, invalid, not_found

NAME = re.compile(r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$")
# Fields of a pod's spec that may be changed.
POD_MUTABLE = ("activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations", "nodeName")


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


class Change:
    """How a change is asked for."""

    def __init__(self, manager="unknown", dry_run=False, validation="Warn", force=False):
        self.manager, self.dry_run, self.validation, self.force = manager, dry_run, validation, force


def content(obj):
    """All but what the server keeps itself, for comparison."""
    metadata = {name: value for name, value in obj.get("metadata", {}).items()
                if name not in ("resourceVersion", "managedFields", "generation")}
    return {**obj, "metadata": metadata}


def waits(obj):
    """Whether an object that is deleted stays for a while."""
    metadata = obj["metadata"]
    if obj["kind"] == "Namespace" and obj["spec"].get("finalizers"):
        return True
    return bool(metadata.get("finalizers") or metadata.get("deletionGracePeriodSeconds"))


class Rest:
    """Thread-safe. Objects that it returns are not to be changed."""

    def __init__(self, store, registry):
        self.store, self.registry = store, registry
        # Lists whose next pages are to be had: token -> (era, objects, revision).
        self._pages = {}

    # Reading.

    def get(self, kind, key, subresource=""):
        obj = self.store.get(kind, key)
        if obj is None:
            raise not_found(kind, key[1])
        return self._scale_of(kind, obj) if subresource == "scale" else obj

    def list(self, kind, namespace, selector, limit=0, token=""):
        """Objects, the revision, the token of the next page, and how many are left."""
        with self.store.lock:
            if token:
                era, objects, revision = self._pages.pop(token, (None, None, None))
                if era != self.store.era:
                    raise expired("The provided continue parameter is too old to display a consistent list result.")
            else:
                objects, revision = self.store.list(kind, namespace)
                objects = [obj for obj in objects if selector.matches(obj)]
            if not limit or len(objects) <= limit:
                return objects, revision, "", 0
            following = uuid.uuid4().hex
            self._pages[following] = (self.store.era, objects[limit:], revision)
            return objects[:limit], revision, following, len(objects) - limit

    # Changing.

    def create(self, kind, namespace, obj, change):
        obj = self._parsed(kind, obj)
        metadata = obj["metadata"]
        if metadata.get("namespace", namespace) != namespace:
            raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + "".join(random.choices(string.ascii_lowercase, k=5))
        if kind.namespaced:
            metadata["namespace"] = namespace
        key = (namespace if kind.namespaced else "", metadata.get("name", ""))
        with self.store.lock:
            self._check_new(kind, key)
            if metadata.get("resourceVersion"):
                raise bad_request("resourceVersion should not be set on objects to be created")
            self._begin(kind, obj)
            self._check(kind, obj, change)
            fields.note_update(kind, {}, obj, change.manager, "", now())
            return self._put(kind, key, obj, change)

    def replace(self, kind, key, obj, change, subresource=""):
        obj = self._parsed(kind, obj) if subresource != "scale" else obj
        with self.store.lock:
            old = self.get(kind, key)
            if subresource == "scale":
                return self._set_scale(kind, key, old, obj, change)
            if obj["metadata"].get("name", key[1]) != key[1]:
                raise bad_request("the name of the object does not match the name on the URL")
            if not obj["metadata"].get("resourceVersion") and not kind.unconditional:
                raise invalid(kind, key[1], [("metadata.resourceVersion",
                                              "Invalid value: 0x0: must be specified for an update")])
            return self._update(kind, key, old, obj, change, subresource)

    def patch(self, kind, key, patch, patch_type, change, subresource=""):
        with self.store.lock:
            old = self.get(kind, key)
            before = self._scale_of(kind, old) if subresource == "scale" else old
            if patch_type == "application/json-patch+json":
                new = patches.json_patch(before, patch)
            elif patch_type == "application/merge-patch+json":
                new = patches.merge(before, patch)
            elif patch_type == "application/strategic-merge-patch+json" and not kind.is_custom:
                new = patches.strategic(before, patch)
            else:
                raise ApiError(415, "UnsupportedMediaType", f"the body of the request was in an unknown format: {patch_type}")
            if subresource == "scale":
                return self._set_scale(kind, key, old, new, change)
            return self._update(kind, key, old, self._parsed(kind, new), change, subresource)

    def apply(self, kind, key, config, change, subresource=""):
        config = fields.parse_config(kind, config, key)
        if not change.manager:
            raise bad_request("PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch")
        with self.store.lock:
            old = self.store.get(kind, key)
            if old is None and subresource:
                raise not_found(kind, key[1])
            config = self._own_part(kind, config, subresource)
            new = fields.apply(kind, old or {}, config, change.manager, change.force, subresource, now())
            new["metadata"]["name"] = key[1]
            if old is not None:
                return self._update(kind, key, old, new, change, subresource, applied=True)
            if kind.namespaced:
                new["metadata"]["namespace"] = key[0]
            self._check_new(kind, key)
            self._begin(kind, new)
            self._check(kind, new, change)
            return self._put(kind, key, new, change)

    def delete(self, kind, key, options, dry_run=False):
        """The object, and whether it is gone."""
        with self.store.lock:
            old = self.get(kind, key)
            wanted = options.get("preconditions") or {}
            for name in ("uid", "resourceVersion"):
                if wanted.get(name, old["metadata"][name]) != old["metadata"][name]:
                    raise conflict(kind, key[1], f"Precondition failed: {name} in precondition: {wanted[name]}, "
                                                 f"{name} in object meta: {old['metadata'][name]}")
            if dry_run:
                return old, True
            obj = copy.deepcopy(old)
            metadata = obj["metadata"]
            policy = options.get("propagationPolicy")
            for finalizer in {"Foreground": ["foregroundDeletion"], "Orphan": ["orphan"]}.get(policy, ()):
                if finalizer not in metadata.setdefault("finalizers", []):
                    metadata["finalizers"].append(finalizer)
            grace = self._grace_of(kind, obj, options)
            if not grace and not waits(obj):
                return self.store.remove(kind, key), True
            is_shorter = grace < metadata.get("deletionGracePeriodSeconds", grace + 1)
            if metadata.get("deletionTimestamp") and not is_shorter and obj == old:
                return old, False
            if not metadata.get("deletionTimestamp"):
                metadata["generation"] = metadata.get("generation", 1) + 1
            until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=grace)
            metadata["deletionTimestamp"] = until.strftime("%Y-%m-%dT%H:%M:%SZ")
            metadata["deletionGracePeriodSeconds"] = grace
            return self.store.put(kind, key, obj), False

    def bind(self, key, binding):
        """The scheduler's decision."""
        pods = self.registry.find("", "v1", "pods")
        with self.store.lock:
            pod = copy.deepcopy(self.get(pods, key))
            if pod["spec"].get("nodeName"):
                raise conflict(pods, key[1], "the pod is already assigned to a node")
            pod["spec"]["nodeName"] = binding["target"]["name"]
            conditions = pod.setdefault("status", {}).setdefault("conditions", [])
            conditions[:] = [item for item in conditions if item.get("type") != "PodScheduled"]
            conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": now()})
            self.store.put(pods, key, pod)

    # The rules.

    def _parsed(self, kind, obj):
        if not isinstance(obj, dict) or not isinstance(obj.get("metadata", {}), dict):
            raise bad_request("the body is no object")
        obj = copy.deepcopy(obj)
        if obj.setdefault("apiVersion", kind.api_version) != kind.api_version or obj.setdefault("kind", kind.kind) != kind.kind:
            raise bad_request(f"the object provided is unrecognized: it is no {kind.kind} of {kind.api_version}")
        obj.setdefault("metadata", {})
        return obj

    def _check_new(self, kind, key):
        if not key[1]:
            raise invalid(kind, "", [("metadata.name", "Required value: name or generateName is required")])
        if not NAME.match(key[1]) or len(key[1]) > 253:
            raise invalid(kind, key[1], [("metadata.name", f"Invalid value: {key[1]!r}: a lowercase RFC 1123 name")])
        if kind.namespaced:
            namespaces = self.registry.find("", "v1", "namespaces")
            namespace = self.get(namespaces, ("", key[0]))
            if namespace["metadata"].get("deletionTimestamp"):
                raise ApiError(403, "Forbidden", f"unable to create new content in namespace {key[0]} because it is "
                                                 "being terminated")
        if self.store.get(kind, key) is not None:
            raise already_exists(kind, key[1])

    @staticmethod
    def _begin(kind, obj):
        """A new object, as the server begins it."""
        metadata = obj["metadata"]
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(name, None)
        metadata.update({"uid": str(uuid.uuid4()), "creationTimestamp": now(), "generation": 1})
        if kind.has_status:
            obj.pop("status", None)
        if kind.kind == "Pod":
            spec = obj.get("spec") or {}
            obj["spec"] = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30,
                           "serviceAccountName": "default", **spec}
            obj["status"] = {"phase": "Pending"}
        if kind.kind == "CustomResourceDefinition":
            metadata.setdefault("finalizers", []).append("customresourcecleanup.apiextensions.k8s.io")
        if kind.kind == "Namespace":
            obj.setdefault("spec", {}).setdefault("finalizers", ["kubernetes"])
            obj["status"] = {"phase": "Active"}

    def _check(self, kind, obj, change, old=None):
        name = obj["metadata"].get("name", "")
        if kind.is_custom:
            gone = schema.prune(obj, kind.schema)
            if gone and change.validation == "Strict":
                raise bad_request("strict decoding error: " + ", ".join(f'unknown field "{field}"' for field in gone))
            schema.fill_in(obj, kind.schema)
            problems = schema.validate(obj, kind.schema)
            if problems:
                raise invalid(kind, name, problems)
        if kind.kind == "Pod":
            self._check_pod(kind, obj, old)
        if kind.kind == "CustomResourceDefinition":
            self._check_crd(kind, obj)

    @staticmethod
    def _check_pod(kind, pod, old):
        name = pod["metadata"].get("name", "")
        if not pod["spec"].get("containers"):
            raise invalid(kind, name, [("spec.containers", "Required value")])
        if old is None:
            return

        def fixed(spec):
            kept = {field: value for field, value in spec.items() if field not in POD_MUTABLE}
            kept["containers"] = [{**container, "image": ""} for container in spec["containers"]]
            return kept
        if fixed(pod["spec"]) != fixed(old["spec"]) or pod["spec"].get("nodeName") != old["spec"].get("nodeName"):
            raise ApiError(422, "Invalid", f'Pod "{name}" is invalid: spec: Forbidden: pod updates may not change fields '
                                           "other than image, activeDeadlineSeconds, tolerations")

    @staticmethod
    def _check_crd(kind, crd):
        spec = crd.get("spec") or {}
        name = crd["metadata"]["name"]
        try:
            expected = f"{spec['names']['plural']}.{spec['group']}"
            stored = [version["name"] for version in spec["versions"] if version["storage"]]
            all(version["schema"]["openAPIV3Schema"]["type"] == "object" for version in spec["versions"])
        except (KeyError, TypeError) as error:
            raise invalid(kind, name, [("spec", f"Required value: {error}")]) from error
        if name != expected or len(stored) != 1:
            raise invalid(kind, name, [("metadata.name", f"Invalid value: it must be {expected}, with one stored version")])
        accepted = {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "lastTransitionTime": now(),
                    "message": "the initial names have been accepted"}
        crd["status"] = {"conditions": [{**accepted, "type": "NamesAccepted", "reason": "NoConflicts"}, accepted],
                         "acceptedNames": spec["names"], "storedVersions": stored}

    @staticmethod
    def _own_part(kind, obj, subresource):
        """Of a configuration, what the address may write."""
        if subresource == "status":
            kept = {name: obj[name] for name in ("apiVersion", "kind", "metadata", "status") if name in obj}
            kept["metadata"] = {name: value for name, value in (obj.get("metadata") or {}).items()
                                if name in ("name", "namespace", "resourceVersion", "uid")}
            return kept
        if kind.has_status:
            return {name: value for name, value in obj.items() if name != "status"}
        return obj

    def _update(self, kind, key, old, new, change, subresource, applied=False):
        self._check_version(kind, key, old, new)
        new = self._carried_over(kind, old, new, subresource)
        self._check(kind, new, change, old)
        if content(new) == content(old) and not applied:
            return old
        spec_of = lambda obj: {name: value for name, value in obj.items() if name not in ("metadata", "status")}
        if spec_of(new) != spec_of(old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        if not applied:
            fields.note_update(kind, old, new, change.manager, subresource, now())
        elif self._without_times(new) == self._without_times(old):
            return old
        return self._put(kind, key, new, change)

    @staticmethod
    def _without_times(obj):
        entries = [{**entry, "time": ""} for entry in obj["metadata"].get("managedFields") or ()]
        return {**obj, "metadata": {**obj["metadata"], "managedFields": entries}}

    @staticmethod
    def _check_version(kind, key, old, new):
        metadata = new["metadata"]
        version = metadata.get("resourceVersion")
        if version and version != old["metadata"]["resourceVersion"]:
            raise conflict(kind, key[1], "the object has been modified; please apply your changes to the latest "
                                         "version and try again")
        if metadata.get("uid") and metadata["uid"] != old["metadata"]["uid"]:
            raise conflict(kind, key[1], f"Precondition failed: UID in precondition: {metadata['uid']}, "
                                         f"UID in object meta: {old['metadata']['uid']}")

    @staticmethod
    def _carried_over(kind, old, new, subresource):
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

    def _put(self, kind, key, obj, change):
        if change.dry_run:
            return obj
        metadata = obj["metadata"]
        if kind.kind == "CustomResourceDefinition":
            self.registry.register(kinds.kinds_of_crd(obj))
        if metadata.get("deletionTimestamp") and not waits(obj):
            # The last finalizer has gone: so does the object.
            self.store.put(kind, key, obj)
            return self.store.remove(kind, key)
        return self.store.put(kind, key, obj)

    @staticmethod
    def _grace_of(kind, obj, options):
        """Seconds that the kubelet has."""
        if kind.kind != "Pod" or not obj["spec"].get("nodeName"):
            return 0
        if obj.get("status", {}).get("phase") in ("Succeeded", "Failed"):
            return 0
        wanted = options.get("gracePeriodSeconds")
        return obj["spec"].get("terminationGracePeriodSeconds", 30) if wanted is None else wanted

    # The subresource scale.

    @staticmethod
    def _at(obj, path):
        for name in path.strip(".").split("."):
            obj = obj.get(name) if isinstance(obj, dict) else None
        return obj

    def _scale_of(self, kind, obj):
        metadata = {name: obj["metadata"][name] for name in ("name", "namespace", "uid", "resourceVersion",
                                                             "creationTimestamp") if name in obj["metadata"]}
        status = {"replicas": self._at(obj, kind.scale["statusReplicasPath"]) or 0}
        if kind.scale.get("labelSelectorPath"):
            status["selector"] = self._at(obj, kind.scale["labelSelectorPath"]) or ""
        return {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata,
                "spec": {"replicas": self._at(obj, kind.scale["specReplicasPath"]) or 0}, "status": status}

    def _set_scale(self, kind, key, old, scale, change):
        replicas = (scale.get("spec") or {}).get("replicas", 0)
        if not isinstance(replicas, int) or replicas < 0:
            raise invalid(kind, key[1], [("spec.replicas", f"Invalid value: {replicas}")])
        new = copy.deepcopy(old)
        version = (scale.get("metadata") or {}).get("resourceVersion")
        if version:
            new["metadata"]["resourceVersion"] = version
        *parents, last = kind.scale["specReplicasPath"].strip(".").split(".")
        place = new
        for name in parents:
            place = place.setdefault(name, {})
        place[last] = replicas
        return self._scale_of(kind, self._update(kind, key, old, new, change, ""))
