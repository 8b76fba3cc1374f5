"""Ranking metrics of subtopics: an item adds less to a list, the more of its features came before."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ...retrieval.lists import Cut
from ...retrieval.ranking_batch import RankingBatch
from ._table import RowMetric, list_metric
from .coverage import facts_of, feature_counts, number_of_features

_TILE = 2**20  # numbers at a time


class SubtopicMetric(RowMetric):
    """A metric of the features, or subtopics, that relevant items of a list have.

    An item has a feature where `Ranking(item_features=...)` is above 0. Users whose relevant items have no
    feature are left out, as are those without a relevant item.

    Shape: scores, target (users, items); `item_features` (items, features) of the `Ranking`, those above 0.
    Value: float in [0, 1], no unit, more is better; nan when no user has a relevant item that has a feature.
    """

    direction = MAXIMIZE
    family = "diversity"
    void = "no user has a relevant item that has a feature"


class SubtopicGain(SubtopicMetric):
    """The sum of what each hit adds, discounted by its rank; `ideal` divides by that of an ideal list.

    A hit adds (1 - alpha)^c for each of its features, of which c hits before it have the same. The ideal list
    takes, at each rank, the relevant item that adds the most.
    """

    ideal: ClassVar[bool] = False
    alpha, beta = 0.5, 0.5
    discount: Callable[[Tensor], Tensor]  # returns what an item at each rank is worth
    scale: Callable[[Tensor], Tensor]  # returns the factor of users by the features of their relevant items

    def rules(self) -> Iterable[tuple[bool, str]]:
        """Return those of alpha and beta."""
        yield 0 <= self.alpha <= 1, f"alpha must be in [0, 1], got {self.alpha!r}"
        yield 0 <= self.beta <= 1, f"beta must be in [0, 1], got {self.beta!r}"

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Add up what hits add."""
        has, lists = batch.item_features > 0, cut.lists
        added = torch.cat([_added(own, self.alpha) for _, own in facts_of(lists, has, lists.hits)])
        features = number_of_features(feature_counts(batch, has))
        total = cut.sum(added * self.discount(lists.places))
        if not self.ideal:
            return total * self.scale(features)
        name = f"ideal list of subtopics, {self.alpha}, {lists.depth}"
        best = batch.block(name, lambda _: _ideal(batch, self.alpha, lists.depth))
        places = torch.arange(1, lists.depth + 1, device=best.device, dtype=torch.float64)
        return torch.where(features.isnan(), torch.nan, total) / cut.sum(best * self.discount(places))


def _added(own: Tensor, alpha: float) -> Tensor:
    """Return what each place adds, (rows, depth) float64; `own` (rows, depth, features) are those of hits."""
    before = own.cumsum(1) - own.long()
    return torch.where(own, (1 - alpha) ** before.double(), 0.0).sum(2)


