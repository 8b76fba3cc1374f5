"""Ranking metrics over judgments: preferences, inferred precision, overlap with an ideal list, sets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ...retrieval.lists import Cut, Lists
from ...retrieval.ranking_batch import RankingBatch
from ...retrieval.relevance import SparseRelevance
from .._batches import draw_shortened
from ._table import RowMetric, list_metric

_EPSILON = 1e-5  # of a judgment, which keeps a share of no judgments from being 0 / 0; trec_eval's


class JudgedMetric(RowMetric):
    """A metric of what is judged relevant, judged and not relevant, or not judged at all.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    """

    direction = MAXIMIZE
    family = "order"
    p, normalize, beta, relative = 0.95, True, 1.0, False

    def rules(self) -> Iterable[tuple[bool, str]]:
        """Return those of p and beta."""
        yield 0 < self.p < 1, f"p must be a probability between 0 and 1, both excluded, got {self.p!r}"
        yield 0 < self.beta < float("inf"), f"beta must be a number above 0, got {self.beta!r}"


def _preference(self: JudgedMetric, batch: RankingBatch, cut: Cut) -> Tensor:
    """Compare each relevant item with what is judged."""
    lists, relevant = cut.lists, cut.relevant
    most = torch.minimum(_refused(batch).unsqueeze(1), relevant)
    share = torch.minimum(_refused_before(batch, lists), relevant) / most.clamp(min=1)
    return ((1 - share) * lists.hits).sum(1, keepdim=True) / relevant


def _inferred_precision(self: JudgedMetric, batch: RankingBatch, cut: Cut) -> Tensor:
    """Infer the precision at each relevant item."""
    lists, unjudged = cut.lists, batch.relevance.unjudged
    relevant = lists.found - 1
    pool = relevant + _refused_before(batch, lists)
    share = (relevant + _EPSILON) / (pool + 2 * _EPSILON)
    if unjudged is not None:
        pool = pool + _before(batch, lists, unjudged)
    precision = torch.where(lists.hits, (1 + pool * share) / lists.places, 0.0)
    return precision.sum(1, keepdim=True) / cut.relevant


def _judged_share(self: JudgedMetric, batch: RankingBatch, cut: Cut) -> Tensor:
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
    """Return how many items of each row are judged, or ranked if all are, and not relevant, (rows,)."""
    if (refused := batch.relevance.refused) is not None:
        return refused.counts.double()
    if (unjudged := batch.relevance.unjudged) is None:
        return batch.others
    ranked = (batch.ranks(unjudged.entries) < torch.inf).double()
    return batch.others.index_add(0, unjudged.entries.row_of, -unjudged.entries.real(ranked))


def _refused_before(batch: RankingBatch, lists: Lists) -> Tensor:
    """Return how many items before each place are judged and not relevant, (rows, depth) float64."""
    if (refused := batch.relevance.refused) is not None:
        return _before(batch, lists, refused)
    others, unjudged = lists.places - lists.found, batch.relevance.unjudged
    return others if unjudged is None else others - _before(batch, lists, unjudged)


def _before(batch: RankingBatch, lists: Lists, some: SparseRelevance) -> Tensor:
    """Return how many entries of its row come before each place, (rows, depth) float64; 0 behind the last."""
    ranks, places = batch.ranks(some.entries), lists.places.nan_to_num(posinf=0.0)
    step = 1 + torch.cat([places.view(-1), ranks]).nan_to_num(posinf=0.0).amax()
    first = torch.arange(len(places), device=places.device).unsqueeze(1) * step
    ordered = (first[some.entries.row_of, 0] + ranks).sort().values
    return (torch.searchsorted(ordered, first + places) - torch.searchsorted(ordered, first)).double()


def _compatibility(self: JudgedMetric, batch: RankingBatch, cut: Cut) -> Tensor:
    """Count each item from the depth on at which both lists have it."""
    lists, most = cut.lists, cut.best_found.long()
    depth = torch.maximum(batch.listed(cut).long(), most)
    places = torch.arange(1, 1 + max(batch.width, lists.depth), device=most.device, dtype=torch.float64)
    upto = torch.nn.functional.pad((self.p ** (places - 1) / places).cumsum(0), (1, 0))
    both = torch.maximum(lists.places, _ideal_places(lists)).clamp(max=len(upto))  # at depths that count
    missed = upto[both.long() - 1].masked_fill(~lists.hits, torch.inf)
    shared = [(upto[deepest].unsqueeze(1) - missed).clamp(min=0).sum(1) for deepest in depth.unbind(1)]
    terms = (depth if not self.normalize else most).double()
    total = (1 - self.p**terms) / (1 - self.p)  # the sum of the first so many powers of p
    if self.normalize:
        total = total + most * (upto[depth] - upto[most])
    return torch.stack(shared, dim=1) / total


def _ideal_places(lists: Lists) -> Tensor:
    """Return the ranks of items in the ideal list, where equal grades keep their order, (rows, depth)."""
    best, order = lists.grades.sort(dim=1, descending=True, stable=True)
    earlier = order.argsort(1) - torch.searchsorted(-best, -lists.grades)
    return 1 + earlier + torch.searchsorted(-lists.ideal, -lists.grades)


_ROW = "torch.tensor([[0.9, 0.5, 0.1]]), "
_ENTRIES = f"{_ROW}target=[{{0: 0.0, 2: 1.0}}]"
_SHORT = "torch.tensor([[0.9, 0.5, -torch.inf]]), torch.tensor"
_BUCKLEY, _RIJSBERGEN = "Buckley & Voorhees 2004, SIGIR", "van Rijsbergen 1979, Information Retrieval"
_AS_ZERO = 'trec_eval counts users without a relevant item as 0, as `Ranking(empty="neg")`.'
_SETS: dict[str, Any] = {"family": "sets", "draw_batch": staticmethod(draw_shortened)}

JUDGED = (
    list_metric(JudgedMetric, "bpref", "BinaryPreference",
        """Rarity of relevant items that come after one that is judged and not relevant, averaged over users.

