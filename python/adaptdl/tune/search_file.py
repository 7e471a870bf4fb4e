"""The file of a search: YAML, read with errors that name the field, its value and the remedy."""

import dataclasses
import math
import pathlib
import re
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from adaptdl.tune.space import Parameter, Space, same_in

MOST_BYTES = 1 << 20
MOST_PARAMETERS = 64
MOST_TRIALS = 10_000
ALGORITHMS = ("tpe", "random", "grid", "cmaes")
MOST_EARLIER = 16
PROGRESS = ("epochs", "steps", "reported")
# What a trial's job may say, as Client.submit() takes it.
JOB_FIELDS = {
    "min_replicas": int, "max_replicas": int, "priority": int, "max_restarts": int, "gpus": int, "memory_bytes": int,
    "cpus": float, "grace_period": float, "preemptible": bool, "in_place": bool, "env": dict, "labels": dict,
    "node_selector": dict, "allowed_replicas": list, "gpu_types": list, "working_directory": str, "python": str,
    "requirements": str, "folder": str, "code": dict, "start_from": str, "image": str,
}
# What its tuner's job may say.
TUNER_FIELDS = {"cpus": float, "memory_bytes": int, "env": dict, "python": str, "requirements": str}
_KINDS = ("uniform", "log_uniform", "int", "choice")
_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,50}[a-z0-9])?")
_PARAMETER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_METRIC = re.compile(r"[A-Za-z][A-Za-z0-9_./-]{0,63}")


class SearchFileError(ValueError):
    """The file is wrong; the text says where, and what to write there."""


@dataclasses.dataclass(frozen=True)
class Population:
    """Trials of which the worst are replaced by forks of the best (population.py)."""

    # Trials that begin without a parent.
    size: int
    # In what progress is counted, and how much of it lies between two comparisons.
    progress: str
    every: float
    # The part of those compared that is replaced, and the part that they are replaced by.
    quantile: float
    # How far parameters move: logarithmic ones by this factor, others by this less 1 of their range.
    change: float


@dataclasses.dataclass(frozen=True)
class Search:
    """A search, as its file says it."""

    name: str
    command: Union[str, List[str]]
    space: Space
    metric: str
    maximize: bool
    # A regular expression that finds the metric in the trial's output. Empty: the program reports it.
    log: str
    # Bounds, of which at least one is there. Hours of the wall clock since the first trial; cost in the pools' currency.
    trials: Optional[int]
    hours: Optional[float]
    cost: Optional[float]
    algorithm: str
    seed: int
    # Early stopping: what progress is counted in (None: no trial is stopped), where the first rung is, and how much
    # further each next one; one in `factor` trials goes on from each.
    progress: Optional[str]
    first_rung: float
    factor: float
    # None: no trial is replaced by a fork of another one.
    population: Optional[Population]
    # Searches whose trials the sampler knows from the start.
    warm_start: Tuple[str, ...]
    # Trials that run at the same time, at most. None: the tuner decides.
    at_once: Optional[int]
    job: Dict[str, Any]
    # Of the tuner's own job.
    tuner: Dict[str, Any]
    # All of it as plain values, by which the search is kept with its trials.
    document: Dict[str, Any]


def load(path: str) -> Search:
    """The search in the file. Its folder is where a relative `job.folder` is meant from."""
    import yaml

    try:
        data = pathlib.Path(path).read_bytes()
    except OSError as error:
        raise SearchFileError(f"{path} can't be read: {error.strerror}") from error
    if len(data) > MOST_BYTES:
        raise SearchFileError(f"{path} has {len(data)} bytes: give at most {MOST_BYTES}")
    if re.search(rb"^[^#\n]*[:\-\[,{]\s*[&*][\w]", data, re.MULTILINE):
        raise SearchFileError(f"{path} uses anchors or aliases of YAML: write the values out")
    try:
        document = yaml.safe_load(data)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise SearchFileError(f"{path} is no YAML: {error}") from error
    if isinstance(document, dict) and isinstance(document.get("job"), dict) and \
            isinstance(document["job"].get("folder"), str):
        document["job"]["folder"] = str(pathlib.Path(path).resolve().parent / document["job"]["folder"])
    return parse(document)


def parse(document: Any) -> Search:
    """The search that the values of a file say. SearchFileError names everything that is wrong, one problem a line."""
    reader = _Reader()
    search = reader.search(document)
    if reader.problems:
        raise SearchFileError("\n".join(reader.problems))
    assert search is not None
    return search


