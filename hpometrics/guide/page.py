"""The page of one metric: what `hpometrics metrics show NAME` prints."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from ..metrics.diagnostics import diagnostic
from ..metrics.entry import MetricEntry
from ..metrics.names import MetricName
from ..metrics.registry import all_entries, find_metric
from ..metrics.store import needs_of
from .diagnostics import diagnostic_text
from .words import (
    aliases,
    alike,
    direction,
    evidence,
    features_of,
    form,
    install,
    kept,
    left_out,
    over_tasks,
    param,
    takes,
)

_WIDTH = 11


def metric_text(name: str, feature: str | None = None, width: int | None = None) -> str:
    """Print all that is known of a metric, a part for each of its meanings.

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
    if asked.params or asked.k is not None:
        find_metric(asked, feature)
    named = [entry for entry in all_entries(feature) if entry.name == asked.metric]
    if named:
        return _pages(named, "", width)
    found = find_metric(asked, feature)
    meaning = "" if str(found.name) == found.name.metric else f"{asked} is {found.name}"
    return _pages([e for e in all_entries(feature) if e.name == found.name.metric], meaning, width)


def usage(entry: MetricEntry) -> tuple[str, str]:
    """Give an example in a sweep file and one in Python.

    >>> from hpometrics.metrics.registry import find_metric
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


def _pages(entries: Sequence[MetricEntry], meaning: str, width: int | None) -> str:
    pages = [_page(group, meaning) for group in alike(entries)]
    return "\n\n".join("\n".join(_wrapped(lines, width)) for lines in pages)


def _page(entries: Sequence[MetricEntry], meaning: str) -> Iterator[tuple[str, str]]:
    """Give the lines of a page: a word and what it says; the first line is the name alone."""
    first = entries[0]
    yield "", form(first)
    yield from ((word, fact) for word, fact in _facts(entries, meaning) if fact)
    for one in first.params:
        yield "param", f"{one.name}: {param(one, first)}"
    sweep, code = usage(first)
    yield "in YAML", sweep
    for i, line in enumerate(code.splitlines()):
        yield "" if i else "in Python", line


def _facts(entries: Sequence[MetricEntry], meaning: str) -> Iterator[tuple[str, str]]:
    first, (tried, *more) = entries[0], evidence(entries)
    yield "asked", meaning
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
    yield "families", ", ".join(first.families)
    yield "", left_out(entries)
    yield "keeps", kept(entries)
    yield "over tasks", over_tasks(entries)
    yield "raises", first.raises
    yield "deviates", first.deviates
    yield "source", first.source
    yield "needs", install(first)
    yield "class", first.path


def _wrapped(lines: Iterator[tuple[str, str]], width: int | None) -> Iterator[str]:
    name = next(lines)[1]
    yield name
    for word, fact in lines:
        text = f"  {word:<{_WIDTH - 1}} {fact}"
        yield (
            text
            if width is None
            else textwrap.fill(
                text, max(width, 60), subsequent_indent=" " * (_WIDTH + 2), break_long_words=False
            )
        )
