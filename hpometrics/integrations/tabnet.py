"""Registered metrics of tables in pytorch-tabnet's form, `metric(y_true, y_score)`.

Pass the classes to `eval_metric=[...]` of a pytorch-tabnet model like its own; it need not be installed. For
a name that both have (`accuracy`, `auc`, `rmse`) pytorch-tabnet uses its own metric.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..direction import MAXIMIZE
from ..exceptions import (
    DirectionError,
    MetricInputError,
    MetricNameError,
    RegistrationError,
    UnknownMetricError,
)
from ..metrics._validation import BatchValidator
from ..metrics.batch import Outputs, as_tensor
from ..metrics.features import (
    BINARY,
    CATEGORY,
    LOGITS,
    NUMBER,
    PREDICTIONS,
    SET,
    VECTOR,
    Binary,
    Category,
    Number,
    OutputFeature,
    Set,
    Vector,
)
from ..metrics.registry.lookup import FoundMetric, find_metric
from ..metrics.registry.register import get_metric

if TYPE_CHECKING:
    _TabnetBase = object
else:
    try:
        # pytorch-tabnet finds the direct subclasses of its own base class
        from pytorch_tabnet.metrics import Metric as _TabnetBase
    except ImportError:
        _TabnetBase = object

FeatureInputs = tuple[OutputFeature, dict[str, Tensor]]

_FEATURES = (BINARY, CATEGORY, SET, NUMBER, VECTOR)


def _tabnet_match(match: FoundMetric) -> FoundMetric:
    """Return the entries for what pytorch-tabnet predicts: labels, probabilities and numbers."""
    metric = match.among(_FEATURES)
    if not metric.entries:
        kinds = ", ".join(entry.feature_type for entry in match.entries)
        raise UnknownMetricError(
            f"{match.name} is a metric of {kinds}; pytorch-tabnet predicts {', '.join(_FEATURES)}"
        )
    if metric.inputs is LOGITS:
        raise MetricNameError(f"{metric.name} reads logits; pytorch-tabnet passes probabilities")
    if ("average", "none") in metric.name.params:
        raise MetricNameError(f"{metric.name} has one value per class; choose another average")
    if metric.direction is None:
        raise DirectionError(
            f"{metric.name} has no direction, so pytorch-tabnet cannot use it for early stopping"
        )
    return metric


class TabnetMetric:
    """A registered metric, called with all rows at once: `metric(y_true, y_score)` is its value as a float.

    The meaning of `y_score` follows from its shape and dtype, never from its values:

    - for a metric of numbers, one prediction per row (N,), or several (N, D);
    - (N, C) with labels (N,): the probabilities of C classes. With two classes, a metric that exists for a
      binary output reads the second column;
    - (N, L) with labels (N, L): the probability (float) or the prediction (integer or bool) of each label;
    - (N,) float: the probability of class 1; a metric that reads predictions predicts 1 above 0.5;
    - (N,) integer or bool: predicted labels.

    A subclass of such a class measures the same metric unless it names another. If its own `__call__` turns
    the value so that the other direction is better, it states `_maximize`.

    A column (N, 1) is read as (N,). Arguments are tensors, arrays or lists. The value is nan where the metric
    is undefined, as the AUC of one class.

    Raises:
        MetricInputError: the scores are not what the metric reads.
    """

    _name: ClassVar[str]
    _maximize: ClassVar[bool]
    _match: ClassVar[FoundMetric]

    def __init_subclass__(cls, *, metric: str | None = None, name: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if metric is not None:
            cls._match = _tabnet_match(find_metric(metric))
            cls._name = str(cls._match.name)
            cls._maximize = cls._match.direction is MAXIMIZE
        elif not hasattr(cls, "_match"):
            raise RegistrationError(
                f"{cls.__name__} does not name a metric; write class {cls.__name__}(TabnetMetric, "
                'metric="roc_auc"), or derive it from a class that has one, such as AUC'
            )
        cls._name = name or cls._name

    def __call__(self, y_true: Any, y_score: Any) -> float:
        """Return the value of the metric."""
        output, tensors = _parse_scores(self._match, _column(y_true), _column(y_score))
        metric = get_metric(self._match.name, output)
        metric.update(**tensors)
        return float(metric.compute())


class Accuracy(TabnetMetric, _TabnetBase, metric="accuracy"):
    """Share of rows that are predicted correctly.

    >>> Accuracy()(torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, 0]))
    0.75
    """


class AUC(TabnetMetric, _TabnetBase, metric="roc_auc", name="auc"):
    """Area under the ROC curve.

    >>> AUC()(torch.tensor([0, 1, 1, 0]), torch.tensor([0.1, 0.8, 0.7, 0.2]))
    1.0
    """


class BalancedAccuracy(TabnetMetric, _TabnetBase, metric="balanced_accuracy"):
    """Mean recall over the classes that occur in the target.

    >>> BalancedAccuracy()(torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, 0]))
    0.75
    """


class LogLoss(TabnetMetric, _TabnetBase, metric="log_loss", name="logloss"):
    """Mean negative log-likelihood of the target; scores are probabilities, without another softmax.

    >>> round(LogLoss()(torch.tensor([0, 1]), torch.tensor([0.1, 0.9])), 5)
    0.10536
    """


class UnsupervisedLoss(TabnetMetric, _TabnetBase, metric="unsup_loss"):
    """Squared error of the columns masked from a pretrainer, in units of their variance.

    Called as `TabNetPretrainer` calls its metrics, the reconstruction first.

    >>> hidden = [[1, 1], [1, 0], [0, 1]]
    >>> round(UnsupervisedLoss()([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], [[1, 1], [2, 4], [6, 7]], hidden), 7)
    0.0661376
    """

    def __call__(  # type: ignore[override]  # a pretrainer has no y_true
        self, y_pred: Any, embedded_x: Any, obf_vars: Any
    ) -> float:
        """Return the value of the metric.

        Args:
            y_pred: (N, D), the reconstruction.
            embedded_x: (N, D), the original.
            obf_vars: (N, D) of 0 and 1, 1 where a column was masked.

        Raises:
            MetricInputError: the three differ in shape, or obf_vars hold other numbers.
        """
        metric = get_metric(self._match.name, Vector())
        metric.update(_tensor(y_pred), _tensor(embedded_x), mask=_tensor(obf_vars))
        return float(metric.compute())


@functools.cache
def tabnet_metric(name: str) -> type[TabnetMetric]:
    """Create the class of a registered metric, for `eval_metric=[tabnet_metric("f1_macro")]`.

    Raises:
        MetricNameError, UnknownMetricError: a table's outputs have no such metric, or it needs parameters.
        DirectionError: it has no direction, and pytorch-tabnet stops early by one.

    >>> round(tabnet_metric("rmse")()([3.0, 5.0], [3.0, 1.0]), 9)  # the root of 8
    2.828427125
    """
    if find_metric(name).name == UnsupervisedLoss._match.name:
        return UnsupervisedLoss

    class Registered(TabnetMetric, _TabnetBase, metric=name):
        __doc__ = f"The registered metric {name}."

    Registered.__name__ = Registered.__qualname__ = name
    return Registered


def _tensor(values: Any) -> Tensor:
    return as_tensor(values if isinstance(values, Tensor) else np.asarray(values))


def _column(values: Any) -> Tensor:
    tensor = _tensor(values)
    return tensor.squeeze(1) if tensor.ndim == 2 and tensor.shape[1] == 1 else tensor


def _parse_scores(match: FoundMetric, target: Tensor, score: Tensor) -> FeatureInputs:
    """Return the output feature that the scores predict, and the keywords of an update."""
    types = {entry.feature_type for entry in match.entries}
    if types & {NUMBER, VECTOR}:
        return (Number() if score.ndim < 2 else Vector()), {"predictions": score, "target": target}
    if target.ndim == 2:
        return Set(), {
            "probabilities" if score.is_floating_point() else "predictions": score,
            "target": target,
        }
    if score.ndim == 2:
        return _parse_classes(types, target, score)
    if score.is_floating_point():
        if BINARY in types:
            return Binary(), {"probabilities": score, "target": target}
        return Category(2), {"probabilities": torch.stack([1 - score, score], 1), "target": target}
    if match.inputs is not PREDICTIONS:
        raise MetricInputError(
            f"{match.name} reads {match.inputs}, but one-dimensional {score.dtype} scores are labels; pass "
            "the probability of class 1 as floats, or (N, C) probabilities"
        )
    return (Category() if CATEGORY in types else Binary()), {"predictions": score, "target": target}


def _parse_classes(types: set[str], target: Tensor, score: Tensor) -> FeatureInputs:
    classes = score.shape[1]
    if classes != 2 or BINARY not in types:
        return Category(classes), {"probabilities": score, "target": target}
    # check both columns before one is left out
    BatchValidator().validate(Outputs(Category(2), probabilities=score, target=target))
    return Binary(), {"probabilities": score[:, 1], "target": target}
