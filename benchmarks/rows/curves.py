"""Curves and areas: ten million rows, thousands of labels, weights."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from hpometrics import Binary, Set, get_metric

from .row import Measure, Size, row

BATCH = 65_536


def draw(rows: int) -> tuple[Tensor, Tensor]:
    """Make logits of a middling model and the labels."""
    generator = torch.Generator().manual_seed(7)
    target = (torch.rand(rows, generator=generator) < 0.3).long()
    return torch.randn(rows, generator=generator) + target, target


def ours(name: str, logits: Tensor, target: Tensor) -> Measure:
    """Measure a metric of a binary output."""

    def measure() -> float:
        metric = get_metric(name, Binary())
        for part, labels in zip(logits.split(BATCH), target.split(BATCH), strict=True):
            metric.update(logits=part, target=labels)
        return metric.compute().item()

    return measure


def sort_and(value: float, logits: Tensor) -> Measure:
    """Sort all scores, which every exact curve does once; the value is the metric's own."""
    scores = logits.numpy()

    def measure() -> float:
        np.sort(scores)
        return value

    return measure


def curve_value(name: str, logits: Tensor, target: Tensor) -> float:
    """Return the value by scikit-learn's curves."""
    from sklearn.metrics import precision_recall_curve, roc_curve

    scores, labels = torch.sigmoid(logits.double()).numpy(), target.numpy()
    if name == "ks":
        false, true, _ = roc_curve(labels, scores, drop_intermediate=False)
        return float((true - false).max())
    precision, recall, _ = precision_recall_curve(labels, scores)
    if name == "max_f1":
        return float((2 * precision * recall / np.maximum(precision + recall, 1e-300)).max())
    return float(recall[precision >= 0.5].max())


def checked_threshold(threshold: float, logits: Tensor, target: Tensor) -> float:
    """Return a threshold if the F1 of what it predicts is the largest one; nan otherwise."""
    from sklearn.metrics import f1_score

    predicted = torch.sigmoid(logits.double()) > threshold
    value = f1_score(target.numpy(), predicted.numpy())
    return threshold if np.isclose(value, curve_value("max_f1", logits, target), 1e-9, 0) else np.nan


def add_cuts() -> None:
    """Add a row for each metric that looks at every cut."""
    for name in ("max_f1", "ks", "recall_at_precision", "best_threshold"):
        params = {"recall_at_precision": "(precision=0.5)", "best_threshold": "(criterion=f1)"}.get(name, "")

        def make(size: Size, name: str = name, params: str = params) -> tuple[Measure, Measure]:
            logits, target = draw(size(10_000_000))
            measure = ours(name + params, logits, target)
            if name == "best_threshold":
                return measure, sort_and(checked_threshold(measure(), logits, target), logits)
            return measure, sort_and(curve_value(name, logits, target), logits)

        row(
            name,
            "10,000,000 rows, batches of 65,536",
            peer="np.sort",
            wanted=2.2,
            memory=60,
            metrics="f1_max" if name == "max_f1" else name,
            turns=3,
        )(make)


add_cuts()


@row("roc_auc, weighted", "1,000,000 rows with weights", peer="np.sort", wanted=3.0, metrics="roc_auc")
def weighted(size: Size) -> tuple[Measure, Measure]:
    """Weights have to be put in the order of the scores as well."""
    from sklearn.metrics import roc_auc_score

    logits, target = draw(size(1_000_000))
    weights = torch.rand(len(logits), generator=torch.Generator().manual_seed(3)) + 0.5
    value = float(roc_auc_score(target.numpy(), logits.numpy(), sample_weight=weights.numpy()))

    def measure() -> float:
        metric = get_metric("roc_auc", Binary())
        for part, labels, weight in zip(
            *(each.split(BATCH) for each in (logits, target, weights)), strict=True
        ):
            metric.update(logits=part, target=labels, sample_weight=weight)
        return metric.compute().item()

    return measure, sort_and(value, logits)


def add_labels() -> None:
    """Add a row for each number of labels and of rows, and for weights."""
    from sklearn.metrics import roc_auc_score

    works = {
        "roc_auc, 5000 labels": (1_024, 5_000, False),
        "roc_auc, 5000 labels, 4096 rows": (4_096, 5_000, False),
        "roc_auc, 20000 labels": (1_024, 20_000, False),
        "roc_auc, 5000 labels, weighted": (4_096, 5_000, True),
    }
    for name, (rows, labels, is_weighted) in works.items():

        def make(
            size: Size, rows: int = rows, labels: int = labels, is_weighted: bool = is_weighted
        ) -> tuple[Measure, Measure]:
            generator = torch.Generator().manual_seed(7)
            shape = (rows, size(labels))
            target = (torch.rand(shape, generator=generator) < 0.05).long()
            target[0], target[1] = 0, 1
            logits = torch.randn(shape, generator=generator) + target
            weights = torch.rand(rows, generator=generator) + 0.5 if is_weighted else None
            sample = {"sample_weight": None if weights is None else weights.numpy()}

            def measure() -> float:
                metric = get_metric("roc_auc", Set(shape[1]))
                for start in range(0, rows, 256):
                    part = slice(start, start + 256)
                    own = {} if weights is None else {"sample_weight": weights[part]}
                    metric.update(logits=logits[part], target=target[part], **own)
                return metric.compute().item()

            pairs = zip(target.numpy().T, np.ascontiguousarray(logits.numpy().T), strict=True)
            value = float(np.mean([roc_auc_score(*pair, **sample) for pair in pairs]))

            def theirs() -> float:
                for column in logits.numpy().T:
                    np.sort(column)
                return value

            return measure, theirs

        row(
            name,
            f"{rows:,} rows x {labels:,} labels",
            peer="column sorts",
            wanted=3.0 if is_weighted else 1.5,
            metrics="roc_auc",
            turns=3,
        )(make)


add_labels()
