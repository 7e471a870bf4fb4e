"""That a search is there, and what its file said: a job of the search's name that is held, and so never runs.

Its end is the search's: whoever cancels it stops the search, wherever its tuner is.
"""

import json
from typing import List, Optional

from adaptdl.client import AlreadyExistsError, Client, Job, JobNotFoundError, WrongStateError
from adaptdl.tune.search_file import Search, SearchFileError, parse
from adaptdl.tune.trials import SEARCH_LABEL, TRIAL_LABEL, environment_of

SEARCH_VARIABLE = "ADAPTDL_TUNE_SEARCH"
# What makes the results of one search those of another.
_ESSENTIAL = ("parameters", "metric")
_PATIENCE = 60


class Record:
    """The record of one search."""

    def __init__(self, client: Client, name: str) -> None:
        self._client, self._name = client, name

    def search(self) -> Search:
        """As it was kept. SearchFileError: there is no search of this name."""
        found = self._search()
        if found is None:
            raise SearchFileError(
                f"there is no search '{self._name}' here: python3 -m adaptdl.tune ls shows those that there are")
        return found

    def keep(self, search: Search) -> None:
        """Notes that the search goes on. SearchFileError: another one has its name, or a job that is no search."""
        known = self._search()
        if known is not None:
            for field in _ESSENTIAL:
                if known.document.get(field) != search.document.get(field):
                    raise SearchFileError(
                        f"name is '{search.name}': there is a search of this name with other {field}: give another "
                        "name, or delete it (python3 -m adaptdl.tune delete)")
            if known.document == search.document and not self.is_closed():
                return
            self.close()
            self._client.wait(self._name, timeout=_PATIENCE)
            self._client.delete(self._name)
        try:
            self._client.submit(["true"], name=self._name, suspend=True, max_replicas=1, cpus=0.001,
                                labels={SEARCH_LABEL: self._name}, env={SEARCH_VARIABLE: json.dumps(search.document)})
        except AlreadyExistsError:
            # Another tuner was a moment faster. It may have meant another search.
            again = self._search()
            if again is None or any(again.document.get(one) != search.document.get(one) for one in _ESSENTIAL):
                raise SearchFileError(f"name is '{search.name}': somebody starts another search of this name; give "
                                      "another name") from None

    def close(self) -> None:
        """Ends the search: no tuner starts trials for it any more."""
        try:
            self._client.cancel(self._name)
        except WrongStateError:
            pass

    def is_closed(self) -> bool:
        """Whether the search was stopped, or its record deleted."""
        try:
            job = self._client.get(self._name)
        except JobNotFoundError:
            return True
        return job.finished or bool(job.raw.status.cancel_requested)

    def delete(self) -> None:
        """Removes a search that was closed."""
        self._client.wait(self._name, timeout=_PATIENCE)
        self._client.delete(self._name)

    def _search(self) -> Optional[Search]:
        try:
            job = self._client.get(self._name)
        except JobNotFoundError:
            return None
        if not is_record(job):
            raise SearchFileError(f"name is '{self._name}': there is a job of this name, which is no search; give "
                                  "another name")
        return parse(json.loads(environment_of(job)[SEARCH_VARIABLE]))


def is_record(job: Job) -> bool:
    """Whether the job stands for a search."""
    return SEARCH_LABEL in job.labels and TRIAL_LABEL not in job.labels and SEARCH_VARIABLE in environment_of(job)


def list_records(client: Client) -> List[Job]:
    """Those of the client's namespace."""
    return [job for job in client.list() if is_record(job)]
