"""The figure of a confirmed winner: its contenders, their fresh runs, and what may be lost by taking it."""

from __future__ import annotations

import plotly.graph_objects as go

from ..._formatting import format_p, plural
from ...direction import Direction
from ...selection.confirmation import Confirmation, Standing
from ...selection.intervals import Interval
from .figures import Figure, drawing

_WINNER, _STILL_IN, _LEFT, _HONEST = "#2ca02c", "#4c78a8", "#888888", "#d62728"
_BAND = "rgba(44, 160, 44, 0.15)"
_CAPTION = (
    "A line is a contender, the best mean on top. Rings are values of the search, dots those of fresh "
    "trainings; a bar is the interval of the difference to the leader, around the mean."
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
        caption += f" A difference inside the band, {end.equivalence:.3g}, does not matter."
    failed = len(end.standings) - len(drawn)
    caption += f" {plural(failed, 'contender')} without a fresh value: not drawn." if failed else ""
    drawings = [drawing(_contenders(end, drawn), 140 + 36 * len(drawn))]
    if len(end.looks) > 1:
        caption += " The second drawing: by how much another contender may be better, after each look."
        drawings.append(drawing(_looks(end), 140 + 36 * len(drawn)))
    return Figure("winner", title, caption, tuple(drawings), text="\n".join(end.lines()))


def _contenders(end: Confirmation, drawn: list[Standing]) -> go.Figure:
    """Draw a line for each contender, and one for the honest value."""
    places = {one.trial: len(drawn) - place for place, one in enumerate(drawn)}
    figure = go.Figure()
    figure.add_scatter(
        x=[one.search_value for one in drawn],
        y=[places[one.trial] for one in drawn],
        name="search",
        mode="markers",
        marker={"symbol": "circle-open", "size": 11, "color": _LEFT, "line": {"width": 2}},
        hovertemplate="search: %{x:.6g}<extra></extra>",
    )
    runs = [(one, number, value) for one in drawn for number, value in enumerate(one.values, 1)]
    figure.add_scatter(
        x=[value for *_, value in runs],
        y=[places[one.trial] for one, *_ in runs],
        text=[f"trial {one.trial}, fresh training {number}" for one, number, _ in runs],
        name="fresh trainings",
        mode="markers",
        marker={"size": 6, "color": [_color(one, end) for one, *_ in runs], "opacity": 0.45},
        hovertemplate="%{text}: %{x:.6g}<extra></extra>",
    )
    for name, color in (("winner", _WINNER), ("still in", _STILL_IN), ("out", _LEFT)):
        group = [one for one in drawn if _color(one, end) == color]
        if group:
            figure.add_trace(_means(group, [places[one.trial] for one in group], name, color))
    if end.honest is not None:
        figure.add_trace(_value_trace("expected on new rows", "diamond", 0, end.honest.interval))
        if end.honest.held_out is not None:
            figure.add_trace(_value_trace("test split", "diamond-open", -0.3, end.honest.held_out))
    _add_band(figure, drawn[0], end)
    labels = {places[one.trial]: f"trial {one.trial}" for one in drawn} | {0: "on new rows"}
    figure.update_layout(xaxis_title=end.metric, hovermode="closest")
    figure.update_yaxes(tickvals=[*labels], ticktext=[*labels.values()], range=[-0.6, len(drawn) + 0.6])
    return figure


def _color(one: Standing, end: Confirmation) -> str:
    """Return the color of a contender: the winner's, of those that are left, or of those that are out."""
    if one.trial == end.winner:
        return _WINNER
    return _STILL_IN if one.left_at is None else _LEFT


def _means(group: list[Standing], places: list[int], name: str, color: str) -> go.Scatter:
    """Return the means of contenders with the intervals of their differences to the leader."""
    return go.Scatter(
        x=[one.mean for one in group],
        y=places,
        text=[_fate(one) for one in group],
        name=name,
        mode="markers",
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


def _value_trace(name: str, symbol: str, place: float, interval: Interval) -> go.Scatter:
    """Return a value of the winner's params with its interval, below the contenders."""
    value = interval.value
    sides = {"array": [interval.high - value], "arrayminus": [value - interval.low]}
    return go.Scatter(
        x=[value],
        y=[place],
        name=name,
        mode="markers",
        marker={"symbol": symbol, "size": 11, "color": _HONEST},
        error_x={"symmetric": False, "color": _HONEST, **sides},
        hovertemplate=f"{name}: {interval}<extra></extra>",
    )


def _add_band(figure: go.Figure, winner: Standing, end: Confirmation) -> None:
    """Shade what is worse than the winner by no more than counts."""
    if not end.equivalence or winner.mean is None:
        return
    worse = -end.equivalence if end.direction is Direction.MAXIMIZE else end.equivalence
    figure.add_vrect(x0=winner.mean, x1=winner.mean + worse, fillcolor=_BAND, line_width=0, layer="below")


def _looks(end: Confirmation) -> go.Figure:
    """Draw by how much another contender may be better, after each look."""
    seeds = [look.seeds for look in end.looks]
    figure = go.Figure()
    figure.add_scatter(
        x=seeds,
        y=[look.may_lose for look in end.looks],
        text=[f"out: {', '.join(map(str, look.left))}" if look.left else "nobody out" for look in end.looks],
        name="may be lost",
        mode="lines+markers",
        line={"color": _STILL_IN},
        hovertemplate="after %{x} trainings of each: %{y:.4g}, %{text}<extra></extra>",
    )
    figure.add_scatter(
        x=seeds,
        y=[look.equivalence for look in end.looks],
        name="does not matter",
        mode="lines",
        line={"color": _WINNER, "dash": "dash"},
        hovertemplate="%{y:.4g} does not matter<extra></extra>",
    )
    figure.update_layout(xaxis_title="trainings of each contender", yaxis_title=f"{end.metric}, lost")
    figure.update_xaxes(tickvals=seeds)
    figure.update_yaxes(rangemode="tozero")
    return figure
