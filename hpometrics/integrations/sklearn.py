"""scikit-learn scorers from metrics, and updates of a run from estimators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..direction import MAXIMIZE
from ..exceptions import DirectionError, MetricInputError
from ..metrics.collection import MetricCollection
from ..metrics.features import (
    BINARY,
    CATEGORY,
    CLUSTERS,
    LOGITS,
    PREDICTIONS,
    PROBABILITIES,
    SET,
    InputType,
    OutputFeature,
    parse_feature,
)
from ..metrics.metric import Metric

__all__ = ["Scorer", "as_scorer", "estimator_outputs"]

Array = NDArray[Any]
Method = Literal["predict", "predict_proba", "decision_function"]

_METHOD_OF: Mapping[InputType, Method] = {
    PREDICTIONS: "predict",
    PROBABILITIES: "predict_proba",
    LOGITS: "decision_function",
}
_INPUT_OF: Mapping[Method, InputType] = {method: kind for kind, method in _METHOD_OF.items()}


class Scorer:
    """`scorer(estimator, X, y)`: the value of a metric, negated if the metric is minimized.

    Greater is better, as scikit-learn expects of a scorer. It is accepted wherever scikit-learn takes one:
    `cross_val_score`, `GridSearchCV`, `permutation_importance`. See `as_scorer`.
    """

    def __init__(
        self,
        collection: MetricCollection,
        response_method: Method | None = None,
        labels: Sequence[Any] | None = None,
    ) -> None:
        (self.name,) = collection.names
        direction = collection.direction_of(self.name)
        if direction is None:
            raise DirectionError(
                f"{self.name} has no direction, so it cannot decide which estimator is better"
            )
        self._collection, self._labels = collection, labels
        self._sign = 1.0 if direction is MAXIMIZE else -1.0
        self._method = response_method or _METHOD_OF[collection[self.name].inputs]

    def __repr__(self) -> str:
        return f"as_scorer({self.name!r}, output={str(self._collection.output)!r})"

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the value of a fitted estimator on rows; nan where the metric is undefined.

        Raises:
            MetricInputError: the estimator lacks the method that the metric needs, or the rows have labels
                that it does not know.
        """
        if not hasattr(estimator, self._method):
            raise MetricInputError(self._missing_method(estimator))
        collection = self._collection.fresh()
        outputs = _EstimatorOutputs(estimator, collection.output, self._labels)
        collection.update(**outputs.compute(X, y, [self._method]), sample_weight=sample_weight)
        return self._sign * float(collection.compute()[self.name])

    def _missing_method(self, estimator: Any) -> str:
        """Return the message for an estimator without the method."""
        kind, name = _INPUT_OF[self._method], type(estimator).__name__
        message = f"{self.name} reads {kind}, and {name} has no {self._method}"
        if self._method != "predict_proba" or not hasattr(estimator, "decision_function"):
            return message
        return (
            f"{message}; calibrate it (CalibratedClassifierCV), or pass "
            "response_method='decision_function', which is read as logits and suits metrics that depend "
            "only on the order of rows"
        )


def as_scorer(
    metric: str | Metric | type[Metric],
    output: OutputFeature | str | None = None,
    *,
    response_method: Method | None = None,
    labels: Sequence[Any] | None = None,
) -> Scorer:
    """Create a scorer from a metric, for `scoring=` in scikit-learn.

    Args:
        metric: a name, a class or an object.
        output: what the estimator predicts; optional where the metric determines it.
        response_method: the estimator's method to call. By default it follows from what the metric reads:
            `predict` for predictions, `predict_proba` for probabilities, `decision_function` for logits. A
            decision function is read as logits, whatever the metric reads.
        labels: the classes in their order, so that a fold may lack one; by default those of the fitted
            estimator (`classes_`). For a binary output the second is class 1.

    Raises:
        MetricNameError, UnknownMetricError: there is no such metric, or none for that output.
        DirectionError: it has no direction.

    >>> from sklearn.dummy import DummyClassifier
    >>> coin = DummyClassifier(strategy="prior").fit([[0], [0]], ["no", "yes"])
    >>> as_scorer("brier", "binary")(coin, [[0], [0]], ["no", "yes"])  # 0.5**2, negated as lower is better
    -0.25
    """
    return Scorer(MetricCollection([metric], output), response_method, labels)


