"""What stands in the cluster, and what has happened to it, in the order in which it did.

Objects are never changed once they are in it: each change is another object, with another resourceVersion.
"""

import dataclasses
import json
import pickle
import threading

from .errors import expired


@dataclasses.dataclass(eq=False)
class Event:
    revision: int
    # "ADDED", "MODIFIED", "DELETED".
    type: str
    object: dict
    # What it was before; None: it was not there.
    before: dict
    _lines: dict = dataclasses.field(default_factory=dict)

    def line(self, kind_of_event):
        """The event as a watch tells it, which is made once for all watches."""
        if kind_of_event not in self._lines:
            text = json.dumps({"type": kind_of_event, "object": self.object}, separators=(",", ":"))
            self._lines[kind_of_event] = text.encode() + b"\n"
        return self._lines[kind_of_event]


class Store:
    """Thread-safe; whoever decides something by what it reads holds `lock` meanwhile."""

    def __init__(self, history=20000):
        self.lock = threading.RLock()
        self._changed = threading.Condition(self.lock)
        self._history = history
        self._revision = 1
        # By type: objects by (namespace, name), events in order.
        self._objects = {}
        self._events = {}
        # What was before this is forgotten.
        self._compacted = 0
        # Called with (kind, event) for each, with the lock held.
        self.subscribers = []
        # Counts compact(): pages of lists that began before it are forgotten.
        self.era = 0

    @property
    def revision(self):
        with self.lock:
            return self._revision

    def get(self, kind, key):
        with self.lock:
            return self._objects.get(kind.id, {}).get(key)

    def list(self, kind, namespace=""):
        """The objects in order of their names, and the revision of that."""
        with self.lock:
            objects = self._objects.get(kind.id, {})
            found = [objects[key] for key in sorted(objects) if not namespace or key[0] == namespace]
            return found, self._revision

    def put(self, kind, key, obj):
        """Takes the object over, gives it its resourceVersion, and returns it."""
        with self.lock:
            objects = self._objects.setdefault(kind.id, {})
            before = objects.get(key)
            objects[key] = obj
            self._tell(kind, "MODIFIED" if before else "ADDED", obj, before)
            return obj

    def remove(self, kind, key):
        """The object as it was when it went."""
        with self.lock:
            before = self._objects[kind.id].pop(key)
            last = {**before, "metadata": dict(before["metadata"])}
            self._tell(kind, "DELETED", last, before)
            return last

    def _tell(self, kind, what, obj, before):
        self._revision += 1
        obj["metadata"]["resourceVersion"] = str(self._revision)
        events = self._events.setdefault(kind.id, [])
        event = Event(self._revision, what, obj, before)
        events.append(event)
        if len(events) > self._history:
            self._compacted = max(self._compacted, events[len(events) // 2].revision)
            del events[:len(events) // 2 + 1]
        for subscriber in self.subscribers:
            subscriber(kind, event)
        self._changed.notify_all()

    def compact(self):
        """Forgets all that has happened."""
        with self.lock:
            self._compacted = self._revision
            self._events.clear()
            self.era += 1
            self._changed.notify_all()

    def save(self, path):
        """What a restart needs: as etcd, the file has what has happened, too. It is the last that is done: nothing may be answered
        that is not in it."""
        self.lock.acquire()
        with open(path, "wb") as file:
            pickle.dump((self._revision, self._compacted, self._objects, self._events), file)

    def load(self, path):
        """Before anybody uses it."""
        with self.lock, open(path, "rb") as file:
            self._revision, self._compacted, self._objects, self._events = pickle.load(file)

    def wake(self):
        """Ends all waits for events."""
        with self.lock:
            self._changed.notify_all()

    def events_after(self, kind, revision, timeout):
        """Waits for events, so long at most. Returns them, and the revision up to which they are all."""
        with self.lock:
            if not self._after(kind, revision):
                self._changed.wait(timeout)
            if revision < self._compacted:
                raise expired(f"too old resource version: {revision} ({self._compacted})")
            return self._after(kind, revision), self._revision

    def _after(self, kind, revision):
        events = self._events.get(kind.id, [])
        first = len(events)
        while first > 0 and events[first - 1].revision > revision:
            first -= 1
        return events[first:]
