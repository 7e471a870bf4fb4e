"""Data sets without indices: shards, each a stream of samples, which the engine leases to the replicas one by
one. This reads those of this replica, in this process or in the loader's workers.

Samples are numbered as they are read, and the engine says which of them are a batch.
"""

import ctypes
import functools
import itertools
from collections import deque
from typing import Any, Callable, Deque, Dict, Iterator, List, Optional, Sequence, Tuple

from torch.utils.data import DataLoader, Dataset

from adaptdl import _job
from adaptdl._engine import (LoaderOptions, Nothing, StreamCalls, WithLease, WithSample, WithShard, callback,
                             engine, make)
from adaptdl.torch import _packing
from adaptdl.torch._workers import Results

# In place of a sample: the shard has ended.
_END = object()


class Shards:
    """The shards of a data set, by their number."""
    def __init__(self, dataset: Any) -> None:
        if not callable(getattr(dataset, "shards", None)) or not callable(getattr(dataset, "read", None)):
            raise ValueError(
                f"{type(dataset).__name__} is an IterableDataset, which cannot be dealt out to replicas as it "
                "is: give it shards(), which returns a list of what can be read apart (files, say), and "
                "read(shard), which yields the samples of one of them, in the same order each time")
        self._dataset = dataset
        self._shards = list(dataset.shards())

    def __len__(self) -> int:
        return len(self._shards)

    def open(self, shard: int, skip: int) -> Iterator[Any]:
        """Its samples, without the first `skip`."""
        read_from = getattr(self._dataset, "read_from", None)
        if skip > 0 and read_from is not None:
            return iter(read_from(self._shards[shard], skip))
        return itertools.islice(self._dataset.read(self._shards[shard]), skip, None)


class _Lease:
    """A shard that this replica is to read, and how many of its samples were taken."""
    def __init__(self, number: int, shard: int, skip: int, run: int) -> None:
        self.number = number
        self.shard = shard
        self.position = skip
        # Workers: how many samples they are asked for at a time, and up to where they were.
        self.run = run
        self.asked = skip


class _Reader:
    """Reads shards in this process, one after the other."""
    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._leases: Deque[_Lease] = deque()
        self._stream: Optional[Iterator[Any]] = None

    def add(self, lease: _Lease) -> None:
        """It is to be read after those that were added before."""
        self._leases.append(lease)

    def forget(self) -> None:
        """No lease is worth anything any more."""
        self._leases.clear()
        self._stream = None

    def take(self) -> Tuple[_Lease, Any]:
        """The next sample."""
        lease = self._leases[0]
        if self._stream is None:
            self._stream = self._shards.open(lease.shard, lease.position)
        sample = next(self._stream, _END)
        if sample is _END:
            self._leases.popleft()
            self._stream = None
        return lease, sample

    def stop(self) -> None:
        """The loop is over."""
        self.forget()

    def close(self) -> None:
        """There is no other loop."""


# What a worker is asked for: the number of a lease, its shard, where to go on, and how many samples. None:
# nothing, as it has no lease.
_Request = Optional[Tuple[int, int, int, int]]


class _Runs(Dataset):
    """What workers read: runs of one shard's samples. Each worker keeps the stream that it was last asked
    for."""
    def __init__(self, shards: Shards) -> None:
        self._shards = shards
        self._stream: Iterator[Any] = iter(())
        self._at: Any = None

    def __getitem__(self, request: _Request) -> Optional[Tuple[int, bool, _packing.Packed]]:
        """The run, with its lease, and whether the shard has ended."""
        if request is None:
            return None
        lease, shard, position, count = request
        if self._at == (lease, _END):
            return lease, True, _packing.pack([])
        if self._at != (lease, position):
            self._stream = self._shards.open(shard, position)
        samples = list(itertools.islice(self._stream, count))
        ends = len(samples) < count
        self._at = (lease, _END if ends else position + count)
        return lease, ends, _packing.pack(samples)


