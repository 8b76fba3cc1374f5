"""What the tests wrap: functions, scorers and metrics of torchmetrics, and data for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import torchmetrics
from sklearn.metrics import make_scorer, mean_squared_error, roc_auc_score
from torch import Tensor
from torchmetrics.regression import MeanSquaredError, PearsonCorrCoef
from torchmetrics.wrappers import LambdaInputTransformer

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.metrics.as_metric import as_metric
from hpometrics.metrics.features import PREDICTIONS
from hpometrics.metrics.metric import Metric


def worst_error(preds: Tensor, target: Tensor) -> Tensor:
    """A pooled function."""
    return (preds - target).abs().max()


def row_errors(preds: Tensor, target: Tensor) -> Tensor:
    """A function of one value per row."""
    return (preds - target).abs()


def both_errors(y_true: np.ndarray, y_pred: np.ndarray) -> dict[str, float]:
    """A function with two results, in scikit-learn's order of arguments."""
    assert isinstance(y_true, np.ndarray)
    return {"bias": float((y_pred - y_true).mean()), "mae": float(np.abs(y_pred - y_true).mean())}


def auc_scorer() -> Any:
    """Make scikit-learn's roc_auc scorer."""
    return make_scorer(roc_auc_score, response_method=("decision_function", "predict_proba"))


def numbers(rows: int = 50, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw real predictions and targets."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.randn(rows, generator=generator)
    return target + torch.randn(rows, generator=generator), target


def chances(rows: int = 50, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw probabilities and labels."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.arange(rows) % 2
    return (0.3 * target + 0.7 * torch.rand(rows, generator=generator)), target


KINDS = {
    "torchmetrics": lambda: as_metric(MeanSquaredError(), direction=MINIMIZE, inputs=PREDICTIONS),
    "torchmetrics with stacked states": lambda: as_metric(
        PearsonCorrCoef(), direction=MAXIMIZE, inputs=PREDICTIONS
    ),
    "torchmetrics with rows": lambda: as_metric(
        torchmetrics.SpearmanCorrCoef(), direction=MAXIMIZE, inputs=PREDICTIONS
    ),
    "nested torchmetrics": lambda: as_metric(
        torchmetrics.MeanSquaredError() + torchmetrics.MeanAbsoluteError(),
        direction=MINIMIZE, inputs=PREDICTIONS, name="both",
    ),
    "torchmetrics in a wrapper": lambda: as_metric(
        torchmetrics.MinMaxMetric(MeanSquaredError()), direction=MINIMIZE, inputs=PREDICTIONS, component="raw"
    ),
    "torchmetrics with rows in a wrapper": lambda: as_metric(
        LambdaInputTransformer(torchmetrics.SpearmanCorrCoef(), torch.neg, torch.neg),
        direction=MAXIMIZE, inputs=PREDICTIONS,
    ),
    "pooled": lambda: as_metric(worst_error, direction=MINIMIZE, inputs=PREDICTIONS),
    "per row": lambda: as_metric(row_errors, direction=MINIMIZE, inputs=PREDICTIONS, per_row=True),
    "scorer": lambda: as_metric(make_scorer(mean_squared_error, greater_is_better=False)),
}  # fmt: skip


def fed(metric: Metric, *batches: tuple[Tensor, Tensor]) -> Metric:
    """Update a metric with batches."""
    for batch in batches:
        metric.update(*batch)
    return metric
