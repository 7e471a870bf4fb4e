"""The study of Optuna that belongs to a search: made anew from the trials that the supervisor knows.

What is proposed for a trial depends on the trials before it, the search's seed and the trial's number, and on nothing that a
tuner has in its memory: one that is killed is followed by one that goes on in the same way.
"""

import dataclasses
import math
import warnings
from typing import Any, Dict, List, Optional, Sequence

from adaptdl.tune.search_file import Search
from adaptdl.tune.space import Parameter
from adaptdl.tune.trials import Plan, Trial

try:
    import optuna
except ImportError as missing:
    raise ImportError("adaptdl.tune needs Optuna: apt install python3-optuna, or pip install optuna") from missing

optuna.logging.set_verbosity(optuna.logging.WARNING)


def make_study(search: Search, trials: List[Trial], storage: Optional[str] = None, number: int = 0,
               earlier: Sequence[Trial] = ()) -> Any:
    """Optuna's study of these trials, in memory, or in `storage` such as "sqlite:///digits.db". The sampler also knows the
    `earlier` ones, of other searches."""
    study = optuna.create_study(study_name=search.name, storage=storage, sampler=_sampler(search, number, earlier),
                                direction="maximize" if search.maximize else "minimize")
    # Of CMA-ES, to which trials are generations, only the first one's middle is theirs.
    for trial in earlier if search.algorithm != "cmaes" else []:
        study.add_trial(_frozen(search, dataclasses.replace(trial, sampler_state={})))
    for trial in trials:
        study.add_trial(_frozen(search, trial))
    return study


def propose(search: Search, trials: List[Trial], number: int, earlier: Sequence[Trial] = ()) -> Optional[Plan]:
    """A start for trial `number`, where the `earlier` ones are known of other searches. None: nothing is left to try."""
    points = search.space.grid() if search.algorithm == "grid" or _is_one_point(search) else None
    if points is not None:
        return Plan(points[number - 1]) if number <= len(points) else None
    study = make_study(search, trials, number=number, earlier=earlier)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        trial = study.ask()
        params = search.space.suggest(trial)
    return Plan(params, dict(study.trials[-1].system_attrs))


def _is_one_point(search: Search) -> bool:
    points = search.space.grid()
    return points is not None and len(points) == 1


def _sampler(search: Search, number: int, earlier: Sequence[Trial]) -> Any:
    # A seed for each trial: samplers draw anew in each process.
    seed = (search.seed * 1_000_003 + number) % 2**32
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        if search.algorithm == "cmaes":
            return optuna.samplers.CmaEsSampler(_middle(search, earlier), seed=seed, warn_independent_sampling=False)
        if search.algorithm == "tpe":
            # Trials that run count as bad ones, so that others are not sent to the same place.
            return optuna.samplers.TPESampler(seed=seed, constant_liar=True)
        return optuna.samplers.RandomSampler(seed=seed)


def _middle(search: Search, earlier: Sequence[Trial]) -> Optional[Dict[str, Any]]:
    """Numbers of the best earlier trial, for CMA-ES to begin around. None: there is none."""
    good = [trial for trial in earlier if trial.is_good and trial.value is not None]
    if not good:
        return None
    best = max(good, key=lambda trial: trial.value if search.maximize else -trial.value)  # type: ignore[operator]
    return {one.name: best.params.get(one.name, (one.low + one.high) / 2)
            for one in search.space.parameters if one.kind != "choice"}


def _frozen(search: Search, trial: Trial) -> Any:
    """The trial as Optuna has it. What failed, or has no number as its result, says nothing to a sampler but that."""
    states = optuna.trial.TrialState
    state = {"done": states.COMPLETE, "stopped early": states.PRUNED}.get(trial.status, states.FAIL)
    if not trial.job.finished:
        state = states.RUNNING
    known = {name: value for name, value in trial.params.items()}
    distributions = {one.name: _distribution(one) for one in search.space.parameters if one.name in known}
    frozen = optuna.trial.create_trial(
        state=state, value=trial.value if state == states.COMPLETE else None, params=known, distributions=distributions,
        user_attrs={"job": f"{trial.job.namespace}/{trial.job.name}", "status": trial.status},
        system_attrs=dict(trial.sampler_state),
        # By whole steps, of each the last value.
        intermediate_values={int(point.progress): point.value for point in trial.curve if math.isfinite(point.value)})
    frozen.datetime_start = trial.job.submit_time and trial.job.submit_time.replace(tzinfo=None)
    frozen.datetime_complete = trial.job.completion_time and trial.job.completion_time.replace(tzinfo=None)
    return frozen


def _distribution(parameter: Parameter) -> Any:
    if parameter.kind == "choice":
        return optuna.distributions.CategoricalDistribution(list(parameter.choices))
    if parameter.kind == "int":
        return optuna.distributions.IntDistribution(int(parameter.low), int(parameter.high),
                                                    step=int(parameter.step or 1))
    return optuna.distributions.FloatDistribution(parameter.low, parameter.high, log=parameter.kind == "log_uniform",
                                                  step=parameter.step)
