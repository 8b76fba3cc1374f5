"""Generate the pages of metrics and rankings in `docs/reference`."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache

from hpometrics.cli.metric_list import (
    direction_word,
    format_aliases,
    format_direction,
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
from hpometrics.metrics.registry.index import MetricEntry, all_entries
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.names import MetricName
from hpometrics.testing import LAWS
from hpometrics.testing.scorecard import law_name

_RANKINGS = """\
# Measures of rankings in other libraries

Printed by `make index`. A row says which metric measures here what a name measures there; where numbers
differ, the page of the metric says so under *deviates*. Users without a relevant item have no value here;
most of the others count them 0, as `Ranking(empty="neg")` does.

Some names are in several libraries, for different measures: a row says what a name means when it is written
here, if that is not the library's measure, and the first table has them all."""
_SHARED = """\
## Names that libraries share

What they mean when they are written here, `-` where they are refused because no meaning is the obvious one,
and the name here of what another library means by them.

| written | means here | as in | but not in |
|---|---|---|---|"""
_LAWS = "## What each law says\n"
"""The heading of the generated part of `explanation/laws.md`."""
_MOST_FAMILIES = 12


def table(*, linked: bool = False) -> str:
    """Return a row for each output feature: how many metrics, the default ones, the families.

    Args:
        linked: whether the features lead to the pages of the site.
    """
    lines = ["| output | metrics | `default` | families |", "|---|---|---|---|"]
    for feature_type in FEATURES:
        entries = [entry for entry in built_in() if entry.feature_type == feature_type]
        if entries:
            families = ", ".join(f"`{family}`" for family in _families(entries)[:_MOST_FAMILIES])
            more = ", ..." if len(_families(entries)) > _MOST_FAMILIES else ""
            chosen = default_metrics(feature_type)
            name = f"[{feature_type}](outputs/{feature_type}.md)" if linked else feature_type
            lines.append(f"| {name} | {len(entries)} | {chosen} | {families}{more} |")
    return "\n".join(lines)


def metric_index(*, linked: bool = False) -> str:
    """Return the text of `reference/metrics.md`, a row for each metric from A to Z.

    Args:
        linked: whether names lead to the pages of the site, which a checkout lacks.
    """
    entries = built_in()
    names, directed = {e.name for e in entries}, sum(e.direction is not None for e in entries)
    lines = [
        "# The metrics from A to Z",
        "",
        "`hpometrics metrics show NAME` prints all facts of a metric: formula, parameters, sources, and "
        "where other libraries differ. The site has them as a page.",
        "",
        f"{len(names)} names, {len(entries)} metrics (one name per output), {directed} of them "
        "with a direction.",
        "",
        table(linked=linked),
        "",
        "| metric | direction | reads | value | outputs | also called |",
        "|---|---|---|---|---|---|",
    ]
    for group in group_entries(entries):
        first, name = group[0], f"`{format_name(group[0])}`"
        cells = (
            f"[{name}](metrics/{first.name}.md)" if linked else name,
            format_direction(first),
            first.inputs.value,
            _escaped(first.value.partition(";")[0].removeprefix("float ")),
            format_features(group),
            _escaped(format_aliases(first)),
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def metric_page(name: str) -> str:
    """Return the page of a metric, a section for each of its meanings."""
    groups = group_entries(entry for entry in built_in() if entry.name == name)
    lines = [f"# {name}"]
    for group in groups:
        lines += [
            "",
            f"## `{format_name(group[0])}` of {format_features(group)}",
            "",
            _escaped(group[0].summary),
        ]
        lines += [part for text in group[0].docs.split("\n\n") if text for part in ("", _escaped(text))]
        lines += ["", *(f"- {word}: {_escaped(fact)}" for word, fact in _facts(group) if fact)]
        lines += [f"- use: `{usage(group[0])[0]}`"]
    return "\n".join(lines) + "\n"


def output_page(feature_type: str) -> str:
    """Return the page of an output feature, a row for each of its metrics."""
    entries = [entry for entry in built_in() if entry.feature_type == feature_type]
    lines = [
        f"# Metrics of {feature_type}",
        "",
        f"{len(entries)} metrics; the group `default` has {default_metrics(feature_type)}. "
        f"[What `update` reads](../outputs.md#{feature_type}).",
        "",
        "| metric | direction | reads | family | meaning |",
        "|---|---|---|---|---|",
    ]
    for entry in sorted(entries, key=lambda entry: (entry.families[0], entry.name)):
        lines.append(
            f"| [`{format_name(entry)}`](../metrics/{entry.name}.md) | {format_direction(entry)} "
            f"| {entry.inputs.value} | {entry.families[0]} | {_escaped(entry.summary)} |"
        )
    return "\n".join(lines) + "\n"


@cache
def built_in() -> list[MetricEntry]:
    """Return the entries of this package, without those of other packages."""
    return [entry for entry in all_entries() if entry.is_built_in]


def _families(entries: Sequence[MetricEntry]) -> list[str]:
    return sorted({entry.families[0] for entry in entries})


def default_metrics(feature_type: str, group: str = "default") -> str:
    """Return the metrics of a group of an output with their directions, `-` if the output has no default."""
    if feature_type not in DEFAULT:
        return "-"
    names = members_of(group, feature_type)
    directions = [(str(name), find_metric(name, feature_type).direction) for name in names]
    return ", ".join(f"`{name}`{ARROWS[direction]}" for name, direction in directions)


def _facts(entries: Sequence[MetricEntry]) -> Iterator[tuple[str, str]]:
    first, tried = entries[0], "; ".join(format_evidence(entries))
    formula = (first.formula or "").replace("`", "")  # all of it is code
    yield "formula", f"`{formula}`" if formula else ""
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
    yield "needs", f"the [extra](../../how-to/install.md#extras) `{first.requires}`" if first.requires else ""


def _escaped(text: str) -> str:
    """Escape `*`, `_`, `|` and `<` of a formula, which Markdown would read as marks; code stays as it is."""
    parts = text.split("`")
    parts[::2] = [re.sub(r"([*|<])", r"\\\1", part) for part in parts[::2]]
    return "`".join(parts)


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


def with_law_meanings(text: str) -> str:
    """Return the page of the laws with what each law says, from its docstring, below the last heading."""
    head, heading, _ = text.partition(_LAWS)
    meanings = (" ".join(str(inspect.getdoc(law)).partition("\n\n")[0].split()) for law in LAWS)
    rows = (f"| `{law_name(law)}` | {meaning} |\n" for law, meaning in zip(LAWS, meanings, strict=True))
    return "".join([head, heading, "\n| law | meaning |\n|---|---|\n", *rows])


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
