"""State dictionaries as named tensors and a JSON text: no pickles, so that a checkpoint runs no code.

Numbers, texts, None, lists, tuples and dictionaries are kept as they are; tensors by name, beside the
text. Functions are left out: whoever loads the state has them. Anything else is refused.
"""

import json
from typing import Any, Callable, Dict

import torch

from adaptdl import Error

# Of an object that says what it stands for.
_TENSOR, _TUPLE, _ITEMS, _NUMBER = "tensor", "tuple", "items", "number"


def encode(value: Any, path: str, tensors: Dict[str, torch.Tensor]) -> Any:
    """`value` as JSON has it. Tensors are put into `tensors` under names that begin with `path`."""
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else {"is": _NUMBER, "text": repr(value)}
    if isinstance(value, torch.Tensor):
        tensors[path] = value
        return {"is": _TENSOR, "name": path}
    if isinstance(value, (list, tuple)):
        items = [encode(item, f"{path}.{index}", tensors) for index, item in enumerate(value)]
        return items if isinstance(value, list) else {"is": _TUPLE, "items": items}
    if isinstance(value, dict):
        return {
            "is": _ITEMS, "items": [[encode(key, path, tensors),
                                     encode(item, f"{path}.{key}", tensors)]
                                    for key, item in value.items()
                                    if not callable(item)]
        }
    if hasattr(value, "item") and getattr(value, "ndim", None) == 0:
        return encode(value.item(), path, tensors)
    raise Error(
        f"{path} is a {type(value).__name__}, which cannot be saved: numbers, texts, tensors, lists, tuples and "
        "dictionaries can")


def decode(value: Any, tensor: Callable[[str], torch.Tensor]) -> Any:
    """What `encode()` was given. `tensor` gives the tensor of a name."""
    if isinstance(value, list):
        return [decode(item, tensor) for item in value]
    if not isinstance(value, dict):
        return value
    kind = value["is"]
    if kind == _TENSOR:
        return tensor(value["name"])
    if kind == _NUMBER:
        return float(value["text"])
    if kind == _TUPLE:
        return tuple(decode(item, tensor) for item in value["items"])
    return {decode(key, tensor): decode(item, tensor) for key, item in value["items"]}


def to_text(value: Any, what: str) -> str:
    """`value` as a text, with the few tensors that it has."""
    tensors: Dict[str, torch.Tensor] = {}
    encoded = encode(value, what, tensors)
    # Few and small, such as a learning rate.
    plain = {
        name: {"dtype": str(tensor.dtype).split(".")[-1], "values": tensor.tolist()}
        for name, tensor in tensors.items()
    }
    return json.dumps({"value": encoded, "tensors": plain})


def from_text(text: str) -> Any:
    """What `to_text()` was given."""
    saved = json.loads(text)

    def tensor(name: str) -> torch.Tensor:
        known = saved["tensors"][name]
        return torch.tensor(known["values"], dtype=getattr(torch, known["dtype"]))

    return decode(saved["value"], tensor)
