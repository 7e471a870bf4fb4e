"""Sums over all replicas (losses, counts) that survive restarts and changes of the replicas:

    sums = adl.Accumulator()
    for inputs, targets in loader:
        sums["loss"] += ...                     # local, cheap
    with sums.synchronized():                   # on all replicas alike
        mean = sums["loss"] / sums["samples"]   # of all of them

Outside of synchronized() values can only be added and subtracted, and reads show an empty dictionary. What
a replica adds while its batch stands in for an empty share does not count; neither does what was added in
a step that came to nothing.
"""

import copy
import ctypes
import weakref
from ctypes import c_int64
from typing import Any, Dict, Iterator, List, MutableMapping, Optional, Tuple

from adaptdl import _job, _replay, collective
from adaptdl._engine import Nothing, SumsCalls, callback, check, engine, make

_Values = Dict[Any, Any]


def _added(to: _Values, values: _Values) -> None:
    for key, value in values.items():
        to[key] = to[key] + value if key in to else value


class _Change:
    """What `sums[key]` is outside of synchronized(): it takes `+=` and `-=`, and goes back where it came
    from."""
    def __init__(self, owner: "Accumulator", key: Any) -> None:
        self.owner = owner
        self.key = key
        self.changes: List[Any] = []

    def __iadd__(self, value: Any) -> "_Change":
        self.changes.append(value)
        return self

    def __isub__(self, value: Any) -> "_Change":
        self.changes.append(-value)
        return self


class _Sums:
    """All accumulators of a job, as the engine sees them."""
    def __init__(self, job: _job.Job) -> None:
        self._job = job
        self._live: "weakref.WeakSet[Accumulator]" = weakref.WeakSet()
        # Whether something was added, or synchronised, in the loop's step in progress.
        self.in_step = c_int64()
        self._calls = SumsCalls(callback(Nothing, self._merge), callback(Nothing, self._keep_step),
                                callback(Nothing, self._drop_step), ctypes.pointer(self.in_step))
        self._handle = make(lambda made: engine.sums_open(job.handle, self._calls, made))
        job.at_close(lambda: check(engine.sums_close(self._handle)))

    def add(self, accumulator: "Accumulator") -> None:
        self._live.add(accumulator)

    def _merge(self) -> None:
        by_name = {
            accumulator._name: accumulator for accumulator in self._live if accumulator._name is not None
        }
        merge(by_name, self._job)

    def _keep_step(self) -> None:
        self.in_step.value = 0
        for accumulator in self._live:
            accumulator._keep_step()

    def _drop_step(self) -> None:
        self.in_step.value = 0
        for accumulator in self._live:
            accumulator._drop_step()


def merge(accumulators: Dict[str, "Accumulator"], job: _job.Job) -> bool:
    """Adds everyone's pending values to the totals, but for those of a step in progress. Collective.
    False: the step in progress is void, nothing was changed."""
    all_updates = collective.gather_now(
        {name: accumulator._pending for name, accumulator in accumulators.items()})
    if all_updates is None:
        return False
    memory, place = _replay.memory(), job.place()
    # In order of rank, so that all replicas get the same to the last bit.
    for updates in all_updates:
        for name, values in updates.items():
            _added(memory.sum(name, place).totals, values)
    for accumulator in accumulators.values():
        accumulator._pending = {}
    return True


_sums: Optional[Tuple[_job.Job, _Sums]] = None


def attach(job: _job.Job) -> None:
    """As soon as the replicas have met: all of them merge their sums alike, also those that have none yet."""
    global _sums
    _sums = (job, _Sums(job))


def _note_step() -> None:
    assert _sums is not None
    _sums[1].in_step.value = 1


