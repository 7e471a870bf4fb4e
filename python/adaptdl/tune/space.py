"""What a search varies: parameters with their ranges, some of them only where others have certain values.

Plain values; what draws from a space is a trial of Optuna, or anything with its three `suggest_` methods.
"""

import dataclasses
import itertools
import math
from typing import Any, Dict, List, Optional, Tuple

# Most points that are written out for a grid.
MOST_POINTS = 10_000


@dataclasses.dataclass(frozen=True)
class Parameter:
    """One thing that varies."""

    name: str
    # "uniform", "log_uniform", "int" or "choice".
    kind: str
    low: float = 0
    high: float = 0
    # Of "int"; of "uniform" it may be None: any value.
    step: Optional[float] = None
    choices: Tuple[Any, ...] = ()
    # It is there only if each of these has one of the values.
    when: Tuple[Tuple[str, Tuple[Any, ...]], ...] = ()

    def is_active(self, values: Dict[str, Any]) -> bool:
        """Whether it is there, beside these values of those before it."""
        return all(same_in(values[name], allowed) if name in values else False for name, allowed in self.when)

    def suggest(self, trial: Any) -> Any:
        """A value of it, drawn by the trial."""
        if self.kind == "choice":
            return trial.suggest_categorical(self.name, list(self.choices))
        if self.kind == "int":
            return trial.suggest_int(self.name, int(self.low), int(self.high), step=int(self.step or 1))
        if self.kind == "log_uniform":
            return trial.suggest_float(self.name, self.low, self.high, log=True)
        return trial.suggest_float(self.name, self.low, self.high, step=self.step)

    def holds(self, value: Any) -> bool:
        """Whether the value is one of its own."""
        if self.kind == "choice":
            return same_in(value, self.choices)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return False
        return self.low <= value <= self.high and (self.kind != "int" or value == int(value))

    def points(self) -> Optional[List[Any]]:
        """All values of it, or None if they are too many to be written out."""
        if self.kind == "choice":
            return list(self.choices)
        if self.low == self.high:
            return [int(self.low) if self.kind == "int" else self.low]
        if self.step is None:
            return None
        count = math.floor((self.high - self.low) / self.step + 1e-9) + 1
        if count > MOST_POINTS:
            return None
        values = [self.low + i * self.step for i in range(count)]
        return [int(value) for value in values] if self.kind == "int" else values


@dataclasses.dataclass(frozen=True)
class Space:
    """Parameters, each behind those that its conditions name."""

    parameters: Tuple[Parameter, ...]

    def suggest(self, trial: Any) -> Dict[str, Any]:
        """A value of each parameter that is there."""
        values: Dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.is_active(values):
                values[parameter.name] = parameter.suggest(trial)
        return values

    def holds(self, values: Dict[str, Any]) -> bool:
        """Whether these values are a point of the space: no one too many, none missing."""
        expected = {parameter.name: parameter for parameter in self.parameters if parameter.is_active(values)}
        return expected.keys() == values.keys() and all(expected[name].holds(values[name]) for name in values)

    def grid(self) -> Optional[List[Dict[str, Any]]]:
        """All points, each once, the last parameter varying fastest; None: too many, or a range without steps."""
        points: List[Dict[str, Any]] = [{}]
        for parameter in self.parameters:
            values = parameter.points()
            if values is None:
                return None
            points = list(itertools.chain.from_iterable(
                [{**point, parameter.name: value} for value in values] if parameter.is_active(point) else [point]
                for point in points))
            if len(points) > MOST_POINTS:
                return None
        return points

    def names(self) -> List[str]:
        """Of all parameters."""
        return [parameter.name for parameter in self.parameters]


def same_in(value: Any, allowed: Tuple[Any, ...]) -> bool:
    """Whether it is one of these; other than with `in`, True is not 1."""
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in allowed)
