"""What replicas tell each other: objects, by pickle, between members that have proved the group's token.

All replicas call the same functions in the same order. When a replica is lost the others go on: a call that
has not ended is made anew among those that are left. Inside of a loop's step that came to nothing for that
reason, a call gives what this replica has said alone: the loop's body runs again, and what it does until then
does not count.

What is called outside of data loader loops is remembered until the epoch ends: code that runs again after
a restart, and on a replica that joins, gets the results of then.
"""

import ctypes
import functools
import operator
import pickle
from ctypes import c_int64
from typing import Any, Callable, Generic, List, Optional, TypeVar

from adaptdl import Error
from adaptdl import _job, _replay, env
from adaptdl._engine import engine, make

T = TypeVar("T")

__all__ = [
    "Future", "allreduce", "allreduce_async", "broadcast", "gather", "initialize", "initialized", "teardown"
]


class Future(Generic[T]):
    """What `allreduce_async()` gives."""
    def __init__(self, value: T) -> None:
        self._value = value

    def result(self) -> T:
        """The result, the same on all replicas."""
        return self._value


def initialize(master_addr: Optional[str] = None,
               master_port: Optional[int] = None,
               replica_rank: Optional[int] = None,
               num_replicas: Optional[int] = None) -> None:
    """Meets the other replicas; what is left out comes from the environment."""
    if _job.current() is not None and _job.job().met:
        raise Error("the replicas have met already: initialize() is to be called once")
    if _job.current() is None:
        port = env.master_port() if master_port is None else master_port
        replicas = num_replicas or 0
        alone = (replicas or env.num_replicas()) == 1
        address = "" if alone or not port or master_addr is None else f"{master_addr}:{port}"
        rank = -1 if replica_rank is None else replica_rank
        _job.open_job("gloo", address, replicas, rank)
    _job.job().meet()


def initialized() -> bool:
    """Whether the replicas have met."""
    job = _job.current()
    return job is not None and job.met


def teardown() -> None:
    """Leaves the job."""
    if not initialized():
        raise Error("the replicas have not met: there is nothing to leave")
    _job.close_job()


def gather_bytes(data: bytes) -> Optional[List[bytes]]:
    """All replicas' bytes, by rank, whether code runs again or not. None: the step in progress is void."""
    job = _job.job().meet()
    if any(model.is_exchanging() for model in job.models):
        raise Error(
            "replicas cannot tell each other anything inside of backward(), where their gradients travel: do it "
            "before or after")
    handle = make(functools.partial(engine.job_gather, job.handle, data, len(data)))
    try:
        size = c_int64()
        parts = []
        for index in range(engine.gathered_count(handle)):
            address = engine.gathered_bytes(handle, index, ctypes.byref(size))
            parts.append(ctypes.string_at(address, size.value))
        return parts or None
    finally:
        engine.gathered_close(handle)


def gather_now(value: Any) -> Optional[List[Any]]:
    """All replicas' values, by rank, whether code runs again or not. None: the step in progress is void."""
    return _loaded(gather_bytes(pickle.dumps(value)))


def once(ask: Callable[[], Optional[List[bytes]]]) -> Optional[List[bytes]]:
    """What `ask()` gives, or, where code outside of loops runs again, what it gave the first time. None: the
    step in progress is void."""
    place = _job.job().meet().place()
    if place.in_loop:
        return ask()
    memory = _replay.memory()
    known = memory.next_result(place)
    if known is not None:
        return pickle.loads(known)
    result = ask()
    if result is not None:
        memory.keep_result(pickle.dumps(result))
    return result


def gather_valid(value: T) -> Optional[List[T]]:
    """All replicas' values, by rank. None: the step in progress is void."""
    return _loaded(once(functools.partial(gather_bytes, pickle.dumps(value))))


def _loaded(parts: Optional[List[bytes]]) -> Optional[List[Any]]:
    return None if parts is None else [pickle.loads(part) for part in parts]


def gather(value: T) -> List[T]:
    """All replicas' values, by rank."""
    values = gather_valid(value)
    return [value] if values is None else values


def allreduce(value: T, reduce_fn: Callable[[T, T], T] = operator.add) -> T:
    """All replicas' values, folded from rank 0 on by `reduce_fn`, which must not change its arguments for
    others."""
    return functools.reduce(reduce_fn, gather(value))


def allreduce_async(value: T, reduce_fn: Callable[[T, T], T] = operator.add) -> "Future[T]":
    """As `allreduce()`; the result is to be asked for later. It is there when the call returns."""
    return Future(allreduce(value, reduce_fn))


def broadcast(value: T) -> T:
    """Rank 0's value."""
    return gather(value)[0]
