"""The page of one metric: what `hpometrics metrics show NAME` prints."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from textwrap import wrap
from typing import Any

from .._formatting import aligned
from ..direction import ARROWS
from ..exceptions import MetricNameError
from ..metrics.features import FEATURES, RANKING, check_feature_type
from ..metrics.registry.diagnostics import DIAGNOSTICS, Diagnostic, OverRanks, diagnostic
from ..metrics.registry.entry import NOISE, MetricEntry, Observed
from ..metrics.registry.groups import family_of, group_named, group_names, members_of
from ..metrics.registry.index import all_entries, load_plugins, needs_of, observed_of
from ..metrics.registry.lookup import find_metric, possible_meanings
from ..metrics.registry.names import MetricName
from .metric_list import (
    aliases,
    alike,
    direction,
    evidence,
    features_of,
    form,
    install,
    kept,
    left_out,
    lined_up,
    over_tasks,
    param,
    takes,
    way,
    wrapped,
)
from .other_libraries import in_full, libraries_of

_TITLE = "diagnostics, which a run records by itself:"
_OVER_RANKS: dict[OverRanks, str] = {
    "sum": "the sum of all ranks",
    "mean": "the mean of the ranks",
    "max": "that of the rank with the most",
    "min": "that of the rank with the least",
    "first": "that of the first rank",
    "pooled": "of all ranks together",
}
_DIAGNOSTIC_HEAD = ("name", "objective", "unit", "of", "meaning")


def diagnostics_table(width: int | None = None) -> str:
    """Print a line per diagnostic; on a terminal of this width, what does not fit is wrapped."""
    rows = [_row(one) for one in DIAGNOSTICS.values()]
    if width is None:
        return f"{_TITLE}\n{aligned([_DIAGNOSTIC_HEAD, *rows], align='<')}"
    lines = (f"{name:<20} {way:<10} {meaning}" for name, way, _, _, meaning in rows)
    return "\n".join(
        [_TITLE, *(line for one in lines for line in wrap(one, width, subsequent_indent="    "))]
    )


def diagnostic_text(known: Diagnostic) -> str:
    """Print all that is known of a diagnostic."""
    return "\n".join(
        [known.name, *(f"  {word:<10} {fact}" for word, fact in _diagnostic_facts(known) if fact)]
    )


def _row(known: Diagnostic) -> tuple[str, ...]:
    way = f"{known.objective.value}{ARROWS[known.objective]}" if known.objective else "-"
    return known.name, way, known.unit or "-", _scope(known), known.meaning


def _diagnostic_facts(known: Diagnostic) -> Iterator[tuple[str, str]]:
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


_HEAD = ("name", "objective", "reads", "meaning")
_MEANINGS = {
    "default": "a group: a short choice of metrics for each output",
    "words": "a group: a short choice of metrics for texts that are given as strings",
    "all": "a group: every metric of an output that needs nothing further and has a direction",
}

Member = tuple[MetricName, MetricEntry]


def group_text(group: str, feature: str | None = None, width: int | None = None) -> str:
    """Print what a group is, and its members: for one output feature, or for each that has it.

    Raises:
        MetricNameError: there is none for the output feature.
    """
    members = _by_feature(group, feature)
    facts = [("", group), ("meaning", _meaning(group)), *_usage(group, members)]
    parts = ["\n".join(wrapped(facts, width))]
    return "\n\n".join([*parts, *(_part(group, kind, chosen, width) for kind, chosen in members.items())])


def group_json(group: str, feature: str | None = None) -> str:
    """Give the same as JSON.

    Raises:
        MetricNameError: see `group_text`.
    """
    members = {
        kind: [
            {
                "name": str(name),
                "objective": entry.objective and entry.objective.value,
                "inputs": entry.inputs.value,
                "summary": entry.summary,
            }
            for name, entry in chosen
        ]
        for kind, chosen in _by_feature(group, feature).items()
    }
    return json.dumps([{"group": group, "meaning": _meaning(group), "members": members}], indent=1)


def _by_feature(group: str, feature: str | None) -> dict[str, list[Member]]:
    """The members of a group by output feature, of one or of all that have it."""
    kinds = [kind for kind in (FEATURES if feature is None else [feature]) if group in group_names(kind)]
    members = {kind: _members(group, kind) for kind in kinds}
    found = {kind: chosen for kind, chosen in members.items() if chosen or _left_out(group, kind, chosen)}
    if feature is not None and not found:
        members_of(group, feature)  # which says why there is none
    return found


def _usage(group: str, members: Mapping[str, list[Member]]) -> Iterator[tuple[str, str]]:
    """Say where the group may be written, if any list may have it."""
    for kind in (kind for kind, chosen in members.items() if chosen):
        yield "in YAML", f"metrics: {{track: [{group}]}}"
        yield "in Python", f'MetricCollection(["{group}"], output="{kind}")'
        return


def _part(group: str, kind: str, chosen: list[Member], width: int | None) -> str:
    """The members for one output feature, and what of the family is none."""
    rows = [(str(name), way(entry), entry.inputs.value, entry.summary) for name, entry in chosen]
    left = _left_out(group, kind, chosen)
    head, *more = wrapped([("", f"{kind}: {len(chosen)}"), *([("without", left)] if left else [])], width)
    return "\n".join([head, *([lined_up(_HEAD, rows, width)] if rows else []), *more])


def _members(group: str, kind: str) -> list[Member]:
    """The members for one output feature; none where each of them needs something further."""
    try:
        names = members_of(group, kind)
    except MetricNameError:
        return []
    return [(name, find_metric(name, kind).entries[0]) for name in names]


def _meaning(group: str) -> str:
    family = family_of(group)
    return _MEANINGS.get(
        group, f"a group: the metrics of the family {family}, with each choice that they need"
    )


def _left_out(group: str, kind: str, chosen: list[Member]) -> str:
    """Name the metrics of a family that are to be named themselves, since they need something further."""
    within = {entry.name for _, entry in chosen}
    entries = [entry for entry in all_entries(kind) if family_of(group) in entry.families]
    left = ", ".join(form(entry) for entry in entries if entry.name not in within)
    return left and f"{left}, which need something further"


def metric_text(name: str, feature: str | None = None, width: int | None = None) -> str:
    """Print all that is known of a metric, a part for each of its meanings; of a group its members.

    Args:
        name: its name or an alias.
        feature: one output feature only.
        width: of the terminal, to wrap long lines.

    Raises:
        UnknownMetricError: there is none of that name.
        MetricNameError: the name does not follow the grammar, or has a parameter that is not the metric's.
    """
    asked = MetricName.parse(name)
    if (known := diagnostic(asked)) is not None:
        return diagnostic_text(known)
    if (group := _group(asked, feature)) is not None:
        return group_text(group, feature, width)
    return _pages(_meant(asked, feature), asked, width)


def metric_json(name: str, feature: str | None = None) -> str:
    """Give the same as JSON, an object for each of its meanings.

    Raises:
        UnknownMetricError, MetricNameError: see `metric_text`.
    """
    asked = MetricName.parse(name)
    if (known := diagnostic(asked)) is not None:
        return json.dumps([{"diagnostic": True, **vars(known)}], indent=1)
    if (group := _group(asked, feature)) is not None:
        return group_json(group, feature)
    return json.dumps([_told(group, meant, asked) for meant, group in _meant(asked, feature)], indent=1)


def _group(asked: MetricName, feature: str | None) -> str | None:
    """The group that a word names; None of a metric."""
    if feature is not None:
        check_feature_type(feature)
    load_plugins()
    group = group_named(asked, feature)
    return None if group is None else group.metric


def _meant(asked: MetricName, feature: str | None) -> list[tuple[MetricName, list[MetricEntry]]]:
    """Find what a name means: a canonical name, and the entries that differ in the output feature only.

    Metrics that have the name come before those of which it is an alias.
    """
    load_plugins()
    exact = asked.params or asked.k is not None
    meanings = () if exact else possible_meanings(asked, feature)
    meanings = meanings or find_metric(asked, feature).meanings
    name_of = {(entry.name, entry.feature_type): name for name, entry in meanings}
    groups = sorted(alike(entry for _, entry in meanings), key=lambda group: group[0].name != asked.metric)
    return [(name_of[group[0].name, group[0].feature_type], group) for group in groups]


def _told(entries: Sequence[MetricEntry], meant: MetricName, asked: MetricName) -> dict[str, Any]:
    sweep, code = usage(entries[0])
    facts = {name: fact for name, fact in asdict(entries[0]).items() if name != "feature_type"}
    tried = {entry.feature_type: observed_of(entry) for entry in entries}
    return {
        **facts,
        "aliases": facts["aliases"] or {},
        "form": form(entries[0]),
        "meant": None if meant.metric == asked.metric else str(meant),
        "features": [entry.feature_type for entry in entries],
        "evidence": {feature: _values(seen) for feature, seen in tried.items()},
        "yaml": sweep,
        "python": code,
    }


def usage(entry: MetricEntry) -> tuple[str, str]:
    """Give an example in a sweep file and one in Python.

    >>> from hpometrics.metrics.registry.register import find_metric
    >>> sweep, code = usage(find_metric("f1_macro", "category").entries[0])
    >>> print(sweep)
    metrics: {optimize: f1(average=macro)}
    >>> print(code)
    metric = get_metric("f1(average=macro)", "category")
    metric.update(predictions=..., target=...)
    """
    name = str(entry.example)
    quoted = f'"{name}"' if "," in name else name
    sweep = f"metrics: {{optimize: {quoted}}}" if entry.objective else f"metrics: {{track: [{quoted}]}}"
    given = ", ".join(f"{key}=..." for key in (entry.inputs.value, "target", *needs_of(entry)))
    made = f'metric = get_metric("{name}", "{entry.feature_type}")'
    return sweep, f"{made}\nmetric.update({given})"


def _values(seen: Observed | None) -> dict[float, float | None]:
    """Give the values that were seen, by the share of random answers."""
    return dict(zip(NOISE, seen.values, strict=True)) if seen is not None and seen.values else {}


def _pages(
    meanings: Sequence[tuple[MetricName, list[MetricEntry]]], asked: MetricName, width: int | None
) -> str:
    several = len({meant.metric for meant, _ in meanings}) > 1
    pages = [
        _page(group, _alias_meaning(asked, meant, several), _elsewhere(asked.metric, meant, group))
        for meant, group in meanings
    ]
    return "\n\n".join("\n".join(wrapped(lines, width)) for lines in pages)


def _alias_meaning(asked: MetricName, meant: MetricName, several: bool) -> str:
    """Say what an alias means; the head of the page says it where that is a name alone, and the only one."""
    told = several or str(meant) != meant.metric
    return f"{asked} is {meant}" if told and meant.metric != asked.metric else ""


def _elsewhere(word: str, meant: MetricName, entries: Sequence[MetricEntry]) -> str:
    """Say which libraries mean the same by the name of a ranking's metric, and what the others mean."""
    if entries[0].feature_type != RANKING:
        return ""
    ours, libraries = replace(meant, k=None), libraries_of(word)
    same = [library for library, name in libraries.items() if name == ours]
    others = {library: name for library, name in libraries.items() if name != ours}
    told = [f"what {library} calls {word} is {in_full(name)}" for library, name in others.items()]
    return "; ".join([*([f"{in_full(ours)}, as in {' and '.join(same)}"] if same else []), *told])


