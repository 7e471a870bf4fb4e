"""Searches for good hyper-parameters, whose trials share a cluster as elastic jobs.

    from adaptdl.client import Client
    from adaptdl.tune import load, Tuner, best_of

    search = load("search.yaml")
    with Client() as client:
        trials = Tuner(client, search).run()
    print(best_of(search, trials).params)

`adaptdl.tune.params()` is what a trial's program asks for its values. Only that is here before it is asked for: the rest
needs Optuna and a cluster, which a trial need not have.
"""

from typing import Any

from adaptdl.trial import get_params as params

_FROM = {"load": "search_file", "parse": "search_file", "Search": "search_file", "SearchFileError": "search_file",
         "Tuner": "tuner", "SearchError": "tuner", "best_of": "tuner", "Trial": "trials", "make_study": "study"}
__all__ = ["params", *_FROM]  # noqa: PLE0604


def __getattr__(name: str) -> Any:
    if name not in _FROM:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib
    return getattr(importlib.import_module(f"adaptdl.tune.{_FROM[name]}"), name)
