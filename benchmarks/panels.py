"""The four panels: what is measured, on how much data, and the data itself."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hpometrics import Binary, Category, Set
from hpometrics.metrics.features import OutputFeature

Batches = list[tuple[Tensor, Tensor]]

POSITIVES = 0.3
"""The share of positive labels of a binary output and of a set."""

OF_A_CATEGORY = (
    "accuracy", "balanced_accuracy", "f1_macro", "f1_micro", "f1_weighted", "precision_macro",
    "precision_weighted", "recall_macro", "specificity_macro", "jaccard_macro",
    "fbeta(average=macro, beta=2.0)", "mcc", "cohen_kappa", "hamming", "hits@3", "hits@5", "roc_auc",
    "average_precision", "log_loss", "brier", "ece",
)  # fmt: skip
OF_BINARY = (
    "accuracy", "balanced_accuracy", "f1", "precision", "recall", "specificity", "jaccard", "fbeta(beta=0.5)",
    "fbeta(beta=2.0)", "mcc", "cohen_kappa", "hamming", "roc_auc", "average_precision", "log_loss", "brier",
    "ece",
)  # fmt: skip
OF_A_SET = (
    "accuracy", "f1_macro", "f1_micro", "precision_macro", "precision_micro", "recall_macro", "recall_micro",
    "specificity_macro", "jaccard_macro", "jaccard_micro", "hamming", "roc_auc", "average_precision",
    "log_loss",
)  # fmt: skip


@dataclass(frozen=True)
class Panel:
    """Some metrics of one output, measured over so many rows in batches of so many.

    `slow` panels take minutes outside of this package: there, rivals run once.
    """

    name: str
    output: OutputFeature
    metrics: tuple[str, ...]
    rows: int
    columns: int = 1
    batch: int = 1024
    slow: bool = False

    def __str__(self) -> str:
        size = f"{self.rows:,}" + (f" x {self.columns}" if self.columns > 1 else "")
        return f"{self.name} {size}, {len(self.metrics)} metrics"

    def draw(self) -> Batches:
        """Make logits that favor the target, cut into batches; the same ones every time."""
        random = torch.Generator().manual_seed(7)
        if isinstance(self.output, Category):
            target = torch.randint(self.columns, (self.rows,), generator=random)
            logits = torch.randn(self.rows, self.columns, generator=random)
            logits[torch.arange(self.rows), target] += 2.0
        else:
            shape = (self.rows, self.columns) if self.columns > 1 else (self.rows,)
            target = (torch.rand(shape, generator=random) < POSITIVES).long()
            logits = torch.randn(shape, generator=random) + 2.0 * target - 1.0
        return list(zip(logits.split(self.batch), target.split(self.batch), strict=True))


PANELS = {
    "category": Panel("category", Category(10), OF_A_CATEGORY, 100_000, 10),
    "binary": Panel("binary", Binary(), OF_BINARY, 1_000_000),
    "set": Panel("set", Set(20), OF_A_SET, 100_000, 20),
    "wide": Panel("category", Category(1000), OF_A_CATEGORY, 50_000, 1000, slow=True),
}
