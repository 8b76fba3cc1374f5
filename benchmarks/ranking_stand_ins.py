"""Formulas of the forty values, for those that the registry lacks: one collection measures all forty."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hpometrics import MAXIMIZE, Metric, Ranking, UnknownMetricError
from hpometrics.metrics.ranking.batch import RankingBatch
from hpometrics.metrics.ranking.lists import Cut
from hpometrics.metrics.ranking_metric import ListMetric, TopKMetric
from hpometrics.metrics.registry import get_metric
from hpometrics.metrics.statistics.item_counts import ItemCounts
from hpometrics.metrics.statistics.statistic import Statistic


class OfUsers(ListMetric):
    """The mean over users of a formula."""

    objective = MAXIMIZE

    def __init__(self, k: int, formula: Callable[[RankingBatch, Cut], Tensor]) -> None:
        super().__init__(k)
        self._formula = formula

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Apply the formula."""
        return batch.lists.of_valid(self._formula(batch, batch.lists.cut(cutoffs)))


class OfItems(TopKMetric):
    """A function of how often each item is recommended."""

    objective = MAXIMIZE

    def __init__(self, k: int, formula: Callable[[Tensor], Tensor]) -> None:
        super().__init__(k)
        self._formula = formula

    def statistics(self) -> dict[str, Statistic]:
        """Keep counts of items."""
        return {"items": ItemCounts("lists", (self.k,))}

    def compute(self) -> Tensor:
        """Apply the formula."""
        return self._formula(self.statistic(ItemCounts).at(self.k))


def hit_rate(batch: RankingBatch, cut: Cut) -> Tensor:
    """1 where anything was found."""
    return (cut.found > 0).double()


def mrr(batch: RankingBatch, cut: Cut) -> Tensor:
    """1 / rank of the first hit."""
    lists = cut.lists
    return cut.sum((lists.hits & (lists.found == 1)) / lists.places)


def average_precision(batch: RankingBatch, cut: Cut) -> Tensor:
    """Precision at each hit, over what could be found."""
    lists = cut.lists
    return cut.sum(lists.hits * lists.found / lists.places) / cut.best_found


def arp(batch: RankingBatch, cut: Cut) -> Tensor:
    """Mean popularity of a list."""
    return cut.sum(cut.lists.of_items(batch.side.item_popularity)) / cut.lengths


def item_coverage(counts: Tensor) -> Tensor:
    """How many items are recommended to anyone."""
    return (counts > 0).sum().double()


def gini(counts: Tensor) -> Tensor:
    """How unequally often items are recommended, over the whole catalogue."""
    items = len(counts)
    places = 2 * torch.arange(1, items + 1) - items - 1
    return (places * counts.sort().values).sum() / ((items - 1) * counts.sum())


def shannon_entropy(counts: Tensor) -> Tensor:
    """The entropy of recommended items, in nats."""
    return torch.special.entr(counts / counts.sum()).sum()


STAND_INS: dict[str, Callable[[int], Metric]] = {
    **{f.__name__: lambda k, f=f: OfUsers(k, f) for f in (hit_rate, mrr, arp)},
    "map": lambda k: OfUsers(k, average_precision),
    **{f.__name__: lambda k, f=f: OfItems(k, f) for f in (item_coverage, gini, shannon_entropy)},
}


def metric(name: str, output: Ranking) -> Metric:
    """Build the registry's metric of this name, or what stands in for it."""
    formula, _, k = name.partition("@")
    if formula in STAND_INS and not is_native(name, output):
        made = STAND_INS[formula](int(k))
        made.name = name
        return made
    return get_metric(name, output)


def is_native(name: str, output: Ranking) -> bool:
    """Whether the registry has it, and not as a class of torchmetrics."""
    try:
        return isinstance(get_metric(name, output), TopKMetric)
    except UnknownMetricError:
        return False
