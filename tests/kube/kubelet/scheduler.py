"""Binds pods to nodes: the most important first, each to the first node by name that has room, and tries again when
something has changed. For a pod that finds none, less important ones have to go."""

import collections
import threading
import time

from . import fit, neighbours
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
        # By uid: pods that wait, and those on nodes: (node, pod).
        self._waiting = {}
        self._placed = {}
        # The node on which room is being made, by uid.
        self._nominated = {}
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
                self._placed[uid] = (spec["nodeName"], pod)
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

    def _forget(self, uid):
        self._waiting.pop(uid, None)
        self._nominated.pop(uid, None)
        if self._placed.pop(uid, None):
            self._wake()

    def _others(self):
        """By node: the pods on it."""
        others = collections.defaultdict(list)
        for node, pod in self._placed.values():
            others[node].append(pod)
        return others

    def _why_not(self, pod, node, others):
        taken = collections.Counter()
        for other in others:
            taken.update(fit.requests(other))
        return fit.why_not(pod, node, fit.requests(pod), taken) or neighbours.why_not(pod, others)

    def _choose_victims(self, pod, others):
        """The node where the fewest have to go, and these."""
        best = None
        for name in sorted(self._nodes):
            fits = lambda rest, name=name: not self._why_not(pod, self._nodes[name], rest)
            gone = neighbours.victims(pod, others[name], fits)
            if gone and (best is None or len(gone) < len(best[1])):
                best = (name, gone)
        return best

    def _run(self):
        seen = 0
        while True:
            with self._lock:
                while self._version == seen:
                    self._changed.wait()
                seen = self._version
                waiting = sorted(self._waiting.values(), key=neighbours.priority, reverse=True)
            for pod in waiting:
                self._schedule(pod)

    def _schedule(self, pod):
        uid = pod["metadata"]["uid"]
        with self._lock:
            if uid not in self._waiting:
                return
            reasons = collections.Counter()
            chosen, preempted = None, ()
            others = self._others()
            for name in sorted(self._nodes):
                reason = self._why_not(pod, self._nodes[name], others[name])
                if not reason:
                    chosen = name
                    break
                reasons[reason] += 1
            if chosen:
                del self._waiting[uid]
                self._nominated.pop(uid, None)
                self._placed[uid] = (chosen, pod)
            else:
                preempted = self._preempt(pod, others)
            count = len(self._nodes)
        if chosen:
            self._bind(pod, chosen)
        else:
            self._refuse(pod, count, reasons)
        for victim in preempted:
            self._delete(victim)

    def _preempt(self, pod, others):
        """Who has to go for it now. With the lock held."""
        uid = pod["metadata"]["uid"]
        nominated = others[self._nominated.get(uid)]
        makes_room = any(map(neighbours.is_leaving, nominated))
        if makes_room or not neighbours.may_preempt(pod):
            return ()
        best = self._choose_victims(pod, others)
        if not best:
            return ()
        self._nominated[uid] = best[0]
        return [victim for victim in best[1] if not neighbours.is_leaving(victim)]

    def _delete(self, victim):
        reason = "default-scheduler: preempting to accommodate a higher priority pod"
        disrupted = condition("DisruptionTarget", True, time.time(), "PreemptionByScheduler", reason)
        try:
            self._client.patch_status(path_of(victim), {"conditions": [disrupted]})
            self._client.call("DELETE", path_of(victim), {"preconditions": {"uid": victim["metadata"]["uid"]}})
        except Refused as error:
            if error.code not in (404, 409):
                raise

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
