"""A model's tensors as the engine sees them: addresses in memory that both sides read and write
(adaptdl_shared)."""

import ctypes
import operator
from ctypes import c_double, c_int32, c_int64, c_uint8, c_uint64
from typing import Any, Dict, List, Optional, Tuple

import torch

from adaptdl import Error
from adaptdl._engine import DROP, SPARSE, Moments, Parameter, Shared, engine
from adaptdl.torch import _devices

_requires_grad = operator.attrgetter("requires_grad")

# As the engine numbers types that can be averaged.
TYPES = {torch.float32: 0, torch.float64: 1, torch.float16: 4, torch.bfloat16: 5}


def _is_dense(tensor: torch.Tensor) -> bool:
    """Whether its elements fill one piece of memory, in whatever order."""
    expected = 1
    for stride, size in sorted(
        (stride, size) for stride, size in zip(tensor.stride(), tensor.shape) if size != 1):
        if stride != expected:
            return False
        expected *= size
    return True


class _Owner:
    """Lets go of the engine's memory at the end."""
    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __del__(self) -> None:
        engine.memory_close(self._handle)


class SharedTensors:
    """Parameters that the optimiser has, their gradients, and the buffers that are averaged."""
    def __init__(self, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.parameters, self.groups = _trained_parameters(module, optimizer)
        self.num_groups = len(optimizer.param_groups)
        self._optimizer = optimizer
        self._buffers = _averaged_buffers(module)
        self.device = self._find_device(module)
        count, buffers = len(self.parameters), len(self._buffers)
        self._strides = [
            tuple(p.stride()) if _is_dense(p) else tuple(torch.empty(p.shape).stride())
            for p in self.parameters
        ]
        self._layouts = (Parameter * count)(
            *(Parameter(p.numel(), TYPES[p.dtype], group) for p, group in zip(self.parameters, self.groups)))
        found = [self._buffer(b) for b in range(buffers)]
        self._buffer_counts = (c_int64 * max(buffers, 1))(*(buffer.numel() for buffer in found))
        self._buffer_types = (c_int32 * max(buffers, 1))(*(TYPES[buffer.dtype] for buffer in found))
        self.gradients = (c_uint64 * count)()
        self._buffer_addresses = (c_uint64 * max(buffers, 1))()
        self.trained = (c_uint8 * count)()
        self._last_trained: List[bool] = []
        self._changes = (c_uint8 * count)()
        self.changed = c_int64()
        self._slot_addresses = (c_uint64 * count)()
        self.moments = (Moments * count)()
        self.loss_scale = c_double(1.0)
        self.may_look = c_int64(1)
        self.step = c_int64()
        self._stream = c_uint64(_devices.stream_of(self.device))
        self._slots: List[Tuple[int, Optional[torch.Tensor]]] = [(0, None)] * count
        # Copies of buffers whose elements do not lie one after the other, while a step is exchanged.
        self._copies: List[Tuple[torch.Tensor, torch.Tensor]] = []
        self._held: Dict[int, List[Optional[torch.Tensor]]] = {}
        # Of the engine's model, once there is one.
        self.handle: Any = None
        self.shared = Shared(count, buffers, self.num_groups, self._layouts, self._buffer_counts,
                             self._buffer_types, self.gradients, self._buffer_addresses, self.trained,
                             self._changes, ctypes.pointer(self.changed), self._slot_addresses, self.moments,
                             ctypes.pointer(self.loss_scale), ctypes.pointer(self.may_look),
                             ctypes.pointer(self.step), ctypes.pointer(self._stream))

    def _find_device(self, module: torch.nn.Module) -> torch.device:
        for tensor in self.parameters:
            if tensor.dtype not in TYPES:
                raise Error(
                    f"a parameter is of type {tensor.dtype}; float32, float64, float16 and bfloat16 can be averaged"
                )
        return _devices.device_of([*module.named_parameters(), *module.named_buffers()])

    def follow_stream(self) -> None:
        """Says on which stream this thread works."""
        if self.device.type != "cpu":
            self._stream.value = _devices.stream_of(self.device)

    # --- Gradients ---

    def address(self, i: int, gradient: Optional[torch.Tensor], own: bool) -> int:
        """Where the numbers of a gradient are, in the order of the parameter's. `own`: it is the
        parameter's `grad`, which may be replaced by one in that order."""
        if gradient is None:
            return 0
        if gradient.layout is not torch.strided:
            return SPARSE
        parameter = self.parameters[i]
        if gradient.stride() == self._strides[i] and gradient.dtype is parameter.dtype:
            return gradient.data_ptr()
        ordered = self._empty(i)
        ordered.copy_(gradient.detach())
        if own:
            parameter.grad = ordered
        else:
            self._copies.append((ordered, ordered))
        return ordered.data_ptr()

    def _empty(self, i: int) -> torch.Tensor:
        parameter = self.parameters[i]
        return torch.empty_strided(parameter.shape,
                                   self._strides[i],
                                   dtype=parameter.dtype,
                                   device=parameter.device)

    def gather(self) -> None:
        """Says of all gradients where they are."""
        self.gradients[:] = [self.address(i, p.grad, True) for i, p in enumerate(self.parameters)]

    def follow_frozen(self) -> None:
        """Says which parameters require gradients."""
        trained = list(map(_requires_grad, self.parameters))
        if trained != self._last_trained:
            self._last_trained = trained
            self.trained[:] = trained

    def apply_changes(self) -> None:
        """Does with gradients what the engine wants done."""
        if not self.changed.value:
            return
        self.changed.value = 0
        for i, change in enumerate(self._changes):
            if change:
                parameter = self.parameters[i]
                parameter.grad = None if change == DROP else self._slot(i)
        ctypes.memset(self._changes, 0, len(self._changes))

    def _slot(self, i: int) -> torch.Tensor:
        address = self._slot_addresses[i]
        known, slot = self._slots[i]
        if known != address or slot is None:
            owner = _Owner(engine.memory_of_slot(self.handle, i))
            slot = _devices.tensor_at(address, self.parameters[i], self._strides[i], owner)
            self._slots[i] = (address, slot)
        return slot

    def make_gradient(self, i: int) -> None:
        """The parameter gets a gradient with anything in it."""
        self.parameters[i].grad = self._empty(i)
        self.gradients[i] = self.parameters[i].grad.data_ptr()

    def version(self, i: int, version: Any) -> None:
        """Changes with the gradient."""
        gradient = self.parameters[i].grad
        version[0] = 0 if gradient is None else gradient._version

    def hold(self, number: int) -> None:
        """Holds on to all gradients, as they are now."""
        self._held[number] = [p.grad for p in self.parameters]

    def held_versions(self, number: int, versions: Any) -> None:
        """The versions of those that are held."""
        for i, gradient in enumerate(self._held[number]):
            versions[i] = 0 if gradient is None else gradient._version

    def release(self, number: int) -> None:
        """Lets go."""
        self._held.pop(number, None)

    # --- Buffers ---

    def _buffer(self, b: int) -> torch.Tensor:
        owner, name = self._buffers[b]
        return owner._buffers[name]

    def place_buffers(self) -> None:
        """Says where the buffers are."""
        self._copies.clear()
        for b in range(len(self._buffers)):
            buffer = self._buffer(b)
            if not buffer.is_contiguous():
                plain = buffer.contiguous()
                self._copies.append((buffer, plain))
                buffer = plain
            self._buffer_addresses[b] = buffer.data_ptr()

    def store_buffers(self) -> None:
        """A step was exchanged: what was copied goes back."""
        if not self._copies:
            return
        with torch.no_grad():
            for buffer, plain in self._copies:
                if buffer is not plain:
                    buffer.copy_(plain)
        self._copies.clear()

    # --- Adam's moments ---

    def take_moments(self) -> None:
        """Says where the second moments are."""
        options = [(group["betas"][1], group["eps"]) for group in self._optimizer.param_groups]
        for i, parameter in enumerate(self.parameters):
            state = self._optimizer.state.get(parameter, {})
            moments, square = self.moments[i], state.get("exp_avg_sq")
            moments.exp_avg_sq = None
            if square is None or square.dtype not in TYPES or tuple(square.stride()) != self._strides[i]:
                continue
            moments.exp_avg_sq = square.data_ptr()
            moments.type = TYPES[square.dtype]
            moments.step = int(state["step"])
            moments.beta2, moments.epsilon = options[self.groups[i]]


def _trained_parameters(module: torch.nn.Module,
                        optimizer: torch.optim.Optimizer) -> Tuple[List[torch.nn.Parameter], List[int]]:
    """The model's parameters that the optimiser has, each once, and their groups. Those that are frozen
    may be trained later."""
    group_of = {id(p): number for number, group in enumerate(optimizer.param_groups) for p in group["params"]}
    parameters, groups = [], []
    for parameter in module.parameters():
        if id(parameter) in group_of:
            parameters.append(parameter)
            groups.append(group_of[id(parameter)])
    known = {id(p) for p in module.parameters()}
    for number, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            if id(parameter) not in known:
                raise Error(
                    f"parameter group {number} of the optimiser holds a tensor of shape {tuple(parameter.shape)} that is no "
                    "parameter of the model: its gradient would not be averaged over the replicas. Make it one, or give it "
                    "an optimiser and an AdaptiveDataParallel of its own")
    if not parameters:
        raise Error("the optimiser has none of the model's parameters")
    return parameters, groups


def _averaged_buffers(module: torch.nn.Module) -> List[Tuple[torch.nn.Module, str]]:
    """Where the floating-point buffers are, such as running means; each once."""
    seen, found = set(), []
    for owner in module.modules():
        for name, buffer in owner._buffers.items():
            if buffer is not None and buffer.dtype in TYPES and id(buffer) not in seen:
                seen.add(id(buffer))
                found.append((owner, name))
    return found
