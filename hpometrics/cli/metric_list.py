"""The list of metrics, and the facts of an entry as phrases, the same wherever they are printed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from itertools import groupby
from textwrap import fill, wrap

from .._formatting import aligned, json_text, plural, ruled
from .._text import did_you_mean
from ..direction import ARROWS, LEGEND, Direction
from ..exceptions import MetricNameError, pip_line
from ..metrics.features import check_feature_type
from ..metrics.registry.facts import Facts, Param
from ..metrics.registry.index import NOISE, MetricEntry, Observed, all_entries, needs_of, observed_of

_WORDS = {Direction.MAXIMIZE: "maximize", Direction.MINIMIZE: "minimize", None: "no direction"}
HEAD = ("name", "direction", "reads", "features", "meaning")
_NOISES = ["perfect", *(f"{noise:.0%} noise".replace("%", " %") for noise in NOISE[1:])]
_WIDTH = 11
_MEAN = "the mean of the tasks' values (tasks=micro: the value of all their rows)"
_OF_ALL_ROWS = "the value of all their rows"
_POOLED = f"{_OF_ALL_ROWS} (tasks=macro: the mean of the tasks' values)"
_FACTS = [field.name for field in fields(Facts)]
_WRAPPED = {"features": 26, "meaning": 48}  # columns that a table may wrap, to this many characters
_BETWEEN = 3  # characters between two columns


def group_entries(entries: Iterable[MetricEntry]) -> list[list[MetricEntry]]:
    """Group entries that differ in the output feature only."""
    ordered = sorted(entries, key=lambda e: (e.name, e.path, e.feature_type))
    groups = [list(group) for _, group in groupby(ordered, key=lambda e: (e.name, _facts_key(e)))]
    return sorted(groups, key=lambda group: (group[0].name, group[0].feature_type))


def format_features(entries: Iterable[MetricEntry]) -> str:
    """Return the output features of entries."""
    return ", ".join(entry.feature_type for entry in entries)


def format_name(entry: MetricEntry) -> str:
    """Return the name with the parameters that it needs.

    >>> from hpometrics.metrics.registry.lookup import find_metric
    >>> f1, hits = find_metric("f1_macro", "category"), find_metric("hits@5")
    >>> format_name(f1.entries[0]), format_name(hits.entries[0])
    ('f1(average=...)', 'hits@k')
    """
    needed = [param.name for param in entry.params if param.required or param.name in entry.one_of[:1]]
    inside = ", ".join(f"{name}=..." for name in needed if name != "k")
    return f"{entry.name}{f'({inside})' if inside else ''}{'@k' if 'k' in needed else ''}"


def direction_word(entry: MetricEntry) -> str:
    """Return the word for the direction of a metric."""
    return _WORDS[entry.direction]


def format_evidence(entries: Sequence[MetricEntry]) -> Iterator[str]:
    """Return the values of the experiments, for each output feature."""
    for entry in entries:
        where = f"of {entry.feature_type}" if len(entries) > 1 else "by experiment"
        yield f"{where}: {_format_observed(entry, observed_of(entry))}"


def _format_observed(entry: MetricEntry, observed: Observed | None) -> str:
    if observed is None:
        return "not tested; it is not built in"
    if observed.reason or not observed.values:
        return f"no values; {observed.reason}"
    values = [
        f"{'undefined' if value is None else f'{value:g}'} ({noise})"
        for value, noise in zip(observed.values, _NOISES, strict=True)
    ]
    return ", ".join(values) + (f" as {observed.subject}" if observed.subject != entry.name else "")


def format_param(param: Param, entry: MetricEntry) -> str:
    """Return the values that a parameter accepts, and its default."""
    kinds = {"int": "a whole number", "float": "a number", "bool": "true or false", "str": "a word"}
    accepted = (
        f"one of {', '.join(param.choices)}"
        if param.choices
        else kinds.get(param.kind, "can be given in Python only")
    )
    if param.required:
        return f"{accepted}; needed"
    if param.name in entry.one_of:
        others = [name for name in entry.one_of if name != param.name]
        return f"{accepted}; required: this or {' or '.join(others)}" if others else f"{accepted}; needed"
    default = str(param.default).lower() if isinstance(param.default, bool) else param.default
    return f"{accepted}; {'left out by default' if default is None else f'{default} by default'}"


def format_aliases(entry: MetricEntry) -> str:
    """Return the aliases, each with its meaning if that is more than the metric's name."""
    names = sorted((entry.aliases or {}).items())
    return ", ".join(alias if meaning == entry.name else f"{alias} = {meaning}" for alias, meaning in names)


