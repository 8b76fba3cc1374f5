"""Diversity of ranked lists: how many of the features they cover, how little their items are alike."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import ListMetric
from ...retrieval.lists import Cut, Lists
from ...retrieval.ranking_batch import RankingBatch
from .._data import narrowed

_TILE = 2**20  # numbers at a time


@register_metric("srecall", [RANKING], aliases=["SRecall", "StRecall", "subtopic_recall", "s_recall"])
class SubtopicRecall(ListMetric):
    """Share of the features of a user's relevant items that the relevant items among the first k have.

    An item has a feature where it is above 0. Users whose relevant items have no feature are left out, as
    are those without a relevant item.

    Shape: scores, target (users, items); `item_features` (items, features) of the `Ranking`.
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item that has a feature.

    Raises:
        MetricInputError: features are not given.
    Formula: mean over users of features of the relevant of the first k / features of all relevant items
    Deviates: WarpRec counts a user whose relevant items have no feature 0.
    Source: Zhai, Cohen & Lafferty 2003, SIGIR.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = SubtopicRecall(k=1)
    >>> metric.output = Ranking(item_features=torch.tensor([[1, 1, 0], [0, 1, 1]]))
    >>> metric.update(torch.tensor([[0.9, 0.5]]), [[0, 1]])
    >>> round(metric.compute().item(), 4)  # item 0 has two of three features
    0.6667
    """

    objective = MAXIMIZE
    family = "diversity"
    void = "no user has a relevant item that has a feature"

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Count each feature where it first occurs among hits."""
        has = batch.item_features > 0
        found = torch.cat([_first_found(own) for _, own in facts_of(cut.lists, has, cut.lists.hits)])
        return cut.sum(found) / number_of_features(feature_counts(batch, has))


@register_metric("intra_list_diversity", [RANKING], aliases=["ild"])
class IntraListDiversity(ListMetric):
    """Mean cosine distance between the features of two items of a list of k.

    Users whose list has fewer than two items are left out; those without a relevant item count. An item
    without features is like no other, at distance 1.

    Shape: scores, target (users, items); `item_features` (items, features) of the `Ranking`.
    Value: float in [0, 2], no unit, more is better, up to 1 if no feature is negative; nan when no list has
        two items.

    Raises:
        MetricInputError: features are not given.
    Formula: mean over users of mean over pairs of the list of 1 - cosine similarity
    Source: Ziegler et al. 2005, WWW; Zhang & Hurley 2008, RecSys.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = IntraListDiversity(k=3)
    >>> metric.output = Ranking(item_features=torch.tensor([[1, 0], [1, 0], [0, 1]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), [[0]])
    >>> round(metric.compute().item(), 4)  # distances 0, 1 and 1
    0.6667
    """

    objective = MAXIMIZE
    family = "diversity"
    every_user = True
    void = "no list has two items"
    draw_batch = staticmethod(narrowed)

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Divide by the number of pairs."""
        units = torch.nn.functional.normalize(batch.item_features.double(), dim=1)
        pairs = cut.lengths * (cut.lengths - 1) / 2
        alike = cut.sum(torch.cat([_alike(own) for _, own in facts_of(cut.lists, units, cut.lists.real)]))
        return torch.where(pairs > 0, 1 - alike / pairs, torch.nan)


def facts_of(lists: Lists, facts: Tensor, counted: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Give some rows at a time, and the facts of their lists' items, 0 where a place does not count."""
    step = max(1, _TILE // max(1, lists.depth * facts.shape[1]))
    for start in range(0, max(1, len(lists)), step):
        rows = slice(start, start + step)
        own = facts[lists.items[rows].clamp(min=0)]
        yield rows, own.masked_fill(~counted[rows].unsqueeze(2), 0)


def feature_counts(batch: RankingBatch, has: Tensor) -> Tensor:
    """How many of the relevant items of each row have each feature, (rows, features) float32."""
    relevant = batch.relevant_items
    return torch.nn.functional.embedding_bag(
        relevant.items, has.float(), relevant.offsets, mode="sum", include_last_offset=True,
        per_sample_weights=relevant.real(torch.ones_like(relevant.items, dtype=torch.float32)),
    )  # fmt: skip


def number_of_features(counts: Tensor) -> Tensor:
    """How many features have such a count, (rows, 1) float64; nan where none has."""
    some = (counts > 0).sum(1, keepdim=True).double()
    return torch.where(some > 0, some, torch.nan)


def _first_found(found: Tensor) -> Tensor:
    """How many features each item has that none before it has, (rows, depth)."""
    return (found & (found.cumsum(1) == 1)).sum(2)


def _alike(units: Tensor) -> Tensor:
    """The sum of the cosine similarities of each item with those before it, (rows, depth)."""
    return (units * (units.cumsum(1) - units)).sum(2)
