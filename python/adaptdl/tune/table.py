"""Trials as a table, for people; once, or over and over in place on a terminal."""

import math
import sys
from typing import Any, List, Optional, Sequence, TextIO

from adaptdl.tune.search_file import Search
from adaptdl.tune.trials import Trial
from adaptdl.tune.tuner import best_of, cost_of


def table(search: Search, trials: List[Trial]) -> str:
    """One line for each trial, and one about all of them."""
    best = best_of(search, trials)
    rows: List[Sequence[str]] = [("TRIAL", "STATUS", "REPLICAS", "RE-SCALES", "PROGRESS", search.metric.upper(),
                                  "PARAMETERS")]
    for trial in trials:
        mark = "*" if best is not None and trial.number == best.number else ""
        progress = f"{trial.curve[-1].progress:g}" if trial.curve else ""
        rows.append((f"{trial.number}{mark}", trial.status, str(len(trial.job.allocation)) if not trial.job.finished else "",
                     str(trial.job.rescales + trial.job.restarts), progress, shown(trial.value), parameters(trial)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "\n".join([*lines, summary(search, trials)]) + "\n"


def summary(search: Search, trials: List[Trial]) -> str:
    """How far the search is."""
    ended = sum(trial.job.finished for trial in trials)
    parts = [f"{ended} of {search.trials if search.trials is not None else len(trials)} trials have ended"]
    if search.cost is not None:
        parts.append(f"{sum(map(cost_of, trials)):.2f} of {search.cost:g} spent")
    best = best_of(search, trials)
    if best is not None:
        parts.append(f"best {search.metric} {shown(best.value)} of trial {best.number}: {parameters(best)}")
    return "; ".join(parts)


def parameters(trial: Trial) -> str:
    """As people read them."""
    return " ".join(f"{name}={shown(value)}" for name, value in trial.params.items())


def shown(value: Any) -> str:
    """A value in few letters; nothing that a terminal could act on."""
    if value is None:
        return ""
    if isinstance(value, float):
        return "not a number" if math.isnan(value) else f"{value:.4g}"
    return "".join(letter if letter.isprintable() else "?" for letter in str(value))


class LiveTable:
    """Shows the table anew when it changes: in place of the last one on a terminal, else only what is new."""

    def __init__(self, search: Search, output: Optional[TextIO] = None) -> None:
        self._search, self._output = search, output or sys.stdout
        self._last = ""
        self._said = {}  # type: dict[int, str]

    def show(self, trials: List[Trial]) -> None:
        """The trials as they are now."""
        text = table(self._search, trials)
        if self._output.isatty():
            if text != self._last:
                lines = self._last.count("\n")
                self._output.write((f"\x1b[{lines}F\x1b[J" if lines else "") + text)
        else:
            for trial in trials:
                if self._said.get(trial.number) != trial.status:
                    self._said[trial.number] = trial.status
                    result = f", {self._search.metric} {shown(trial.value)}" if trial.job.finished else ""
                    self._output.write(f"trial {trial.number} is {trial.status}{result}: {parameters(trial)}\n")
        self._last = text
        self._output.flush()
