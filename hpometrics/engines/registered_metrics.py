"""Metrics of the registry over tuples, in one pass for all that read the tuples in the same way."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from ..direction import Direction
from ..exceptions import MetricInputError, MetricNameError
from ..metrics.batch import as_tensor
from ..metrics.collection import MetricCollection, metric_of
from ..metrics.features import (
    BINARY,
    CATEGORY,
    LOGITS,
    MASK,
    PREDICTIONS,
    PROBABILITIES,
    RANKING,
    SEQUENCE,
    SET,
    InputType,
    Output,
    OutputFeature,
    parse_feature,
)
from ..metrics.registry.ludwig_names import one_direction
from ..metrics.registry.names import MetricName, Scalar
from ..metrics.registry.scope import VALIDATION, per_class_problem
from ..run.metric_spec import MetricSpec, resolve_metric, resolve_tracked
from .tuple_metrics import Folds, Score, TupleMetric, Tuples

Column = Callable[[Any, Any, Any], Any]

_SCORED = (BINARY, CATEGORY, SET, SEQUENCE, MASK)

FOLDS = "folds"
"""The parameter of the name of a value over the folds: their mean, or their deviation."""
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class TupleReader:
    """The conversion of tuples to one batch of model outputs; see `registered` for the arguments."""

    output: OutputFeature
    prediction: Callable[[Any], Any] | None = None
    target: Callable[[Any], Any] | None = None
    classes: tuple[Any, ...] | None = None
    inputs: InputType | None = None
    columns: tuple[tuple[str, Column], ...] = ()

    def batch(self, tuples: Tuples) -> dict[str, Any]:
        """Return the arguments of `update`; none without tuples."""
        rows = list(tuples)
        if not rows:
            return {}
        predicted = [self.prediction(row[1]) if self.prediction else row[1] for row in rows]
        actual = [self.target(row[2]) if self.target else row[2] for row in rows]
        inputs = self.inputs or self._inputs_of(predicted)
        labels = inputs is PREDICTIONS
        return {
            inputs.value: _stack(self._indices(predicted) if labels else predicted),
            "target": _stack(self._indices(actual)),
            **{name: _stack([column(*row) for row in rows]) for name, column in self.columns},
        }

    def measure(self, metrics: Sequence[TupleMetric], folds: Folds) -> list[Score]:
        """Measure several metrics in one pass: all folds as one by their merged statistics, and each fold."""
        members = [metric.prototype for metric in metrics if isinstance(metric, RegisteredMetric)]
        collections = []
        for _, tuples in folds:
            fresh = [member.alone() for member in members]
            collection = MetricCollection(fresh, self.output, non_finite="propagate")
            if batch := self.batch(tuples):
                collection.update(**batch)
            collections.append(collection)
        return _scores([member.name for member in members], collections)

    def _inputs_of(self, predicted: Sequence[Any]) -> InputType:
        """Return the input type of predicted results by their shape and dtype, never by their values."""
        if self.output.type == RANKING:
            return LOGITS
        if self.output.type not in _SCORED or isinstance(predicted[0], str):
            return PREDICTIONS
        first = np.asarray(predicted[0])
        label = first.ndim == 0 and (self.output.type == CATEGORY or self.classes is not None)
        return PREDICTIONS if label or first.dtype.kind != "f" else PROBABILITIES

    def _indices(self, labels: list[Any]) -> list[Any]:
        """Return the index of each label among the classes, if there are names of classes."""
        if self.classes is None:
            return labels
        places = {label: place for place, label in enumerate(self.classes)}
        try:
            return [places[label] for label in labels]
        except KeyError as err:
            raise MetricInputError(
                f"label {err.args[0]!r} is not one of classes={list(self.classes)!r}; list every class, "
                "even those that a fold lacks"
            ) from None


class RegisteredMetric(TupleMetric):
    """A metric of the registry that reads tuples; `registered` makes one."""

    reader: TupleReader

    def __init__(self, spec: MetricSpec, reader: TupleReader, title: str = "") -> None:
        if spec.measured is None or spec.split != VALIDATION or spec.task is not None:
            raise MetricNameError(
                f"{spec.name} cannot be measured from tuples; name a metric of one output, without a split "
                "or a task"
            )
        self.prototype = metric_of(spec.measured, reader.output)
        self.direction = spec.direction
        self.title = title
        self.reader = reader
        if getattr(self.prototype, "average", None) == "none":
            raise MetricNameError(per_class_problem(spec.name, "a score is"))

    @property
    def header(self) -> str:
        """Its title, or its canonical name."""
        return self.title or self.prototype.name

    @property
    def parameters(self) -> dict[str, Any]:
        """Its name, its reader and its title, which distinguish it from other metrics."""
        return {"metric": self.prototype.name, "reader": self.reader, "title": self.title}

    def gather(self, tuples: Tuples) -> list[Any]:
        """Return the tuples as a list: they are measured as one batch."""
        return list(tuples)

    def conclude(self, parts: Sequence[Any]) -> Score:
        """Measure the tuples of one fold or of several."""
        return self.measure([(None, [row for fold in parts for row in fold])])

    def measure(self, folds: Folds) -> Score:
        """Measure all folds as one, and each by itself."""
        [score] = self.reader.measure([self], folds)
        return score


def registered(
    metric: Any,
    *,
    output: Output,
    prediction: Callable[[Any], Any] | None = None,
    target: Callable[[Any], Any] | None = None,
    classes: Sequence[Any] | None = None,
    inputs: InputType | str | None = None,
    direction: Direction | str | None = None,
    columns: Mapping[str, Column] | None = None,
    title: str = "",
    objective: Direction | str | None = None,
) -> RegisteredMetric:
    """Create a metric of tuples from any metric of the registry.

    Args:
        metric: a name, `"f1(average=macro)"`, or a metric.
        output: what the engine predicts.
        prediction: returns the model output for a predicted result; default: it is one.
        target: returns the target for an actual result; default: it is one.
        classes: the labels in the order of their index, where they are not the indices themselves.
        inputs: the input type of the model output. By default its shape and dtype decide: for a category a
            scalar is a label; else floats are probabilities, ints and bools predictions. For a ranking they
            are scores.
        direction: the direction, for a metric that has none of its own.
        columns: further keywords of `update`, such as `sample_weight`, each a function of query, predicted
            and actual result.
        title: its name; default: its canonical name.
        objective: another word for `direction`.

    Raises:
        UnknownMetricError, MetricNameError, DirectionError: it is not a metric that can be optimized here.

    >>> metric = registered("accuracy", output="category(num_classes=2)", classes=["no", "yes"])
    >>> metric.score([("fold 0", [("q", "yes", "yes")]), ("fold 1", [("q", "no", "yes"), ("q", "no", "no")])])
    0.6666666666666666
    """
    feature = parse_feature(output)
    stated = one_direction(str(metric), direction, objective, unstated=None)
    reader = TupleReader(
        feature,
        prediction,
        target,
        None if classes is None else tuple(classes),
        None if inputs is None else InputType(inputs),
        tuple((columns or {}).items()),
    )
    return RegisteredMetric(resolve_metric(metric, {None: feature}, stated), reader, title)


def others_registered(metric: Any, output: Output) -> Iterator[RegisteredMetric]:
    """Create metrics of tuples from a metric that is not optimized, or from a group of them."""
    reader = TupleReader(parse_feature(output))
    for spec in resolve_tracked([metric], {None: reader.output}):
        yield RegisteredMetric(spec, reader)


def _scores(names: Sequence[str], collections: Sequence[MetricCollection]) -> list[Score]:
    alone = [_read_scores(names, collection) for collection in collections]
    if len(alone) == 1:
        pooled = alone[0]
    elif collections:
        whole = collections[0].fresh()
        for collection in collections:
            whole.merge(collection)
        pooled = _read_scores(names, whole)
    else:
        pooled = [Score.undefined("the evaluation has no tuples")] * len(names)
    return [score.with_folds(folds) for score, *folds in zip(pooled, *alone, strict=True)]


def _read_scores(names: Sequence[str], collection: MetricCollection) -> list[Score]:
    values = collection.compute(synchronize=False)
    return [_score(name, values[name], collection.reasons.get(name)) for name in names]


def _score(name: str, value: torch.Tensor, reason: str | None) -> Score:
    if value.ndim:
        raise MetricNameError(
            f"{name} returns {' x '.join(map(str, value.shape))} values, but a score must be one number"
        )
    return Score.undefined(reason) if reason else Score.of(value.item())


def _stack(values: list[Any]) -> Any:
    """Return a column as `update` takes it: texts and mappings as a list, all else as one tensor."""
    first = values[0]
    if isinstance(first, torch.Tensor):
        return torch.stack(values)
    texts = isinstance(first, (list, tuple)) and first and isinstance(first[0], str)
    if texts or isinstance(first, (str, Mapping)):
        return values
    return as_tensor(np.asarray(values))


def value_names(metrics: Sequence[TupleMetric]) -> tuple[MetricName, ...]:
    """Return the name of each metric's value.

    A registered one has its own name, `f1(average=macro)`; a metric of tuples that of its class with its
    parameters, `PrecisionAtK(k=10, threshold=4.0)`; a title that is a word replaces either.

    Raises:
        MetricNameError: a metric has no such name, or two have the same.
    """
    names = tuple(_name_of(metric) for metric in metrics)
    for index, name in enumerate(names):
        if name in names[:index]:
            raise MetricNameError(
                f"{metrics[index].header}: another metric is also recorded as {name}; give one of them a "
                "one-word title"
            )
    return names


def with_folds(name: MetricName) -> tuple[str, ...]:
    """Return the names of a value, of its mean and of its deviation over the folds.

    >>> with_folds(MetricName.parse("f1(average=macro)"))
    ('f1(average=macro)', 'f1(average=macro, folds=mean)', 'f1(average=macro, folds=deviation)')
    """
    if FOLDS in dict(name.params):
        return (str(name),)
    of_folds = (replace(name, params=(*name.params, (FOLDS, what))) for what in ("mean", "deviation"))
    return (str(name), *map(str, of_folds))


def values_of(name: MetricName, score: Score) -> Iterator[tuple[str, float, str | None]]:
    """Yield the value of a score with its name, and the reason if it is not finite.

    For several folds the mean and the deviation of their values follow.
    """
    called, *of_folds = with_folds(name)
    yield called, score.value, score.reason
    if len(score.folds) > 1:
        why = next((fold.reason for fold in score.folds if fold.reason is not None), None)
        for part, value in zip(of_folds, (score.mean, score.deviation), strict=False):
            yield part, value, why


def _name_of(metric: TupleMetric) -> MetricName:
    titled = metric.title if _WORD.fullmatch(metric.title) else ""
    if isinstance(metric, RegisteredMetric):
        return MetricName(titled) if titled else MetricName.parse(metric.prototype.name)
    params = tuple((name, _scalar(value)) for name, value in metric.parameters.items())
    name = MetricName(titled or type(metric).__name__.lstrip("_"), params)
    try:
        return MetricName.parse(str(name))
    except MetricNameError as err:
        raise MetricNameError(f"{metric.header}: its value needs a name for the record; {err}") from None


def _scalar(value: Any) -> Scalar:
    """Return a parameter as a name can have it: a number, a bool or a text, all else as its `str`."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    return str(value)
