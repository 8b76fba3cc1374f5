"""Cut-offs: statistics of ranked lists, which metrics that differ in their k alone share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

from ...exceptions import MetricInputError
from ..batch import Outputs
from ..retrieval.ranking_batch import RankingBatch
from .statistic import Reduction, Statistic

Measure = TypeVar("Measure", bound=Callable[..., Any])


class AtCutoffs(Statistic):
    """Base class of what is kept of lists of several lengths.

    Two of the same class and parameters join: the one that is kept measures at the cut-offs of both.

    Args:
        cutoffs: the lengths of lists, rising; 0 is the whole ranking, none what reads no lists.
        params: what tells it from others of its class.
    """

    def __init__(self, cutoffs: tuple[int, ...] = (), **params: Any) -> None:
        super().__init__(**params)
        self.cutoffs = cutoffs

    @property
    def label(self) -> str:
        """With its cut-offs, whose places in the state are by their order."""
        return f"{super().label} at {', '.join(map(str, self.cutoffs)) or 'no cut-off'}"

    def fresh(self) -> Self:
        """Return an empty one with the same parameters and cut-offs."""
        return type(self)(cutoffs=self.cutoffs, **self.params)

    def join(self, other: Self) -> None:
        """Measure at the cut-offs of another one as well."""
        self.cutoffs = tuple(sorted({*self.cutoffs, *other.cutoffs}))

    def prepare(self, batch: Outputs) -> None:
        """Ask for lists of the largest cut-off."""
        rankings_in(batch).reach(max(self.cutoffs, default=0))

    def place(self, cutoff: int | None) -> int:
        """Where the state holds what belongs to a cut-off; the first place where there are no lists."""
        return 0 if cutoff is None else self.cutoffs.index(cutoff)


class FormulaMeans(AtCutoffs, Generic[Measure]):
    """Base class of sum and weight of the values of one formula at several cut-offs.

    Args:
        owner: the name of the formula; the same owner means the same formula.
        measure: gives its values.
        cutoffs: the lengths of lists.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"total": "sum", "weight": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, owner: str, measure: Measure, cutoffs: tuple[int, ...] = ()) -> None:
        super().__init__(cutoffs, owner=owner)
        self._measure = measure

    def fresh(self) -> Self:
        """Return an empty one of the same formula and cut-offs."""
        return type(self)(self.params["owner"], self._measure, self.cutoffs)


def rankings_in(batch: Outputs) -> RankingBatch:
    """Return the batch if it is one of rankings.

    Raises:
        MetricInputError: it is not.
    """
    if not isinstance(batch, RankingBatch):
        raise MetricInputError(f"lists are ranked of a ranking output, not of {batch.feature}")
    return batch