def _ideal(batch: RankingBatch, alpha: float, depth: int) -> Tensor:
    """Return what each place of a greedy list adds, (rows, depth) float64."""
    has, relevant = batch.item_features > 0, batch.relevant_items
    items = relevant.side_by_side(relevant.items, len(has)).sort(dim=1).values
    valid = items < len(has)
    items = items.masked_fill(~valid, 0)
    step = max(1, _TILE // max(1, items.shape[1] * has.shape[1]))
    parts = [torch.zeros(0, depth, dtype=torch.float64, device=has.device)]
    for start in range(0, len(items), step):
        rows = slice(start, start + step)
        parts.append(_greedy((has[items[rows]] & valid[rows].unsqueeze(2)).double(), alpha, depth))
    return torch.cat(parts)


def _greedy(own: Tensor, alpha: float, depth: int) -> Tensor:
    """Choose the item that adds the most, `depth` times; `own` is (rows, items, features)."""
    row = torch.arange(len(own), device=own.device)
    weight, added = own.new_ones(len(own), own.shape[2]), own.new_zeros(len(own), depth)
    nothing = own.new_zeros(())  # a number that is put in places of a device comes from the host
    for place in range(min(depth, own.shape[1])):
        added[:, place], best = torch.einsum("rif,rf->ri", own, weight).max(1)
        weight = torch.where(own[row, best] > 0, weight * (1 - alpha), weight)
        own[row, best] = nothing
    return added


def _precision(self: RowMetric, batch: RankingBatch, cut: Cut) -> Tensor:
    """Count the features of hits."""
    has, lists = batch.item_features > 0, cut.lists
    counts = torch.cat([own.sum(2) for _, own in facts_of(lists, has, lists.hits)])
    return cut.sum(counts) / cut.k / number_of_features(feature_counts(batch, has))


def _average_precision(self: RowMetric, batch: RankingBatch, cut: Cut) -> Tensor:
    """Add up, at the hits, the precision of each of their features over how many items have it."""
    has, lists = batch.item_features > 0, cut.lists
    counts = feature_counts(batch, has)
    each = [_shares(own, counts[rows]) for rows, own in facts_of(lists, has, lists.hits)]
    return cut.sum(torch.cat(each) / lists.places) / number_of_features(counts)


def _shares(own: Tensor, counts: Tensor) -> Tensor:
    """Return for each place the sum over features of hits so far / all with the feature, (rows, depth)."""
    hits = own.cumsum(1).double() / counts.double().unsqueeze(1)
    return torch.where(own, hits, 0.0).sum(2)


_HIT = "the sum over the features of the hit of (1 - alpha)^c, where c hits before it have the feature"
_HIT_OF_F = f"{_HIT}, and relevant items have F"
_CLARKE, _KOLLA = "Clarke et al. 2008, SIGIR.", "Clarke, Kolla & Vechtomova 2009, ICTIR."
_WHOLE = "\n\nWithout k, of the whole ranking."
_NO_FEATURES = "features are not given."
_OUTSIDE = f"lies outside [0, 1], or {_NO_FEATURES}"
_FULL = "ndeval divides by the gain of a list whose every item has every feature."
_IDEAL = "over that of an ideal list, averaged over users; without k, of the whole ranking."
_BEST = "over that of a list that takes, at each rank, the relevant item that adds the most"
_GREEDY = "the ideal list is the greedy one, as in ndeval; of equals the lowest number is taken."
_VOID = "nan when no user has a relevant item that has a feature."
_SHARE = f"float in [0, 1], no unit, 1 is best; {_VOID}"
_GAIN = f"float from 0, no unit, more is better; {_VOID}"
_RATIO = f"float from 0, no unit, 1 is an ideal list; {_VOID}"
_TWO = ("k=2", "torch.tensor([[0.9, 0.5]]), [[0, 1]]", "item_features=torch.tensor([[1, 1], [1, 0]])")
_THREE = ("k=2", "torch.tensor([[0.9, 0.5, 0.1]]), [[0, 1, 2]]",
          "item_features=torch.tensor([[1, 0], [1, 0], [0, 1]])")  # fmt: skip
_DCG: dict[str, Any] = {
    "params": {"k": None, "alpha": 0.5}, "raises": f"alpha {_OUTSIDE}",
    "discount": lambda self, rank: 1 / (rank + 1).log2(),
    "scale": lambda self, features: torch.where(features.isnan(), torch.nan, 1.0),
}  # fmt: skip
_ERR = _DCG | {
    "discount": lambda self, rank: 1 / rank, "scale": lambda self, features: self.alpha / features,
}  # fmt: skip
_RBP: dict[str, Any] = {  # scaled so that a list without end, each of whose items has every feature, is 1
    "params": {"k": None, "alpha": 0.5, "beta": 0.5}, "raises": f"alpha or beta {_OUTSIDE}",
    "discount": lambda self, rank: self.beta ** (rank - 1),
    "scale": lambda self, features: (1 - (1 - self.alpha) * self.beta) / features,
}  # fmt: skip

SUBTOPICS = (
    list_metric(SubtopicGain, "alpha_dcg", "AlphaDCG",
        "Discounted gain in which a feature counts less each time it is repeated, averaged over users."
        f"{_WHOLE}", f"mean over users of the sum over hits of 1 / log2(rank + 1) times {_HIT}", _CLARKE,
        ("2.3155", "2 + 0.5 / log2(3)", *_TWO), value=_GAIN, deviates=_FULL, **_DCG),
    list_metric(SubtopicGain, "alpha_ndcg", "AlphaNDCG",
        "Discounted gain in which a repeated feature counts less, over that of an ideal list, mean over "
        f"users.{_WHOLE}", f"`alpha_dcg` {_BEST}", _CLARKE,
        ("0.8066", "(1 + 0.5 / log2(3)) / (1 + 1 / log2(3))", *_THREE), value=_RATIO,
        deviates="the best list is hard to find, so it is the greedy one here and in ndeval; where items add "
        "as much as each other, the one of the lowest number is taken.",
        aliases=["alpha_nDCG"], ideal=True, **_DCG),
    list_metric(SubtopicGain, "err_ia", "IntentAwareERR",
        "Expected 1 / rank where a reader stops who wants one feature, averaged over features and users."
        f"{_WHOLE} A hit that has the feature lets the reader stop with chance alpha.",
        f"mean over users of alpha / F times the sum over hits of 1 / rank times {_HIT_OF_F}",
        "Chapelle et al. 2009, CIKM; Chapelle et al. 2011, Information Retrieval 14(6).",
        ("0.5625", "0.5 / 2 * (2 + 0.5 / 2)", *_TWO), deviates=_FULL, **_ERR),
    list_metric(SubtopicGain, "nerr_ia", "NormalisedIntentAwareERR", f"`err_ia` {_IDEAL}",
        f"`err_ia` {_BEST}", "Clarke et al. 2011, WSDM.", ("0.8333", "(1 + 0.5 / 2) / (1 + 1 / 2)", *_THREE),
        value=_RATIO, deviates=_GREEDY, aliases=["nERR_IA"], ideal=True, **_ERR),
    list_metric(SubtopicGain, "nrbp", "NoveltyRankBiasedPrecision",
        "Gain of a reader who goes on with chance beta and counts a repeated feature less, mean over users."
        f"{_WHOLE}", "mean over users of (1 - (1 - alpha) beta) / F times the sum over hits of "
        f"beta^(rank - 1) times {_HIT_OF_F}", _KOLLA,
        ("0.8438", "(1 - 0.5 * 0.5) / 2 * (2 + 0.5 * 0.5)", *_TWO), value=_SHARE, aliases=["NRBP"], **_RBP),
    list_metric(SubtopicGain, "nnrbp", "NormalisedNoveltyRankBiasedPrecision", f"`nrbp` {_IDEAL}",
        f"`nrbp` {_BEST}", _KOLLA, ("0.8333", "(1 + 0.5 * 0.5) / (1 + 1 * 0.5)", *_THREE),
        value=_RATIO, deviates=_GREEDY, aliases=["nNRBP"], ideal=True, **_RBP),
    list_metric(SubtopicMetric, "p_ia", "IntentAwarePrecision",
        "Share of the first k items that are relevant and have a feature, mean over features and users.",
        "mean over users of the mean, over the F features that relevant items have, of hits@k with the "
        "feature / k", "Agrawal et al. 2009, WSDM.", ("0.75", "(2 / 2 + 1 / 2) / 2", *_TWO),
        aliases=["precision_ia", "intent_aware_precision", "P_IA"], params={"k": int},
        values_in=_precision, raises=_NO_FEATURES),
    list_metric(SubtopicMetric, "map_ia", "IntentAwareAveragePrecision",
        "Average precision of the relevant items that have a feature, averaged over features and then users."
        f"{_WHOLE}", "mean over users of the mean, over the features that relevant items have, of "
        "`map(norm=n)` where only items with the feature are relevant", "Agrawal et al. 2009, WSDM.",
        ("0.75", "(1 + 1 / 2) / 2", *_TWO[:2], "item_features=torch.tensor([[1, 0], [0, 1]])"),
        aliases=["ap_ia", "intent_aware_map", "AP_IA", "MAP_IA"], params={"k": None},
        values_in=_average_precision, raises=_NO_FEATURES),
)  # fmt: skip
globals().update({cls.__name__: cls for cls in SUBTOPICS})  # each class is an attribute of this module
