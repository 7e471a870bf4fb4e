"""A model and an optimiser as states of checkpoints: their tensors, named, where they lie in main memory or else
copied there, and the rest as JSON."""

import json
from typing import Any, Dict, List, Sequence, Tuple

import torch

from adaptdl import Error, _job
from adaptdl._states import TensorsState
from adaptdl.torch._encoding import decode, encode

# As safetensors names types.
_NAMES = {
    torch.float32: "F32",
    torch.float64: "F64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_TYPES = {name: dtype for dtype, name in _NAMES.items()}

_Saved = List[Tuple[str, str, Tuple[int, ...]]]
_Listed = Tuple[Sequence[Tuple[str, str, Sequence[int], int]], str]


def _listed(tensors: Dict[str, torch.Tensor],
            held: List[torch.Tensor]) -> List[Tuple[str, str, Sequence[int], int]]:
    """The tensors as they are saved. `held` keeps what had to be copied for that."""
    listed = []
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise Error(f"{name} is of type {tensor.dtype}, which cannot be saved")
        plain = tensor.detach().contiguous().cpu()
        held.append(plain)
        listed.append((name, _NAMES[tensor.dtype], tuple(tensor.shape), plain.data_ptr()))
    return listed


class _Places:
    """Where tensors that are loaded go: into those that there are, or into new ones."""
    def __init__(self) -> None:
        self._copies: List[Tuple[torch.Tensor, torch.Tensor]] = []

    def of(self, tensor: torch.Tensor) -> int:
        """An address for the elements of `tensor`; they are in their place after `commit()`."""
        if tensor.is_contiguous() and tensor.device.type == "cpu":
            return tensor.data_ptr()
        plain = torch.empty(tensor.shape, dtype=tensor.dtype)
        self._copies.append((tensor, plain))
        return plain.data_ptr()

    def commit(self) -> None:
        with torch.no_grad():
            for tensor, plain in self._copies:
                tensor.copy_(plain)
        self._copies.clear()


class ModelState:
    """Parameters and buffers."""
    def __init__(self, job: _job.Job, name: str, module: torch.nn.Module) -> None:
        self._name = name
        self._module = module
        self._held: List[torch.Tensor] = []
        self._places = _Places()
        self.state = TensorsState(job, name + "-model.safetensors", self._read, self._place, self._commit)

    def _tensors(self) -> Dict[str, torch.Tensor]:
        tensors: Dict[str, torch.Tensor] = dict(self._module.named_parameters())
        tensors.update(self._module.named_buffers())
        return {name: tensor.detach() for name, tensor in sorted(tensors.items())}

    def _read(self) -> _Listed:
        self._held.clear()
        return _listed(self._tensors(), self._held), ""

    def _place(self, saved: _Saved, text: str) -> List[int]:
        tensors = self._tensors()
        if set(tensors) != {name for name, _, _ in saved}:
            names = {name for name, _, _ in saved}
            lacks, more = sorted(names - set(tensors)), sorted(set(tensors) - names)
            raise Error(
                f"the model {self._name!r} is another one than the checkpoint's: it lacks {lacks or 'nothing'}, and "
                f"{more or 'nothing'} was not saved; was the program changed since it was written?")
        for name, dtype, shape in saved:
            if _NAMES.get(tensors[name].dtype) != dtype or tuple(tensors[name].shape) != shape:
                raise Error(
                    f"{name} of the model {self._name!r} has shape {tuple(tensors[name].shape)} and type "
                    f"{tensors[name].dtype}, and in the checkpoint {shape} and {_TYPES.get(dtype)}")
        return [self._places.of(tensors[name]) for name, _, _ in saved]

    def _commit(self) -> None:
        self._places.commit()


class OptimizerState:
    """What `state_dict()` of any optimiser gives. Tensors that are there already are written in place."""
    def __init__(self, job: _job.Job, name: str, optimizer: torch.optim.Optimizer) -> None:
        self._name = name
        self._optimizer = optimizer
        self._held: List[torch.Tensor] = []
        self._places = _Places()
        self._loading: Tuple[Any, Dict[str, torch.Tensor]] = ({}, {})
        self.state = TensorsState(job, name + "-optimizer.safetensors", self._read, self._place, self._commit)

    def _encoded(self) -> Tuple[Any, Dict[str, torch.Tensor]]:
        tensors: Dict[str, torch.Tensor] = {}
        return encode(self._optimizer.state_dict(), "optimizer", tensors), tensors

    def _read(self) -> _Listed:
        self._held.clear()
        value, tensors = self._encoded()
        return _listed(tensors, self._held), json.dumps(value)

    def _place(self, saved: _Saved, text: str) -> List[int]:
        value = json.loads(text)
        self._check(decode(value, lambda name: torch.empty(0)))
        there = self._encoded()[1]
        loaded: Dict[str, torch.Tensor] = {}
        for name, dtype, shape in saved:
            known = there.get(name)
            fits = known is not None and _NAMES.get(known.dtype) == dtype and tuple(known.shape) == shape
            loaded[name] = known if fits and known is not None else torch.empty(shape, dtype=_TYPES[dtype])
        self._loading = (value, loaded)
        return [self._places.of(loaded[name]) for name, _, _ in saved]

    def _is_in_main_memory(self) -> bool:
        return all(parameter.device.type == "cpu" for group in self._optimizer.param_groups
                   for parameter in group["params"])

    def _check(self, saved: Dict[str, Any]) -> None:
        groups = self._optimizer.param_groups
        sizes = [len(group["params"]) for group in groups]
        saved_sizes = [len(group["params"]) for group in saved["param_groups"]]
        if sizes != saved_sizes:
            raise Error(
                f"the optimiser of {self._name!r} has parameter groups of {sizes} parameters, and in the checkpoint "
                f"of {saved_sizes}; was the program changed since it was written?")

    def _commit(self) -> None:
        self._places.commit()
        value, tensors = self._loading
        self._loading = ({}, {})
        groups = self._optimizer.param_groups
        # Schedules are the program's: it may have gone on to the next rate there, and here it is about to.
        rates = [group.get("lr") for group in groups] if self.state.registered else []
        self._take(decode(value, tensors.__getitem__))
        for group, rate in zip(groups, rates):
            if rate is not None:
                group["lr"] = rate

    def _take(self, saved: Dict[str, Any]) -> None:
        optimizer = self._optimizer
        own = type(optimizer).load_state_dict is not torch.optim.Optimizer.load_state_dict
        if own or not self._is_in_main_memory():
            # It knows what belongs on a GPU.
            optimizer.load_state_dict(saved)
            return
        # As load_state_dict(), without copies of all tensors.
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        numbers = [number for group in saved["param_groups"] for number in group["params"]]
        by_number = dict(zip(numbers, parameters))
        optimizer.state.clear()
        for number, state in saved["state"].items():
            optimizer.state[by_number.get(number, number)] = state
        for group, saved_group in zip(optimizer.param_groups, saved["param_groups"]):
            group.update({key: option for key, option in saved_group.items() if key != "params"})
