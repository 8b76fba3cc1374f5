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
from ...retrieval.lists import Cut
from ...retrieval.ranking_batch import RankingBatch
from .._data import shortened


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
