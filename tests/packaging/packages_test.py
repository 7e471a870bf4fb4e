#!/usr/bin/env python3
"""The Debian packages, as an administrator of a fresh Debian meets them: installed, set up as docs/operations.md says, used,
upgraded, removed and purged. There is no systemd in that Debian: unit.py runs the services as their units say.

  packages_test.py BUILD_DIR VERSION
"""

import ctypes
import fcntl
import gzip
import os
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from debian_root import ROOT, DebianRoot, enter_namespaces, say  # noqa: E402
from unit import UNITS, Unit  # noqa: E402

SECURITY = "/etc/adaptdl/security"
STATE = "/var/lib/adaptdl"
SERVICES = ("supervisor", "allocator", "autoscaler", "worker")
CLIENT = {"ADAPTDL_CA_FILE": f"{SECURITY}/ca.pem", "ADAPTDL_TOKEN_FILE": "/root/root.token"}
AS_SERVICES = ("runuser", "-u", "adaptdl", "--", "adaptdl")
CLONE_NEWNET = 0x40000000


def expect(what, holds, otherwise=""):
    if not holds:
        raise SystemExit(f"not so: {what}\n{otherwise}")


def leave_network():
    """Into a network of this test's own, with nothing but a loopback: ports are free, and nobody else is met."""
    libc = ctypes.CDLL(None, use_errno=True)
    expect("a network namespace can be made", libc.unshare(CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno()))
    siocsifflags, iff_up = 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, siocsifflags, struct.pack("16sh14x", b"lo", iff_up))


class Administrator:
    """Has the packages in two revisions, and a Debian to install them in."""

    def __init__(self, build, version, work):
        self.version = version
        self.work = work
        self.packages = {revision: self._make(build, revision) for revision in (1, 2)}
        self.debian = DebianRoot(work / "root", in_memory=True)
        self.units = {}

    def _make(self, build, revision):
        output = self.work / f"revision-{revision}"
        for old in output.glob("*.deb"):
            old.unlink()
        say(f"making the packages, revision {revision}")
        subprocess.run([ROOT / "scripts/package.sh", "--build-dir", build, "--output", output, "--revision", str(revision),
                        "adaptdl-cli", "adaptdl-services"], check=True)
        packages = {path.name.split("_")[0]: path for path in output.glob("*.deb")}
        expect("both packages are made", sorted(packages) == ["adaptdl-cli", "adaptdl-services"], packages)
        for path in packages.values():
            expect(f"the version of {path.name}", path.name.split("_")[1] == f"{self.version}-{revision}")
        return packages

    def adaptdl(self, *arguments, succeeds=True):
        return self.debian.run("adaptdl", *arguments, succeeds=succeeds, env=CLIENT)

    def dpkg(self, action, *packages):
        say(f"dpkg {action} {' '.join(pathlib.Path(package).name for package in packages)}")
        return self.debian.run("dpkg", action, *packages)

    def start(self, *services):
        for service in services:
            self.units[service] = Unit(self.debian, f"adaptdl-{service}", self.work / f"{service}.log")
            self.units[service].start()

    def start_all(self):
        self.start(*SERVICES)
        self.await_("the node is ready", lambda: re.search(r"\bReady\b", self.debian.run(
            "sh", "-c", "adaptdl nodes 2>&1 || true", env=CLIENT)))

    def stop_all(self):
        for service in reversed(SERVICES):
            self.units.pop(service).stop()

    def await_(self, what, holds):
        deadline = time.monotonic() + 60
        while not holds():
            for service, unit in self.units.items():
                expect(f"the {service} runs while: {what}", unit.runs(), unit.log())
            expect(f"within a minute: {what}", time.monotonic() < deadline,
                   "\n".join(unit.log() for unit in self.units.values()))
            time.sleep(0.2)

    def knows_the_job(self):
        expect("the job is still known", "Succeeded" in self.adaptdl("describe", "hello"))


