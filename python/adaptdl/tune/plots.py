"""A search as pictures: SVG, written by hand, so that nothing is needed to draw it."""

import html
import math
from typing import Any, Callable, List, Optional, Sequence, Tuple

from adaptdl.tune.search_file import Search
from adaptdl.tune.space import Parameter
from adaptdl.tune.table import parameters, shown
from adaptdl.tune.trials import Trial
from adaptdl.tune.tuner import best_of

WIDTH, HEIGHT, MARGIN = 900, 480, 60
# Of the best trial, of others, and of those that were stopped or have failed.
_BEST, _OTHER, _ENDED = "#c2410c", "#2563eb", "#94a3b8"


def curves(search: Search, trials: List[Trial]) -> str:
    """The metric over progress, a line for each trial."""
    points = [point for trial in trials for point in trial.curve if math.isfinite(point.value)]
    across = _scale([point.progress for point in points], MARGIN, WIDTH - MARGIN)
    up = _scale([point.value for point in points], HEIGHT - MARGIN, MARGIN)
    parts = _frame(f"{search.name}: {search.metric}")
    for value in _ends([point.value for point in points]):
        parts.append(_text(MARGIN - 6, up(value) + 4, shown(value), "end"))
    for value in _ends([point.progress for point in points]):
        parts.append(_text(across(value), HEIGHT - MARGIN + 18, shown(value)))
    parts.append(_text(WIDTH / 2, HEIGHT - 16, search.progress or ("reported" if search.log else "epochs")))
    for trial, colour in _coloured(search, trials):
        line = [(across(point.progress), up(point.value)) for point in trial.curve if math.isfinite(point.value)]
        parts.append(_line(trial, line, colour))
    return _document(parts)


def parallel(search: Search, trials: List[Trial]) -> str:
    """An axis for each parameter and one for the result, a line for each trial; a parameter it lacks is left out."""
    space = search.space.parameters
    results = [trial.value for trial in trials if trial.value is not None and math.isfinite(trial.value)]
    step = (WIDTH - 2 * MARGIN) / len(space)
    scales: List[Callable[[Any], float]] = [_parameter_scale(one) for one in space]
    result = _scale(results, HEIGHT - MARGIN, MARGIN)
    parts = _frame(f"{search.name}: parameters and {search.metric}", axes=False)
    for i, (name, ends, place) in enumerate([*((one.name, _parameter_ends(one), scale) for one, scale in
                                               zip(space, scales)), (search.metric, _ends(results), result)]):
        x = MARGIN + i * step
        parts.append(f'<path d="M{x:.1f} {MARGIN}V{HEIGHT - MARGIN}" stroke="#334155"/>')
        parts.append(_text(x, HEIGHT - MARGIN + 34, name))
        parts.extend(_text(x, place(end) + (16 if place(end) > HEIGHT / 2 else -6), shown(end)) for end in ends)
    for trial, colour in _coloured(search, trials):
        line = [(MARGIN + i * step, scales[i](trial.params[one.name])) for i, one in enumerate(space)
                if one.name in trial.params]
        if trial.value is not None and math.isfinite(trial.value):
            line.append((MARGIN + len(space) * step, result(trial.value)))
        parts.append(_line(trial, line, colour))
    return _document(parts)


def _coloured(search: Search, trials: List[Trial]) -> List[Tuple[Trial, str]]:
    """With their colours, the best one last, so that it is on top."""
    best = best_of(search, trials)
    found = [(trial, _BEST if best is not None and trial.number == best.number else
              _OTHER if trial.is_good or not trial.job.finished else _ENDED) for trial in trials]
    return sorted(found, key=lambda pair: (pair[1] == _BEST, pair[1] == _OTHER))


def _scale(values: Sequence[Optional[float]], low_at: float, high_at: float) -> Callable[[Any], float]:
    """From the lowest value at `low_at` to the highest at `high_at`; in the middle where all are the same."""
    ends = _ends([value for value in values if value is not None])
    if len(ends) < 2:
        return lambda value: (low_at + high_at) / 2
    return lambda value: low_at + (value - ends[0]) / (ends[1] - ends[0]) * (high_at - low_at)


def _ends(values: Sequence[float]) -> List[float]:
    return sorted({min(values), max(values)}) if values else []


def _parameter_scale(one: Parameter) -> Callable[[Any], float]:
    bottom, top = HEIGHT - MARGIN, MARGIN
    if one.kind == "choice":
        kinds = [(value, isinstance(value, bool)) for value in one.choices]
        place = _scale(range(len(kinds)), bottom, top)
        return lambda value: place(kinds.index((value, isinstance(value, bool))))
    if one.kind == "log_uniform":
        logarithmic = _scale([math.log(one.low), math.log(one.high)], bottom, top)
        return lambda value: logarithmic(math.log(value))
    return _scale([one.low, one.high], bottom, top)


def _parameter_ends(one: Parameter) -> List[Any]:
    if one.kind != "choice":
        return _ends([one.low, one.high])
    return [one.choices[0], one.choices[-1]] if len(one.choices) > 1 else [one.choices[0]]


def _frame(title: str, axes: bool = True) -> List[str]:
    parts = [_text(WIDTH / 2, 28, title)]
    if axes:
        parts.append(f'<path d="M{MARGIN} {MARGIN}V{HEIGHT - MARGIN}H{WIDTH - MARGIN}" stroke="#334155" fill="none"/>')
    return parts


def _line(trial: Trial, points: List[Tuple[float, float]], colour: str) -> str:
    title = html.escape(f"trial {trial.number}: {trial.status}, {shown(trial.value)}; {parameters(trial)}")
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5"/>' for x, y in points)
    shape = f'<path d="M{path}" stroke="{colour}" stroke-width="1.5" fill="none"/>' if points else ""
    return f'<g fill="{colour}"><title>{title}</title>{shape}{dots}</g>'


def _text(x: float, y: float, text: str, anchor: str = "middle") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(text)}</text>'


def _document(parts: List[str]) -> str:
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="sans-serif" '
            f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")
