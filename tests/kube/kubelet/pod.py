"""The life of one pod on its node."""

import pathlib
import shutil
import signal
import subprocess
import threading
import time

from . import programs, refusals
from .container import Container
from .environment import Environment, Missing
from .images import PULLING
from .objects import Objects
from .report import Report
from .scheduler import path_of
from .volumes import Volumes

RETRY_SECONDS = 0.5


class Pod:
    """Thread-safe. Its own threads start containers, stop them, and report."""

    def __init__(self, pod, host, ip):
        """`host`: the machine that it is on; see kubelet.py."""
        self._pod, self._host, self._ip = pod, host, ip
        self.uid, self.path = pod["metadata"]["uid"], path_of(pod)
        folder = pathlib.Path(host.machine.root) / "pods" / self.uid
        self._logs = folder / "logs"
        self._logs.mkdir(parents=True)
        objects = Objects(host.client, pod)
        self._environment = Environment(pod, objects, ip, host.address, host.allocatable)
        self._volumes = Volumes(pod, folder / "volumes", objects, self._environment, host.claims)
        # Guards the following.
        self._changed = threading.Condition()
        self._kill_at = None
        self._is_initialized = self._is_over = False
        reason = "PodInitializing" if pod["spec"].get("initContainers") else "ContainerCreating"
        make = lambda spec: Container(spec, self._logs / spec["name"], reason, self._note)
        self._inits = [make(spec) for spec in pod["spec"].get("initContainers") or ()]
        self._mains = [make(spec) for spec in pod["spec"]["containers"]]
        self._report = Report(self, pod, host, ip)

    @property
    def containers(self):
        return [*self._inits, *self._mains]

    @property
    def inits(self):
        return self._inits

    @property
    def mains(self):
        return self._mains

    @property
    def is_initialized(self):
        return self._is_initialized

    @property
    def is_over(self):
        return self._is_over

    @property
    def is_stopping(self):
        return self._kill_at is not None

    def start(self):
        self._report.start()
        refused = refusals.lacking(self._pod)
        if refused:
            self._report.refuse("NotInThisDouble", f"the kubelet double can't do this: {refused}")
            self._finish()
        else:
            threading.Thread(target=self._run, daemon=True).start()

    def lose(self):
        """Whatever ran of it is gone: the machine has been off."""
        self._report.start()
        for container in self.containers:
            container.end(137, "ContainerStatusUnknown",
                          "The container could not be located when the pod was "
                          "terminated")
        self._finish()

    def stop(self, grace):
        """Its object is being deleted. May be called again, with less grace."""
        with self._changed:
            is_first = self._kill_at is None
            end = time.monotonic() + grace
            self._kill_at = end if is_first else min(end, self._kill_at)
            self._changed.notify_all()
        if is_first:
            threading.Thread(target=self._stop, daemon=True).start()
        self._report.note()

    def kill(self, reason=""):
        for container in self.containers:
            container.signal(signal.SIGKILL, reason)

    def await_processes(self):
        """Until none runs."""
        for container in self.containers:
            if container.is_running:
                container.ended.wait()

    def forget(self):
        """Its object has gone."""
        self.stop(0)
        with self._changed:
            self._changed.wait_for(lambda: self._is_over)
        self._report.end()
        self._volumes.remove()
        shutil.rmtree(self._logs.parent)
        for container in self.containers:
            self._host.machine.forget(self._world_name(container))

    def log(self, name):
        """None: it has no such container. With no name: its only one."""
        fitting = [one.log for one in self.containers if name in (one.name, "")]
        return fitting[0] if len(fitting) == 1 else None

    def execute(self, name, command):
        """Runs a program in the container; a Popen with pipes. None: that does not run."""
        fitting = [one for one in self._mains if name in (one.name, "")]
        return fitting[0].execute(command) if len(fitting) == 1 else None

    @property
    def ip(self):
        return self._ip

    # What its threads do.

    def _note(self):
        with self._changed:
            self._changed.notify_all()
        self._report.note()

    def _run(self):
        if self._has_volumes() and self._initialize():
            for container in self._mains:
                self._begin(container)
            for container in self._mains:
                container.ended.wait()
        self._end_sidecars()
        for container in self.containers:
            if container.exit_code is None:
                container.end(137, "ContainerStatusUnknown", "it was never started")
        self._finish()

    def _finish(self):
        with self._changed:
            self._is_over = True
            self._changed.notify_all()
        self._report.note()

    def _has_volumes(self):
        return self._until_there(
            lambda: (self._volumes.make(), ),
            lambda missing: self._mains[0].wait_for("ContainerCreating", str(missing))) is not None

    def _initialize(self):
        """Whether the containers may start."""
        for container in self._inits:
            self._begin(container)
            if container.spec.get("restartPolicy") != "Always":
                container.ended.wait()
                if container.exit_code:
                    return False
            if self.is_stopping:
                return False
        self._is_initialized = True
        return True

    def _begin(self, container):
        """When this returns, it runs or has ended."""
        world = self._until_there(lambda: self._world_of(container),
                                  lambda missing: self._wait_for(container, missing))
        if world is None:
            container.end(137, "ContainerStatusUnknown", "it was never started")
            return
        files, more = world
        reason = programs.why_not(more["command"][0], more["environment"]["PATH"], more["directory"],
                                  more["mounts"])
        if reason:
            container.end(128, "StartError", reason)
            return
        message = self._logs / (container.name + ".message")
        message.touch()
        script = self._host.machine.script(
            self._world_name(container), self._host_name(), files,
            more.pop("mounts") + self._volumes.message_mount(container, message), **more)
        container.run(script, message)

    def _world_name(self, container):
        return f"{self.uid}-{container.name}"

    def _until_there(self, attempt, on_missing):
        """What the attempt returns, once nothing is missing. None: the pod is to end."""
        while not self.is_stopping:
            try:
                return attempt()
            except Missing as missing:
                on_missing(missing)
            except (OSError, ValueError, subprocess.CalledProcessError) as error:
                on_missing(Missing(repr(error)))
            with self._changed:
                self._changed.wait_for(lambda: self.is_stopping, RETRY_SECONDS)
        return None

    @staticmethod
    def _wait_for(container, missing):
        reason = missing.reason
        before = container.state.get("waiting", {}).get("reason")
        if reason == PULLING[0] and before in PULLING:
            reason = PULLING[1]
        container.wait_for(reason, str(missing))

    def _host_name(self):
        return self._pod["spec"].get("hostname") or self._pod["metadata"]["name"][:63]

    def _world_of(self, container):
        """Raises Missing."""
        image = self._host.images.find(container.spec.get("image", ""))
        environment = self._environment.of(container.spec, image.get("env") or {})
        name = self._host_name()
        files = {"/etc/hosts": f"127.0.0.1\tlocalhost\n{self._ip}\t{name}\n", "/etc/hostname": name + "\n"}
        command = container.command(image, environment)
        if not command:
            raise Missing(f"no command specified for {container.spec.get('image')}", "CreateContainerError")
        return files, {
            "mounts": self._volumes.mounts_of(container.spec),
            "environment": environment,
            "directory": container.spec.get("workingDir") or image.get("workingDir") or "/",
            "command": command
        }

    def _end_sidecars(self):
        """In the reverse of their order, when the others have ended; they have what grace is left."""
        for container in reversed(self._inits):
            if container.is_running:
                grace = self._pod["spec"].get("terminationGracePeriodSeconds", 30)
                container.signal(signal.SIGTERM)
                if not container.ended.wait(grace):
                    container.signal(signal.SIGKILL)
                container.ended.wait()

    def _stop(self):
        """Signals all that run, and those that come to run meanwhile."""
        told = set()
        while True:
            with self._changed:
                if self._is_over:
                    return
                left = self._kill_at - time.monotonic()
            for container in self.containers:
                is_sidecar = container.spec.get("restartPolicy") == "Always"
                if left <= 0:
                    container.signal(signal.SIGKILL)
                elif container.is_running and not is_sidecar and container.name not in told:
                    told.add(container.name)
                    container.signal(signal.SIGTERM)
            with self._changed:
                if not self._is_over:
                    self._changed.wait(max(min(left, RETRY_SECONDS), 0.01))
