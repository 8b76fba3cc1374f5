"""References for metrics of real outputs, weighted and by column, and our value over batches."""

from __future__ import annotations

import numpy as np
import sklearn.metrics
import torch
from torch import Tensor
from torch.nn import functional

from hpometrics.metrics.features import Number, Vector
from hpometrics.metrics.metric import Metric
from hpometrics.metrics.registry.register import get_metric


def by_column(measure):
    """The mean over columns of a number that has no form for several."""

    def mean(target: np.ndarray, preds: np.ndarray, weight: np.ndarray | None = None) -> float:
        pairs = zip(target.reshape(len(target), -1).T, preds.reshape(len(preds), -1).T, strict=True)
        return float(
            np.mean([measure(t, p, np.ones(len(t)) if weight is None else weight) for t, p in pairs])
        )

    return mean


def of_rows(loss):
    """The weighted mean over rows of torch's loss of each value."""

    def mean(target: np.ndarray, preds: np.ndarray, weight: np.ndarray | None = None) -> float:
        each = loss(torch.tensor(preds), torch.tensor(target), reduction="none").numpy()
        return float(np.average(each.reshape(len(each), -1).mean(1), weights=weight))

    return mean


def scikit(score):
    """A score of scikit-learn."""
    return lambda target, preds, weight=None: score(target, preds, sample_weight=weight)


def spread(target, weight):
    """The weighted standard deviation over n."""
    return np.sqrt(np.cov(target, aweights=weight, bias=True))


def root(target, preds, weight):
    """The weighted root mean squared error of a column."""
    return np.sqrt(np.average((preds - target) ** 2, weights=weight))


def pooled(measure):
    """The number of all columns as if they were one."""

    def of_all(target: np.ndarray, preds: np.ndarray, weight: np.ndarray | None = None) -> float:
        each = np.ones(len(target)) if weight is None else weight
        each = np.repeat(each, target[0].size)
        return float(measure(target.reshape(-1), preds.reshape(-1), each))

    return of_all


def adjusted(target, preds, weight):
    """r2 adjusted for three inputs."""
    rest = 1 - sklearn.metrics.r2_score(target, preds, sample_weight=weight)
    return 1 - rest * (weight.sum() - 1) / (weight.sum() - 4)


def rae(target, preds, weight):
    """The errors' sizes against those of the gaps from the mean."""
    gaps = np.abs(target - np.average(target, weights=weight))
    return (weight * np.abs(preds - target)).sum() / (weight * gaps).sum()


def wape(target, preds, weight=None):
    """Over all values together."""
    weight = np.ones(len(target)) if weight is None else weight
    error, size = (np.abs(x).reshape(len(x), -1).sum(1) for x in (preds - target, target))
    return float((weight * error).sum() / (weight * size).sum())


REFERENCES = {
    "mse": scikit(sklearn.metrics.mean_squared_error),
    "rmse": scikit(sklearn.metrics.root_mean_squared_error),
    "rmse(multioutput=pooled)": pooled(root),
    "mae": scikit(sklearn.metrics.mean_absolute_error),
    "median_absolute_error": scikit(sklearn.metrics.median_absolute_error),
    "max_error": by_column(lambda t, p, w: np.abs(p - t)[w > 0].max()),
    "bias": by_column(lambda t, p, w: np.average(p - t, weights=w)),
    "absolute_bias": by_column(lambda t, p, w: abs(np.average(p - t, weights=w))),
    "huber": of_rows(functional.huber_loss),
    "smooth_l1": of_rows(functional.smooth_l1_loss),
    "log_cosh": by_column(lambda t, p, w: np.average(np.log(np.cosh(p - t)), weights=w)),
    "mape": scikit(sklearn.metrics.mean_absolute_percentage_error),
    "rmspe": by_column(lambda t, p, w: np.sqrt(np.average(((p - t) / t) ** 2, weights=w))),
    "rmspe(multioutput=pooled)": pooled(lambda t, p, w: np.sqrt(np.average(((p - t) / t) ** 2, weights=w))),
    "smape": by_column(lambda t, p, w: np.average(2 * np.abs(p - t) / (np.abs(p) + np.abs(t)), weights=w)),
    "wape": wape,
    "msle": scikit(sklearn.metrics.mean_squared_log_error),
    "rmsle": scikit(sklearn.metrics.root_mean_squared_log_error),
    "rmsle(clip=true)": scikit(sklearn.metrics.root_mean_squared_log_error),
    "rmsle(multioutput=pooled)": pooled(lambda t, p, w: root(np.log1p(t), np.log1p(p), w)),
    "nrmse(multioutput=pooled, normalization=mean)": pooled(
        lambda t, p, w: root(t, p, w) / np.average(t, weights=w)
    ),
    "nrmse(multioutput=pooled, normalization=range)": pooled(
        lambda t, p, w: root(t, p, w) / np.ptp(t[w > 0])
    ),
    "nrmse(multioutput=pooled, normalization=std)": pooled(lambda t, p, w: root(t, p, w) / spread(t, w)),
    "nrmse(normalization=mean)": by_column(lambda t, p, w: root(t, p, w) / np.average(t, weights=w)),
    "nrmse(normalization=range)": by_column(lambda t, p, w: root(t, p, w) / np.ptp(t[w > 0])),
    "nrmse(normalization=std)": by_column(lambda t, p, w: root(t, p, w) / spread(t, w)),
    "r2": scikit(sklearn.metrics.r2_score),
    "r2(multioutput=variance_weighted)": lambda t, p, w=None: sklearn.metrics.r2_score(
        t, p, sample_weight=w, multioutput="variance_weighted"
    ),
    "adjusted_r2(features=3)": by_column(adjusted),
    "explained_variance": scikit(sklearn.metrics.explained_variance_score),
    "explained_variance(multioutput=variance_weighted)": lambda t, p, w=None: (
        sklearn.metrics.explained_variance_score(t, p, sample_weight=w, multioutput="variance_weighted")
    ),
    "rse": by_column(lambda t, p, w: 1 - sklearn.metrics.r2_score(t, p, sample_weight=w)),
    "rae": by_column(rae),
    "pearson": by_column(lambda t, p, w: np.cov(t, p, aweights=w)[0, 1] / spread(t, w) / spread(p, w)
                         * (w.sum() ** 2 - (w**2).sum()) / w.sum() ** 2),
}  # fmt: skip


NAMES = [name for name in REFERENCES if name != "bias"]
SHARES = [name for name in NAMES if name.startswith(("r2", "adjusted", "explained", "pearson"))]


def draw(shape: tuple[int, ...], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw positive targets and predictions near them, in float64."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(shape, generator=generator, dtype=torch.float64) * 5 + 0.1
    noise = torch.rand(shape, generator=generator, dtype=torch.float64) - 0.3
    return (target + noise).clamp(min=0.01), target


def measured(
    name: str, preds: Tensor, target: Tensor, sizes: list[int] | None = None, weight: Tensor | None = None
) -> Metric:
    """Feed a metric, in batches of these sizes."""
    metric = get_metric(name, Number() if target.ndim == 1 else Vector())
    parts = [x.split(sizes or len(x)) for x in (preds, target, *([] if weight is None else [weight]))]
    for part in zip(*parts, strict=True):
        metric.update(*part[:2], **({} if weight is None else {"sample_weight": part[2]}))
    return metric