def client_alone(admin):
    """The client by itself, on a machine that has nothing else."""
    debian = admin.debian
    debian.install(debian.put(admin.packages[1]["adaptdl-cli"]))
    expect("the client's version", debian.run("adaptdl", "--version").strip() == f"adaptdl {admin.version}")
    expect("it says what a local cluster lacks", "adaptdl-services" in debian.run("adaptdl", "cluster", "up", succeeds=False))
    debian.run("rm", "-r", "/root/.adaptdl")
    for completion in ("bash-completion/completions/adaptdl", "zsh/vendor-completions/_adaptdl",
                       "fish/vendor_completions.d/adaptdl.fish"):
        expect(f"completion is installed: {completion}", debian.has(f"/usr/share/{completion}"))


def manual(debian, *command):
    """The page of a command has all that its --help has, and so have those of its own commands."""
    pages = debian.folder / "usr/share/man/man1"
    page = gzip.open(pages / f"{'-'.join(command)}.1.gz", "rt").read().replace("\\-", "-").replace("\\fB", "").replace(
        "\\fR", "")
    text = debian.run(*command, "--help")
    for flag in re.findall(r"^  -\S*", text, re.MULTILINE):
        for name in flag.strip().split(","):
            expect(f"the manual page of {' '.join(command)} tells of {name}", name in page, page)
    for name in re.findall(r"^  (\w[\w-]*)", text.partition("\nSubcommands:\n")[2], re.MULTILINE):
        manual(debian, *command, name)


def services(admin):
    """Installed, they wait for an administrator who has decided whom to trust."""
    debian = admin.debian
    debian.install(debian.put(admin.packages[1]["adaptdl-services"]))
    expect("nothing has been started", not debian.has(STATE))
    for service in SERVICES:
        manual(debian, f"adaptdl-{service}")
        expect(f"the version of the {service}",
               debian.run(f"adaptdl-{service}", "--version").strip() == f"adaptdl-{service} {admin.version}")
        admin.start(service)
        expect(f"the {service} refuses to start without certificates", admin.units.pop(service).exit_code(30) != 0)


def units_are_right(admin):
    """By systemd's own judgement, where it is at hand."""
    if shutil.which("systemd-analyze") is None:
        say("systemd-analyze is not installed: the units are not verified")
        return
    for service in SERVICES:
        unit = admin.work / f"adaptdl-{service}.service"
        text = (admin.debian.folder / UNITS / unit.name).read_text()
        unit.write_text(re.sub(r"^ExecStart=\S+", "ExecStart=/bin/true", text, flags=re.MULTILINE))  # is not installed here
        found = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, text=True, check=False).stdout
        expect(f"the unit of the {service} has no mistakes", unit.name not in found, found)
        # From 0, best, to 100. Jobs need more than the services that run none.
        allowed = 70 if service == "worker" else 20
        subprocess.run(["systemd-analyze", "security", "--offline=true", f"--threshold={allowed}", unit], check=True,
                       stdout=subprocess.DEVNULL)


def set_up(admin):
    """As docs/operations.md says, which the container has no sudo for."""
    debian = admin.debian
    debian.run(*AS_SERVICES, "admin", "certificates", "--out", SECURITY)
    debian.run("sh", "-c", "umask 077 && " + " ".join(AS_SERVICES) + f" admin token create --file {SECURITY}/tokens.json "
               "--name root --role admin >/root/root.token")
    admin.start_all()
    owner = int(debian.run("id", "-u", "adaptdl"))
    expect("only the worker runs as root", [admin.units[service].uid() for service in SERVICES] == [owner] * 3 + [0])


def use(admin):
    """A job, which has a user of its own."""
    say("submitting a job")
    admin.adaptdl("submit", "--name", "hello", "--wait", "--", "sh", "-c", "echo hello from $(id -u)")
    output = admin.adaptdl("logs", "hello")
    expect("the job says hello as a user of its own", re.search(r"hello from 2\d{5}\b", output), output)
    admin.debian.run("adaptdl", "--ca", f"{SECURITY}/ca.pem", "ls", succeeds=False)  # a stranger


