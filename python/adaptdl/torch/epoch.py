"""The epoch loop of a job that may be stopped and started again.

    for epoch in adl.remaining_epochs_until(90): ...

runs the epochs from the first unfinished one to 89. One that was interrupted is entered again; its data
loader loops that were finished are then skipped, and the interrupted one goes on where it stopped. An
epoch that is left by `break` is finished.
"""

import ctypes
from typing import Iterator, Optional

from adaptdl import Error, _job, checkpoint
from adaptdl._engine import check, engine, make


def remaining_epochs_until(epoch: int) -> Iterator[int]:
    """The epochs that are left, up to `epoch` (exclusive)."""
    job = _job.job().meet()
    if job.place().current_epoch >= 0:
        raise Error("epoch loops cannot be nested")
    checkpoint.register_all(job)
    number = ctypes.c_int()
    handle = make(lambda made: engine.epochs_open(job.handle, epoch, made, ctypes.byref(number)))
    try:
        while number.value >= 0:
            yield number.value
            check(engine.epochs_next(handle, ctypes.byref(number)))
    finally:
        if job.handle is not None:
            engine.epochs_close(handle)


def current_epoch() -> Optional[int]:
    """The epoch in progress. None: outside of the epoch loop."""
    job = _job.current()
    if job is None or not job.met or job.place().current_epoch < 0:
        return None
    return job.place().current_epoch


def finished_epochs() -> int:
    """Epochs done; within the epoch loop this is the number of the one in progress."""
    return _job.job().meet().place().finished_epochs
