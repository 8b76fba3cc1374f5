"""Base classes for statistics of ranked lists, shared by metrics that differ only in their cut-off."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Generic, Self, TypeVar

from ...exceptions import MetricInputError
from ..batch import Outputs
from ..retrieval.ranking_batch import RankingBatch
from .statistic import Reduction, Statistic

Measure = TypeVar("Measure", bound=Callable[..., Any])


class AtCutoffs(Statistic):
    """Base class of statistics of lists of several lengths.

    Two of the same class and parameters join: the remaining one measures at the cut-offs of both.

    Args:
        cutoffs: the lengths of lists, ascending; 0 is the whole ranking, an empty tuple reads no lists.
        params: the parameters that distinguish it from others of its class.
    """

    def __init__(self, cutoffs: tuple[int, ...] = (), **params: Any) -> None:
        super().__init__(**params)
        self.cutoffs = cutoffs

    @property
    def label(self) -> str:
        """The label with the cut-offs, whose order is their order in the state."""
        return f"{super().label} at {', '.join(map(str, self.cutoffs)) or 'no cut-off'}"

    def fresh(self) -> Self:
        """Return an empty statistic with the same parameters and cut-offs."""
        return type(self)(cutoffs=self.cutoffs, **self.params)

    def join(self, other: Self) -> None:
        """Add the cut-offs of another statistic."""
        self.cutoffs = tuple(sorted({*self.cutoffs, *other.cutoffs}))

    def prepare(self, batch: Outputs) -> None:
        """Request lists of the largest cut-off."""
        rankings_in(batch).reach(max(self.cutoffs, default=0))

    def place(self, cutoff: int | None) -> int:
        """Return the index of a cut-off in the state; 0 where there are no lists."""
        return 0 if cutoff is None else self.cutoffs.index(cutoff)


class FormulaMeans(AtCutoffs, Generic[Measure]):
    """Base class of the sum and weight of the values of one formula at several cut-offs.

    Args:
        owner: the name of the formula; the same owner means the same formula.
        measure: returns its values.
        cutoffs: the lengths of lists.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"total": "sum", "weight": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, owner: str, measure: Measure, cutoffs: tuple[int, ...] = ()) -> None:
        super().__init__(cutoffs, owner=owner)
        self._measure = measure

    def fresh(self) -> Self:
        """Return an empty statistic of the same formula and cut-offs."""
        return type(self)(self.params["owner"], self._measure, self.cutoffs)


def rankings_in(batch: Outputs) -> RankingBatch:
    """Return the batch if it is a batch of rankings.

    Raises:
        MetricInputError: it is not.
    """
    if not isinstance(batch, RankingBatch):
        raise MetricInputError(f"ranked lists need a ranking output, got {batch.feature}")
    return batch
