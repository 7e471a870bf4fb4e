"""torch.distributed's collectives over the engine, on all replicas of the job, however many there are.

As those of `adaptdl.collective`, by which they go: they survive the loss of a replica; outside of loops they
are remembered, for newcomers; in a step that came to nothing each replica gets what it has said alone.
Tensors cross as their bytes, those of a GPU by the CPU. All replicas add up in order of rank, so that
results are the same to the last bit.
"""

import ctypes
import functools
import logging
import sys
from typing import Any, Callable, List, NoReturn, Optional, Sequence

import torch
import torch.distributed as dist
from torch.futures import Future

from adaptdl import Error, collective, env
from adaptdl._job import EXIT_PEER_LOST

BACKEND = "adaptdl"

# By operation, in the order of rank.
_FOLDS = [(dist.ReduceOp.SUM, torch.add), (dist.ReduceOp.AVG, torch.add), (dist.ReduceOp.PRODUCT, torch.mul),
          (dist.ReduceOp.MIN, torch.minimum), (dist.ReduceOp.MAX, torch.maximum),
          (dist.ReduceOp.BAND, torch.bitwise_and), (dist.ReduceOp.BOR, torch.bitwise_or),
          (dist.ReduceOp.BXOR, torch.bitwise_xor)]


class Misfit(Error):
    """What replicas have said is not what they were asked for: too few of them, say."""


def stop_for_loss(why: Misfit) -> NoReturn:
    """Nobody can go on from here without what a lost replica had to say: the job goes on from its
    checkpoint."""
    logging.getLogger("adaptdl.torch").error(
        "a peer was lost in a call of torch.distributed, this replica stops to be restarted: %s", why)
    raise SystemExit(EXIT_PEER_LOST)


def refuse(what: str) -> NoReturn:
    """Says what to use in its place."""
    raise Error(
        f"torch.distributed's {what} is not there for replicas that come and go: what one has to tell "
        "another, adaptdl.collective.gather() tells all")


# --- Tensors as bytes ---


def _bytes_of(tensors: Sequence[torch.Tensor]) -> bytes:
    data = []
    for tensor in tensors:
        if tensor.layout is not torch.strided:
            raise Error("a tensor is sparse: replicas tell each other dense ones, as to_dense() gives them")
        plain = tensor.detach().cpu().contiguous()
        data.append(ctypes.string_at(plain.data_ptr(), _size(plain)))
    return b"".join(data)


def _given(*tensors: torch.Tensor) -> Callable[[], bytes]:
    return functools.partial(_bytes_of, tensors)


def _flat(data: bytes, like: torch.Tensor) -> torch.Tensor:
    return torch.frombuffer(bytearray(data), dtype=like.dtype) if data else torch.empty(0, dtype=like.dtype)


