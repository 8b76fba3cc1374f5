"""Convert the parameters and metric names of other tools to those of a sweep file."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from .._text import flat
from ..direction import MINIMIZE, Direction
from ..exceptions import HpometricsError
from ..metrics.registry.index import alias_meaning, entries_of
from ..metrics.registry.lookup import find_metric
from ..metrics.registry.names import MetricName
from ..space.draws import format_label
from ..space.values import is_scalar, is_whole
from .notes import Number, Section

Dimension = dict[str, Any]
CONFIG = "config"
"""The name of a choice among whole mappings of params."""
_WORD = re.compile(r"[a-z0-9]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MINUS = re.compile(r"\s*(?:1\s*)?-")
_CUT = re.compile(r"@[0-9]+\Z")
_NO_NAME = re.compile(r"[^A-Za-z0-9_./-]+")
_AROUND = frozenset(
    "avg average best cv dev epoch eval evaluation final fold holdout last mean metric oof score step test "
    "total train training val valid validation".split()
)
"""Words for where or when a metric was measured."""
_TURNED = frozenset("neg negative minus inverse inv one improvement drop gap ratio".split())
"""Words that may reverse a direction; a name that holds one has no known direction."""
_SHORT = {
    "acc": "accuracy",
    "ap": "average_precision",
    "auprc": "average_precision",
    "ce": "log_loss",
    "corr": "pearson",
    "error": "loss",
    "losses": "loss",
    "mean_ap": "map",
    "miou": "iou",
    "prec": "precision",
    "qwk": "cohen_kappa",
    "rec": "recall",
}
_OTHERS = frozenset({"err", "gain", "rate"})
"""Names of metrics that mean something else in other tools: `err` is more often an error than a rank."""


def known_direction(name: str) -> tuple[str, Direction] | None:
    """Return the metric that a name ends with, and its direction; None if it is unknown or ambiguous.

    >>> known_direction("val/acc"), known_direction("eval_f1@5"), known_direction("trainLoss")
    (('accuracy', <Direction.MAXIMIZE: 'maximize'>), ('f1', <Direction.MAXIMIZE: 'maximize'>), \
('loss', <Direction.MINIMIZE: 'minimize'>))
    >>> known_direction("neg_mean_squared_error"), known_direction("reward")
    (None, None)
    """
    for text in _readings(name):
        metric = _SHORT.get(text, text)
        if not entries_of(metric, None):
            meaning = alias_meaning(metric, None)
            metric = metric if meaning is None else MetricName.parse(meaning).metric
        directions = {entry.direction for entry in entries_of(metric, None)}
        if metric not in _OTHERS and len(directions) == 1 and (direction := directions.pop()) is not None:
            return metric, direction
    return None


def _readings(name: str) -> Iterator[str]:
    """Return the whole name, then shorter and shorter ends of it, in the registry's spelling."""
    last = re.split(r"[/:.]", _CUT.sub("", name))[-1]
    words = _WORD.findall(_HUMP.sub("_", last).lower())
    humped = [word for word in _WORD.findall(last.lower()) if word not in words]  # as IoU is, one word
    if _TURNED & set(words) or _MINUS.match(last):
        return
    yield "_".join(words)
    while words and words[-1] in _AROUND:
        words.pop()
    for start in range(len(words)):
        yield "_".join(words[start:])
    yield from humped[-1:]


def choice(
    name: str, options: Iterable[Any], section: Section, key: str, is_drawn: bool = True
) -> tuple[str, Dimension]:
    """Return a choice among values; lists and mappings become bundles under a name of their own.

    A value that stands there several times is drawn as often, by its weight.

    Args:
        name: the name of the parameter.
        options: the values.
        section: the section that holds them.
        key: their key in it, for a remark on the other name.
        is_drawn: whether the other tool draws values; a grid has each once.
    """
    options = list(options)
    texts = [json.dumps(option, sort_keys=True) for option in options]
    distinct, counts = dict(zip(texts, options, strict=True)), Counter(texts)
    values, weights = list(distinct.values()), [counts[text] for text in distinct]
    how: Dimension = {"weights": weights} if is_drawn and len(set(weights)) > 1 else {}
    if all(map(is_scalar, values)):
        return name, {"choice": values, **how}
    called = f"{name}_choice"
    section.remark(key, f"a choice among lists or mappings becomes a choice of bundles, {called}")
    labels = map(format_label, values)
    bundles = {label: {name: value} for label, value in zip(labels, values, strict=True)}
    return called, {"choice": bundles, **how}


def split_fixed(dimensions: Iterable[tuple[str, Dimension]]) -> tuple[dict[str, Dimension], dict[str, Any]]:
    """Return the dimensions that vary, and the values of those that do not."""
    space: dict[str, Dimension] = {}
    fixed: dict[str, Any] = {}
    for name, dimension in dimensions:
        if "value" in dimension:
            fixed[name] = dimension["value"]
        else:
            space[name] = dimension
    return space, fixed


def mappings(options: Iterable[Mapping[str, Any]]) -> tuple[str, Dimension]:
    """Return a choice among mappings of params, whose inner keys become dotted names."""
    bundles = {f"{CONFIG}_{number}": dict(flat(option)) for number, option in enumerate(options)}
    return CONFIG, {"choice": bundles}


def between(low: Number, high: Number, log: bool = False) -> Dimension:
    """Return a range of real numbers; a range of one number becomes its value."""
    if low == high:
        return {"value": low}
    return {"float": [_plain(low), _plain(high)], **({"log": True} if log else {})}


