"""How long a search has taken, and about how long and how much money the rest of it takes.

The rest is played as for the choice of how many run at once (concurrency.py); what the trials so far have taken makes seconds
of it.
"""

import dataclasses
import datetime
from typing import List, Optional, Sequence

from adaptdl.client import Client, ClientError, Node
from adaptdl.tune.concurrency import choose, expected_time
from adaptdl.tune.outlook import MOST_PLAYED, outlook_of, part_done, trials_left, whole_progress
from adaptdl.tune.search_file import Search
from adaptdl.tune.trials import Trial

# The play is done anew when a trial has ended, and after so many seconds; in between the clock runs.
_REPLAY = 15.0


@dataclasses.dataclass(frozen=True)
class Pace:
    """Of now, in seconds and in the currency of the node pools."""

    elapsed: float
    # None: nobody can tell yet. 0: the search is over.
    left: Optional[float]
    # None: no node had a price.
    spent: Optional[float]

    @property
    def cost_left(self) -> Optional[float]:
        """If the rest costs as much an hour as what was so far. None: unknown."""
        if self.left is None or not self.spent or self.elapsed <= 0:
            return None
        return self.spent / self.elapsed * self.left

    def text(self) -> str:
        """For people: "12m elapsed, about 30m left; cost 3.20 so far, about 8.00 to come"."""
        time = f"{duration(self.elapsed)} elapsed"
        if self.left is None:
            time += ", time left not known yet"
        elif self.left > 0:
            time += f", about {duration(self.left)} left"
        if not self.spent:
            return time
        left = self.cost_left
        return f"{time}; cost {self.spent:.2f} so far" + (f", about {left:.2f} to come" if left else "")


def pace_of(search: Search, trials: List[Trial], nodes: List[Node], now: datetime.datetime,
            over: bool = False) -> Optional[Pace]:
    """`over`: no trial is started any more. None: there is no trial yet."""
    begins = [trial.job.submit_time for trial in trials if trial.job.submit_time is not None]
    if not begins:
        return None
    ends = [trial.job.completion_time for trial in trials]
    over = (over or trials_left(search, trials) == 0) and None not in ends
    until = max(end for end in ends if end is not None) if over else now
    elapsed = max(0.0, (until - min(begins)).total_seconds())
    costs = [trial.job.raw.status.cost for trial in trials if trial.job.raw.status.HasField("cost")]
    spent = sum(costs) if costs else None
    left = 0.0 if over else _left(search, trials, nodes, now, elapsed, spent)
    return Pace(elapsed, left, spent)


class PaceKeeper:
    """The pace of a search that goes on, by a client that tells the nodes. Not thread-safe."""

    def __init__(self, client: Client, search: Search) -> None:
        self._client, self._search = client, search
        self._pace: Optional[Pace] = None
        self._played_with = -1
        self._played_at = datetime.datetime.min.replace(tzinfo=datetime.timezone.utc)

    def text(self, trials: List[Trial]) -> str:
        """For people. Empty: there is no trial yet, or nobody can say."""
        now = datetime.datetime.now(datetime.timezone.utc)
        ended = sum(trial.job.finished for trial in trials)
        since = (now - self._played_at).total_seconds()
        if self._pace is None or ended != self._played_with or not 0 <= since < _REPLAY:
            try:
                self._pace = pace_of(self._search, trials, self._client.nodes(), now)
            except ClientError:
                return ""
            self._played_with, self._played_at, since = ended, now, 0.0
        if self._pace is None:
            return ""
        pace = self._pace
        if pace.left != 0:
            left = None if pace.left is None else max(1.0, pace.left - since)
            pace = dataclasses.replace(pace, elapsed=pace.elapsed + since, left=left)
        return pace.text()


def duration(seconds: float) -> str:
    """In the two largest units: "45s", "12m 5s", "3h 10m", "2d 4h"."""
    whole = int(round(seconds))
    units = [("d", 86400), ("h", 3600), ("m", 60), ("s", 1)]
    for (name, size), (small, small_size) in zip(units, units[1:]):
        if whole >= size:
            rest = whole % size // small_size
            return f"{whole // size}{name}" + (f" {rest}{small}" if rest else "")
    return f"{whole}s"


def _left(search: Search, trials: List[Trial], nodes: List[Node], now: datetime.datetime, elapsed: float,
          spent: Optional[float]) -> Optional[float]:
    """What is used up first: the trials, the time, or the money."""
    bounds: List[float] = []
    if search.hours is not None:
        bounds.append(max(0.0, 3600 * search.hours - elapsed))
    if search.cost is not None and spent:
        bounds.append(max(0.0, (search.cost - spent) * elapsed / spent))
    if trials_left(search, trials) is not None:
        played = _played(search, trials, nodes, now)
        if played is not None:
            bounds.append(played)
    return min(bounds, default=None)


def _played(search: Search, trials: List[Trial], nodes: List[Node], now: datetime.datetime) -> Optional[float]:
    outlook = outlook_of(search, trials, nodes)
    unit = _seconds_of_a_trial(trials, outlook.speedup, now)
    if unit is None:
        return None
    at_once = search.at_once or choose(outlook).at_once
    # What is more than is played goes on like that.
    return unit * expected_time(outlook, at_once) * max(1.0, outlook.trials / MOST_PLAYED)


def _seconds_of_a_trial(trials: Sequence[Trial], speedup, now: datetime.datetime) -> Optional[float]:
    """On one replica, from start to end, with what it takes to start. None: nothing was done yet."""
    whole = whole_progress(trials)
    seconds = done = 0.0
    for trial in trials:
        part = part_done(trial, whole)
        if part <= 0 or trial.job.start_time is None:
            continue
        taken = ((trial.job.completion_time or now) - trial.job.start_time).total_seconds()
        seconds += max(0.0, taken) * speedup(max(1.0, _replicas(trial)))
        done += part
    return seconds / done if done > 0 else None


def _replicas(trial: Trial) -> float:
    """Of a program that prints what it had last stands for all of its time."""
    if trial.replicas is not None:
        return trial.replicas
    return max(len(trial.job.allocation), sum(one.group == trial.job.group for one in trial.job.replicas))
