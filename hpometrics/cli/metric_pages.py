"""The page of one metric, diagnostic or group, which `hpometrics metrics show NAME` prints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from textwrap import wrap
from typing import Any

from .._formatting import aligned, json_text
from ..direction import ARROWS
from ..exceptions import MetricNameError
from ..metrics.features import FEATURES, RANKING, check_feature_type
from ..metrics.registry.diagnostics import DIAGNOSTICS, Diagnostic, OverRanks, diagnostic
from ..metrics.registry.groups import family_of, group_named, group_names, members_of
from ..metrics.registry.index import (
    NOISE,
    MetricEntry,
    Observed,
    all_entries,
    entries_of,
    load_plugins,
    needs_of,
    observed_of,
)
from ..metrics.registry.lookup import find_metric, measured_by, possible_meanings
from ..metrics.registry.names import MetricName
from .metric_list import (
    direction_word,
    format_aliases,
    format_direction,
    format_evidence,
    format_exclusion,
    format_extra_inputs,
    format_features,
    format_name,
    format_over_tasks,
    format_param,
    format_statistics,
    format_table,
    group_entries,
    install_command,
    wrap_page,
)
from .other_libraries import format_full_name, libraries_of

Member = tuple[MetricName, MetricEntry]
_TITLE = "diagnostics, which every run records:"
_OVER_RANKS: dict[OverRanks, str] = {
    "sum": "the sum of all ranks",
    "mean": "the mean of the ranks",
    "max": "the rank with the highest value",
    "min": "the rank with the lowest value",
    "first": "the first rank",
    "pooled": "all ranks together",
}
_DIAGNOSTIC_HEAD = ("name", "direction", "unit", "of", "meaning")
_HEAD = ("name", "direction", "reads", "meaning")
_MEANINGS = {
    "default": "a group: a short selection of metrics for each output",
    "words": "a group: a short selection of metrics for texts given as strings",
    "all": "a group: every metric of an output that has a direction and needs no further input",
}


def metric_text(name: str, feature: str | None = None, width: int | None = None) -> str:
    """Return all facts of a metric, a part for each of its meanings; of a group, its members.

    Args:
        name: its name or an alias.
        feature: the only output feature to show.
        width: width of the terminal, to wrap long lines.

    Raises:
        UnknownMetricError: no metric has that name.
        MetricNameError: the name does not follow the grammar, or has a parameter that the metric lacks.
    """
    requested = MetricName.parse(name)
    if (record := diagnostic(requested)) is not None:
        return diagnostic_text(record)
    if (group := _group(requested, feature)) is not None:
        return group_text(group, feature, width)
    plain = measured_by(requested, feature)
    if plain is not None:
        logged = f"{requested} is {plain}, unless a sweep file states its direction"
        return _pages(_meanings_of(plain, feature), plain, width, logged)
    meanings = _meanings_of(requested, feature)
    remark = "" if feature else _other_outputs(requested.metric, meanings)
    return _pages(meanings, requested, width, remark)


def metric_json(name: str, feature: str | None = None) -> str:
    """Return the facts of a metric as JSON, an object for each of its meanings.

    Raises:
        UnknownMetricError, MetricNameError: see `metric_text`.
    """
    requested = MetricName.parse(name)
    if (record := diagnostic(requested)) is not None:
        return json_text([{"diagnostic": True, **vars(record)}])
    if (group := _group(requested, feature)) is not None:
        return group_json(group, feature)
    meanings = _meanings_of(measured_by(requested, feature) or requested, feature)
    return json_text([_meaning_facts(group, meaning, requested) for meaning, group in meanings])


def _group(requested: MetricName, feature: str | None) -> str | None:
    """Return the group that a name means; None if it means a metric."""
    if feature is not None:
        check_feature_type(feature)
    load_plugins()
    group = group_named(requested, feature)
    return None if group is None else group.metric


def _meanings_of(requested: MetricName, feature: str | None) -> list[tuple[MetricName, list[MetricEntry]]]:
    """Return the meanings of a name: a canonical name, and its entries, which differ in the output feature.

    Metrics with that name come before those of which it is an alias.
    """
    load_plugins()
    exact = requested.params or requested.k is not None
    meanings = () if exact else possible_meanings(requested, feature)
    meanings = meanings or find_metric(requested, feature).meanings
    name_of = {(entry.name, entry.feature_type): name for name, entry in meanings}
    groups = sorted(
        group_entries(entry for _, entry in meanings), key=lambda group: group[0].name != requested.metric
    )
    return [(name_of[group[0].name, group[0].feature_type], group) for group in groups]


def _meaning_facts(
    entries: Sequence[MetricEntry], meaning: MetricName, requested: MetricName
) -> dict[str, Any]:
    sweep, code = usage(entries[0])
    facts = {name: fact for name, fact in asdict(entries[0].documented()).items() if name != "feature_type"}
    facts["objective"] = facts.pop("direction")
    return {
        **facts,
        "aliases": facts["aliases"] or {},
        "form": format_name(entries[0]),
        "meant": None if meaning.metric == requested.metric else str(meaning),
        "features": [entry.feature_type for entry in entries],
        "evidence": {entry.feature_type: _values(observed_of(entry)) for entry in entries},
        "yaml": sweep,
        "python": code,
    }


def _pages(
    meanings: Sequence[tuple[MetricName, list[MetricEntry]]],
    requested: MetricName,
    width: int | None,
    remark: str,
) -> str:
    several = len({meaning.metric for meaning, _ in meanings}) > 1
    pages = [
        _page(
            group,
            "; ".join(filter(None, (remark, _alias_meaning(requested, meaning, several)))),
            _other_libraries(requested.metric, meaning, group),
        )
        for meaning, group in meanings
    ]
    return "\n\n".join("\n".join(wrap_page(lines, width)) for lines in pages)


def _page(entries: Sequence[MetricEntry], meaning: str, elsewhere: str) -> Iterator[tuple[str, str]]:
    """Return the lines of a page: a word and its text; the first line is the name alone."""
    first = entries[0].documented()
    entries = [first, *entries[1:]]
    yield "", format_name(first)
    yield from (
        (word, fact)
        for word, fact in (("asked", meaning), ("elsewhere", elsewhere), *_facts(entries))
        if fact
    )
    for one in first.params:
        yield "param", f"{one.name}: {format_param(one, first)}"
    sweep, code = usage(first)
    yield "in YAML", sweep
    for i, line in enumerate(code.splitlines()):
        yield "" if i else "in Python", line


def _facts(entries: Sequence[MetricEntry]) -> list[tuple[str, str]]:
    first, (tried, *more) = entries[0], format_evidence(entries)
    return [
        ("meaning", first.summary),
        *(("", paragraph) for paragraph in first.docs.split("\n\n")),
        ("formula", first.formula),
        ("value", first.value),
        ("direction", f"{direction_word(first)}; {'' if len(entries) == 1 else 'by experiment '}{tried}"),
        *(("", line) for line in more),
        ("reads", first.inputs.value),
        ("features", format_features(entries)),
        ("shape", first.shape),
        ("also takes", format_extra_inputs(entries)),
        ("aliases", format_aliases(first)),
        ("families", ", ".join(_family(family, first) for family in first.families)),
        ("", format_exclusion(entries)),
        ("keeps", format_statistics(entries)),
        ("over tasks", format_over_tasks(entries)),
        ("raises", first.raises),
        ("deviates", first.deviates),
        ("source", first.source),
        ("needs", install_command(first)),
        ("class", first.path),
    ]


def _family(family: str, entry: MetricEntry) -> str:
    """Return the name of a family, with its name as a group if a metric has the same name."""
    group = next(name for name in (family, f"{family}_family") if group_named(name, entry.feature_type))
    return family if group == family else f"{family} (as a group {group})"


def usage(entry: MetricEntry) -> tuple[str, str]:
    """Return an example in a sweep file and one in Python.

    >>> from hpometrics.metrics.registry.lookup import find_metric
    >>> sweep, code = usage(find_metric("f1_macro", "category").entries[0])
    >>> print(sweep)
    metrics: {optimize: f1(average=macro)}
    >>> print(code)
    metric = get_metric("f1(average=macro)", "category")
    metric.update(predictions=..., target=...)
    """
    name = str(entry.example)
    quoted = f'"{name}"' if "," in name else name
    sweep = f"metrics: {{optimize: {quoted}}}" if entry.direction else f"metrics: {{track: [{quoted}]}}"
    keywords = ", ".join(f"{key}=..." for key in (entry.inputs.value, "target", *needs_of(entry)))
    constructor = f'metric = get_metric("{name}", "{entry.feature_type}")'
    return sweep, f"{constructor}\nmetric.update({keywords})"


def _values(observed: Observed | None) -> dict[float, float | None]:
    """Return the observed values by the share of random answers."""
    return dict(zip(NOISE, observed.values, strict=True)) if observed is not None and observed.values else {}


def _alias_meaning(requested: MetricName, meaning: MetricName, several: bool) -> str:
    """Return the meaning of an alias; empty for a single bare name, which the head of the page shows."""
    is_needed = several or str(meaning) != meaning.metric
    return f"{requested} is {meaning}" if is_needed and meaning.metric != requested.metric else ""


def _other_outputs(word: str, meanings: Sequence[tuple[MetricName, list[MetricEntry]]]) -> str:
    """Return for which outputs the word is a metric in lower case only, as `Recall` is; else empty."""
    shown = {entry.feature_type for _, group in meanings for entry in group}
    others = [entry.feature_type for entry in entries_of(word.lower(), None)]
    missing = ", ".join(kind for kind in others if kind not in shown)
    if word == word.lower() or not missing:
        return ""
    return f"{word} is a metric of {', '.join(sorted(shown))}; that of {missing} is {word.lower()}"


def _other_libraries(word: str, meaning: MetricName, entries: Sequence[MetricEntry]) -> str:
    """Return which libraries mean the same by a ranking metric's name, and what it means in the others."""
    if entries[0].feature_type != RANKING:
        return ""
    ours, libraries = replace(meaning, k=None), libraries_of(word)
    same = [library for library, name in libraries.items() if name == ours]
    others = {library: name for library, name in libraries.items() if name != ours}
    texts = [
        f"what {library} calls {word} is {format_full_name(name)} here" for library, name in others.items()
    ]
    return "; ".join([*([f"{format_full_name(ours)}, as in {' and '.join(same)}"] if same else []), *texts])


