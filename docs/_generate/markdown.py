"""Generate the pages of metrics and rankings in `docs/reference`, and the table of the README."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from hpometrics.cli.metric_list import (
    direction_word,
    format_aliases,
    format_evidence,
    format_extra_inputs,
    format_features,
    format_name,
    format_param,
    format_statistics,
    group_entries,
)
from hpometrics.cli.metric_pages import usage
from hpometrics.cli.other_libraries import LIBRARIES, Library, format_full_name, libraries_of
from hpometrics.direction import ARROWS
from hpometrics.exceptions import MetricNameError, UnknownMetricError
from hpometrics.metrics.features import FEATURES, RANKING
from hpometrics.metrics.registry.groups import DEFAULT, members_of
from hpometrics.metrics.registry.index import NOISE, MetricEntry, all_entries
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.names import MetricName

_RANKINGS = """\
# Measures of rankings in other libraries

Printed by `make index`. A row says which metric measures here what a name measures there; where numbers
differ, [the metric](metrics.md) says so under *deviates*. Users without a relevant item have no value here;
most of the others count them 0, as `Ranking(empty="neg")` does.

Some names are in several libraries, for different measures: a row says what a name means when it is written
here, if that is not the library's measure, and the first table has them all."""
_SHARED = """\
## Names that libraries share

What they mean when they are written here, `-` where they are refused because no meaning is the obvious one,
and the name here of what another library means by them.

| written | means here | as in | but not in |
|---|---|---|---|"""
_MARKS = re.compile(r"(<!-- metrics:[^\n]*-->\n).*(<!-- /metrics -->)", re.DOTALL)
_MOST_FAMILIES = 12


def with_table(text: str) -> str:
    """Return the README with the table between its two marks."""
    return _MARKS.sub(lambda match: f"{match[1]}\n{table()}\n\n{match[2]}", text)


def table() -> str:
    """Return a row for each output feature: how many metrics, the default ones, the families."""
    lines = ["| output | metrics | `default` | families |", "|---|---|---|---|"]
    for feature_type in FEATURES:
        entries = [entry for entry in built_in() if entry.feature_type == feature_type]
        if entries:
            families = ", ".join(f"`{family}`" for family in _families(entries)[:_MOST_FAMILIES])
            more = ", ..." if len(_families(entries)) > _MOST_FAMILIES else ""
            chosen = _default(feature_type)
            lines.append(f"| {feature_type} | {len(entries)} | {chosen} | {families}{more} |")
    return "\n".join(lines)


def page() -> str:
    """Return the text of `reference/metrics.md`."""
    entries = built_in()
    families = _families(entries)
    names, directed = {e.name for e in entries}, sum(e.direction is not None for e in entries)
    head = [
        "# The metrics",
        "",
        "Printed from the registry by `make index`; `hpometrics metrics show NAME` prints one of them.",
        "",
        f"{len(names)} names, {len(entries)} metrics (a name of one output feature each), {directed} of them "
        "with a direction. *By experiment*: the value of a model that is always right, of one whose answers "
        f"are random for {NOISE[1]:.0%} of 400 rows, and of one where they are for {NOISE[2]:.0%}.",
        "",
        "Families: " + ", ".join(f"[{family}](#{_anchor(family)})" for family in families) + ".",
        "",
        table(),
    ]
    sections = [line for family in families for line in _section(family, entries)]
    return "\n".join([*head, *sections]) + "\n"


@cache
def built_in() -> list[MetricEntry]:
    """Return the entries of this package, without those of other packages."""
    return [entry for entry in all_entries() if entry.is_built_in]


def _families(entries: Sequence[MetricEntry]) -> list[str]:
    return sorted({entry.families[0] for entry in entries})


def _default(feature_type: str) -> str:
    if feature_type not in DEFAULT:
        return "-"
    names = members_of("default", feature_type)
    directions = [(str(name), find_metric(name, feature_type).direction) for name in names]
    return ", ".join(f"`{name}`{ARROWS[direction]}" for name, direction in directions)


