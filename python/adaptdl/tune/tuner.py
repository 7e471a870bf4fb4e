"""The loop of a search: looks at the trials, stops those that are not worth going on, and starts others, or forks.

It keeps nothing that it could not find again: killed at any point, it is followed by another that goes on.
"""

import datetime
import math
import random
import threading
import time
from typing import Callable, List, Optional

from adaptdl.client import Client, ConnectionFailedError, InvalidRequestError, JobNotFoundError, LimitReachedError
from adaptdl.tune.concurrency import choose, share_of
from adaptdl.tune.outlook import outlook_of
from adaptdl.tune.population import FORK_OF, INSTEAD_OF, Standings, explore
from adaptdl.tune.record import Record
from adaptdl.tune.rungs import Rungs
from adaptdl.tune.search_file import Search, SearchFileError
from adaptdl.tune.study import propose
from adaptdl.tune.trials import Plan, Trial, Trials
from adaptdl.tune.warm_start import trials_of_earlier

# How many trials run at once is decided anew when one has ended, and after so many seconds.
_RECONSIDER = 2.0
# So many trials that end without a result, and none with one, are no bad luck.
HOPELESS = 3


class SearchError(RuntimeError):
    """The search can't go on; the text says why, and what to do."""


class Tuner:
    """Runs one search to its end."""

    def __init__(self, client: Client, search: Search, interval: float = 1.0,
                 show: Callable[[List[Trial]], None] = lambda trials: None, is_record: bool = False) -> None:
        """`is_record`: this is what the search's own job runs, whose end is the search's."""
        self._search, self._interval, self._show = search, interval, show
        self._client, self._is_record = client, is_record
        self._record, self._trials = Record(client, search.name), Trials(client, search)
        # How many trials run at once, and how many replicas each of them has at most.
        self._at_once, self._share = 1, 1
        self._chosen_at, self._chosen_with = 0.0, -1
        # Of other searches. None: nobody has asked for them yet.
        self._earlier: Optional[List[Trial]] = None
        self._rungs = None
        if search.progress is not None:
            self._rungs = Rungs(search.first_rung, search.factor, search.maximize)
        self._left = threading.Event()

    def leave(self) -> None:
        """Makes run() return soon. Trials go on, for a tuner that comes later."""
        self._left.set()

    def run(self) -> List[Trial]:
        """The trials, when the budget is spent, or the search was stopped, and all have ended.

        SearchError: the search can't get anywhere. What runs of it is stopped then.
        """
        if not self._is_record:
            self._record.keep(self._search)
        # What is wrong with a trial's job nobody mends while the tuner is started over and over.
        hopeless = (SearchError, SearchFileError, InvalidRequestError) if self._is_record else (SearchError,)
        try:
            trials = self._loop()
        except hopeless:
            self._stop_all()
            self._record.close()
            raise
        if self._left.is_set():
            # Whoever has ended a search by its job means its trials, too.
            if self._is_record and self._record.is_closed():
                self._stop_all()
        elif not self._is_record:
            self._record.close()
        return trials

    def _stop_all(self) -> None:
        for trial in self._trials.load():
            self._trials.stop(trial)

    def _loop(self) -> List[Trial]:
        while True:
            try:
                trials = self._trials.load()
                self._show(trials)
                if self._step(trials):
                    return trials
            except (ConnectionFailedError, JobNotFoundError):
                # A supervisor that is away comes back, and the trials go on meanwhile; a trial that was deleted just now
                # is not there at the next look.
                pass
            if self._left.wait(self._interval):
                return self._trials.load()

    def _step(self, trials: List[Trial]) -> bool:
        """Does what is to be done now. Whether the search is over."""
        running = [trial for trial in trials if not trial.job.finished]
        if self._is_spent(trials) or self._record.is_closed():
            for trial in running:
                self._trials.stop(trial)
            return not running
        self._stop_early(trials, running)
        _check_hope(self._search, trials)
        self._choose(trials)
        self._trials.limit(running, self._share)
        free = self._at_once - len(running)
        number = trials[-1].number + 1 if trials else 1
        while free > 0 and number <= (self._search.trials or math.inf):
            plan = self._plan(trials, number)
            if plan is None:  # every point of the space has been tried, or every place of the population is taken
                return not running
            try:
                if not self._trials.start(number, plan, most=self._share):
                    return False  # another tuner works on this search, too: look again
            except LimitReachedError:
                if not running:
                    raise
                return False  # as many as the namespace may have; there is room when one of them has ended
            # What runs now counts for the next proposal.
            trials = self._trials.load()
            running = [trial for trial in trials if not trial.job.finished]
            number, free = number + 1, free - 1
        return not running

    def _plan(self, trials: List[Trial], number: int) -> Optional[Plan]:
        search = self._search
        if search.population is not None:
            standings = Standings(search.population, search.maximize, trials)
            for place in standings.vacant():
                parent = standings.parent_of(place)
                if parent is not None:
                    draw = random.Random(f"{search.seed}-{number}")
                    return Plan(explore(search.space, parent.params, search.population.change, draw),
                                {FORK_OF: parent.number, INSTEAD_OF: place.number}, parent.job.name)
            if sum(FORK_OF not in trial.sampler_state for trial in trials) >= search.population.size:
                return None
        if self._earlier is None:
            self._earlier = trials_of_earlier(self._client, search)
        return propose(search, trials, number, self._earlier)

    def _choose(self, trials: List[Trial]) -> None:
        ended, now = sum(trial.job.finished for trial in trials), time.monotonic()
        if ended == self._chosen_with and now - self._chosen_at <= _RECONSIDER:
            return
        outlook = outlook_of(self._search, trials, self._client.nodes())
        self._at_once = self._search.at_once or choose(outlook).at_once
        self._share = share_of(outlook, min(self._at_once, outlook.trials))
        self._chosen_with, self._chosen_at = ended, now

    def _stop_early(self, trials: List[Trial], running: List[Trial]) -> None:
        if self._search.population is not None:
            standings = Standings(self._search.population, self._search.maximize, trials)
            # Nobody makes room for a fork that there can't be.
            left = (self._search.trials or math.inf) - len(trials) - len(standings.vacant())
            for trial in standings.fallen():
                if left >= 1:
                    self._trials.stop(trial)
                    left -= 1
        if self._rungs is None:
            return
        curves = {trial.number: trial.curve for trial in trials}
        reasons = self._rungs.stopped(curves, [trial.number for trial in running])
        for trial in running:
            if trial.number in reasons and not trial.job.raw.status.cancel_requested:
                self._trials.stop(trial)

    def _is_spent(self, trials: List[Trial]) -> bool:
        """Whether time or money are used up; the number of trials is no reason to stop any."""
        search = self._search
        begin = trials[0].job.submit_time if trials else None
        if search.hours is not None and begin is not None:
            if datetime.datetime.now(datetime.timezone.utc) - begin >= datetime.timedelta(hours=search.hours):
                return True
        return search.cost is not None and sum(cost_of(trial) for trial in trials) >= search.cost


