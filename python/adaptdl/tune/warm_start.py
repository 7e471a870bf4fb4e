"""Trials of earlier searches, by which the sampler of a new one knows something from the start."""

from typing import List

from adaptdl.client import Client
from adaptdl.tune.record import Record
from adaptdl.tune.search_file import Search, SearchFileError
from adaptdl.tune.trials import Trial, Trials


def trials_of_earlier(client: Client, search: Search) -> List[Trial]:
    """Those that have ended and are points of the search's own space.

    SearchFileError: there is no such search, or it has measured something else.
    """
    found: List[Trial] = []
    for name in search.warm_start:
        try:
            earlier = Record(client, name).search()
        except SearchFileError as error:
            raise SearchFileError(f"warm_start is '{name}': {error}") from None
        if (earlier.metric, earlier.maximize) != (search.metric, search.maximize):
            raise SearchFileError(
                f"warm_start is '{name}': its metric is {earlier.metric}, to be {_direction(earlier)}, and not "
                f"{search.metric}, to be {_direction(search)}: leave it out")
        found += [trial for trial in Trials(client, earlier).load()
                  if trial.job.finished and search.space.holds(trial.params)]
    return found


def _direction(search: Search) -> str:
    return "maximized" if search.maximize else "minimized"
