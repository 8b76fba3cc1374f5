"""Ranking metrics of coverage and diversity: how many items and users lists reach, how items differ."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ..._device import on_host
from ...features import RANKING
from ...metric import Metric
from ...registry.register import register_metric
from ...retrieval.base import ListMetric, TopKMetric
from ...retrieval.lists import Cut, Lists
from ...retrieval.ranking_batch import RankingBatch
from ...statistics.item_counts import ItemCounts
from ...statistics.statistic import Statistic
from .._batches import draw_narrowed, draw_shortened

_TILE = 2**20  # numbers at a time
_EMPTY = "every list is empty, so nothing was recommended"


class _OfCounts(TopKMetric):
    """A metric that is a function of how often each item of the catalog is recommended."""

    family = "coverage"
    draw_batch = staticmethod(draw_narrowed)
    prepare = Metric.prepare  # the counts ask for lists of k items themselves

    def statistics(self) -> dict[str, Statistic]:
        """Count the items of all lists."""
        return {"items": ItemCounts("lists", (self.k,))}

    def compute(self) -> Tensor:
        """Measure the counts; nan with a reason where no user counts."""
        counts = self.statistic(ItemCounts)
        return (
            self.of_counts(counts.at(self.k)) if counts.users > 0 else self.undefined("no users were counted")
        )

    def of_counts(self, counts: Tensor) -> Tensor:
        """Measure how often each item is recommended, (items,) float64."""
        raise NotImplementedError(f"{type(self).__name__} needs of_counts(counts)")


@register_metric("item_coverage", [RANKING], aliases=["ItemCoverage"])
class ItemCoverage(_OfCounts):
    """Number of different items that are recommended to anyone in lists of k.

    Every user counts, with or without a relevant item.

    Shape: scores, target (users, items).
    Value: float from 0, items, more is better; nan before the first user.
    Formula: size of the union of all lists
    Deviates: RecBole gives its share of the catalog, here `catalog_coverage`; WarpRec counts masked and
        padded places as items.
    Source: Ge, Delgado-Battenfeld & Jannach 2010, RecSys.

    >>> import torch
    >>> metric = ItemCoverage(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.8, 0.7, 0.2]]), [[0], [1]])
    >>> metric.compute().item()  # both users get item 0
    1.0
    """

    direction = MAXIMIZE

    def of_counts(self, counts: Tensor) -> Tensor:
        """Count the items that occur."""
        return (counts > 0).sum().double()


@register_metric("catalog_coverage", [RANKING], aliases=["catalogue_coverage"])
class CatalogCoverage(ItemCoverage):
    """Share of the catalog that is recommended to anyone in lists of k.

    Every user counts, with or without a relevant item.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan before the first user.
    Formula: size of the union of all lists / items
    Source: Herlocker et al. 2004, ACM TOIS 22(1); RecBole's ItemCoverage.

    >>> import torch
    >>> metric = CatalogCoverage(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.8, 0.7]]), [[0], [1]])
    >>> metric.compute().item()  # both users get item 0 of two
    0.5
    """

    def of_counts(self, counts: Tensor) -> Tensor:
        """Divide by the size of the catalog."""
        return super().of_counts(counts) / len(counts)


@register_metric("gini", [RANKING], aliases=["Gini"])
class Gini(_OfCounts):
    """Inequality of how often the items of the catalog are recommended, in lists of k.

    Every user counts, with or without a relevant item; an item never recommended counts 0 times.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 0 is best, when all items are recommended equally often, 1 is when one
        item is all that is recommended; nan when nothing is, or of a catalog of one item.
    Formula: sum over j of (2 j - I - 1) c_j / ((I - 1) sum of c), c the counts of the I items, rising
    Deviates: RecBole divides by I; Elliot gives 1 - gini, to be maximized; both fill short lists up.
    Source: Adomavicius & Kwon 2012, IEEE TKDE 24(5).

    >>> import torch
    >>> metric = Gini(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.1]]), [[0], [1]])
    >>> metric.compute().item()  # counts 0, 1, 1: (-2 * 0 + 0 * 1 + 2 * 1) / (2 * 2)
    0.5
    """

    direction = MINIMIZE

    def of_counts(self, counts: Tensor) -> Tensor:
        """Weigh the counts by their rank."""
        size, total = len(counts), counts.sum()
        if size < 2 or not total > 0:
            return self.undefined(_EMPTY if size > 1 else "the catalog has one item")
        weight = torch.arange(1 - size, size, 2, device=counts.device, dtype=torch.float64)
        return (weight * _ascending(counts)).sum() / ((size - 1) * total)


@register_metric("shannon_entropy", [RANKING], aliases=["ShannonEntropy"])
class ShannonEntropy(_OfCounts):
    """Entropy of the recommendations over the items of the catalog, in lists of k.

    Every user counts, with or without a relevant item.

    Shape: scores, target (users, items).
    Value: float from 0, nats, more is better, up to ln(items); with `normalized=true` in [0, 1]; nan when
        nothing is recommended.
    Formula: -sum of p ln p, p the share of recommendations that an item has; with `normalized=true` divided
        by ln(items)
    Deviates: RecBole divides by the number of different items that are recommended, which turns it around.
    Source: Shannon 1948, Bell System Technical Journal 27(3); Castells et al. 2022, Recommender Systems
        Handbook.

    >>> import torch
    >>> metric = ShannonEntropy(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.2, 0.7, 0.1]]), [[0], [1]])
    >>> round(metric.compute().item(), 4)  # two items, half each: ln 2
    0.6931
    """

    direction = MAXIMIZE

    def __init__(self, k: int, normalized: bool = False, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        self.normalized = normalized

    def of_counts(self, counts: Tensor) -> Tensor:
        """Add up the information of each share."""
        total = counts.sum()
        if not total > 0:
            return self.undefined(_EMPTY)
        if self.normalized and len(counts) < 2:
            return self.undefined("the catalog has one item")
        entropy: Tensor = torch.special.entr(counts / total).sum()
        return entropy / math.log(len(counts)) if self.normalized else entropy


class LengthMetric(ListMetric):
    """Base class of functions of the length of lists."""

    direction = MAXIMIZE
    family = "coverage"
    counts_empty = False
    draw_batch = staticmethod(draw_shortened)


@register_metric("user_coverage", [RANKING], aliases=["UserCoverage"])
class UserCoverage(LengthMetric):
    """Share of users with a relevant item who are recommended anything: one item at least.

    It is the same at each k; `user_coverage_at_n` wants k items.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: users whose list is not empty / users
    Deviates: WarpRec counts the users that have a relevant item, whatever is recommended.
    Source: Herlocker et al. 2004, ACM TOIS 22(1).

    >>> import torch
    >>> metric = UserCoverage(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5], [-torch.inf, -torch.inf]]), [[0], [1]])
    >>> metric.compute().item()  # nothing is left to recommend to the second
    0.5
    """

    reads = "lists"

    def values(self, cut: Cut) -> Tensor:
        """Look for one item."""
        return (cut.lengths > 0).double()


@register_metric("user_coverage_at_n", [RANKING], aliases=["UserCoverageAtN"])
class UserCoverageAtN(LengthMetric):
    """Share of users who are recommended a full list of k items.

    Every user counts, with or without a relevant item.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan before the first user.
    Formula: users whose list has k items / users
    Deviates: WarpRec counts the users with k scores above 0, which changes with any shift of the scores. Here
        an item is recommended unless its score is -inf.
    Source: Elliot's UserCoverageAtN; RecTools' SufficientReco.

    >>> import torch
    >>> metric = UserCoverageAtN(k=2)
    >>> metric.update(torch.tensor([[-0.9, -0.5], [0.4, -torch.inf]]), [[0], [1]])
    >>> metric.compute().item()  # the second list has one item
    0.5
    """

    reads = "lists"
    every_user = True
    void = "no users were counted"

    def values(self, cut: Cut) -> Tensor:
        """Look for k items."""
        return (cut.lengths >= cut.k).double()


@register_metric("num_retrieved", [RANKING], aliases=["NumRetrieved"])
class NumRetrieved(LengthMetric):
    """Number of items in lists of k, averaged over users; fewer than k where a user has too few candidates.

    Users without a relevant item are left out. Without k, of all that is ranked.

    Shape: scores, target (users, items).
    Value: float from 0, items, k is best; nan when no user has a relevant item.
    Formula: mean over users of the length of the list
    Deviates: ir_measures (`NumRet`) and trec_eval (`num_ret`) add users up.
    Source: WarpRec's and Elliot's NumRetrieved; num_ret of trec_eval.

    >>> import torch
    >>> metric = NumRetrieved(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.4, -torch.inf]]), [[0], [1]])
    >>> metric.compute().item()  # two and one
    1.5
    """

    def __init__(self, k: int | None = None, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Count the items."""
        return batch.listed(cut)