def _section(family: str, entries: Sequence[MetricEntry]) -> Iterator[str]:
    yield from ("", f"## {family}")
    for group in group_entries(entry for entry in entries if entry.families[0] == family):
        yield from (
            "",
            f"### `{format_name(group[0])}` of {format_features(group)}",
            "",
            _escaped(group[0].summary),
        )
        yield from (part for text in group[0].docs.split("\n\n") if text for part in ("", _escaped(text)))
        yield ""
        yield from (f"- {word}: {_escaped(fact)}" for word, fact in _facts(group) if fact)
        yield f"- use: `{usage(group[0])[0]}`"


def _facts(entries: Sequence[MetricEntry]) -> Iterator[tuple[str, str]]:
    first, tried = entries[0], "; ".join(format_evidence(entries))
    yield "formula", f"`{first.formula}`" if first.formula else ""
    yield "value", first.value
    yield "direction", f"{direction_word(first)}; {'' if len(entries) == 1 else 'by experiment '}{tried}"
    yield "reads", first.inputs.value
    yield "shape", first.shape
    yield "also takes", format_extra_inputs(entries)
    yield from (("parameter", f"`{one.name}`: {format_param(one, first)}") for one in first.params)
    yield "aliases", format_aliases(first)
    yield "keeps", format_statistics(entries)
    yield "raises", first.raises
    yield "deviates", first.deviates
    yield "source", first.source
    yield "needs", f"the [extra](../how-to/install.md#extras) `{first.requires}`" if first.requires else ""


def _escaped(text: str) -> str:
    """Escape `*`, `_`, `|` and `<` of a formula, which Markdown would read as marks; code stays as it is."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*|<])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


def _anchor(title: str) -> str:
    return title.lower().replace(" ", "-")


def rankings_page() -> str:
    """Return the text of `reference/rankings.md`."""
    sections = (line for name, library in LIBRARIES.items() for line in _library_section(name, library))
    return "\n".join([_RANKINGS, "", _SHARED, *_shared_names(), *sections])


def local_meaning(word: str) -> MetricName | None:
    """Return the metric that a library's name means when it is written here; None if it is not a name here.

    >>> str(local_meaning("MAP")), local_meaning("NDCG")
    ('map', None)
    """
    for name in (word, f"{word}@10"):
        try:
            return replace(find_metric(name, RANKING).name, k=None)
        except (MetricNameError, UnknownMetricError):
            continue  # the name needs its k, or is unknown
    return None


def _shared_names() -> Iterator[str]:
    """Return a row for each name that means another metric in one library than here or in another."""
    words = sorted({word for library in LIBRARIES.values() for word in library.names})
    words.sort(key=str.lower)
    for word in words:
        local_name, libraries = local_meaning(word), libraries_of(word)
        others = [
            f"{library}: `{format_full_name(name)}`"
            for library, name in libraries.items()
            if name != local_name
        ]
        if others and (local_name is not None or len(set(libraries.values())) > 1):
            same = ", ".join(library for library, name in libraries.items() if name == local_name)
            meaning = "-" if local_name is None else f"`{format_full_name(local_name)}`"
            yield f"| `{word}` | {meaning} | {same or '-'} | {', '.join(others)} |"
    yield ""


def _library_section(name: str, library: Library) -> Iterator[str]:
    yield from ("", f"## {name}", "", library.remark, "", "| there | here | what it is |", "|---|---|---|")
    for theirs, ours in library.names.items():
        metric = find_metric(ours, RANKING)
        local_name = local_meaning(theirs)
        same = local_name in (None, replace(metric.name, k=None))
        remark = "" if local_name is None or same else f" (written here: `{format_full_name(local_name)}`)"
        yield f"| `{theirs}`{remark} | `{metric.name}` | {metric.entries[0].summary} |"
    yield from (f"| `{theirs}` | - | {reason} |" for theirs, reason in library.missing.items())
    yield ""
