"""The processes that read data for a replica: what they are told at first, and what comes back from them."""

import contextlib
import random
import signal
from typing import Any, Callable, Iterator, Optional

import torch

from adaptdl._engine import engine

# What asks a replica to stop, which comes to its workers too.
_STOPS = (signal.SIGTERM, signal.SIGINT)


@contextlib.contextmanager
def _stops_wait() -> Iterator[None]:
    """What stops this replica waits meanwhile, in this thread and in the processes that it makes, until
    WorkerInit lets it come: before that they do not know yet that they are to outlive it."""
    earlier = signal.pthread_sigmask(signal.SIG_BLOCK, _STOPS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, earlier)


class WorkerInit:
    """Gives the workers of each replica random numbers of their own; then what the program wants. What stops
    a replica goes to its workers too, which it needs until its step is finished."""
    def __init__(self, own: Optional[Callable[[int], None]], workers: int) -> None:
        self._own = own
        self._workers = workers
        self.rank = 0

    def __call__(self, worker: int) -> None:
        engine.ignore_stops_of_others()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOPS)
        seed = torch.initial_seed() + self.rank * self._workers
        torch.manual_seed(seed)
        random.seed(seed)
        try:
            import numpy
            numpy.random.seed(seed % 2**32)
        except ImportError:
            pass
        if self._own is not None:
            self._own(worker)


class Results:
    """What the processes of a DataLoader have read, one after the other. `start` makes them."""
    def __init__(self, start: Callable[[], Iterator[Any]]) -> None:
        self._start = start
        self._workers: Optional[Iterator[Any]] = None

    def __next__(self) -> Any:
        try:
            return self._ask()
        except (ConnectionError, EOFError, FileNotFoundError) as error:
            if "in DataLoader worker process" in str(error):  # the program's own, which the process passes on
                raise
            # A batch that was ready lay in the memory of a process that is gone.
            raise RuntimeError(
                "a DataLoader worker has exited unexpectedly, and its batch with it") from error

    def _ask(self) -> Any:
        if self._workers is None:
            self._workers = self._begin()
        try:
            return next(self._workers)
        except StopIteration:
            # There was nothing to be read for a while, at the end of a pass.
            self._workers = self._begin()
            return next(self._workers)

    def _begin(self) -> Iterator[Any]:
        with _stops_wait():
            return self._start()
