"""One machine of the emulated cloud: runs its user data as cloud-init does, and then the systemd units that this has started, until it
is told to shut down. What its processes leave behind stays below it, so that who ends it can find all of them.

    machine.py FOLDER      FOLDER has user-data, and the root folder `root`; console.log is what it shows on its console

Stand-ins are found on PATH, and ask for units by files in root/run/units."""

import ctypes
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
LOOK_PERIOD = 0.05


def descendants(pid):
    """Of a process, all that live."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                stat = pathlib.Path("/proc", entry, "stat").read_text()
            except OSError:
                continue
            state, parent = stat.rpartition(")")[2].split()[:2]
            if state != "Z":
                parents.setdefault(int(parent), []).append(int(entry))
    found, waiting = [], [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found


def end_all_below(pid):
    """Processes that make others meanwhile are found, too."""
    while found := descendants(pid):
        for child in found:
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                pass
        time.sleep(LOOK_PERIOD)


class Unit:
    """A service of systemd, as far as ours use it."""

    def __init__(self, path, root, console):
        self.settings = {}
        for line in path.read_text().splitlines():
            name, equals, value = line.partition("=")
            if equals and not line.startswith("#"):
                self.settings.setdefault(name.strip(), []).append(value.strip())
        self.name = path.name
        self.root = root
        self.console = console
        self.process = None
        self.starts_at = 0.0

    def environment(self):
        variables = dict(os.environ)
        for path in self.settings.get("EnvironmentFile", []):
            for line in pathlib.Path(path).read_text().splitlines():
                name, equals, value = line.partition("=")
                if equals and not line.startswith("#"):
                    variables[name.strip()] = value.strip().strip("\"'")
        return variables

    def look(self):
        """Starts it, again where it has ended and its unit says so."""
        if self.process is not None and self.process.poll() is None:
            return
        if self.process is not None:
            code = self.process.returncode
            self.process = None
            self.console.write(f"{self.name} has ended: {code}\n")
            self.console.flush()
            policy = self.settings.get("Restart", ["no"])[-1]
            final = str(code) in self.settings.get("RestartPreventExitStatus", [""])[-1].split()
            if final or policy == "no" or (policy == "on-failure" and code == 0):
                self.starts_at = float("inf")
            else:
                self.starts_at = time.monotonic() + float(self.settings.get("RestartSec", ["0.1"])[-1])
        if time.monotonic() >= self.starts_at:
            self.process = subprocess.Popen(shlex.split(self.settings["ExecStart"][-1]), env=self.environment(),
                                            stdout=self.console, stderr=self.console, start_new_session=True)

    def stop(self):
        """Of all its processes, or the first alone, which ends the others."""
        if self.process is None or self.process.poll() is not None:
            return
        if self.settings.get("KillMode", ["control-group"])[-1] == "control-group":
            os.killpg(self.process.pid, signal.SIGTERM)
        else:
            self.process.terminate()

    def is_stopped(self):
        return self.process is None or self.process.poll() is not None


def main(folder):
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    root = folder / "root"
    requests = root / "run" / "units"
    requests.mkdir(parents=True, exist_ok=True)
    stopping = []
    signal.signal(signal.SIGTERM, lambda *_: stopping.append(True))
    console = open(folder / "console.log", "a")
    script = subprocess.Popen(["bash", str(folder / "user-data")], stdout=console, stderr=console, stdin=subprocess.DEVNULL,
                              start_new_session=True)
    units = {}
    cloud = os.getppid()
    while not stopping:
        if os.getppid() != cloud:  # without a cloud there is no machine
            return end_all_below(os.getpid())
        for request in sorted(requests.iterdir()):
            if request.name not in units:
                units[request.name] = Unit(pathlib.Path(request.read_text().strip()), root, console)
        for unit in units.values():
            unit.look()
        if script is not None and script.poll() is not None:
            console.write(f"cloud-init: user data has ended: {script.returncode}\n")
            console.flush()
            script = None
        time.sleep(LOOK_PERIOD)
    for unit in units.values():
        unit.stop()
    while not all(unit.is_stopped() for unit in units.values()):
        time.sleep(LOOK_PERIOD)
    end_all_below(os.getpid())


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
