"""What the record of a trial calls the scores of an evaluation: names in the grammar of all values."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from ..exceptions import MetricNameError
from ..metrics.registry.names import MetricName, Scalar
from .metrics import TupleMetric
from .registered_metrics import RegisteredMetric
from .score import Score

FOLDS = "folds"
"""The parameter of a name that is about the values of the folds: their mean, or their deviation."""

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


def value_names(metrics: Sequence[TupleMetric]) -> tuple[MetricName, ...]:
    """Name the value of each metric.

    A registered one keeps its name, `f1(average=macro)`; a metric of tuples is called by its class with its
    parameters, `PrecisionAtK(k=10, threshold=4.0)`; a title that is a word stands in the place of either.

    Raises:
        MetricNameError: a metric has no such name, or two have the same.
    """
    names = tuple(_name(metric) for metric in metrics)
    for index, name in enumerate(names):
        if name in names[:index]:
            raise MetricNameError(
                f"{metrics[index].header}: another metric is recorded as {name} too; give one of them a "
                "title that is a word"
            )
    return names


def with_folds(name: MetricName) -> tuple[str, ...]:
    """The names of a value, of its mean and of its deviation over the folds.

    >>> with_folds(MetricName.parse("f1(average=macro)"))
    ('f1(average=macro)', 'f1(average=macro, folds=mean)', 'f1(average=macro, folds=deviation)')
    """
    if FOLDS in dict(name.params):
        return (str(name),)
    of_folds = (replace(name, params=(*name.params, (FOLDS, what))) for what in ("mean", "deviation"))
    return (str(name), *map(str, of_folds))


def values_of(name: MetricName, score: Score) -> Iterator[tuple[str, float, str | None]]:
    """Give the value of a score with its name and the reason of one that is not finite.

    Of several folds the mean and the deviation of their values follow.
    """
    called, *of_folds = with_folds(name)
    yield called, score.value, score.reason
    if len(score.folds) > 1:
        why = next((fold.reason for fold in score.folds if fold.reason is not None), None)
        for part, value in zip(of_folds, (score.mean, score.deviation), strict=False):
            yield part, value, why


def _name(metric: TupleMetric) -> MetricName:
    titled = metric.title if _WORD.fullmatch(metric.title) else ""
    if isinstance(metric, RegisteredMetric):
        return MetricName(titled) if titled else MetricName.parse(metric.prototype.name)
    params = tuple((name, _scalar(value)) for name, value in metric.parameters.items())
    name = MetricName(titled or type(metric).__name__.lstrip("_"), params)
    try:
        read = MetricName.parse(str(name))
    except MetricNameError as err:
        raise MetricNameError(f"{metric.header}: its value needs a name for the record; {err}") from None
    return read


def _scalar(value: Any) -> Scalar:
    """A parameter as a name has it; what is no number, bool or text is the text that it prints."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    return str(value)
