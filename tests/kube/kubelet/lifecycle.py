"""The controllers that look after nodes: who is silent is not ready, and loses its pods after a while; pods whose node has gone go."""

import collections
import threading
import time

from . import fit, status
from .client import MERGE, Refused
from .scheduler import ENDED, path_of

UNREACHABLE = "node.kubernetes.io/unreachable"


class Lifecycle:
    """Thread-safe. `grace`: seconds that a node may be silent; `eviction`: that pods stay then, if they don't say."""

    def __init__(self, client, grace, eviction):
        self._client, self._grace, self._eviction = client, grace, eviction
        self._lock = threading.Lock()
        self._nodes, self._pods = {}, {}
        # By node: what its lease said last, and since when; and since when it is silent.
        self._leases = {}
        self._silent_since = {}
        # By name of a node that is not there, but pods on it are: since when.
        self._missing_since = {}

    def start(self):
        threading.Thread(target=self._run, daemon=True).start()

    def node_changed(self, node):
        with self._lock:
            self._nodes[node["metadata"]["name"]] = node

    def node_gone(self, node):
        with self._lock:
            self._nodes.pop(node["metadata"]["name"], None)

    def pod_changed(self, pod):
        with self._lock:
            self._pods[pod["metadata"]["uid"]] = pod

    def pod_gone(self, pod):
        with self._lock:
            self._pods.pop(pod["metadata"]["uid"], None)

    def lease_changed(self, lease):
        with self._lock:
            name, renewed = lease["metadata"]["name"], lease["spec"].get("renewTime")
            if self._leases.get(name, ("", 0))[0] != renewed:
                self._leases[name] = (renewed, time.monotonic())

    def lease_gone(self, lease):
        with self._lock:
            self._leases.pop(lease["metadata"]["name"], None)

    def _run(self):
        while True:
            time.sleep(min(1, self._grace / 4))
            try:
                self._look()
            except Refused as error:
                if error.code not in (404, 409):
                    raise

    def _look(self):
        with self._lock:
            nodes, leases = dict(self._nodes), dict(self._leases)
            pods = collections.defaultdict(list)
            for pod in self._pods.values():
                if pod["spec"].get("nodeName"):
                    pods[pod["spec"]["nodeName"]].append(pod)
        now = time.monotonic()
        for name, node in nodes.items():
            if name in leases:
                self._look_at(node, now - leases[name][1] > self._grace, pods[name], now)
            self._evict(node, pods[name], now)
        missing = pods.keys() - nodes.keys()
        self._missing_since = {name: self._missing_since.get(name, now) for name in missing}
        for name in missing:
            # It may be that the node is only about to be seen.
            if now - self._missing_since[name] > self._grace:
                for pod in pods[name]:
                    self._collect(pod)

    def _look_at(self, node, is_silent, pods, now):
        name = node["metadata"]["name"]
        if is_silent and name not in self._silent_since:
            self._silent_since[name] = now
            unknown = status.condition("Ready", False, time.time(), "NodeStatusUnknown",
                                       "Kubelet stopped posting node status.")
            self._client.patch_status(f"/api/v1/nodes/{name}",
                                      {"conditions": [{
                                          **unknown, "status": "Unknown"
                                      }]})
            self._taint(node, [{
                "key": UNREACHABLE,
                "effect": effect
            } for effect in ("NoSchedule", "NoExecute")])
            for pod in pods:
                if pod["status"].get("phase") not in ENDED:
                    self._client.patch_status(
                        path_of(pod),
                        {"conditions": [status.condition("Ready", False, time.time(), "NodeNotReady")]})
        elif not is_silent and name in self._silent_since:
            del self._silent_since[name]
            self._taint(node, [])

    def _taint(self, node, taints):
        kept = [taint for taint in node["spec"].get("taints") or () if taint["key"] != UNREACHABLE]
        self._client.call("PATCH", f"/api/v1/nodes/{node['metadata']['name']}",
                          {"spec": {
                              "taints": kept + taints
                          }}, MERGE)

    def _evict(self, node, pods, now):
        """Of what its NoExecute taints drive away."""
        for taint in node["spec"].get("taints") or ():
            if taint["effect"] != "NoExecute":
                continue
            since = self._silent_since.get(node["metadata"]["name"],
                                           now) if taint["key"] == UNREACHABLE else now
            for pod in pods:
                stays = fit.stays_seconds(pod, taint, self._eviction if taint["key"] == UNREACHABLE else 0)
                is_due = stays is not None and now - since >= stays
                if is_due and not pod["metadata"].get("deletionTimestamp"):
                    self._disrupt(pod, "DeletionByTaintManager",
                                  "Taint manager: deleting due to NoExecute taint", {})
                    self._client.call("DELETE", path_of(pod), {})

    def _collect(self, pod):
        is_live = pod["status"].get("phase") not in ENDED
        self._disrupt(pod, "DeletionByPodGC", "PodGC: node no longer exists",
                      {"phase": "Failed"} if is_live else {})
        self._client.call("DELETE", path_of(pod), {
            "gracePeriodSeconds": 0,
            "preconditions": {
                "uid": pod["metadata"]["uid"]
            }
        })

    def _disrupt(self, pod, reason, message, more):
        disrupted = status.condition("DisruptionTarget", True, time.time(), reason, message)
        self._client.patch_status(path_of(pod), {"conditions": [disrupted], **more})
