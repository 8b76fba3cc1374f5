"""The figures of the report: the course of a sweep, its learning curves, its Pareto front, and their list."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from ...backends.trial_lines import word
from ...direction import Direction
from ...records.trial_record import TrialRecord, TrialState
from ...selection.confirmation import Confirmation
from ...selection.selection import front_trials, knee_of, ranked_by
from ..manifest import Resolved
from ..status import Outcome
from .drawing import (
    BLUE,
    GRAY,
    GREEN,
    ORANGE,
    RED,
    STAR,
    Dot,
    Figure,
    Trace,
    drawing,
    outside_remark,
    scatter,
    star_name,
    thin,
    value_drawing,
    whole_numbers,
)
from .winner_figure import leaders_figure, winner_figure

_MOST_TRIALS = 200
_MOST_POINTS = 20_000
_MOST_OBJECTIVES = 3
_COLORS = {TrialState.COMPLETE: BLUE, TrialState.PRUNED: ORANGE, TrialState.FAILED: RED}


def report_figures(outcome: Outcome) -> Iterator[Figure]:
    """Draw the figures of a report one by one: that of the winner first, if there is one."""
    best, end = None if outcome.best is None else outcome.best.trial, outcome.confirmation
    if isinstance(end, Confirmation):
        yield winner_figure(end)
    elif outcome.verdict is not None and best is not None:
        yield leaders_figure(outcome.records, outcome.resolved, outcome.verdict, best)
    yield from figures_of(outcome.records, outcome.resolved, best)


def figures_of(records: Sequence[TrialRecord], resolved: Resolved, best: int | None) -> Iterator[Figure]:
    """Draw the figures of a sweep one by one, in the order of the page."""
    if resolved.others:
        yield _front(records, resolved, best)
    yield curves_figure(records, resolved, best)
    yield _history(records, resolved, best)
    yield _cost(records, resolved, best)
    from .param_figures import param_figures  # with Optuna and the model of the sweep file

    yield from param_figures(records, resolved, best)


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
        return Figure("curves", title, "No trial has completed an epoch.")
    chosen = _choose_records(started, resolved)
    stride = -(-sum(len(record.epochs) for record in chosen) // _MOST_POINTS)
    curves = [_curve(record, resolved.metric, stride) for record in chosen]
    remark = f" {len(chosen)} of {len(started)} trials are drawn." if len(chosen) < len(started) else ""
    caption = f"Each line is a trial; x marks the last epoch of a trial that stopped early.{remark}"
    drawn = drawing(
        list(_traces(curves, best, star_name(resolved))),
        f"{resolved.metric} by {started[0].unit}, a line for each of {len(curves)} trials",
        (started[0].unit, resolved.metric),
        420,
        xaxis=whole_numbers(max(curve.epochs[-1] for curve in curves) + 1),
    )
    return Figure("curves", title, caption, (drawn,))


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


def _traces(curves: Sequence[Curve], best: int | None, star: str) -> Iterator[Trace]:
    """Return a trace of lines and one of ends for each state, and the winner or the knee above them."""
    for state in TrialState:
        alike = [curve for curve in curves if curve.record.state is state and curve.record.number != best]
        if alike:
            color = _COLORS.get(state, GRAY)
            yield _lines(alike, f"{word(state)} ({len(alike)})", color, 1.3, 0.7)
            if not state.trained:
                yield _ends(alike, color)
    for curve in curves:
        if curve.record.number == best:
            yield _lines([curve], f"{star} (trial {best})", GREEN, 3, 1.0)


def _lines(curves: Sequence[Curve], name: str, color: str, width: float, opacity: float) -> Trace:
    """Draw many curves as one trace, with a gap after each: fast, and one entry of the legend."""
    return scatter(
        [epoch for curve in curves for epoch in (*curve.epochs, curve.epochs[-1])],
        [value for curve in curves for value in (*curve.values, math.nan)],
        name,
        "lines+markers" if all(len(curve.epochs) == 1 for curve in curves) else "lines",
        customdata=[curve.record.number for curve in curves for _ in (*curve.epochs, None)],
        legendgroup=name,
        line={"color": color, "width": width},
        opacity=opacity,
        hovertemplate=f"trial %{{customdata}}, {curves[0].record.unit} %{{x}}: %{{y:.6g}}<extra></extra>",
    )


def _ends(curves: Sequence[Curve], color: str) -> Trace:
    ends = [curve.end for curve in curves]
    return scatter(
        [epoch for epoch, _ in ends],
        [value for _, value in ends],
        f"last epoch, {word(curves[0].record.state)}",
        text=[f"trial {curve.record.number} {word(curve.record.state)}" for curve in curves],
        marker={"symbol": "x", "size": 6, "color": color},
        showlegend=False,
        hovertemplate=f"%{{text}} after {curves[0].record.unit} %{{x}}: %{{y:.6g}}<extra></extra>",
    )


def _history(records: Sequence[TrialRecord], resolved: Resolved, best: int | None) -> Figure:
    title, metric = "History", resolved.metric
    trained = _dots(records, lambda record: record.number)
    if not trained:
        return Figure("history", title, "No trial is complete.")
    dots, remark = thin(trained, best)
    drawn = value_drawing(
        dots,
        best,
        resolved,
        f"{metric} by trial, with the best value so far",
        ("trial", metric),
        _best_line(dots, resolved.direction, "best so far"),
        xaxis=whole_numbers(len(records)),
    )
    pruned = sum(record.state is TrialState.PRUNED for record in records)
    caption = f"Each dot is a complete trial; the line is the best value so far.{_gray_remark(dots)}"
    caption += f" Pruned trials, {pruned}, appear only in the learning curves." if pruned else ""
    return Figure("history", title, caption + outside_remark([drawn]) + remark, (drawn,))


def _cost(records: Sequence[TrialRecord], resolved: Resolved, best: int | None) -> Figure:
    title, metric, unit = "Value by cost", resolved.metric, resolved.unit
    trained = _dots(records, unit.cost_of)
    if not trained:
        return Figure("cost", title, "No trial is complete with a known cost.")
    dots, remark = thin(trained, best)
    drawn = value_drawing(
        dots,
        best,
        resolved,
        f"{metric} by the cost of a trial, with the best value at the same or a lower cost",
        (f"cost ({unit.words})", metric),
        _best_line(dots, resolved.direction, "best at this cost or less"),
        costs=True,
    )
    caption = (
        "Each dot is a complete trial; the line is the best value at the same or a lower "
        f"cost.{_gray_remark(dots)}"
    )
    caption += outside_remark([drawn], "values far worse, or costs far higher, than most")
    return Figure("cost", title, caption + remark, (drawn,))


def _dots(records: Sequence[TrialRecord], place_of: Callable[[TrialRecord], float]) -> list[Dot]:
    """Return the trials that ran to their end with a value, in the order of their places."""
    dots = [
        Dot(record.number, place_of(record), record.value, record.state is TrialState.INFEASIBLE)
        for record in records
        if record.state.trained and record.value is not None and math.isfinite(record.value)
    ]
    return sorted((dot for dot in dots if math.isfinite(dot.x)), key=lambda dot: (dot.x, dot.number))


def _gray_remark(dots: Sequence[Dot]) -> str:
    return " Gray dots break a constraint." if any(dot.infeasible for dot in dots) else ""


def _best_line(dots: Sequence[Dot], direction: Direction, name: str) -> list[Trace]:
    """Return a line of the best value up to each place; none without a feasible trial."""
    feasible = [dot for dot in dots if not dot.infeasible]
    values: list[float] = []
    for dot in feasible:
        values.append(values[-1] if values and not direction.better(dot.value, values[-1]) else dot.value)
    line = {"color": ORANGE, "shape": "hv", "width": 2}
    return [scatter([dot.x for dot in feasible], values, name, "lines", line=line)] if values else []


def _front(records: Sequence[TrialRecord], resolved: Resolved, best: int | None) -> Figure:
    """Draw the front by two objectives at a time; the figures after it are of the first alone."""
    title, names = "Pareto front", list(resolved.optimized)
    complete = [record for record in records if record.state is TrialState.COMPLETE]
    front = front_trials(complete, resolved.optimized)
    if not front:
        return Figure("front", title, "No trial is complete.")
    if len(names) > _MOST_OBJECTIVES:
        return Figure("front", title, f"Not drawn: {len(names)} objectives are too many for one page.")
    points = {record.number: record.scores(names) for record in complete}
    numbers = [record.number for record in front]
    knee = numbers[knee_of([points[n] for n in numbers], list(resolved.optimized.values()))]
    if resolved.pick == "knee" and best in points:  # fresh trainings may have moved it, even off the front
        knee = best
    groups: list[tuple[str, list[int], dict[str, object]]] = [
        (
            "other trials",
            [n for n in points if n not in numbers and n != knee],
            {"size": 6, "color": BLUE, "opacity": 0.55},
        ),
        ("front", [n for n in numbers if n != knee], {"size": 9, "color": GREEN}),
        (f"knee (trial {knee})", [knee], STAR),
    ]
    drawings = [
        drawing(
            [
                scatter(
                    [points[n][names.index(across)] for n in group],
                    [points[n][names.index(up)] for n in group],
                    name,
                    text=[f"trial {n}" for n in group],
                    marker={**marker},
                    hovertemplate="%{text}: %{x:.6g}, %{y:.6g}<extra></extra>",
                )
                for name, group, marker in groups
                if group
            ],
            f"{up} by {across}, with the Pareto front and its knee, trial {knee}",
            (across, up),
            420,
        )
        for across, up in combinations(names, 2)
    ]
    caption = (
        "Each dot is a complete trial; no other trial dominates the trials of the front. The star is the "
        "knee: the trial of the front that is farthest from the plane through the best trial of each "
        "objective."
    )
    return Figure("front", title, f"{caption} The figures below show {names[0]}.", tuple(drawings))
