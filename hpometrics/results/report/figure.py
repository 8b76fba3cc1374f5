"""A figure of the report: plotly's drawings with what is to be said of them, or why there are none."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_CLEAR, _GRID = "rgba(0, 0, 0, 0)", "rgba(128, 128, 128, 0.25)"
_TICKS = 6
_MOST_DOTS = 5000


@dataclass(frozen=True)
class Figure:
    """One or more drawings of one kind.

    Args:
        name: a short one, for links.
        title: of its section.
        caption: how to read it; where there is no drawing, the reason.
        drawings: plotly's JSON, `{"data": [...], "layout": {...}}`.
    """

    name: str
    title: str
    caption: str
    drawings: tuple[dict[str, Any], ...] = ()


def count_whole(figure: Any, count: int) -> None:
    """Label an axis of few trials or epochs by whole numbers; of many plotly chooses such itself."""
    if count <= _TICKS:
        figure.update_xaxes(tickmode="linear", tick0=0, dtick=1)


def thin(figure: Any) -> str:
    """Leave out dots of traces that have too many for a browser, and return the sentence that says so."""
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
    """Give a `plotly.graph_objects.Figure` as plain JSON, in the colours and the width of the page."""
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
    )
    figure.update_layout(modebar={"bgcolor": _CLEAR, "color": _GRID, "activecolor": _GRID})
    axis = {"gridcolor": _GRID, "zerolinecolor": _GRID, "automargin": True, "title_font_size": 13}
    figure.update_xaxes(nticks=_TICKS, exponentformat="e", **axis)
    figure.update_yaxes(nticks=_TICKS, exponentformat="e", **axis)
    plain: dict[str, Any] = json.loads(figure.to_json())
    return plain
