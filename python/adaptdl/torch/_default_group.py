"""The default group of torch.distributed, while this process is a replica: made without a connection of its
own, and never made anew, as it asks the job for its ranks."""

import collections.abc
import functools
import inspect
import sys
from typing import Any, Callable, Iterator

import torch.distributed as dist

from adaptdl import Error, _job, env
from adaptdl.torch import _group_functions
from adaptdl.torch._group import BACKEND, Group, refuse


class _Store(dist.Store):
    """PyTorch counts in it whether all have come, when a group is made. The default one needs nobody; nothing
    else can be made of it."""
    def __init__(self) -> None:
        super().__init__()
        self.making_default = True

    def _use(self) -> None:
        if not self.making_default:
            refuse("new_group()")

    def add(self, key: str, count: int) -> int:
        """Everybody is there."""
        self._use()
        return env.num_replicas()

    def set(self, key: str, value: Any) -> None:
        """Nobody asks for it."""
        self._use()

    def get(self, key: str) -> bytes:
        """Nothing is there."""
        self._use()
        return b""

    def wait(self, *args: Any) -> None:
        """Everybody is there."""
        self._use()

    def compare_set(self, key: str, expected: Any, desired: Any) -> Any:
        """Only new groups do so."""
        self._use()
        return desired


class _Ranks(collections.abc.Mapping):
    """Ranks of the world by ranks in the group: the same, as many as there are now."""
    def __getitem__(self, rank: int) -> int:
        if rank not in range(env.num_replicas()):
            raise KeyError(rank)
        return rank

    def __iter__(self) -> Iterator[int]:
        return iter(range(env.num_replicas()))

    def __len__(self) -> int:
        return env.num_replicas()


def _create(*_: Any) -> Group:
    if dist.is_initialized():
        refuse("new_group()")
    return Group()


def check_absent() -> None:
    """Before the job is opened."""
    if dist.is_available() and dist.is_initialized() and not isinstance(dist.group.WORLD, Group):
        raise Error(
            "torch.distributed has a default group already, which would not follow replicas that come and go: "
            "leave its init_process_group() away; adaptdl.torch.init_process_group() makes one")


def make(job: _job.Job) -> None:
    """Makes it, until the job is closed, or the program destroys it."""
    if not dist.is_available():
        return
    _register()
    store = _Store()
    # The newest PyTorch puts the rank of now before what an exception says.
    hook = sys.excepthook
    dist.init_process_group(BACKEND, store=store, rank=env.replica_rank(), world_size=env.num_replicas())
    sys.excepthook = hook
    store.making_default = False
    group: Any = dist.group.WORLD
    dist.distributed_c10d._pg_group_ranks[group] = _Ranks()
    restore = _group_functions.replace()
    job.at_close(functools.partial(_close, group, restore))


def _register() -> None:
    if hasattr(dist.Backend, BACKEND.upper()):
        return
    register = dist.Backend.register_backend
    if "devices" in inspect.signature(register).parameters:
        register(BACKEND, _create, devices=["cpu", "cuda"])
    else:
        register(BACKEND, _create)


def _close(group: Group, restore: Callable[[], None]) -> None:
    restore()
    if dist.group.WORLD is group:
        dist.destroy_process_group()
