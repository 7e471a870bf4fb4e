"""What programs report of themselves, such as their loss: `adaptdl.report()`."""

from numbers import Real
from typing import Any, Dict, Optional

from adaptdl import _job
from adaptdl._engine import check, engine

# Names as the engine takes them: programs report the same ones over and over, maybe in each step.
_encoded: Dict[str, bytes] = {}
_MOST_ENCODED = 64


def report(step: Optional[int] = None, **metrics: Any) -> None:
    """Tells whoever looks at the job how the program is doing: `adaptdl.report(loss=0.25, accuracy=0.9)`.

    Of each name the latest value is told, now and then, so that a step costs nothing that could be measured.
    Rank 0's values count; where replicas differ, sum up over them first (`adaptdl.torch.Accumulator`). Values
    are numbers, which need not be finite. "loss" is what is minimised.

    Names are 1 to 64 letters, digits and any of "_./-", beginning with a letter, at most 16 of them; what is
    beyond that is left aside, and logged once. `step`: what the values are of, as the program counts; else it
    is the optimiser steps that are done. From any thread, once the replicas have met.
    """
    if step is None:
        step = -1
    elif isinstance(step, bool) or not isinstance(step, int) or not 0 <= step < 2**63:
        raise ValueError(f"step is {step!r}; give a whole number of at least 0, or leave it away")
    for name, value in metrics.items():
        # A tensor that is turned into a number makes the program wait for its GPU: that is the program's to decide.
        if type(value) is not float and not isinstance(value, Real):
            raise TypeError(f"{name} is a {type(value).__name__}; give a number: of a tensor, its item()")
    job = _job.job().meet()
    job.check_usable()
    for name, value in metrics.items():
        check(engine.job_report(job.handle, _encoded.get(name) or _encode(name), float(value), step))


def _encode(name: str) -> bytes:
    encoded = name.encode("utf-8", "replace")
    if len(_encoded) < _MOST_ENCODED:
        _encoded[name] = encoded
    return encoded
