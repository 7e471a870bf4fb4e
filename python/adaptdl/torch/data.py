"""Data loaders that deal each batch out to the replicas of a job, however many there are."""

import ctypes
import functools
from collections import deque
from ctypes import POINTER, c_int, c_int64
from typing import Any, Callable, Deque, Iterator, List, Optional, Sized, Tuple

import torch
from torch.utils.data import DataLoader, IterableDataset, Sampler, TensorDataset
from torch.utils.data._utils.collate import default_collate

from adaptdl import _job, checkpoint, env
from adaptdl._engine import Batch, LoaderOptions, check, engine, fail, make
from adaptdl.torch._streams import Shards, Streams
from adaptdl.torch._workers import Results, WorkerInit


class ElasticSampler(Sampler):
    """The order of samples alone: what this replica reads of an epoch. The same on every machine and in
    every run. All replicas have as many: some samples are read twice for that. (AdaptiveDataLoader reads
    each once.)"""
    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch: Optional[int] = 0
        self.index = 0
        self._rank: Optional[int] = None
        self._replicas: Optional[int] = None

    def set_epoch(self, epoch: Optional[int], index: int = 0) -> None:
        """Chooses the epoch, and how many samples of it all replicas together have read."""
        self.epoch = epoch
        self.index = index

    @property
    def rank(self) -> int:
        """This replica's number; another one's may be set."""
        return env.replica_rank() if self._rank is None else self._rank

    @rank.setter
    def rank(self, rank: int) -> None:
        self._rank = rank

    @property
    def num_replicas(self) -> int:
        """How many replicas there are; another number may be set."""
        return env.num_replicas() if self._replicas is None else self._replicas

    @num_replicas.setter
    def num_replicas(self, replicas: int) -> None:
        self._replicas = replicas

    def _share(self, index: int, rank: int) -> List[int]:
        room = len(self.dataset)
        indices = (c_int64 * max(room, 1))()
        count = engine.sampler_indices(room, int(self.shuffle), self.seed, max(self.epoch or 0, 0), index,
                                       rank, self.num_replicas, indices, room)
        return indices[:count]

    def __iter__(self) -> Iterator[int]:
        share = self._share(self.index, self.rank)
        if len(share) < len(self):
            # As many as the others have: one of the beginning of the pass.
            size = len(self.dataset)
            share += self._share(self.index - self.index % size, self.rank % size)[:1]
        return iter(share)

    def __len__(self) -> int:
        left = len(self.dataset) - self.index % len(self.dataset)
        return -(-left // self.num_replicas)


class AdaptiveDataLoader(DataLoader):
    """A DataLoader whose `batch_size` is the total over all replicas, and stays what it is with any number of
    them.

    Each sample is read exactly once in a pass, over any sequence of changes. A replica's share of a batch may
    be larger or smaller than that of another by one. One whose share is empty gets a sample that counts for
    nothing.

    `seed` is of the order of samples. `base_batch_size`: the learning rate was found with batches of this
    size, if `batch_size` is another. `max_local_batch_size`: most samples that a replica computes at once;
    larger shares become several micro-batches, after the last of which the optimiser runs. `band`: part of
    `batch_size` by which the total may differ so that all shares are equal.

    An IterableDataset is read shard by shard: it has to have `shards()`, a list of what can be read apart,
    and `read(shard)`, which yields one's samples. Each shard is read by one replica, or worker, at a time.
    Its batches keep their size, and `shuffle` is of the shards' order.

    Everything else is as DataLoader has it. Samplers of one's own are refused.
    """
    def __init__(self,
                 dataset: Any,
                 batch_size: int = 1,
                 shuffle: bool = False,
                 *,
                 drop_last: bool = False,
                 seed: int = 0,
                 base_batch_size: int = 0,
                 max_local_batch_size: int = 0,
                 band: float = 0.0,
                 **kwargs: Any) -> None:
        if kwargs.get("batch_sampler") is not None or kwargs.get("sampler") is not None:
            raise ValueError(
                "AdaptiveDataLoader deals samples out itself; leave sampler and batch_sampler away")
        if not isinstance(batch_size, int) or batch_size < 1:
            raise ValueError(f"batch_size is {batch_size!r}; give a whole number of at least 1")
        kwargs.pop("sampler", None)
        kwargs.pop("batch_sampler", None)
        self._job = _job.promised()
        self._handle: Any = None
        self._batch = Batch()
        self._max_batch_size = 0
        self._local_bsz_bounds: Optional[Tuple[Optional[int], Optional[int]]] = None
        self._gradient_accumulation = False
        self._worker_init = WorkerInit(kwargs.get("worker_init_fn"), kwargs.get("num_workers", 0))
        kwargs["worker_init_fn"] = self._worker_init
        # What reads ahead; the streams are None for a data set with indices.
        self._ahead: Any
        self._streams: Optional[Streams] = None
        if isinstance(dataset, IterableDataset):
            if base_batch_size or band:
                raise ValueError(
                    "batches of an IterableDataset keep their size; leave base_batch_size and band away")
            shards = Shards(dataset)
            size = len(shards)
            super().__init__(dataset, batch_size=batch_size, drop_last=drop_last, **kwargs)
            self._ahead = self._streams = Streams(shards, self._largest_share)
            if self.num_workers > 0:
                self._streams.read_by(self)
        else:
            size = len(dataset)
            self._ahead = _ReadAhead(self)
            super().__init__(dataset, batch_sampler=self._ahead, **kwargs)
            # A DataLoader with a sampler of batches says that it has none.
            object.__setattr__(self, "batch_size", batch_size)
            object.__setattr__(self, "drop_last", drop_last)
        self._options = LoaderOptions(size, batch_size, base_batch_size, max_local_batch_size, seed, band,
                                      int(shuffle), int(drop_last))
        self._job.when_met(self._open)

    def _open(self) -> None:
        if self._streams is not None:
            self._handle = self._streams.open(self._job, self._options)
        else:
            self._handle = make(
                functools.partial(engine.loader_open, self._job.handle, ctypes.byref(self._options)))
        self._job.at_close(self._close)
        if self._max_batch_size:
            self._autoscale()

    def _close(self) -> None:
        if self._handle is not None:
            engine.loader_close(self._handle)
        self._handle = None
        if self._streams is not None:
            self._streams.close()
        # Processes that stay end here: later Python takes those that end for lost ones.
        self._iterator = None

    def _autoscale(self) -> None:
        low, high = self._local_bsz_bounds or (None, None)
        check(
            engine.loader_autoscale(self._handle, self._max_batch_size, low or 0, high or 0,
                                    int(self._gradient_accumulation)))

    def autoscale_batch_size(self,
                             max_batch_size: int,
                             local_bsz_bounds: Optional[Tuple[Optional[int], Optional[int]]] = None,
                             gradient_accumulation: bool = False) -> None:
        """Lets the total batch size change, up to `max_batch_size`, as is best for the training's
        progress. One loader of a job may. `local_bsz_bounds`: least and most samples that a replica
        computes at once; either may be None. `gradient_accumulation`: whether more samples in a step than
        the replicas hold at once are worth considering. All replicas call it alike, outside of the loop."""
        if self._streams is not None:
            raise ValueError(
                "batches of an IterableDataset keep their size; leave autoscale_batch_size() away")
        if not isinstance(max_batch_size, int) or max_batch_size < self.batch_size:
            raise ValueError(
                f"max_batch_size is {max_batch_size!r}; give a whole number of at least batch_size = "
                f"{self.batch_size}")
        low, high = local_bsz_bounds or (None, None)
        if low is not None and low > self.batch_size:
            raise ValueError(
                f"the lower of local_bsz_bounds is {low}; give at most batch_size = {self.batch_size}")
        if high is not None and high < self.batch_size:
            raise ValueError(
                f"the upper of local_bsz_bounds is {high}; give at least batch_size = {self.batch_size}")
        self._max_batch_size = max_batch_size
        self._local_bsz_bounds = local_bsz_bounds
        self._gradient_accumulation = gradient_accumulation
        if self._handle is not None:
            self._autoscale()

    # --- The loop ---

    def __iter__(self) -> Iterator[Any]:
        job = self._job.meet()
        checkpoint.register_all(job)
        begun = c_int()
        check(engine.loader_begin(self._handle, ctypes.byref(begun)))
        if not begun.value:
            return
        job.loader = self
        batch, reference = self._batch, ctypes.byref(self._batch)
        base = self._options.base_batch_size or self.batch_size
        fetch = self._reader()
        try:
            while True:
                for model in job.models:
                    model.complete()
                status = engine.loader_next(self._handle, reference)
                if status:
                    fail(status)
                if not batch.more:
                    break
                for model in job.models:
                    model.after_next(batch, base)
                yield self._take(fetch, batch)
        finally:
            job.loader = None
            self._ahead.forget()
            if self._handle is not None:
                check(engine.loader_end(self._handle))

    def _take(self, fetch: Callable[[List[int]], Any], batch: Batch) -> Any:
        data = fetch(batch.indices[:batch.count])
        engine.loader_read(self._handle)
        return data

    def _reader(self) -> Callable[[List[int]], Any]:
        """What gives the samples of these indices as a batch."""
        if self.num_workers > 0:
            self._worker_init.rank = env.replica_rank()
            if self._streams is None:
                return _Workers(self._ahead, super().__iter__).read
        dataset, collate = self.dataset, self.collate_fn
        if _holds_tensors(dataset) and collate is default_collate and not self.pin_memory:
            return lambda indices: [tensor[indices] for tensor in dataset.tensors]
        read_all = self._streams.samples if self._streams else getattr(dataset, "__getitems__", None)
        pin = self.pin_memory and torch.cuda.is_available()

        def read(indices: List[int]) -> Any:
            samples = read_all(indices) if read_all is not None else [dataset[index] for index in indices]
            data = collate(samples)
            return torch.utils.data._utils.pin_memory.pin_memory(data) if pin else data

        return read

    def _largest_share(self) -> int:
        return -(-self.batch_size // env.num_replicas())

    def __len__(self) -> int:
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (1 if rest and not self.drop_last else 0)

    # --- Where it is ---

    @property
    def _elastic(self) -> "AdaptiveDataLoader":
        """As some of AdaptDL's programs ask for what `current_dataloader()` gives."""
        return self

    def _sizes(self) -> Batch:
        if self._handle is None:
            self._job.meet()
        sizes = Batch()
        check(engine.loader_sizes(self._handle, ctypes.byref(sizes)))
        return sizes

    @property
    def current_batch_size(self) -> int:
        """Samples of the step in progress over all replicas."""
        return self._sizes().batch_size

    @property
    def current_local_bsz(self) -> int:
        """Most samples that one replica computes at once."""
        return self._sizes().local_batch_size

    @property
    def accumulation_steps(self) -> int:
        """Micro-batches of a step besides its last one."""
        return self._sizes().micro_batches - 1

    @property
    def max_batch_size(self) -> Optional[int]:
        """What `autoscale_batch_size()` was given. None: the batch size stays."""
        return self._max_batch_size or None

    @property
    def local_bsz_bounds(self) -> Optional[Tuple[Optional[int], Optional[int]]]:
        """What `autoscale_batch_size()` was given."""
        return self._local_bsz_bounds

    def is_accum_step(self) -> bool:
        """Whether more micro-batches come before the optimiser runs."""
        return not self._batch.is_optimizer_step

    def is_optim_step(self) -> bool:
        """Whether the optimiser runs after this micro-batch."""
        return bool(self._batch.is_optimizer_step)

    def is_last_batch(self) -> bool:
        """Whether the pass is over after this batch, as it looks now: a step that comes to nothing is taken
        again. All replicas call it alike: those that share an IterableDataset have to ask each other."""
        last = c_int()
        check(engine.loader_is_last(self._handle, ctypes.byref(last)))
        return bool(last.value)

    def to_tensorboard(self, writer: Any, global_step: int, tag_prefix: str = "") -> None:
        """Writes the sizes, as scalars whose tags begin with `tag_prefix`, into a SummaryWriter."""
        sizes = self._sizes()
        writer.add_scalar(tag_prefix + "Total_Batch_Size", sizes.batch_size, global_step)
        writer.add_scalar(tag_prefix + "Local_Batch_Size", sizes.local_batch_size, global_step)
        writer.add_scalar(tag_prefix + "Accumulation_Steps", sizes.micro_batches - 1, global_step)


def _holds_tensors(dataset: Any) -> bool:
    """Whether a batch can be read at once, by which it comes out as if its samples had been put together."""
    return type(dataset) is TensorDataset and all(tensor.layout is torch.strided
                                                  for tensor in dataset.tensors)


class _ReadAhead(Sampler):
    """What the loader's workers are to read: the batches that are expected, each as soon as somebody is free
    for it.

    `asked` holds those that were asked for and are not used yet, in order. What was expected may not come
    about, as the batch size and the replicas change: then they are asked for anew, from the batch in
    progress on.
    """
    def __init__(self, loader: "AdaptiveDataLoader") -> None:
        self._loader = loader
        self.asked: Deque[List[int]] = deque()
        # The batch in progress, if it is or would be the first of `asked`.
        self.current: Optional[List[int]] = None

    def forget(self) -> None:
        """The loop is over."""
        self.asked.clear()
        self.current = None

    def __iter__(self) -> "_ReadAhead":
        return self

    def __next__(self) -> List[int]:
        ahead = len(self.asked) + (1 if self.current is None else 0)
        if ahead == 0:
            assert self.current is not None
            indices = self.current
        else:
            address, count = POINTER(c_int64)(), c_int64()
            check(engine.loader_peek(self._loader._handle, ahead, ctypes.byref(address), ctypes.byref(count)))
            if count.value == 0:
                raise StopIteration
            indices = address[:count.value]
        self.asked.append(indices)
        return indices

    def __len__(self) -> int:
        return len(self._loader)


class _Workers:
    """Reads through a DataLoader's workers."""
    def __init__(self, ahead: _ReadAhead, start: Callable[[], Iterator[Any]]) -> None:
        self._ahead = ahead
        self._results = Results(start)

    def read(self, indices: List[int]) -> Any:
        """The batch of these samples, which is the one in progress."""
        ahead = self._ahead
        unused = 0
        if ahead.asked and ahead.asked[0] != indices:
            unused = len(ahead.asked)
            ahead.asked.clear()
        ahead.current = indices
        for _ in range(unused):
            next(self._results)
        data = next(self._results)
        ahead.asked.popleft()
        ahead.current = None
        return data


def current_dataloader() -> Optional[AdaptiveDataLoader]:
    """The loader whose loop is in progress. None: there is none."""
    job = _job.current()
    return job.loader if job is not None else None
