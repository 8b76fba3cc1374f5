"""Words: the facts of an entry as phrases, the same wherever they are printed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from textwrap import fill, wrap

from .._formatting import aligned
from ..direction import ARROWS, Objective
from ..exceptions import MetricNameError, pip_line
from ..metrics.features import check_feature_type
from ..metrics.registry.entry import NOISE, MetricEntry, Observed
from ..metrics.registry.facts import Facts
from ..metrics.registry.index import all_entries, needs_of, observed_of
from ..metrics.registry.lookup import suggestion
from ..metrics.registry.params import Param

_WORDS = {Objective.MAXIMIZE: "maximize", Objective.MINIMIZE: "minimize", None: "no direction"}
_NOISES = ["perfect", *(f"{noise:.0%} noise".replace("%", " %") for noise in NOISE[1:])]
_WIDTH = 11
_MEAN = "the mean of the tasks' values (tasks=micro: the value of all their rows)"
_OF_ALL_ROWS = "the value of all their rows"
_POOLED = f"{_OF_ALL_ROWS} (tasks=macro: the mean of the tasks' values)"
_FACTS = [field.name for field in fields(Facts)]


def alike(entries: Iterable[MetricEntry]) -> list[list[MetricEntry]]:
    """Put entries together that differ in the output feature only."""
    ordered = sorted(entries, key=lambda e: (e.name, e.path, e.feature_type))
    groups = [list(group) for _, group in groupby(ordered, key=lambda e: (e.name, _told(e)))]
    return sorted(groups, key=lambda group: (group[0].name, group[0].feature_type))


def features_of(entries: Iterable[MetricEntry]) -> str:
    """Name their output features."""
    return ", ".join(entry.feature_type for entry in entries)


def form(entry: MetricEntry) -> str:
    """Print the name with the parameters that it needs.

    >>> from hpometrics.metrics.registry.register import find_metric
    >>> form(find_metric("f1_macro", "category").entries[0]), form(find_metric("hits@5").entries[0])
    ('f1(average=...)', 'hits@k')
    """
    needed = [param.name for param in entry.params if param.required or param.name in entry.one_of[:1]]
    inside = ", ".join(f"{name}=..." for name in needed if name != "k")
    return f"{entry.name}{f'({inside})' if inside else ''}{'@k' if 'k' in needed else ''}"


def direction(entry: MetricEntry) -> str:
    """Say which way is better."""
    return _WORDS[entry.objective]


def evidence(entries: Sequence[MetricEntry]) -> Iterator[str]:
    """Say what the experiments gave, for each output feature."""
    for entry in entries:
        where = f"of {entry.feature_type}" if len(entries) > 1 else "by experiment"
        yield f"{where}: {_seen(entry, observed_of(entry))}"


def _seen(entry: MetricEntry, observed: Observed | None) -> str:
    if observed is None:
        return "not tried; it is not built in"
    if observed.reason or not observed.values:
        return f"no values; {observed.reason}"
    told = [
        f"{'undefined' if value is None else f'{value:g}'} ({noise})"
        for value, noise in zip(observed.values, _NOISES, strict=True)
    ]
    return ", ".join(told) + (f" as {observed.subject}" if observed.subject != entry.name else "")


def param(one: Param, entry: MetricEntry) -> str:
    """Say what a parameter takes and what it is by default."""
    kinds = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a word"}
    taken = f"one of {', '.join(one.choices)}" if one.choices else kinds.get(one.kind, "given in Python only")
    if one.required:
        return f"{taken}; needed"
    if one.name in entry.one_of:
        others = [name for name in entry.one_of if name != one.name]
        return f"{taken}; this or {' or '.join(others)} is needed" if others else f"{taken}; needed"
    default = str(one.default).lower() if isinstance(one.default, bool) else one.default
    return f"{taken}; {'left out by default' if default is None else f'{default} by default'}"


def aliases(entry: MetricEntry) -> str:
    """Name its aliases, with what each means where that is more than the metric's name."""
    told = sorted((entry.aliases or {}).items())
    return ", ".join(alias if meaning == entry.name else f"{alias} = {meaning}" for alias, meaning in told)


def kept(entries: Sequence[MetricEntry]) -> str:
    """Say in which statistics its state is, and how much that is."""
    told: dict[str, list[str]] = {}
    for entry in entries:
        seen = observed_of(entry)
        if seen is not None and seen.memory:
            held = f"{', '.join(seen.statistics) or 'a state of its own'} ({seen.memory})"
            told.setdefault(held, []).append(entry.feature_type)
    if len(told) == 1:
        return next(iter(told))
    return "; ".join(f"{what} of {', '.join(types)}" for what, types in told.items())


def over_tasks(entries: Sequence[MetricEntry]) -> str:
    """Say how its value over tasks comes from theirs; empty where it was not tried."""
    told: dict[str, list[str]] = {}
    for entry in entries:
        seen = observed_of(entry)
        if seen is not None and seen.subject:
            pooled = _POOLED if seen.values else _OF_ALL_ROWS
            told.setdefault(pooled if seen.pools_tasks else _MEAN, []).append(entry.feature_type)
    if len(told) == 1:
        return next(iter(told))
    return "; ".join(f"{what} of {', '.join(types)}" for what, types in told.items())


def takes(entries: Sequence[MetricEntry]) -> str:
    """Say what else an update may be given."""
    first, seen = entries[0], [observed_of(entry) for entry in entries]
    needs = needs_of(first)
    optional = [extra for extra in first.extras if extra not in needs]
    parts = [
        f"{', '.join(f'{name}=' for name in needs)} (needed)" if needs else "",
        ", ".join(f"{name}=" for name in optional),
        "sample_weight=" if seen and all(one is not None and one.weighted for one in seen) else "",
        "target_probabilities= (soft labels)" if first.reads_soft else "",
    ]
    return ", ".join(part for part in parts if part)


def left_out(entries: Sequence[MetricEntry]) -> str:
    """Say why the group `all` is without it, where that is for the data; empty if it is not."""
    seen = {entry.feature_type: observed_of(entry) for entry in entries if not needs_of(entry)}
    told = {kind: one.refuses for kind, one in seen.items() if one is not None and one.refuses}
    where = f"of {', '.join(told)}: " if len(entries) > 1 else ""
    return f"{where}not in `all`; {next(iter(told.values()))}" if told else ""


def install(entry: MetricEntry) -> str:
    """Return the command that installs what it is built on; empty if nothing more is needed."""
    return pip_line(entry.requires) if entry.requires else ""


def _told(entry: MetricEntry) -> tuple[object, ...]:
    facts = (getattr(entry, name) for name in _FACTS)
    return entry.path, str(sorted((entry.aliases or {}).items())), *facts


def wrapped(lines: Iterable[tuple[str, str]], width: int | None) -> Iterator[str]:
    """Give the lines of a page, a word and what it says; the first line is a name alone."""
    rest = iter(lines)
    yield next(rest)[1]
    for word, fact in rest:
        text = f"  {word:<{_WIDTH - 1}} {fact}"
        indent = " " * (_WIDTH + 2)
        yield (
            text
            if width is None
            else fill(text, max(width, 60), subsequent_indent=indent, break_long_words=False)
        )


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
        f"{directed} can be optimized, {rest} tracked only. `hpometrics metrics show NAME` tells more"
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
