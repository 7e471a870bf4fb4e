"""Trials as jobs: what the supervisor knows of a search, and nothing else, is the truth about it.

Trial 7 of the search "digits" is the job "digits-7". Its labels say of which search it is, its environment holds its
parameters. So whoever comes later, on whichever machine, finds all of it by the public API, and two
who try to start the same trial are told apart by its name: the second one is refused.
"""

import dataclasses
import json
import math
import re
import shlex
from typing import Any, Dict, List, Optional, Union

from adaptdl.client import AlreadyExistsError, Client, ClientError, Code, Job, WrongStateError
from adaptdl.tune.rungs import Point
from adaptdl.tune.search_file import Search

SEARCH_LABEL = "adaptdl-tune-search"
TRIAL_LABEL = "adaptdl-tune-trial"
PARAMS_VARIABLE = "ADAPTDL_TRIAL_PARAMS"
NUMBER_VARIABLE = "ADAPTDL_TRIAL_NUMBER"
NAME_VARIABLE = "ADAPTDL_TRIAL_SEARCH"
# What the sampler wants to know again of a trial.
SAMPLER_VARIABLE = "ADAPTDL_TUNE_SAMPLER"
PERIOD_VARIABLE = "ADAPTDL_CHECKPOINT_PERIOD_SECONDS"
_CHECKPOINT_SECONDS = "10"
_PLACE = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a trial is to be started with."""

    params: Dict[str, Any]
    # What the sampler, or the population, wants to find with it later.
    sampler_state: Dict[str, Any] = dataclasses.field(default_factory=dict)
    # The job whose checkpoint it begins with. None: as the file says.
    parent: Optional[str] = None


@dataclasses.dataclass
class Trial:
    """A trial as the supervisor knows it."""

    number: int
    params: Dict[str, Any]
    sampler_state: Dict[str, Any]
    job: Job
    # What it reported over its progress, and what it reported last (None: nothing yet).
    curve: List[Point] = dataclasses.field(default_factory=list)
    value: Optional[float] = None
    # That it had over its time, on average. None: nobody has asked.
    replicas: Optional[float] = None

    @property
    def status(self) -> str:
        """In a word: what the table shows, and what the sampler is told by."""
        if not self.job.finished:
            return self.job.phase.lower()
        if self.value is not None and math.isnan(self.value):
            return "not a number"
        if self.job.phase == "CANCELLED":
            return "stopped early" if self.value is not None else "cancelled"
        if self.job.phase == "FAILED":
            return "failed"
        return "done" if self.value is not None else "silent"

    @property
    def is_good(self) -> bool:
        """Whether it ran to its end and has a result."""
        return self.status == "done"


class Trials:
    """All trials of a search. Not thread-safe."""

    def __init__(self, client: Client, search: Search) -> None:
        self._client, self._search = client, search
        # Of those that have ended: nothing about them changes any more.
        self._finished: Dict[str, Trial] = {}

    @property
    def _progress(self) -> str:
        population = self._search.population
        return (population.progress if population is not None else self._search.progress) or ""

    def load(self) -> List[Trial]:
        """As they are now, by number."""
        found = [self._trial(job) for job in self._client.list(labels={SEARCH_LABEL: self._search.name})
                 if TRIAL_LABEL in job.labels]
        return sorted(found, key=lambda trial: trial.number)

    def start(self, number: int, plan: Plan, most: int = 0) -> bool:
        """Submits trial `number`, with at most so many replicas (0: as the file says). False: it is there already, by
        another tuner."""
        options = dict(self._search.job)
        if plan.parent is not None:
            options["start_from"] = plan.parent
        if most:
            options["max_replicas"] = self._bounded(most)
        if "code" in options:
            options["code"] = code_of(self._search)
        options["env"] = {
            **options.get("env", {}), PARAMS_VARIABLE: json.dumps(plan.params), NUMBER_VARIABLE: str(number),
            NAME_VARIABLE: self._search.name, SAMPLER_VARIABLE: json.dumps(plan.sampler_state)}
        if self._search.population is not None:
            # Forks begin with the newest checkpoint that there is.
            options["env"].setdefault(PERIOD_VARIABLE, _CHECKPOINT_SECONDS)
        options["labels"] = {**options.get("labels", {}), SEARCH_LABEL: self._search.name, TRIAL_LABEL: str(number)}
        # A trial that fails tells the sampler something, which it shall not take three attempts to say.
        options.setdefault("max_restarts", 0)
        try:
            self._client.submit(fill(self._search.command, plan.params, self._search.space.names()),
                                name=f"{self._search.name}-{number}", **options)
        except AlreadyExistsError:
            return False
        return True

    def limit(self, trials: List[Trial], most: int) -> None:
        """Has each of these trials have at most so many replicas, as far as the file lets it."""
        most = self._bounded(most)
        for trial in trials:
            if trial.job.raw.spec.max_replicas == most or trial.job.raw.status.cancel_requested:
                continue
            try:
                self._client.update(trial.job.name, max_replicas=most)
            except WrongStateError:
                pass

    def _bounded(self, most: int) -> int:
        return max(most, int(self._search.job.get("min_replicas") or 1))

    def stop(self, trial: Trial) -> None:
        """Ends it, unless it has ended meanwhile."""
        try:
            self._client.cancel(trial.job.name)
        except WrongStateError:
            pass

    def _trial(self, job: Job) -> Trial:
        if job.uid in self._finished:
            return self._finished[job.uid]
        env = environment_of(job)
        trial = Trial(int(job.labels[TRIAL_LABEL]), json.loads(env[PARAMS_VARIABLE]),
                      json.loads(env.get(SAMPLER_VARIABLE, "{}")), job)
        if job.start_time is not None:
            if self._search.log:
                self._read_log(trial)
            else:
                self._read_history(trial)
        if job.finished:
            self._finished[job.uid] = trial
        return trial

    def _read_history(self, trial: Trial) -> None:
        name = self._search.metric
        points = self._client.history(trial.job.name)
        seconds = [(point.end - point.begin).total_seconds() for point in points]
        if sum(seconds) > 0:
            trial.replicas = sum(point.replicas * time for point, time in zip(points, seconds)) / sum(seconds)
        for point in points:
            if name in point.metrics:
                metric = point.metrics[name]
                progress = {"steps": point.scale_invariant_steps, "reported": metric.step}.get(
                    self._progress, point.epoch)
                trial.curve.append(Point(float(progress), metric.value))
                trial.value = metric.value
        # Points are means over a time; what was reported last is told as it was.
        for metric in trial.job.raw.status.progress.metrics:
            if metric.name == name:
                trial.value = metric.value

    def _read_log(self, trial: Trial) -> None:
        pattern = re.compile(self._search.log)
        group: Union[int, str] = "value" if "value" in pattern.groupindex else 1
        try:
            for line in self._client.logs(trial.job.name, rank=0, pattern=pattern.pattern):
                match = pattern.search(line.text)
                value = _number(match[group]) if match and line.source != "UNSPECIFIED" else None
                if match is None or value is None:
                    continue
                step = _number(match["step"]) if "step" in pattern.groupindex else None
                trial.curve.append(Point(len(trial.curve) + 1 if step is None else step, value))
                trial.value = value
        except ClientError as error:
            # A log that can't be read now is read again in the next round, unless the pattern is the reason.
            if error.code == "INVALID_ARGUMENT":
                raise


def code_of(search: Search) -> Optional[Code]:
    """The folder that its trials start in, as the cluster has it. None: they have none, or it is on this machine."""
    code = search.job.get("code")
    return Code(code["digest"], code["size"]) if code else None


def environment_of(job: Job) -> Dict[str, str]:
    """Variables that the job was submitted with."""
    return {variable.name: variable.value for variable in job.raw.spec.template.env}


def fill(command: Union[str, List[str]], params: Dict[str, Any], names: List[str]) -> Union[str, List[str]]:
    """The command with values in the places of parameters: `{lr}`. Other braces stay as they are.

    Of a list, words with a parameter that this trial does not have are left out. In a text for a shell such a place is
    empty, and values are quoted.
    """
    if isinstance(command, str):
        return _PLACE.sub(lambda place: place[0] if place[1] not in names else
                          shlex.quote(_text(params[place[1]])) if place[1] in params else "", command)
    words = []
    for word in command:
        places = [name for name in _PLACE.findall(word) if name in names]
        if all(name in params for name in places):
            words.append(_PLACE.sub(lambda place: _text(params[place[1]]) if place[1] in params else place[0], word))
    return words


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "none", True: "true", False: "false"}[value]
    return repr(value) if isinstance(value, float) else str(value)


def _number(text: Optional[str]) -> Optional[float]:
    try:
        return float(text) if text is not None else None
    except ValueError:
        return None
