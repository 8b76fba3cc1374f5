"""Rows of regression metrics: errors, explained shares and correlations of real values."""

from __future__ import annotations

from typing import Any

import torchmetrics

from ....direction import MAXIMIZE, MINIMIZE
from ...features import NUMBER, VECTOR
from ._row import MetricInputs, Row, target_first

_ZERO = "float from 0, no unit, 0 is best"
_CORRELATION = "float in [-1, 1], no unit, 1 is best, 0 is chance"
_BEST = "float in (-inf, 1], no unit, 1 is best"


def samples(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with an ensemble of predictions."""
    inner.update(inputs.extras["samples"], inputs.target)


def _number(name: str, source: str, summary: str, formula: str, value: str = _ZERO, **more: Any) -> Row:
    facts: dict[str, Any] = {
        "features": (NUMBER,), "direction": MAXIMIZE if "1 is best" in value else MINIMIZE, "keeps": "rows",
        **more,
    }  # fmt: skip
    return Row(
        name=name, source=f"regression.{source}", summary=summary, formula=formula, value=value,
        paper="torchmetrics.", **facts,
    )  # fmt: skip


ROWS = [
    _number("mse", "MeanSquaredError", "Mean squared error.", "mean of (p - t)^2"),
    _number("rmse", "MeanSquaredError", "Root mean squared error.", "sqrt(mse)", fixed={"squared": False}),
    _number("mae", "MeanAbsoluteError", "Mean absolute error.", "mean of |p - t|"),
    _number(
        "mape", "MeanAbsolutePercentageError", "Mean absolute error as a share of the target.",
        "mean of |p - t| / |t|",
    ),
    _number(
        "smape", "SymmetricMeanAbsolutePercentageError",
        "Mean absolute error as a share of the mean of both sizes.",
        "mean of 2 |p - t| / (|p| + |t|)", "float in [0, 2], no unit, 0 is best",
    ),
    _number(
        "wape", "WeightedMeanAbsolutePercentageError", "Sum of all errors over the sum of all targets.",
        "sum |p - t| / sum |t|",
    ),
    _number(
        "msle", "MeanSquaredLogError", "Mean squared error of log(1 + x).",
        "mean of (log(1 + p) - log(1 + t))^2",
        aliases=("mean_squared_log_error", "neg_mean_squared_log_error"),
    ),
    _number("log_cosh", "LogCoshError", "Mean log cosh of the error.", "mean of log cosh(p - t)"),
    _number(
        "minkowski", "MinkowskiDistance", "The p-norm of all errors.", "(sum |p - t|^p)^(1 / p)",
        params={"p": float},
    ),
    _number(
        "tweedie_deviance", "TweedieDevianceScore", "Mean deviance of a Tweedie distribution.",
        "mean deviance",
        params={"power": 0.0},
    ),
    _number(
        "nrmse", "NormalizedRootMeanSquaredError", "Root mean squared error over the mean of the target.",
        "rmse / mean(t)", params={"normalization": ("mean", "range", "std", "l2")},
        aliases=("normalized_root_mean_squared_error",),
    ),
    _number(
        "rse", "RelativeSquaredError", "Squared error relative to that of the mean.",
        "sum (p - t)^2 / sum (t - mean)^2",
    ),
    _number("r2", "R2Score", "Share of the target's variance that is explained.", "1 - rse", _BEST),
    _number("explained_variance", "ExplainedVariance",
            "1 minus the variance of the error over the variance of the target.",
            "1 - var(p - t) / var(t)", _BEST),
    _number("concordance", "ConcordanceCorrCoef", "Lin's concordance correlation.",
            "2 cov / (var + var + (mean - mean)^2)", _CORRELATION),
    _number("pearson", "PearsonCorrCoef", "Linear correlation.", "cov / sqrt(var var)", _CORRELATION),
    _number("spearman", "SpearmanCorrCoef", "Correlation of ranks.", "pearson of ranks", _CORRELATION),
    _number(
        "kendall", "KendallRankCorrCoef", "Share of pairs in order minus the share out of order.", "tau",
        _CORRELATION,
        params={"variant": ("b", "a", "c")},
    ),
    _number("csi", "CriticalSuccessIndex", "Share of hits among events that occurred or were predicted.",
            "hits / (hits + misses + false alarms)", "float in [0, 1], no unit, 1 is best",
            params={"threshold": float}),
    _number("crps", "ContinuousRankedProbabilityScore", "Error of an ensemble minus half its spread.",
            "mean |s - t| - mean |s - s'| / 2", feed=samples, extras=("samples",)),
    _number("cosine_similarity", "CosineSimilarity", "Mean cosine of prediction and target.",
    "mean <p, t> / |p| |t|",
            _CORRELATION, features=(VECTOR,), fixed={"reduction": "mean"}),
    _number("kl_divergence", "KLDivergence", "Mean divergence of the true from the predicted distribution.",
            "mean sum t log(t / p)", features=(VECTOR,), feed=target_first),
    _number("js_divergence", "JensenShannonDivergence",
    "Mean divergence of both distributions from their midpoint.",
            "mean (KL(p | m) + KL(t | m)) / 2", features=(VECTOR,)),
]  # fmt: skip
