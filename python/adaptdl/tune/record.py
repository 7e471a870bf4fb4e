"""That a search is there, and what its file said: a job of the search's name.

It runs the search's tuner (tuner_job.py), or is held while the tuner is elsewhere. Its end is the search's: whoever
cancels it stops the search, wherever its tuner is.
"""

import json
from typing import Any, Dict, List, Optional

from adaptdl.client import AlreadyExistsError, Client, Job, JobNotFoundError, WrongStateError
from adaptdl.tune.search_file import Search, SearchFileError, parse
from adaptdl.tune.trials import SEARCH_LABEL, TRIAL_LABEL, code_of, environment_of
from adaptdl.tune.tuner_job import Place, job_of

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

    def keep(self, search: Search, place: Optional[Place] = None, held: bool = False) -> None:
        """Notes that the search goes on, by a tuner that is a job there; None, or `held`: by one elsewhere. What is held
        there may become such a job later.

        SearchFileError: another search has its name, or a job that is no search.
        """
        known = self._search()
        if known is not None:
            for field in _ESSENTIAL:
                if known.document.get(field) != search.document.get(field):
                    raise SearchFileError(
                        f"name is '{search.name}': there is a search of this name with other {field}: give another "
                        "name, or delete it (python3 -m adaptdl.tune delete)")
            if known.document == search.document and self._goes_on(place, held):
                return
            self.end()
            self._client.delete(self._name)
        try:
            self._submit(search, place, held)
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

    def end(self) -> None:
        """The same, and a tuner that is its job is gone."""
        self.close()
        self._client.wait(self._name, timeout=_PATIENCE)

    def is_closed(self) -> bool:
        """Whether the search was stopped, or its record deleted."""
        try:
            job = self._client.get(self._name)
        except JobNotFoundError:
            return True
        return _is_closed(job)

    def delete(self) -> None:
        """Removes a search that was closed."""
        self._client.wait(self._name, timeout=_PATIENCE)
        self._client.delete(self._name)

    def _goes_on(self, place: Optional[Place], held: bool) -> bool:
        """Whether the record may stay as it is. One whose tuner is a job is as good for another tuner beside it."""
        job = self._client.get(self._name)
        if _is_closed(job):
            return False
        if place is None or held:
            return True
        if not job.raw.spec.template.api_access:
            return False
        if job.raw.spec.suspend:
            self._client.resume(self._name)
        return True

    def _submit(self, search: Search, place: Optional[Place], held: bool) -> None:
        # Pods have to have an image, also those that never run.
        options: Dict[str, Any] = {"command": ["true"], "suspend": True, "cpus": 0.001, "env": {},
                                   "image": search.job.get("image", "")}
        if place is not None:
            options = {**job_of(search, self._client.namespace, place), "suspend": held}
        options["env"] = {**options["env"], SEARCH_VARIABLE: json.dumps(search.document)}
        # Named here as well, so that it is kept while no trial names it.
        self._client.submit(name=self._name, labels={SEARCH_LABEL: self._name}, max_replicas=1, code=code_of(search),
                            **options)

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


def _is_closed(job: Job) -> bool:
    return job.finished or bool(job.raw.status.cancel_requested)
