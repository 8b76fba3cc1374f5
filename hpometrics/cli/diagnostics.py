"""The diagnostics: what `hpometrics metrics list` adds to the metrics, and `metrics show` says of one."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import wrap

from ..metrics.registry.diagnostics import DIAGNOSTICS, Diagnostic, OverRanks
from ..results.formatting import ARROWS, aligned

_TITLE = "diagnostics, which a run records by itself:"
_OVER_RANKS: dict[OverRanks, str] = {
    "sum": "the sum of all ranks",
    "mean": "the mean of the ranks",
    "max": "that of the rank with the most",
    "min": "that of the rank with the least",
    "first": "that of the first rank",
    "pooled": "of all ranks together",
}
_HEAD = ("name", "objective", "unit", "of", "meaning")


def diagnostics_table(width: int | None = None) -> str:
    """Print a line per diagnostic; on a terminal of this width, what does not fit is wrapped."""
    rows = [_row(one) for one in DIAGNOSTICS.values()]
    if width is None:
        return f"{_TITLE}\n{aligned([_HEAD, *rows], align='<')}"
    lines = (f"{name:<20} {way:<10} {meaning}" for name, way, _, _, meaning in rows)
    return "\n".join(
        [_TITLE, *(line for one in lines for line in wrap(one, width, subsequent_indent="    "))]
    )


def diagnostic_text(known: Diagnostic) -> str:
    """Print all that is known of a diagnostic."""
    return "\n".join([known.name, *(f"  {word:<10} {fact}" for word, fact in _facts(known) if fact)])


def _row(known: Diagnostic) -> tuple[str, ...]:
    way = f"{known.objective.value}{ARROWS[known.objective]}" if known.objective else "-"
    return known.name, way, known.unit or "-", _scope(known), known.meaning


def _facts(known: Diagnostic) -> Iterator[tuple[str, str]]:
    stated = "" if known.objective else ", direction: minimize"
    yield "meaning", known.meaning
    yield "unit", known.unit
    yield "direction", known.objective.value if known.objective else "no direction"
    yield "of", _scope(known)
    yield "over tasks", _over_tasks(known)
    yield "over ranks", _OVER_RANKS[known.over_ranks]
    yield "comes from", known.comes_from
    yield "in YAML", f"metrics: {{optimize: {{metric: {known}{stated}}}}}"


def _scope(known: Diagnostic) -> str:
    return "each task" if known.per_task else "the run"


def _over_tasks(known: Diagnostic) -> str:
    if not known.per_task:
        return ""
    return "the sum of the tasks" if known.over_ranks == "sum" else "the mean of the tasks' values"
