"""What can be done to objects, by the rules of Kubernetes' API."""

import copy
import dataclasses
import random
import string
import time
import uuid

from . import fields, kinds, patches, priorities, rules, scale
from .errors import ApiError, already_exists, bad_request, conflict, expired, invalid, not_found


@dataclasses.dataclass(frozen=True)
class Change:
    """How a change is asked for."""

    manager: str = "unknown"
    dry_run: bool = False
    validation: str = "Warn"
    force: bool = False


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
        return scale.view(kind, obj) if subresource == "scale" else obj

    def list(self, kind, namespace, selector, limit=0, token=""):
        """Objects, the revision, the token of the next page, and how many are left."""
        with self.store.lock:
            if token:
                era, objects, revision = self._pages.pop(token, (None, None, None))
                if era != self.store.era:
                    raise expired(
                        "The provided continue parameter is too old to display a consistent list result.")
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
        obj = rules.parsed(kind, obj)
        metadata = obj["metadata"]
        if metadata.get("namespace", namespace) != namespace:
            raise bad_request(
                "the namespace of the provided object does not match the namespace sent on the request")
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
            rules.check(kind, obj, change)
            fields.note_update(kind, {}, obj, change.manager, "", rules.now())
            return self._put(kind, key, obj, change)

    def replace(self, kind, key, obj, change, subresource=""):
        obj = rules.parsed(kind, obj) if subresource != "scale" else obj
        with self.store.lock:
            old = self.get(kind, key)
            if subresource == "scale":
                return self._set_scale(kind, key, old, obj, change)
            if obj["metadata"].get("name", key[1]) != key[1]:
                raise bad_request("the name of the object does not match the name on the URL")
            if not obj["metadata"].get("resourceVersion") and not kind.unconditional:
                raise invalid(
                    kind, key[1],
                    [("metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update")])
            return self._update(kind, key, old, obj, change, subresource)

    def patch(self, kind, key, patch, patch_type, change, subresource=""):
        with self.store.lock:
            old = self.get(kind, key)
            before = scale.view(kind, old) if subresource == "scale" else old
            if patch_type == "application/json-patch+json":
                new = patches.json_patch(before, patch)
            elif patch_type == "application/merge-patch+json":
                new = patches.merge(before, patch)
            elif patch_type == "application/strategic-merge-patch+json" and not kind.is_custom:
                new = patches.strategic(before, patch)
            else:
                raise ApiError(415, "UnsupportedMediaType",
                               f"the body of the request was in an unknown format: {patch_type}")
            if subresource == "scale":
                return self._set_scale(kind, key, old, new, change)
            return self._update(kind, key, old, rules.parsed(kind, new), change, subresource)

    def apply(self, kind, key, config, change, subresource=""):
        config = fields.parse_config(kind, config, key)
        if not change.manager:
            raise bad_request(
                "PatchOptions.meta.k8s.io is invalid: fieldManager: Required value: is required for apply patch"
            )
        with self.store.lock:
            old = self.store.get(kind, key)
            if old is None and subresource:
                raise not_found(kind, key[1])
            config = rules.own_part(kind, config, subresource)
            new = fields.apply(kind, old or {}, config, change.manager, change.force, subresource,
                               rules.now())
            new["metadata"]["name"] = key[1]
            if old is not None:
                return self._update(kind, key, old, new, change, subresource, applied=True)
            if kind.namespaced:
                new["metadata"]["namespace"] = key[0]
            self._check_new(kind, key)
            self._begin(kind, new)
            rules.check(kind, new, change)
            return self._put(kind, key, new, change)

    def delete(self, kind, key, options, dry_run=False):
        """The object, and whether it is gone."""
        with self.store.lock:
            old = self.get(kind, key)
            wanted = options.get("preconditions") or {}
            for name in ("uid", "resourceVersion"):
                if wanted.get(name, old["metadata"][name]) != old["metadata"][name]:
                    raise conflict(
                        kind, key[1], f"Precondition failed: {name} in precondition: {wanted[name]}, "
                        f"{name} in object meta: {old['metadata'][name]}")
            if dry_run:
                return old, True
            obj = copy.deepcopy(old)
            metadata = obj["metadata"]
            policy = options.get("propagationPolicy")
            for finalizer in {"Foreground": ["foregroundDeletion"], "Orphan": ["orphan"]}.get(policy, ()):
                if finalizer not in metadata.setdefault("finalizers", []):
                    metadata["finalizers"].append(finalizer)
            grace = rules.grace_of(kind, obj, options)
            # It may become shorter, and never longer.
            metadata["deletionGracePeriodSeconds"] = min(grace,
                                                         metadata.get("deletionGracePeriodSeconds", grace))
            if not rules.waits(obj):
                return self.store.remove(kind, key), True
            if obj == old:
                return old, False
            if not metadata.get("deletionTimestamp"):
                metadata["generation"] = metadata.get("generation", 1) + 1
            metadata["deletionTimestamp"] = rules.stamp(time.time() + metadata["deletionGracePeriodSeconds"])
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
            conditions.append({"type": "PodScheduled", "status": "True", "lastTransitionTime": rules.now()})
            self.store.put(pods, key, pod)

    def _begin(self, kind, obj):
        rules.begin(kind, obj)
        if kind.kind == "Pod":
            classes = self.registry.find("scheduling.k8s.io", "v1", "priorityclasses")
            priorities.admit(obj, self.store.list(classes, "")[0])

    def _check_new(self, kind, key):
        rules.check_name(kind, key[1])
        if kind.namespaced:
            namespaces = self.registry.find("", "v1", "namespaces")
            namespace = self.get(namespaces, ("", key[0]))
            if namespace["metadata"].get("deletionTimestamp"):
                raise ApiError(
                    403, "Forbidden", f"unable to create new content in namespace {key[0]} because it is "
                    "being terminated")
        if self.store.get(kind, key) is not None:
            raise already_exists(kind, key[1])

    def _update(self, kind, key, old, new, change, subresource, applied=False):
        rules.check_version(kind, key, old, new)
        new = rules.carried_over(kind, old, new, subresource)
        rules.check(kind, new, change, old)
        if rules.content(new) == rules.content(old) and not applied:
            return old
        spec_of = lambda obj: {
            name: value
            for name, value in obj.items() if name not in ("metadata", "status")
        }
        if spec_of(new) != spec_of(old):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        if not applied:
            fields.note_update(kind, old, new, change.manager, subresource, rules.now())
        elif rules.without_times(new) == rules.without_times(old):
            return old
        return self._put(kind, key, new, change)

    def _put(self, kind, key, obj, change):
        if change.dry_run:
            return obj
        metadata = obj["metadata"]
        if kind.kind == "CustomResourceDefinition":
            self.registry.register(kinds.kinds_of_crd(obj))
        if metadata.get("deletionTimestamp") and not rules.waits(obj):
            # The last finalizer has gone: so does the object.
            self.store.put(kind, key, obj)
            return self.store.remove(kind, key)
        return self.store.put(kind, key, obj)

    def _set_scale(self, kind, key, old, view, change):
        return scale.view(kind, self._update(kind, key, old, scale.scaled(kind, old, view), change, ""))
