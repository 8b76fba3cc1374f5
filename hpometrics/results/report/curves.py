"""Learning curves: the metric of every trial epoch by epoch, with those that were stopped early marked."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go

from ...records.trial_record import TrialRecord, TrialState
from ...selection.picking import ranked_by
from ..leaderboard import word
from ..manifest import Resolved
from .figure import Figure, count_whole, drawing

_MOST_TRIALS = 200
_MOST_POINTS = 20_000
_COLOURS = {TrialState.COMPLETE: "#4c78a8", TrialState.PRUNED: "#e08214", TrialState.FAILED: "#d62728"}
_TO_THE_END = (TrialState.COMPLETE, TrialState.INFEASIBLE)
_OTHER, _BEST = "#888888", "#2ca02c"


@dataclass(frozen=True)
class Curve:
    """The values of one trial; a gap is nan."""

    record: TrialRecord
    epochs: Sequence[int]
    values: Sequence[float]

    @property
    def end(self) -> tuple[int, float]:
        """Where the line ends: after a divergence, before it."""
        points = list(zip(self.epochs, self.values, strict=True))
        return next((point for point in reversed(points) if math.isfinite(point[1])), points[-1])


def curves_figure(records: Sequence[TrialRecord], resolved: Resolved, best: int | None) -> Figure:
    """Draw the curves of at most 200 trials: the best complete ones, then the latest of the others.

    Args:
        records: of the sweep.
        resolved: what it is about.
        best: the number of the best trial.
    """
    title = "Learning curves"
    begun = [record for record in records if record.epochs]
    if not begun:
        return Figure("curves", title, "No trial has ended an epoch.")
    shown = _shown(begun, resolved)
    curves = [_curve(record, resolved.metric, _stride(shown)) for record in shown]
    figure = go.Figure(list(_traces(curves, best)))
    figure.update_layout(xaxis_title="epoch", yaxis_title=resolved.metric, hovermode="closest")
    count_whole(figure, max(curve.epochs[-1] for curve in curves) + 1)
    left = f" Of {len(begun)} trials {len(shown)} are drawn." if len(shown) < len(begun) else ""
    caption = f"A line is a trial, x marks the last epoch of one that did not go to its end.{left}"
    return Figure("curves", title, caption, (drawing(figure, 420),))


def _shown(records: Sequence[TrialRecord], resolved: Resolved) -> list[TrialRecord]:
    if len(records) <= _MOST_TRIALS:
        return list(records)
    complete = [r for r in ranked_by(records, resolved.optimised) if r.state is TrialState.COMPLETE]
    others = [r for r in records if r.state is not TrialState.COMPLETE]
    spare = max(_MOST_TRIALS // 2, _MOST_TRIALS - len(others))
    best = complete[:spare]
    return best + others[len(best) - _MOST_TRIALS :]


def _stride(records: Sequence[TrialRecord]) -> int:
    return -(-sum(len(record.epochs) for record in records) // _MOST_POINTS)


def _curve(record: TrialRecord, metric: str, stride: int) -> Curve:
    last = len(record.epochs) - 1
    kept = [e for place, e in enumerate(record.epochs) if place % stride == 0 or place == last]
    values = [epoch.number(metric) if metric in epoch.values else math.nan for epoch in kept]
    return Curve(record, [epoch.epoch for epoch in kept], values)


def _traces(curves: Sequence[Curve], best: int | None) -> Iterator[go.Scatter]:
    """Give a trace of lines and one of ends for each state, and the best trial above them."""
    for state in TrialState:
        alike = [curve for curve in curves if curve.record.state is state and curve.record.number != best]
        if alike:
            colour = _COLOURS.get(state, _OTHER)
            yield _lines(alike, f"{word(state)} ({len(alike)})", {"color": colour, "width": 1}, 0.55)
            if state not in _TO_THE_END:
                yield _ends(alike, colour)
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
        hovertemplate="trial %{customdata}, epoch %{x}: %{y:.6g}<extra></extra>",
    )


def _ends(curves: Sequence[Curve], colour: str) -> go.Scatter:
    ends = [curve.end for curve in curves]
    return go.Scatter(
        x=[epoch for epoch, _ in ends],
        y=[value for _, value in ends],
        text=[f"trial {curve.record.number} {word(curve.record.state)}" for curve in curves],
        mode="markers",
        marker={"symbol": "x", "size": 6, "color": colour},
        showlegend=False,
        hovertemplate="%{text} after epoch %{x}: %{y:.6g}<extra></extra>",
    )
