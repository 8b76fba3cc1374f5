"""Sets: all that is ranked for a user, of which the order does not matter, and how much of it is relevant."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ....exceptions import MetricInputError
from ...features import RANKING
from ...registry.register import register_metric
from ...retrieval.base import ListMetric, WholeMetric
from ...retrieval.lists import Cut, Lists
from ...retrieval.ranking_batch import RankingBatch
from ...retrieval.relevance import SparseRelevance
from .._data import shortened

_EPSILON = 1e-5  # of a judgment, which keeps a share of no judgments from being 0 / 0; trec_eval's


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
    of them this is `map(norm=n)`, but for a hundred-thousandth of a judgment.

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
    Source: Buckley & Voorhees 2004, SIGIR, on incomplete judgments; ir_measures, `Judged`.

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


@register_metric("compat", [RANKING], aliases=["Compat", "compatibility"])
class Compatibility(ListMetric):
    """Rank-biased overlap of a list with the ideal list that is nearest to it, averaged over users.

    An ideal list holds the relevant items, those of the highest grade first; of equal grades those come first
    that do so in the ranking. Without k, of the whole ranking.

    Shape: scores, target (users, items), grades from 0.
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.

    Raises:
        MetricInputError: p does not lie between 0 and 1.
    Formula: mean over users of the sum over depths d of p^(d - 1) times the items that the first d of both
        have in common / d, divided by the same of two ideal lists, or with `normalize=false` by the sum of
        p^(d - 1); d goes on to the end of the longer list, and to k
    Deviates: ir_measures puts relevant items that are not ranked among the others as if their score were 0;
        here they come behind them. The paper's own script ends at depth 1000.
    Source: Clarke, Vtyurina & Smucker 2021, ACM TOIS 39(1); overlap: Webber, Moffat & Zobel 2010, ACM TOIS
        28(4).

    >>> import torch
    >>> metric = Compatibility(k=2, p=0.5)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1, 0]]))
    >>> metric.compute().item()  # (0 + 0.5 * 1 / 2) / (1 + 0.5 * 1 / 2)
    0.2
    """

    objective = MAXIMIZE
    family = "order"

    def __init__(self, k: int | None = None, p: float = 0.95, normalize: bool = True, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)
        if not 0 < p < 1:
            raise MetricInputError(f"compat: p is a probability between 0 and 1, both excluded, got {p!r}")
        self.p, self.normalize = p, normalize

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Count each item from the depth on at which both lists have it."""
        lists, most = cut.lists, cut.best_found.long()
        depth = torch.maximum(batch.listed(cut).long(), most)
        places = torch.arange(1, 1 + max(batch.width, lists.depth), device=most.device, dtype=torch.float64)
        upto = torch.nn.functional.pad((self.p ** (places - 1) / places).cumsum(0), (1, 0))
        both = torch.maximum(lists.places, _ideal_places(lists)).clamp(max=len(upto))  # at depths that count
        met = upto[both.long() - 1].masked_fill(~lists.hits, torch.inf)
        columns = [(upto[deepest].unsqueeze(1) - met).clamp(min=0).sum(1) for deepest in depth.unbind(1)]
        if not self.normalize:
            return torch.stack(columns, dim=1) / self._series(depth)
        return torch.stack(columns, dim=1) / (self._series(most) + most * (upto[depth] - upto[most]))

    def _series(self, terms: Tensor) -> Tensor:
        """The sum of the first so many powers of p."""
        return (1 - self.p ** terms.double()) / (1 - self.p)


def _ideal_places(lists: Lists) -> Tensor:
    """The ranks of items in the ideal list, where equal grades keep their order, (rows, depth) int64."""
    best, order = lists.grades.sort(dim=1, descending=True, stable=True)
    falling = -lists.grades
    earlier = order.argsort(1) - torch.searchsorted(-best, falling)
    return 1 + earlier + torch.searchsorted(-lists.ideal, falling)


