"""The life of one container, on a thread of its own: waiting, running, terminated."""

import threading
import time
import uuid

from .environment import expanded
from .logs import Log
from .sandbox import Process
from .status import running, terminated, waiting


class Container:
    """Thread-safe. It waits for `reason` at first; on_change() is called when its state has changed."""

    def __init__(self, spec, log_path, reason, on_change):
        self.spec, self.log = spec, Log(log_path)
        self.id = f"double://{uuid.uuid4().hex}"
        self.state = waiting(reason)
        self._on_change = on_change
        self._lock = threading.Lock()
        self._process = None
        self._began = 0.0
        self._reason = ""
        self.ended = threading.Event()

    @property
    def name(self):
        return self.spec["name"]

    @property
    def is_running(self):
        return "running" in self.state

    @property
    def exit_code(self):
        """None: it has not ended."""
        return self.state.get("terminated", {}).get("exitCode")

    def wait_for(self, reason, message=""):
        self._become(waiting(reason, message))

    def run(self, script, message_file):
        """Starts it. When this returns, it is running or has ended."""
        started = threading.Event()
        threading.Thread(target=self._run, args=(script, message_file, started), daemon=True).start()
        started.wait()

    def _run(self, script, message_file, started):
        process = Process(script)
        self._began = time.time()
        if process.is_made:
            with self._lock:
                self._process = process
            self._become(running(self._began))
            started.set()
        self.log.pump(process.output)
        code = process.wait()
        with self._lock:
            self._process = None
        self.log.close()
        if process.is_made:
            self.end(code, self._reason, self._message(message_file, code))
        else:
            text = b"".join(self.log.lines()).decode(errors="replace").strip()
            self.end(128, "StartError", f"its file system could not be made: {text}")
        started.set()

    def _message(self, file, code):
        text = file.read_text(errors="replace")[:4096]
        if not text and code and self.spec.get("terminationMessagePolicy") == "FallbackToLogsOnError":
            text = b"".join(self.log.lines(tail=80)).decode(errors="replace")[-2048:]
        return text

    def end(self, code, reason="", message=""):
        """It has ended so, or will never run."""
        self.log.close()
        now = time.time()
        self.state = terminated(code, self._began or now, now, reason, message)
        self.ended.set()
        self._on_change()

    def signal(self, number, reason=""):
        """`reason`: of its end, if that is what ends it."""
        with self._lock:
            if self._process is not None and self._process.signal(number):
                self._reason = reason

    def execute(self, command):
        """A Popen with pipes. None: it does not run."""
        with self._lock:
            return self._process.execute(command) if self._process is not None else None

    def _become(self, state):
        self.state = state
        self._on_change()

    def command(self, image, environment):
        """As the image and the pod have it."""
        entry = [expanded(part, environment) for part in self.spec.get("command") or ()]
        arguments = [expanded(part, environment) for part in self.spec.get("args") or ()]
        if entry:
            return entry + arguments
        return [*(image.get("entrypoint") or ()), *(arguments or image.get("command") or ())]