class _WorkersReader:
    """Reads shards in the processes of a DataLoader, one in each as long as there are enough. Runs of samples
    come from them in turn: which ones does not depend on who is faster."""
    def __init__(self, shards: Shards, loader: DataLoader) -> None:
        # It asks the processes in turn; what they have read ahead is the leases' that they had.
        self._requests = DataLoader(_Runs(shards),
                                    batch_size=None,
                                    sampler=self,
                                    num_workers=loader.num_workers,
                                    collate_fn=_as_it_is,
                                    timeout=loader.timeout,
                                    worker_init_fn=loader.worker_init_fn,
                                    multiprocessing_context=loader.multiprocessing_context,
                                    generator=loader.generator,
                                    prefetch_factor=loader.prefetch_factor,
                                    persistent_workers=loader.persistent_workers)
        self._results: Optional[Results] = None
        self._leases: Dict[int, _Lease] = {}
        # By process, and those that none has yet.
        self._reading: List[Optional[_Lease]] = [None] * loader.num_workers
        self._waiting: Deque[_Lease] = deque()
        # The run that samples are taken of.
        self._lease: Optional[_Lease] = None
        self._ends = False
        self._samples: Deque[Any] = deque()

    def add(self, lease: _Lease) -> None:
        """It is to be read by the next process that is free."""
        self._leases[lease.number] = lease
        self._waiting.append(lease)

    def forget(self) -> None:
        """No lease is worth anything any more."""
        self._leases.clear()
        self._reading = [None] * len(self._reading)
        self._waiting.clear()
        self._samples.clear()
        self._ends = False

    def __iter__(self) -> Iterator[_Request]:
        """What the processes are to read."""
        for process in itertools.cycle(range(len(self._reading))):
            if self._reading[process] is None and self._waiting:
                self._reading[process] = self._waiting.popleft()
            lease = self._reading[process]
            if lease is None:
                yield None
                continue
            begin, lease.asked = lease.asked, lease.asked + lease.run
            yield lease.number, lease.shard, begin, lease.run

    def take(self) -> Tuple[_Lease, Any]:
        """The next sample."""
        while not self._samples and not self._ends:
            self._receive()
        assert self._lease is not None
        if self._samples:
            return self._lease, self._samples.popleft()
        self._ends = False
        del self._leases[self._lease.number]
        self._reading[self._reading.index(self._lease)] = None
        return self._lease, _END

    def _receive(self) -> None:
        if self._results is None:
            self._results = Results(self._requests.__iter__)
        run = next(self._results)
        # Of nothing, or read ahead for a lease that is void, or of a shard that has ended.
        if run is None or run[0] not in self._leases:
            return
        self._lease, self._ends = self._leases[run[0]], run[1]
        self._samples.extend(_packing.unpack(run[2]))

    def stop(self) -> None:
        """The loop is over."""
        self.forget()
        self._results = None

    def close(self) -> None:
        """There is no other loop: processes that stay end."""
        self._requests._iterator = None


def _as_it_is(value: Any) -> Any:
    return value


class Streams:
    """What a loader over shards reads: see the top of this module. `run()` gives how many samples this
    replica has of a batch."""
    def __init__(self, shards: Shards, run: Callable[[], int]) -> None:
        self._shards = shards
        self._run = run
        self._reader: Any = _Reader(shards)
        self._at_once = 1
        self._leases = itertools.count()
        # Those that may still be asked for, and the number of the first of them.
        self._samples: List[Any] = []
        self._first = 0
        self._calls = StreamCalls(callback(WithLease, self._add), callback(Nothing, self._forget),
                                  callback(WithSample, self._take), callback(WithShard, self._stand_in))

    def read_by(self, loader: DataLoader) -> None:
        """The workers of this loader are to read."""
        self._reader = _WorkersReader(self._shards, loader)
        self._at_once = loader.num_workers

    def open(self, job: _job.Job, options: LoaderOptions) -> Any:
        """The engine's handle of the loader."""
        return make(
            functools.partial(engine.stream_open, job.handle, ctypes.byref(options), self._at_once,
                              ctypes.byref(self._calls)))

    def samples(self, numbers: Sequence[int]) -> List[Any]:
        """The samples of a batch. Earlier ones are not asked for any more."""
        before = max(numbers[0] - self._first, 0)
        del self._samples[:before]
        self._first += before
        return [self._samples[number - self._first] for number in numbers]

    def forget(self) -> None:
        """The loop is over. A sample may stand in for an empty share in the next one."""
        self._reader.stop()

    def close(self) -> None:
        """There is no other loop."""
        self._reader.close()

    # --- What the engine calls ---

    def _add(self, shard: int, skip: int) -> None:
        self._reader.add(_Lease(next(self._leases), shard, skip, self._run()))

    def _forget(self) -> None:
        self._reader.forget()

    def _take(self, into: Any) -> None:
        lease, sample = self._reader.take()
        taken = into[0]
        taken.shard = lease.shard
        if sample is _END:
            taken.number = -1
        else:
            lease.position += 1
            taken.number = self._keep(sample)
        taken.position = lease.position

    def _stand_in(self, shard: int, number: Any) -> None:
        for sample in itertools.islice(self._shards.open(shard, 0), 1):
            number[0] = self._keep(sample)

    def _keep(self, sample: Any) -> int:
        self._samples.append(sample)
        return self._first + len(self._samples) - 1
