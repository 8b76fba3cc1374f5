"""Joining: the lists of batches of rankings are measured together, for the same values.

What forty formulas cost beside the lists are calls, as many for ten users as for thousands: a batch of few
users then pays for finding its lists and for little else.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from .autograd import without_autograd
from .batch import Outputs
from .retrieval.lists import Lists
from .retrieval.ranking_batch import RankingBatch
from .statistics.cutoffs import rankings_in
from .statistics.statistic import Statistic

_MOST = 1 << 19  # places of lists that wait at most: 8 MiB, and some times as much to measure them

Kind = tuple[int, int | None, bool, bool, torch.device]


class Joining:
    """What stands between ranked lists and the statistics that read nothing else of a batch.

    Lists are kept and measured together, at the latest before anyone reads the statistics. With the first
    batch of a kind the statistics are asked whether they can measure it, by one without rows: they may lack
    side data. Lists with grades other than 0 and 1 do not wait, as only their target tells their ideal order.
    """

    def __init__(self, statistics: Iterable[Statistic]) -> None:
        self.statistics = list(statistics)
        self._empty: tuple[Kind, RankingBatch] | None = None
        self.forget()

    def forget(self) -> None:
        """Drop what waits: the statistics are about to be reset."""
        self._kind: Kind | None = None
        self._waiting: list[tuple[Lists, Tensor | None]] = []
        self._places = 0

    def check(self, batch: Outputs) -> None:
        """Ask the statistics whether the batch fits, once for a kind.

        Raises:
            MetricInputError: it does not fit; nothing has been counted.
        """
        if not self.statistics:
            return
        ranked = rankings_in(batch)
        kind = _kind_of(ranked)
        if kind is not None and kind == self._kind:
            return
        self.settle()
        asked = ranked if kind is None else self._empty_like(ranked, kind)
        for statistic in self.statistics:
            statistic.check(asked)
        self._kind = kind

    def add(self, batch: Outputs) -> None:
        """Add a batch that the statistics have agreed to."""
        if not self.statistics:
            return
        ranked = rankings_in(batch)
        if self._kind is None or ranked.lists.items.numel() > _MOST // 2:  # of so many not worth a copy
            self._count(ranked)
        else:
            self._keep(ranked)

    def settle(self) -> None:
        """Measure what waits; whoever reads, moves or merges the statistics calls this first."""
        if self._kind is None:
            return
        self._count_waiting()
        self.forget()  # what the statistics hold may change before the next batch

    def __getstate__(self) -> dict[str, Any]:
        """What a copy starts from: nothing that waits, and no batch."""
        self.settle()
        return {**self.__dict__, "_empty": None}

    def _empty_like(self, batch: RankingBatch, kind: Kind) -> RankingBatch:
        """Return a batch of a kind without rows, the last one where it is of this kind: it was measured."""
        if self._empty is None or self._empty[0] != kind:
            self._empty = kind, _without_rows(batch)
        return self._empty[1]

    def _keep(self, batch: RankingBatch) -> None:
        lists = batch.lists.alone()
        if self._places + lists.items.numel() > _MOST:
            self._count_waiting()
        weight = None if batch.weight is None else batch.weight.clone()  # it may be the caller's
        self._waiting.append((lists, weight))
        self._places += lists.items.numel()

    def _count_waiting(self) -> None:
        if not self._waiting or self._empty is None:
            return
        with without_autograd():
            weights = [weight for _, weight in self._waiting if weight is not None]
            weight = torch.cat(weights) if weights else None
            lists = Lists.joined([lists for lists, _ in self._waiting])
            self._waiting, self._places = [], 0  # formulas find room where they were
            self._count(self._empty[1].with_lists(lists, weight))

    def _count(self, batch: RankingBatch) -> None:
        for statistic in self.statistics:
            statistic.update(batch)


def _kind_of(batch: RankingBatch) -> Kind | None:
    """What two batches have in common whose lists may be joined; None of one whose lists may not."""
    if batch.relevance.graded:
        return None
    weighs = batch.weight is not None
    return batch.lists.depth, batch.catalogue, batch.numbered, weighs, batch.target.device


def _without_rows(batch: RankingBatch) -> RankingBatch:
    """Return a batch of the same kind with no rows, which holds nothing of what was handed in."""
    weight = None if batch.weight is None else batch.weight.new_empty(0)
    return batch.with_lists(Lists.joined([batch.lists.part(0, 0)]), weight)
