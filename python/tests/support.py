"""What the tests share."""

import os
import signal
import subprocess
import sys
import tempfile
import types
import unittest

import torch

from adaptdl import _engine, _job
from adaptdl._engine import check, engine

# Where the build puts programs, beside the package, unless that is installed elsewhere.
PROGRAMS = os.environ.get("ADAPTDL_TEST_PROGRAMS") or os.path.join(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(_engine.LIBRARY)))), "bin")
# Long beside what anything here takes; only a hang reaches it.
PATIENCE = 120


class JobTest(unittest.TestCase):
    """Each test has a job of one replica, and a folder for it."""
    def setUp(self):
        torch.manual_seed(0)
        torch.set_num_threads(1)
        self._folder = tempfile.TemporaryDirectory()
        self.folder = self._folder.name
        for name in [name for name in os.environ if name.startswith("ADAPTDL_")]:
            del os.environ[name]

    def tearDown(self):
        _job.close_job()
        forget_states()
        os.environ.pop("ADAPTDL_CHECKPOINT_PATH", None)
        self._folder.cleanup()

    def restart(self):
        """A new job in place of the present one, as if the program had been started again."""
        _job.close_job()
        forget_states()


def forget_states():
    """A program that starts again makes its states anew."""
    from adaptdl import checkpoint
    checkpoint._registry.clear()


class Field:
    """How the words of a text become numbers, as torchtext had it: here they are numbers."""
    pad_token = "-1"

    def __init__(self, batch_first=False):
        self.batch_first = batch_first

    def numericalize(self, texts, device=None):
        return torch.tensor([[int(word) for word in text] for text in texts], device=device).t()


class Text(list):
    """A data set of one text, as torchtext had them: the words are the numbers from 0 on."""
    def __init__(self, words, **kwargs):
        super().__init__([types.SimpleNamespace(text=[str(word) for word in range(words)])])
        self.fields = {"text": Field(**kwargs)}


def request_stop():
    """As the scheduler does."""
    check(engine.job_request_stop(_job.job().handle))


def start(job, *arguments, replicas=1, environment=None, own_group=False):
    """Starts a function of jobs.py on replicas of its own."""
    command = [
        sys.executable,
        os.path.join(os.path.dirname(os.path.abspath(__file__)), "jobs.py"), job, *map(str, arguments)
    ]
    if replicas > 1:
        command = [os.path.join(PROGRAMS, "adaptdl"), "run", "-n", str(replicas), "--", *command]
    path = os.pathsep.join(
        [os.path.dirname(os.path.dirname(_engine.LIBRARY)),
         os.path.dirname(os.path.abspath(__file__))])
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ADAPTDL_")}
    # Lines are written whole: else one of the engine's may come before the end of one that a test waits for.
    ours = {"PYTHONPATH": path, "PYTHONUNBUFFERED": "", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command,
                            env=clean | ours | (environment or {}),
                            stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT,
                            start_new_session=own_group,
                            text=True)


def finish(process):
    """Its exit code and what it wrote. One that hangs is killed, with its replicas, and fails the test."""
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGTERM)
        try:
            output, _ = process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            process.kill()
            output, _ = process.communicate()
        raise AssertionError("it hangs; it wrote:\n" + output) from None
    return process.returncode, output


def run(job, *arguments, replicas=1, environment=None):
    """Runs it to its end."""
    return finish(start(job, *arguments, replicas=replicas, environment=environment))
