"""Decided epochs: random predictions and targets as NumPy arrays, and our value of them over two batches."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import sklearn.metrics as sk
import torch

from hpometrics.metrics.features import Binary, Category, OutputFeature, Set
from hpometrics.metrics.registry.register import get_metric

SHAPES = [(300, 4, 0), (41, 7, 1), (9, 5, 2), (1, 3, 3), (250, 1000, 4)]
"""Rows, classes and seed: many rows, few, one; more classes than rows, most of which never occur."""


@dataclass(frozen=True)
class Decided:
    """Predictions, target and weights of one epoch of one output."""

    output: OutputFeature
    preds: np.ndarray
    target: np.ndarray
    weight: np.ndarray | None

    @property
    def labels(self) -> list[int]:
        """Every class or label of the output."""
        if self.target.ndim == 2:
            return list(range(self.target.shape[1]))
        return list(range(getattr(self.output, "num_classes", None) or 2))

    @property
    def columns(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Target and prediction of each class against the rest, or of each label."""
        if self.target.ndim == 2:
            return list(zip(self.target.T, self.preds.T, strict=True))
        return [(self.target == c, self.preds == c) for c in self.labels]

    @property
    def tables(self) -> np.ndarray:
        """The counts of scikit-learn, (C, 4): tn, fp, fn, tp of each class or label."""
        tables = sk.multilabel_confusion_matrix(
            self.target, self.preds, sample_weight=self.weight, labels=self.labels
        )
        return tables.reshape(-1, 4).astype(float)


def decided(kind: str, rows: int, classes: int, seed: int, weighted: bool = False) -> Decided:
    """Decisions of a middling model; a category's last class is never the target, nor a set's first label."""
    random = np.random.default_rng([seed, rows, classes])
    shape = (rows, classes) if kind == "set" else (rows,)
    among = classes if kind == "category" else 2
    target = random.integers(max(among - 1, 1) if kind == "category" else 2, size=shape)
    if kind == "set":
        target[:, 0] = 0
    guess = random.integers(among, size=shape)
    preds = np.where(random.random(shape) < 0.4, guess, target)
    outputs = {"binary": Binary(), "category": Category(classes), "set": Set(classes)}
    return Decided(outputs[kind], preds, target, random.random(rows) + 0.1 if weighted else None)


def measured(name: str, epoch: Decided, output: OutputFeature | None = None) -> np.ndarray:
    """Our value, over two uneven batches."""
    metric = get_metric(name, output or epoch.output)
    third = -(-len(epoch.target) // 3)
    for part in (slice(None, third), slice(third, None)):
        batch = {"predictions": epoch.preds[part], "target": epoch.target[part]}
        if epoch.weight is not None:
            batch["sample_weight"] = epoch.weight[part]
        metric.update(**{key: torch.tensor(value) for key, value in batch.items()})
    return metric.compute().double().numpy()


def quietly(reference: Callable[..., object], *args: object, **options: object) -> np.ndarray:
    """The value of a library; its warnings about odd data are its own affair."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return np.asarray(reference(*args, **options), dtype=float)


def same(value: np.ndarray, reference: np.ndarray, tolerance: float = 1e-12) -> None:
    """Compare, nan with nan."""
    np.testing.assert_allclose(value, reference, rtol=tolerance, atol=tolerance)
