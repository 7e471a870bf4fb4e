"""A service in a DebianRoot, run as systemd would run its unit: settings, user, rights, folders and what it may write."""

import pathlib
import shlex
import signal
import subprocess

UNITS = "usr/lib/systemd/system"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Unit:
    """The unit `name`; its log is the file `log`, outside of the root."""

    def __init__(self, root, name, log):
        self._root = root
        self._log = pathlib.Path(log)
        self._settings = {}
        self._process = None
        self._begin = 0  # of what the newest process wrote to the log
        section = None
        for line in (root.folder / UNITS / f"{name}.service").read_text().splitlines():
            if line.startswith("["):
                section = line
            elif section == "[Service]" and "=" in line and not line.startswith("#"):
                key, value = line.split("=", 1)
                if key in self._settings:
                    raise SystemExit(f"{name}: {key} is given twice, which this test does not understand")
                self._settings[key] = value

    def start(self):
        """Starts it, whether or not that goes well."""
        with open(self._log, "a", encoding="utf-8") as log:
            self._begin = log.tell()
            self._process = subprocess.Popen(["unshare", "--mount", "sh", "-ec", self._script()], env=self._environment(),
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def exit_code(self, timeout):
        """Of one that ends by itself."""
        return self._process.wait(timeout)

    def runs(self):
        """Whether it was started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def uid(self):
        """Of the user it runs as."""
        return pathlib.Path(f"/proc/{self._process.pid}").stat().st_uid

    def stop(self):
        """As "systemctl stop" with KillMode=process: jobs stay."""
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(60)
        # What sets the program up may be met, before the program itself has begun; to systemd that is a clean end, too.
        early = code == -signal.SIGTERM and self._log.stat().st_size == self._begin
        if code != 0 and not early:
            raise SystemExit(f"exit code {code} after SIGTERM\n{self.log()}")

    def log(self):
        """What it has written."""
        return self._log.read_text()

    def _environment(self):
        environment = {"PATH": PATH, "LANG": "C.UTF-8"}
        for line in (self._root.folder / self._settings["EnvironmentFile"].lstrip("/")).read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                key, value = line.split("=", 1)
                environment[key] = value
        return environment

    def _script(self):
        """For a shell outside of the root, in a mount namespace of the service."""
        top = str(self._root.folder)
        user = self._settings.get("User", "root")
        lines = [f"mount --rbind {top} {top}"]
        if self._settings["ProtectSystem"] == "strict":
            lines += [f"mount -o remount,bind,ro {top}"]
        elif self._settings["ProtectSystem"] == "full":
            lines += [f"mount --bind {top}/{folder} {top}/{folder} && mount -o remount,bind,ro {top}/{folder}"
                      for folder in ("usr", "etc")]
        # Made before anything is read-only.
        folders = []
        for name in self._settings.get("StateDirectory", "").split():
            folder = f"{top}/var/lib/{name}"
            folders += [f"mkdir -p {folder}", f"chown {self._id('-u', user)}:{self._id('-g', user)} {folder}",
                        f"chmod {self._settings['StateDirectoryMode']} {folder}"]
            lines += [f"mount --bind {folder} {folder}", f"mount -o remount,bind,rw {folder}"]
        if self._settings.get("PrivateTmp") == "yes":
            lines += [f"mount -t tmpfs -o mode=1777 tmpfs {top}/tmp"]
        rights = self._settings["CapabilityBoundingSet"].lower().replace("cap_", "+").split()
        privileges = ["setpriv", f"--reuid={user}", f"--regid={user}", "--init-groups", "--inh-caps=-all",
                      f"--bounding-set={','.join(['-all', *rights])}"]
        if self._settings.get("NoNewPrivileges") == "yes":
            privileges.append("--no-new-privs")
        command = ["chroot", top, *privileges, *shlex.split(self._settings["ExecStart"])]
        return "\n".join([*folders, *lines, f"umask {self._settings.get('UMask', '0022')}", f"exec {shlex.join(command)}"])

    def _id(self, what, user):
        return self._root.run("id", what, user).strip()