class _Reader:
    """Reads one file, and collects what is wrong with it."""

    def __init__(self) -> None:
        self.problems: List[str] = []

    def wrong(self, field: str, value: Any, remedy: str) -> None:
        text = repr(value)
        self.problems.append(f"{field} is {text if len(text) <= 60 else text[:57] + '...'}: {remedy}")

    def known(self, field: str, values: Any, names: Sequence[str]) -> Dict[str, Any]:
        """The mapping, in which nothing has another name than these."""
        if values is None:
            return {}
        if not isinstance(values, dict):
            self.wrong(field or "the file", values, "give a mapping of " + ", ".join(names))
            return {}
        for name in values:
            if name not in names:
                self.wrong(f"{field}.{name}" if field else str(name), values[name],
                           "there is no such field; there are " + ", ".join(names))
        return values

    def search(self, document: Any) -> Optional[Search]:
        top = self.known("", document, ("name", "command", "parameters", "metric", "budget", "algorithm",
                                        "early_stopping", "population", "warm_start", "at_once", "job", "tuner"))
        if not isinstance(document, dict):
            if document is None:
                self.wrong("the file", None, "give name, command, parameters, metric and budget")
            return None
        name = top.get("name")
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            self.wrong("name", name, "give at most 52 lower-case letters, digits and hyphens, such as digits-1")
        space = self.space(top.get("parameters"))
        metric, maximize, log = self.metric(top.get("metric"))
        trials, hours, cost = self.budget(top.get("budget"))
        algorithm, seed = self.algorithm(top.get("algorithm", "tpe"), space)
        progress, first, factor = self.early_stopping(top.get("early_stopping"), log)
        population = self.population(top.get("population"), trials, log)
        if population is not None and progress is not None:
            self.wrong("early_stopping", top.get("early_stopping"), "a population replaces trials instead: leave out one of them")
        if population is not None and algorithm == "grid":
            self.wrong("algorithm", algorithm, "parameters of a population move between points of a grid: give tpe or random")
        at_once = self.whole("at_once", top.get("at_once"), 1, MOST_TRIALS)
        return Search(str(name), self.command(top.get("command")), space, metric, maximize, log, trials, hours, cost,
                      algorithm, seed, progress, first, factor, population,
                      self.warm_start(top.get("warm_start"), str(name)), at_once, self.trials_job(top.get("job")),
                      self.job("tuner", top.get("tuner"), TUNER_FIELDS), document)

    def command(self, value: Any) -> Union[str, List[str]]:
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value and all(isinstance(word, (str, int, float)) for word in value):
            return [str(word) for word in value]
        self.wrong("command", value, 'give words, such as [python3, train.py, "--lr={lr}"], or a text for a shell')
        return []

    def space(self, value: Any) -> Space:
        if not isinstance(value, dict) or not value or len(value) > MOST_PARAMETERS:
            self.wrong("parameters", value, f"give from 1 to {MOST_PARAMETERS}, such as lr: {{log_uniform: [0.001, 0.1]}}")
            return Space(())
        found: Dict[str, Parameter] = {}
        for name, text in value.items():
            if not isinstance(name, str) or not _PARAMETER.fullmatch(name):
                self.wrong("parameters", name, "name parameters by letters, digits and _, beginning with a letter")
                continue
            parameter = self.parameter(name, text)
            if parameter is not None:
                found[name] = parameter
        return Space(self.ordered(found))

    def parameter(self, name: str, value: Any) -> Optional[Parameter]:
        field = f"parameters.{name}"
        kinds = [kind for kind in _KINDS if isinstance(value, dict) and kind in value]
        if len(kinds) != 1:
            self.wrong(field, value, "give one of " + ", ".join(f"{kind}: [...]" for kind in _KINDS))
            return None
        kind = kinds[0]
        self.known(field, value, (kind, "when", *(("step",) if kind in ("int", "uniform") else ())))
        when = self.when(f"{field}.when", value.get("when"))
        if kind == "choice":
            choices = value[kind]
            if not isinstance(choices, list) or not choices or len(choices) > MOST_TRIALS or \
                    not all(one is None or isinstance(one, (str, bool, int, float)) for one in choices) or \
                    any(same_in(one, tuple(choices[:i])) for i, one in enumerate(choices)):
                self.wrong(f"{field}.choice", choices, "give texts, numbers or booleans, each once: [sgd, adam]")
                return None
            return Parameter(name, kind, choices=tuple(choices), when=when)
        return self.range(name, kind, value, when)

    def range(self, name: str, kind: str, value: Dict[str, Any], when: Any) -> Optional[Parameter]:
        field = f"parameters.{name}.{kind}"
        bounds = value[kind]
        ends = [number(one) for one in bounds] if isinstance(bounds, list) and len(bounds) == 2 else [None]
        if None in ends:
            self.wrong(field, bounds, "give the lowest and the highest value: [0.001, 0.1]")
            return None
        low, high = ends
        if low > high:
            self.wrong(field, bounds, "the lowest value comes first")
            return None
        if kind == "log_uniform" and low <= 0:
            self.wrong(field, bounds, "a logarithmic range begins above 0")
            return None
        step = number(value["step"]) if "step" in value else (1 if kind == "int" else None)
        if "step" in value and (step is None or step <= 0):
            self.wrong(f"parameters.{name}.step", value["step"], "give a number above 0")
            return None
        if kind == "int" and any(one != int(one) for one in (low, high, step)):
            self.wrong(field, bounds, "give whole numbers, or use uniform")
            return None
        return Parameter(name, kind, low, high, step, when=when)

    def when(self, field: str, value: Any) -> Tuple[Tuple[str, Tuple[Any, ...]], ...]:
        if value is None:
            return ()
        if not isinstance(value, dict) or not value:
            self.wrong(field, value, "name a parameter and its value: {optimizer: adam}")
            return ()
        return tuple((str(name), tuple(values) if isinstance(values, list) else (values,))
                     for name, values in value.items())

    def ordered(self, found: Dict[str, Parameter]) -> Tuple[Parameter, ...]:
        """Each behind those that it depends on."""
        order: List[Parameter] = []
        left = dict(found)
        while left:
            ready = [one for one in left.values() if not any(name in left for name, _ in one.when)]
            if not ready:
                self.wrong("parameters", list(left), "their conditions (when) go round in a circle; break it")
                return ()
            for one in ready:
                for name, values in one.when:
                    if name not in found:
                        self.wrong(f"parameters.{one.name}.when", name, "there is no such parameter")
                    elif not all(found[name].holds(value) for value in values):
                        self.wrong(f"parameters.{one.name}.when.{name}", list(values), f"{name} never has such a value")
                order.append(one)
                del left[one.name]
        return tuple(order)

    def metric(self, value: Any) -> Tuple[str, bool, str]:
        metric = self.known("metric", value, ("name", "direction", "log"))
        name, direction, log = metric.get("name"), metric.get("direction"), metric.get("log", "")
        if not isinstance(name, str) or not _METRIC.fullmatch(name):
            self.wrong("metric.name", name, "give what the program reports, such as accuracy")
        if direction not in ("minimize", "maximize"):
            self.wrong("metric.direction", direction, "give minimize or maximize")
        if not isinstance(log, str):
            self.wrong("metric.log", log, "give a regular expression as a text")
            log = ""
        elif log:
            self.pattern(log)
        return str(name), direction == "maximize", log

    def pattern(self, log: str) -> None:
        try:
            groups = re.compile(log)
        except re.error as error:
            self.wrong("metric.log", log, f"it is no regular expression: {error}")
            return
        if "value" not in groups.groupindex and groups.groups != 1:
            self.wrong("metric.log", log, "give one group for the value, or groups (?P<value>...) and (?P<step>...)")

    def budget(self, value: Any) -> Tuple[Optional[int], Optional[float], Optional[float]]:
        budget = self.known("budget", value, ("trials", "hours", "cost"))
        if not budget:
            self.wrong("budget", value, "say when the search ends: trials, hours or cost, or several of them")
        return (self.whole("budget.trials", budget.get("trials"), 1, MOST_TRIALS),
                self.positive("budget.hours", budget.get("hours")), self.positive("budget.cost", budget.get("cost")))

    def algorithm(self, value: Any, space: Space) -> Tuple[str, int]:
        values = {"name": value} if isinstance(value, str) else self.known("algorithm", value, ("name", "seed"))
        name, seed = values.get("name", "tpe"), values.get("seed", 0)
        if name not in ALGORITHMS:
            self.wrong("algorithm", name, "give one of " + ", ".join(ALGORITHMS))
        elif name == "grid" and space.parameters and space.grid() is None:
            self.wrong("algorithm", name, "a grid has at most 10000 points: give each uniform range a step, or choices")
        return str(name), self.whole("algorithm.seed", seed, 0, 2**32 - 1) or 0

    def early_stopping(self, value: Any, log: str) -> Tuple[Optional[str], float, float]:
        if value is None or value is False:
            return None, 1, 3
        values = self.known("early_stopping", value, ("progress", "first", "factor"))
        progress = self.progress("early_stopping", values, log)
        factor = self.positive("early_stopping.factor", values.get("factor", 3)) or 3
        if factor < 1.5:
            self.wrong("early_stopping.factor", factor, "give at least 1.5")
        return progress, self.positive("early_stopping.first", values.get("first", 1)) or 1, factor

    def progress(self, field: str, values: Dict[str, Any], log: str) -> str:
        progress = values.get("progress", "reported" if log else "epochs")
        if progress not in PROGRESS:
            self.wrong(f"{field}.progress", progress, "give one of " + ", ".join(PROGRESS))
        elif log and progress != "reported":
            self.wrong(f"{field}.progress", progress, "with metric.log it is reported: the pattern's (?P<step>...)")
        elif log and "?P<step>" not in log:
            self.wrong("metric.log", log, f"{field} needs to know how far a trial is: a group (?P<step>...)")
        return str(progress)

    def population(self, value: Any, trials: Optional[int], log: str) -> Optional[Population]:
        if value is None or value is False:
            return None
        values = self.known("population", value, ("size", "progress", "every", "quantile", "change"))
        if isinstance(value, dict) and "size" not in value:
            self.wrong("population.size", None, "say how many trials begin without a parent, such as 8")
        size = self.whole("population.size", values.get("size"), 2, MOST_TRIALS) or 2
        if trials is not None and trials < size:
            self.wrong("budget.trials", trials, f"forks count, too: give more than population.size, which is {size}")
        quantile = self.positive("population.quantile", values.get("quantile", 0.25)) or 0.25
        if quantile > 0.5:
            self.wrong("population.quantile", quantile, "give at most 0.5")
        change = self.positive("population.change", values.get("change", 1.2)) or 1.2
        if not 1 < change <= 2:
            self.wrong("population.change", change, "give more than 1, and at most 2")
        return Population(size, self.progress("population", values, log),
                          self.positive("population.every", values.get("every", 1)) or 1, quantile, change)

    def warm_start(self, value: Any, name: str) -> Tuple[str, ...]:
        names = [value] if isinstance(value, str) else [] if value is None else value
        if not isinstance(names, list) or len(names) > MOST_EARLIER or name in names or \
                not all(isinstance(one, str) and _NAME.fullmatch(one) for one in names):
            self.wrong("warm_start", value, f"give names of at most {MOST_EARLIER} earlier searches: [digits-1]")
            return ()
        return tuple(names)

    def trials_job(self, value: Any) -> Dict[str, Any]:
        job = self.job("job", value, JOB_FIELDS)
        code = job.get("code")
        if isinstance(code, dict) and (set(code) != {"digest", "size"} or not isinstance(code["digest"], str) or
                                       not isinstance(code["size"], int)):
            self.wrong("job.code", code, "give folder instead: this is what becomes of it, by its digest and size")
        if code is not None and "folder" in job:
            self.wrong("job.code", code, "job.folder is given, too: leave out one of them")
        return job

    def job(self, field: str, value: Any, fields: Dict[str, type]) -> Dict[str, Any]:
        job = dict(self.known(field, value, tuple(fields)))
        for name, wanted in fields.items():
            if name not in job:
                continue
            given = job[name]
            fits = isinstance(given, (int, float) if wanted is float else wanted)
            if not fits or (wanted in (int, float) and isinstance(given, bool)):
                self.wrong(f"{field}.{name}", given, f"give a {wanted.__name__}")
        for name in ("env", "labels", "node_selector"):
            if isinstance(job.get(name), dict) and not all(isinstance(one, str) for one in job[name].values()):
                self.wrong(f"{field}.{name}", job[name], "values are texts: put numbers and the like into quotes")
        return job

    def whole(self, field: str, value: Any, low: int, high: int) -> Optional[int]:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.wrong(field, value, f"give a whole number from {low} to {high}")
            return None
        return value

    def positive(self, field: str, value: Any) -> Optional[float]:
        if value is None:
            return None
        found = number(value)
        if found is None or found <= 0:
            self.wrong(field, value, "give a number above 0")
            return None
        return found


def number(value: Any) -> Optional[float]:
    """A finite number; YAML takes "1e-4" for a text, and people do not."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return value
