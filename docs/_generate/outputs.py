"""Generate `docs/reference/outputs.md`, a section for each output, from the docstrings of their classes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import NamedTuple

from hpometrics.metrics.features import (
    FEATURES,
    Binary,
    Category,
    Mask,
    OutputFeature,
    Ranking,
    Sequence,
    Set,
    Text,
    Timeseries,
    Vector,
)
from hpometrics.metrics.registry.groups import WORDS
from hpometrics.metrics.registry.index import MetricEntry, observed_of

from .markdown import built_in, default_metrics

_HEAD = """\
# The outputs

Printed by `make index` from the classes of the outputs. An output says what your model predicts, and so
decides which metrics apply. Write it as `output=` in Python, as `engine: {output: ...}` in a sweep file, and
after `--output` or `--feature` of a command.

Pass the target and the output of the model to `update` by keyword. Of `logits`, `probabilities` and
`predictions`, one is enough: hpometrics derives probabilities from logits, and predictions from both.

You may leave out an argument that follows from the shape of a tensor, such as `num_classes`. In the shapes, N
is the number of rows, C of classes, L of labels and D of values. H is the number of predicted steps, T of
positions, V of tokens in the vocabulary, and M of boxes.

A section also lists the keywords that only some metrics read; `hpometrics metrics show NAME` explains them.
After the name of a metric, ^ means that higher values are better, and v that lower values are better.

| output | in Python | in a sweep file | what the model predicts |
|---|---|---|---|"""
_EXAMPLES: Mapping[str, OutputFeature] = {
    output.type: output
    for output in (
        Binary(threshold=0.3), Category(10), Set(20), Vector(3), Timeseries(12), Sequence(32000), Text(32000),
        Ranking(num_items=1500), Mask(19),
    )
}  # fmt: skip
"""Outputs with an argument, as a sweep file has them."""
_SHAPE = re.compile(r"\s*Shape: (.*?)(?=\n\n|\Z)", re.DOTALL)
_ARGUMENTS = re.compile(r"\n*Args:\n(.*)", re.DOTALL)
_KEYWORDS = re.compile(r"((?:[a-z_]+(?:, | or )?)+) (\(.*|N .*)")
_MOST_READERS = 4


class Keyword(NamedTuple):
    """Keywords of `update` that take values of one shape."""

    names: tuple[str, ...]
    shape: str


def page(*, linked: bool = False) -> str:
    """Return the text of `docs/reference/outputs.md`.

    Args:
        linked: whether the sections lead to the pages of the site, which a checkout lacks.
    """
    rows = (
        f"| [{name}](#{name}) | `{_call(cls)}` | `{_EXAMPLES.get(name, name)}` | {_first_sentence(cls)} |"
        for name, cls in FEATURES.items()
    )
    sections = (line for name in FEATURES for line in _section(name, linked))
    return "\n".join([_HEAD, *rows, *sections]) + "\n"


def keywords(cls: type[OutputFeature]) -> list[Keyword]:
    """Return the keywords of `update` that the docstring of an output lists, with their shapes.

    >>> keywords(Vector)
    [Keyword(names=('predictions', 'target'), shape='(N, D)')]
    """
    shape = _SHAPE.search(inspect.getdoc(cls) or "")
    parts = [] if shape is None else " ".join(shape[1].split()).removesuffix(".").split("; ")
    matches = (_KEYWORDS.fullmatch(part) for part in parts)
    return [Keyword(tuple(re.split(", | or ", match[1])), match[2]) for match in matches if match]


def _section(name: str, linked: bool) -> Iterator[str]:
    """Yield the lines of an output: its meaning, its defaults, the keywords of `update`, its arguments."""
    cls, entries = FEATURES[name], [entry for entry in built_in() if entry.feature_type == name]
    count = f"[{len(entries)} metrics](outputs/{name}.md)" if linked else f"{len(entries)} metrics"
    yield from ("", f"## {name}", "", _prose(cls), "")
    groups = (f"The group `{group}` has {default_metrics(name, group)}." for group in _groups(name))
    yield f"It has {count}. {' '.join(groups)}"
    yield from ("", "| keyword of `update` | value |", "|---|---|")
    for keyword in keywords(cls):
        yield f"| {', '.join(f'`{one}`' for one in keyword.names)} | {keyword.shape} |"
    yield from _further_keywords(entries, {one for keyword in keywords(cls) for one in keyword.names})
    if arguments := _ARGUMENTS.search(inspect.getdoc(cls) or ""):
        yield from ("", "| argument | meaning |", "|---|---|")
        for argument in re.split(r"\n(?=    \w)", arguments[1]):
            names, _, meaning = " ".join(argument.split()).removesuffix(".").partition(": ")
            yield f"| {', '.join(f'`{one}`' for one in names.split(', '))} | {meaning} |"


def _groups(name: str) -> list[str]:
    return ["default", "words"] if name in WORDS else ["default"]


def _further_keywords(entries: list[MetricEntry], listed: set[str]) -> Iterator[str]:
    """Yield a row for each keyword that some metrics of an output read beside those of the output."""
    if any(observed.weighted for entry in entries if (observed := observed_of(entry)) is not None):
        yield "| `sample_weight` | a weight from 0 for each row |"
    if "probabilities" in listed and any(entry.reads_soft for entry in entries):
        yield "| `target_probabilities` | soft labels, in the shape of the probabilities |"
    readers: dict[str, list[str]] = {}
    for entry in entries:
        for extra in entry.extras:
            if extra not in listed:
                readers.setdefault(extra, []).append(entry.name)
    for extra, names in sorted(readers.items()):
        more = ", ..." if len(names) > _MOST_READERS else ""
        yield f"| `{extra}` | read by {', '.join(f'`{name}`' for name in names[:_MOST_READERS])}{more} |"


def _prose(cls: type[OutputFeature]) -> str:
    text = _ARGUMENTS.sub("", inspect.getdoc(cls) or "")
    return re.sub(r"(?<!\n)\n(?!\n)", " ", _SHAPE.sub("", text)).strip()


def _first_sentence(cls: type[OutputFeature]) -> str:
    return re.split(r"\.(?:\s|\Z)", _prose(cls))[0]


def _call(cls: type[OutputFeature]) -> str:
    """Return how an output is created, with the arguments that a sweep file can have and their defaults."""
    arguments = (f"{field.name}={field.default!r}" for field in fields(cls) if field.repr)
    return f"{cls.__name__}({', '.join(arguments)})"
