"""The metrics as text: what `hpometrics metrics list` and `metrics show` print, from the registry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from ..metrics.features import check_feature_type
from ..metrics.names import MetricName
from ..metrics.registry import MetricEntry, all_entries, find_metric
from .table import aligned


def metrics_table(feature: str | None, inputs: str | None, objective: str | None) -> str:
    """Print a line per metric; each filter that is given must hold.

    Raises:
        MetricInputError: there is no such output feature.
    """
    if feature is not None:
        check_feature_type(feature)
    chosen = [
        entry
        for entry in all_entries(feature)
        if inputs in (None, entry.inputs.value) and objective in (None, entry.objective)
    ]
    rows = [_row(list(group)) for _, group in groupby(chosen, key=_facts)]
    if not rows:
        return "no metric is like that"
    return aligned([("name", "objective", "reads", "features", "meaning"), *rows], align="<")


def metric_text(name: str, feature: str | None) -> str:
    """Print all that is known of a metric.

    Raises:
        UnknownMetricError: there is none of that name.
    """
    asked = MetricName.parse(name)
    named = [entry for entry in all_entries(feature) if entry.name == asked.metric]
    entries = named or find_metric(asked, feature).entries
    return "\n\n".join("\n".join(_lines(list(group))) for _, group in groupby(entries, key=_facts))


def _facts(entry: MetricEntry) -> tuple[object, ...]:
    """Give what makes two entries one line: all but the output feature."""
    return entry.name, entry.objective, entry.inputs, entry.params, entry.summary


def _row(entries: Sequence[MetricEntry]) -> tuple[str, ...]:
    first = entries[0]
    return _form(first), str(first.objective or "-"), first.inputs.value, _features(entries), first.summary


def _lines(entries: Sequence[MetricEntry]) -> Iterator[str]:
    first = entries[0]
    yield _form(first)
    facts = {
        "meaning": first.summary,
        "value": first.value,
        "objective": str(first.objective or "none; it can be tracked"),
        "reads": first.inputs.value,
        "features": _features(entries),
        "aliases": ", ".join(f"{alias} = {meaning}" for alias, meaning in (first.aliases or {}).items()),
        "source": first.source,
        "class": first.path,
    }
    for word, fact in facts.items():
        if fact:
            yield f"  {word:<10} {fact}"
    for param in first.params:
        choices = f" one of {', '.join(param.choices)}" if param.choices else f" {param.kind}"
        default = "needed" if param.required else f"default {param.default}"
        yield f"  {'param':<10} {param.name}:{choices} ({default})"


def _form(entry: MetricEntry) -> str:
    """Print the name with the parameters that it needs."""
    needed = [param.name for param in entry.params if param.required]
    inside = ", ".join(f"{name}=..." for name in needed if name != "k")
    return f"{entry.name}{f'({inside})' if inside else ''}{'@k' if 'k' in needed else ''}"


def _features(entries: Iterable[MetricEntry]) -> str:
    return ", ".join(entry.feature_type for entry in entries)