def estimator_outputs(
    estimator: Any, X: Any, y: Any, output: OutputFeature | str, *, labels: Sequence[Any] | None = None
) -> dict[str, Any]:
    """Return the outputs of a fitted estimator and the target: `run.update(**estimator_outputs(...))`.

    The outputs are predictions, and probabilities if the estimator has them. With an estimator that learns by
    `partial_fit` or `warm_start` a run can report every epoch.

    Args:
        estimator: the fitted estimator.
        X: the rows.
        y: the target of the rows.
        output: what the estimator predicts.
        labels: see `as_scorer`.

    Raises:
        MetricInputError: the rows have labels that the estimator does not know.
    """
    methods: list[Method] = ["predict"]
    if hasattr(estimator, "predict_proba"):
        methods.append("predict_proba")
    return _EstimatorOutputs(estimator, parse_feature(output), labels).compute(X, y, methods)


class _EstimatorOutputs:
    """The outputs of a fitted estimator by scikit-learn's methods; classes are numbers, in one order."""

    def __init__(self, estimator: Any, output: OutputFeature, labels: Sequence[Any] | None) -> None:
        self._estimator, self._output = estimator, output
        self._classes: list[Any] | None = None
        if output.type in (BINARY, CATEGORY):
            self._classes = np.asarray(estimator.classes_ if labels is None else labels).tolist()
            self._check_count(self._classes)

    def compute(self, X: Any, y: Any, methods: Sequence[Method]) -> dict[str, Any]:
        """Return the outputs of these methods, and the target, under the keywords of an update."""
        outputs = {str(_INPUT_OF[method]): getattr(self, method)(X) for method in methods}
        return {**outputs, "target": self._target(np.asarray(y))}

    def predict(self, X: Any) -> Array:
        predictions = np.asarray(self._estimator.predict(X))
        return predictions if self._classes is None else self._indices(predictions.tolist())

    def predict_proba(self, X: Any) -> Array:
        probabilities = self._estimator.predict_proba(X)
        if self._output.type == SET and isinstance(probabilities, list):  # a table of two columns per label
            shares = [self._of_label(i, table) for i, table in enumerate(probabilities)]
            return np.stack(shares, axis=1)
        if self._classes is None:
            return np.asarray(probabilities)
        columns = np.zeros((len(probabilities), len(self._classes)))
        columns[:, self._indices(self._estimator.classes_.tolist())] = probabilities
        return columns[:, 1] if self._output.type == BINARY else columns

    def _of_label(self, label: int, table: Array) -> Array:
        """Return the probability of a label of a set, which may be the same in all rows of the training."""
        if table.shape[1] > 1:
            return table[:, 1]
        (only,) = self._estimator.classes_[label]
        return np.full(len(table), float(only))

    def decision_function(self, X: Any) -> Array:
        if self._classes is not None and self._classes != (classes := self._estimator.classes_.tolist()):
            raise MetricInputError(
                "a decision function has a column for each class that the estimator was fitted on, "
                f"{classes}, in this order; got labels={self._classes}"
            )
        return np.asarray(self._estimator.decision_function(X))

    def _target(self, y: Array) -> Array:
        if self._output.type == CLUSTERS:  # their names have no meaning
            return np.unique(y, return_inverse=True)[1]
        return y if self._classes is None else self._indices(y.tolist())

    def _indices(self, labels: Sequence[Any]) -> Array:
        indices = {label: index for index, label in enumerate(self._classes or ())}
        unknown = [label for label in labels if label not in indices]
        if unknown:
            raise MetricInputError(
                f"the label {unknown[0]!r} is not one of {self._classes}; pass all labels as labels="
            )
        return np.array([indices[label] for label in labels], dtype=np.int64)

    def _check_count(self, classes: list[Any]) -> None:
        count = 2 if self._output.type == BINARY else getattr(self._output, "num_classes", None)
        if count not in (None, len(classes)):
            raise MetricInputError(
                f"the output is {self._output}, but there are {len(classes)} classes, {classes}; pass all "
                "of them as labels=, or make sure that each fold has them (StratifiedKFold)"
            )
