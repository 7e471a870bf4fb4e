#!/usr/bin/env python3
"""The commands of docs/machines.md, typed as a reader would on two machines: each has folders of its own in place of /etc and
/var/lib, and in place of systemd this test starts what is to be started, with the settings that are written there. The folder
with the programs is the only argument."""

import pathlib
import re
import stat
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from doc_examples_test import ROOT, Reader, blocks, free_port  # noqa: E402

# What a machine has instead of apt and systemd. sudo runs the rest of its line, whoever is to run it.
STAND_INS = {
    "sudo": 'if [ "$1" = -u ]; then shift 2; fi\nexec "$@"',
    "apt": "exit 0",
    "systemctl": 'shift; for unit in "$@"; do case $unit in -*) ;; *) echo "$unit" >>"$UNITS" ;; esac; done',
}


class Machine:
    """One of them; its services end with it."""

    def __init__(self, name, programs, folder, supervisor):
        self.folder = folder / name
        self.programs = programs
        self.supervisor = supervisor
        self.services = []
        stand_ins = self.folder / "bin"
        stand_ins.mkdir(parents=True)
        for program, script in STAND_INS.items():
            (stand_ins / program).write_text(f"#!/bin/sh\n{script}\n")
            (stand_ins / program).chmod(stat.S_IRWXU)
        settings = self.folder / "etc/adaptdl"
        settings.mkdir(parents=True)
        for packaged in (ROOT / "deploy/systemd").glob("*.env"):
            (settings / packaged.name).write_text(self._here(packaged.read_text()))
        self.reader = Reader(f"{stand_ins}:{programs}", self.folder)
        self.reader.environment["UNITS"] = str(self.folder / "units")

    def _here(self, text):
        text = text.replace("/etc/adaptdl", f"{self.folder}/etc/adaptdl").replace("/var/lib/adaptdl", f"{self.folder}/var")
        return text.replace("10.0.0.1:7100", self.supervisor)

    def types(self, script):
        """Runs it; then starts what systemd was told to start."""
        # The defaults, which are found here as all else is.
        places = "--settings /etc/adaptdl/worker.env --state-dir /var/lib/adaptdl/worker " \
                 "--security-dir /etc/adaptdl/security/worker --listen 127.0.0.1:0 --no-start"
        script = re.sub(r"(adaptdl node join .*)", rf"\1 {places}", script)
        output = self.reader.runs(self._here(script))
        units = self.folder / "units"
        for unit in units.read_text().split() if units.exists() else []:
            self.starts(unit)
        units.unlink(missing_ok=True)
        return output

    def starts(self, unit):
        """As the unit of this name does."""
        environment = dict(self.reader.environment, ADAPTDL_SERVER_METRICS_LISTEN="127.0.0.1:0")
        service = unit.removeprefix("adaptdl-").removesuffix(".service")
        for line in (self.folder / f"etc/adaptdl/{service}.env").read_text().splitlines():
            if line and not line.startswith("#"):
                key, value = line.split("=", 1)
                environment[key] = value
        # Ports of one machine are those of all here; and this temporary folder is closed to other users.
        environment["ADAPTDL_SERVER_METRICS_LISTEN"] = "127.0.0.1:0"
        flags = {"supervisor": ["--state-dir", f"{self.folder}/var/supervisor"], "allocator": ["--listen", "127.0.0.1:0"],
                 "worker": ["--state-dir", f"{self.folder}/var/worker", "--replica-user", "self"]}[service]
        with open(self.folder / f"{service}.log", "a", encoding="utf-8") as log:
            self.services.append(subprocess.Popen([f"{self.programs}/adaptdl-{service}", *flags], env=environment, stdout=log,
                                                  stderr=log, cwd=self.folder))

    def ends(self):
        """All that runs there."""
        for service in self.services:
            service.terminate()
        for service in self.services:
            service.wait(60)


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    install, settings = blocks("docs/machines.md", "## The first machine", "sh")[:2]
    token, join, use = blocks("docs/machines.md", "## A node joins", "sh")[:3]
    supervisor = f"127.0.0.1:{free_port()}"
    with tempfile.TemporaryDirectory(prefix="adaptdl-machines-") as folder:
        first, second, third = (Machine(name, programs, pathlib.Path(folder), supervisor)
                                for name in ("first", "second", "third"))
        try:
            first.types(install)
            first.types(settings)
            first.types(f"until adaptdl health 10.0.0.1:7100 --ca /etc/adaptdl/security/ca.pem; do sleep 0.2; done\n{token}")
            line = (first.folder / "join-token").read_text()
            (second.folder / "join-token").write_text(line)
            joined = second.types(join.replace("join-token\n", "join-token --node second\n", 1))
            for text in ("certificate as node second", "worker.env", "systemctl enable --now adaptdl-worker"):
                second.reader.expects(text, joined)
            second.starts("adaptdl-worker.service")
            as_admin = token.splitlines()[0]
            output = first.types(f"{as_admin}\nuntil adaptdl nodes | grep -q 'second *Ready'; do sleep 0.2; done\n{use}")
            for text in ("second", "hello"):
                first.reader.expects(text, output)
            # The token is one machine's.
            (third.folder / "join-token").write_text(line)
            refused = third.types(join.replace("join-token\n", "join-token --node third\n", 1).replace("sudo adaptdl", "! sudo adaptdl"))
            third.reader.expects("does not let this machine in", refused)
            leave = re.search(r"^    sudo (adaptdl node leave .*)$", (ROOT / "docs/machines.md").read_text(), re.MULTILINE)[1]
            (second.folder / "root.token").write_text((first.folder / "root.token").read_text())
            left = second.types(f"{leave} --no-stop --settings /etc/adaptdl/worker.env --state-dir /var/lib/adaptdl/worker")
            second.reader.expects("no node of the cluster any more", left)
        finally:
            for machine in (third, second, first):
                machine.ends()
    print("machines join as the page says")


if __name__ == "__main__":
    main()
