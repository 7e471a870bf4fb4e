"""Binds pods to nodes: to the first by name that has room, and tries again when something has changed."""

import collections
import threading
import time

from . import fit
from .client import Refused
from .status import condition

SCHEDULER = "default-scheduler"
ENDED = ("Succeeded", "Failed")


def path_of(pod):
    metadata = pod["metadata"]
    return f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"


class Scheduler:
    """Thread-safe. pod_changed and the like are told what the watches tell."""

    def __init__(self, client):
        self._client = client
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._nodes = {}
        # By uid: pods that wait, and what those on nodes take: (node, resources).
        self._waiting = {}
        self._placed = {}
        self._taken = collections.defaultdict(collections.Counter)
        self._version = 0

    def start(self):
        threading.Thread(target=self._run, daemon=True).start()

    def node_changed(self, node):
        with self._lock:
            self._nodes[node["metadata"]["name"]] = node
            self._wake()

    def node_gone(self, node):
        with self._lock:
            self._nodes.pop(node["metadata"]["name"], None)

    def pod_changed(self, pod):
        uid, spec = pod["metadata"]["uid"], pod["spec"]
        with self._lock:
            if pod["status"].get("phase") in ENDED:
                self._forget(uid)
            elif spec.get("nodeName"):
                self._waiting.pop(uid, None)
                self._place(uid, spec["nodeName"], fit.requests(pod))
            elif pod["metadata"].get("deletionTimestamp") or spec.get("schedulingGates"):
                self._waiting.pop(uid, None)
            elif spec.get("schedulerName", SCHEDULER) == SCHEDULER and uid not in self._placed:
                is_new = uid not in self._waiting
                self._waiting[uid] = pod
                if is_new:
                    self._wake()

    def pod_gone(self, pod):
        with self._lock:
            self._forget(pod["metadata"]["uid"])

    # With the lock held.

    def _wake(self):
        self._version += 1
        self._changed.notify_all()

    def _place(self, uid, node, wanted):
        if uid not in self._placed:
            self._placed[uid] = (node, wanted)
            self._taken[node].update(wanted)

    def _forget(self, uid):
        self._waiting.pop(uid, None)
        if uid in self._placed:
            node, wanted = self._placed.pop(uid)
            self._taken[node].subtract(wanted)
            self._wake()

    def _run(self):
        seen = 0
        while True:
            with self._lock:
                while self._version == seen:
                    self._changed.wait()
                seen = self._version
                waiting = list(self._waiting.values())
            for pod in waiting:
                self._schedule(pod)

    def _schedule(self, pod):
        uid = pod["metadata"]["uid"]
        wanted = fit.requests(pod)
        with self._lock:
            if uid not in self._waiting:
                return
            reasons = collections.Counter()
            chosen = None
            for name in sorted(self._nodes):
                reason = fit.why_not(pod, self._nodes[name], wanted, self._taken[name])
                if not reason:
                    chosen = name
                    break
                reasons[reason] += 1
            if chosen:
                del self._waiting[uid]
                self._place(uid, chosen, wanted)
            count = len(self._nodes)
        if chosen:
            self._bind(pod, chosen)
        else:
            self._refuse(pod, count, reasons)

    def _bind(self, pod, node):
        metadata = pod["metadata"]
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"]
            },
            "target": {
                "apiVersion": "v1",
                "kind": "Node",
                "name": node
            }
        }
        try:
            self._client.call("POST", path_of(pod) + "/binding", binding)
        except Refused:  # it is gone, or somebody else has bound it: the watch tells
            with self._lock:
                self._forget(metadata["uid"])

    def _refuse(self, pod, count, reasons):
        words = ", ".join(f"{number} {reason}" for reason, number in sorted(reasons.items()))
        message = f"0/{count} nodes are available: {words}." if count else "no nodes available to schedule pods"
        old = next((item for item in pod["status"].get("conditions") or () if item["type"] == "PodScheduled"),
                   {})
        if old.get("message") == message:
            return
        refused = condition("PodScheduled", False, time.time(), "Unschedulable", message)
        self._client.patch_status(path_of(pod), {"conditions": [refused]})
