"""A container: a process with a host name, file system and process ids of its own, on this machine's network.

Its root is an overlay of this machine's, so that what it writes stays its own. All of it ends with the process that started it, whatever
that one dies of: mounts are in namespaces, and the kernel kills the processes. Needs CAP_SYS_ADMIN.
"""

import os
import pathlib
import shlex
import shutil
import stat
import subprocess

DIE_TOO = ["setpriv", "--pdeathsig", "KILL"]
# The first that this shell starts is the first of its own namespace; the shell says how it ended. (`unshare --fork` would do that, but takes
# an end by SIGKILL for an error of its own.)
NAMESPACES = [
    *DIE_TOO, "unshare", "--mount", "--uts", "--pid", "sh", "-c",
    f'exec 3<&0; {shlex.join(DIE_TOO)} "$@" <&3 & exec 3<&- 2>/dev/null; wait $!', "container"
]
# Mounts that each container has of its own, or not at all.
SPECIAL = ("/proc", "/sys", "/dev")
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "ptmx")
GPUS = "nvidia"


class NotPermitted(Exception):
    pass


def check_permitted():
    done = subprocess.run([*NAMESPACES, "mount", "-t", "proc", "proc", "/proc"],
                          capture_output=True,
                          text=True,
                          check=False)
    if done.returncode:
        raise NotPermitted(
            "containers need mount, UTS and PID namespaces of their own: run this as root with "
            f"CAP_SYS_ADMIN (docker run --privileged), or --hollow. {done.stderr.strip()}")


class Machine:
    """What all containers share. `root` is a folder of the kubelet's, which is in a mount namespace of its own."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self._uppers = self.root / "containers"
        self._devices = self.root / "devices"
        # Of pods whose kubelet has been killed.
        shutil.rmtree(self.root / "pods", ignore_errors=True)
        for folder in (self._uppers, self._devices):
            folder.mkdir(parents=True, exist_ok=True)
            # An overlay's upper folder can't be on an overlay, which this machine's own file system may be.
            subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)
        self._make_devices(self._devices / "dev")
        self._shared = [
            path for path in self._mount_points()
            if path != "/" and not path.startswith(SPECIAL) and not path.startswith(str(self.root))
        ]

    @staticmethod
    def _mount_points():
        with open("/proc/self/mountinfo", encoding="utf-8") as file:
            return [line.split()[4].encode().decode("unicode_escape") for line in file]

    @staticmethod
    def _make_devices(folder):
        folder.mkdir()
        for entry in os.scandir("/dev"):
            info = entry.stat(follow_symlinks=False)
            if stat.S_ISCHR(info.st_mode) and (entry.name in DEVICES or entry.name.startswith(GPUS)):
                os.mknod(folder / entry.name, info.st_mode, info.st_rdev)
                (folder / entry.name).chmod(stat.S_IMODE(info.st_mode))
        (folder / "shm").mkdir()
        (folder / "shm").chmod(0o1777)
        for name, target in (("fd", "/proc/self/fd"), ("stdin", "/proc/self/fd/0"),
                             ("stdout", "/proc/self/fd/1"), ("stderr", "/proc/self/fd/2")):
            (folder / name).symlink_to(target)

    def script(self, name, host_name, files, mounts, environment, directory, command):
        """What makes the container's world and becomes its process. `files`: {path: text} that it finds there."""
        base = self._uppers / name
        for part in ("upper", "work", "root"):
            (base / part).mkdir(parents=True)
        for path, text in files.items():
            _made(base / "upper", path, is_folder=False).write_text(text, encoding="utf-8")
        root = str(base / "root")
        # Where links lead to, this machine's being the container's; outer ones first.
        targets = sorted(((os.path.realpath(mount.target), mount) for mount in mounts),
                         key=lambda pair: len(pair[0]))
        lines = [
            "set -e", f"mount -t overlay overlay -o lowerdir={self._devices}:/,"
            f"upperdir={base}/upper,workdir={base}/work {root}", f"mount -t proc proc {root}/proc",
            f"mount -o bind,ro /sys {root}/sys"
        ]
        lines += [f"mount --bind {shlex.quote(path)} {shlex.quote(root + path)}" for path in self._shared]
        places = [target for target, _ in targets]
        for target, mount in targets:
            is_folder = os.path.isdir(mount.source)
            lines += self._place(base, target, is_folder, places)
            options = "bind,ro" if mount.read_only else "bind"
            lines.append(f"mount -o {options} {shlex.quote(mount.source)} {shlex.quote(root + target)}")
        lines += self._place(base, os.path.realpath(directory), True, places)
        lines += [
            f"echo {shlex.quote(host_name)} > /proc/sys/kernel/hostname", "echo ready >&0", "exec </dev/null",
            shlex.join([
                "exec", "chroot", root, "/usr/bin/env", "-i", "-C", directory,
                *(f"{key}={value}" for key, value in environment.items()), *command
            ])
        ]
        return "\n".join(lines)

    def forget(self, name):
        """What a container has written, once it has ended."""
        shutil.rmtree(self._uppers / name, ignore_errors=True)

    @staticmethod
    def _place(base, path, is_folder, mounted):
        """Makes the path in the container's root, if it is not there: at once, or, where it is in a volume, by what it returns."""
        if not any(path.startswith(place + "/") for place in mounted):
            if not os.path.exists(path):
                _made(base / "upper", path, is_folder)
            return []
        place = shlex.quote(f"{base}/root{path}")
        return [f"mkdir -p {place}" if is_folder else f"mkdir -p $(dirname {place}) && touch {place}"]


