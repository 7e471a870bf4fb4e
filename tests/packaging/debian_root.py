"""A fresh Debian in a folder, to install packages in, and the processes in it.

Whoever uses it runs in mount and process namespaces of his own (enter_namespaces()), so that nothing of it outlives him."""

import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SKIPPED = 77
INSIDE = "ADAPTDL_INSIDE_NAMESPACES"


def say(text):
    print(f"--- {text}", flush=True)


def skip(why):
    print(f"SKIPPED: {why}", file=sys.stderr)
    sys.exit(SKIPPED)


def enter_namespaces():
    """Starts this program again in namespaces of its own; comes back there. Skips where that can't be."""
    if os.environ.get(INSIDE):
        return
    if os.geteuid() != 0:
        skip("a fresh Debian needs root")
    if shutil.which("debootstrap") is None:
        skip("debootstrap is not installed")
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if subprocess.run([*command, "--net", "true"], stderr=subprocess.DEVNULL, check=False).returncode != 0:
        skip("this root may not make namespaces")
    os.environ[INSIDE] = "1"
    os.execvp(command[0], [*command, sys.executable, *sys.argv])


def mirror():
    """The Debian mirror that this machine uses itself."""
    script = f". {ROOT}/scripts/lib/debian-mirror.sh && debian_mirror"
    return subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


class DebianRoot:
    """Debian 12 in `folder`. What was there goes. In memory, which spares it all waiting for the disk, it takes 500 MB."""

    def __init__(self, folder, in_memory):
        self.folder = pathlib.Path(folder)
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        if in_memory:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", str(self.folder)], check=True)
        say(f"making a Debian in {self.folder}")
        log = self.folder.parent / "debootstrap.log"
        with open(log, "w", encoding="utf-8") as output:
            made = subprocess.run(["debootstrap", "--variant=minbase", "bookworm", str(self.folder), mirror()],
                                  stdout=output, stderr=subprocess.STDOUT, check=False)
        if made.returncode != 0:
            print("".join(log.read_text().splitlines(keepends=True)[-5:]), file=sys.stderr)
            skip("debootstrap failed: no Debian mirror within reach?")
        (self.folder / "etc/dpkg/dpkg.cfg.d/fast").write_text("force-unsafe-io\n")
        (self.folder / "etc/apt/apt.conf.d/fast").write_text('Acquire::Languages "none";\nAcquire::Retries "3";\n')
        subprocess.run(["mount", "-t", "proc", "proc", str(self.folder / "proc")], check=True)

    def run(self, *command, succeeds=True, env=None):
        """What it printed. Fails unless it ends as it should."""
        done = subprocess.run(["chroot", str(self.folder), *command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
                              env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8",
                                   "DEBIAN_FRONTEND": "noninteractive", **(env or {})})
        if (done.returncode == 0) != succeeds:
            raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stdout}")
        return done.stdout

    def put(self, file):
        """Copies a file into it; returns its path there."""
        shutil.copy(file, self.folder / "var/tmp")
        return f"/var/tmp/{pathlib.Path(file).name}"

    def install(self, *packages):
        """With what they depend on, from the mirror."""
        self.run("apt-get", "update", "-q")
        self.run("apt-get", "install", "-q", "-y", "--no-install-recommends", *packages)

    def has(self, path):
        """Whether a file or folder is there."""
        return (self.folder / path.lstrip("/")).exists()

    def remove(self):
        """Takes the folder away."""
        subprocess.run(["umount", str(self.folder / "proc")], check=True)
        if self.folder.is_mount():
            subprocess.run(["umount", str(self.folder)], check=True)
        shutil.rmtree(self.folder)
