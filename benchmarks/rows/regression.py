"""Regression: single metrics and panels, batches of 65,536 and of 1,024, order statistics."""

from __future__ import annotations

import torch
from torch import Tensor

from hpometrics import MetricCollection, Number, get_metric

from .row import Measure, Size, row

ADDITIVE = {
    "mse": "MeanSquaredError",
    "mae": "MeanAbsoluteError",
    "r2": "R2Score",
    "explained_variance": "ExplainedVariance",
    "mape": "MeanAbsolutePercentageError",
    "smape": "SymmetricMeanAbsolutePercentageError",
    "msle": "MeanSquaredLogError",
    "log_cosh": "LogCoshError",
    "pearson": "PearsonCorrCoef",
    "concordance": "ConcordanceCorrCoef",
}
"""Names here and in torchmetrics."""
PANEL = [*ADDITIVE, "rmse", "rse", "wape", "max_error", "pinball"]

Batches = list[tuple[Tensor, Tensor]]


def draw(rows: int, batch: int) -> Batches:
    """Make positive targets and predictions that are about half right."""
    generator = torch.Generator().manual_seed(7)
    target = torch.empty(rows).log_normal_(std=0.5, generator=generator)
    preds = (target + 0.7 * torch.randn(rows, generator=generator)).abs()
    return list(zip(preds.split(batch), target.split(batch), strict=True))


def ours(name: str, batches: Batches) -> Measure:
    """Measure one metric with this package."""

    def measure() -> float:
        metric = get_metric(name, Number())
        for preds, target in batches:
            metric.update(preds, target)
        return metric.compute().item()

    return measure


def torchmetrics_of(name: str, batches: Batches) -> Measure:
    """Measure the same with torchmetrics."""
    import torchmetrics

    metric_class = getattr(torchmetrics, ADDITIVE[name])

    def measure() -> float:
        metric = metric_class()
        for preds, target in batches:
            metric.update(preds, target)
        return float(metric.compute())

    return measure


def add_single_metrics() -> None:
    """Add two rows for each metric that torchmetrics has too."""
    for name in ADDITIVE:
        for batch in (65_536, 1_024):

            def make(size: Size, name: str = name, batch: int = batch) -> tuple[Measure, Measure]:
                batches = draw(size(1_000_000), batch)
                return ours(name, batches), torchmetrics_of(name, batches)

            row(
                f"{name}, {batch}",
                f"1,000,000 rows, batches of {batch:,}",
                peer="torchmetrics",
                wanted=1.0,
                metrics=name,
                tolerance=1e-4,  # torchmetrics sums in float32
            )(make)


add_single_metrics()


@row(
    "regression panel",
    "ten metrics, 1,000,000 rows, batches of 65,536",
    peer="torchmetrics",
    wanted=0.4,
    tolerance=1e-4,
    metrics=" ".join(ADDITIVE),
)
def panel(size: Size) -> tuple[Measure, Measure]:
    """All ten at once, in torchmetrics one collection."""
    import torchmetrics

    batches = draw(size(1_000_000), 65_536)

    def theirs() -> list[float]:
        collection = torchmetrics.MetricCollection(
            {name: getattr(torchmetrics, theirs)() for name, theirs in ADDITIVE.items()}
        )
        for preds, target in batches:
            collection.update(preds, target)
        values = collection.compute()
        return [float(values[name]) for name in ADDITIVE]

    return collection_of(list(ADDITIVE), batches), theirs


def collection_of(names: list[str], batches: Batches, shown: int | None = None) -> Measure:
    """Measure several metrics in one collection of this package, and return the first values."""

    def measure() -> list[float]:
        collection = MetricCollection(names, output=Number())
        for preds, target in batches:
            collection.update(predictions=preds, target=target)
        values = collection.compute()
        return [values[name].item() for name in names[:shown]]

    return measure


@row(
    "regression panel by hand",
    "15 metrics beside the sums of mse and mae in float64, 1,000,000 rows",
    peer="mse and mae",
    wanted=3.0,
    metrics=" ".join(PANEL),
)
def panel_by_hand(size: Size) -> tuple[Measure, Measure]:
    """Two sums are the least that any panel does."""
    batches = draw(size(1_000_000), 65_536)

    def theirs() -> list[float]:
        squares, gaps, rows = 0.0, 0.0, 0
        for preds, target in batches:
            error = preds.double() - target.double()
            squares += float(torch.dot(error, error))
            gaps += float(error.abs().sum())
            rows += len(error)
        return [squares / rows, gaps / rows]

    return collection_of(
        ["mse", "mae", *(name for name in PANEL if name not in ("mse", "mae"))], batches, 2
    ), theirs


@row("kendall", "1,000,000 rows", peer="scipy", wanted=1.2, metrics="kendall", turns=3)
def kendall(size: Size) -> tuple[Measure, Measure]:
    """The tau-b of scipy sorts twice by merging."""
    from scipy.stats import kendalltau

    batches = draw(size(1_000_000), 65_536)
    preds, target = (torch.cat(column).numpy() for column in zip(*batches, strict=True))
    return ours("kendall", batches), lambda: float(kendalltau(preds, target)[0])


@row(
    "median_absolute_error",
    "1,000,000 rows",
    peer="scikit-learn",
    wanted=1.5,
    metrics="median_absolute_error",
)
def median(size: Size) -> tuple[Measure, Measure]:
    """scikit-learn takes the median of all gaps at once."""
    from sklearn.metrics import median_absolute_error

    batches = draw(size(1_000_000), 65_536)
    preds, target = (torch.cat(column).numpy() for column in zip(*batches, strict=True))
    return ours("median_absolute_error", batches), lambda: float(median_absolute_error(target, preds))
