"""A cluster of the real services on this machine, for as long as a block runs, and searches on it."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time


class LocalCluster:
    """`workers` nodes with `cpus` slots each."""

    def __init__(self, build, workers, cpus):
        self._build, self._size = build, ["--workers", str(workers), "--cpus-per-worker", str(cpus)]
        self.slots = workers * cpus
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="searches-"))
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTDL_")}
        self.environment.update(ADAPTDL_HOME=str(self.folder / "state"), PYTHONPATH=str(build / "python"),
                                PATH=f"{build}/bin:{os.environ['PATH']}", OMP_NUM_THREADS="1")

    def __enter__(self):
        self.run("cluster", "up", *self._size, "--port", "0")
        return self

    def __exit__(self, *_):
        self.run("cluster", "down", "--force", "--purge")
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *words):
        done = subprocess.run([self._build / "bin/adaptdl", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, env=self.environment, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"adaptdl {' '.join(words)}: {done.stdout}")
        return done.stdout

    def client(self):
        os.environ["ADAPTDL_HOME"] = self.environment["ADAPTDL_HOME"]
        from adaptdl.client import Client
        return Client()

    def tune(self, *words):
        """Begins a command of `python3 -m adaptdl.tune`; its output is a file."""
        output = open(self.folder / "tune.log", "a", encoding="utf-8")
        return subprocess.Popen([sys.executable, "-m", "adaptdl.tune", *words], stdout=output, stderr=subprocess.STDOUT,
                                env=self.environment, cwd=self.folder)

    def finish(self, tuner):
        if tuner.wait() != 0:
            raise RuntimeError((self.folder / "tune.log").read_text(encoding="utf-8"))

    def kill_supervisor(self):
        """Without any warning; the cluster is brought up again."""
        pid = (self.folder / "state/run/supervisor.pid").read_text(encoding="utf-8")
        os.kill(int(re.search(r"\d+", pid).group()), signal.SIGKILL)
        self.run("cluster", "up", *self._size)


class SlotMeter:
    """How many slots replicas hold, over time, from another thread; in slots times seconds."""

    def __init__(self, client):
        self._client, self._stop = client, threading.Event()
        self.held = 0.0
        self._thread = threading.Thread(target=self._measure)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()

    def _measure(self):
        last = time.monotonic()
        while not self._stop.wait(0.1):
            held = sum(node.allocated.cpu_millis for node in self._client.nodes()) / 1000
            now = time.monotonic()
            self.held += held * (now - last)
            last = now
