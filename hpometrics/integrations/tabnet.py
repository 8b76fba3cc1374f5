"""pytorch-tabnet's form of a metric, `metric(y_true, y_score)`, for every registered metric of a table.

The classes go into `eval_metric=[...]` of a pytorch-tabnet model, as its own do; it need not be installed.
By a name that both have (`accuracy`, `auc`, `rmse`) pytorch-tabnet takes its own metric.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ..direction import MAXIMIZE
from ..exceptions import (
    MetricInputError,
    MetricNameError,
    ObjectiveError,
    RegistrationError,
    UnknownMetricError,
)
from ..metrics._validation import Gate
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
    _Host = object
else:
    try:
        from pytorch_tabnet.metrics import (
            Metric as _Host,
        )  # it finds the direct subclasses of its own base class
    except ImportError:
        _Host = object

Reading = tuple[OutputFeature, dict[str, Tensor]]

_SERVED = (BINARY, CATEGORY, SET, NUMBER, VECTOR)


def _served(found: FoundMetric) -> FoundMetric:
    """Keep the entries for what pytorch-tabnet predicts: labels, probabilities and numbers."""
    served = found.among(_SERVED)
    if not served.entries:
        kinds = ", ".join(entry.feature_type for entry in found.entries)
        raise UnknownMetricError(
            f"{found.name} is a metric of {kinds}; pytorch-tabnet predicts {', '.join(_SERVED)}"
        )
    if served.inputs is LOGITS:
        raise MetricNameError(f"{served.name} reads logits; pytorch-tabnet hands over probabilities")
    if ("average", "none") in served.name.params:
        raise MetricNameError(f"{served.name} is a value per class; choose another average")
    if served.objective is None:
        raise ObjectiveError(f"{served.name} has no direction, so pytorch-tabnet cannot stop early by it")
    return served


class TabnetMetric:
    """A registered metric, called with all rows at once: `metric(y_true, y_score)` is its value as a float.

    What `y_score` is, follows from its shape and dtype, never from its values:

    - of a metric of numbers, one prediction per row (N,), or several (N, D);
    - (N, C) with labels (N,): the probabilities of C classes. Of two classes a metric that exists for a
      binary output reads the second column;
    - (N, L) with labels (N, L): of each label, its probability (float) or the prediction (integer or bool);
    - (N,) float: the probability of class 1; a metric that reads predictions takes above 0.5 as class 1;
    - (N,) integer or bool: predicted labels.

    A subclass of such a class measures the same metric unless it names another; where what it makes of the
    value in a `__call__` of its own gets better the other way, it states `_maximize`.

    A column (N, 1) is read as (N,). Arguments are tensors, arrays or lists. The value is nan where the metric
    is undefined, as the AUC of one class.

    Raises:
        MetricInputError: the scores are not what the metric reads.
    """

    _name: ClassVar[str]
    _maximize: ClassVar[bool]
    _found: ClassVar[FoundMetric]

    def __init_subclass__(cls, *, metric: str | None = None, name: str | None = None, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if metric is not None:
            cls._found = _served(find_metric(metric))
            cls._name = str(cls._found.name)
            cls._maximize = cls._found.objective is MAXIMIZE
        elif not hasattr(cls, "_found"):
            raise RegistrationError(
                f"{cls.__name__} names no metric to measure; write class {cls.__name__}(TabnetMetric, "
                'metric="roc_auc"), or derive it from a class that has one, such as AUC'
            )
        cls._name = name or cls._name

    def __call__(self, y_true: Any, y_score: Any) -> float:
        """Measure."""
        output, tensors = _read(self._found, _column(y_true), _column(y_score))
        metric = get_metric(self._found.name, output)
        metric.update(**tensors)
        return float(metric.compute())


class Accuracy(TabnetMetric, _Host, metric="accuracy"):
    """Share of rows predicted right.

    >>> Accuracy()(torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, 0]))
    0.75
    """


class AUC(TabnetMetric, _Host, metric="roc_auc", name="auc"):
    """Area under the ROC curve.

    >>> AUC()(torch.tensor([0, 1, 1, 0]), torch.tensor([0.1, 0.8, 0.7, 0.2]))
    1.0
    """


class BalancedAccuracy(TabnetMetric, _Host, metric="balanced_accuracy"):
    """Mean over classes of the share of their rows predicted right.

    >>> BalancedAccuracy()(torch.tensor([0, 1, 1, 0]), torch.tensor([0, 1, 0, 0]))
    0.75
    """


class LogLoss(TabnetMetric, _Host, metric="log_loss", name="logloss"):
    """Mean of -log p of what was right; the scores are probabilities and are not softmaxed again.

    >>> round(LogLoss()(torch.tensor([0, 1]), torch.tensor([0.1, 0.9])), 5)
    0.10536
    """


class UnsupervisedLoss(TabnetMetric, _Host, metric="unsup_loss"):
    """Squared error of the columns hidden from a pretrainer, in units of their variance.

    Called as `TabNetPretrainer` calls its metrics, the reconstruction first.

    >>> hidden = [[1, 1], [1, 0], [0, 1]]
    >>> round(UnsupervisedLoss()([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]], [[1, 1], [2, 4], [6, 7]], hidden), 7)
    0.0661376
    """

    def __call__(  # type: ignore[override]  # a pretrainer has no y_true
        self, y_pred: Any, embedded_x: Any, obf_vars: Any
    ) -> float:
        """Measure.

        Args:
            y_pred: (N, D), the reconstruction.
            embedded_x: (N, D), what was to be reconstructed.
            obf_vars: (N, D) of 0 and 1, 1 where a column was hidden.

        Raises:
            MetricInputError: the three have not one shape, or obf_vars hold other numbers.
        """
        metric = get_metric(self._found.name, Vector())
        metric.update(_tensor(y_pred), _tensor(embedded_x), mask=_tensor(obf_vars))
        return float(metric.compute())


@functools.cache
def tabnet_metric(name: str) -> type[TabnetMetric]:
    """Make the class of a registered metric, for `eval_metric=[tabnet_metric("f1_macro")]`.

    Raises:
        MetricNameError, UnknownMetricError: a table's outputs have no such metric, or it needs parameters.
        ObjectiveError: it has no direction, and pytorch-tabnet stops early by one.

    >>> round(tabnet_metric("rmse")()([3.0, 5.0], [3.0, 1.0]), 9)  # the root of 8
    2.828427125
    """
    if find_metric(name).name == UnsupervisedLoss._found.name:
        return UnsupervisedLoss

    class Named(TabnetMetric, _Host, metric=name):
        __doc__ = f"The registered metric {name}."

    Named.__name__ = Named.__qualname__ = name
    return Named


def _tensor(values: Any) -> Tensor:
    return as_tensor(values if isinstance(values, Tensor) else np.asarray(values))


def _column(values: Any) -> Tensor:
    tensor = _tensor(values)
    return tensor.squeeze(1) if tensor.ndim == 2 and tensor.shape[1] == 1 else tensor


def _read(found: FoundMetric, target: Tensor, score: Tensor) -> Reading:
    """Say which output the scores are of, and under which keyword they go."""
    types = {entry.feature_type for entry in found.entries}
    if types & {NUMBER, VECTOR}:
        return (Number() if score.ndim < 2 else Vector()), {"predictions": score, "target": target}
    if target.ndim == 2:
        return Set(), {
            "probabilities" if score.is_floating_point() else "predictions": score,
            "target": target,
        }
    if score.ndim == 2:
        return _read_classes(types, target, score)
    if score.is_floating_point():
        return _read_chances(types, target, score)
    return _read_labels(found, types, target, score)


def _read_classes(types: set[str], target: Tensor, score: Tensor) -> Reading:
    classes = score.shape[1]
    if classes != 2 or BINARY not in types:
        return Category(classes), {"probabilities": score, "target": target}
    Gate().admit(
        Outputs(Category(2), probabilities=score, target=target)
    )  # both columns, before one is left out
    return Binary(), {"probabilities": score[:, 1], "target": target}


def _read_chances(types: set[str], target: Tensor, score: Tensor) -> Reading:
    if BINARY in types:
        return Binary(), {"probabilities": score, "target": target}
    return Category(2), {"probabilities": torch.stack([1 - score, score], 1), "target": target}


def _read_labels(found: FoundMetric, types: set[str], target: Tensor, score: Tensor) -> Reading:
    if found.inputs is not PREDICTIONS:
        raise MetricInputError(
            f"{found.name} reads {found.inputs}, and {score.dtype} scores of one dimension are labels; "
            "pass the probability of class 1 as floats, or (N, C) probabilities"
        )
    return (Category() if CATEGORY in types else Binary()), {"predictions": score, "target": target}
