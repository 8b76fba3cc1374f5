"""Intents: a plain metric of the relevant items that have one feature, averaged over the features."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.lists import Cut
from ...retrieval.ranking_batch import RankingBatch
from .ranked_diversity import facts_of, feature_counts, number_of_features
from .subtopics import SubtopicMetric


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