def _made(upper, path, is_folder):
    """The path in an overlay's upper folder; the folders above it stay as they are below."""
    here, below = upper, pathlib.Path("/")
    parts = pathlib.PurePath(path).parts[1:]
    for number, part in enumerate(parts, 1):
        here, below = here / part, below / part
        if number < len(parts) or is_folder:
            here.mkdir(exist_ok=True)
            if below.is_dir():
                here.chmod(stat.S_IMODE(below.stat().st_mode))
        else:
            here.touch()
    return here


class Process:
    """Whoever starts it, a thread, has to live until it has ended: the kernel kills it with the thread."""

    def __init__(self, script):
        output, output_end = os.pipe()
        ready, ready_end = os.pipe()
        try:
            self._popen = subprocess.Popen(
                [*NAMESPACES, "sh", "-c", script],
                # Where the script says that it is done; the container's own input is empty.
                stdin=ready_end,
                stdout=output_end,
                stderr=subprocess.STDOUT,
                start_new_session=True)
        finally:
            os.close(output_end)
            os.close(ready_end)
        # What it writes, and "ready" once its world is made.
        self.output = output
        with open(ready, encoding="utf-8") as file:
            self.is_made = file.readline() == "ready\n"

    def _children(self):
        """The container's first process, or none."""
        pid = self._popen.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="utf-8") as file:
            return [int(child) for child in file.read().split()]

    def execute(self, command):
        """Starts another program in its world, with its environment; a Popen with pipes. None: it has ended."""
        try:
            pid = str(self._children()[0])
            with open(f"/proc/{pid}/environ", "rb") as file:
                environment = [os.fsdecode(part) for part in file.read().split(b"\0") if part]
        except (FileNotFoundError, ProcessLookupError, IndexError):
            return None
        return subprocess.Popen(  # pylint: disable=consider-using-with
            [
                "nsenter", "--target", pid, "--mount", "--uts", "--pid", "--root", "--wd", "env", "-i",
                *environment, *command
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE)

    def signal(self, number):
        """To the container's first process. Whether there was one."""
        try:
            children = self._children()
            for child in children:
                os.kill(child, number)
            return bool(children)
        except (FileNotFoundError, ProcessLookupError):
            return False

    def wait(self):
        """Its exit code; 128 + N if signal N ended it."""
        return self._popen.wait()
