"""Judgements: rankings of which some items alone were judged, and how many of a list were."""

from __future__ import annotations

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import ListMetric, WholeMetric
from ...retrieval.lists import Cut, Lists
from ...retrieval.ranking_batch import RankingBatch
from ...retrieval.relevance import SparseRelevance

_EPSILON = 1e-5  # of a judgement, which keeps a share of no judgements from being 0 / 0; trec_eval's


@register_metric("bpref", [RANKING], aliases=["Bpref", "BPref"])
class BinaryPreference(WholeMetric):
    """How seldom a relevant item comes after one that is judged and not relevant, averaged over users.

    A dense target judges every item, but for those of grade `Ranking(unjudged=...)`; of a sparse one only
    the entries are judged, those of grade 0 (or up to the relevance threshold) as not relevant. What is not
    judged has no say.

    An item whose score is -inf comes before no other. If it is relevant it is one of the R and adds nothing.
    If not, it is one of the judged others where it is an entry of a sparse target, as in trec_eval; a dense
    target does not judge it.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of 1 / R times the sum over ranked relevant items of
        1 - min(judged others before it, R) / min(judged others, R), where R items are relevant.
    Deviates: the paper divides by R, not by the judged others where they are fewer; trec_eval does as here.
    Source: Buckley & Voorhees 2004, SIGIR.

    >>> import torch
    >>> metric = BinaryPreference()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), target=[{0: 0.0, 2: 1.0}])
    >>> metric.compute().item()  # the judged item 0 comes before
    0.0
    """

    objective = MAXIMIZE
    family = "order"

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Compare each relevant item with what is judged."""
        lists = batch.whole
        relevant = batch.relevance.counts.double().unsqueeze(1)
        most = torch.minimum(_refused(batch).unsqueeze(1), relevant)
        share = torch.minimum(_refused_before(batch, lists), relevant) / most.clamp(min=1)
        values = ((1 - share) * lists.hits).sum(1, keepdim=True) / relevant
        return batch.of_valid(values)


@register_metric("infap", [RANKING], aliases=["inferred_ap", "inferred_average_precision", "infAP"])
class InferredAveragePrecision(WholeMetric):
    """Average precision that takes items which were to be judged for relevant as often as those that were.

    What is judged is that of `bpref`. Items of grade `Ranking(unjudged=...)` were to be judged; without any
    of them this is `map(norm=n)`, but for a hundred-thousandth of a judgement.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of 1 / R times the sum over ranked relevant items of (1 + d * s) / rank, where
        d items before it were to be judged, s = (r + e) / (r + n + 2 e) is the share of relevant ones of the
        r + n that were, e = 0.00001, and R items are relevant.
    Deviates: users without a relevant item are left out; trec_eval counts them 0, as `Ranking(empty="neg")`.
    Source: Yilmaz & Aslam 2006, CIKM.

    >>> import torch
    >>> from hpometrics.metrics.features import Ranking
    >>> metric = InferredAveragePrecision()
    >>> metric.output = Ranking(unjudged=-1)
    >>> metric.update(torch.tensor([[0.9, 0.7, 0.5, 0.1]]), target=[{0: 1.0, 1: 0.0, 2: -1.0, 3: 1.0}])
    >>> round(metric.compute().item(), 4)  # (1 + (1 + 3 * 1 / 2) / 4) / 2
    0.8125
    """

    objective = MAXIMIZE
    family = "order"

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Infer the precision at each relevant item."""
        lists = batch.whole
        relevant, refused = lists.found - 1, _refused_before(batch, lists)
        pool = relevant + refused
        share = (relevant + _EPSILON) / (pool + 2 * _EPSILON)
        if (unjudged := batch.relevance.unjudged) is not None:
            pool = pool + _before(batch, lists, unjudged)
        precision = torch.where(lists.hits, (1 + pool * share) / lists.places, 0.0)
        return batch.of_valid(precision.sum(1, keepdim=True) / batch.relevance.counts.unsqueeze(1))


@register_metric("judged", [RANKING], aliases=["judgment_rate", "judged_rate", "Judged"])
class JudgedShare(ListMetric):
    """Share of the items of a list of k that are judged, relevant or not, averaged over users.

    It says how far the other values of the same lists can be trusted, and has no direction: lists are no
    better for showing what was judged. What is judged is that of `bpref`. Users of whom nothing is judged are
    left out, as are those who have no list.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is all; nan when nothing of any user is judged.
    Formula: mean over users of judged among the first k / items of the list
    Deviates: to ir_measures an item that was to be judged, of grade -1, is judged.
    Source: Buckley & Voorhees 2004, SIGIR, on incomplete judgements; ir_measures, `Judged`.

    >>> import torch
    >>> metric = JudgedShare(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), target=[{0: 0.0, 2: 1.0}])
    >>> metric.compute().item()  # item 0 is judged, item 1 is not
    0.5
    """

    objective = None
    family = "relevance"
    every_user = True
    void = "nothing of any user who has a list is judged"

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Count what is judged in each list."""
        lists, relevance = cut.lists, batch.relevance
        judged = lists.real
        if relevance.refused is not None:
            judged = lists.hits | relevance.refused.has(lists.columns)
        elif relevance.unjudged is not None:
            judged = lists.real & ~relevance.unjudged.has(lists.columns)
        some = ((_refused(batch) + relevance.counts) > 0).unsqueeze(1)
        return torch.where(some & (cut.lengths > 0), cut.sum(judged) / cut.lengths, torch.nan)


def _refused(batch: RankingBatch) -> Tensor:
    """How many items of each row are judged, or ranked if all are, and not relevant, (rows,) float64."""
    if (refused := batch.relevance.refused) is not None:
        return refused.counts.double()
    if (unjudged := batch.relevance.unjudged) is None:
        return batch.others
    ranked = (batch.ranks(unjudged.entries) < torch.inf).double()
    return batch.others.index_add(0, unjudged.entries.row_of, -unjudged.entries.real(ranked))


def _refused_before(batch: RankingBatch, lists: Lists) -> Tensor:
    """How many items that are judged and not relevant come before each place, (rows, depth) float64."""
    if (refused := batch.relevance.refused) is not None:
        return _before(batch, lists, refused)
    others = lists.places - lists.found
    unjudged = batch.relevance.unjudged
    return others if unjudged is None else others - _before(batch, lists, unjudged)


def _before(batch: RankingBatch, lists: Lists, some: SparseRelevance) -> Tensor:
    """How many entries of its row come before each place, (rows, depth) float64; 0 behind the last."""
    ranks, places = batch.ranks(some.entries), lists.places.nan_to_num(posinf=0.0)
    step = 1 + torch.cat([places.view(-1), ranks]).nan_to_num(posinf=0.0).amax()
    first = torch.arange(len(places), device=places.device).unsqueeze(1) * step
    ordered = (first[some.entries.row_of, 0] + ranks).sort().values
    return (torch.searchsorted(ordered, first + places) - torch.searchsorted(ordered, first)).double()