def cost_of(trial: Trial) -> float:
    """What its nodes have cost so far."""
    return float(trial.job.raw.status.cost)


def best_of(search: Search, trials: List[Trial]) -> Optional[Trial]:
    """The best of those that ran to their end."""
    good = [trial for trial in trials if trial.is_good and trial.value is not None]
    if not good:
        return None
    return max(good, key=lambda trial: trial.value if search.maximize else -trial.value)  # type: ignore[operator]


def _check_hope(search: Search, trials: List[Trial]) -> None:
    ended = [trial for trial in trials if trial.job.finished]
    if len(ended) < HOPELESS or any(trial.status in ("done", "stopped early") for trial in ended):
        return
    last = ended[-1]
    job = f"{last.job.namespace}/{last.job.name}"
    if last.status == "silent":
        how = f'metric.log finds "{search.log}" nowhere in its output' if search.log else \
            f"it never called adaptdl.report({search.metric}=...)"
        problem = f"has told its {search.metric}: {how}"
    elif last.status == "not a number":
        problem = f"has a number as its {search.metric}: narrow the parameters"
    else:
        problem = f"ran to its end; of the last one: {last.job.message or last.job.phase}"
    raise SearchError(f"none of the first {len(ended)} trials {problem}; see adaptdl logs {job}")