class SetMetric(WholeMetric):
    """A metric of how many items are ranked for a user, how many are relevant, and how many are both.

    What is not ranked has no score: -inf, hidden, or no candidate.
    """

    objective = MAXIMIZE
    family = "sets"
    draw_batch = staticmethod(shortened)

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Measure what is found of the relevant among what is ranked."""
        return self.of_counts(cut.found, batch.listed(cut), cut.relevant)

    def of_counts(self, found: Tensor, ranked: Tensor, relevant: Tensor) -> Tensor:
        """Measure counts of users, (users, 1) float64."""
        raise NotImplementedError(f"{type(self).__name__} needs of_counts(found, ranked, relevant)")


@register_metric(
    "set_precision",
    [RANKING],
    aliases={
        "SetP": "set_precision",
        "set_P": "set_precision",
        "SetRelP": "set_precision(relative=true)",
        "set_relative_P": "set_precision(relative=true)",
    },
)
class SetPrecision(SetMetric):
    """Share of all items that are ranked for a user that are relevant, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of relevant and ranked / ranked, with `relative=true` / min(ranked, relevant); 0
        where nothing is ranked
    Deviates: trec_eval counts users without a relevant item as 0, as `Ranking(empty="neg")`.
    Source: van Rijsbergen 1979, Information Retrieval; trec_eval, `set_P` and `set_relative_P`.

    >>> import torch
    >>> metric = SetPrecision()
    >>> metric.update(torch.tensor([[0.9, 0.5, -torch.inf]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # one of two
    0.5
    """

    def __init__(self, relative: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.relative = relative

    def of_counts(self, found: Tensor, ranked: Tensor, relevant: Tensor) -> Tensor:
        """Divide by what is ranked, or by what could be found among so many."""
        return found / (torch.minimum(ranked, relevant) if self.relative else ranked).clamp(min=1)


@register_metric("set_recall", [RANKING], aliases=["SetR"])
class SetRecall(SetMetric):
    """Share of a user's relevant items that are ranked at all, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of relevant and ranked / relevant
    Deviates: trec_eval counts users without a relevant item as 0, as `Ranking(empty="neg")`.
    Source: van Rijsbergen 1979, Information Retrieval; trec_eval, `set_recall`.

    >>> import torch
    >>> metric = SetRecall()
    >>> metric.update(torch.tensor([[0.9, 0.5, -torch.inf]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # one of two
    0.5
    """

    def of_counts(self, found: Tensor, ranked: Tensor, relevant: Tensor) -> Tensor:
        """Divide by what is relevant."""
        return found / relevant


@register_metric("set_f", [RANKING], aliases={"SetF": "set_f(beta=1.0)", "set_F": "set_f(beta=1.0)"})
class SetF(SetMetric):
    """Weighted harmonic mean of the precision and recall of all that is ranked, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.

    Raises:
        MetricInputError: beta is not above 0.
    Formula: mean over users of (1 + beta^2) found / (ranked + beta^2 relevant), where found are both
    Deviates: in trec_eval and ir_measures beta is the square of beta here: `SetF(beta=4.0)` is
        `set_f(beta=2.0)`.
    Source: van Rijsbergen 1979, Information Retrieval; trec_eval, `set_F`.

    >>> import torch
    >>> metric = SetF()
    >>> metric.update(torch.tensor([[0.9, 0.5, -torch.inf]]), torch.tensor([[1, 0, 0]]))
    >>> round(metric.compute().item(), 4)  # 2 * 1 / (2 + 1)
    0.6667
    """

    def __init__(self, beta: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 < beta < float("inf"):
            raise MetricInputError(f"set_f: beta is a number above 0, got {beta!r}")
        self.beta = beta

    def of_counts(self, found: Tensor, ranked: Tensor, relevant: Tensor) -> Tensor:
        """Divide what is found, written without the two shares, so that nothing found is 0."""
        weight = self.beta**2
        return (1 + weight) * found / (ranked + weight * relevant)


@register_metric("set_ap", [RANKING], aliases=["SetAP", "set_map"])
class SetAveragePrecision(SetMetric):
    """Precision times recall of all that is ranked, averaged over users.

    Shape: scores, target (users, items).
    Value: float in [0, 1], no unit, 1 is best; nan when no user has a relevant item.
    Formula: mean over users of found^2 / (ranked relevant), where found are both; 0 where nothing is ranked
    Deviates: trec_eval counts users without a relevant item as 0, as `Ranking(empty="neg")`.
    Source: trec_eval, `set_map`.

    >>> import torch
    >>> metric = SetAveragePrecision()
    >>> metric.update(torch.tensor([[0.9, 0.5, -torch.inf]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # 1 / 2 * 1 / 2
    0.25
    """

    def of_counts(self, found: Tensor, ranked: Tensor, relevant: Tensor) -> Tensor:
        """Multiply both shares."""
        return found.square() / (ranked.clamp(min=1) * relevant)


@register_metric("num_hits", [RANKING])
class NumHits(ListMetric):
    """Number of relevant items among the first k, averaged over users; without k, among all that is ranked.

    Shape: scores, target (users, items).
    Value: float from 0, items, more is better; nan when no user has a relevant item.
    Formula: mean over users of hits@k
    Deviates: ir_measures (`NumRelRet`) and trec_eval add users up; `hits` is the share of users with a hit.
    Source: trec_eval, `num_rel_ret`; ranx, `hits`.

    >>> import torch
    >>> metric = NumHits(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute().item()  # two
    2.0
    """

    objective = MAXIMIZE
    family = "sets"
    draw_batch = staticmethod(shortened)

    def __init__(self, k: int | None = None, **kwargs: Any) -> None:
        super().__init__(k, **kwargs)

    def values(self, cut: Cut) -> Tensor:
        """Count the hits."""
        return cut.found


@register_metric("num_relevant", [RANKING])
class NumRelevant(WholeMetric):
    """Number of items that are relevant to a user, averaged over users who have any.

    It is the same whatever the lists, and has no direction; it says what can be found.

    Shape: target (users, items).
    Value: float from 1, items; nan when no user has a relevant item.
    Formula: mean over users of relevant items
    Deviates: ir_measures (`NumRel`) and trec_eval (`num_rel`) add users up.
    Source: trec_eval, `num_rel`.

    >>> import torch
    >>> metric = NumRelevant()
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.9, 0.5]]), torch.tensor([[1, 0], [1, 1]]))
    >>> metric.compute().item()  # one and two
    1.5
    """

    objective = None
    family = "sets"

    def values(self, cut: Cut) -> Tensor:
        """Count what is relevant."""
        return cut.relevant
