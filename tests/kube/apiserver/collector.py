"""What follows a deletion: objects whose owners are gone go, too; an owner that waits for them goes after them; and a
namespace, or the type of a CRD, goes when it is empty.
"""

import collections
import copy
import threading

from .errors import ApiError
from .rules import waits
from .store import Event


def key_of(obj):
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def owners_of(obj):
    return obj["metadata"].get("ownerReferences") or ()


def finalizers_of(obj):
    return obj["metadata"].get("finalizers") or ()


class Collector:
    """Its thread looks at objects that a change may concern: at each by itself, so that the work does not grow with the
    cluster."""

    def __init__(self, store, rest, registry):
        self._store, self._rest, self._registry = store, rest, registry
        # By uid, with the store's lock held: what is there, and who depends on it.
        self._present = {}
        self._dependents = collections.defaultdict(set)
        # Namespaces and CRDs that are to go when they are empty.
        self._containers = set()
        self._queue = collections.OrderedDict()
        self._queued = threading.Condition(store.lock)
        with store.lock:
            # What is there already is seen as if it came now.
            for kind in registry.all():
                for obj in store.list(kind)[0]:
                    self._note(kind, Event(0, "ADDED", obj, None))
            store.subscribers.append(self._note)

    def start(self):
        threading.Thread(target=self._run, daemon=True).start()

    def _note(self, kind, event):
        obj, uid = event.object, event.object["metadata"]["uid"]
        for owner in owners_of(event.before or {"metadata": {}}):
            self._dependents[owner["uid"]].discard(uid)
        if event.type == "DELETED":
            self._present.pop(uid, None)
            self._containers.discard(uid)
            affected = [
                *self._dependents.pop(uid, ()), *(owner["uid"] for owner in owners_of(obj)), *self._containers
            ]
        else:
            self._present[uid] = (kind, key_of(obj))
            for owner in owners_of(obj):
                self._dependents[owner["uid"]].add(uid)
            affected = [uid]
            if obj["metadata"].get("deletionTimestamp"):
                affected += self._dependents[uid]
                if obj["kind"] in ("Namespace", "CustomResourceDefinition"):
                    self._containers.add(uid)
        for other in affected:
            self._queue[other] = True
        self._queued.notify_all()

    def _run(self):
        while True:
            with self._store.lock:
                while not self._queue:
                    self._queued.wait()
                uid, _ = self._queue.popitem(last=False)
                kind, key = self._present.get(uid, (None, None))
                if kind is None:
                    continue
                try:
                    self._look_at(kind, key, self._store.get(kind, key))
                except ApiError as error:
                    print(f"collector: {error}", flush=True)

    def _object(self, uid):
        kind, key = self._present.get(uid, (None, None))
        return self._store.get(kind, key) if kind else None

    def _look_at(self, kind, key, obj):
        if not obj["metadata"].get("deletionTimestamp"):
            owners = [self._object(owner["uid"]) for owner in owners_of(obj)]
            if owners and not any(self._keeps(owner) for owner in owners):
                self._rest.delete(kind, key, {"propagationPolicy": "Background"})
        elif "orphan" in finalizers_of(obj):
            for uid in list(self._dependents[obj["metadata"]["uid"]]):
                self._disown(uid, obj["metadata"]["uid"])
            self._finish(kind, key, obj, "orphan")
        elif "foregroundDeletion" in finalizers_of(obj):
            if not self._blockers_of(obj["metadata"]["uid"]):
                self._finish(kind, key, obj, "foregroundDeletion")
        elif kind.kind == "Namespace":
            self._empty(kind, key, [(other, item) for other in self._registry.all() if other.namespaced
                                    for item in self._store.list(other, key[1])[0]])
        elif kind.kind == "CustomResourceDefinition":
            names = (obj["spec"]["group"], obj["spec"]["names"]["plural"])
            types = {other.id: other for other in self._registry.all() if other.id == names}
            if self._empty(kind, key, [(other, item) for other in types.values()
                                       for item in self._store.list(other)[0]]):
                self._registry.unregister(*names)

    @staticmethod
    def _keeps(owner):
        """Whether an owner keeps its dependents."""
        if owner is None:
            return False
        return not (owner["metadata"].get("deletionTimestamp")
                    and "foregroundDeletion" in finalizers_of(owner))

    def _blockers_of(self, uid):
        for dependent in self._dependents[uid]:
            obj = self._object(dependent)
            if any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in owners_of(obj)):
                return True
        return False

    def _disown(self, uid, owner_uid):
        kind, key = self._present[uid]
        obj = copy.deepcopy(self._store.get(kind, key))
        obj["metadata"]["ownerReferences"] = [owner for owner in owners_of(obj) if owner["uid"] != owner_uid]
        self._store.put(kind, key, obj)

    def _finish(self, kind, key, obj, finalizer):
        obj = copy.deepcopy(obj)
        obj["metadata"]["finalizers"].remove(finalizer)
        self._store.put(kind, key, obj)
        if not waits(obj):
            self._store.remove(kind, key)

    def _empty(self, kind, key, items):
        """Deletes what is in it; when nothing is left, itself. Whether that was so."""
        for other, item in items:
            if not item["metadata"].get("deletionTimestamp"):
                self._rest.delete(other, key_of(item), {"propagationPolicy": "Background"})
        if not items:
            self._store.remove(kind, key)
        return not items
