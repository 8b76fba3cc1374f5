"""Twenty metrics of a category output: this package, torchmetrics' MetricCollection and the bare fused floor.

All three measure the same data in turn, in one process and on one thread; a row prints the median of the
CPU seconds of one whole pass (update and compute) and ratios taken within each turn. Values are compared
before anything is timed.

    python benchmarks/panel.py [--turns 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
import torchmetrics.classification as tm
from torch import Tensor
from torchmetrics import MeanMetric, MetricCollection as TorchmetricsCollection

from hpometrics import Category, MetricCollection

PANEL = (
    "accuracy", "balanced_accuracy", "f1_macro", "f1_micro", "f1_weighted", "precision_macro", "recall_macro",
    "specificity_macro", "jaccard_macro", "fbeta(beta=2, average=macro)", "mcc", "cohen_kappa", "hamming",
    "hits@3", "hits@5", "roc_auc", "average_precision", "log_loss", "brier", "ece",
)  # fmt: skip
BINS = 15


class Case(NamedTuple):
    """One panel: rows, classes and rows per batch."""

    rows: int
    classes: int
    batch: int

    def __str__(self) -> str:
        return f"{self.rows} x {self.classes}, batches of {self.batch}"


CASES = (Case(100_000, 10, 1024), Case(20_000, 1000, 1024), Case(8_000, 10, 8))


def draw(case: Case) -> list[tuple[Tensor, Tensor]]:
    """Make logits that favour the target, cut into batches."""
    generator = torch.Generator().manual_seed(7)
    target = torch.randint(case.classes, (case.rows,), generator=generator)
    logits = torch.randn(case.rows, case.classes, generator=generator)
    logits[torch.arange(case.rows), target] += 2.0
    return list(zip(logits.split(case.batch), target.split(case.batch), strict=True))


def ours(case: Case, batches: list[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Measure with this package."""
    panel = MetricCollection(PANEL, output=Category(case.classes))
    for logits, target in batches:
        panel.update(logits=logits, target=target)
    return {name: value.item() for name, value in panel.compute().items()}


