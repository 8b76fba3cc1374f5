"""Ranking metrics that weight relevant items by the inverse of the chance that they are observed."""

from __future__ import annotations

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ...batch import Outputs
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import ListMetric
from ...retrieval.lists import Cut
from ...retrieval.ranking_batch import RankingBatch, rankings_in
from ...retrieval.side_data import propensity
from ...statistics.statistic import block


class _InversePropensity(ListMetric):
    """Hits that count by 1 over the chance that the item is observed.

    Shape: scores, target (users, items); `propensity` of the `Ranking`. Where it is not given, it is the
        root of the popularity over the largest one, 0.1 at least.

    Raises:
        MetricInputError: neither propensity nor popularity is given.
    """

    direction = MAXIMIZE
    family = "debiased"

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Weigh the hits of each place."""
        weights = 1 / propensity(batch.side, batch.num_items)
        return self.of_hits(cut.lists.of_items(weights) * cut.lists.hits, batch, cut)

    def of_hits(self, hits: Tensor, batch: RankingBatch, cut: Cut) -> Tensor:
        """Measure lists of each k by the weight of the hit at each place, (rows, depth)."""
        raise NotImplementedError(f"{type(self).__name__} needs of_hits(hits, batch, cut)")


@register_metric("ips_recall", [RANKING], aliases=["IPSRecall"])
class IPSRecall(_InversePropensity):
    """Recall of the first k in which a hit counts 1 over the chance that the item is observed.

    Users without a relevant item are left out.

    Value: float from 0, no unit, more is better, above 1 where rare items are found; nan when no user has a
        relevant item.
    Formula: mean over users of sum of 1 / p over the hits in the first k / relevant items
    Deviates: in a sampled evaluation WarpRec takes the place of a candidate for its item.
    Source: Yang et al. 2018, RecSys; propensity: Saito et al. 2020, WSDM.

    >>> from hpometrics import Ranking
    >>> metric = IPSRecall(k=1)
    >>> metric.output = Ranking(propensity=[0.5, 0.25])
    >>> metric.update([[0.9, 0.5]], [[0, 1]])
    >>> metric.compute().item()  # (1 / 0.5) / 2
    1.0
    """

    def of_hits(self, hits: Tensor, batch: RankingBatch, cut: Cut) -> Tensor:
        """Divide by the relevant items."""
        return cut.sum(hits) / cut.relevant


@register_metric("snips_recall", [RANKING], aliases=["SNIPSRecall"])
class SNIPSRecall(_InversePropensity):
    """Recall of the first k in which every relevant item counts 1 over the chance that it is observed.

    Users without a relevant item are left out.

    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of sum of 1 / p over the hits in the first k / sum of 1 / p over relevant items
    Deviates: in a sampled evaluation WarpRec takes the place of a candidate for its item, and exceeds 1.
    Source: Swaminathan & Joachims 2015, NIPS; Yang et al. 2018, RecSys.

    >>> from hpometrics import Ranking
    >>> metric = SNIPSRecall(k=1)
    >>> metric.output = Ranking(propensity=[0.5, 0.25])
    >>> metric.update([[0.9, 0.5]], [[0, 1]])
    >>> round(metric.compute().item(), 4)  # 2 / (2 + 4)
    0.3333
    """

    def of_hits(self, hits: Tensor, batch: RankingBatch, cut: Cut) -> Tensor:
        """Divide by the weight of the relevant items."""
        return cut.sum(hits) / _relevant_weight(batch)


@register_metric("ips_dcg", [RANKING], aliases=["IPSDCG"])
class IPSDCG(_InversePropensity):
    """Discounted gain of the first k in which a hit counts 1 over the chance that the item is observed.

    Users without a relevant item are left out.

    Value: float from 0, no unit, more is better; nan when no user has a relevant item.
    Formula: mean over users of sum of 1 / (p log2(rank + 1)) over the hits in the first k
    Deviates: in a sampled evaluation WarpRec takes the place of a candidate for its item.
    Source: Yang et al. 2018, RecSys; propensity: Saito et al. 2020, WSDM.

    >>> from hpometrics import Ranking
    >>> metric = IPSDCG(k=2)
    >>> metric.output = Ranking(propensity=[0.5, 0.25])
    >>> metric.update([[0.9, 0.5]], [[0, 1]])
    >>> round(metric.compute().item(), 4)  # 2 + 4 / log2(3)
    4.5237
    """

    def of_hits(self, hits: Tensor, batch: RankingBatch, cut: Cut) -> Tensor:
        """Discount by rank."""
        return cut.sum(hits * cut.lists.discounts)


@register_metric("snips_dcg", [RANKING], aliases=["SNIPSDCG"])
class SNIPSDCG(_InversePropensity):
    """Discounted gain of the first k, in which relevant items count 1 over the chance that they are observed.

    Users without a relevant item are left out.

    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item.
    Formula: mean over users of sum of 1 / (p log2(rank + 1)) over the hits in the first k / sum of 1 / p over
        relevant items
    Deviates: in a sampled evaluation WarpRec takes the place of a candidate for its item.
    Source: Swaminathan & Joachims 2015, NIPS; Yang et al. 2018, RecSys.

    >>> from hpometrics import Ranking
    >>> metric = SNIPSDCG(k=2)
    >>> metric.output = Ranking(propensity=[0.5, 0.25])
    >>> metric.update([[0.9, 0.5]], [[0, 1]])
    >>> round(metric.compute().item(), 4)  # (2 + 4 / log2(3)) / (2 + 4)
    0.754
    """

    def of_hits(self, hits: Tensor, batch: RankingBatch, cut: Cut) -> Tensor:
        """Discount by rank, divide by the weight of the relevant items."""
        return cut.sum(hits * cut.lists.discounts) / _relevant_weight(batch)


@block
def _relevant_weight(batch: Outputs) -> Tensor:
    """Return the sum of 1 / propensity over the relevant items of each row, (rows, 1) float64."""
    ranked = rankings_in(batch)
    relevant = ranked.relevant_items
    total = torch.zeros(len(batch), dtype=torch.float64, device=relevant.items.device)
    weights = 1 / propensity(ranked.side, ranked.num_items)
    return total.index_add_(0, relevant.row_of, relevant.real(weights[relevant.items])).unsqueeze(1)