def group_text(group: str, feature: str | None = None, width: int | None = None) -> str:
    """Return the meaning of a group and its members, for one output feature or for each that has it.

    Raises:
        MetricNameError: the output feature has no such group.
    """
    members = _by_feature(group, feature)
    facts = [("", group), ("meaning", _meaning(group)), *_usage(group, members)]
    parts = (_part(group, kind, chosen, width) for kind, chosen in members.items())
    return "\n\n".join(["\n".join(wrap_page(facts, width)), *parts])


def group_json(group: str, feature: str | None = None) -> str:
    """Return the members of a group as JSON.

    Raises:
        MetricNameError: see `group_text`.
    """
    members = {
        kind: [
            {
                "name": str(name),
                "objective": entry.direction and entry.direction.value,
                "inputs": entry.inputs.value,
                "summary": entry.summary,
            }
            for name, entry in chosen
        ]
        for kind, chosen in _by_feature(group, feature).items()
    }
    return json_text([{"group": group, "meaning": _meaning(group), "members": members}])


def _by_feature(group: str, feature: str | None) -> dict[str, list[Member]]:
    """Return the members of a group by output feature, of one or of all that have it."""
    kinds = [kind for kind in (FEATURES if feature is None else [feature]) if group in group_names(kind)]
    members = {kind: _members(group, kind) for kind in kinds}
    shown_members = {
        kind: chosen for kind, chosen in members.items() if chosen or _excluded_names(group, kind, chosen)
    }
    if feature is not None and not shown_members:
        members_of(group, feature)  # which says why there is none
    return shown_members


