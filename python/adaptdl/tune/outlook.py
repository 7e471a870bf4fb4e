"""What is left of a search, as far as its trials' jobs and the cluster's nodes tell: what concurrency.py chooses by."""

import math
from typing import Any, Callable, List, Optional, Sequence

from adaptdl.client import Node
from adaptdl.tune.concurrency import MOST_TRIALS as MOST_PLAYED
from adaptdl.tune.concurrency import Outlook, rung_parts, speedup_of
from adaptdl.tune.population import Standings
from adaptdl.tune.search_file import Search
from adaptdl.tune.trials import Trial

# Where time or money bound a search, and not their number, it plays so many trials for each that may run at once.
_TRIALS_PER_SLOT = 4
_RESOURCES = ("cpu_millis", "memory_bytes", "gpus")
# What a job gets that asks for nothing, as in job files.
_DEFAULT_CPUS = 1.0


def outlook_of(search: Search, trials: List[Trial], nodes: List[Node]) -> Outlook:
    """Of now. A search has the replicas that its trials have, and those that nobody has."""
    running = [trial for trial in trials if not trial.job.finished]
    slots = max(1, sum(len(trial.job.allocation) for trial in running) + _free(search, trials, nodes))
    most = int(search.job.get("max_replicas") or 0) or slots
    left = trials_left(search, trials)
    if left is None:
        left = _TRIALS_PER_SLOT * slots
    whole = whole_progress(trials)
    parts: List[float] = []
    if search.progress is not None:
        parts = rung_parts(search.first_rung, search.factor, whole)
    per_node = max(1, slots // max(1, sum(node.ready for node in nodes)))
    speedup = speedup_of([one for one in (_measured(trial, per_node) for trial in trials) if one is not None])
    begun = [part_done(trial, whole) for trial in running]
    return Outlook(max(1, left), slots, max(1, min(most, slots)), speedup, parts, search.factor, begun)


def trials_in_all(search: Search) -> Optional[int]:
    """That the search has, if neither time nor money ends it before. None: only these do."""
    points = search.space.grid()
    if points is not None and search.algorithm != "grid" and len(points) > 1:
        points = None
    numbers = [number for number in (search.trials, points and len(points)) if number]
    return min(numbers, default=None)


def trials_left(search: Search, trials: Sequence[Trial]) -> Optional[int]:
    """That have not ended, or not begun, if neither time nor money ends the search before. None: only these do."""
    if search.population is not None:
        return Standings(search.population, search.maximize, trials).left()
    in_all = trials_in_all(search)
    return None if in_all is None else max(0, in_all - sum(trial.job.finished for trial in trials))


def part_done(trial: Trial, whole: Optional[float]) -> float:
    """Of a trial's work, in [0, 1], where a whole one comes to such a progress; 0: nobody knows."""
    if trial.is_good:
        return 1.0
    fraction = float(trial.job.raw.status.progress.fraction)
    if fraction > 0:
        return min(fraction, 1.0)
    return min(trial.curve[-1].progress / whole, 1.0) if whole and trial.curve else 0.0


def _free(search: Search, trials: List[Trial], nodes: List[Node]) -> int:
    """Replicas that there is room for."""
    if trials:
        wanted = {name: getattr(trials[-1].job.raw.spec.template.resources, name) for name in _RESOURCES}
    else:
        wanted = {"cpu_millis": int(1000 * (search.job.get("cpus") or _DEFAULT_CPUS)),
                  "memory_bytes": int(search.job.get("memory_bytes") or 0), "gpus": int(search.job.get("gpus") or 0)}
    room = 0
    for node in nodes:
        if node.ready:
            room += min((int(max(0, getattr(node.capacity, name) - getattr(node.allocated, name)) // amount)
                         for name, amount in wanted.items() if amount > 0), default=0)
    return room


def whole_progress(trials: Sequence[Trial]) -> Optional[float]:
    """The progress that a trial ends at. None: none has told yet."""
    told = [trial.curve[-1].progress / trial.job.raw.status.progress.fraction for trial in trials
            if trial.curve and trial.job.raw.status.progress.fraction > 0]
    told += [trial.curve[-1].progress for trial in trials if trial.is_good and trial.curve]
    return max(told, default=None)


def _measured(trial: Trial, per_node: int) -> Optional[Callable[[int], float]]:
    """The speed-up by what the trial has measured of itself. None: it has measured nothing."""
    status: Any = trial.job.raw.status
    hints = status.hints
    if not status.HasField("hints") or not hints.HasField("perf_params") or not hints.HasField("grad_params"):
        return None
    from adaptdl.goodput import GoodputFunction  # its library is not wherever the client is
    perf, grad = hints.perf_params, hints.grad_params
    function = GoodputFunction(
        [perf.alpha_c, perf.beta_c, perf.alpha_n, perf.beta_n, perf.alpha_r, perf.beta_r, perf.gamma],
        [grad.norm, grad.var], hints.init_batch_size)
    bounds = (hints.min_local_batch_size or None, hints.max_local_batch_size or None)

    def goodput(replicas: int) -> float:
        nodes = math.ceil(replicas / per_node)
        # With accumulation, without which a single replica would keep the initial batch size here, as nowhere else.
        return float(function.optimize(nodes, replicas, hints.max_batch_size or None, bounds, True)[0])

    alone = goodput(1)
    if not alone > 0:
        return None
    return lambda replicas: goodput(replicas) / alone
