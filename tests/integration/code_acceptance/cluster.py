"""A user's machine, a supervisor's and a node's, each with folders of its own, as processes of this one."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import threading
import time

PATIENCE = 600


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until(what, holds):
    end = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.1)


class Cutter:
    """The way from the user to the supervisor, which is cut, once, when so many bytes have gone there."""

    def __init__(self, port):
        self.target = port
        self.cut_after = None
        self.on_cut = None
        self.sent = 0
        self.server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                client = self.server.accept()[0]
            except OSError:
                return
            try:
                target = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            threading.Thread(target=self._copy, args=(client, target, True), daemon=True).start()
            threading.Thread(target=self._copy, args=(target, client, False), daemon=True).start()

    def _copy(self, source, target, to_supervisor):
        try:
            while data := source.recv(1 << 16):
                target.sendall(data)
                if not to_supervisor:
                    continue
                self.sent += len(data)
                if self.cut_after is not None and self.sent >= self.cut_after:
                    self.cut_after = None
                    self.on_cut()
                    break
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.server.close()


class Cluster:
    def __init__(self, build, folder, python_path):
        self.bin = build / "bin"
        self.folder = folder
        self.user = folder / "user"
        for name in ("user/tmp", "supervisor", "node"):
            (folder / name).mkdir(parents=True)
        self.port = free_port()
        self.way = Cutter(self.port)
        self.processes = {}
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTDL_")}
        address = f"127.0.0.1:{self.port}"
        self.commands = {
            "supervisor": ["--listen", address, "--state-dir", "state"],
            "allocator": ["--supervisor", address, "--listen", "127.0.0.1:0", "--interval", "1s"],
            "worker": ["--supervisor", address, "--listen", "127.0.0.1:0", "--state-dir", "state", "--storage-dir", "storage",
                       "--node-id", "node", "--replica-user", "self", "--cpus", "2"],
        }
        # Of the node alone: Debian's Python, which has PyTorch, with our package.
        python = folder / "node/bin/python3"
        python.parent.mkdir()
        python.write_text(f'#!/bin/sh\nPYTHONPATH={python_path} exec /usr/bin/python3 "$@"\n')
        python.chmod(0o755)
        self.extra = {"worker": {"PATH": f"{python.parent}:{os.environ['PATH']}"}}

    def start(self, service):
        home = self.folder / ("node" if service == "worker" else "supervisor")
        with open(self.folder / f"{service}.log", "a", encoding="utf-8") as log:
            self.processes[service] = subprocess.Popen(
                [self.bin / f"adaptdl-{service}", "--insecure", "--metrics-listen", "", *self.commands[service]],
                cwd=home, env={**self.environment, **self.extra.get(service, {})}, stdout=log, stderr=log)

    def up(self):
        for service in self.commands:
            self.start(service)
        wait_until("a node", self._is_ready)

    def _is_ready(self):
        for service, process in self.processes.items():
            if process.poll() is not None:
                raise RuntimeError(f"the {service} has ended with {process.returncode}")
        return re.search(r"node +Ready", self.adaptdl("nodes", check=False))

    def restart_supervisor(self):
        """As if its machine had lost its power: nothing is said to anybody."""
        self.processes["supervisor"].send_signal(signal.SIGKILL)
        self.processes["supervisor"].wait()
        self.start("supervisor")

    def adaptdl(self, *words, check=True):
        done = subprocess.run([self.bin / "adaptdl", "--insecure", *words], cwd=self.user, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=PATIENCE,
                              env={**self.environment, "ADAPTDL_SUPERVISOR_ADDRESS": self.way.address,
                                   "TMPDIR": str(self.user / "tmp"), "HOME": str(self.user)})
        if check and done.returncode:
            raise RuntimeError(f"{words} ends with {done.returncode}: {done.stdout}")
        return done.stdout

    def submit(self, *words):
        """The job's name."""
        return re.search(r"job (\S+) submitted", self.adaptdl("submit", *words))[1]

    def result(self, job):
        """What it has written, when it has succeeded."""
        ended = self.adaptdl("wait", job, check=False)
        output = self.adaptdl("logs", "--rank", "0", job)
        if "Succeeded" not in ended:
            raise RuntimeError(f"{ended}: {output}")
        return output

    def job(self, name):
        return json.loads(self.adaptdl("describe", "-o", "json", name))["job"]

    def down(self):
        for service in reversed(self.commands):
            if service in self.processes:
                self.processes[service].terminate()
                self.processes[service].wait(60)
        self.way.close()

    def print_logs(self):
        for service in self.commands:
            log = self.folder / f"{service}.log"
            if log.exists():
                print(f"--- {service}\n" + "\n".join(log.read_text().splitlines()[-40:]))
