"""ASHA by progress: a trial that comes to a rung goes on if it is among the best that have been there.

A rung is an amount of progress, such as epochs, and not of time: trials have different numbers of replicas, and change them.
"""

import dataclasses
import math
from typing import Dict, Iterable, List, Optional, Sequence


@dataclasses.dataclass(frozen=True)
class Point:
    """What a trial had reached, and how good it was there."""

    progress: float
    value: float


class Rungs:
    """Which trials are to stop. A function of the curves alone, so that who starts anew decides as before.

    The rungs are at `first`, `first` * `factor`, `first` * `factor`^2, and so on. Of the n trials that were at a rung, the
    best n / `factor` go on, and at least one.
    """

    def __init__(self, first: float, factor: float, maximize: bool) -> None:
        self._first, self._factor, self._sign = first, factor, -1 if maximize else 1

    def reached(self, curve: Sequence[Point]) -> List[float]:
        """What the trial had at each rung that it came to: its value at the first point there. Lower is better."""
        found: List[float] = []
        rung = self._first
        for point in curve:
            while point.progress >= rung:
                found.append(math.inf if math.isnan(point.value) else self._sign * point.value)
                rung *= self._factor
        return found

    def stopped(self, curves: Dict[int, Sequence[Point]], running: Iterable[int]) -> Dict[int, str]:
        """Those of the running trials that are to stop, and why, by number."""
        values = {number: self.reached(curve) for number, curve in curves.items()}
        reasons: Dict[int, str] = {}
        for number in running:
            reason = self._reason(values, number)
            if reason:
                reasons[number] = reason
        return reasons

    def _reason(self, values: Dict[int, List[float]], number: int) -> Optional[str]:
        own = values.get(number, [])
        if not own:
            return None
        # Where it is now decides: what comes later to a rung that it has left behind does not end it.
        level = len(own) - 1
        at = f"at progress {self._first * self._factor ** level:g}"
        if own[level] == math.inf:
            return f"its metric is not a number {at}"
        there = [others[level] for others in values.values() if len(others) > level]
        if not keeps(there, own[level], self._factor):
            return f"not among the best {_kept(there, self._factor)} of {len(there)} {at}"
        return None


def keeps(there: Sequence[float], own: float, factor: float) -> bool:
    """Whether one of those that were at a rung, where lower is better, goes on from it."""
    return len(there) < factor or own <= sorted(there)[_kept(there, factor) - 1]


def _kept(there: Sequence[float], factor: float) -> int:
    return max(1, int(len(there) / factor))
