"""The job that this process is a replica of: one per process, opened when it is first needed, closed at the
end.

The replicas meet when something is used that needs them (`Job.meet()`), so that a replica that joins a job
that trains imports, reads its data and builds its model while the others go on. What is made before that
waits (`Job.when_met()`), also for init_process_group(), where that comes later (`promised()`).
"""

import atexit
import ctypes
import os
import signal
import threading
from ctypes import c_void_p
from typing import Any, Callable, List, Optional, Sequence, Tuple

from adaptdl import Error, _log
from adaptdl._engine import Place, check, engine, make

# As the engine has it: stopped on request; what is needed was lost with a peer.
EXIT_STOPPED, EXIT_PEER_LOST = 143, 75

_job: Optional["Job"] = None


class Job:
    """A replica's end of its job. Use `job()` to get it."""
    def __init__(self) -> None:
        self._place = Place()
        self._waiting: List[Callable[[], None]] = []
        self._closers: List[Callable[[], None]] = []
        self._pid = os.getpid()
        self._signals: Optional["_Signals"] = None
        # None: it is not open yet, or over.
        self.handle: Optional[c_void_p] = None
        self.opened = False
        self.met = False
        # The training thread; and its rank, how many replicas there are, and on how many nodes, as it was last
        # told, for other threads and for forked children.
        self._thread = 0
        self._seen = (0, 1, 1)
        # Models that are trained; the loader whose loop is in progress.
        self.models: List[Any] = []
        self.loader: Any = None

    def open(self, backend: str = "", address: str = "", world_size: int = 0, rank: int = -1) -> None:
        """Once. What is left out comes from the environment."""
        self._pid = os.getpid()
        self._signals = _Signals(self)
        _log.open_lines()
        try:
            self.handle = make(engine.job_open, backend.encode(), address.encode(), world_size, rank)
        except BaseException:
            self._signals.restore()
            _log.close_lines()
            raise
        self.opened = True

    def place(self) -> Place:
        """Where this replica is, in the group and in the program. Overwritten by the next call."""
        self.check_usable()
        place = self._place
        check(engine.job_place(self.handle, ctypes.byref(place)))
        self._seen = (place.rank, place.replicas, place.nodes)
        return place

    def ranks(self) -> Tuple[int, int, int]:
        """This replica's rank, how many there are, and on how many nodes; from any thread, and in forked
        children."""
        if self._thread == threading.get_ident() and self._pid == os.getpid():
            self.place()
        return self._seen

    def check_usable(self) -> None:
        """Raises where there is no job: in a forked child, and at the program's end."""
        if self.handle is None:
            raise Error("the job is over: this process has left it" if self.opened else "the job is not open yet")
        if self._pid != os.getpid():
            raise Error(
                "this process was forked from a replica, and is none itself: use adaptdl in the parent only")

    def when_met(self, action: Callable[[], None]) -> None:
        """Runs `action` as soon as the replicas have met: now, or in the order of these calls."""
        if self.met:
            action()
        else:
            self._waiting.append(action)

    def meet(self, expected: Sequence[c_void_p] = ()) -> "Job":
        """Meets the other replicas, if that was not done yet. `expected`: states that are registered right
        after."""
        if self.met:
            return self
        if not self.opened:
            self.open()
        self.check_usable()
        states = (c_void_p * max(len(expected), 1))(*expected)
        check(engine.job_meet(self.handle, states, len(expected)))
        self.met = True
        self._thread = threading.get_ident()
        self.place()
        # They know this module.
        from adaptdl import _accumulator, _replay
        _replay.attach(self)
        _accumulator.attach(self)
        while self._waiting:
            self._waiting.pop(0)()
        return self

    def at_close(self, closer: Callable[[], None]) -> None:
        """`closer` runs before the job is closed; the last one first."""
        self._closers.append(closer)

    def close(self) -> None:
        """Leaves the job."""
        if self.handle is None or self._pid != os.getpid():
            return
        while self._closers:
            self._closers.pop()()
        handle, self.handle = self.handle, None
        engine.job_close(handle)
        if self._signals is not None:
            self._signals.restore()
        _log.close_lines()

    def forget_in_child(self) -> None:
        """After a fork, in the child."""
        if self.handle is not None:
            engine.job_forget_in_child(self.handle)


class _Signals:
    """Python's own part in SIGTERM: whatever handler there was runs too, and before the replicas have met,
    when nothing is there to be saved, the program ends at once. The engine's handlers are put before
    Python's."""
    def __init__(self, owner: Job) -> None:
        self._installed = threading.current_thread() is threading.main_thread()
        if not self._installed:
            return
        self._before = signal.getsignal(signal.SIGTERM)

        def on_terminate(number: int, frame: Any) -> None:
            if os.getpid() == owner._pid and not owner.met:
                raise SystemExit(EXIT_STOPPED)
            if callable(self._before):
                self._before(number, frame)

        self._handler = on_terminate
        signal.signal(signal.SIGTERM, on_terminate)

    def restore(self) -> None:
        """Gives SIGTERM back, unless somebody else has taken it."""
        if self._installed and signal.getsignal(signal.SIGTERM) is self._handler:
            signal.signal(signal.SIGTERM, self._before if self._before is not None else signal.SIG_DFL)


def promised() -> Job:
    """The job, which may not be open yet: for what can wait until it is."""
    global _job
    if _job is None:
        _job = Job()
    return _job


def ranks() -> Optional[Tuple[int, int, int]]:
    """`Job.ranks()`, once the replicas have met."""
    return _job.ranks() if _job is not None and _job.handle is not None and _job.met else None


def job() -> Job:
    """The job; opened as the environment says, if it is not open yet."""
    made = promised()
    if not made.opened:
        made.open()
    return made


def current() -> Optional[Job]:
    """The job, if it is open, and this process its replica."""
    usable = _job is not None and _job.handle is not None and _job._pid == os.getpid()
    return _job if usable else None


def open_job(backend: str = "", address: str = "", world_size: int = 0, rank: int = -1) -> Job:
    """Opens the job. Once: a second time is refused."""
    global _job
    if _job is not None and _job.opened:
        if _job.handle is not None:
            _job.check_usable()
            raise Error("the process group is there already: init_process_group() is to be called once, before "
                        "models, epochs and loops over loaders")
        _job = None
    made = promised()
    made.open(backend, address, world_size, rank)
    return made


def close_job() -> None:
    """Leaves the job before the program's end; a new one may be opened afterwards."""
    global _job
    if _job is not None and _job._pid == os.getpid():
        _job.close()
        _job = None


def _at_exit() -> None:
    """Leaves the job for good: what is destroyed later finds it closed."""
    if _job is not None:
        _job.close()


def _after_fork_in_child() -> None:
    if _job is not None:
        _job.forget_in_child()
        # Python's handler is the parent's affair as well.
        signals = _job._signals
        if signals is not None and signal.getsignal(signal.SIGTERM) is getattr(signals, "_handler", None):
            signals.restore()


atexit.register(_at_exit)
os.register_at_fork(after_in_child=_after_fork_in_child)