class Accumulator(MutableMapping):
    """See the top of this module. Values are whatever can be added and pickled."""
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._job = _job.promised()
        self._name: Optional[str] = None
        # Added in the loop's step in progress; and before.
        self._step: _Values = {}
        self._pending: _Values = dict(*args, **kwargs)
        # Totals and pending values before a synchronisation in the step in progress.
        self._before: Optional[Tuple[_Values, _Values]] = None
        # What reads show. None: outside of synchronized().
        self._visible: Optional[_Values] = None
        # The epoch, and synchronisations in it, outside of loops.
        self._epoch = -1
        self._synchronized = 0
        self._job.when_met(self._attach)

    def _attach(self) -> None:
        self._name = _replay.memory().new_sum(self._job.place())
        assert _sums is not None
        _sums[1].add(self)

    # --- Adding ---

    def _add(self, key: Any, value: Any) -> None:
        if self._visible is not None:
            self._visible[key] = self._visible[key] + value if key in self._visible else value
            return
        to = self._pending
        if self._job.met:
            place = self._job.place()
            # What this code added before is in the totals; and what is computed on a stand-in is nobody's.
            if place.replaying or place.stand_in:
                return
            if place.in_loop:
                to = self._step
                _note_step()
        _added(to, {key: value})

    def update(self, *args: Any, **kwargs: Any) -> None:
        """Adds each value to that of its key, unlike a dictionary's, also within synchronized()."""
        for key, value in dict(*args, **kwargs).items():
            self._add(key, value)

    def subtract(self, *args: Any, **kwargs: Any) -> None:
        """Subtracts each value from that of its key."""
        for key, value in dict(*args, **kwargs).items():
            self._add(key, -value)

    def __iadd__(self, values: Any) -> "Accumulator":
        self.update(values)
        return self

    def __isub__(self, values: Any) -> "Accumulator":
        self.subtract(values)
        return self

    # --- As a dictionary ---

    __hash__ = object.__hash__

    def __getitem__(self, key: Any) -> Any:
        return _Change(self, key) if self._visible is None else self._visible[key]

    def __setitem__(self, key: Any, value: Any) -> None:
        if self._visible is not None:
            self._visible[key] = value
        elif not isinstance(value, _Change):
            raise TypeError("outside of synchronized() values can only be added (+=) and subtracted (-=)")
        elif value.owner is not self or value.key != key:
            raise ValueError("this is a value of another accumulator, or of another key")
        else:
            for change in value.changes:
                self._add(key, change)

    def __delitem__(self, key: Any) -> None:
        if self._visible is None:
            raise TypeError("outside of synchronized() values can only be added (+=) and subtracted (-=)")
        del self._visible[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self._visible if self._visible is not None else ())

    def __len__(self) -> int:
        return len(self._visible) if self._visible is not None else 0

    def __contains__(self, key: Any) -> bool:
        return self._visible is not None and key in self._visible

    def __repr__(self) -> str:
        return f"Accumulator({self._visible if self._visible is not None else '...'})"

    # --- Synchronisation ---

    def synchronized(self) -> "_Synchronized":
        """Within it reads and writes are of the totals over all replicas. Collective: all call it at the
        same point, and do the same within. Re-entrant."""
        return _Synchronized(self)

    def _enter(self) -> None:
        job = self._job.meet()
        memory, place = _replay.memory(), job.place()
        assert self._name is not None
        record = memory.sum(self._name, place)
        if place.in_loop:
            # Should the step be begun anew, so is what it adds.
            _note_step()
            if self._before is None:
                self._before = (copy.deepcopy(record.totals), dict(self._pending))
            self._keep_values()
            merge({self._name: self}, job)
            self._visible = record.totals
            return
        if place.current_epoch != self._epoch:
            self._epoch, self._synchronized = place.current_epoch, 0
        number = self._synchronized
        self._synchronized += 1
        if number < len(record.history):
            # Done before the restart: what the code that runs again has added since is in there already.
            self._pending.clear()
            self._visible = copy.deepcopy(record.history[number])
            return
        merge({self._name: self}, job)
        record.history.append(copy.deepcopy(record.totals))
        self._visible = record.totals

    def _leave(self) -> None:
        self._visible = None

    def _keep_values(self) -> None:
        _added(self._pending, self._step)
        self._step.clear()

    def _keep_step(self) -> None:
        self._keep_values()
        self._before = None

    def _drop_step(self) -> None:
        self._step.clear()
        if self._before is None or self._name is None:
            return
        totals, self._pending = self._before
        self._before = None
        _replay.memory().sum(self._name, self._job.place()).totals = totals


class _Synchronized:
    """What synchronized() gives: a context, and a dictionary of the totals within it."""
    def __init__(self, accumulator: Accumulator) -> None:
        self._accumulator = accumulator
        self._outermost = False

    def __enter__(self) -> Accumulator:
        self._outermost = self._accumulator._visible is None
        if self._outermost:
            self._accumulator._enter()
        return self._accumulator

    def __exit__(self, *exception: Any) -> None:
        if self._outermost:
            self._accumulator._leave()
