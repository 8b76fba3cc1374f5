"""The figures of the params: their importances, their values side by side, one by one and two by two."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any
from warnings import catch_warnings

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.importance import PedAnovaImportanceEvaluator
from optuna.trial import FrozenTrial, TrialState as OptunaState

from ...backends.optuna.samplers import is_infeasible
from ...config.yaml_text import format_short
from ...direction import Direction
from ...records.trial_record import TrialRecord
from ..manifest import Resolved
from .drawing import (
    ALL,
    BLUE,
    GRAY,
    GREEN,
    GRID,
    MOST,
    STAR,
    Dot,
    Figure,
    Trace,
    beyond,
    drawing,
    outside_remark,
    scatter,
    star_name,
    thin,
    value_drawing,
    value_span,
)
from .optuna_study import space_of, study_of

_ENOUGH = 30
"""Importances and contours of fewer complete trials swing from one run to the next."""

_MOST_PARAMS = 12
_CROSSED = 3
_MOST_LINES = 200
_MOST_CROSSED = 100
"""Of a contour, whose grid has a row and a column for each trial."""

_MARGIN = 0.04  # of an axis of params, beyond the ends of the space
_SHADES = [[0, "#f7fbff"], [0.25, "#c6dbef"], [0.5, "#6baed6"], [0.75, "#2171b5"], [1, "#08306b"]]


def param_figures(records: Sequence[TrialRecord], resolved: Resolved, best: int | None) -> Iterator[Figure]:
    """Draw the figures of the params that vary, by the first objective."""
    space = space_of(resolved)
    if space is None:
        yield Figure("params", "Params", "A list of params does not define a search space.")
        return
    study = study_of(records, resolved, space, infeasible=True)
    trained = study.get_trials(deepcopy=False, states=(OptunaState.COMPLETE,))
    trials = [trial for trial in trained if not is_infeasible(trial)]
    params, metric = _varying(trials, list(space.dimensions)), resolved.metric
    weights = _importances(study_of(records, resolved, space), trials, params)
    yield _importance_figure(trials, params, weights, metric)
    yield _parallel(trials, params, resolved, best, len(trained) - len(trials))
    yield _slices(trained, _varying(trained, list(space.dimensions)), resolved, best)
    yield _contours(trials, sorted(params, key=lambda name: -weights.get(name, 0.0)), resolved, best)


def _varying(trials: Sequence[FrozenTrial], order: Sequence[str]) -> list[str]:
    """Return the params that have more than one value among trials."""
    return [n for n in order if len({repr(t.params[n]) for t in trials if n in t.params}) > 1]


def _distribution(trials: Sequence[FrozenTrial], name: str) -> Any:
    return next(trial.distributions[name] for trial in trials if name in trial.params)


def _axis(distribution: Any) -> dict[str, Any]:
    """Return plotly's axis over the whole space of a param."""
    if isinstance(distribution, CategoricalDistribution):
        choices = [*distribution.choices]
        order = {"categoryorder": "array", "categoryarray": choices, "dtick": 1}
        return {"type": "category", **order, "range": [-0.5, len(choices) - 0.5]}
    low, high = float(distribution.low), float(distribution.high)
    if distribution.log:
        low, high = math.log10(low), math.log10(high)
    edge = _MARGIN * (high - low)
    ends = {"range": [low - edge, high + edge]}
    return {**ends, "type": "log", **({"dtick": 1} if high - low >= 1 else {})} if distribution.log else ends


def _share(value: Any, distribution: Any) -> float:
    """Return the place of a value in its space, from 0 at the lower end to 1."""
    if isinstance(distribution, CategoricalDistribution):
        return (distribution.choices.index(value) + 0.5) / len(distribution.choices)
    low, high = distribution.low, distribution.high
    if distribution.log:
        low, high, value = math.log(low), math.log(high), math.log(value)
    return float((value - low) / (high - low)) if high > low else 0.5


