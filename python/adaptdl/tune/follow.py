"""Shows a search whose tuner is a job, until it ends or somebody has seen enough."""

import signal
import sys
import threading
from typing import List

from adaptdl.client import Client, ClientError, ConnectionFailedError, Job
from adaptdl.tune.pace import PaceKeeper
from adaptdl.tune.record import Record
from adaptdl.tune.search_file import Search
from adaptdl.tune.table import LiveTable, summary
from adaptdl.tune.trials import Trials
from adaptdl.tune.tuner import best_of
from adaptdl.tune.tuner_job import UNFIT, errors_of


def follow(client: Client, search: Search, interval: float) -> int:
    """The exit code: 0, 1 the tuner has failed, 3 there is no good trial, 128 and a signal: it goes on."""
    return _Follower(client, search, interval).run()


class _Follower:
    def __init__(self, client: Client, search: Search, interval: float) -> None:
        self._client, self._search, self._interval = client, search, interval
        self._trials = Trials(client, search)
        self._table = LiveTable(search, pace=PaceKeeper(client, search).text)
        self._left = threading.Event()
        self._signals: List[int] = []
        self._seen = self._noted = ""

    def run(self) -> int:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._leave)
        while True:
            try:
                # Before the trials: when it has ended, they have.
                job = self._client.get(self._search.name)
                self._table.show(self._trials.load())
                if any(replica.exit_code == UNFIT for replica in job.replicas):
                    return self._give_up()
                if job.finished:
                    return self._end(job)
                self._note(job)
            except ConnectionFailedError:
                pass  # it comes back
            if self._left.wait(self._interval):
                return self._go()

    def _leave(self, number: int, _: object) -> None:
        self._signals.append(number)
        self._left.set()

    def _go(self) -> int:
        name = self._search.name
        print(f"{name} goes on in the cluster; python3 -m adaptdl.tune resume {name} shows it again, "
              f"python3 -m adaptdl.tune stop {name} ends it", file=sys.stderr)
        return 128 + self._signals[0]

    def _note(self, job: Job) -> None:
        """Why nothing happens, where the tuner does not run."""
        if job.phase == "RUNNING":
            note = ""
        else:
            reason = job.message or job.raw.status.allocation_reason or job.reason
            note = f"the tuner is {job.phase.lower()}: {reason}"
        # At the second look: what passes at once is not worth a line.
        if note and note == self._seen and note != self._noted:
            print(note, file=sys.stderr)
            self._noted = note
        self._seen = note

    def _give_up(self) -> int:
        Record(self._client, self._search.name).close()
        self._say_errors()
        print(f"error: the node can't run the tuner: --local runs it in this terminal; or install the package on the "
              f"nodes, name their Python in the file (tuner.python), or what pip installs there (tuner.requirements)",
              file=sys.stderr)
        return 1

    def _end(self, job: Job) -> int:
        failed = self._say_errors() if job.phase != "SUCCEEDED" else False
        if job.phase == "FAILED":
            print(f"error: the tuner has failed: {job.message}; see adaptdl logs {job.namespace}/{job.name}; "
                  "--local runs it in this terminal", file=sys.stderr)
            failed = True
        if failed:
            return 1
        trials = self._trials.load()
        print(summary(self._search, trials))
        return 0 if best_of(self._search, trials) is not None else 3

    def _say_errors(self) -> bool:
        try:
            errors = errors_of(self._client, self._search)
        except ClientError:  # its node is away: the job's own message has to do
            return False
        for line in errors:
            print(line, file=sys.stderr)
        return bool(errors)
