"""Elastic training with PyTorch, as programs written for AdaptDL have it:

    import adaptdl.torch as adl

    adl.init_process_group("gloo")
    loader = adl.AdaptiveDataLoader(dataset, batch_size=64, shuffle=True)
    model = adl.AdaptiveDataParallel(model, optimizer, scheduler)
    for epoch in adl.remaining_epochs_until(30):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss(model(inputs), targets).backward()
            optimizer.step()

What is elastic, and what is guaranteed, is described in docs/python.md.
"""

import contextlib
from typing import Iterator, Optional

from adaptdl import _job
from adaptdl._engine import engine
from adaptdl.torch.accumulator import Accumulator
from adaptdl.torch.data import AdaptiveDataLoader, ElasticSampler, current_dataloader
from adaptdl.torch.epoch import current_epoch, finished_epochs, remaining_epochs_until
from adaptdl.torch.iterator import AdaptiveBPTTIterator
from adaptdl.torch.parallel import AdaptiveDataParallel

__all__ = [
    "Accumulator",
    "AdaptiveBPTTIterator",
    "AdaptiveDataLoader",
    "AdaptiveDataParallel",
    "ElasticSampler",
    "busy",
    "current_dataloader",
    "current_epoch",
    "finished_epochs",
    "init_process_group",
    "remaining_epochs_until",
]


def init_process_group(backend: Optional[str] = None,
                       init_method: Optional[str] = None,
                       world_size: Optional[int] = None,
                       rank: Optional[int] = None) -> None:
    """Makes this process a replica of its job. Before models, epochs and loops over loaders.

    `backend` is "nccl", "gloo", or None: NCCL where this process sees a GPU and has NCCL. `init_method`
    ("tcp://host:port"), `world_size` and `rank` are for programs that know their group themselves; what is
    left out comes from the environment, as a scheduler or `adaptdl run` sets it.

    Returns at once: the replicas meet when something is used that needs them. It makes the default group of
    torch.distributed too, which follows the job: its functions work among the replicas there are.
    """
    from adaptdl.torch import _default_group  # programs without an own call of this need none of it
    _default_group.check_absent()
    job = _job.open_job(backend or "", init_method or "", world_size or 0, -1 if rank is None else rank)
    _default_group.make(job)


@contextlib.contextmanager
def busy() -> Iterator[None]:
    """Around what may take long without using the training thread, such as a compiler in a process of its
    own: the job does not take it for a hang."""
    job = _job.job().meet()
    engine.job_busy(job.handle, 1)
    try:
        yield
    finally:
        if job.handle is not None:
            engine.job_busy(job.handle, 0)
