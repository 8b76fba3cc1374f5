"""The list: what `hpometrics metrics list` prints, a line per metric and the count at the end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from ..exceptions import MetricNameError
from ..metrics.features import check_feature_type
from ..metrics.registry.entry import MetricEntry
from ..metrics.registry.index import all_entries
from ..metrics.registry.lookup import suggestion
from ..results.formatting import ARROWS, aligned
from .metric_list import alike, direction, features_of, form

_WIDE = 100  # columns from which a table is readable

HEAD = ("name", "objective", "reads", "features", "meaning")


@dataclass(frozen=True)
class Filter:
    """What is asked for; None asks for nothing. `objective` may be `none`."""

    feature: str | None = None
    inputs: str | None = None
    objective: str | None = None
    family: str | None = None

    def chosen(self) -> list[MetricEntry]:
        """The entries that are like that.

        Raises:
            MetricInputError: there is no such output feature.
            MetricNameError: there is no such family; the message lists those there are.
        """
        if self.feature is not None:
            check_feature_type(self.feature)
        entries = all_entries(self.feature)
        families = sorted({family for entry in entries for family in entry.families})
        if self.family is not None and self.family not in families:
            where = f" of {self.feature}" if self.feature else ""
            raise MetricNameError(
                f"no family {self.family!r}{where}.{suggestion(self.family, families)} "
                f"Choose from {', '.join(families)}"
            )
        return [entry for entry in entries if self._holds(entry)]

    def _holds(self, entry: MetricEntry) -> bool:
        return (
            self.inputs in (None, entry.inputs.value)
            and self.objective in (None, entry.objective.value if entry.objective else "none")
            and (self.family is None or self.family in entry.families)
        )


def metrics_table(asked: Filter, width: int | None = None) -> str:
    """Print a line per metric; on a terminal of this width, what does not fit is wrapped."""
    chosen = asked.chosen()
    rows = [_row(group) for group in alike(chosen)]
    if not rows:
        return "no metric is like that"
    count = [_count(chosen)] if width is None else wrap(_count(chosen), width)
    return "\n".join([lined_up(HEAD, rows, width), *count])


def lined_up(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Put rows under their heads: in whole lines, or wrapped for a terminal of this width."""
    if width is None:
        return aligned([head, *rows], align="<")
    return _drawn(head, rows, width) if width >= _WIDE else _stacked(rows, width)


def metrics_json(asked: Filter) -> str:
    """Give the same as JSON."""
    rows = [
        {
            "name": group[0].name,
            "form": form(group[0]),
            "objective": group[0].objective and group[0].objective.value,
            "inputs": group[0].inputs.value,
            "features": [entry.feature_type for entry in group],
            "families": list(group[0].families),
            "aliases": dict(group[0].aliases or {}),
            "requires": group[0].requires,
            "summary": group[0].summary,
        }
        for group in alike(asked.chosen())
    ]
    return json.dumps(rows, indent=1)


def _row(entries: Sequence[MetricEntry]) -> tuple[str, ...]:
    first = entries[0]
    return form(first), way(first), first.inputs.value, features_of(entries), first.summary


def way(entry: MetricEntry) -> str:
    """Say which way is better, with an arrow; `-` where none is."""
    return f"{direction(entry)}{ARROWS[entry.objective]}" if entry.objective else "-"


def _count(chosen: Sequence[MetricEntry]) -> str:
    names = len({entry.name for entry in chosen})
    directed = sum(entry.objective is not None for entry in chosen)
    rest = len(chosen) - directed
    return (
        f"{_number(names, 'name')}, {_number(len(chosen), 'metric')} (a name of one output feature each): "
        f"{directed} can be optimised, {rest} tracked only. `hpometrics metrics show NAME` tells more"
    )


def _number(count: int, thing: str) -> str:
    return f"{count} {thing}{'' if count == 1 else 's'}"


def _drawn(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> str:
    """Draw the table for a terminal: names whole, the meaning wrapped in what is left."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for title in head:
        wraps = title in ("features", "meaning")
        table.add_column(title, no_wrap=not wraps, overflow="fold", min_width=12 if wraps else None)
    for row in rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    console = Console(width=width, color_system=None, highlight=False)
    with console.capture() as drawn:
        console.print(table)
    return "\n".join(line.rstrip() for line in drawn.get().rstrip().splitlines())


def _stacked(rows: Sequence[Sequence[str]], width: int) -> str:
    """Write the facts of a metric above its meaning, for a terminal too narrow for a table."""
    lines: list[str] = []
    for name, better, reads, *features, meaning in rows:
        facts = "; ".join([f"{name}  {better}, reads {reads}", *features])
        lines += wrap(facts, width, subsequent_indent="    ")
        lines += wrap(meaning, width, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)
