"""Population-based training: trials that have fallen behind are replaced by forks of the best ones.

A fork begins with the newest checkpoint of its parent, and goes on with parameters near the parent's (Jaderberg et al.,
"Population Based Training of Neural Networks", 2017, with truncation selection). Trials are compared by what they reported at
the same progress, and not at the same time: they have different numbers of replicas. All of it is a function of the trials
that the supervisor knows.
"""

import math
import random
from typing import Any, Dict, List, Optional, Sequence

from adaptdl.tune.search_file import Population
from adaptdl.tune.space import Parameter, Space
from adaptdl.tune.trials import Trial

# In what is kept with a trial: its parent, and the trial whose place it takes.
FORK_OF, INSTEAD_OF = "fork_of", "instead_of"
# A place is given up when so many forks have failed before they reported anything.
_MOST_FAILED = 3
# How often a choice is drawn anew.
_CHOOSE_AGAIN = 0.25


class Standings:
    """Where the trials of a population stand. Of one moment."""

    def __init__(self, population: Population, maximize: bool, trials: Sequence[Trial]) -> None:
        self._population, self._trials = population, trials
        sign = -1 if maximize else 1
        self._values = {trial.number: self._levels(trial, sign) for trial in trials}

    def fallen(self) -> List[Trial]:
        """Those that run, are among the worst where they can be compared, and could be replaced."""
        running = [trial for trial in self._trials
                   if not trial.job.finished and not trial.job.raw.status.cancel_requested]
        return [trial for trial in running if self._is_behind(trial) and self.parent_of(trial) is not None]

    def vacant(self) -> List[Trial]:
        """Those that were stopped, and whose places nobody has taken."""
        return [trial for trial in self._trials if trial.job.phase == "CANCELLED"
                and self._level(trial) is not None and not self._has_heir(trial)]

    def parent_of(self, trial: Trial) -> Optional[Trial]:
        """The trial that a fork in the place of this one is made of: one of the best where this one is compared. None: nobody is
        better, or can be gone on from."""
        level = self._level(trial)
        if level is None:
            return None
        own = self._values[trial.number][level]
        able = [one for one in self._trials if self._values[one.number].get(level, math.inf) < own and _can_be_parent(one)]
        able.sort(key=lambda one: (self._values[one.number][level], one.number))
        best = able[:self._few(level)]
        return random.Random(f"{trial.number}").choice(best) if best else None

    def left(self) -> int:
        """Trials that run, or will be started."""
        started = sum(FORK_OF not in trial.sampler_state for trial in self._trials)
        running = sum(not trial.job.finished for trial in self._trials)
        return max(0, self._population.size - started) + running + len(self.vacant())

    def _level(self, trial: Trial) -> Optional[int]:
        """Where the trial is compared: the furthest that it has come to with enough others. None: nowhere yet."""
        return max((level for level in self._values[trial.number] if self._few(level) > 0), default=None)

    def _is_behind(self, trial: Trial) -> bool:
        level = self._level(trial)
        if level is None:
            return False
        own = self._values[trial.number][level]
        # Of equals none is worse than the other, unless they are no numbers.
        better = sum(value < own for value in self._at(level))
        return own == math.inf or better >= len(self._at(level)) - self._few(level)

    def _at(self, level: int) -> List[float]:
        return [levels[level] for levels in self._values.values() if level in levels]

    def _few(self, level: int) -> int:
        return int(len(self._at(level)) * self._population.quantile)

    def _levels(self, trial: Trial, sign: int) -> Dict[int, float]:
        """What it reported first at each multiple of `every`; lower is better. Of a fork only what it has trained itself."""
        found: Dict[int, float] = {}
        inherited = -1
        if FORK_OF in trial.sampler_state and trial.curve:
            inherited = int(trial.curve[0].progress // self._population.every)
        for point in trial.curve:
            level = int(point.progress // self._population.every)
            if level > max(inherited, 0):
                found.setdefault(level, math.inf if math.isnan(point.value) else sign * point.value)
        return found

    def _has_heir(self, trial: Trial) -> bool:
        heirs = [one for one in self._trials if one.sampler_state.get(INSTEAD_OF) == trial.number]
        return any(one.status != "failed" or one.curve for one in heirs) or len(heirs) >= _MOST_FAILED


def explore(space: Space, params: Dict[str, Any], change: float, draw: random.Random) -> Dict[str, Any]:
    """Parameters near these."""
    values: Dict[str, Any] = {}
    for parameter in space.parameters:
        if parameter.is_active(values):
            known = parameter.name in params
            values[parameter.name] = _near(parameter, params[parameter.name], change, draw) if known else \
                _drawn(parameter, draw)
    return values


def _near(parameter: Parameter, value: Any, change: float, draw: random.Random) -> Any:
    if parameter.kind == "choice":
        return draw.choice(parameter.choices) if draw.random() < _CHOOSE_AGAIN else value
    up = draw.random() < 0.5
    if parameter.kind == "log_uniform":
        return min(max(value * change if up else value / change, parameter.low), parameter.high)
    distance = (change - 1) * (parameter.high - parameter.low)
    if parameter.step is not None:  # whole steps, and at least one
        distance = max(1, round(distance / parameter.step)) * parameter.step
    return _within(parameter, value + distance if up else value - distance)


def _drawn(parameter: Parameter, draw: random.Random) -> Any:
    if parameter.kind == "choice":
        return draw.choice(parameter.choices)
    if parameter.kind == "log_uniform":
        return math.exp(draw.uniform(math.log(parameter.low), math.log(parameter.high)))
    return _within(parameter, draw.uniform(parameter.low, parameter.high))


def _within(parameter: Parameter, value: float) -> Any:
    """The nearest value that the parameter may have."""
    if parameter.step is not None:
        most = math.floor((parameter.high - parameter.low) / parameter.step + 1e-9)
        value = parameter.low + min(max(round((value - parameter.low) / parameter.step), 0), most) * parameter.step
    value = min(max(value, parameter.low), parameter.high)
    return int(value) if parameter.kind == "int" else value


def _can_be_parent(trial: Trial) -> bool:
    if trial.job.finished:
        return trial.is_good
    return bool(trial.job.start_time is not None and not trial.job.raw.status.cancel_requested)
