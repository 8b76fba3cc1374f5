"""Small metrics of every kind, for the tests to register: they differ in how they measure, not in what."""

from __future__ import annotations

import torch

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.features import PREDICTIONS
from hpometrics.metrics.metric import MeanMetric, Metric
from hpometrics.metrics.statistics.statistic import Statistic


class Gap(MeanMetric):
    """Mean distance, a value per row."""

    direction = MINIMIZE
    inputs = PREDICTIONS

    def get_current_value(self, preds, target):
        return (preds - target).abs()


class ScaledGap(MeanMetric):
    """Mean distance times a parameter."""

    direction = MINIMIZE
    inputs = PREDICTIONS

    def __init__(self, *, scale: float = 1.0, **kwargs):
        super().__init__(**kwargs)
        self.scale = scale

    def get_current_value(self, preds, target):
        return self.scale * (preds - target).abs()


class WeightedGap(MeanMetric):
    """Mean distance with weights that the caller passes."""

    direction = MINIMIZE
    inputs = PREDICTIONS

    def get_current_value(self, preds, target, weights=None):
        return (preds - target).abs(), weights


class OwnGap(Metric):
    """Mean distance by an update of its own, as in torchmetrics; it refuses a target of 13."""

    direction = MINIMIZE
    inputs = PREDICTIONS

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("gaps", [], dist_reduce_fx="cat")

    def update(self, preds, target):
        gaps = (preds - target).abs().double()
        self.total += gaps.sum()
        self.gaps.append(gaps)
        if target.is_cpu and (target == 13).any():  # a device is not waited for
            raise MetricInputError("own_gap takes no target of 13")

    def compute(self):
        rows = sum(len(gaps) for gaps in self.gaps)
        return self.total / rows if rows else self.undefined("no row")


class ReducedGap(Metric):
    """The largest, smallest and mean distance, by the reductions that torchmetrics has beside sum and cat."""

    direction = MINIMIZE
    inputs = PREDICTIONS

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.add_state("largest", torch.tensor(-torch.inf), dist_reduce_fx="max")
        self.add_state("smallest", torch.tensor(torch.inf), dist_reduce_fx="min")

    def update(self, preds, target):
        gaps = (preds - target).abs()
        self.largest = torch.maximum(self.largest, gaps.max())
        self.smallest = torch.minimum(self.smallest, gaps.min())

    def compute(self):
        return self.largest - self.smallest


class GapSums(Statistic):
    """Sum of distances and rows; it counts its updates."""

    reductions = {"total": "sum", "rows": "sum"}  # noqa: RUF012
    updates = 0

    def update(self, batch):
        GapSums.updates += 1
        self.add(total=(batch.predictions - batch.target).abs().double().sum(), rows=torch.tensor(len(batch)))


class SharedGap(Metric):
    """Mean distance over a statistic."""

    direction = MINIMIZE
    inputs = PREDICTIONS

    def statistics(self):
        return {"sums": GapSums()}

    def compute(self):
        state = self.statistic(GapSums).state()
        return state["total"] / state["rows"]


class SharedTotal(SharedGap):
    """Another reading of the same statistic."""

    def compute(self):
        return self.statistic(GapSums).state()["total"]


class Reversed(MeanMetric):
    """The opposite direction of Gap."""

    direction = MAXIMIZE
    inputs = PREDICTIONS

    def get_current_value(self, preds, target):
        return preds - target


SAMPLES = {
    "gap": Gap,
    "scaled_gap": ScaledGap,
    "weighted_gap": WeightedGap,
    "own_gap": OwnGap,
    "shared_gap": SharedGap,
    "shared_total": SharedTotal,
}
