"""Find the worst and the best examples among the rows of an epoch."""

from __future__ import annotations

import heapq
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from ..exceptions import RunError
from ..metrics._device import on_host
from ..metrics._validation import batch_of, counting_rows
from ..metrics.batch import Outputs
from ..metrics.collection import MetricCollection
from ..metrics.metric import Metric
from ..metrics.row_values.by_row import has_row_values, is_mean_of_rows, measure_rows
from ..records._json import finite
from .example_selection import ExamplePlan, Line, entries_of, host, lines_of

RANKS = ("worst", "best", "undefined")


class Place(NamedTuple):
    """Where examples come from: their split, and their task and output feature where there are several."""

    split: str
    task: str | None = None
    feature: str | None = None


class ExampleBatch(NamedTuple):
    """A batch, and the user's entry for each of its rows; None if there are none."""

    batch: Outputs
    entries: Sequence[Any] | None


@dataclass(slots=True)
class Example:
    """One row: its ranking value, its running number, its row in the batch at hand, and then its line."""

    value: float
    index: int
    row: int
    line: Line | None = None


@dataclass
class Extremes:
    """The worst and best examples of one place so far; of equal values the earliest.

    A value that is not finite is neither good nor bad: the first examples with one are `undefined`.
    """

    rows: int = 0
    worst: list[Example] = field(default_factory=list)
    best: list[Example] = field(default_factory=list)
    undefined: list[Example] = field(default_factory=list)

    def take(self, plan: ExamplePlan, examples: Iterable[Example]) -> list[Example]:
        """Keep those that belong to the ends; return the new ones among them, which have no line yet."""
        finite: list[Example] = []
        odd: list[Example] = []
        for example in examples:
            (finite if math.isfinite(example.value) else odd).append(example)
        self._keep(plan, finite, finite, odd)
        selected = {id(e): e for rank in RANKS for e in getattr(self, rank) if e.line is None}
        return sorted(selected.values(), key=lambda example: example.row)

    def join(self, plan: ExamplePlan, other: Extremes) -> None:
        """Add the examples of another process, as later ones."""
        self._keep(plan, other.worst, other.best, other.undefined)

    def lines(self, place: Place) -> Iterator[Line]:
        """Yield each example with its rank: the worst from the worst on, then the best from the best on."""
        where = {name: value for name, value in place._asdict().items() if value is not None}
        for rank in RANKS:
            for number, example in enumerate(getattr(self, rank), 1):
                yield {**where, "rank": rank, "place": number, "index": example.index, **(example.line or {})}

    def _keep(
        self, plan: ExamplePlan, worst: list[Example], best: list[Example], undefined: list[Example]
    ) -> None:
        def key(example: Example) -> float:
            return plan.direction.sort_key(example.value)

        self.worst = heapq.nlargest(plan.worst, [*self.worst, *worst], key=key)  # stable, as is nsmallest
        self.best = heapq.nsmallest(plan.best, [*self.best, *best], key=key)
        self.undefined = [*self.undefined, *undefined][: max(plan.worst, plan.best)]


@dataclass(frozen=True)
class RankExamples:
    """The examples that one process found in an epoch, by place, and the splits whose values do not count."""

    places: Mapping[Place, Extremes]
    void: frozenset[str]


