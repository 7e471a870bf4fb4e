"""What programs report of themselves, such as their loss (`adaptdl.report()`)."""

from numbers import Real
from typing import Any, Dict, Optional

from adaptdl import _job
from adaptdl._engine import check, engine


def report(step: Optional[int], metrics: Dict[str, Any]) -> None:
    """As `adaptdl.report()`."""
    if step is not None and (isinstance(step, bool) or not isinstance(step, int) or step < 0):
        raise ValueError(f"step is {step!r}; give a whole number of at least 0, or leave it away")
    values = {name: _number(name, value) for name, value in metrics.items()}
    job = _job.job().meet()
    job.check_usable()
    for name, value in values.items():
        check(engine.job_report(job.handle, name.encode("utf-8", "replace"), value, -1 if step is None else step))


def _number(name: str, value: Any) -> float:
    # A tensor that is turned into a number makes the program wait for its GPU: that is the program's to decide.
    if not isinstance(value, Real):
        raise TypeError(f"{name} is a {type(value).__name__}; give a number: of a tensor, its item()")
    return float(value)
