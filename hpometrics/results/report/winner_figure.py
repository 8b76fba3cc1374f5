"""The figure of the winner: its contenders and their fresh runs, or the best trials with their intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ..._formatting import format_p, plural
from ...direction import Direction
from ...records.trial_record import TrialRecord
from ...selection.confirmation import Confirmation, Standing
from ...selection.intervals import Interval, Significance
from ..manifest import Resolved
from ..verdict import LISTED, leading_sides
from .drawing import (
    BLUE,
    GRAY,
    GREEN,
    RED,
    Figure,
    Trace,
    beyond,
    drawing,
    outside_remark,
    scatter,
    value_span,
    wide_span,
)

_WINNER, _STILL_IN, _LEFT, _HONEST = GREEN, BLUE, GRAY, RED
_BAND = "rgba(44, 160, 44, 0.15)"
_CAPTION = (
    "Each line is a contender, the best mean on top. Rings are values of the search, and dots are values "
    "of fresh trainings; a bar is the interval of the difference to the leader, around the mean."
)


def leaders_figure(
    records: Sequence[TrialRecord], resolved: Resolved, verdict: Significance, best: int
) -> Figure:
    """Draw the best trials of a sweep whose winner was not confirmed, with the intervals that are known.

    Args:
        records: the trials of the sweep.
        resolved: the resolved sweep.
        verdict: the verdict on the search.
        best: the number of the winner.
    """
    leaders = [
        (side.trial, side.value, verdict.intervals.get((side.trial, side.epoch)))
        for side in leading_sides(records, resolved, LISTED)
        if math.isfinite(side.value)
    ]
    names = [f"trial {number}" for number, *_ in leaders]
    data = []
    for name, color, won in (("winner", GREEN, True), ("other trials", BLUE, False)):
        group = [(number, value, span) for number, value, span in leaders if (number == best) is won]
        spans = [Interval(value, value, value) if span is None else span for _, value, span in group]
        bars = {
            "array": [span.high - span.value for span in spans],
            "arrayminus": [span.value - span.low for span in spans],
        }
        data.append(
            scatter(
                [span.value for span in spans],
                [f"trial {number}" for number, *_ in group],
                name,
                text=[str(span or f"{value:.6g}") for _, value, span in group],
                marker={"size": 9, "color": color},
                error_x={"symmetric": False, "color": color, **bars},
                hovertemplate="%{y}: %{text}<extra></extra>",
            )
        )
    count = sum(span is not None for *_, span in leaders)
    caption = f"The best {plural(len(leaders), 'complete trial')}, by {resolved.metric}."
    if count:
        caption += (
            f" Each bar is the {100 * verdict.level:g}% interval of a value on other rows of the same kind."
        )
    if count < len(leaders):
        caption += f" Trials without a bar have no interval: {verdict.reason or 'its rows are not stored'}."
    layout: dict[str, Any] = {
        "yaxis": {"type": "category", "categoryorder": "array", "categoryarray": names[::-1], "dtick": 1}
    }
    span, meta = value_span([value for _, value, _ in leaders], resolved.direction), None
    if span is not None:
        within = [one for one in leaders if span[0] <= one[1] <= span[1]]
        span = wide_span((v, v) if bar is None else (bar.low, bar.high) for _, v, bar in within)
        data.append(_beyond([one[:2] for one in leaders if one not in within], span))
        layout["xaxis"], meta = {"range": [*span]}, {"spans": {"xaxis": span}}
        caption += outside_remark([{"data": data}])
    label, height = f"{resolved.metric} of the best trials", 110 + 28 * len(leaders)
    drawn = drawing(data, label, (resolved.metric, None), height, meta, **layout)
    return Figure("winner", "The best trials", caption, (drawn,))


def _beyond(outside: Sequence[tuple[int, float]], span: tuple[float, float]) -> Trace:
    """Return triangles at the edge of an axis for trials whose values are beyond it."""
    below = [value < span[0] for _, value in outside]
    return beyond(
        [span[0] if low else span[1] for low in below],
        [f"trial {number}" for number, _ in outside],
        ["triangle-left" if low else "triangle-right" for low in below],
        [f"{value:.6g}" for _, value in outside],
        "%{y}: %{text}<extra></extra>",
    )


def winner_figure(end: Confirmation) -> Figure:
    """Draw how a winner was confirmed; its words are the verdict that stands above it on the page.

    Args:
        end: the confirmation of a sweep's winner.
    """
    title = "The winner"
    drawn = [one for one in end.standings if one.mean is not None]
    if end.honest is None or not drawn:
        return Figure("winner", title, f"Not drawn: {end.reason}.")
    caption = _CAPTION
    if end.equivalence:
        caption += f" Differences inside the band, {end.equivalence:.3g}, do not matter."
    failed = len(end.standings) - len(drawn)
    caption += f" Not drawn, without a fresh value: {plural(failed, 'contender')}." if failed else ""
    height = 140 + 36 * len(drawn)
    drawings = [_contenders(end, drawn, height)]
    if len(end.looks) > 1:
        caption += " The second plot shows how much better another contender may be, after each comparison."
        drawings.append(_looks(end, height))
    return Figure("winner", title, caption, tuple(drawings))


def _contenders(end: Confirmation, drawn: list[Standing], height: int) -> dict[str, Any]:
    """Draw a line for each contender, and one for the honest value."""
    places = {one.trial: len(drawn) - place for place, one in enumerate(drawn)}
    runs = [(one, number, value) for one in drawn for number, value in enumerate(one.values, 1)]
    data = [
        scatter(
            [one.search_value for one in drawn],
            [places[one.trial] for one in drawn],
            "search",
            marker={"symbol": "circle-open", "size": 11, "color": _LEFT, "line": {"width": 2}},
            hovertemplate="search: %{x:.6g}<extra></extra>",
        ),
        scatter(
            [value for *_, value in runs],
            [places[one.trial] for one, *_ in runs],
            "fresh trainings",
            text=[f"trial {one.trial}, fresh training {number}" for one, number, _ in runs],
            marker={"size": 6, "color": [_color(one, end) for one, *_ in runs], "opacity": 0.45},
            hovertemplate="%{text}: %{x:.6g}<extra></extra>",
        ),
    ]
    for name, color in (("winner", _WINNER), ("still in", _STILL_IN), ("out", _LEFT)):
        group = [one for one in drawn if _color(one, end) == color]
        if group:
            data.append(_means(group, [places[one.trial] for one in group], name, color))
    if end.honest is not None:
        data.append(_value_trace("expected on new rows", "diamond", 0, end.honest.interval))
        if end.honest.held_out is not None:
            data.append(_value_trace("test split", "diamond-open", -0.3, end.honest.held_out))
    labels = {places[one.trial]: f"trial {one.trial}" for one in drawn} | {0: "on new rows"}
    axis = {"tickvals": [*labels], "ticktext": [*labels.values()], "range": [-0.6, len(drawn) + 0.6]}
    label = f"{end.metric} of each contender, from the search and from fresh trainings"
    return drawing(data, label, (end.metric, None), height, yaxis=axis, shapes=_band(drawn[0], end))


def _color(one: Standing, end: Confirmation) -> str:
    """Return the color of a contender: the winner's, of those that are left, or of those that are out."""
    if one.trial == end.winner:
        return _WINNER
    return _STILL_IN if one.left_at is None else _LEFT


