"""What a container has written, line by line, with the time of each."""

import datetime
import os
import threading


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z"


def parsed(text):
    """A time of RFC 3339."""
    whole, _, rest = text.rstrip("Z").partition(".")
    fraction = datetime.timedelta(microseconds=int((rest + "000000")[:6]))
    return datetime.datetime.fromisoformat(whole + "+00:00") + fraction


class Log:
    """One thread writes, any thread reads."""

    def __init__(self, path):
        self._path = path
        self._changed = threading.Condition()
        self._is_over = False
        with open(path, "wb"):
            pass

    def pump(self, descriptor):
        """Takes what comes from there, until its end."""
        rest = b""
        with open(self._path, "ab") as file, os.fdopen(descriptor, "rb", buffering=0) as source:
            while data := source.read(1 << 16):
                *lines, rest = (rest + data).split(b"\n")
                self._write(file, [line + b"\n" for line in lines])
            self._write(file, [rest] if rest else [])

    def close(self):
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def _write(self, file, lines):
        stamp = now().encode()
        with self._changed:
            file.writelines(stamp + b" " + line for line in lines)
            file.flush()
            self._changed.notify_all()

    def lines(self, follow=False, tail=None, since=None, timestamps=False, is_wanted=lambda: True):
        """As bytes. With `follow`, b"" now and then, for as long as it `is_wanted` and the container lives."""
        with open(self._path, "rb") as file:
            entries = self._entries(file, since)
            if tail is not None:
                entries = entries[-tail:] if tail else []
            while True:
                for entry in entries:
                    yield entry if timestamps else entry.partition(b" ")[2]
                if not follow or not is_wanted():
                    return
                with self._changed:
                    entries = self._entries(file, since)
                    if not entries and self._is_over:
                        return
                    if not entries:
                        self._changed.wait(1)
                if not entries:
                    yield b""

    @staticmethod
    def _entries(file, since):
        entries = file.readlines()
        if since is None:
            return entries
        return [entry for entry in entries if parsed(entry.partition(b" ")[0].decode()) >= since]
