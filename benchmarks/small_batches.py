"""Eight rows at a time: CPU microseconds per update, here and in torchmetrics.

A pass is many updates and one compute, so that whatever is put off is paid for within it. Both see the same
batches in turn, in one process and on one thread.

    python benchmarks/small_batches.py [--turns 7]
"""

from __future__ import annotations

import argparse
import math
import statistics
import time
import warnings
from collections.abc import Callable
from functools import partial

import rival_torchmetrics
import torch
import torchmetrics
from panels import OF_A_CATEGORY, Batches, Panel
from torch import Tensor
from torchmetrics.classification import MulticlassAccuracy

from hpometrics import MINIMIZE, PREDICTIONS, Category, MeanMetric, MetricCollection, get_metric

UPDATES = 2000
PANEL = Panel("category", Category(10), OF_A_CATEGORY, 8 * UPDATES, 10, batch=8)
Pass = Callable[[Batches], float]


class OwnGap(MeanMetric):
    """A mean as a user writes one: it is asked for each batch as it comes."""

    direction = MINIMIZE
    inputs = PREDICTIONS

    def get_current_value(self, preds: Tensor, target: Tensor) -> Tensor:
        """Measure how far off each row is."""
        return (preds - target).abs()


class Gap(OwnGap):
    """The same by a user who lets small batches be joined."""

    regroups = True


def our_panel(batches: Batches) -> float:
    """Measure the panel of 21 metrics in one collection; the value of the last."""
    panel = MetricCollection(PANEL.metrics, output=PANEL.output)
    for logits, target in batches:
        panel.update(logits=logits, target=target)
    return panel.compute()["ece"].item()


def their_panel(batches: Batches) -> float:
    """Measure the same with torchmetrics' collection and two of its means."""
    return rival_torchmetrics.measure(PANEL, batches)["ece"]


def our_mean(batches: Batches, metric_class: type[MeanMetric] = Gap) -> float:
    """Measure one mean over rows."""
    metric = metric_class()
    for logits, target in batches:
        metric.update(logits[:, 0], target)
    return metric.compute().item()


def their_mean(batches: Batches) -> float:
    """Measure the same mean over rows."""
    metric = torchmetrics.MeanMetric()
    for logits, target in batches:
        metric.update((logits[:, 0] - target).abs())
    return metric.compute().item()


def our_accuracy(batches: Batches) -> float:
    """Measure accuracy alone."""
    metric = get_metric("accuracy", Category(10))
    for logits, target in batches:
        metric.update(logits=logits, target=target)
    return metric.compute().item()


def their_accuracy(batches: Batches) -> float:
    """Measure the same accuracy alone."""
    metric = MulticlassAccuracy(10, average="micro")
    for logits, target in batches:
        metric.update(logits, target)
    return metric.compute().item()


CASES: dict[str, tuple[Pass, Pass]] = {
    f"{len(PANEL.metrics)} metrics": (our_panel, their_panel),
    "a MeanMetric alone": (our_mean, their_mean),
    "... never regrouped": (partial(our_mean, metric_class=OwnGap), their_mean),
    "accuracy alone": (our_accuracy, their_accuracy),
}


def microseconds(measure: Pass, batches: Batches) -> float:
    """CPU microseconds per update, compute included."""
    start = time.process_time()
    measure(batches)
    return (time.process_time() - start) / len(batches) * 1e6


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--turns", type=int, default=7)
    turns = parser.parse_args().turns
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", category=UserWarning, module="torchmetrics")
    batches = PANEL.draw()
    print(f"{UPDATES} updates of 8 x 10, CPU microseconds per update, median of {turns} turns\n")
    print(f"{'what':20}{'hpometrics':>12}{'torchmetrics':>14}{'x less':>8}")
    for name, (own, other) in CASES.items():
        values = own(batches), other(batches)
        if not math.isclose(*values, rel_tol=1e-5):  # torchmetrics sums in float32
            raise SystemExit(f"{name}: {values[0]!r} here, {values[1]!r} in torchmetrics")
        rows = [(microseconds(own, batches), microseconds(other, batches)) for _ in range(turns)]
        here, there = (statistics.median(column) for column in zip(*rows, strict=True))
        print(f"{name:20}{here:12.1f}{there:14.1f}{statistics.median(b / a for a, b in rows):8.1f}")


if __name__ == "__main__":
    main()