A dense target judges every item, but for those of grade `Ranking(unjudged=...)`; of a sparse one only the
entries are judged, those of grade 0 (or up to the relevance threshold) as not relevant. Others do not count.

An item whose score is -inf comes before no other. If it is relevant it is one of the R and adds nothing. If
not, a sparse target that has it as an entry judges it, as in trec_eval; a dense one does not.""",
        "mean over users of 1 / R times the sum over ranked relevant items of 1 - min(judged others before "
        "it, R) / min(judged others, R), where R items are relevant.", f"{_BUCKLEY}.",
        ("0.0", "the judged item 0 comes before", "", _ENTRIES), aliases=["Bpref", "BPref"],
        values_in=_preference,
        deviates="the paper divides by R, even where judged others are fewer; trec_eval does as here."),
    list_metric(JudgedMetric, "infap", "InferredAveragePrecision",
        """Average precision that takes items which were to be judged for relevant as often as judged ones.

The judged items are those of `bpref`. Items of grade `Ranking(unjudged=...)` were to be judged; without any
of them this is `map(norm=n)`, but for a hundred-thousandth of a judgment.""",
        "mean over users of 1 / R times the sum over ranked relevant items of (1 + d * s) / rank, where d "
        "items before it were to be judged, s = (r + e) / (r + n + 2 e) is the share of relevant ones of the "
        "r + n that were, e = 0.00001, and R items are relevant.", "Yilmaz & Aslam 2006, CIKM.",
        ("0.8125", "(1 + (1 + 3 * 1 / 2) / 4) / 2", "", "torch.tensor([[0.9, 0.7, 0.5, 0.1]]), "
         "target=[{0: 1.0, 1: 0.0, 2: -1.0, 3: 1.0}]", "unjudged=-1"),
        deviates=_AS_ZERO, values_in=_inferred_precision,
        aliases=["inferred_ap", "inferred_average_precision", "infAP"]),
    list_metric(JudgedMetric, "judged", "JudgedShare",
        """Share of the items of a list of k that are judged, relevant or not, averaged over users.

It shows how far other values of the same lists can be trusted; it has no direction, as a list of judged items
is not a better one. What is judged is as for `bpref`. Users with no judged item or no list are left out.""",
        "mean over users of judged among the first k / items of the list",
        f"{_BUCKLEY}, on incomplete judgments; ir_measures, `Judged`.",
        ("0.5", "item 0 is judged, item 1 is not", "k=2", _ENTRIES), params={"k": int},
        value="float in [0, 1], no unit, 1 is all; nan when nothing of any user is judged.",
        deviates="to ir_measures an item that was to be judged, of grade -1, is judged.",
        aliases=["judgment_rate", "judged_rate", "Judged"], direction=None, family="relevance",
        every_user=True, void="no judged items for any user who has a list", values_in=_judged_share),
    list_metric(JudgedMetric, "compat", "Compatibility",
        """Rank-biased overlap of a list with the ideal list that is nearest to it, averaged over users.