def _usage(group: str, members: Mapping[str, list[Member]]) -> Iterator[tuple[str, str]]:
    """Return examples of the group in a sweep file and in Python, if it has members."""
    for kind in (kind for kind, chosen in members.items() if chosen):
        yield "in YAML", f"metrics: {{track: [{group}]}}"
        yield "in Python", f'MetricCollection(["{group}"], output="{kind}")'
        return


def _part(group: str, kind: str, chosen: list[Member], width: int | None) -> str:
    """Return the members for one output feature, and the metrics of the family that the group leaves out."""
    rows = [(str(name), format_direction(entry), entry.inputs.value, entry.summary) for name, entry in chosen]
    excluded = _excluded_names(group, kind, chosen)
    head, *more = wrap_page(
        [("", f"{kind}: {len(chosen)}"), *([("without", excluded)] if excluded else [])], width
    )
    return "\n".join([head, *([format_table(_HEAD, rows, width)] if rows else []), *more])


def _members(group: str, kind: str) -> list[Member]:
    """Return the members for one output feature; an empty list if each of them needs further arguments."""
    try:
        names = members_of(group, kind)
    except MetricNameError:
        return []
    return [(name, find_metric(name, kind).entries[0]) for name in names]


def _meaning(group: str) -> str:
    family = family_of(group)
    return _MEANINGS.get(group, f"a group: the metrics of the family {family}, once for each required choice")


