#!/usr/bin/env python3
"""The examples of the documents, run as a reader would, on clusters of their own: the shell blocks of README.md,
docs/cli.md, docs/operations.md and docs/security.md, and the job files of docs/job-file.md. The folder with the programs
is the only argument."""

import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = r"^```{}\n(.*?)^```"


def blocks(document, heading, language):
    text = (ROOT / document).read_text()
    section = text.split(heading, 1)
    if len(section) != 2:
        sys.exit(f"{document}: no heading {heading!r}")
    found = re.findall(BLOCK.format(language), section[1], re.MULTILINE | re.DOTALL)
    if not found:
        sys.exit(f"{document}: no {language} block after {heading!r}")
    return found


class Reader:
    """Somebody who types what the documents say."""

    def __init__(self, programs, home):
        self.home = home
        self.environment = dict(os.environ, ADAPTDL_HOME=str(home / "state"), PATH=f"{programs}:{os.environ['PATH']}")
        for variable in ("SUPERVISOR_ADDRESS", "CA_FILE", "TOKEN", "TOKEN_FILE", "INSECURE"):
            self.environment.pop(f"ADAPTDL_{variable}", None)

    def runs(self, script):
        print(f"--- running\n{script}", flush=True)
        done = subprocess.run(["bash", "-euo", "pipefail", "-c", script], cwd=self.home, env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=240)
        print(done.stdout, flush=True)
        if done.returncode:
            raise SystemExit(f"exit code {done.returncode}")
        return done.stdout

    def expects(self, text, output):
        if text not in output:
            raise SystemExit(f"{text!r} is not in the output")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def by_hand(reader):
    """The cluster of docs/security.md, whose services are started one by one; here on free ports."""
    supervisor = f"127.0.0.1:{free_port()}"
    certificates, services, use = blocks("docs/security.md", "## Set it up", "sh")[:3]
    services = re.sub(r"^adaptdl-(\w+)", r"adaptdl-\1 --listen 127.0.0.1:0 --metrics-listen ''", services, flags=re.M)
    services = services.replace("adaptdl-supervisor --listen 127.0.0.1:0", f"adaptdl-supervisor --listen {supervisor}")
    for client in ("allocator", "worker"):
        services = services.replace(f"adaptdl-{client} ", f"adaptdl-{client} --supervisor {supervisor} ")
    services = services.replace(" &\n", " >>services.log 2>&1 &\n")
    output = reader.runs("\n".join([
        "trap 'kill $(jobs -p); wait' EXIT",
        # Root's worker would give jobs users of their own, to whom this temporary folder is closed.
        "export ADAPTDL_SERVER_REPLICA_USER=self", f"export ADAPTDL_SUPERVISOR_ADDRESS={supervisor}", certificates, services,
        f"until adaptdl health {supervisor} --ca security/ca.pem; do sleep 0.2; done", use,
        "until adaptdl nodes | grep -q 'node-1 *Ready'; do sleep 0.2; done",
        blocks("docs/security.md", "## Users", "sh")[0], blocks("docs/security.md", "## Renew and replace", "sh")[0]]))
    for text in ("root", "admin", "hello", "token ann is revoked", "kept"):
        reader.expects(text, output)


def main():
    programs = pathlib.Path(sys.argv[1]).resolve()
    with tempfile.TemporaryDirectory(prefix="adaptdl-doc-") as folder:
        reader = Reader(programs, pathlib.Path(folder))
        try:
            build, *commands = blocks("README.md", "## Run jobs", "sh")[0].splitlines()
            reader.expects("scripts/build.sh", build)  # done already
            reader.expects("test accuracy", reader.runs("\n".join(commands)).lower())

            reader.expects("hello", reader.runs(blocks("docs/cli.md", "# The adaptdl command", "sh")[0]))
            if not (reader.home / "date").is_file():
                raise SystemExit("adaptdl cp fetched nothing")

            output = reader.runs(blocks("docs/cli.md", "### Folders that go along", "sh")[0])
            for text in ("hello.py", "2 files", "rank 0"):
                reader.expects(text, output)

            simple, full = blocks("docs/job-file.md", "# Job files", "yaml")[:2]
            (reader.home / "adaptdljob.yaml").write_text(simple)
            reader.expects("hello from", reader.runs("adaptdl submit adaptdljob.yaml --follow"))
            (reader.home / "adaptdljob.yaml").write_text(full.replace("name: digits", "name: digits-from-file"))
            reader.runs("adaptdl submit adaptdljob.yaml --wait")
            reader.expects("research", reader.runs(blocks("docs/operations.md", "## Sharing a cluster", "sh")[0]))
            output = reader.runs(blocks("docs/operations.md", "## A lost disk", "sh")[0])
            reader.expects("digits-from-file", output.split("adaptdl ls")[-1])
            by_hand(reader)
        finally:
            subprocess.run(["adaptdl", "cluster", "down", "--force", "--purge"], cwd=reader.home,
                           env=reader.environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
    print("all examples work")


if __name__ == "__main__":
    main()
