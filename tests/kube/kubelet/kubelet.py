"""All nodes of the process: what the watches tell goes to those whom it concerns."""

import itertools
import os
import threading
import time

from .client import MERGE, Reflector
from .lifecycle import Lifecycle
from .node import LEASES, Node
from .scheduler import Scheduler
from .server import NotThere


def addresses():
    """Of pods: in 127.0.0.0/8, all of which is this machine's; another part of it for each process."""
    block = 1 + os.getpid() % 250
    for number in itertools.count(2):
        yield f"127.{block}.{number >> 8 & 255}.{number & 255}"


class Kubelet:
    """Thread-safe."""

    def __init__(self, shared, descriptions, grace, eviction):
        self._shared, self._client = shared, shared.client
        self._grace = grace
        self._scheduler = Scheduler(self._client)
        self._lifecycle = Lifecycle(self._client, grace, eviction)
        self._lock = threading.Lock()
        self._nodes = {one["name"]: Node(one, shared) for one in descriptions}
        # By (namespace, name).
        self._pods = {}
        self._is_new = True

    def start(self):
        for node in self._nodes.values():
            node.register()
        for path, changed, gone in (("/api/v1/nodes", self._node_changed, self._node_gone),
                                    (LEASES, self._lifecycle.lease_changed, self._lifecycle.lease_gone),
                                    ("/api/v1/persistentvolumeclaims", self._shared.claims.changed,
                                     self._shared.claims.gone), ("/api/v1/pods", self._pod_changed,
                                                                 self._pod_gone)):
            Reflector(self._client, path, changed, gone).start()
        self._is_new = False
        self._scheduler.start()
        self._lifecycle.start()
        threading.Thread(target=self._renew, daemon=True).start()

    def stop(self):
        """Ends all that it has started."""
        with self._lock:
            nodes = list(self._nodes.values())
        for node in nodes:
            node.crash()
        for node in nodes:
            node.await_processes()

    def log(self, namespace, name, container):
        """None: there is none."""
        pod = self.pod(namespace, name)
        return pod.log(container) if pod else None

    def pod(self, namespace, name):
        """None: there is none on a machine that is heard of."""
        with self._lock:
            obj = self._pods.get((namespace, name))
            node = obj and self._nodes.get(obj["spec"].get("nodeName"))
        return node.pod(obj["metadata"]["uid"]) if node and node.connected.is_set() else None

    # Orders.

    def obey(self, method, parts, body):
        if parts == ["nodes"] and method == "POST":
            return self._add(body)
        if parts[0] == "nodes" and len(parts) == 2 and method == "DELETE":
            return self._remove(parts[1])
        if parts[0] == "nodes" and len(parts) == 3 and method == "POST":
            return self._order_node(*parts[1:])
        if parts[0] == "pods" and len(parts) == 4 and method == "POST":
            return self._order_pod(*parts[1:])
        raise NotThere("there is no such order")

    def _node(self, name):
        with self._lock:
            if name not in self._nodes:
                raise NotThere("there is no such node")
            return self._nodes[name]

    def _add(self, description):
        node = Node(description, self._shared)
        with self._lock:
            before = self._nodes.pop(node.name, None)
        if before:
            before.remove()
        with self._lock:
            self._nodes[node.name] = node
        node.register()

    def _remove(self, name):
        node = self._node(name)
        with self._lock:
            del self._nodes[name]
        node.remove()

    def _order_node(self, name, order):
        node = self._node(name)
        if order in ("cordon", "uncordon"):
            spec = {"unschedulable": True if order == "cordon" else None}
            self._client.call("PATCH", f"/api/v1/nodes/{name}", {"spec": spec}, MERGE)
        elif order in ("silence", "wake", "crash"):
            getattr(node, order)()
        else:
            raise NotThere("there is no such order")

    def _order_pod(self, namespace, name, order):
        if order == "evict":
            eviction = {
                "apiVersion": "policy/v1",
                "kind": "Eviction",
                "metadata": {
                    "name": name,
                    "namespace": namespace
                }
            }
            return self._client.call("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", eviction)
        with self._lock:
            obj = self._pods.get((namespace, name))
        if obj is None or order != "oom" or not obj["spec"].get("nodeName"):
            raise NotThere("there is no such pod on a node, or no such order")
        pod = self._node(obj["spec"]["nodeName"]).pod(obj["metadata"]["uid"])
        if pod is None:
            raise NotThere("the pod has ended")
        return pod.kill("OOMKilled")

    # What the watches tell.

    def _node_changed(self, node):
        self._scheduler.node_changed(node)
        self._lifecycle.node_changed(node)
        with self._lock:
            machine = self._nodes.get(node["metadata"]["name"])
        if machine:
            machine.object_changed(node)

    def _node_gone(self, node):
        self._scheduler.node_gone(node)
        self._lifecycle.node_gone(node)

    def _pod_changed(self, pod):
        metadata = pod["metadata"]
        with self._lock:
            self._pods[(metadata["namespace"], metadata["name"])] = pod
            node = self._nodes.get(pod["spec"].get("nodeName"))
        self._scheduler.pod_changed(pod)
        self._lifecycle.pod_changed(pod)
        if node:
            node.pod_changed(pod, self._is_new)

    def _pod_gone(self, pod):
        metadata = pod["metadata"]
        with self._lock:
            self._pods.pop((metadata["namespace"], metadata["name"]), None)
            node = self._nodes.get(pod["spec"].get("nodeName"))
        self._scheduler.pod_gone(pod)
        self._lifecycle.pod_gone(pod)
        if node:
            node.pod_gone(metadata["uid"])

    def _renew(self):
        while True:
            time.sleep(min(10, self._grace / 4))
            with self._lock:
                nodes = list(self._nodes.values())
            for node in nodes:
                node.renew()