def torchmetrics(case: Case, batches: list[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Measure with torchmetrics: eighteen classes in one collection, log loss and Brier by two means."""
    c = case.classes
    decided = TorchmetricsCollection({
        "accuracy": tm.MulticlassAccuracy(c, average="micro"),
        "balanced_accuracy": tm.MulticlassAccuracy(c, average="macro"),
        "f1(average=macro)": tm.MulticlassF1Score(c, average="macro"),
        "f1(average=micro)": tm.MulticlassF1Score(c, average="micro"),
        "f1(average=weighted)": tm.MulticlassF1Score(c, average="weighted"),
        "precision(average=macro)": tm.MulticlassPrecision(c, average="macro"),
        "recall(average=macro)": tm.MulticlassRecall(c, average="macro"),
        "specificity(average=macro)": tm.MulticlassSpecificity(c, average="macro"),
        "jaccard(average=macro)": tm.MulticlassJaccardIndex(c, average="macro"),
        "fbeta": tm.MulticlassFBetaScore(2.0, c, average="macro"),
        "mcc": tm.MulticlassMatthewsCorrCoef(c),
        "cohen_kappa": tm.MulticlassCohenKappa(c),
        "hamming": tm.MulticlassHammingDistance(c, average="micro"),
        "hits@3": tm.MulticlassAccuracy(c, average="micro", top_k=3),
        "hits@5": tm.MulticlassAccuracy(c, average="micro", top_k=5),
        "roc_auc": tm.MulticlassAUROC(c, average="macro"),
        "average_precision": tm.MulticlassAveragePrecision(c, average="macro"),
        "ece": tm.MulticlassCalibrationError(c, n_bins=BINS),
    })  # fmt: skip
    log_loss, brier = MeanMetric(), MeanMetric()
    for logits, target in batches:
        decided.update(logits, target)
        log_loss.update(torch.nn.functional.cross_entropy(logits, target, reduction="none"))
        gap = logits.softmax(1) - torch.nn.functional.one_hot(target, c)
        brier.update(gap.square().sum(1))
    measured = decided.compute()
    measured["fbeta(average=macro, beta=2.0)"] = measured.pop("fbeta")  # a module name holds no dot
    values = {**measured, "log_loss": log_loss.compute(), "brier": brier.compute()}
    return {name: value.item() for name, value in values.items()}


def floor(case: Case, batches: list[tuple[Tensor, Tensor]]) -> dict[str, float]:
    """Do by hand only what must be done: a softmax, a max and counts per batch, a sort per class."""
    c, rows = case.classes, case.rows
    matrix = torch.zeros(c * c, dtype=torch.int64)
    ranks = torch.zeros(c, dtype=torch.int64)
    bins = torch.zeros(3, BINS, dtype=torch.float64)
    scores, targets = torch.empty(rows, c), torch.empty(rows, dtype=torch.int64)
    nll = square = torch.zeros((), dtype=torch.float64)
    filled = 0
    for logits, target in batches:
        logp = logits.log_softmax(1)
        top, pred = logp.max(1)
        true = logp.gather(1, target[:, None])
        ranks += torch.bincount((logp > true).sum(1), minlength=c)
        codes = target * c + pred
        matrix += torch.bincount(codes, minlength=c * c) if c <= 64 else torch.zeros_like(matrix).index_add_(
            0, codes, torch.ones_like(codes)
        )  # fmt: skip
        nll = nll - true.sum(dtype=torch.float64)
        p = logp.exp()
        square = (
            square
            + p.square().sum(dtype=torch.float64)
            - 2 * true.exp().sum(dtype=torch.float64)
            + len(target)
        )
        confidence = top.exp()
        where = (confidence * BINS).long().clamp_(max=BINS - 1)
        for row, weight in enumerate((None, confidence.double(), (pred == target).double())):
            bins[row] += torch.bincount(where, weight, BINS)
        scores[filled : filled + len(target)], targets[filled : filled + len(target)] = logp, target
        filled += len(target)
    return {
        **_closed_forms(matrix.view(c, c).double(), ranks.double()),
        **_areas(scores, targets),
        "log_loss": (nll / rows).item(),
        "brier": (square / rows).item(),
        "ece": ((bins[1] - bins[2]).abs().sum() / rows).item(),
    }


def _closed_forms(m: Tensor, ranks: Tensor) -> dict[str, float]:
    n, tp, predicted, actual = m.sum(), m.diagonal(), m.sum(0), m.sum(1)
    fp, fn = predicted - tp, actual - tp
    f1 = 2 * tp / (2 * tp + fp + fn)
    by_chance = (predicted * actual).sum() / n
    spread = ((n**2 - (predicted**2).sum()) * (n**2 - (actual**2).sum())).sqrt()
    values = {
        "accuracy": tp.sum() / n, "balanced_accuracy": (tp / actual).mean(), "f1(average=macro)": f1.mean(),
        "f1(average=micro)": tp.sum() / n, "f1(average=weighted)": (f1 * actual).sum() / n,
        "precision(average=macro)": (tp / predicted.clamp(min=1)).mean(),
        "recall(average=macro)": (tp / actual).mean(),
        "specificity(average=macro)": ((n - predicted - fn) / (n - actual)).mean(),
        "jaccard(average=macro)": (tp / (tp + fp + fn)).mean(),
        "fbeta(average=macro, beta=2.0)": (5 * tp / (5 * tp + 4 * fn + fp)).mean(),
        "mcc": (tp.sum() * n - predicted @ actual) / spread,
        "cohen_kappa": (tp.sum() - by_chance) / (n - by_chance),
        "hamming": 1 - tp.sum() / n, "hits@3": ranks[:3].sum() / n, "hits@5": ranks[:5].sum() / n,
    }  # fmt: skip
    return {name: value.item() for name, value in values.items()}


def _areas(scores: Tensor, targets: Tensor) -> dict[str, float]:
    """Sort each class's column once; positives are found in it by binary search."""
    n, c = scores.shape
    columns, order = scores.numpy().T, np.argsort(targets.numpy(), kind="stable")
    ends = np.bincount(targets.numpy(), minlength=c).cumsum()
    roc, ap = [], []
    for k in range(c):
        every = np.sort(columns[k])
        positive = np.sort(columns[k][order[ends[k - 1] if k else 0 : ends[k]]])
        p = len(positive)
        below, up_to = np.searchsorted(every, positive), np.searchsorted(every, positive, side="right")
        roc.append(((below + up_to).sum() / 2 - p * p / 2) / (p * (n - p)))
        ap.append(((p - np.searchsorted(positive, positive)) / (n - below)).mean())
    return {"roc_auc": float(np.mean(roc)), "average_precision": float(np.mean(ap))}


Contender = Callable[[Case, list[tuple[Tensor, Tensor]]], dict[str, float]]
CONTENDERS: dict[str, Contender] = {"floor": floor, "hpometrics": ours, "torchmetrics": torchmetrics}


def seconds(contender: Contender, case: Case, batches: list[tuple[Tensor, Tensor]]) -> float:
    """CPU seconds of one whole pass."""
    start = time.process_time()
    contender(case, batches)
    return time.process_time() - start


def largest_gap(case: Case, batches: list[tuple[Tensor, Tensor]]) -> float:
    """The largest difference of a value between the three; what is timed must first agree."""
    values = [contender(case, batches) for contender in CONTENDERS.values()]
    return max(abs(values[0][name] - other[name]) for other in values[1:] for name in values[0])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=5)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=UserWarning, module="torchmetrics")
    print(f"{len(PANEL)} metrics, 1 thread, CPU seconds, median of {turns} turns\n")
    print(
        f"{'case':32}{'floor':>9}{'hpometrics':>12}{'torchmetrics':>14}{'/floor':>8}{'faster':>8}{'gap':>10}"
    )
    for case in CASES:
        batches = draw(case)
        gap = largest_gap(case, batches)
        rows = [
            [seconds(contender, case, batches) for contender in CONTENDERS.values()] for _ in range(turns)
        ]
        low, own, other = (statistics.median(column) for column in zip(*rows, strict=True))
        of_floor = statistics.median(row[1] / row[0] for row in rows)
        faster = statistics.median(row[2] / row[1] for row in rows)
        print(f"{case!s:32}{low:9.3f}{own:12.3f}{other:14.3f}{of_floor:7.2f}x{faster:7.1f}x{gap:10.1e}")


if __name__ == "__main__":
    main()
