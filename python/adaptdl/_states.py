"""States of a job's checkpoints, as the engine sees them: bytes that Python makes, or tensors that are
read and written where they lie."""

import ctypes
import functools
from ctypes import c_int, c_int64, c_void_p
from typing import Any, Callable, List, Optional, Sequence, Tuple

from adaptdl import _job
from adaptdl._engine import (BytesCalls, Nothing, Tensor, TensorsCalls, WithBytes, WithHandle, callback,
                             check, engine, make)


class _State:
    """What both kinds have in common: a handle, which is registered once the replicas have met."""
    def __init__(self, job: _job.Job, handle: c_void_p, calls: Any) -> None:
        self._job = job
        # Callbacks must last as long as the engine knows them.
        self._calls = calls
        self.handle: Optional[c_void_p] = handle
        # What is loaded from then on is a step that another replica has taken.
        self.registered = False

    def register(self) -> bool:
        """Puts it into checkpoints from now on, and loads it if the job was restored with it: whether it was."""
        loaded = c_int()
        check(engine.state_register(self.handle, ctypes.byref(loaded)))
        self.registered = True
        return bool(loaded.value)

    def close(self) -> None:
        """Takes it out of checkpoints."""
        if self.handle is not None and self._job.handle is not None:
            engine.state_close(self.handle)
        self.handle = None


class BytesState(_State):
    """`save()` gives bytes, on rank 0; `load()` gets them, on all replicas; `sync()` runs on all before."""
    def __init__(self,
                 job: _job.Job,
                 name: str,
                 save: Callable[[], bytes],
                 load: Callable[[bytes], None],
                 sync: Optional[Callable[[], None]] = None,
                 changes_with_steps: bool = False) -> None:
        def save_to(to: int) -> None:
            data = save()
            engine.bytes_set(to, data, len(data))

        calls = BytesCalls(callback(Nothing, sync if sync is not None else lambda: None),
                           callback(WithHandle, save_to),
                           callback(WithBytes, lambda data, size: load(ctypes.string_at(data, size))))
        handle = make(
            functools.partial(engine.state_open_bytes, job.handle, name.encode(), int(changes_with_steps),
                              ctypes.byref(calls)))
        super().__init__(job, handle, calls)


class TensorsState(_State):
    """Named tensors and a text, as safetensors. A tensor is its name, its type as safetensors has it, its
    shape and its address; who gives one keeps it there until the next call.

    `read()` gives all of them and the text. `place()` gets names, types, shapes and the text of those that
    were saved, raises if they do not fit, and gives the address at which each one's elements belong.
    `commit()`: they are there.
    """
    def __init__(self, job: _job.Job, name: str,
                 read: Callable[[], Tuple[Sequence[Tuple[str, str, Sequence[int], int]], str]],
                 place: Callable[[List[Tuple[str, str, Tuple[int, ...]]], str],
                                 List[int]], commit: Callable[[], None]) -> None:
        def list_to(tensors: int) -> None:
            found, text = read()
            engine.tensors_set_text(tensors, text.encode())
            for tensor_name, dtype, shape, address in found:
                engine.tensors_add(tensors, tensor_name.encode(), dtype.encode(), len(shape),
                                   (c_int64 * max(len(shape), 1))(*shape), address)

        def open_from(tensors: int) -> None:
            saved = []
            tensor = Tensor()
            for index in range(engine.tensors_count(tensors)):
                engine.tensors_get(tensors, index, ctypes.byref(tensor))
                saved.append(
                    (tensor.name.decode(), tensor.dtype.decode(), tuple(tensor.shape[:tensor.dimensions])))
            for index, address in enumerate(place(saved, engine.tensors_text(tensors).decode())):
                engine.tensors_place(tensors, index, address)

        calls = TensorsCalls(callback(WithHandle, list_to), callback(WithHandle, open_from),
                             callback(Nothing, commit))
        handle = make(
            functools.partial(engine.state_open_tensors, job.handle, name.encode(), ctypes.byref(calls)))
        super().__init__(job, handle, calls)