def _importances(
    study: optuna.Study, trials: Sequence[FrozenTrial], params: Sequence[str]
) -> Mapping[str, float]:
    """Return the importance of the params of every complete trial; empty for too few trials or params."""
    weighed = [name for name in params if all(name in trial.params for trial in trials)]
    if len(trials) < _ENOUGH or len(weighed) < 2:
        return {}
    with catch_warnings(action="ignore", category=ExperimentalWarning):  # before Optuna 5
        evaluator = PedAnovaImportanceEvaluator()
    return optuna.importance.get_param_importances(study, evaluator=evaluator, params=weighed)


def _few(count: int, what: str) -> str:
    return f"Not shown: {count} trials are complete, and {what} need at least {_ENOUGH} to be meaningful."


def _importance_figure(
    trials: Sequence[FrozenTrial], params: Sequence[str], weights: Mapping[str, float], metric: str
) -> Figure:
    title, count = "Importances", len(trials)
    if count < _ENOUGH:
        return Figure("importances", title, _few(count, "importances"))
    if not weights:
        return Figure("importances", title, "Not shown: fewer than two params vary in all complete trials.")
    names = sorted(weights, key=lambda name: weights[name])
    bars: Trace = {
        "type": "bar",
        "orientation": "h",
        "x": [weights[name] for name in names],
        "y": names,
        "name": "importance",
        "marker": {"color": BLUE},
        "text": [f"{weights[name]:.2g}" for name in names],
        "hoverinfo": "none",
    }
    excluded = [name for name in params if name not in weights]
    caption = (
        f"How much each param affects whether a trial is among the best (PED-ANOVA), from {count} trials."
    )
    caption += f" Not ranked, because some trials lack them: {', '.join(excluded)}." if excluded else ""
    label, height = f"importance of each param for {metric}", 120 + 36 * len(weights)
    drawn = drawing([bars], label, ("importance", None), height, yaxis={"type": "category", "dtick": 1})
    return Figure("importances", title, caption, (drawn,))