def _excluded_names(group: str, kind: str, chosen: list[Member]) -> str:
    """Return the metrics of a family that must be named one by one, because they need further arguments."""
    member_names = {entry.name for _, entry in chosen}
    entries = [entry for entry in all_entries(kind) if family_of(group) in entry.families]
    names = ", ".join(format_name(entry) for entry in entries if entry.name not in member_names)
    return names and f"{names}, which need further input"


def diagnostics_table(width: int | None = None) -> str:
    """Return a line per diagnostic; on a terminal of this width, long lines are wrapped."""
    rows = [_row(one) for one in DIAGNOSTICS.values()]
    if width is None:
        return f"{_TITLE}\n{aligned([_DIAGNOSTIC_HEAD, *rows], align='<')}"
    lines = (f"{name:<20} {way:<10} {meaning}" for name, way, _, _, meaning in rows)
    return "\n".join(
        [_TITLE, *(line for one in lines for line in wrap(one, width, subsequent_indent="    "))]
    )


def diagnostic_text(diagnostic: Diagnostic) -> str:
    """Return all facts of a diagnostic as text."""
    way = diagnostic.direction
    facts = {
        "meaning": diagnostic.meaning,
        "unit": diagnostic.unit,
        "direction": way.value if way else "no direction",
        "of": _scope(diagnostic),
        "over tasks": _over_tasks(diagnostic),
        "over ranks": _OVER_RANKS[diagnostic.over_ranks],
        "comes from": diagnostic.comes_from,
        "in YAML": f"metrics: {{optimize: {{metric: {diagnostic}{'' if way else ', direction: minimize'}}}}}",
    }
    lines = (f"  {word:<10} {fact}" for word, fact in facts.items() if fact)
    return "\n".join([diagnostic.name, *lines])


def _row(diagnostic: Diagnostic) -> tuple[str, ...]:
    way = f"{diagnostic.direction.value}{ARROWS[diagnostic.direction]}" if diagnostic.direction else "-"
    return diagnostic.name, way, diagnostic.unit or "-", _scope(diagnostic), diagnostic.meaning


def _scope(diagnostic: Diagnostic) -> str:
    return "each task" if diagnostic.per_task else "the run"


def _over_tasks(diagnostic: Diagnostic) -> str:
    if not diagnostic.per_task:
        return ""
    return "the sum of the tasks" if diagnostic.over_ranks == "sum" else "the mean of the tasks' values"
