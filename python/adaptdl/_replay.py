"""What code that runs again needs of the first time: results of collectives, and sums over replicas.

After a restart, and on a replica that joins, an epoch's code runs from its beginning, and finished loops
are skipped. What it asked the others then, they do not say again: results are kept until the epoch ends,
in a state of the job's checkpoints that newcomers are handed too. Pickled: its contents are the program's
own objects.
"""

import pickle
from typing import Any, Dict, List, Optional

from adaptdl import _job
from adaptdl._engine import Place
from adaptdl._states import BytesState

_STATE = "adaptdl-python"


class SumRecord:
    """What is known of an accumulator: its totals, and those that each synchronisation of the epoch gave."""
    def __init__(self, created: int) -> None:
        self.created = created
        self.totals: Dict[Any, Any] = {}
        self.history: List[Dict[Any, Any]] = []
        self.epoch = -1


class Memory:
    """The state. One of each job."""
    def __init__(self, job: _job.Job) -> None:
        self._job = job
        # By epoch: of the one in progress, and of what is outside of epochs (-1), which newcomers run as
        # well.
        self._results: Dict[int, List[bytes]] = {}
        self._sums: Dict[str, SumRecord] = {}
        # Of this process: the epoch it is in, what it has made since that began, and what it has asked, by
        # epoch.
        self._epoch = -1
        self._made = 0
        self._asked: Dict[int, int] = {}
        self._state = BytesState(job, _STATE, self._save, self._load)
        self._state.register()

    def _save(self) -> bytes:
        return pickle.dumps((self._results, self._sums))

    def _load(self, data: bytes) -> None:
        self._results, self._sums = pickle.loads(data)
        # After a restart all replicas run the code again, and ask each other anew.
        if not self._job.place().joined:
            self._results = {}

    def _follow(self, place: Place) -> None:
        if place.current_epoch != self._epoch:
            self._epoch, self._made = place.current_epoch, 0
            if self._epoch >= 0:
                self._results = {
                    epoch: self._results[epoch] for epoch in (-1, self._epoch) if epoch in self._results
                }
            # Objects of earlier epochs never come back.
            self._sums = {
                name: record
                for name, record in self._sums.items()
                if record.created < 0 or record.created >= place.finished_epochs
            }

    def next_result(self, place: Place) -> Optional[bytes]:
        """What the collective that comes next gave the first time. None: this is the first time."""
        self._follow(place)
        asked = self._asked.get(self._epoch, 0)
        self._asked[self._epoch] = asked + 1
        known = self._results.get(self._epoch, [])
        return known[asked] if place.replaying and asked < len(known) else None

    def keep_result(self, result: bytes) -> None:
        """What that collective gave."""
        self._results.setdefault(self._epoch, []).append(result)

    def new_sum(self, place: Place) -> str:
        """The name of the accumulator that is made now: the same in every run."""
        self._follow(place)
        epoch = "none" if place.current_epoch < 0 else place.current_epoch
        name = f"{epoch}-{self._made}"
        self._made += 1
        if name not in self._sums:
            self._sums[name] = SumRecord(place.current_epoch)
        return name

    def sum(self, name: str, place: Place) -> SumRecord:
        """What is known of that accumulator, in the epoch in progress."""
        self._follow(place)
        record = self._sums.setdefault(name, SumRecord(-1))
        if record.epoch != place.current_epoch:
            record.history, record.epoch = [], place.current_epoch
        return record

    def close(self) -> None:
        self._state.close()


_memory: Optional[Memory] = None


def attach(job: _job.Job) -> None:
    """As soon as the replicas have met."""
    global _memory
    _memory = Memory(job)
    job.at_close(_memory.close)


def memory() -> Memory:
    """The job's memory; its replicas have met."""
    assert _memory is not None
    return _memory