def _page(entries: Sequence[MetricEntry], meaning: str, elsewhere: str) -> Iterator[tuple[str, str]]:
    """Give the lines of a page: a word and what it says; the first line is the name alone."""
    first = entries[0]
    yield "", form(first)
    yield from (
        (word, fact)
        for word, fact in (("asked", meaning), ("elsewhere", elsewhere), *_facts(entries))
        if fact
    )
    for one in first.params:
        yield "param", f"{one.name}: {param(one, first)}"
    sweep, code = usage(first)
    yield "in YAML", sweep
    for i, line in enumerate(code.splitlines()):
        yield "" if i else "in Python", line


def _family(family: str, entry: MetricEntry) -> str:
    """Name a family, and how it is written as a group where a metric has its name."""
    group = next(name for name in (family, f"{family}_family") if group_named(name, entry.feature_type))
    return family if group == family else f"{family} (as a group {group})"


def _facts(entries: Sequence[MetricEntry]) -> Iterator[tuple[str, str]]:
    first, (tried, *more) = entries[0], evidence(entries)
    yield "meaning", first.summary
    yield from (("", paragraph) for paragraph in first.docs.split("\n\n"))
    yield "formula", first.formula
    yield "value", first.value
    yield "direction", f"{direction(first)}; {'' if len(entries) == 1 else 'by experiment '}{tried}"
    yield from (("", line) for line in more)
    yield "reads", first.inputs.value
    yield "features", features_of(entries)
    yield "shape", first.shape
    yield "also takes", takes(entries)
    yield "aliases", aliases(first)
    yield "families", ", ".join(_family(family, first) for family in first.families)
    yield "", left_out(entries)
    yield "keeps", kept(entries)
    yield "over tasks", over_tasks(entries)
    yield "raises", first.raises
    yield "deviates", first.deviates
    yield "source", first.source
    yield "needs", install(first)
    yield "class", first.path
