"""Subtopics of ranked lists: an item adds the less to a list, the more of its features came before."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricInputError
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import ListMetric
from ...retrieval.lists import Cut
from ...retrieval.ranking_batch import RankingBatch
from .coverage import facts_of, feature_counts, number_of_features

_TILE = 2**20  # numbers at a time


class SubtopicMetric(ListMetric):
    """A metric of the features, or subtopics, that relevant items of a list have.

    An item has a feature where `Ranking(item_features=...)` is above 0. Users whose relevant items have no
    feature are left out, as are those without a relevant item.
    """

    objective = MAXIMIZE
    family = "diversity"
    void = "no user has a relevant item that has a feature"


class SubtopicGain(SubtopicMetric):
    """The sum of what each hit adds, discounted by its rank, over a bound.

    A hit adds (1 - alpha)^c for each of its features, of which c hits before it have the same.
    """

    def __init__(self, k: int | None = None, alpha: float = 0.5, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        if not 0 <= alpha <= 1:
            raise MetricInputError(f"{type(self).__name__}: alpha lies in [0, 1], got {alpha!r}")
        self.alpha = alpha

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Add up what hits add."""
        has, lists = batch.item_features > 0, cut.lists
        added = torch.cat([_added(own, self.alpha) for _, own in facts_of(lists, has, lists.hits)])
        features = number_of_features(feature_counts(batch, has))
        return cut.sum(added * self.discount(lists.places)) * self.scale(features) / self.bound(batch, cut)

    def discount(self, places: Tensor) -> Tensor:
        """What an item at a rank is worth."""
        return 1 / (places + 1).log2()

    def scale(self, features: Tensor) -> Tensor:
        """The factor of users, of whom the relevant items have so many features, nan for none."""
        return torch.where(features.isnan(), torch.nan, 1.0)

    def bound(self, batch: RankingBatch, cut: Cut) -> Tensor | float:
        """What the sum is divided by."""
        return 1.0


