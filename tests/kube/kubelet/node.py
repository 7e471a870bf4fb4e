"""One node: its object, its lease, and the pods on it."""

import datetime
import threading
import time

from . import status
from .client import MERGE, Refused
from .scheduler import ENDED

LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
LEASE_SECONDS = 40
# What a node has whose description does not say.
USUAL = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}


class Shared:
    """What all nodes of the process have in common. `make_pod`: Pod or HollowPod."""

    def __init__(self, client, machine, claims, images, workers, make_pod, addresses):
        self.client, self.machine, self.claims, self.images = client, machine, claims, images
        self.workers, self.make_pod, self.addresses = workers, make_pod, addresses
        # Where the kubelet serves logs.
        self.port = 0


class Node:
    """Thread-safe. `description`: {"name", "allocatable", "capacity", "labels", "taints"}, all but the name optional."""

    address = "127.0.0.1"

    def __init__(self, description, shared):
        self.name = description["name"]
        self.allocatable = {**USUAL, **(description.get("allocatable") or {})}
        self._description, self._shared = description, shared
        # Whether it hears and says anything.
        self.connected = threading.Event()
        self.connected.set()
        self._lock = threading.Lock()
        self._pods = {}
        # By uid, the newest of each that it has been told while it was silent. None: gone.
        self._unheard = {}
        # Whether its object says that it is ready, as far as is known.
        self._is_ready = True

    def __getattr__(self, name):
        """To its pods it is the machine."""
        return getattr(self.__dict__["_shared"], name)

    # The node's object.

    def register(self):
        labels = {
            "kubernetes.io/hostname": self.name,
            "kubernetes.io/os": "linux",
            "kubernetes.io/arch": "amd64",
            **(self._description.get("labels") or {})
        }
        obj = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": self.name,
                "labels": labels
            },
            "spec": {
                "taints": self._description.get("taints") or []
            }
        }
        try:
            self.client.call("POST", "/api/v1/nodes", obj)
        except Refused as error:
            if error.code != 409:
                raise
            self.client.call("PATCH", f"/api/v1/nodes/{self.name}", {"metadata": {"labels": labels}}, MERGE)
        self.client.patch_status(
            f"/api/v1/nodes/{self.name}", {
                "capacity": {
                    **self.allocatable,
                    **(self._description.get("capacity") or {})
                },
                "allocatable":
                self.allocatable,
                "addresses": [{
                    "type": "InternalIP",
                    "address": self.address
                }, {
                    "type": "Hostname",
                    "address": self.name
                }],
                "daemonEndpoints": {
                    "kubeletEndpoint": {
                        "Port": self.port
                    }
                },
                "nodeInfo": {
                    "kubeletVersion": "double",
                    "operatingSystem": "linux",
                    "architecture": "amd64"
                }
            })
        self.say_ready()
        self.renew()

    def say_ready(self):
        ready = status.condition("Ready", True, time.time(), "KubeletReady",
                                 "kubelet is posting ready status")
        self.client.patch_status(f"/api/v1/nodes/{self.name}", {"conditions": [ready]})

    def object_changed(self, obj):
        conditions = obj["status"].get("conditions") or ()
        self._is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def renew(self):
        """Its lease, unless it is silent; and that it is ready, if others have taken it for lost."""
        if not self.connected.is_set():
            return
        if not self._is_ready:
            self.say_ready()
        now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": self.name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now}
        try:
            self.client.call("PATCH", f"{LEASES}/{self.name}", {"spec": spec}, MERGE)
        except Refused as error:
            if error.code != 404:
                raise
            self.client.call("POST", LEASES, {"metadata": {"name": self.name}, "spec": spec})

    def remove(self):
        """The machine goes, and its object."""
        self.crash()
        for path in (f"/api/v1/nodes/{self.name}", f"{LEASES}/{self.name}"):
            try:
                self.client.call("DELETE", path)
            except Refused as error:
                if error.code != 404:
                    raise
        with self._lock:
            pods = list(self._pods.values())
            self._pods.clear()
        for pod in pods:
            threading.Thread(target=pod.forget, daemon=True).start()

    # What happens to it.

    def silence(self):
        self.connected.clear()

    def crash(self):
        self.silence()
        with self._lock:
            pods = list(self._pods.values())
        for pod in pods:
            pod.kill("ContainerStatusUnknown")

    def await_processes(self):
        """After crash(): until none runs."""
        with self._lock:
            pods = list(self._pods.values())
        for pod in pods:
            pod.await_processes()

    def wake(self):
        with self._lock:
            self.connected.set()
            unheard, self._unheard = self._unheard, {}
        self.say_ready()
        self.renew()
        for uid, pod in unheard.items():
            if pod is None:
                self.pod_gone(uid)
            else:
                self.pod_changed(pod)

    def pod(self, uid):
        with self._lock:
            return self._pods.get(uid)

    def pod_changed(self, obj, is_new_here=False):
        """`is_new_here`: the kubelet has just begun, so that whatever has run is gone."""
        uid, metadata = obj["metadata"]["uid"], obj["metadata"]
        with self._lock:
            if not self.connected.is_set():
                self._unheard[uid] = obj
                return
            pod = self._pods.get(uid)
            is_first = pod is None
            phase = obj["status"].get("phase")
            if is_first:
                if phase in ENDED:
                    return
                pod = self._pods[uid] = self.make_pod(obj, self, next(self.addresses))
        if is_first and is_new_here and obj["status"].get("containerStatuses"):
            pod.lose()
        elif is_first:
            pod.start()
        if metadata.get("deletionTimestamp"):
            pod.stop(metadata.get("deletionGracePeriodSeconds", 0))

    def pod_gone(self, uid):
        with self._lock:
            if not self.connected.is_set():
                self._unheard[uid] = None
                return
            pod = self._pods.pop(uid, None)
        if pod is not None:
            threading.Thread(target=pod.forget, daemon=True).start()
