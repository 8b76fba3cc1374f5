"""TupleMetric: a score from tuples of query, predicted and actual result, pooled over folds."""

from __future__ import annotations

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

from ..direction import Objective
from ..exceptions import ObjectiveError
from .score import Number, Score, as_number

Tuples = Sequence[tuple[Any, Any, Any]]
Folds = Sequence[tuple[Any, Tuples]]
"""Per fold its evaluation info and its tuples of query, predicted and actual result."""


class TupleMetric(ABC):
    """Base class of all metrics of tuples.

    A subclass states its `objective`: MAXIMIZE, MINIMIZE, or None of one that is never optimised. There is
    no default. What it measures is one of these:

    - a number per tuple, `calculate`: see `AverageMetric` and its kin;
    - anything that can be reduced, `map`, `reduce`, `finish`: see `MapReduceMetric`;
    - a metric of the registry, by name: see `registered`.

    It keeps nothing between two calls. Its identity is its class with its parameters: the arguments of
    `__init__`, kept as attributes of the same name, as a dataclass keeps them.

    Attributes:
        title: what the header begins with in the place of the class name.
    """

    objective: Objective | str | None
    title: str = ""
    reader: Any = None
    """What measures it in one pass with all that have an equal one; None: it measures itself."""

    @property
    def header(self) -> str:
        """What it is called where scores are printed, parameters included; may be set by a subclass."""
        told = ", ".join(f"{name}={value!r}" for name, value in self.parameters.items())
        name = self.title or type(self).__name__
        return f"{name} ({told})" if told else name

    @property
    def parameters(self) -> dict[str, Any]:
        """The arguments of `__init__` that it keeps under the same name."""
        if type(self).__init__ is object.__init__:
            return {}
        names = inspect.signature(type(self)).parameters
        return {name: getattr(self, name) for name in names if hasattr(self, name)}

    @abstractmethod
    def gather(self, tuples: Tuples) -> Any:
        """What is kept of one fold."""

    @abstractmethod
    def conclude(self, kept: Sequence[Any]) -> Score:
        """The score of what was kept of one fold or of several."""

    def measure(self, folds: Folds) -> Score:
        """Measure all folds as one, and each by itself; every tuple is read once."""
        kept = [self.gather(tuples) for _, tuples in folds]
        alone = [self.conclude([fold]) for fold in kept]
        pooled = alone[0] if len(alone) == 1 else self.conclude(kept)
        return pooled.with_folds(alone)

    def score(self, folds: Folds) -> Number:
        """The value pooled over all folds, never a mean of the folds' values; nan where it is undefined."""
        return self.measure(folds).value

    def fold_scores(self, folds: Folds) -> tuple[Number, ...]:
        """The value of each fold."""
        return self.measure(folds).fold_values

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TupleMetric):
            return NotImplemented
        return type(other) is type(self) and other.parameters == self.parameters

    def __hash__(self) -> int:
        return hash((type(self), self.header))

    def __repr__(self) -> str:
        return f"<{self.header}>"


class MapReduceMetric(TupleMetric):
    """A metric of three functions, for what is no sum of numbers.

    How far apart the best and the worst prediction are:

    >>> class Spread(MapReduceMetric):
    ...     objective = "minimize"
    ...     def map(self, query, predicted, actual):
    ...         return predicted - actual, predicted - actual
    ...     def reduce(self, a, b):
    ...         return min(a[0], b[0]), max(a[1], b[1])
    ...     def finish(self, total):
    ...         return total[1] - total[0]
    >>> Spread().score([("fold 0", [("q", 3, 1), ("q", 4, 5)]), ("fold 1", [("q", 9, 2)])])  # -1 to 7
    8
    """

    @abstractmethod
    def map(self, query: Any, predicted: Any, actual: Any) -> Any:
        """What one tuple contributes; None is a don't-care."""

    @abstractmethod
    def reduce(self, a: Any, b: Any) -> Any:
        """Two contributions as one; those of a fold in their order, then those of the folds in theirs."""

    @abstractmethod
    def finish(self, total: Any) -> Any:
        """The number that the whole comes to; never asked of nothing."""

    def gather(self, tuples: Tuples) -> Any:
        """The contributions of one fold as one; None if there is none."""
        return self._reduced(self.map(*row) for row in tuples)

    def conclude(self, kept: Sequence[Any]) -> Score:
        """Finish what the folds come to; nan if no tuple counted."""
        total = self._reduced(kept)
        if total is None:
            return Score.undefined("no tuple counted")
        return Score.of(as_number(self.finish(total), lambda: f"{self.header}: finish"))

    def _reduced(self, contributions: Iterable[Any]) -> Any:
        counted = (one for one in contributions if one is not None)
        first = next(counted, None)
        return first if first is None else functools.reduce(self.reduce, counted, first)


def objective_of(metric: TupleMetric) -> Objective | None:
    """Give the direction that a metric states.

    Raises:
        ObjectiveError: it states none, or one that is no direction.
    """
    try:
        stated = metric.objective
    except AttributeError:
        raise ObjectiveError(
            f"{metric.header} does not say which way is better; write objective = MAXIMIZE or "
            f"objective = MINIMIZE in class {type(metric).__name__}, or objective = None if it is never "
            "optimised"
        ) from None
    return None if stated is None else Objective.parse(stated)
