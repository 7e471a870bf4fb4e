"""States of one's own in the job's checkpoints.

    class Best(adaptdl.checkpoint.State):
        def save(self, fileobj): pickle.dump(self.score, fileobj)
        def load(self, fileobj): self.score = pickle.load(fileobj)

    best = Best("best")
    adaptdl.checkpoint.load_state(best)

Model, optimiser, loaders, epochs and accumulators are in there anyway. Checkpoints are written every 30 s,
when the job is asked to stop, and at its end; replicas that join a job that trains are handed the states
from memory to memory.
"""

import ctypes
import io
import re
from typing import BinaryIO, Dict, Optional

from adaptdl import Error
from adaptdl import _job
from adaptdl._engine import check, engine
from adaptdl._states import BytesState

__all__ = ["State", "load_state", "request_checkpoint", "save_all_states"]

_NAME = re.compile(r"[A-Za-z0-9_.-]+")


class State:
    """Something that belongs into checkpoints, under a name of its own, the same in every run: letters,
    digits, "-", "_" and "."."""
    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise ValueError(f"the state's name is {name!r}; give letters, digits, '-', '_' and '.'")
        if name in _registry:
            raise ValueError(f"there is a state named {name!r} already; give each a name of its own")
        self.name = name
        _registry[name] = _Entry(self)

    def sync(self) -> None:
        """Called on all replicas at the same step, before it is saved. May use collectives."""

    def save(self, fileobj: BinaryIO) -> None:
        """Writes the state into the file. Called on rank 0."""
        raise NotImplementedError(f"{type(self).__name__} has no save()")

    def load(self, fileobj: BinaryIO) -> None:
        """Reads what `save()` wrote. Called on all replicas."""
        raise NotImplementedError(f"{type(self).__name__} has no load()")


class _Entry:
    """What the engine knows of a state. It lasts as long as the job, whatever becomes of the program's
    object: a checkpoint holds what was saved last."""
    def __init__(self, state: State) -> None:
        # A state that nobody refers to is still saved, as AdaptDL has it.
        self._state = state
        self._native: Optional[BytesState] = None
        # What was restored, if nobody has asked for it yet.
        self._restored: Optional[bytes] = None

    def register(self, job: _job.Job) -> None:
        """Makes it part of the job's checkpoints, once."""
        if self._native is not None:
            return
        self._native = BytesState(job, self._state.name, self._save, self._keep, self._state.sync)
        self._native.register()
        job.at_close(self._close)

    def load(self) -> bool:
        """Loads what was restored, if there is something."""
        if self._restored is None:
            return False
        data, self._restored = self._restored, None
        self._state.load(io.BytesIO(data))
        return True

    def _save(self) -> bytes:
        # Nobody has asked for it: it stays as it was.
        if self._restored is not None:
            return self._restored
        file = io.BytesIO()
        self._state.save(file)
        return file.getvalue()

    def _keep(self, data: bytes) -> None:
        self._restored = data

    def _close(self) -> None:
        if self._native is not None:
            self._native.close()
        self._native = None


_registry: Dict[str, _Entry] = {}


def register_all(job: _job.Job) -> None:
    """Makes all states that there are part of the job's checkpoints: before loops and epochs begin."""
    for entry in list(_registry.values()):
        entry.register(job)


def load_state(state: State) -> bool:
    """Loads the state if the job goes on from a checkpoint, or from replicas that train, that have it:
    whether it was. Collective."""
    job = _job.job().meet()
    entry = _registry.get(state.name)
    if entry is None or entry._state is not state:
        raise Error(f"the state {state.name!r} is not known; was State.__init__() called?")
    entry.register(job)
    return entry.load()


def save_all_states() -> bool:
    """Checkpoints now, and returns when that is on storage: whether it could be written. Collective;
    outside of data loader loops."""
    job = _job.job().meet()
    register_all(job)
    saved = ctypes.c_int()
    check(engine.job_save_all(job.handle, ctypes.byref(saved)))
    return bool(saved.value)


def request_checkpoint() -> None:
    """Asks for a checkpoint at the next step."""
    job = _job.job().meet()
    check(engine.job_request_checkpoint(job.handle))
