"""Trials as a table, for people; once, or over and over in place on a terminal."""

import math
import shutil
import sys
from typing import Any, Callable, Dict, List, Optional, Sequence, TextIO

from adaptdl.tune.population import FORK_OF
from adaptdl.tune.search_file import Search
from adaptdl.tune.trials import Trial
from adaptdl.tune.tuner import best_of, cost_of


def table(search: Search, trials: List[Trial], pace: str = "", most: Optional[int] = None) -> str:
    """One line for each trial, and one or two about all of them. `most`: so many trials, the others are counted."""
    best = best_of(search, trials)
    chosen = trials if most is None else _chosen(trials, best, most)
    rows: List[Sequence[str]] = [("TRIAL", "STATUS", "REPLICAS", "RE-SCALES", "PROGRESS", search.metric.upper(),
                                  "PARAMETERS")]
    for trial in chosen:
        mark = "*" if best is not None and trial.number == best.number else ""
        progress = f"{trial.curve[-1].progress:g}" if trial.curve else ""
        rows.append((f"{trial.number}{mark}", trial.status, str(len(trial.job.allocation)) if not trial.job.finished else "",
                     str(trial.job.rescales + trial.job.restarts), progress, shown(trial.value), parameters(trial)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    if len(chosen) < len(trials):
        lines.append(f"and {len(trials) - len(chosen)} more")
    return "\n".join([*lines, summary(search, trials), *([pace] if pace else [])]) + "\n"


def _chosen(trials: List[Trial], best: Optional[Trial], most: int) -> List[Trial]:
    """What people want to see where there is little room: what runs, the best one, and what ended last."""
    def weight(trial: Trial) -> Any:
        return (best is not None and trial.number == best.number, not trial.job.finished, trial.number)

    kept = sorted(trials, key=weight, reverse=True)[:max(1, most)]
    return sorted(kept, key=lambda trial: trial.number)


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
    """As people read them, with the trial that this one is a fork of."""
    words = [f"{name}={shown(value)}" for name, value in trial.params.items()]
    if FORK_OF in trial.sampler_state:
        words.append(f"(fork of {shown(trial.sampler_state[FORK_OF])})")
    return " ".join(words)


def shown(value: Any) -> str:
    """A value in few letters; nothing that a terminal could act on."""
    if value is None:
        return ""
    if isinstance(value, float):
        return "not a number" if math.isnan(value) else f"{value:.4g}"
    return "".join(letter if letter.isprintable() else "?" for letter in str(value))


class LiveTable:
    """Shows the table anew when it changes: in place of the last one on a terminal, else only what is new."""

    def __init__(self, search: Search, output: Optional[TextIO] = None,
                 pace: Callable[[List[Trial]], str] = lambda trials: "") -> None:
        self._search, self._output, self._pace = search, output or sys.stdout, pace
        self._last = ""
        self._said: Dict[int, str] = {}

    def show(self, trials: List[Trial]) -> None:
        """The trials as they are now."""
        if self._output.isatty():
            self._show_in_place(trials)
        else:
            self._say_changes(trials)
        self._output.flush()

    def _show_in_place(self, trials: List[Trial]) -> None:
        columns, rows = shutil.get_terminal_size()
        # Header, what is left out, both sums and the cursor's own line. A line that wraps would be two on the way back.
        text = table(self._search, trials, self._pace(trials), rows - 5)
        text = "".join(line[:columns - 1] + "\n" for line in text.splitlines())
        if text != self._last:
            lines = self._last.count("\n")
            self._output.write((f"\x1b[{lines}F\x1b[J" if lines else "") + text)
        self._last = text

    def _say_changes(self, trials: List[Trial]) -> None:
        for trial in trials:
            if self._said.get(trial.number) != trial.status:
                self._said[trial.number] = trial.status
                result = f", {self._search.metric} {shown(trial.value)}" if trial.job.finished else ""
                self._output.write(f"trial {trial.number} is {trial.status}{result}: {parameters(trial)}\n")
