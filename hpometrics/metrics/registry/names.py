"""The name of a metric as a value: `test:convai2/intent.f1(average=macro)@10`, parsed and printed alike."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..._redaction import excerpt
from ...exceptions import MetricNameError
from .aliases import cut_offs, meaning_elsewhere

Scalar = str | int | float | bool

SPLITS = ("train", "validation", "test")
MACRO, MICRO = "macro", "micro"
THRESHOLD = "threshold"
"""The parameter of a name by which its output has another threshold."""
OVER_TASKS = "tasks"
"""The parameter of a name that belongs to no metric, but to its values over several tasks."""

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
_NAME = re.compile(
    r"(?:(?P<split>train|validation|test):)?"
    r"(?:(?P<task>[^/:()@\s]+)/)?"
    r"(?:(?P<feature>[A-Za-z_][A-Za-z0-9_-]*)\.)?"
    r"(?P<metric>[A-Za-z][A-Za-z0-9_-]*)"
    r"(?:@(?P<early_k>[0-9]+)(?=\())?"
    r"(?:\((?P<params>.*)\))?"
    r"(?:@(?P<k>[0-9]+))?\Z",
    re.DOTALL,
)
_PARAM = re.compile(r'\s*(?P<key>[A-Za-z_]\w*)\s*=\s*(?P<value>"(?:[^"\\]|\\.)*"|[^\s",()=]+)\s*(?:,|\Z)')
_IMPORT_PATH = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<attribute>[A-Za-z_]\w*)\Z")
_DOTTED_PATH = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)+\.(?P<attribute>[A-Za-z_]\w*)\Z")
_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z")
MAX_LENGTH = 256


@dataclass(frozen=True)
class MetricName:
    """The identity of a metric: `[split:][task/][feature.]metric[(param=value, ...)][@k]`.

    >>> name = MetricName.parse("test:intent.f1(average=macro)")
    >>> name.split, name.feature, name.metric, name.params
    ('test', 'intent', 'f1', (('average', 'macro'),))
    >>> str(MetricName.parse("ndcg( gain=exp )@10"))
    'ndcg(gain=exp)@10'
    """

    metric: str
    params: tuple[tuple[str, Scalar], ...] = ()
    k: int | None = None
    feature: str | None = None
    task: str | None = None
    split: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "params", tuple(sorted(self.params)))

    @classmethod
    def parse(cls, text: str | MetricName) -> MetricName:
        """Parse a name; the cut-off may stand before the parameters as well.

        Raises:
            MetricNameError: the text does not follow the grammar; the message says where.
        """
        if isinstance(text, MetricName):
            return text
        if not isinstance(text, str):
            raise MetricNameError(f"the name of a metric must be text, got {text!r} ({type(text).__name__})")
        match = _NAME.match(text.strip()) if len(text) <= MAX_LENGTH and text.isprintable() else None
        if match is None:
            suggestion = meaning_elsewhere(text.strip())
            if names := cut_offs(text.strip()):
                raise MetricNameError(
                    f"{text!r} is a list of names; write them separately: {', '.join(names)}"
                )
            if path := _DOTTED_PATH.match(text.strip()):
                raise MetricNameError(
                    f"{excerpt(text, 80)!r} is a Python path, not a metric name; write only "
                    f"{excerpt(path['attribute'], 40)!r}, or convert the class: in Python with "
                    "as_metric(...), in a sweep file with module:Class for a class decorated with "
                    "@register_metric"
                )
            raise MetricNameError(
                f"{excerpt(text, 80)!r} is not a metric name; the form is "
                "[split:][task/][feature.]metric[(param=value, ...)][@k], as in f1(average=macro) or ndcg@10"
                f"{f'. Did you mean {suggestion!r}?' if suggestion else ''}"
            )
        if match["k"] and match["early_k"]:
            raise MetricNameError(f"{text!r}: the cut-off is set twice; leave @{match['early_k']} out")
        k = match["k"] or match["early_k"]
        return cls(
            metric=match["metric"],
            params=_parse_params(match["params"], text),
            k=int(k) if k else None,
            feature=match["feature"],
            task=match["task"],
            split=match["split"],
        )

    @classmethod
    def of_parts(cls, parts: Mapping[str, Any]) -> MetricName:
        """Parse a name in parts: `metric`, `feature`, `task`; every other key is a parameter.

        Raises:
            MetricNameError: a part is invalid, or has two values.

        >>> str(MetricName.of_parts({"metric": "f1", "average": "macro", "feature": "intent", "task": "a"}))
        'a/intent.f1(average=macro)'
        """
        if not isinstance(parts, Mapping):
            raise MetricNameError(
                "a name in parts must be a mapping, as in {'metric': 'f1', 'feature': 'intent'}; got "
                f"{parts!r}"
            )
        name = cls.parse(parts.get("metric", ""))
        at = {key: parts[key] for key in ("feature", "task") if parts.get(key) is not None}
        for key in (*parts, *at):
            if not isinstance(key, str) or not isinstance(at.get(key, ""), str):
                raise MetricNameError(
                    f"{name}: a part of a name must be text, as in {{'metric': 'f1', 'feature': "
                    f"'intent'}}; got {key!r}: {parts[key]!r}"
                )
        rest = {key: value for key, value in parts.items() if key not in ("metric", "feature", "task")}
        for key, value in rest.items():
            if not isinstance(value, Scalar):
                raise MetricNameError(f"{name}: {key} must be text, a number, true or false, got {value!r}")
        own = {**dict(name.params), "feature": name.feature, "task": name.task}
        for key, value in (*rest.items(), *at.items()):
            if own.get(key) not in (None, value):
                raise MetricNameError(f"{name}: its {key} is {own[key]!r}, but {key}= is {value!r}")
        full = replace(name, params=tuple({**dict(name.params), **rest}.items()), **at)
        if not all(at.values()) or cls.parse(str(full)) != full:
            raise MetricNameError(f"{name}: no part of a name can be {' or '.join(map(repr, at.values()))}")
        return full

    def __str__(self) -> str:
        front = "".join(
            part + end for part, end in ((self.split, ":"), (self.task, "/"), (self.feature, ".")) if part
        )
        params = ", ".join(f"{key}={_print_value(value)}" for key, value in self.params)
        return (
            f"{front}{self.metric}{f'({params})' if params else ''}{'' if self.k is None else f'@{self.k}'}"
        )

    @property
    def bare(self) -> MetricName:
        """The metric without split, task, feature and `tasks=`: what the registry knows."""
        params = tuple(param for param in self.params if param[0] != OVER_TASKS)
        return replace(self, params=params, split=None, task=None, feature=None)

    @property
    def over_tasks(self) -> str | None:
        """The way to compute the value over all tasks: `macro`, `micro`, or None for that of the metric.

        Raises:
            MetricNameError: `tasks=` has another value.

        >>> MetricName.parse("perplexity(tasks=micro)").over_tasks
        'micro'
        """
        way = dict(self.params).get(OVER_TASKS)
        if way in (None, MACRO, MICRO):
            return way if way is None else str(way)
        raise MetricNameError(
            f"{self}: tasks= must be {MACRO} (the mean of the values of the tasks) or {MICRO} (the value "
            f"of all rows), got {way!r}"
        )

    def like(self, place: MetricName) -> MetricName:
        """Return the metric with the split, task, feature and `tasks=` of another name."""
        over = () if place.over_tasks is None else ((OVER_TASKS, place.over_tasks),)
        return replace(
            self.bare,
            params=(*self.bare.params, *over),
            split=place.split,
            task=place.task,
            feature=place.feature,
        )


def parse_import_path(text: str) -> tuple[str, str] | None:
    """Split `package.module:Class` into its two parts; return None for any other text.

    A split is not a module: `test:accuracy` is the name of a metric.
    """
    match = _IMPORT_PATH.match(text)
    if match is None or match["module"] in SPLITS or "__" in text:
        return None
    return match["module"], match["attribute"]


def split_names(text: str) -> list[str]:
    """Split a list of names at its commas, except those between brackets or quotes.

    >>> split_names('accuracy, f1(average=macro, beta=2),ndcg@10')
    ['accuracy', 'f1(average=macro, beta=2)', 'ndcg@10']
    """
    parts = re.findall(r'(?:"(?:[^"\\]|\\.)*"|\((?:"(?:[^"\\]|\\.)*"|[^()"])*\)|[^,])+', text)
    return [part.strip() for part in parts if part.strip()]


def _parse_params(text: str | None, whole: str) -> tuple[tuple[str, Scalar], ...]:
    params: dict[str, Scalar] = {}
    position = 0
    while text and position < len(text):
        match = _PARAM.match(text, position)
        if match is None:
            raise MetricNameError(f"{whole!r}: cannot read {text[position:]!r} as param=value")
        if match["key"] in params:
            raise MetricNameError(f"{whole!r}: {match['key']!r} is set twice")
        params[match["key"]] = _parse_value(match["value"], whole)
        position = match.end()
    return tuple(params.items())


def _parse_value(text: str, whole: str) -> Scalar:
    if text in ("true", "false"):
        return text == "true"
    if text.startswith('"'):
        return _parse_quoted(text, whole)
    if _INTEGER.match(text):
        return int(text)
    if _FLOAT.match(text):
        return _finite(text, whole)
    if not _WORD.match(text):
        raise MetricNameError(
            f"{whole!r}: {text!r} is not a number, true, false or a word; put it in double quotes"
        )
    return text


def _finite(text: str, whole: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise MetricNameError(f"{whole!r}: {text!r} is not a finite number")
    return number


def _parse_quoted(text: str, whole: str) -> str:
    try:
        return str(json.loads(text))
    except ValueError as err:
        raise MetricNameError(f"{whole!r}: {text} is not valid quoted text: {err}") from err


def _print_value(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        reads_back_as_text = _WORD.match(value) and value not in ("true", "false")
        return value if reads_back_as_text else json.dumps(value)
    return repr(value)