def _ascending(counts: Tensor) -> Tensor:
    """Return the counts in ascending order; on the host by NumPy, in six tenths of the time."""
    return torch.from_numpy(np.sort(counts.numpy())) if on_host(counts) else counts.sort().values


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

    direction = MAXIMIZE
    family = "diversity"
    void = "no user has a relevant item that has a feature"

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Count each feature where it first occurs among hits."""
        has = batch.item_features > 0
        hits = facts_of(cut.lists, has, cut.lists.hits)
        counts = torch.cat([(own & (own.cumsum(1) == 1)).sum(2) for _, own in hits])
        return cut.sum(counts) / number_of_features(feature_counts(batch, has))


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

    direction = MAXIMIZE
    family = "diversity"
    every_user = True
    void = "no list has two items"
    draw_batch = staticmethod(draw_narrowed)

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Divide by the number of pairs."""
        units = torch.nn.functional.normalize(batch.item_features.double(), dim=1)
        pairs = cut.lengths * (cut.lengths - 1) / 2
        listed = facts_of(cut.lists, units, cut.lists.real)
        parts = [(own * (own.cumsum(1) - own)).sum(2) for _, own in listed]  # with all items before
        similarity = cut.sum(torch.cat(parts))
        return torch.where(pairs > 0, 1 - similarity / pairs, torch.nan)


def facts_of(lists: Lists, facts: Tensor, mask: Tensor) -> Iterator[tuple[slice, Tensor]]:
    """Yield some rows at a time, and the facts of their lists' items, 0 outside the mask (rows, depth)."""
    step = max(1, _TILE // max(1, lists.depth * facts.shape[1]))
    for start in range(0, max(1, len(lists)), step):
        rows = slice(start, start + step)
        own = facts[lists.items[rows].clamp(min=0)]
        yield rows, own.masked_fill(~mask[rows].unsqueeze(2), 0)


def feature_counts(batch: RankingBatch, has: Tensor) -> Tensor:
    """Count the relevant items of each row that have each feature, (rows, features) float32."""
    relevant = batch.relevant_items
    return torch.nn.functional.embedding_bag(
        relevant.items, has.float(), relevant.offsets, mode="sum", include_last_offset=True,
        per_sample_weights=relevant.real(torch.ones_like(relevant.items, dtype=torch.float32)),
    )  # fmt: skip


def number_of_features(counts: Tensor) -> Tensor:
    """Count the features whose count is above 0, (rows, 1) float64; nan where there are none."""
    some = (counts > 0).sum(1, keepdim=True).double()
    return torch.where(some > 0, some, torch.nan)
