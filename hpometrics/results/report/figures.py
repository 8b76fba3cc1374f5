"""The figures of the report, which are Optuna's own, and its HTML page with them: one offline file."""

from __future__ import annotations

import json
import math
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from itertools import combinations
from typing import Any
from warnings import catch_warnings

import numpy as np
import optuna
import plotly.graph_objects as go
from markupsafe import Markup
from optuna import visualization
from optuna.distributions import CategoricalDistribution
from optuna.exceptions import ExperimentalWarning
from optuna.importance import PedAnovaImportanceEvaluator
from plotly.offline import get_plotlyjs

from ..._pages import page
from ...backends.optuna.samplers import is_infeasible
from ...direction import Direction
from ...records.trial_record import TrialRecord, TrialState
from ...selection.selection import ranked_by
from ..leaderboard import word
from ..manifest import Resolved
from .optuna_study import space_of, study_of

_CLEAR, _GRID = "rgba(0, 0, 0, 0)", "rgba(128, 128, 128, 0.25)"
_TICKS = 6
_MOST_DOTS = 5000


@dataclass(frozen=True)
class Figure:
    """One or more drawings of one kind.

    Args:
        name: a short name for links.
        title: the title of its section.
        caption: how to read it; without a drawing, the reason.
        drawings: plotly's JSON, `{"data": [...], "layout": {...}}`.
        text: what they show, for those who cannot see them; by default, the title.
    """

    name: str
    title: str
    caption: str
    drawings: tuple[dict[str, Any], ...] = ()
    text: str = ""


def count_whole(figure: Any, count: int) -> None:
    """Label an axis of few trials or epochs by whole numbers; for many, plotly does so itself."""
    if count <= _TICKS:
        figure.update_xaxes(tickmode="linear", tick0=0, dtick=1)