def join(admin):
    """The worker's certificate from the supervisor, as docs/machines.md says; without systemd."""
    debian = admin.debian
    admin.stop_all()
    debian.run(*AS_SERVICES, "admin", "certificates", "--out", SECURITY, "--node-authority")
    settings = debian.folder / "etc/adaptdl/supervisor.env"
    settings.write_text(re.sub(r"^#(ADAPTDL_SERVER_NODE_AUTHORITY)", r"\1", settings.read_text(), flags=re.MULTILINE))
    admin.start("supervisor", "allocator", "autoscaler")
    admin.await_("the supervisor answers", lambda: debian.run("sh", "-c", "adaptdl nodes >/dev/null 2>&1 && echo yes || true",
                                                              env=CLIENT))
    token = admin.adaptdl("admin", "join-token", "create").splitlines()[0]
    (debian.folder / "root/join-token").write_text(token)
    join_it = ("node", "join", "--supervisor", "127.0.0.1:7100", "--token-file", "/root/join-token", "--node", "joined")
    output = admin.adaptdl(*join_it, succeeds=False)
    expect("it says that there is no systemd", "--no-start" in output, output)
    admin.adaptdl(*join_it, "--no-start")
    admin.start("worker")
    admin.await_("the node that has joined is ready", lambda: re.search(r"joined\s+Ready\b", debian.run(
        "sh", "-c", "adaptdl nodes 2>&1 || true", env=CLIENT)))
    admin.adaptdl("submit", "--name", "hello-joined", "--wait", "--", "sh", "-c", "echo hello from $ADAPTDL_NODE_ID")


def upgrade(admin):
    """Settings and state are those of before."""
    debian = admin.debian
    settings = debian.folder / "etc/adaptdl/supervisor.env"
    settings.write_text(settings.read_text() + "ADAPTDL_SERVER_RETAIN_DAYS=7\n")
    admin.dpkg("--install", *(debian.put(path) for path in admin.packages[2].values()))
    expect("the new packages are installed",
           debian.run("dpkg-query", "-W", "-f=${Version} ", "adaptdl-cli", "adaptdl-services").split() ==
           [f"{admin.version}-2"] * 2)
    expect("changed settings stay", "RETAIN_DAYS=7" in settings.read_text())
    admin.stop_all()
    admin.start_all()
    admin.knows_the_job()
    admin.stop_all()


def remove_and_purge(admin):
    """What can't be made again stays; whoever installs the packages anew goes on with it."""
    debian = admin.debian
    admin.dpkg("--remove", "adaptdl-cli", "adaptdl-services")
    expect("the programs are gone", not list((debian.folder / "usr/bin").glob("adaptdl*")))
    expect("settings stay when the packages are removed", debian.has("/etc/adaptdl/supervisor.env"))
    output = admin.dpkg("--purge", "adaptdl-cli", "adaptdl-services")
    expect("settings go when the packages are purged", not debian.has("/etc/adaptdl/supervisor.env"))
    for folder in (STATE, SECURITY):
        expect(f"purge says that {folder} stays", f"{folder} is kept" in output, output)
        expect(f"{folder} stays", any((debian.folder / folder.lstrip("/")).iterdir()))
    admin.dpkg("--install", *(debian.put(path) for path in admin.packages[2].values()))
    admin.start_all()
    admin.knows_the_job()
    admin.stop_all()


def local_cluster(admin):
    """The client finds the services' programs beside itself, for a user who is nobody special."""
    say("adaptdl cluster up, as a user")
    debian = admin.debian
    debian.run("useradd", "--create-home", "ann")
    as_ann = ("runuser", "-u", "ann", "--", "env", "HOME=/home/ann", "adaptdl")
    debian.run(*as_ann, "cluster", "up", "--workers", "1")
    debian.run(*as_ann, "submit", "--name", "hello", "--wait", "--workdir", "/home/ann", "--", "echo", "hello")
    expect("a job on the local cluster says hello", "hello" in debian.run(*as_ann, "logs", "hello"))
    debian.run(*as_ann, "cluster", "down", "--purge")


def main():
    enter_namespaces()
    build, version = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    work = build / "tests/packaging"
    work.mkdir(parents=True, exist_ok=True)
    for log in work.glob("*.log"):
        log.unlink()
    admin = Administrator(build, version, work)
    client_alone(admin)
    manual(admin.debian, "adaptdl")
    services(admin)
    units_are_right(admin)
    leave_network()
    set_up(admin)
    use(admin)
    join(admin)
    upgrade(admin)
    remove_and_purge(admin)
    local_cluster(admin)
    admin.debian.remove()
    print("the packages are fine")


if __name__ == "__main__":
    main()