def whole_between(low: Number, high: Number, log: bool = False, step: int = 1) -> Dimension:
    """Return the range of whole numbers between two bounds, both included; one number becomes its value."""
    first, last = math.ceil(low), math.floor(high)
    if last - first < step:
        return {"value": first}
    how: Dimension = {**({"log": True} if log else {}), **({} if step == 1 else {"step": step})}
    return {"int": [first, last], **how}


def stepped_between(low: Number, high: Number, step: Number) -> Dimension:
    """Return the real numbers at equal steps from the lower bound; one number becomes its value."""
    if step > high - low:
        return {"value": float(low)}
    return {"float": [float(low), float(high)], "step": float(step)}


def normal(mean: Number, deviation: Number, log: bool = False, step: Number | None = None) -> Dimension:
    """Return a normal or log-normal dimension; one without a deviation becomes its value."""
    if deviation == 0:
        return {"value": math.exp(mean) if log else mean}
    how: Dimension = {"log": True} if log else {}
    if step is not None:
        how["step"] = int(step) if float(step).is_integer() else step
    return {"normal": [mean, deviation], **how}


def stepped(low: Number, high: Number, step: Number, log: bool = False) -> Dimension:
    """Return a range of multiples of a step; the bounds are rounded to the nearest multiple.

    >>> stepped(0, 0.5, 0.1), stepped(16, 130, 16), stepped(3, 4, 16)
    ({'float': [0.0, 0.5], 'step': 0.1}, {'int': [16, 128], 'step': 16}, {'value': 0})
    >>> stepped(0.001, 0.5, 0.1, log=True), stepped(8, 64, 8, log=True)
    ({'float': [0.1, 0.5], 'log': True, 'step': 0.1}, {'int': [8, 64], 'log': True, 'step': 8})
    """
    size = Decimal(str(step))
    multiples = ((Decimal(str(bound)) / size).to_integral_value(ROUND_HALF_EVEN) for bound in (low, high))
    first, last = (multiple * size for multiple in multiples)
    if log:  # zero, to which the lowest draws of the other tool are rounded, has no logarithm
        first, last = max(first, size), max(last, size)
    if is_whole(step) or float(step).is_integer():
        return whole_between(int(first), int(last), log, step=int(step))
    if last == first:
        return {"value": float(first)}
    how: Dimension = {"log": True} if log else {}
    return {"float": [float(first), float(last)], **how, "step": float(step)}


def duration(seconds: Number) -> str:
    """Return a duration as a sweep file has it, without an exponent.

    >>> duration(1234567), duration(3600.0), duration(0.5)
    ('1234567s', '3600s', '0.5s')
    """
    return f"{Decimal(str(seconds)).normalize():f}s"


def powers_of_e(low: Number, high: Number) -> tuple[float, float]:
    """Return the bounds of a range whose exponents of e are given; a float holds none above e ** 709."""
    return float(f"{math.exp(min(low, 700)):.6g}"), float(f"{math.exp(min(high, 700)):.6g}")


def _plain(bound: Number) -> float:
    """Round off the last digits, in which 0.9 - 0.06 differs from 0.84."""
    return float(f"{bound:.12g}")


def read_goal(
    metric: Section,
    name: str,
    tool: str,
    key: str = "goal",
    words: tuple[str, str] = ("minimize", "maximize"),
) -> Direction:
    """Resolve the direction of a metric; remark on a goal that contradicts it, or is missing.

    Args:
        metric: the section that holds the goal.
        name: name of the metric.
        tool: name of the tool, which minimizes by default.
        key: the key of the goal.
        words: the words of the tool for the two directions.
    """
    registered = known_direction(name)
    goal_text = metric.word(key)
    if goal_text not in ("", *words):
        expected = " or ".join(words)
        metric.notes.add_error((*metric.path, key), f"a {key} must be {expected}, got {goal_text!r}")
        goal_text = ""
    goal = Direction.parse(goal_text) if goal_text else MINIMIZE
    if registered is None:
        if not goal_text:
            text = f"is missing, so {tool} minimizes {name}"
            metric.remark(key, text, "no-goal", "the import writes minimize")
        return goal
    called, direction = registered
    if goal is not direction:
        contradiction = (
            f"{goal_text} contradicts" if goal_text else f"is missing, so {tool} minimizes, which contradicts"
        )
        of = name if called == name else f"{name}: {called}"
        metric.remark(
            key,
            f"{contradiction} {of}, which must be {direction}d",
            "direction",
            f"the import writes {direction}",
        )
    return direction


def as_reported(name: str, direction: Direction, metric: Section) -> str | dict[str, Any]:
    """Return a metric that a program reports: its name if it is registered, else with its direction."""
    with suppress(HpometricsError):  # it is not registered
        if find_metric(MetricName.parse(name).bare).direction is direction:
            return name
    return with_direction(name, direction, metric)


def with_direction(name: str, direction: Direction, metric: Section) -> dict[str, Any]:
    """Return a metric with its direction, so that an engine without an output may log it."""
    spelling = _NO_NAME.sub("_", name).strip("_./-") or "score"
    try:
        MetricName.parse(spelling)
    except HpometricsError:
        spelling = re.sub(r"[^A-Za-z0-9_]+", "_", spelling)
    if spelling != name:
        metric.remark("name", f"{name!r} is not a valid name here; report it as {spelling}")
    return {"metric": spelling, "direction": direction.value}