An ideal list holds the relevant items, those of the highest grade first; of equal grades those come first
that do so in the ranking. Without k, of the whole ranking.""",
        "mean over users of the sum over depths d of p^(d - 1) times the items that the first d of both have "
        "in common / d, divided by the same of two ideal lists, or with `normalize=false` by the sum of "
        "p^(d - 1); d goes on to the end of the longer list, and to k",
        "Clarke, Vtyurina & Smucker 2021, ACM TOIS 39(1); Webber, Moffat & Zobel 2010, ACM TOIS 28(4).",
        ("0.2", "(0 + 0.5 * 1 / 2) / (1 + 0.5 * 1 / 2)", "k=2, p=0.5", f"{_ROW}torch.tensor([[0, 1, 0]])"),
        shape="scores, target (users, items), grades from 0.", raises="p does not lie between 0 and 1.",
        deviates="ir_measures puts relevant items that are not ranked among others as if their score were 0; "
        "here they come behind them. The paper's own script ends at depth 1000.",
        aliases=["Compat", "compatibility"], params={"k": None, "p": 0.95, "normalize": True},
        values_in=_compatibility),
    list_metric(JudgedMetric, "set_precision", "SetPrecision",
        "Share of all items that are ranked for a user that are relevant, averaged over users.",
        "mean over users of relevant and ranked / ranked, with `relative=true` / min(ranked, relevant); 0 "
        "where nothing is ranked", f"{_RIJSBERGEN}; trec_eval, `set_P` and `set_relative_P`.",
        ("0.5", "one of two", "", f"{_SHORT}([[1, 0, 1]])"), params={"relative": False}, deviates=_AS_ZERO,
        aliases={**dict.fromkeys(("SetP", "set_P"), "set_precision"),
                 **dict.fromkeys(("SetRelP", "set_relative_P"), "set_precision(relative=true)")},
        values_in=lambda self, batch, cut: cut.found / (
            torch.minimum(batch.listed(cut), cut.relevant) if self.relative else batch.listed(cut)
        ).clamp(min=1), **_SETS),
    list_metric(JudgedMetric, "set_recall", "SetRecall",
        "Share of a user's relevant items that are ranked at all, averaged over users.",
        "mean over users of relevant and ranked / relevant", f"{_RIJSBERGEN}; trec_eval, `set_recall`.",
        ("0.5", "one of two", "", f"{_SHORT}([[1, 0, 1]])"), deviates=_AS_ZERO, aliases=["SetR"],
        values_in=lambda self, batch, cut: cut.found / cut.relevant, **_SETS),
    list_metric(JudgedMetric, "set_f", "SetF",
        "Weighted harmonic mean of the precision and recall of all that is ranked, averaged over users.",
        "mean over users of (1 + beta^2) found / (ranked + beta^2 relevant), where found are both",
        f"{_RIJSBERGEN}; trec_eval, `set_F`.",
        ("0.6667", "2 * 1 / (2 + 1)", "", f"{_SHORT}([[1, 0, 0]])"), raises="beta is not above 0.",
        deviates="trec_eval and ir_measures square beta first: `SetF(beta=4.0)` is `set_f(beta=2.0)`.",
        params={"beta": 1.0}, aliases=dict.fromkeys(("SetF", "set_F"), "set_f(beta=1.0)"), **_SETS,
        values_in=lambda self, batch, cut: (1 + self.beta**2) * cut.found / (
            batch.listed(cut) + self.beta**2 * cut.relevant)),
    list_metric(JudgedMetric, "set_ap", "SetAveragePrecision",
        "Precision times recall of all that is ranked, averaged over users.",
        "mean over users of found^2 / (ranked relevant), where found are both; 0 where nothing is ranked",
        "trec_eval, `set_map`.", ("0.25", "1 / 2 * 1 / 2", "", f"{_SHORT}([[1, 0, 1]])"),
        deviates=_AS_ZERO, aliases=["SetAP", "set_map"], **_SETS,
        values_in=lambda self, batch, cut: cut.found**2 / (batch.listed(cut).clamp(min=1) * cut.relevant)),
    list_metric(JudgedMetric, "num_hits", "NumHits",
        "Number of relevant items among the first k, mean over users; without k, among all that is ranked.",
        "mean over users of hits@k", "trec_eval, `num_rel_ret`; ranx, `hits`.",
        ("2.0", "two", "k=3", f"{_ROW}torch.tensor([[1, 0, 1]])"), params={"k": None},
        value="float from 0, items, more is better; nan when no user has a relevant item.",
        deviates="ir_measures (`NumRelRet`) and trec_eval add users up; `hits` is the share of users with a "
        "hit.", values_in=lambda self, batch, cut: cut.found, **_SETS),
    list_metric(JudgedMetric, "num_relevant", "NumRelevant",
        "Number of items that are relevant to a user, averaged over users who have any.\n\n"
        "It is the same whatever the lists, and has no direction; it shows what can be found.",
        "mean over users of relevant items", "trec_eval, `num_rel`.",
        ("1.5", "one and two", "", "torch.tensor([[0.9, 0.5], [0.9, 0.5]]), torch.tensor([[1, 0], [1, 1]])"),
        shape="target (users, items).", value="float from 1, items; nan when no user has a relevant item.",
        deviates="ir_measures (`NumRel`) and trec_eval (`num_rel`) add users up.",
        direction=None, family="sets", values_in=lambda self, batch, cut: cut.relevant),
)  # fmt: skip
globals().update({cls.__name__: cls for cls in JUDGED})  # each class is an attribute of this module
