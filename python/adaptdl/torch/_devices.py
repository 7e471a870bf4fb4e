"""Where a model lies, as the engine is told of it: main memory, or a GPU and the stream that it works on."""

import ctypes
from typing import Any, Iterable, Tuple

import torch

from adaptdl import Error

_CUDA_TYPES = {torch.float32: "<f4", torch.float64: "<f8", torch.float16: "<f2", torch.bfloat16: "<i2"}


def device_of(named: Iterable[Tuple[str, torch.Tensor]]) -> torch.device:
    """The device of a model's tensors, which all of them are on."""
    found = None
    for name, tensor in named:
        if found is None:
            found, first = tensor.device, name
        if tensor.device != found:
            raise Error(
                f"the model has {first} on {found} and {name} on {tensor.device}; a replica trains on one device: move the "
                "model there before it is wrapped, or run more replicas")
    if found is None or found.type == "cpu":
        return torch.device("cpu")
    if found.type != "cuda":
        raise Error(f"the model is on {found}; it can be on a CPU or on a CUDA GPU")
    if not hasattr(torch.Tensor, "untyped_storage"):
        raise Error(f"the model is on {found}: with GPUs PyTorch 2.0 or later is needed, and this is "
                    f"{torch.__version__}")
    return found


def index_of(device: torch.device) -> int:
    """As CUDA counts; -1: main memory."""
    if device.type == "cpu":
        return -1
    return torch.cuda.current_device() if device.index is None else device.index


def stream_of(device: torch.device) -> int:
    """The stream of this thread's work there."""
    return 0 if device.type == "cpu" else torch.cuda.current_stream(device).cuda_stream


def tensor_at(address: int, like: torch.Tensor, strides: Tuple[int, ...], owner: Any) -> torch.Tensor:
    """A tensor whose elements are there, with the shape, the type and the device of `like`, if it is on a CPU or a GPU.
    `owner` lasts as long as it."""
    count = max(like.numel(), 1)
    if like.device.type == "cpu":
        flat = torch.frombuffer(_block(address, count * like.element_size(), owner), dtype=like.dtype, count=count)
    else:
        flat = torch.as_tensor(_CudaArray(address, count, like.dtype, owner), device=like.device)
    storage = flat.untyped_storage() if hasattr(flat, "untyped_storage") else flat.storage()
    # Not a view, which some of PyTorch's functions refuse.
    return torch.empty(0, dtype=like.dtype, device=like.device).set_(storage, 0, like.shape, strides)


def _block(address: int, size: int, owner: Any) -> ctypes.Array:
    class Block(ctypes.Array):
        _type_ = ctypes.c_char
        _length_ = size

    block = Block.from_address(address)
    block.owner = owner
    return block


class _CudaArray:
    """Memory of a GPU as PyTorch takes it over, with this object, from others. A bfloat16 goes by as a whole number."""
    def __init__(self, address: int, count: int, dtype: torch.dtype, owner: Any) -> None:
        self.owner = owner
        self.__cuda_array_interface__ = {
            "version": 2,
            "shape": (count,),
            "typestr": _CUDA_TYPES[dtype],
            "data": (address, False),
            "strides": None
        }
