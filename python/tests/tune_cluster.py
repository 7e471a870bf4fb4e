"""A search, and a cluster in memory for its tuner."""

import datetime
import json
import types

from adaptdl.client import AlreadyExistsError, ConnectionFailedError, JobNotFoundError
from adaptdl.client import _types
from adaptdl.tune import search_file, trials

FILE = {
    "name": "digits",
    "command": ["train", "--lr={lr}", "--beta={beta}", "{other}"],
    "parameters": {
        "lr": {"log_uniform": ["1e-4", 0.1]},
        "optimizer": {"choice": ["sgd", "adam"]},
        "beta": {"uniform": [0.5, 0.9], "when": {"optimizer": "adam"}},
        "layers": {"int": [1, 4]},
    },
    "metric": {"name": "accuracy", "direction": "maximize"},
    "budget": {"trials": 6},
}


def search_of(**changes):
    return search_file.parse({**FILE, **changes})


def node(cpu_millis, taken, phase="READY"):
    return _types.Node("n", phase, _types.Resources(cpu_millis, 2**34, 0), _types.Resources(taken, 0, 0), "", {}, None)


class Cluster:
    """The client of a cluster in memory: each trial runs for some looks, and then ends as `program` says. A fork goes on from
    where its parent is, and has had as many looks."""

    def __init__(self, program, looks=2):
        self.program, self.looks = program, looks
        self.jobs, self.most_at_once, self.is_away = {}, 0, False

    def submit(self, command, *, name, labels, env, suspend=False, start_from="", **options):
        if name in self.jobs:
            raise AlreadyExistsError(name, "ALREADY_EXISTS")
        template = types.SimpleNamespace(env=[types.SimpleNamespace(name=key, value=value) for key, value in env.items()])
        template.resources = types.SimpleNamespace(cpu_millis=1000, memory_bytes=0, gpus=0)
        status = types.SimpleNamespace(progress=types.SimpleNamespace(metrics=[], fraction=0.0), cost=0.0, hints=None,
                                       cancel_requested=False, HasField=lambda field: False)
        self.jobs[name] = types.SimpleNamespace(
            name=name, namespace="default", uid=f"{name}-{len(self.jobs)}", labels=labels, command=command,
            phase="PENDING" if suspend else "RUNNING", message="", allocation=["n"], rescales=0, restarts=0, age=0,
            submit_time=datetime.datetime.now(datetime.timezone.utc), start_time=None if suspend else 1,
            completion_time=None, finished=False, env=env, values=[], start_from=start_from, options=options,
            inherited=list(self.jobs[start_from].values) if start_from else [],
            raw=types.SimpleNamespace(spec=types.SimpleNamespace(template=template, max_replicas=options.get("max_replicas", 0)), status=status))
        self.most_at_once = max(self.most_at_once, sum(not job.finished for job in self.trials()))

    def update(self, name, max_replicas):
        self.get(name).raw.spec.max_replicas = max_replicas

    def nodes(self):
        taken = sum(1000 for job in self.trials() if not job.finished)
        return [node(4000, taken)]

    def trials(self):
        return [job for job in self.jobs.values() if trials.TRIAL_LABEL in job.labels]

    def list(self, labels=None):
        if self.is_away:
            self.is_away = False
            raise ConnectionFailedError("away", "UNAVAILABLE")
        for job in self.trials():
            if not job.finished:
                job.age += 1
                phase, values = self.program(json.loads(job.env[trials.PARAMS_VARIABLE]), job.age)
                past = job.inherited
                job.values = past + [value + (past[-1] if past else 0) for value in values]
                if len(past) + job.age >= self.looks:
                    self.end(job, phase)
        return [job for job in self.jobs.values() if (labels or {}).items() <= job.labels.items()]

    def end(self, job, phase):
        job.phase, job.finished = phase, True
        job.completion_time = datetime.datetime.now(datetime.timezone.utc)

    def get(self, name):
        if name not in self.jobs:
            raise JobNotFoundError(name, "NOT_FOUND")
        return self.jobs[name]

    def wait(self, name, timeout):
        return self.get(name)

    def delete(self, name):
        del self.jobs[name]

    def cancel(self, name):
        if not self.get(name).finished:
            self.end(self.get(name), "CANCELLED")

    def history(self, name):
        job, now = self.jobs[name], datetime.datetime.now(datetime.timezone.utc)
        return [types.SimpleNamespace(metrics={"accuracy": types.SimpleNamespace(value=value, step=i + 1)}, epoch=i + 1,
                                      scale_invariant_steps=i + 1, begin=now, end=now, replicas=1)
                for i, value in enumerate(job.values)][len(job.inherited):]


def good(params, age):
    return "SUCCEEDED", [params["lr"] * age]