def _parallel(
    trials: Sequence[FrozenTrial],
    params: Sequence[str],
    resolved: Resolved,
    best: int | None,
    infeasible: int,
) -> Figure:
    """Draw a line for each trial across an axis for the metric and one for each param."""
    title, metric, direction = "Parallel coordinates", resolved.metric, resolved.direction
    if not params:
        return Figure("parallel", title, _nothing_text(trials))
    order = sorted(trials, key=lambda trial: direction.sort_key(trial.value or 0.0))[:_MOST_LINES]
    ends = {name: _distribution(trials, name) for name in params[:_MOST_PARAMS]}
    values = [trial.value or 0.0 for trial in order]
    whole = (min(values), max(values))
    span = value_span(values, direction)
    top = -(-len(order) // 4)
    winner = [trial for trial in order if trial.number == best]
    groups = {
        "the others": ([trial for trial in order[top:] if trial.number != best], GRAY, 1),
        "best quarter": ([trial for trial in order[:top] if trial.number != best], BLUE, 1.5),
        f"{star_name(resolved)} (trial {best})": (winner, GREEN, 3),
    }

    marks = [(0, span or whole)] + [(n, one) for n, one in enumerate(ends.values(), 1)]
    names = [metric, *(f"{name} " for name in ends)]  # the space tells a param from a metric of its name
    data = [
        {**_lines(group, name, {"color": color, "width": width}, metric, limits, ends), **facts}
        for limits, facts in _parts(span, whole)
        for name, (group, color, width) in groups.items()
        if group
    ]
    outside = [] if span is None else [t for t in order if not span[0] <= (t.value or 0.0) <= span[1]]
    drawn = drawing(
        [*data, *([_beyond(outside, metric, direction)] if outside else [])],
        f"{metric} and the params of each of {len(order)} trials, side by side",
        (None, None),
        420,
        xaxis={
            "type": "category",
            "categoryorder": "array",
            "categoryarray": names,
            "showgrid": False,
            "range": [-0.4, len(names) - 0.4],
        },
        yaxis={"range": [-0.06, 1.06], "showgrid": False, "zeroline": False, "showticklabels": False},
        shapes=[
            {"type": "line", "x0": n, "x1": n, "y0": 0, "y1": 1, "line": {"color": GRID, "width": 2}}
            for n, _ in marks
        ],
        annotations=[note for n, one in marks for note in _labels(n, one)],
        meta=None if span is None else {"ends": {MOST: _end_texts(span), ALL: _end_texts(whole)}},
    )
    caption = "Each line is a complete trial; the axis of a param covers its whole range, low to high."
    caption += outside_remark([drawn])
    caption += f" The best {_MOST_LINES} are drawn." if len(trials) > _MOST_LINES else ""
    caption += f" Infeasible trials left out: {infeasible}." if infeasible else ""
    return Figure("parallel", title, caption, (drawn,))


def _parts(
    span: tuple[float, float] | None, whole: tuple[float, float]
) -> list[tuple[tuple[float, float], dict[str, Any]]]:
    """Return the axes of the metric to draw lines for: the whole, below one of most values if it has one."""
    if span is None:
        return [(whole, {})]
    return [(span, {"meta": MOST}), (whole, {"meta": ALL, "visible": False})]


def _beyond(outside: Sequence[FrozenTrial], metric: str, direction: Direction) -> Trace:
    """Return triangles at the worse end of the metric's axis for trials whose lines begin beyond it."""
    down = direction is Direction.MAXIMIZE
    return beyond(
        [metric] * len(outside),
        [0.0 if down else 1.0] * len(outside),
        "triangle-down" if down else "triangle-up",
        [f"trial {trial.number}: {trial.value:.6g}" for trial in outside],
        "%{text}<extra></extra>",
    )


def _end_texts(span: tuple[float, float]) -> list[str]:
    return [format_short(end) for end in span]


def _lines(
    trials: Sequence[FrozenTrial],
    name: str,
    line: Mapping[str, Any],
    metric: str,
    span: tuple[float, float],
    ends: Mapping[str, BaseDistribution],
) -> Trace:
    """Return a trace with a line for each trial, from its value to its params, and a gap after each."""
    low, high = span
    points: list[tuple[str | None, float | None, str, int]] = []
    for trial in trials:
        share = ((trial.value or 0.0) - low) / (high - low) if high > low else 0.5
        points.append((metric, min(1.0, max(0.0, share)), f"{metric} {trial.value:.6g}", trial.number))
        for param, distribution in ends.items():
            one = trial.params.get(param)
            place = _share(one, distribution) if param in trial.params else None
            points.append((f"{param} ", place, f"{param} {format_short(one)}", trial.number))
        points.append((None, None, "", trial.number))
    x, y, text, numbers = zip(*points, strict=True)
    hover = "trial %{customdata}: %{text}<extra></extra>"
    return scatter(x, y, name, "lines", text=text, customdata=numbers, line=line, hovertemplate=hover)


def _labels(place: int, one: Any) -> Iterator[dict[str, Any]]:
    """Yield the labels of an axis of parallel coordinates: each choice, or both ends."""
    if isinstance(one, CategoricalDistribution):
        marks = [(_share(choice, one), str(choice)) for choice in one.choices]
    else:
        low, high = one if isinstance(one, tuple) else (one.low, one.high)
        marks = list(zip((0.0, 1.0), _end_texts((low, high)), strict=True))
    for y, text in marks:
        yield {"x": place, "y": y, "text": text, "showarrow": False, "xanchor": "left", "xshift": 5}


def _slices(
    trials: Sequence[FrozenTrial], params: Sequence[str], resolved: Resolved, best: int | None
) -> Figure:
    title, metric = "Slices", resolved.metric
    if not params:
        return Figure("slices", title, _nothing_text(trials))
    drawings, remarks = [], [""]
    for name in params[:_MOST_PARAMS]:
        dots, remark = thin(
            [
                Dot(trial.number, trial.params[name], trial.value or 0.0, is_infeasible(trial))
                for trial in trials
                if name in trial.params
            ],
            best,
        )
        remarks.append(remark)
        layout: dict[str, Any] = {"xaxis": _axis(_distribution(trials, name)), "showlegend": False}
        titles, label = (name, metric), f"{metric} by {name}"
        drawings.append(value_drawing(dots, best, resolved, label, titles, height=280, **layout))
    infeasible = sum(map(is_infeasible, trials))
    caption = (
        f"Each dot is a complete trial, and the star is the {star_name(resolved)}; the axis covers the "
        "whole range."
    )
    caption += f" Gray ones, {infeasible}, are infeasible: they break a constraint." if infeasible else ""
    caption += outside_remark(drawings) + max(remarks, key=len)
    return Figure("slices", title, caption, tuple(drawings))


def _contours(
    trials: Sequence[FrozenTrial], params: Sequence[str], resolved: Resolved, best: int | None
) -> Figure:
    title, metric = "Contours", resolved.metric
    if len(trials) < _ENOUGH:
        return Figure("contours", title, _few(len(trials), "contours"))
    numbers = [n for n in params if not isinstance(_distribution(trials, n), CategoricalDistribution)]
    if len(numbers) < 2:
        return Figure("contours", title, "Fewer than two numbers vary among the complete trials.")
    pairs = {pair: _with_both(trials, pair) for pair in combinations(numbers[:_CROSSED], 2)}
    varied = {pair: group for pair, group in pairs.items() if len(_varying(_spread(group), pair)) == 2}
    if not varied:
        return Figure("contours", title, "No two numbers vary together in the complete trials.")
    caption = (
        f"Values of {metric} interpolated between the complete trials (the dots), for two params at a time."
    )
    most = max(map(len, varied.values()))
    caption += (
        f" {_MOST_CROSSED} of {most:,} trials are drawn, evenly spread." if most > _MOST_CROSSED else ""
    )
    drawings = [_contour(group, pair, resolved, best) for pair, group in varied.items()]
    return Figure("contours", title, caption, tuple(drawings))


def _with_both(trials: Sequence[FrozenTrial], pair: Sequence[str]) -> list[FrozenTrial]:
    """Return the trials that have two params, which may be conditional."""
    return [trial for trial in trials if all(name in trial.params for name in pair)]


def _spread(trials: Sequence[FrozenTrial]) -> Sequence[FrozenTrial]:
    """Return trials at equal distances, no more than a contour takes."""
    most = min(len(trials), _MOST_CROSSED)
    return [trials[place * len(trials) // most] for place in range(most)]


def _contour(
    group: Sequence[FrozenTrial], pair: tuple[str, str], resolved: Resolved, best: int | None
) -> dict[str, Any]:
    """Draw the values between trials, of which each has a row and a column of the grid."""
    trials = _spread(group)
    across, up = ([trial.params[name] for trial in trials] for name in pair)
    columns, rows = sorted({*across}), sorted({*up})
    cells: list[list[float | None]] = [[None] * len(columns) for _ in rows]
    for trial, x, y in zip(trials, across, up, strict=True):
        cells[rows.index(y)][columns.index(x)] = trial.value
    span = value_span([trial.value or 0.0 for trial in trials], resolved.direction)
    field: Trace = {
        "type": "contour",
        "x": columns,
        "y": rows,
        "z": cells,
        "connectgaps": True,
        "contours": {"coloring": "heatmap"},
        "colorscale": _SHADES,
        "reversescale": resolved.direction is Direction.MINIMIZE,
        "colorbar": {"thickness": 10, "outlinewidth": 0},
        "hoverinfo": "none",
        "line": {"width": 0.5},
        **({} if span is None else {"zmin": span[0], "zmax": span[1], "zauto": False}),
    }
    text = [f"trial {trial.number}: {trial.value:.6g}" for trial in trials]
    rest = {"size": 6, "color": "black", "line": {"color": "white", "width": 1}}
    dots = scatter(across, up, "trials", text=text, marker=rest, hovertemplate="%{text}<extra></extra>")
    stars = [
        scatter(
            [trial.params[pair[0]]],
            [trial.params[pair[1]]],
            f"{star_name(resolved)} (trial {best})",
            marker=STAR,
        )
        for trial in group
        if trial.number == best
    ]
    axes = [_axis(_distribution(trials, name)) for name in pair]
    label = f"{resolved.metric} by {pair[0]} and {pair[1]}"
    return drawing([field, dots, *stars], label, pair, xaxis=axes[0], yaxis=axes[1])


def _nothing_text(trials: Sequence[FrozenTrial]) -> str:
    return "No trial is complete." if not trials else "Too few params vary among the complete trials."