def thin(figure: Any) -> str:
    """Drop dots of traces that have too many for a browser, and return the sentence that says so."""
    most = max((0 if trace.x is None else len(trace.x) for trace in figure.data), default=0)
    for trace in figure.data:
        if trace.x is None or len(trace.x) <= _MOST_DOTS:
            continue
        places = [place * (len(trace.x) - 1) // (_MOST_DOTS - 1) for place in range(_MOST_DOTS)]
        xs, ys, colors = trace.x, trace.y, trace.marker.color
        trace.x, trace.y = [xs[place] for place in places], [ys[place] for place in places]
        if colors is not None and not isinstance(colors, str):
            trace.marker.color = [colors[place] for place in places]
        if trace.text is not None and not isinstance(trace.text, str):
            trace.text = [trace.text[place] for place in places]
    return f" Of {most:,} dots {_MOST_DOTS:,} are drawn, evenly spread." if most > _MOST_DOTS else ""


def drawing(figure: Any, height: int = 380) -> dict[str, Any]:
    """Return a `plotly.graph_objects.Figure` as plain JSON, in the colors and the width of the page."""
    figure.update_layout(
        title=None,
        template="none",
        width=None,
        height=height,
        margin={"l": 60, "r": 16, "t": 24, "b": 48},
        paper_bgcolor=_CLEAR,
        plot_bgcolor=_CLEAR,
        font={"family": "system-ui, sans-serif", "size": 13},
        legend={"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
        modebar={"bgcolor": _CLEAR, "color": _GRID, "activecolor": _GRID},
    )
    axis = {"gridcolor": _GRID, "zerolinecolor": _GRID, "automargin": True, "title_font_size": 13}
    figure.update_xaxes(nticks=_TICKS, exponentformat="e", **axis)
    figure.update_yaxes(nticks=_TICKS, exponentformat="e", **axis)
    plain: dict[str, Any] = json.loads(figure.to_json())
    return plain


_MOST_TRIALS = 200
_MOST_POINTS = 20_000
_COLORS = {TrialState.COMPLETE: "#4c78a8", TrialState.PRUNED: "#e08214", TrialState.FAILED: "#d62728"}
_OTHER, _BEST = "#888888", "#2ca02c"


@dataclass(frozen=True)
class Curve:
    """The values of one trial; a gap is nan."""

    record: TrialRecord
    epochs: Sequence[int]
    values: Sequence[float]

    @property
    def end(self) -> tuple[int, float]:
        """The last point before a divergence, at which the line ends."""
        points = list(zip(self.epochs, self.values, strict=True))
        return next((point for point in reversed(points) if math.isfinite(point[1])), points[-1])


def curves_figure(records: Sequence[TrialRecord], resolved: Resolved, best: int | None) -> Figure:
    """Draw the curves of at most 200 trials: the best complete ones, then the latest of the others.

    Args:
        records: the trials of the sweep.
        resolved: the resolved sweep.
        best: the number of the best trial.
    """
    title = "Learning curves"
    started = [record for record in records if record.epochs]
    if not started:
        return Figure("curves", title, "No trial has ended an epoch.")
    chosen = _choose_records(started, resolved)
    stride = -(-sum(len(record.epochs) for record in chosen) // _MOST_POINTS)
    curves = [_curve(record, resolved.metric, stride) for record in chosen]
    figure = go.Figure(list(_traces(curves, best)))
    figure.update_layout(xaxis_title=started[0].unit, yaxis_title=resolved.metric, hovermode="closest")
    count_whole(figure, max(curve.epochs[-1] for curve in curves) + 1)
    remark = f" Of {len(started)} trials {len(chosen)} are drawn." if len(chosen) < len(started) else ""
    caption = f"A line is a trial, x marks the last epoch of one that did not go to its end.{remark}"
    return Figure("curves", title, caption, (drawing(figure, 420),))


def _choose_records(records: Sequence[TrialRecord], resolved: Resolved) -> list[TrialRecord]:
    if len(records) <= _MOST_TRIALS:
        return list(records)
    complete = [r for r in ranked_by(records, resolved.optimized) if r.state is TrialState.COMPLETE]
    others = [r for r in records if r.state is not TrialState.COMPLETE]
    spare = max(_MOST_TRIALS // 2, _MOST_TRIALS - len(others))
    best = complete[:spare]
    return best + others[len(best) - _MOST_TRIALS :]


def _curve(record: TrialRecord, metric: str, stride: int) -> Curve:
    last = len(record.epochs) - 1
    points = [e for place, e in enumerate(record.epochs) if place % stride == 0 or place == last]
    values = [epoch.number(metric) if metric in epoch.values else math.nan for epoch in points]
    return Curve(record, [epoch.place for epoch in points], values)


def _traces(curves: Sequence[Curve], best: int | None) -> Iterator[go.Scatter]:
    """Return a trace of lines and one of ends for each state, and the best trial above them."""
    for state in TrialState:
        alike = [curve for curve in curves if curve.record.state is state and curve.record.number != best]
        if alike:
            color = _COLORS.get(state, _OTHER)
            yield _lines(alike, f"{word(state)} ({len(alike)})", {"color": color, "width": 1}, 0.55)
            if not state.trained:
                yield _ends(alike, color)
    for curve in curves:
        if curve.record.number == best:
            yield _lines([curve], f"best (trial {best})", {"color": _BEST, "width": 3}, 1.0)


def _lines(curves: Sequence[Curve], name: str, line: dict[str, str | int], opacity: float) -> go.Scatter:
    """Draw many curves as one trace, with a gap after each: fast, and one entry of the legend."""
    return go.Scatter(
        x=np.array([epoch for curve in curves for epoch in (*curve.epochs, curve.epochs[-1])]),
        y=np.array([value for curve in curves for value in (*curve.values, math.nan)]),
        customdata=np.array([curve.record.number for curve in curves for _ in (*curve.epochs, None)]),
        mode="lines+markers" if all(len(curve.epochs) == 1 for curve in curves) else "lines",
        name=name,
        legendgroup=name,
        line=line,
        opacity=opacity,
        hovertemplate=f"trial %{{customdata}}, {curves[0].record.unit} %{{x}}: %{{y:.6g}}<extra></extra>",
    )


def _ends(curves: Sequence[Curve], color: str) -> go.Scatter:
    ends = [curve.end for curve in curves]
    return go.Scatter(
        x=[epoch for epoch, _ in ends],
        y=[value for _, value in ends],
        text=[f"trial {curve.record.number} {word(curve.record.state)}" for curve in curves],
        mode="markers",
        marker={"symbol": "x", "size": 6, "color": color},
        showlegend=False,
        hovertemplate=f"%{{text}} after {curves[0].record.unit} %{{x}}: %{{y:.6g}}<extra></extra>",
    )


_ENOUGH = 30
"""Importances of fewer complete trials swing from one run to the next."""

_MOST_PARAMS = 12
_DRAWN_TOGETHER = 3
_CROSSED = 3
_MOST_LINES = 200
_MOST_CROSSED = 200
"""Of a contour, whose grid has a row and a column for each trial."""

_COLORBAR = {"title": None, "thickness": 10, "outlinewidth": 0}
_FRONT, _OTHERS = "#2ca02c", "rgba(31, 119, 180, 0.55)"


def figures_of(records: Sequence[TrialRecord], resolved: Resolved, best: int | None) -> Iterator[Figure]:
    """Draw the figures of a sweep one by one, in the order of the page."""
    everything = study_of(records, resolved, infeasible=True)
    if resolved.others:
        yield _front(records, resolved)
    yield _history(everything, resolved.metric)
    yield curves_figure(records, resolved, best)
    space = space_of(resolved)
    if space is None:
        yield Figure("params", "Params", "A list of params was tried; there is no space to look at.")
        return
    study = study_of(records, resolved, space)
    everything = study_of(records, resolved, space, infeasible=True)
    params = _varying(study, list(space.dimensions))
    weights = _importances(study, params)
    yield _importance_figure(study, params, weights, resolved.metric)
    yield _parallel(study, params, resolved.metric, _infeasible(everything))
    yield _slices(everything, _varying(everything, list(space.dimensions)), resolved.metric)
    yield _contours(study, sorted(params, key=lambda name: -weights.get(name, 0.0)), resolved.metric)


def _complete(study: optuna.Study) -> list[optuna.trial.FrozenTrial]:
    return study.get_trials(deepcopy=False, states=(optuna.trial.TrialState.COMPLETE,))


def _infeasible(study: optuna.Study) -> int:
    """Count the trials that break a constraint."""
    return sum(map(is_infeasible, _complete(study)))


def _gray_remark(study: optuna.Study) -> str:
    """Return a sentence on the trials that Optuna draws in gray."""
    count = _infeasible(study)
    return f" Gray ones, {count}, are infeasible: they break a constraint." if count else ""


def _best_of(study: optuna.Study, most: int) -> optuna.Study:
    """Return a study of the best trials, in the order of the whole one."""
    trials = _complete(study)
    if len(trials) <= most:
        return study
    direction = Direction.parse(study.direction.name)
    best = sorted(trials, key=lambda trial: direction.sort_key(trial.value or 0.0))[:most]
    return _part(study, sorted(best, key=lambda trial: trial.number))


def _part(study: optuna.Study, trials: Sequence[optuna.trial.FrozenTrial]) -> optuna.Study:
    """Return a study of some trials of another one."""
    part = optuna.create_study(direction=study.direction)
    part.add_trials(trials)
    return part


def _varying(study: optuna.Study, order: Sequence[str]) -> list[str]:
    """Return the params that have more than one value among the complete trials."""
    trials = _complete(study)
    return [n for n in order if len({repr(t.params[n]) for t in trials if n in t.params}) > 1]


def _importances(study: optuna.Study, params: Sequence[str]) -> Mapping[str, float]:
    """Return the importance of the params of every complete trial; empty for too few trials or params."""
    trials = _complete(study)
    weighed = [name for name in params if all(name in trial.params for trial in trials)]
    if len(trials) < _ENOUGH or len(weighed) < 2:
        return {}
    return optuna.importance.get_param_importances(study, evaluator=_evaluator(), params=weighed)


def _evaluator() -> PedAnovaImportanceEvaluator:
    with catch_warnings(action="ignore", category=ExperimentalWarning):  # before Optuna 5
        return PedAnovaImportanceEvaluator()


def _front(records: Sequence[TrialRecord], resolved: Resolved) -> Figure:
    """Draw the front of two or three objectives; the figures after it are of the first alone."""
    title, names = "Pareto front", list(resolved.optimized)
    study = study_of(records, resolved, several=True)
    if not _complete(study):
        return Figure("front", title, "No trial is complete.")
    if len(names) > _DRAWN_TOGETHER:
        return Figure("front", title, f"Not drawn: {len(names)} objectives have no place on a page.")
    figure = visualization.plot_pareto_front(study, target_names=names)
    figure.for_each_trace(_color_by_front)
    caption = f"A dot is a complete trial; those of the front are dominated by no other one.{thin(figure)}"
    return Figure("front", title, f"{caption} The figures below are of {names[0]}.", (drawing(figure, 420),))


def _color_by_front(trace: Any) -> None:
    """Color the trials of the front alike; Optuna's shades mean numbers, and the first are white."""
    front = trace.marker.colorbar.title.text == "Best Trial"
    trace.name, trace.showlegend = "front" if front else "other trials", True
    trace.marker = {"color": _FRONT if front else _OTHERS, "size": 9 if front else 6, "showscale": False}


def _history(study: optuna.Study, metric: str) -> Figure:
    title = "History"
    if not _complete(study):
        return Figure("history", title, "No trial is complete.")
    figure = visualization.plot_optimization_history(study, target_name=metric)
    count_whole(figure, len(study.get_trials(deepcopy=False)))
    caption = f"A dot is a complete trial, the line the best value so far.{_gray_remark(study)}{thin(figure)}"
    return Figure("history", title, caption, (drawing(figure),))


def _importance_figure(
    study: optuna.Study, params: Sequence[str], weights: Mapping[str, float], metric: str
) -> Figure:
    title, count = "Importances", len(_complete(study))
    if count < _ENOUGH:
        few = f"{count} trials are complete, and importances of fewer than {_ENOUGH} say little."
        return Figure("importances", title, f"Not shown: {few}")
    if not weights:
        return Figure("importances", title, "Not shown: fewer than two params vary in all complete trials.")
    figure = visualization.plot_param_importances(
        study, evaluator=_evaluator(), params=list(weights), target_name=metric
    )
    figure.update_layout(yaxis_title=None)
    excluded = [name for name in params if name not in weights]
    caption = f"How much each param decides whether a trial is among the best (PED-ANOVA), of {count} trials."
    caption += f" Not weighed, as not every trial has them: {', '.join(excluded)}." if excluded else ""
    return Figure("importances", title, caption, (drawing(figure, 120 + 36 * len(weights)),))


def _parallel(study: optuna.Study, params: Sequence[str], metric: str, infeasible: int) -> Figure:
    title, trials = "Parallel coordinates", _complete(study)
    common = [name for name in params if all(name in trial.params for trial in trials)]
    if not common:
        return Figure("parallel", title, _nothing_text(study))
    best = _best_of(study, _MOST_LINES)
    figure = visualization.plot_parallel_coordinate(best, params=common[:_MOST_PARAMS], target_name=metric)
    figure.update_traces(marker_colorbar=_COLORBAR, selector={"mode": "markers"})
    caption = "A line is a complete trial, the darker the better."
    caption += f" The best {_MOST_LINES} are drawn." if len(trials) > _MOST_LINES else ""
    caption += f" Infeasible trials, {infeasible} of them, are left out." if infeasible else ""
    return Figure("parallel", title, caption, (drawing(figure, 420),))


def _slices(study: optuna.Study, params: Sequence[str], metric: str) -> Figure:
    title = "Slices"
    if not params:
        return Figure("slices", title, _nothing_text(study))
    plots = [
        visualization.plot_slice(study, params=[name], target_name=metric) for name in params[:_MOST_PARAMS]
    ]
    remark = max((thin(plot) for plot in plots), key=len)
    caption = f"A dot is a complete trial, the darker the later.{_gray_remark(study)}{remark}"
    choices = [name for name in params if not _is_number(study, name)]
    if choices and _infeasible(study):  # Optuna loses them where the values are no numbers
        caption += f" They are missing for {', '.join(choices)}."
    drawings = [_slice(plot, study, name) for plot, name in zip(plots, params, strict=False)]
    return Figure("slices", title, caption, tuple(drawings))


def _slice(figure: Any, study: optuna.Study, name: str) -> dict[str, Any]:
    """Label the axis of a slice and return its drawing."""
    if not _is_number(study, name):  # whose choices Optuna 5 puts in quotes here, though not elsewhere
        choices = _distribution(study, name).choices
        places, values = [*map(repr, choices)], {x for trace in figure.data for x in trace.x}
        written = [*map(str, choices)]
        figure.update_xaxes(tickvals=places if values <= {*places} else written, ticktext=written)
    return drawing(figure.update_traces(marker_showscale=False), 300)


def _contours(study: optuna.Study, params: Sequence[str], metric: str) -> Figure:
    title = "Contours"
    numbers = [name for name in params if _is_number(study, name)]
    if len(numbers) < 2:
        return Figure("contours", title, "Fewer than two numbers vary among the complete trials.")
    pairs = {pair: _with_both(study, pair) for pair in combinations(numbers[:_CROSSED], 2)}
    varied = {pair: trials for pair, trials in pairs.items() if _vary_together(trials, pair)}
    if not varied:
        return Figure("contours", title, "No two numbers vary together in the complete trials.")
    drawings = [
        _contour(_part(study, _spread(trials)), list(pair), metric) for pair, trials in varied.items()
    ]
    caption = f"Values of {metric} between the complete trials, which are the dots, by two params at a time."
    most = max(map(len, varied.values()))
    caption += (
        f" Of {most:,} trials {_MOST_CROSSED} are drawn, evenly spread." if most > _MOST_CROSSED else ""
    )
    return Figure("contours", title, caption, tuple(drawings))


def _with_both(study: optuna.Study, pair: Sequence[str]) -> list[optuna.trial.FrozenTrial]:
    """Return the complete trials that have two params, which may be conditional."""
    return [trial for trial in _complete(study) if all(name in trial.params for name in pair)]


def _spread(trials: Sequence[optuna.trial.FrozenTrial]) -> Sequence[optuna.trial.FrozenTrial]:
    """Return trials at equal distances, no more than a contour takes."""
    most = min(len(trials), _MOST_CROSSED)
    return [trials[place * len(trials) // most] for place in range(most)]


def _vary_together(trials: Sequence[optuna.trial.FrozenTrial], pair: Sequence[str]) -> bool:
    """Return whether each of two params varies among the trials of a contour."""
    return all(len({trial.params[name] for trial in _spread(trials)}) > 1 for name in pair)


def _is_number(study: optuna.Study, name: str) -> bool:
    return not isinstance(_distribution(study, name), CategoricalDistribution)


def _distribution(study: optuna.Study, name: str) -> Any:
    return next(trial.distributions[name] for trial in _complete(study) if name in trial.params)


def _contour(study: optuna.Study, pair: list[str], metric: str) -> dict[str, Any]:
    figure = visualization.plot_contour(study, params=pair, target_name=metric)
    return drawing(figure.update_traces(colorbar=_COLORBAR, selector={"type": "contour"}))


def _nothing_text(study: optuna.Study) -> str:
    return (
        "No trial is complete." if not _complete(study) else "Too few params vary among the complete trials."
    )


def html_of(report: object, figures: Sequence[Figure]) -> str:
    """Return the page of a report. Its tables hold all facts without JavaScript; the figures need it."""
    plotly, script = get_plotlyjs(), files(__package__).joinpath("report.js").read_text("utf8")
    return page(
        "results/report",
        "report.html",
        report=report,
        figures=figures,
        scripts=[Markup(plotly), Markup(script)],
        policy=_policy(plotly, script),
    )


def _policy(*scripts: str) -> str:
    """Allow these scripts and no others, no network, and the images that plotly makes of a figure."""
    hashes = " ".join(f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'" for text in scripts)
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data: blob:; "
        "base-uri 'none'; form-action 'none'"
    )
