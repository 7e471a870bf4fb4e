"""How many trials run at once: as many as work off what is left of the budget soonest.

Fewer trials have more replicas each, which do less the more they are; but what is decided at the rungs is decided when
more is known, and the last trials do not wait for few slots. With speed-ups that flatten, one more trial always looks best for
the next second, so the whole rest is played: trials of random worth climb the rungs and share the slots.
"""

import bisect
import dataclasses
import math
import random
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from adaptdl.tune.rungs import keeps

# Played so often, with other worths of the trials.
_DRAWS = 6
# More trials are not played: what follows them goes on like that.
MOST_TRIALS = 64
# A choice that is this near to the best one is as good; the smallest such leaves the sampler the most to learn from.
_ALIKE = 1.03
# A trial that runs has something left to do.
_ALMOST = 0.99
# Of a program that has not measured itself: k replicas are worth k to the power of this.
_GUESSED_EXPONENT = 0.8


@dataclasses.dataclass(frozen=True)
class Outlook:
    """What is left of a search."""

    # That have not ended, and will be started.
    trials: int
    # Replicas that all of them may have, and one.
    slots: int
    most: int
    # How much a number of replicas, whole or not, does as a multiple of one.
    speedup: Callable[[float], float]
    # At which parts of its work a trial may be stopped, in (0, 1), ascending; one of so many goes on.
    rungs: Sequence[float] = ()
    factor: float = 3
    # Parts of their work, in [0, 1], that those which run have done.
    begun: Sequence[float] = ()


@dataclasses.dataclass(frozen=True)
class Choice:
    """How many at once, and how long the rest is expected to take with each number, in trials on one replica."""

    at_once: int
    expected: Dict[int, float]

    def why(self) -> str:
        """For people."""
        best = self.expected[self.at_once]
        others = [f"{number} at once would take {self.expected[number] / best:.2f} times as long"
                  for number in (1, self.at_once * 2) if number != self.at_once and number in self.expected]
        return "; ".join([f"{self.at_once} at once", *others])


def choose(outlook: Outlook) -> Choice:
    """The smallest number at once by which the rest takes about as long as by the best one."""
    bound = max(1, min(outlook.slots, outlook.trials, MOST_TRIALS))
    numbers = sorted({number for number in (*range(1, 9), *(2**power for power in range(3, 7)), bound) if number <= bound})
    expected = {number: expected_time(outlook, number) for number in numbers}
    best = min(expected.values())
    return Choice(min(number for number in numbers if expected[number] <= _ALIKE * best), expected)


def share_of(outlook: Outlook, at_once: int) -> int:
    """Replicas that each of so many trials may have at most: an equal part of all of them, rounded up.

    With speed-ups that flatten, equal parts do the most work. Left alone, an allocator that wants jobs to end soon gives much to
    a few of them, stops others meanwhile, and changes its mind with every trial that measures itself anew.
    """
    return max(1, min(outlook.most, math.ceil(outlook.slots / max(1, at_once))))


def expected_time(outlook: Outlook, at_once: int) -> float:
    """Of the rest, in units of a whole trial on one replica."""
    return sum(_play(outlook, at_once, random.Random(draw)) for draw in range(_DRAWS)) / _DRAWS


def guessed_speedup(replicas: float) -> float:
    """Of a program of which nothing is known yet."""
    return float(replicas**_GUESSED_EXPONENT)


def _play(outlook: Outlook, at_once: int, draw: random.Random) -> float:
    trials = min(outlook.trials, MOST_TRIALS)
    worth = [draw.random() for _ in range(trials)]
    stops = [*outlook.rungs, 1.0]
    at_rung: List[List[float]] = [[] for _ in outlook.rungs]
    started, time = 0, 0.0
    # Work done, next stop, trial.
    running: List[Tuple[float, int, int]] = []
    while started < trials or running:
        while started < trials and len(running) < at_once:
            done = min(outlook.begun[started], _ALMOST) if started < len(outlook.begun) else 0.0
            running.append((done, bisect.bisect_right(stops, done), started))
            started += 1
        speed = outlook.speedup(max(1.0, min(float(outlook.most), outlook.slots / len(running))))
        step = min(stops[stop] - done for done, stop, _ in running)
        time += step / speed
        going: List[Tuple[float, int, int]] = []
        for done, stop, trial in running:
            if stops[stop] - done > step + 1e-12:
                going.append((done + step, stop, trial))
            elif stop < len(outlook.rungs):
                at_rung[stop].append(worth[trial])
                if keeps(at_rung[stop], worth[trial], outlook.factor):
                    going.append((stops[stop], stop + 1, trial))
        running = going
    return time


def rung_parts(first: float, factor: float, total: Optional[float]) -> List[float]:
    """Rungs as parts of a trial's work, which comes to `total` of progress in all; None: nobody knows it yet."""
    if total is None:
        total = first * factor**3
    parts = []
    rung = first
    while rung < total and len(parts) < 20:
        parts.append(rung / total)
        rung *= factor
    return parts


def speedup_of(measured: Sequence[Callable[[int], float]]) -> Callable[[float], float]:
    """The mean of what trials have measured, in between as between its neighbours; a guess if none has."""
    if not measured:
        return guessed_speedup
    known: Dict[int, float] = {}

    def at(replicas: int) -> float:
        if replicas not in known:
            logs = [math.log(max(one(replicas), 1e-9)) for one in measured]
            known[replicas] = math.exp(sum(logs) / len(logs))
        return known[replicas]

    def speedup(replicas: float) -> float:
        low = math.floor(replicas)
        return at(low) + (replicas - low) * (at(low + 1) - at(low) if replicas > low else 0.0)

    return speedup
