"""Functions of torch.distributed that are others among replicas, while its default group is ours.

`all_gather()`: PyTorch hands a copy of the program's list on, which could not become shorter when a replica
is lost. Those for objects: PyTorch builds them of two collectives, sizes first, and then the objects' bytes.
Where a step comes to nothing between the two, the second one has none that fit the sizes of the first. These
ask once. And those that are not there, which PyTorch would refuse in some of the replicas only, or wait in.
"""

import functools
from typing import Any, Callable, Dict, List, Optional

import torch
import torch.distributed as dist

from adaptdl import Error, _job, collective, env
from adaptdl.torch._group import Group, Misfit, refuse, stop_for_loss


def _root(rank: Optional[int], group_rank: Optional[int]) -> int:
    return rank if rank is not None else group_rank or 0


def _replicas() -> int:
    _job.job().meet()
    return env.num_replicas()


def _fill(objects: List[Any], own: Any) -> None:
    """All replicas' objects: as many as have given one. In a step that came to nothing this replica's own
    stands for all."""
    values = collective.gather_valid(own)
    objects[:] = values if values is not None else [own] * len(objects)


def _of(root: int, own: Any) -> Any:
    """What rank `root` says. In a step that came to nothing, this replica."""
    asked = _replicas()
    values = collective.gather_valid([own] if env.replica_rank() == root else [])
    if values is None:
        return own
    if root >= len(values) or not values[root]:
        misfit = Misfit(f"rank {root} has nothing to say to {len(values)} replicas")
        if len(values) < asked:
            stop_for_loss(misfit)
        raise misfit
    return values[root][0]


def all_gather(tensor_list: List[torch.Tensor],
               tensor: torch.Tensor,
               group: Any = None,
               async_op: bool = False) -> Any:
    """All replicas' tensors, by rank: as many as have given one."""
    work = dist.group.WORLD.all_gather(tensor_list, tensor)
    return work if async_op else None


def all_gather_object(object_list: List[Any], obj: Any, group: Any = None, **_: Any) -> None:
    """All replicas' objects, by rank: as many as have given one."""
    _fill(object_list, obj)


def gather_object(obj: Any,
                  object_gather_list: Any = None,
                  dst: Optional[int] = None,
                  group: Any = None,
                  group_dst: Optional[int] = None,
                  **_: Any) -> None:
    """The same, for one of them."""
    _fill(object_gather_list if env.replica_rank() == _root(dst, group_dst) else [], obj)


def broadcast_object_list(object_list: List[Any],
                          src: Optional[int] = None,
                          group: Any = None,
                          device: Any = None,
                          group_src: Optional[int] = None,
                          **_: Any) -> None:
    """The objects of one of them."""
    object_list[:] = _of(_root(src, group_src), object_list)


def scatter_object_list(scatter_object_output_list: List[Any],
                        scatter_object_input_list: Optional[List[Any]] = None,
                        src: Optional[int] = None,
                        group: Any = None,
                        group_src: Optional[int] = None,
                        **_: Any) -> None:
    """Each one's of those that one of them deals."""
    asked = _replicas()
    dealt = _of(_root(src, group_src), scatter_object_input_list)
    rank, size = env.replica_rank(), env.num_replicas()
    if dealt is None:  # a step that came to nothing
        return
    if size < asked:
        stop_for_loss(Misfit(f"{len(dealt)} objects were dealt to {size} replicas"))
    if rank >= len(dealt):
        raise Error(
            f"there is nothing for rank {rank} among {len(dealt)} objects: the replicas have changed since")
    scatter_object_output_list[0] = dealt[rank]


def _refused(name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: refuse(f"{name}()")


_OURS: Dict[str, Callable[..., Any]] = {
    function.__name__: function
    for function in (all_gather, all_gather_object, gather_object, broadcast_object_list, scatter_object_list)
}
_OURS.update((name, _refused(name))
             for name in ("send", "recv", "isend", "irecv", "batch_isend_irecv", "send_object_list",
                          "recv_object_list", "monitored_barrier", "new_group", "new_subgroups",
                          "new_subgroups_by_enumeration", "split_group")
             if hasattr(dist, name))


def replace() -> Callable[[], None]:
    """Puts them in place of PyTorch's. Gives what puts those back."""
    before = {name: getattr(dist, name) for name in _OURS}
    _put({name: _either(before[name], _OURS[name]) for name in _OURS})
    return functools.partial(_put, before)


def _either(plain: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(plain)
    def chosen(*args: Any, **kwargs: Any) -> Any:
        return (ours if isinstance(dist.group.WORLD, Group) else plain)(*args, **kwargs)

    return chosen


def _put(functions: Dict[str, Callable[..., Any]]) -> None:
    for name, function in functions.items():
        for module in (dist, dist.distributed_c10d):
            setattr(module, name, function)