def _means(group: list[Standing], places: list[int], name: str, color: str) -> Trace:
    """Return the means of contenders with the intervals of their differences to the leader."""
    return scatter(
        [one.mean for one in group],
        places,
        name,
        text=[_fate(one) for one in group],
        marker={"symbol": "line-ns-open", "size": 16, "color": color, "line": {"width": 3}},
        error_x={"array": [0.0 if one.pair is None else one.pair.half for one in group], "color": color},
        hovertemplate="%{text}: mean %{x:.6g}<extra></extra>",
    )


def _fate(one: Standing) -> str:
    """Return what became of a contender, in words."""
    trained = f"trial {one.trial}, {plural(one.seeds, 'fresh training')}"
    if one.left_at is None:
        return trained
    sure = f", {format_p(one.pair.p_value)}" if one.pair is not None and one.pair.separated else ""
    return f"{trained}, out after {one.left_at} ({one.reason}{sure})"


def _value_trace(name: str, symbol: str, place: float, interval: Interval) -> Trace:
    """Return a value of the winner's params with its interval, below the contenders."""
    value = interval.value
    sides = {"array": [interval.high - value], "arrayminus": [value - interval.low]}
    return scatter(
        [value],
        [place],
        name,
        marker={"symbol": symbol, "size": 11, "color": _HONEST},
        error_x={"symmetric": False, "color": _HONEST, **sides},
        hovertemplate=f"{name}: {interval}<extra></extra>",
    )


def _band(winner: Standing, end: Confirmation) -> list[dict[str, Any]]:
    """Return the shade over what is worse than the winner by no more than counts."""
    if not end.equivalence or winner.mean is None:
        return []
    worse = -end.equivalence if end.direction is Direction.MAXIMIZE else end.equivalence
    place = {"x0": winner.mean, "x1": winner.mean + worse, "y0": 0, "y1": 1, "yref": "paper"}
    return [{"type": "rect", "fillcolor": _BAND, "line": {"width": 0}, "layer": "below", **place}]


def _looks(end: Confirmation, height: int) -> dict[str, Any]:
    """Draw by how much another contender may be better, after each look."""
    seeds = [look.seeds for look in end.looks]
    data = [
        scatter(
            seeds,
            [look.may_lose for look in end.looks],
            "may be lost",
            "lines+markers",
            text=[f"out: {', '.join(map(str, look.left)) or 'nobody'}" for look in end.looks],
            line={"color": _STILL_IN},
            hovertemplate="after %{x} trainings of each: %{y:.4g}, %{text}<extra></extra>",
        ),
        scatter(
            seeds,
            [look.equivalence for look in end.looks],
            "does not matter",
            "lines",
            line={"color": _WINNER, "dash": "dash"},
            hovertemplate="%{y:.4g} does not matter<extra></extra>",
        ),
    ]
    titles = ("trainings of each contender", f"{end.metric}, lost")
    label, zero = "possible loss by choosing the winner, after each comparison", {"rangemode": "tozero"}
    return drawing(data, label, titles, height, xaxis={"tickvals": seeds}, yaxis=zero)
