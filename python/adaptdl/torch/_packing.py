"""Samples on their way from one process to another: all that is large in them, of tensors and arrays, as one
block of memory that both share. PyTorch's own way is a file for each tensor."""

import pickle
from io import BytesIO
from typing import Any, List, Optional, Tuple

import torch

# A pickle, where its buffers are, and the block that they lie in.
Packed = Tuple[bytes, List[Tuple[int, int]], Optional[torch.Tensor]]

# Enough for any type, and for a processor's registers.
_ALIGNMENT = 64


def _tensor(data: Any, dtype: torch.dtype, shape: Tuple[int, ...]) -> torch.Tensor:
    return torch.frombuffer(data, dtype=dtype).view(shape)


def _is_plain(value: torch.Tensor) -> bool:
    """Whether its numbers are all that there is to it, and lie in main memory."""
    special = value.requires_grad or value.is_quantized or value.is_conj() or value.is_neg()
    return value.device.type == "cpu" and value.numel() > 0 and not special


class _Pickler(pickle.Pickler):
    """Tensors are buffers, as NumPy's arrays are by themselves."""
    def reducer_override(self, value: Any) -> Any:
        """How a value becomes one."""
        if type(value) is not torch.Tensor or value.layout is not torch.strided or not _is_plain(value):
            return NotImplemented
        data = value.contiguous().view(-1).view(torch.uint8).numpy()
        return _tensor, (pickle.PickleBuffer(data), value.dtype, tuple(value.shape))


def pack(value: Any) -> Packed:
    """For unpack()."""
    buffers: List[memoryview] = []
    file = BytesIO()
    # False: it stays out of the pickle.
    _Pickler(file, 5, buffer_callback=lambda buffer: buffers.append(buffer.raw())).dump(value)
    places = []
    end = 0
    for buffer in buffers:
        begin = -(-end // _ALIGNMENT) * _ALIGNMENT
        end = begin + buffer.nbytes
        places.append((begin, end))
    block = None
    if end > 0:
        block = torch.empty(end, dtype=torch.uint8)
        memory = memoryview(block.numpy())
        for buffer, (begin, end) in zip(buffers, places):
            memory[begin:end] = buffer
    return file.getvalue(), places, block


def unpack(packed: Packed) -> Any:
    """What was packed. Its tensors and arrays lie in the block, and keep it."""
    data, places, block = packed
    memory = memoryview(block.numpy()) if block is not None else memoryview(b"")
    return pickle.loads(data, buffers=[memory[begin:end] for begin, end in places])
