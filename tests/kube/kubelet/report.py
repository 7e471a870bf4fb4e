"""Reports what has become of a pod, and takes its object away when it is to go and nothing of it runs."""

import threading
import time

from . import status
from .client import Refused


class Report:
    """Thread-safe. Its thread says the newest only."""

    def __init__(self, pod, made, host, ip):
        self._pod, self._made, self._host, self._ip = pod, made, host, ip
        self._noted = threading.Condition()
        self._is_dirty, self._is_ended = True, False
        self._began = time.time()
        self._refusal = {}
        # By type, as they were said last.
        self._conditions = {}

    def start(self):
        threading.Thread(target=self._run, daemon=True).start()

    def note(self):
        """Something has changed."""
        with self._noted:
            self._is_dirty = True
            self._noted.notify_all()

    def refuse(self, reason, message):
        self._refusal = {"phase": "Failed", "reason": reason, "message": message}

    def end(self):
        with self._noted:
            self._is_ended = True
            self._noted.notify_all()

    def _run(self):
        while True:
            with self._noted:
                self._noted.wait_for(lambda: self._is_dirty or self._is_ended)
                if self._is_ended:
                    return
                self._is_dirty = False
            self._host.connected.wait()
            # In this order: what has ended by now is in the status.
            is_last = self._pod.is_over and self._pod.is_stopping
            if not self._host.client.patch_status(self._pod.path, self._status()):
                return
            if is_last:
                return self._delete()

    def _delete(self):
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": self._pod.uid}}
        try:
            self._host.client.call("DELETE", self._pod.path, options)
        except Refused as error:
            if error.code not in (404, 409):
                raise

    def _status(self):
        said = {"hostIP": self._host.address, "startTime": status.stamp(self._began), "qosClass": "Burstable"}
        if self._refusal:
            return {**said, **self._refusal}
        inits, mains = ([(one, one.state) for one in group] for group in (self._pod.inits, self._pod.mains))
        phase = self._phase(inits, mains)
        said.update({
            "phase":
            phase,
            "podIP":
            self._ip,
            "podIPs": [{
                "ip": self._ip
            }],
            "conditions":
            self._said_conditions(phase, [state for _, state in mains]),
            "containerStatuses": [status.container_status(one.spec, state, one.id) for one, state in mains]
        })
        if inits:
            said["initContainerStatuses"] = [
                status.init_status(one.spec, state, one.id) for one, state in inits
            ]
        return said

    def _phase(self, inits, mains):
        if any(
                state.get("terminated", {}).get("exitCode") for one, state in inits
                if one.spec.get("restartPolicy") != "Always"):
            return "Failed"
        phase = status.phase_of([state for _, state in mains], self._pod.is_initialized or self._pod.is_over)
        # It ends with its sidecars.
        return phase if self._pod.is_over or phase == "Pending" else "Running"

    def _said_conditions(self, phase, mains):
        is_initialized = self._pod.is_initialized
        is_ready = all("running" in state for state in mains)
        reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
        why = "" if is_ready else reason
        self._set("Initialized", is_initialized, "" if is_initialized else "ContainersNotInitialized")
        self._set("ContainersReady", is_ready, why)
        self._set("Ready", is_ready, why)
        return list(self._conditions.values())

    def _set(self, kind, holds, reason):
        old = self._conditions.get(kind)
        new = status.condition(kind, holds, time.time(), reason)
        if old and old["status"] == new["status"]:
            new["lastTransitionTime"] = old["lastTransitionTime"]
        self._conditions[kind] = new