def format_statistics(entries: Sequence[MetricEntry]) -> str:
    """Return the statistics that hold the state, and their size."""
    observations = [(entry.feature_type, observed_of(entry)) for entry in entries]
    return _by_feature(
        (f"{', '.join(one.statistics) or 'its own state'} ({one.memory})", kind)
        for kind, one in observations
        if one is not None and one.memory
    )


def format_over_tasks(entries: Sequence[MetricEntry]) -> str:
    """Return how the value over tasks follows from theirs; empty if no experiment was run."""
    observations = [(entry.feature_type, observed_of(entry)) for entry in entries]
    return _by_feature(
        (_over_tasks(one), kind) for kind, one in observations if one is not None and one.subject
    )


def _over_tasks(observed: Observed) -> str:
    if not observed.pools_tasks:
        return _MEAN
    return _POOLED if observed.values else _OF_ALL_ROWS


def _by_feature(texts: Iterable[tuple[str, str]]) -> str:
    """Join texts, each with its output features unless it is the only one."""
    feature_types: dict[str, list[str]] = {}
    for text, feature_type in texts:
        feature_types.setdefault(text, []).append(feature_type)
    if len(feature_types) == 1:
        return next(iter(feature_types))
    return "; ".join(f"{text} of {', '.join(kinds)}" for text, kinds in feature_types.items())


def format_extra_inputs(entries: Sequence[MetricEntry]) -> str:
    """Return the further arguments of `update`."""
    first, observations = entries[0], [observed_of(entry) for entry in entries]
    needs = needs_of(first)
    optional = [extra for extra in first.extras if extra not in needs]
    parts = [
        f"{', '.join(f'{name}=' for name in needs)} (needed)" if needs else "",
        ", ".join(f"{name}=" for name in optional),
        "sample_weight="
        if observations and all(one is not None and one.weighted for one in observations)
        else "",
        "target_probabilities= (soft labels)" if first.reads_soft else "",
    ]
    return ", ".join(part for part in parts if part)


def format_exclusion(entries: Sequence[MetricEntry]) -> str:
    """Return why the group `all` leaves the metric out because of the data; empty if it does not."""
    observations = {entry.feature_type: observed_of(entry) for entry in entries if not needs_of(entry)}
    refusals = {kind: one.refuses for kind, one in observations.items() if one is not None and one.refuses}
    where = f"of {', '.join(refusals)}: " if len(entries) > 1 else ""
    return f"{where}not in `all`; {next(iter(refusals.values()))}" if refusals else ""


def install_command(entry: MetricEntry) -> str:
    """Return the command that installs the packages of the metric; empty if it needs none."""
    return pip_line(entry.requires) if entry.requires else ""


def _facts_key(entry: MetricEntry) -> tuple[object, ...]:
    facts = (getattr(entry, name) for name in _FACTS)
    return entry.path, str(sorted((entry.aliases or {}).items())), *facts


def wrap_page(lines: Iterable[tuple[str, str]], width: int | None) -> Iterator[str]:
    """Return the lines of a page, each a word and its text; the first line is a name alone."""
    rest = iter(lines)
    yield next(rest)[1]
    for word, fact in rest:
        text = f"  {word:<{_WIDTH - 1}} {fact}"
        yield (
            text
            if width is None
            else fill(text, max(width, 60), subsequent_indent=" " * (_WIDTH + 2), break_long_words=False)
        )


