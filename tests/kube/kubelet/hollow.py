"""Pods that are not run: they are Running until they are deleted. For thousands of them: without threads of their own."""

import concurrent.futures
import time

from . import refusals, status
from .client import Refused
from .scheduler import path_of

# Calls to the API server at a time.
WORKERS = 4


class Workers:

    def __init__(self):
        self._pool = concurrent.futures.ThreadPoolExecutor(WORKERS)

    def do(self, work, *arguments):
        self._pool.submit(self._safely, work, *arguments)

    @staticmethod
    def _safely(work, *arguments):
        try:
            work(*arguments)
        except Refused as error:
            print(f"hollow: {error}", flush=True)


class HollowPod:
    """As pod.Pod, to its node."""

    def __init__(self, pod, host, ip):
        self._pod, self._host, self._ip = pod, host, ip
        self._path = path_of(pod)
        self._is_stopping = False

    def start(self):
        self._host.workers.do(self._say, {"running": {"startedAt": status.stamp(time.time())}})

    def lose(self):
        self.start()

    def stop(self, _grace):
        if not self._is_stopping:
            self._is_stopping = True
            self._host.workers.do(self._delete)

    def kill(self, reason=""):
        now = time.time()
        self._host.workers.do(self._say, status.terminated(137, now, now, reason))

    def await_processes(self):
        pass

    def forget(self):
        pass

    def log(self, _name):
        return None

    ip = None

    def execute(self, _name, _command):
        return None

    def _say(self, state):
        self._host.connected.wait()
        lacking = refusals.lacking(self._pod)
        now, is_running = time.time(), "running" in state
        said = {
            "phase":
            "Running" if is_running else "Failed",
            "hostIP":
            self._host.address,
            "podIP":
            self._ip,
            "podIPs": [{
                "ip": self._ip
            }],
            "startTime":
            status.stamp(now),
            "conditions":
            [status.condition(kind, is_running, now) for kind in ("Initialized", "ContainersReady", "Ready")],
            "containerStatuses":
            [status.container_status(spec, state) for spec in self._pod["spec"]["containers"]]
        }
        if lacking:
            said = {"phase": "Failed", "reason": "NotInThisDouble", "message": lacking}
        self._host.client.patch_status(self._path, said)

    def _delete(self):
        self._host.connected.wait()
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._pod["metadata"]["uid"]}}
        try:
            self._host.client.call("DELETE", self._path, options)
        except Refused as error:
            if error.code not in (404, 409):
                raise