class Examples:
    """Finds the worst and the best examples of an epoch.

    The ranking metric measures each batch a second time here, row by row; the others measure only the few
    rows that enter the record. Of a batch on a device the values are read once, and then only such rows. If
    the ranking metric has to be measured on one row after the other (see `measured_rows`), which takes long,
    the batch is copied to the host before.

    An example whose value is not finite is neither best nor worst: it is listed as `undefined`, with the
    reason. One that the ranking metric leaves out (`ignore_index`, a weight of 0, a user without a relevant
    item) is not an example.

    Args:
        plan: how many, by which metric.
    """

    def __init__(self, plan: ExamplePlan) -> None:
        self._plan = plan
        self._meters: dict[str | None, list[Metric]] = {}
        self._places: dict[Place, Extremes] = {}

    def read(
        self, collection: MetricCollection, tensors: Mapping[str, Any], entries: Any = None
    ) -> ExampleBatch | None:
        """Read a batch that is not measured yet; None on a split without the ranking metric.

        Args:
            collection: measures it.
            tensors: the arguments of its update.
            entries: the user's entry for each row, anything that strict JSON holds.

        Raises:
            MetricInputError: `entries` are not one per row, or strict JSON cannot hold one.
        """
        if self._plan.metric not in collection.names:
            return None
        batch = batch_of(collection.output, **tensors)
        if not on_host(batch.target) and not has_row_values(collection[self._plan.metric]):
            batch = batch_of(collection.output, **host(tensors))
        return ExampleBatch(batch, None if entries is None else entries_of(entries, len(batch)))

    def add(self, place: Place, live: MetricCollection, read: ExampleBatch) -> None:
        """Rank the rows of a batch that the collection has measured.

        Raises:
            RunError: the first batch shows that the ranking metric has no value per example.
        """
        batch, entries = read
        extremes = self._places.setdefault(place, Extremes())
        first, extremes.rows = extremes.rows, extremes.rows + len(batch)
        eligible, rows = _eligible_rows(batch)
        if rows:
            meters = self._meters_of(place.feature, live, eligible)
            candidates = self._rank_rows(meters, eligible, [first + row for row in rows])
            new = extremes.take(self._plan, candidates)
            self._add_lines(new, eligible, meters)
            if entries is not None:
                for example in new:
                    example.line = {**(example.line or {}), "example": entries[rows[example.row]]}

    def take(self, void: Collection[str] = ()) -> RankExamples:
        """Return what was found in the epoch, and begin the next.

        Args:
            void: splits whose values do not count in this epoch; one that is void on a rank is void on all.
        """
        places, self._places = self._places, {}
        return RankExamples(places, frozenset(void))

    def close(self, states: Sequence[RankExamples]) -> tuple[Line, ...]:
        """Return the lines of an epoch: of what each rank found, in the order of ranks."""
        void = frozenset[str]().union(*(each.void for each in states))
        places = states[0].places if len(states) == 1 else self._join(states)
        valid = [(place, extremes) for place, extremes in places.items() if place.split not in void]
        return tuple(line for place, extremes in valid for line in extremes.lines(place))

    def _meters_of(self, feature: str | None, live: MetricCollection, batch: Outputs) -> list[Metric]:
        """Return the metrics that have values per row; those that could not be tried before are tried now."""
        if feature not in self._meters:
            plan = self._plan
            meters = [live[name].alone() for name in plan.names if name in live.names]
            ranking = [m for m in meters if m.name not in plan.untried or is_mean_of_rows(m, batch)]
            if plan.metric not in [meter.name for meter in ranking]:
                raise RunError(
                    f"track_examples ranks examples by {plan.metric}, which has no value per example: the "
                    "value of the first batch is not the mean over its rows; name another metric"
                )
            self._meters[feature] = ranking
        return self._meters[feature]

    def _rank_rows(self, meters: list[Metric], batch: Outputs, numbers: list[int]) -> Iterator[Example]:
        """Rank every row that the ranking metric does not leave out."""
        name = self._plan.metric
        columns = measure_rows([meter for meter in meters if meter.name == name], batch)
        if name not in columns:
            raise RunError(
                f"track_examples ranks examples by {name}, which got one value for a whole batch; pass one "
                "value per row, or name another metric"
            )
        values, weights = torch.stack([column.double() for column in columns[name]]).tolist()
        for row, (value, weight, number) in enumerate(zip(values, weights, numbers, strict=True)):
            if weight > 0:
                yield Example(value, number, row)

    def _add_lines(self, new: list[Example], batch: Outputs, meters: list[Metric]) -> None:
        """Make the lines of examples that enter the record: only their rows are read."""
        if not new:
            return
        chosen = torch.zeros(len(batch), dtype=torch.bool)
        chosen[[example.row for example in new]] = True
        part = batch.rows(chosen.to(batch.target.device))
        columns = {name: rows.values.tolist() for name, rows in measure_rows(meters, part).items()}
        for row, (example, line) in enumerate(zip(new, lines_of(part), strict=True)):
            values = {name: finite(column[row]) for name, column in columns.items()}
            odd = finite(example.value) is None
            why = {"reason": f"{self._plan.metric} is {example.value}"} if odd else {}
            example.line = {"values": values, **why, **line}

    def _join(self, states: Sequence[RankExamples]) -> dict[Place, Extremes]:
        """Combine what all processes have found, each example with the number of its process."""
        joined: dict[Place, Extremes] = {}
        for process, each in enumerate(states):
            for place, extremes in each.places.items():
                for example in (*extremes.worst, *extremes.best, *extremes.undefined):
                    example.line = {"process": process, **(example.line or {})}
                joined.setdefault(place, Extremes()).join(self._plan, extremes)
        return joined


def _eligible_rows(batch: Outputs) -> tuple[Outputs, list[int]]:
    """Return the rows of a batch that count, and their indices."""
    masks = [mask for mask in (counting_rows(batch),) if mask is not None]
    if batch.weight is not None:
        masks.append(batch.weight > 0)
    if not masks:
        return batch, list(range(len(batch)))
    eligible = torch.stack(masks).all(0)
    return batch.rows(eligible), eligible.nonzero().squeeze(1).tolist()