def _size(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def _write(to: torch.Tensor, data: bytes, like: torch.Tensor) -> None:
    """What is of the type of `like`."""
    with torch.no_grad():
        to.copy_(_flat(data, like).view(to.shape))


def _piece(data: bytes, rank: int, like: torch.Tensor) -> bytes:
    """One replica's, of pieces that are as large as this tensor."""
    size = _size(like)
    piece = data[rank * size:(rank + 1) * size]
    if len(piece) != size:
        raise Error(
            f"there is nothing for rank {rank} in what {len(data) // max(size, 1)} replicas were dealt: the "
            "replicas have changed since")
    return piece


def _done(result: Any) -> Any:
    """A Work that is over."""
    future: Any = Future()
    future.set_result(result)
    return torch._C._distributed_c10d._create_work_from_future(future)


# --- What replicas say ---


def _exchange(what: str,
              like: Optional[torch.Tensor],
              given: Callable[[], bytes],
              keep: Callable[[List[bytes]], List[bytes]] = lambda said: said) -> Optional[List[bytes]]:
    """What is kept of what all replicas say, by rank. `like` is what all of them call it with alike. None:
    the step in progress is void."""
    call = what if like is None else f"{what} of {like.numel()} {like.dtype}"
    head = call.encode() + b"\n"

    def ask() -> Optional[List[bytes]]:
        # The replicas have met.
        asked = env.num_replicas()
        said = collective.gather_bytes(head + given())
        if said is None:
            return None
        parts = []
        for rank, text in enumerate(said):
            theirs, _, data = text.partition(b"\n")
            _check_alike(f"rank {rank}", theirs, head[:-1])
            parts.append(data)
        try:
            return [head[:-1], *keep(parts)]
        except Misfit as misfit:
            if len(parts) < asked:
                stop_for_loss(misfit)
            raise

    found = collective.once(ask)
    if found is None:
        return None
    _check_alike("the first time the replicas", found[0], head[:-1])
    return found[1:]


def _check_alike(who: str, theirs: bytes, ours: bytes) -> None:
    if theirs != ours:
        raise Error(
            f"replicas call different functions of torch.distributed: {who} called {_named(theirs)}, this "
            f"replica {_named(ours)}; all are to call the same ones, with tensors of one size")


def _named(call: bytes) -> str:
    """What came from elsewhere may be anything."""
    return call[:100].decode(errors="replace")


def _fold(op: Any, like: torch.Tensor, parts: List[bytes]) -> List[bytes]:
    for known, function in _FOLDS:
        if op == known:
            total = functools.reduce(function, [_flat(part, like) for part in parts])
            if op == dist.ReduceOp.AVG:
                whole = not (like.is_floating_point() or like.is_complex())
                total = torch.div(total, len(parts), rounding_mode="trunc" if whole else None)
            return [_bytes_of([total])]
    raise Error(
        f"replicas do not know the operation {op}; they know SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR and BXOR")


def _as_root(root: int, tensors: Sequence[torch.Tensor]) -> bytes:
    """What others than the root say is nothing."""
    return b"=" + _bytes_of(tensors) if env.replica_rank() == root else b""


def _of_root(root: int, parts: List[bytes]) -> List[bytes]:
    if root >= len(parts):
        raise Misfit(f"rank {root} has nothing to say: there are {len(parts)} replicas")
    if not parts[root]:
        raise Misfit(f"rank {root} is another one than it was, and has nothing to say")
    return [parts[root][1:]]


def _check_pieces(like: torch.Tensor, size: int, replicas: int) -> None:
    """Whether so many bytes are a piece for each, or of each."""
    if size != _size(like) * replicas:
        raise Misfit(
            f"there are {size // max(_size(like), 1)} pieces for {replicas} replicas: the replicas have changed "
            "in between, or there are not as many as torch.distributed.get_world_size() says")


def _as_many(size: int, parts: List[bytes]) -> List[bytes]:
    if len(parts) != size:
        raise Misfit(
            f"there are tensors of {len(parts)} replicas for a list of {size}: the replicas have changed in "
            "between, or it is not as long as torch.distributed.get_world_size() says")
    return parts


class Group(dist.ProcessGroup):
    """The default group. Which ranks it has changes with the job."""
    def __init__(self) -> None:
        super().__init__(env.replica_rank(), env.num_replicas())

    def rank(self) -> int:
        """This replica's, now."""
        return env.replica_rank()

    def size(self) -> int:
        """Replicas there are now."""
        return env.num_replicas()

    def getBackendName(self) -> str:
        """As PyTorch asks for it."""
        return BACKEND

    # --- Everybody gets the same ---

    def allreduce(self, tensors: List[torch.Tensor], opts: Any = None) -> Any:
        """Folded from rank 0 on."""
        op = opts.reduceOp if opts is not None else dist.ReduceOp.SUM
        for tensor in tensors:
            total = _exchange("all_reduce", tensor, _given(tensor), functools.partial(_fold, op, tensor))
            if total is not None:
                _write(tensor, total[0], tensor)
        return _done(tensors)

    allreduce_coalesced = allreduce

    def broadcast(self, tensors: List[torch.Tensor], opts: Any) -> Any:
        """Rank `rootRank`'s."""
        _refuse_wrappers()
        root = opts.rootRank
        for tensor in tensors:
            given = functools.partial(_as_root, root, [tensor])
            found = _exchange("broadcast", tensor, given, functools.partial(_of_root, root))
            if found is not None:
                _write(tensor, found[0], tensor)
        return _done(tensors)

    def allgather(self,
                  outputs: List[List[torch.Tensor]],
                  tensors: List[torch.Tensor],
                  opts: Any = None) -> Any:
        """Into lists of one size. PyTorch gives copies of the program's: these cannot follow."""
        _refuse_wrappers()
        for listed, tensor in zip(outputs, tensors):
            keep = functools.partial(_as_many, len(listed))
            said = _exchange("all_gather", tensor, _given(tensor), keep)
            _fill(listed, tensor, said if said is None else keep(said))
        return _done(outputs)

    def all_gather(self, outputs: List[torch.Tensor], tensor: torch.Tensor) -> Any:
        """Into the program's own list, which gets as many tensors as replicas have given one."""
        _fill(outputs, tensor, _exchange("all_gather", tensor, _given(tensor)))
        return _done(outputs)

    def _allgather_base(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any = None) -> Any:
        def keep(parts: List[bytes]) -> List[bytes]:
            _check_pieces(tensor, output.numel() * tensor.element_size(), len(parts))
            return parts

        said = _exchange("all_gather", tensor, _given(tensor), keep)
        if said is None:
            said = [_bytes_of([tensor])] * (output.numel() // max(tensor.numel(), 1))
        keep(said)
        _write(output, b"".join(said), tensor)
        return _done(output)

    def barrier(self, *args: Any, **kwargs: Any) -> Any:
        """All have come."""
        _exchange("barrier", None, _given())
        return _done([])

    # --- One of them gets it ---

    def reduce(self, tensors: List[torch.Tensor], opts: Any) -> Any:
        """Folded from rank 0 on."""
        for tensor in tensors:
            fold = functools.partial(_fold, opts.reduceOp, tensor)
            total = _exchange("reduce", tensor, _given(tensor), fold)
            if total is not None and self.rank() == opts.rootRank:
                _write(tensor, total[0], tensor)
        return _done(tensors)

    def gather(self, outputs: List[List[torch.Tensor]], tensors: List[torch.Tensor], opts: Any) -> Any:
        """As `allgather()`."""
        for i, tensor in enumerate(tensors):
            said = _exchange("gather", tensor, _given(tensor))
            if self.rank() == opts.rootRank and i < len(outputs):
                _fill(outputs[i], tensor, said)
        return _done(outputs)

    # --- Each gets its own ---

    def scatter(self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any) -> Any:
        """Of what rank `rootRank` deals."""
        def keep(like: torch.Tensor, parts: List[bytes]) -> List[bytes]:
            dealt = _of_root(opts.rootRank, parts)
            _check_pieces(like, len(dealt[0]), len(parts))
            return dealt

        for i, output in enumerate(outputs):
            pieces = inputs[i] if i < len(inputs) else []
            given = functools.partial(_as_root, opts.rootRank, pieces)
            dealt = _exchange("scatter", output, given, functools.partial(keep, output))
            if dealt is not None:
                _write(output, _piece(dealt[0], self.rank(), output), output)
        return _done(outputs)

    def reduce_scatter(self, outputs: List[torch.Tensor], inputs: List[List[torch.Tensor]], opts: Any) -> Any:
        """The sum of everybody's pieces for this replica."""
        for output, given in zip(outputs, inputs):
            self._reduce_scatter(output, given, opts)
        return _done(outputs)

    def _reduce_scatter_base(self, output: torch.Tensor, tensor: torch.Tensor, opts: Any) -> Any:
        self._reduce_scatter(output, [tensor], opts)
        return _done(output)

    def _reduce_scatter(self, output: torch.Tensor, given: List[torch.Tensor], opts: Any) -> None:
        def keep(parts: List[bytes]) -> List[bytes]:
            for part in parts:
                _check_pieces(output, len(part), len(parts))
            return _fold(opts.reduceOp, output, parts)

        total = _exchange("reduce_scatter", output, _given(*given), keep)
        mine = total[0] if total is not None else _bytes_of(given)
        _write(output, _piece(mine, self.rank(), output), output)

    def alltoall(self, outputs: List[torch.Tensor], inputs: List[torch.Tensor], opts: Any = None) -> Any:
        """Everybody's piece for this replica."""
        like = inputs[0]
        if any(tensor.numel() != like.numel() for tensor in [*inputs, *outputs]):
            refuse("all_to_all with tensors of different sizes")
        for output, piece in zip(outputs, self._all_to_all(like, inputs, len(outputs))):
            _write(output, piece, like)
        return _done(outputs)

    def alltoall_base(self, output: torch.Tensor, tensor: torch.Tensor, output_sizes: Sequence[int],
                      input_sizes: Sequence[int], opts: Any = None) -> Any:
        """Everybody's piece for this replica."""
        if len({*output_sizes, *input_sizes}) > 1:
            refuse("all_to_all_single with pieces of different sizes")
        pieces = len(input_sizes) or self.size()
        like = tensor.detach().flatten()[:tensor.numel() // pieces]
        _write(output, b"".join(self._all_to_all(like, [tensor], pieces)), like)
        return _done(output)

    def _all_to_all(self, like: torch.Tensor, given: List[torch.Tensor], pieces: int) -> List[bytes]:
        def keep(parts: List[bytes]) -> List[bytes]:
            for part in parts:
                _check_pieces(like, len(part), len(parts))
            return parts

        said = _exchange("all_to_all", like, _given(*given), keep)
        if said is None:
            return [_piece(_bytes_of(given), rank, like) for rank in range(pieces)]
        if len(said) != pieces:
            raise Error(
                f"all_to_all has results of {len(said)} replicas for {pieces} tensors: the replicas have "
                "changed since")
        return [_piece(part, self.rank(), like) for part in said]

    # As later versions of PyTorch call these.
    all_gather_single = _allgather_base
    reduce_scatter_single = _reduce_scatter_base
    all_to_all_single = alltoall_base


def _fill(outputs: List[torch.Tensor], tensor: torch.Tensor, said: Optional[List[bytes]]) -> None:
    """There may be more of them, or fewer, than there were when the program made its list: replicas were
    lost meanwhile, or it is a newcomer that gets the results of then."""
    if said is None:
        said = [_bytes_of([tensor])] * len(outputs)
    del outputs[len(said):]
    outputs.extend(torch.empty_like(tensor) for _ in range(len(said) - len(outputs)))
    for output, data in zip(outputs, said):
        _write(output, data, tensor)


def _refuse_wrappers() -> None:
    """These begin with what PyTorch calls to make a model the same everywhere, and go on with what they take
    to stay as it was then."""
    if sys._getframe(2).f_globals.get("__name__") == "torch.distributed.utils":
        raise Error(
            "PyTorch's own wrappers for several processes, as DistributedDataParallel, do not follow replicas "
            "that come and go: use adaptdl.torch.AdaptiveDataParallel")


def _refused(name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: refuse(f"{name}()")


for _name in ("send", "recv", "recv_anysource", "allgather_coalesced", "allgather_into_tensor_coalesced",
              "all_gather_single_coalesced", "reduce_scatter_tensor_coalesced",
              "reduce_scatter_single_coalesced", "gather_single", "gather_into_tensor", "_start_coalescing"):
    setattr(Group, _name, _refused(_name.strip("_")))
