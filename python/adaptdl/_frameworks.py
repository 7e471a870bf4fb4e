"""What the ways into training frameworks have in common: a plain DataLoader becomes an elastic one, and the epochs of a framework
are those of the job."""

from typing import Any, BinaryIO, Iterator, Optional

from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from adaptdl import Error, _job, checkpoint, collective
from adaptdl.torch.data import AdaptiveDataLoader
from adaptdl.torch.epoch import finished_epochs, remaining_epochs_until


def elastic_loader(loader: DataLoader, seed: int = 0) -> AdaptiveDataLoader:
    """The same data and batches, dealt out to all replicas. `batch_size` is the total."""
    if isinstance(loader, AdaptiveDataLoader):
        return loader
    if type(loader.sampler) not in (RandomSampler, SequentialSampler) or loader.batch_size is None:
        raise Error("the loader has a sampler of its own: samples can't be dealt out to replicas that come and go; give "
                    "shuffle=True or False, or an adaptdl.torch.AdaptiveDataLoader")
    return AdaptiveDataLoader(
        loader.dataset, batch_size=loader.batch_size, shuffle=isinstance(loader.sampler, RandomSampler),
        drop_last=loader.drop_last, seed=seed, num_workers=loader.num_workers, collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory, timeout=loader.timeout, worker_init_fn=loader.worker_init_fn,
        multiprocessing_context=loader.multiprocessing_context, generator=loader.generator,
        prefetch_factor=loader.prefetch_factor if loader.num_workers else None,
        persistent_workers=loader.persistent_workers)


class _Begin(checkpoint.State):
    """Where the epoch in progress began, for replicas that come into it."""

    def __init__(self) -> None:
        super().__init__("adaptdl-framework-epoch")
        self.epoch = -1
        self.steps = 0

    def save(self, fileobj: BinaryIO) -> None:
        fileobj.write(f"{self.epoch} {self.steps}".encode())

    def load(self, fileobj: BinaryIO) -> None:
        self.epoch, self.steps = map(int, fileobj.read().split())


class Epochs:
    """The job's epoch loop, for a framework whose own loop calls `begin()` at each epoch, and `end()` after the last."""

    def __init__(self, total: int) -> None:
        self._total = total
        self._loop: Optional[Iterator[int]] = None
        self._begin = _Begin()

    def first(self) -> int:
        """The epoch to begin with: the one that was interrupted, or that the other replicas are in."""
        checkpoint.load_state(self._begin)
        return min(finished_epochs(), self._total)

    def begin(self, epoch: int) -> None:
        """The framework's epoch begins. Data loader loops of the one before are over."""
        if self._loop is None:
            self._loop = remaining_epochs_until(self._total)
        expected: Any = next(self._loop, None)
        if expected != epoch:
            raise Error(f"epoch {epoch} begins, where the job is at {expected}: was a checkpoint of the framework loaded? The job "
                        "goes on from its own")
        if self._begin.epoch != epoch:
            self._begin.epoch, self._begin.steps = epoch, _job.job().place().optimizer_steps

    def steps(self) -> int:
        """Optimiser steps that the job has taken in the epoch, whether this replica was there or not."""
        return _job.job().place().optimizer_steps - self._begin.steps

    def end(self) -> None:
        """All epochs are over; those that were left out, because the framework has stopped early, are not made up for."""
        if self._loop is not None:
            close = getattr(self._loop, "close", None)
            if next(self._loop, None) is not None and close is not None:
                close()
        self._loop = None


def any_of(stops: bool) -> bool:
    """Whether one of the replicas says so: what a framework goes by may differ where a replica has come in. Collective."""
    return any(collective.gather(stops))