class OverIdeal(SubtopicGain):
    """The same over the sum for a list that takes, at each rank, the relevant item that adds the most."""

    def scale(self, features: Tensor) -> Tensor:
        """None, as it falls out."""
        return torch.where(features.isnan(), torch.nan, 1.0)

    def bound(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """The sum for that list."""
        depth, name = cut.lists.depth, f"ideal list of subtopics, {self.alpha}"
        added = batch.block(f"{name}, {depth}", lambda _: _ideal(batch, self.alpha, depth))
        places = torch.arange(1, depth + 1, device=added.device, dtype=torch.float64)
        return cut.sum(added * self.discount(places))


@register_metric("alpha_dcg", [RANKING])
class AlphaDCG(SubtopicGain):
    """Discounted gain in which a feature counts less each time it is repeated, averaged over users.

    Without k, of the whole ranking.

    Shape: scores, target (users, items); `item_features` (items, features) of the `Ranking`, those above 0.
    Value: float from 0, no unit, more is better; nan when no user has a relevant item that has a feature.

    Raises:
        MetricInputError: alpha lies outside [0, 1], or features are not given.
    Formula: mean over users of the sum over hits of 1 / log2(rank + 1) times the sum over the features of the
        hit of (1 - alpha)^c, where c hits before it have the feature
    Deviates: ndeval divides by the gain of a list whose every item has every feature.
    Source: Clarke et al. 2008, SIGIR.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = AlphaDCG(k=2)
    >>> metric.output = Ranking(item_features=torch.tensor([[1, 1], [1, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.5]]), [[0, 1]])
    >>> round(metric.compute().item(), 4)  # 2 + 0.5 / log2(3)
    2.3155
    """


@register_metric("alpha_ndcg", [RANKING], aliases=["alpha_nDCG"])
class AlphaNDCG(OverIdeal, AlphaDCG):
    """Discounted gain in which a repeated feature counts less, over that of an ideal list, mean over users.

    Without k, of the whole ranking.

    Shape: scores, target (users, items); `item_features` (items, features) of the `Ranking`, those above 0.
    Value: float from 0, no unit, 1 is an ideal list; nan when no user has a relevant item that has a feature.

    Raises:
        MetricInputError: alpha lies outside [0, 1], or features are not given.
    Formula: `alpha_dcg` over that of a list that takes, at each rank, the relevant item that adds the most
    Deviates: the best list is hard to find, so that it is the greedy one here and in ndeval; where items add
        as much as each other, the one of the lowest number is taken.
    Source: Clarke et al. 2008, SIGIR.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = AlphaNDCG(k=2)
    >>> metric.output = Ranking(item_features=torch.tensor([[1, 0], [1, 0], [0, 1]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), [[0, 1, 2]])
    >>> round(metric.compute().item(), 4)  # (1 + 0.5 / log2(3)) / (1 + 1 / log2(3))
    0.8066
    """


@register_metric("err_ia", [RANKING])
class IntentAwareERR(SubtopicGain):
    """Expected 1 / rank where a reader stops who wants one feature, averaged over features and users.

    Without k, of the whole ranking. A hit that has the feature lets the reader stop with chance alpha.

    Shape: scores, target (users, items); `item_features` (items, features) of the `Ranking`, those above 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item that has a feature.

    Raises:
        MetricInputError: alpha lies outside [0, 1], or features are not given.
    Formula: mean over users of alpha / F times the sum over hits of 1 / rank times the sum over the features
        of the hit of (1 - alpha)^c, where c hits before it have the feature, and relevant items have F
    Deviates: ndeval divides by the gain of a list whose every item has every feature.
    Source: Chapelle et al. 2009, CIKM; Chapelle et al. 2011, Information Retrieval 14(6).

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = IntentAwareERR(k=2)
    >>> metric.output = Ranking(item_features=torch.tensor([[1, 1], [1, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.5]]), [[0, 1]])
    >>> metric.compute().item()  # 0.5 / 2 * (2 + 0.5 / 2)
    0.5625
    """

    def discount(self, places: Tensor) -> Tensor:
        """1 / rank."""
        return 1 / places

    def scale(self, features: Tensor) -> Tensor:
        """The chance of stopping, over the number of features."""
        return self.alpha / features


@register_metric("nerr_ia", [RANKING], aliases=["nERR_IA"])
class NormalisedIntentAwareERR(OverIdeal, IntentAwareERR):
    """`err_ia` over that of an ideal list, averaged over users; without k of the whole ranking.

    Shape: scores, target (users, items); `item_features` (items, features) of the `Ranking`, those above 0.
    Value: float from 0, no unit, 1 is an ideal list; nan when no user has a relevant item that has a feature.

    Raises:
        MetricInputError: alpha lies outside [0, 1], or features are not given.
    Formula: `err_ia` over that of a list that takes, at each rank, the relevant item that adds the most
    Deviates: the ideal list is the greedy one, as in ndeval; of equals the lowest number is taken.
    Source: Clarke et al. 2011, WSDM.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = NormalisedIntentAwareERR(k=2)
    >>> metric.output = Ranking(item_features=torch.tensor([[1, 0], [1, 0], [0, 1]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), [[0, 1, 2]])
    >>> round(metric.compute().item(), 4)  # (1 + 0.5 / 2) / (1 + 1 / 2)
    0.8333
    """


@register_metric("nrbp", [RANKING], aliases=["NRBP"])
class NoveltyRankBiasedPrecision(SubtopicGain):
    """What a reader finds who goes on with chance beta and counts a repeated feature less, mean over users.

    Without k, of the whole ranking.

    Shape: scores, target (users, items); `item_features` (items, features) of the `Ranking`, those above 0.
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item that has a feature.

    Raises:
        MetricInputError: alpha or beta lies outside [0, 1], or features are not given.
    Formula: mean over users of (1 - (1 - alpha) beta) / F times the sum over hits of beta^(rank - 1) times
        the sum over the features of the hit of (1 - alpha)^c, where c hits before it have the feature, and
        relevant items have F
    Source: Clarke, Kolla & Vechtomova 2009, ICTIR.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = NoveltyRankBiasedPrecision(k=2)
    >>> metric.output = Ranking(item_features=torch.tensor([[1, 1], [1, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.5]]), [[0, 1]])
    >>> metric.compute().item()  # (1 - 0.5 * 0.5) / 2 * (2 + 0.5 * 0.5)
    0.84375
    """

    def __init__(self, k: int | None = None, alpha: float = 0.5, beta: float = 0.5, **kwargs: Any) -> None:
        super().__init__(k, alpha, **kwargs)
        if not 0 <= beta <= 1:
            raise MetricInputError(f"{type(self).__name__}: beta lies in [0, 1], got {beta!r}")
        self.beta = beta

    def discount(self, places: Tensor) -> Tensor:
        """The chance of getting there."""
        return self.beta ** (places - 1)

    def scale(self, features: Tensor) -> Tensor:
        """So that a list without end, each of whose items has every feature, is 1."""
        return (1 - (1 - self.alpha) * self.beta) / features


@register_metric("nnrbp", [RANKING], aliases=["nNRBP"])
class NormalisedNoveltyRankBiasedPrecision(OverIdeal, NoveltyRankBiasedPrecision):
    """`nrbp` over that of an ideal list, averaged over users; without k of the whole ranking.

    Shape: scores, target (users, items); `item_features` (items, features) of the `Ranking`, those above 0.
    Value: float from 0, no unit, 1 is an ideal list; nan when no user has a relevant item that has a feature.

    Raises:
        MetricInputError: alpha or beta lies outside [0, 1], or features are not given.
    Formula: `nrbp` over that of a list that takes, at each rank, the relevant item that adds the most
    Deviates: the ideal list is the greedy one, as in ndeval; of equals the lowest number is taken.
    Source: Clarke, Kolla & Vechtomova 2009, ICTIR.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = NormalisedNoveltyRankBiasedPrecision(k=2)
    >>> metric.output = Ranking(item_features=torch.tensor([[1, 0], [1, 0], [0, 1]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), [[0, 1, 2]])
    >>> round(metric.compute().item(), 4)  # (1 + 0.5 * 0.5) / (1 + 1 * 0.5)
    0.8333
    """


def _added(own: Tensor, alpha: float) -> Tensor:
    """What each place adds, (rows, depth) float64, by the features of its hit, (rows, depth, features)."""
    before = own.cumsum(1) - own.long()
    return torch.where(own, (1 - alpha) ** before.double(), 0.0).sum(2)


def _ideal(batch: RankingBatch, alpha: float, depth: int) -> Tensor:
    """What each place of a greedy list adds, (rows, depth) float64."""
    has, relevant = batch.item_features > 0, batch.relevant_items
    items = relevant.side_by_side(relevant.items, len(has)).sort(dim=1).values
    held = items < len(has)
    items = items.masked_fill(~held, 0)
    step = max(1, _TILE // max(1, items.shape[1] * has.shape[1]))
    parts = [torch.zeros(0, depth, dtype=torch.float64, device=has.device)]
    for start in range(0, len(items), step):
        rows = slice(start, start + step)
        parts.append(_greedy((has[items[rows]] & held[rows].unsqueeze(2)).double(), alpha, depth))
    return torch.cat(parts)


def _greedy(own: Tensor, alpha: float, depth: int) -> Tensor:
    """Take the item that adds the most, so many times; `own` is (rows, items, features)."""
    row = torch.arange(len(own), device=own.device)
    left, added = own.new_ones(len(own), own.shape[2]), own.new_zeros(len(own), depth)
    nothing = own.new_zeros(())  # a number that is put in places of a device comes from the host
    for place in range(min(depth, own.shape[1])):
        added[:, place], best = torch.einsum("rif,rf->ri", own, left).max(1)
        left = torch.where(own[row, best] > 0, left * (1 - alpha), left)
        own[row, best] = nothing
    return added


@register_metric("p_ia", [RANKING], aliases=["precision_ia", "intent_aware_precision", "P_IA"])
class IntentAwarePrecision(SubtopicMetric):
    """Share of the first k items that are relevant and have a feature, averaged over features and then users.

    Shape: scores, target (users, items); `item_features` (items, features) of the `Ranking`, those above 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item that has a feature.

    Raises:
        MetricInputError: features are not given.
    Formula: mean over users of the mean, over the F features that relevant items have, of hits@k with the
        feature / k
    Source: Agrawal et al. 2009, WSDM.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = IntentAwarePrecision(k=2)
    >>> metric.output = Ranking(item_features=torch.tensor([[1, 1], [1, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.5]]), [[0, 1]])
    >>> metric.compute().item()  # (2 / 2 + 1 / 2) / 2
    0.75
    """

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Count the features of hits."""
        has, lists = batch.item_features > 0, cut.lists
        found = torch.cat([own.sum(2) for _, own in facts_of(lists, has, lists.hits)])
        return cut.sum(found) / cut.k / number_of_features(feature_counts(batch, has))


@register_metric("map_ia", [RANKING], aliases=["ap_ia", "intent_aware_map", "AP_IA", "MAP_IA"])
class IntentAwareAveragePrecision(SubtopicMetric):
    """Average precision of the relevant items that have a feature, averaged over features and then users.

    Without k, of the whole ranking.

    Shape: scores, target (users, items); `item_features` (items, features) of the `Ranking`, those above 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item that has a feature.

    Raises:
        MetricInputError: features are not given.
    Formula: mean over users of the mean, over the features that relevant items have, of `map(norm=n)` where
        only items with the feature are relevant
    Source: Agrawal et al. 2009, WSDM.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = IntentAwareAveragePrecision(k=2)
    >>> metric.output = Ranking(item_features=torch.tensor([[1, 0], [0, 1]]))
    >>> metric.update(torch.tensor([[0.9, 0.5]]), [[0, 1]])
    >>> metric.compute().item()  # (1 + 1 / 2) / 2
    0.75
    """

    def __init__(self, k: int | None = None, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Add up, at the hits, the precision of each of their features over how many items have it."""
        has, lists = batch.item_features > 0, cut.lists
        counts = feature_counts(batch, has)
        each = [_shares(own, counts[rows]) for rows, own in facts_of(lists, has, lists.hits)]
        return cut.sum(torch.cat(each) / lists.places) / number_of_features(counts)


def _shares(own: Tensor, counts: Tensor) -> Tensor:
    """Of each place the sum over features of hits so far / all that have the feature, (rows, depth)."""
    found = own.cumsum(1).double() / counts.double().unsqueeze(1)
    return torch.where(own, found, 0.0).sum(2)
