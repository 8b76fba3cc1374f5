"""scikit-learn: any metric as a scorer, and what an estimator says of rows as an update of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..direction import MAXIMIZE
from ..exceptions import MetricInputError, ObjectiveError
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
    """`scorer(estimator, X, y)`: the value of a metric, and of one that is minimised its negative.

    Greater is better, as scikit-learn wants it of a scorer. It goes wherever scikit-learn takes one:
    `cross_val_score`, `GridSearchCV`, `permutation_importance`. See `as_scorer`.
    """

    def __init__(
        self,
        panel: MetricCollection,
        response_method: Method | None = None,
        labels: Sequence[Any] | None = None,
    ) -> None:
        (self.name,) = panel.names
        objective = panel.objective_of(self.name)
        if objective is None:
            raise ObjectiveError(f"{self.name} has no direction, so it cannot say which estimator is better")
        self._panel, self._labels = panel, labels
        self._sign = 1.0 if objective is MAXIMIZE else -1.0
        self._method = response_method or _METHOD_OF[panel[self.name].inputs]

    def __repr__(self) -> str:
        return f"as_scorer({self.name!r}, output={str(self._panel.output)!r})"

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Measure a fitted estimator on rows; nan where the metric is undefined.

        Raises:
            MetricInputError: the estimator lacks what the metric reads, or the rows have labels that it does
                not know.
        """
        if not hasattr(estimator, self._method):
            raise MetricInputError(self._lacking(estimator))
        panel = self._panel.fresh()
        answers = _Answers(estimator, panel.output, self._labels)
        panel.update(**answers.outputs(X, y, [self._method]), sample_weight=sample_weight)
        return self._sign * float(panel.compute()[self.name])

    def _lacking(self, estimator: Any) -> str:
        kind, name = _INPUT_OF[self._method], type(estimator).__name__
        told = f"{self.name} reads {kind}, and {name} has no {self._method}"
        if self._method != "predict_proba" or not hasattr(estimator, "decision_function"):
            return told
        return (
            f"{told}; calibrate it (CalibratedClassifierCV), or say response_method='decision_function', "
            "which is read as logits: right for what follows from the order of rows alone"
        )


def as_scorer(
    metric: str | Metric | type[Metric],
    output: OutputFeature | str | None = None,
    *,
    response_method: Method | None = None,
    labels: Sequence[Any] | None = None,
) -> Scorer:
    """Make a scorer of a metric, for `scoring=` of whatever scikit-learn has.

    Args:
        metric: a name, a class or an object.
        output: what the estimator predicts; may be left out where the metric knows.
        response_method: the estimator's method that is asked. Unless given it follows from what the metric
            reads: `predict` for predictions, `predict_proba` for probabilities, `decision_function` for
            logits. A decision function is read as logits, whatever the metric reads.
        labels: the classes in their order, so that a fold may lack one; those of the fitted estimator
            (`classes_`) unless given. Of a binary output the second is class 1.

    Raises:
        MetricNameError, UnknownMetricError: there is no such metric, or none of that output.
        ObjectiveError: it has no direction.

    >>> from sklearn.dummy import DummyClassifier
    >>> coin = DummyClassifier(strategy="prior").fit([[0], [0]], ["no", "yes"])
    >>> as_scorer("brier", "binary")(coin, [[0], [0]], ["no", "yes"])  # 0.5**2, and less is better
    -0.25
    """
    return Scorer(MetricCollection([metric], output), response_method, labels)


def estimator_outputs(
    estimator: Any, X: Any, y: Any, output: OutputFeature | str, *, labels: Sequence[Any] | None = None
) -> dict[str, Any]:
    """Give what a fitted estimator says of rows, and the truth: `run.update(**estimator_outputs(...))`.

    Predictions always, and probabilities of an estimator that has them. With an estimator that learns by
    `partial_fit` or `warm_start` a run then reports every epoch.

    Args:
        estimator: fitted.
        X: the rows.
        y: the truth about them.
        output: what the estimator predicts.
        labels: see `as_scorer`.

    Raises:
        MetricInputError: the rows have labels that the estimator does not know.
    """
    methods: list[Method] = ["predict"]
    if hasattr(estimator, "predict_proba"):
        methods.append("predict_proba")
    return _Answers(estimator, parse_feature(output), labels).outputs(X, y, methods)


class _Answers:
    """What a fitted estimator says of rows, by scikit-learn's methods; classes are numbers, in one order."""

    def __init__(self, estimator: Any, output: OutputFeature, labels: Sequence[Any] | None) -> None:
        self._estimator, self._output = estimator, output
        self._classes: list[Any] | None = None
        if output.type in (BINARY, CATEGORY):
            self._classes = np.asarray(estimator.classes_ if labels is None else labels).tolist()
            self._check_count(self._classes)

    def outputs(self, X: Any, y: Any, methods: Sequence[Method]) -> dict[str, Any]:
        """The answers of these methods, and the truth, under the keywords of an update."""
        answers = {str(_INPUT_OF[method]): getattr(self, method)(X) for method in methods}
        return {**answers, "target": self._target(np.asarray(y))}

    def predict(self, X: Any) -> Array:
        given = np.asarray(self._estimator.predict(X))
        return given if self._classes is None else self._places(given.tolist())

    def predict_proba(self, X: Any) -> Array:
        given = self._estimator.predict_proba(X)
        if self._output.type == SET and isinstance(given, list):  # for each label a table of two columns
            return np.stack([table[:, 1] for table in given], axis=1)
        if self._classes is None:
            return np.asarray(given)
        columns = np.zeros((len(given), len(self._classes)))
        columns[:, self._places(self._estimator.classes_.tolist())] = given
        return columns[:, 1] if self._output.type == BINARY else columns

    def decision_function(self, X: Any) -> Array:
        if self._classes is not None and self._classes != (known := self._estimator.classes_.tolist()):
            raise MetricInputError(
                f"a decision function is of the classes that the estimator was fitted on, {known}, in their "
                f"order; got labels={self._classes}"
            )
        return np.asarray(self._estimator.decision_function(X))

    def _target(self, y: Array) -> Array:
        if self._output.type == CLUSTERS:  # their names have no meaning
            return np.unique(y, return_inverse=True)[1]
        return y if self._classes is None else self._places(y.tolist())

    def _places(self, labels: Sequence[Any]) -> Array:
        places = {label: place for place, label in enumerate(self._classes or ())}
        unknown = [label for label in labels if label not in places]
        if unknown:
            raise MetricInputError(
                f"the label {unknown[0]!r} is none of {self._classes}; give all labels by labels="
            )
        return np.array([places[label] for label in labels], dtype=np.int64)

    def _check_count(self, classes: list[Any]) -> None:
        wanted = 2 if self._output.type == BINARY else getattr(self._output, "num_classes", None)
        if wanted not in (None, len(classes)):
            raise MetricInputError(
                f"the output is {self._output}, and there are {len(classes)} classes, {classes}; give all of "
                "them by labels=, or see to it that each fold has them (StratifiedKFold)"
            )
