"""Drawings of plotly as plain JSON, in the colors of the page, and the span of an axis of values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ...direction import Direction
from ..manifest import Resolved

Trace: TypeAlias = dict[str, Any]

BLUE, GREEN, ORANGE, RED, GRAY = "#5088c5", "#2ca02c", "#e08214", "#d62728", "#888888"
CLEAR, GRID = "rgba(0, 0, 0, 0)", "rgba(128, 128, 128, 0.25)"
STAR = {"symbol": "star", "size": 14, "color": GREEN, "line": {"width": 1, "color": "white"}}
TICKS = 6
_MOST_DOTS = 5000
_UPLOADS = ["sendChartToCloud", "sendDataToCloud"]  # buttons of plotly.js 4 and of earlier ones
_FENCE = 1.5  # interquartile ranges beyond the worse quartile, as Tukey has it
_EDGE = 0.06  # of a span, beyond its ends
_LEAST = 5  # values that have quartiles
OUTSIDE, MOST, ALL = "outside", "most", "all"
"""Names that the switch of the page looks for: marks at an edge, lines over a part of an axis or all."""


@dataclass(frozen=True)
class Figure:
    """One or more drawings of one kind.

    Args:
        name: a short name for links.
        title: the title of its section.
        caption: how to read it; without a drawing, the reason.
        drawings: plotly's JSON, `{"data": [...], "layout": {...}}`.
    """

    name: str
    title: str
    caption: str
    drawings: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True)
class Dot:
    """A trial in a drawing of values, with its place; an infeasible one breaks a constraint."""

    number: int
    x: Any
    value: float
    infeasible: bool = False


def scatter(x: Iterable[Any], y: Iterable[Any], name: str, mode: str = "markers", **facts: Any) -> Trace:
    """Return a trace of dots or lines."""
    return {"type": "scatter", "x": [*x], "y": [*y], "name": name, "mode": mode, **facts}


def drawing(
    data: Sequence[Trace],
    label: str,
    titles: tuple[str | None, str | None],
    height: int = 380,
    meta: Mapping[str, Any] | None = None,
    **layout: Any,
) -> dict[str, Any]:
    """Return plotly's JSON of a drawing, in the colors and the width of the page.

    Args:
        data: its traces.
        label: what it shows, for those who cannot see it.
        titles: of its two axes.
        height: in pixels.
        meta: what the script of the page reads beside the label.
        layout: more of plotly's layout; `xaxis` and `yaxis` are added to those of the page.
    """
    axes = {
        name: {
            "gridcolor": GRID,
            "zerolinecolor": GRID,
            "automargin": True,
            "nticks": TICKS,
            "exponentformat": "e",
            "title": {"text": title, "font": {"size": 13}, "standoff": 8},
            **layout.pop(name, {}),
        }
        for name, title in zip(("xaxis", "yaxis"), titles, strict=True)
    }
    common = {
        "template": {},
        "height": height,
        "margin": {"l": 60, "r": 16, "t": 24, "b": 48},
        "paper_bgcolor": CLEAR,
        "plot_bgcolor": CLEAR,
        "font": {"family": "system-ui, sans-serif", "size": 13},
        "legend": {"orientation": "h", "y": 1, "yanchor": "bottom", "x": 0},
        "modebar": {"bgcolor": CLEAR, "color": GRID, "activecolor": GRID, "remove": _UPLOADS},
        "hovermode": "closest",
        "meta": {"label": label, **(meta or {})},
    }
    return {"data": [*data], "layout": {**common, **axes, **layout}}


def whole_numbers(count: int) -> dict[str, Any]:
    """Return how an axis of few trials or epochs is labeled; of many, plotly chooses whole numbers itself."""
    return {"tickmode": "linear", "tick0": 0, "dtick": 1} if count <= TICKS else {}


def value_span(values: Iterable[float], direction: Direction) -> tuple[float, float] | None:
    """Return the ends of an axis that values far worse than most do not squeeze; None if there are none.

    Far worse is what lies beyond Tukey's fence on the worse side and makes the axis more than twice as long.

    >>> value_span([0.97, 0.975, 0.96, 0.98, 0.2], Direction.MAXIMIZE)
    (0.9588, 0.9812)
    >>> value_span([0.97, 0.975, 0.96, 0.98], Direction.MAXIMIZE)
    """
    keys = sorted(direction.sort_key(value) for value in values)
    if len(keys) < _LEAST:
        return None
    quarter, three = (keys[round(share * (len(keys) - 1))] for share in (0.25, 0.75))
    inside = [key for key in keys if key <= three + _FENCE * (three - quarter)]
    length = inside[-1] - inside[0]
    if not length or keys[-1] - keys[0] <= 2 * length:
        return None
    ends = (inside[0] - _EDGE * length, inside[-1] + _EDGE * length)
    low, high = sorted(direction.sort_key(end) for end in ends)
    return low, high


def thin(dots: Sequence[Dot], best: int | None) -> tuple[Sequence[Dot], str]:
    """Return no more dots than a browser takes, evenly spread, with the winner, and a sentence on it."""
    if len(dots) <= _MOST_DOTS:
        return dots, ""
    places = {place * (len(dots) - 1) // (_MOST_DOTS - 1) for place in range(_MOST_DOTS)}
    drawn = [dot for place, dot in enumerate(dots) if place in places or dot.number == best]
    return drawn, f" {len(drawn):,} of {len(dots):,} dots are drawn, evenly spread."


def star_name(resolved: Resolved) -> str:
    """Return the name of the marked trial: several objectives have no winner, but a knee or a pick."""
    return "winner" if not resolved.others else "knee" if resolved.pick == "knee" else "pick"


def wide_span(spans: Iterable[tuple[float, float]]) -> tuple[float, float]:
    """Return the ends of an axis on which each of these spans is whole."""
    lows, highs = zip(*spans, strict=True)
    edge = _EDGE * (max(highs) - min(lows))
    return min(lows) - edge, max(highs) + edge


def value_drawing(
    dots: Sequence[Dot],
    best: int | None,
    resolved: Resolved,
    label: str,
    titles: tuple[str, str],
    more: Sequence[Trace] = (),
    height: int = 380,
    costs: bool = False,
    **layout: Any,
) -> dict[str, Any]:
    """Draw values of trials over a number or a choice, with the winner or the knee marked.

    Values that would squeeze the axis stand at its edge as triangles; the page has a switch that shows all.

    Args:
        dots: the trials.
        best: the number of the winner or the knee.
        resolved: the resolved sweep, which has the direction of the values.
        label: as in `drawing`, as are `titles`, `height` and `layout`.
        titles: of the two axes.
        more: traces beside the dots.
        height: in pixels.
        costs: whether the places are costs, of which few far higher ones would squeeze their axis too.
        layout: more of plotly's layout.
    """
    groups = {
        "complete": ([dot for dot in dots if not dot.infeasible and dot.number != best], BLUE),
        "infeasible": ([dot for dot in dots if dot.infeasible], GRAY),
    }
    data = [
        _dots(group, name, {"size": 7, "color": color, "opacity": 0.75})
        for name, (group, color) in groups.items()
        if group
    ]
    direction, star = resolved.direction, f"{star_name(resolved)} (trial {best})"
    data = [*more, *data, *(_dots([d], star, STAR) for d in dots if d.number == best)]
    spans = {
        "yaxis": value_span([dot.value for dot in dots if not dot.infeasible], direction),
        "xaxis": value_span([dot.x for dot in dots], Direction.MINIMIZE) if costs else None,
    }
    known = {axis: span for axis, span in spans.items() if span is not None}
    if not known:
        return drawing(data, label, titles, height, **layout)
    marks = _edge_marks(dots, direction, known.get("xaxis"), known.get("yaxis"))
    layout |= {axis: {**layout.get(axis, {}), "range": [*span]} for axis, span in known.items()}
    return drawing([*data, marks], label, titles, height, {"spans": known}, **layout)


def _edge_marks(
    dots: Sequence[Dot],
    direction: Direction,
    across: tuple[float, float] | None,
    up: tuple[float, float] | None,
) -> Trace:
    """Return triangles at the edge for the dots beyond one of two axes, where those have ends."""
    symbols, places, outside = [], [], []
    for dot in dots:
        low, high = up or (dot.value, dot.value)
        value = min(high, max(low, dot.value))
        x = dot.x if across is None else min(across[1], max(across[0], dot.x))
        if (x, value) != (dot.x, dot.value):
            worse = "triangle-down" if direction is Direction.MAXIMIZE else "triangle-up"
            symbols.append("triangle-right" if value == dot.value else worse)
            places.append((x, value))
            outside.append(dot)
    return beyond(
        [x for x, _ in places],
        [y for _, y in places],
        symbols,
        [f"trial {dot.number}: {dot.value:.6g}" for dot in outside],
        "%{text}, %{customdata}<extra></extra>",
        customdata=[dot.x for dot in outside],
    )


def beyond(
    x: Sequence[Any],
    y: Sequence[Any],
    symbols: str | Sequence[str],
    texts: Sequence[str],
    hover: str,
    **facts: Any,
) -> Trace:
    """Return triangles at the edge of an axis for trials whose values are beyond it."""
    return scatter(
        x,
        y,
        f"beyond the axis ({len(texts)})",
        text=texts,
        marker={"symbol": symbols, "size": 9, "color": ORANGE},
        hovertemplate=hover,
        meta=OUTSIDE,
        cliponaxis=False,
        **facts,
    )


def data_rows(drawn: Mapping[str, Any]) -> list[list[str]]:
    """Return what a drawing shows as a table: a row for each dot, or for each line of a trial."""
    traces = [
        one for one in drawn["data"] if one["type"] != "contour" and one.get("meta") not in (OUTSIDE, ALL)
    ]
    across, up = (drawn["layout"][axis]["title"]["text"] for axis in ("xaxis", "yaxis"))
    if any("customdata" in trace for trace in traces):
        head = ["series", "trial", f"{up} by {across}" if across and up else "values"]
        return [head, *(row for trace in traces for row in _line_rows(trace))]
    head = ["series", across or "axis", up or "height", "note"]
    return [head, *(row for trace in traces for row in _dot_rows(trace))]


def _dot_rows(trace: Trace) -> Iterator[list[str]]:
    texts = trace.get("text") or [""] * len(trace["x"])
    for x, y, text in zip(trace["x"], trace["y"], texts, strict=True):
        if not (_is_missing(x) or _is_missing(y)):
            yield [trace.get("name", ""), _cell(x), _cell(y), text]


def _line_rows(trace: Trace) -> Iterator[list[str]]:
    """Yield a row for each trial of a trace of lines; its points are texts, or places with values."""
    numbers, own = trace.get("customdata"), trace.get("text")
    points: dict[str, list[str]] = {}
    for n, (x, y) in enumerate(zip(trace["x"], trace["y"], strict=True)):
        if not (_is_missing(x) or _is_missing(y)):
            trial = f"trial {numbers[n]}" if numbers else own[n] if own else ""
            value = own[n] if numbers and own else f"{_cell(x)}: {_cell(y)}"
            points.setdefault(trial, []).append(value)
    for trial, values in points.items():
        yield [trace.get("name", ""), trial, ", ".join(values)]


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and not math.isfinite(value))


def _cell(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def outside_remark(drawings: Sequence[Mapping[str, Any]], which: str = "values much worse than most") -> str:
    """Return the sentence on triangles, which are trials of such values; empty if no drawing has any."""
    counts = [len(trace["x"]) for one in drawings for trace in one["data"] if trace.get("meta") == OUTSIDE]
    return f" Triangles at the edge, {max(counts)}, are trials with {which}." if counts else ""


def _dots(dots: Sequence[Dot], name: str, marker: Mapping[str, Any]) -> Trace:
    return scatter(
        [dot.x for dot in dots],
        [dot.value for dot in dots],
        name,
        text=[f"trial {dot.number}: {dot.value:.6g}" for dot in dots],
        marker={**marker},
        hovertemplate="%{text}, %{x}<extra></extra>",
    )