@dataclass(frozen=True)
class Filter:
    """A selection of metrics; None selects all. `direction` may be `none`."""

    feature: str | None = None
    inputs: str | None = None
    direction: str | None = None
    family: str | None = None

    def entries(self) -> list[MetricEntry]:
        """Return the selected entries.

        Raises:
            MetricInputError: there is no such output feature.
            MetricNameError: there is no such family; the message lists the families.
        """
        if self.feature is not None:
            check_feature_type(self.feature)
        entries = all_entries(self.feature)
        families = sorted({family for entry in entries for family in entry.families})
        if self.family is not None and self.family not in families:
            where = f" of {self.feature}" if self.feature else ""
            raise MetricNameError(
                f"no family {self.family!r}{where}{did_you_mean(self.family, families) or '.'} "
                f"Choose from {', '.join(families)}"
            )
        return [entry for entry in entries if self._matches(entry)]

    def _matches(self, entry: MetricEntry) -> bool:
        return (
            self.inputs in (None, entry.inputs.value)
            and self.direction in (None, entry.direction.value if entry.direction else "none")
            and (self.family is None or self.family in entry.families)
        )


def metrics_table(selection: Filter, width: int | None = None) -> str:
    """Return a line per metric; on a terminal of this width, long lines are wrapped."""
    entries = selection.entries()
    rows = [_row(group) for group in group_entries(entries)]
    if not rows:
        return "no metric matches"
    count = [_count(entries)] if width is None else wrap(_count(entries), width)
    legend = [] if width is None else [LEGEND]
    return "\n".join([format_table(HEAD, rows, width), *legend, *count])


def format_table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None) -> str:
    """Return rows below a head: in whole lines, or for a terminal of this width.

    A terminal in which the columns do not fit has the facts of each row above its meaning.
    """
    if width is None:
        return aligned([head, *rows], align="<")
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    least = (min(size, _WRAPPED.get(title, size)) for title, size in zip(head, widths, strict=True))
    if width < sum(least) + _BETWEEN * (len(head) - 1):
        return _format_narrow_table(rows, width)
    return ruled(head, rows, width, wrapped=_WRAPPED)


def metrics_json(selection: Filter) -> str:
    """Return the list as JSON."""
    rows = [
        {
            "name": group[0].name,
            "form": format_name(group[0]),
            "objective": group[0].direction and group[0].direction.value,
            "inputs": group[0].inputs.value,
            "features": [entry.feature_type for entry in group],
            "families": list(group[0].families),
            "aliases": dict(group[0].aliases or {}),
            "requires": group[0].requires,
            "summary": group[0].summary,
        }
        for group in group_entries(selection.entries())
    ]
    return json_text(rows)


def _row(entries: Sequence[MetricEntry]) -> tuple[str, ...]:
    first = entries[0]
    return (
        format_name(first),
        format_direction(first),
        first.inputs.value,
        format_features(entries),
        first.summary,
    )


def format_direction(entry: MetricEntry) -> str:
    """Return the direction with an arrow; `-` if the metric has none."""
    return f"{direction_word(entry)}{ARROWS[entry.direction]}" if entry.direction else "-"


def _count(entries: Sequence[MetricEntry]) -> str:
    names = len({entry.name for entry in entries})
    directed = sum(entry.direction is not None for entry in entries)
    return (
        f"{plural(names, 'name')}, {plural(len(entries), 'metric')} (one name per output feature): "
        f"{directed} can be optimized, {len(entries) - directed} tracked only. "
        "`hpometrics metrics show NAME` shows more"
    )


def _format_narrow_table(rows: Sequence[Sequence[str]], width: int) -> str:
    """Return the facts of each metric above its meaning, for a terminal too narrow for a table."""
    lines: list[str] = []
    for name, better, reads, *features, meaning in rows:
        facts = "; ".join([f"{name}  {better}, reads {reads}", *features])
        lines += wrap(facts, width, subsequent_indent="    ")
        lines += wrap(meaning, width, initial_indent="    ", subsequent_indent="    ")
    return "\n".join(lines)
