"""Which of several models is better by a metric: differences with intervals, p-values and verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from .._formatting import aligned, format_p, html_lines, listed, number
from ..direction import ARROWS, Direction
from ..exceptions import ConfigError
from ..metrics.p_values import benjamini_hochberg, holm
from .intervals import Interval
from .two_way import POWER, TwoWay

Correction = Literal["holm", "bh", "raw"]
CORRECTIONS: tuple[Correction, ...] = ("holm", "bh", "raw")

_CORRECTED = {
    "holm": "corrected by Holm",
    "bh": "corrected by Benjamini and Hochberg",
    "raw": "not corrected",
}


class Verdict(StrEnum):
    """Which of two models is better."""

    A_BETTER = "a is better"
    B_BETTER = "b is better"
    EQUIVALENT = "equivalent"
    NOT_TOLD_APART = "not told apart"


@dataclass(frozen=True)
class PairDifference:
    """The difference of two models.

    Args:
        a, b: their labels.
        interval: the value of a minus that of b, with its interval.
        p_value: two-sided, that the true difference is 0; corrected if there are several comparisons.
        raw_p_value: the same without a correction.
        test: the name of the test.
        verdict: which is better.
        detectable: the least true difference that 80 of 100 such comparisons would find; None where nothing
            varies from row to row, or fewer than 10 rows of 0 and 1 differ.
        alone: how many rows have a value of 1 in a alone, and in b alone, of metrics of 0 and 1.
        paired: whether both have the same rows.
    """

    a: str
    b: str
    interval: Interval
    p_value: float
    raw_p_value: float
    test: str
    verdict: Verdict
    detectable: float | None
    alone: tuple[int, int] | None = None
    paired: bool = True
    _parts: TwoWay = field(kw_only=True, repr=False)
    _rows_per_column: float = field(kw_only=True, repr=False)
    _level: float = field(kw_only=True, repr=False)

    def rows_wanted(self, gap: float) -> int | None:
        """Return how many rows detect a true difference; None if no number would, or it is not known.

        Raises:
            ConfigError: the difference is not above 0.
        """
        if not 0 < gap < math.inf:
            raise ConfigError(f"rows_wanted needs a difference above 0, got {gap!r}")
        columns = None if self.detectable is None else self._parts.rows_to_detect(gap, self._level)
        rows = math.nan if columns is None else self._rows_per_column * columns
        return math.ceil(rows) if math.isfinite(rows) else None


@dataclass(frozen=True)
class ModelComparison:
    """Models compared by one metric.

    Of two models, `difference`, `p_value`, `verdict`, `detectable` and `rows_wanted` are those of the one
    pair; of more, `pairs` has them.

    Args:
        metric: its name.
        direction: its direction.
        values: the value of each model with its interval, by label.
        pairs: the compared pairs.
        level: the level of tests and intervals.
        equivalence: differences up to it do not count.
        rows: how many rows were measured.
        seeds: how many trainings each model has.
        clusters: how many clusters the rows are in, if they are.
        correction: how p-values of several pairs are corrected.
        notes: what the reader must know, a line each.
        folds: how many folds of one data set have a value each, if those are compared.
    """

    metric: str
    direction: Direction
    values: Mapping[str, Interval]
    pairs: tuple[PairDifference, ...]
    level: float = 0.05
    equivalence: float = 0.0
    rows: int = 0
    seeds: int = 1
    clusters: int | None = None
    correction: Correction = "holm"
    notes: tuple[str, ...] = ()
    folds: int | None = None

    @property
    def pair(self) -> PairDifference:
        """The one pair of two models.

        Raises:
            ConfigError: there are more than two models.
        """
        if len(self.pairs) != 1:
            raise ConfigError(f"{len(self.values)} models have {len(self.pairs)} differences: read `pairs`")
        return self.pairs[0]

    @property
    def difference(self) -> Interval:
        """The value of a minus that of b, with its interval."""
        return self.pair.interval

    @property
    def p_value(self) -> float:
        """Two-sided, that the true difference is 0."""
        return self.pair.p_value

    @property
    def verdict(self) -> Verdict:
        """Which of the two is better."""
        return self.pair.verdict

    @property
    def detectable(self) -> float | None:
        """The least true difference that 80 of 100 such comparisons would find; None if it is not known."""
        return self.pair.detectable

    def rows_wanted(self, gap: float) -> int | None:
        """Return how many rows detect a true difference of so much; None if no number would."""
        return self.pair.rows_wanted(gap)

    @property
    def worse(self) -> bool:
        """Whether the first model is worse than another by more than the equivalence, at the level."""
        first = next(iter(self.values))
        return any(
            pair.p_value < self.level and self._at_best(pair) < -self.equivalence
            for pair in self.pairs
            if pair.a == first
        )

    def _at_best(self, pair: PairDifference) -> float:
        """Return by how much a may be better than b, at the better end of the interval."""
        ends = (pair.interval.low, pair.interval.high)
        return max(self.direction.sign * end for end in ends)

    def together(self) -> tuple[tuple[str, ...], ...]:
        """Return the groups of models that are not told apart, the best first, if all pairs were compared."""
        apart = {
            frozenset((pair.a, pair.b))
            for pair in self.pairs
            if pair.verdict in (Verdict.A_BETTER, Verdict.B_BETTER)
        }
        best_first = sorted(self.values, key=lambda label: self.direction.sort_key(self.values[label].value))
        groups = [tuple(best_first)]
        for pair in apart:
            parts = [part for group in groups for part in _split(group, pair)]
            groups = [part for part in dict.fromkeys(parts) if not any(set(part) < set(one) for one in parts)]
        return tuple(sorted(groups, key=lambda group: [best_first.index(label) for label in group]))

    def lines(self) -> list[str]:
        """Return the comparison in words, a line each."""
        return [*(self._of_two() if len(self.values) == 2 else self._of_many()), *self.notes]

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return html_lines(str(self))

    def to_json(self) -> dict[str, Any]:
        """Write it as plain JSON."""
        facts = ("a", "b", "p_value", "raw_p_value", "test", "detectable", "alone", "paired")
        pairs = [
            {
                **{name: getattr(pair, name) for name in facts},
                "verdict": pair.verdict.value,
                "difference": asdict(pair.interval),
            }
            for pair in self.pairs
        ]
        settings = ("metric", "level", "equivalence", "rows", "seeds", "clusters", "folds", "correction")
        return {
            **{name: getattr(self, name) for name in settings},
            "direction": self.direction.value,
            "values": {label: asdict(interval) for label, interval in self.values.items()},
            "pairs": pairs,
            "notes": list(self.notes),
        }

    @property
    def _title(self) -> str:
        return f"{self.metric}{ARROWS[self.direction]}"

    @property
    def _basis(self) -> str:
        seeds = f", {self.seeds} trainings each" if self.seeds > 1 else ""
        clusters = "" if self.clusters is None else f" in {self.clusters:,} clusters"
        same = "the same " if all(pair.paired for pair in self.pairs) else ""
        rows = f"{self.rows:,} rows" if self.folds is None else f"{self.folds:,} folds"
        return f"{same}{rows}{clusters}{seeds}"

    def _of_two(self) -> Iterator[str]:
        pair = self.pair
        values = ", ".join(f"{label} {number(one.value)}" for label, one in self.values.items())
        yield f"{values}   {self._title} on {self._basis}"
        bounds = f"{100 * (1 - self.level):g}%: {pair.interval.bounds}"
        corrected = f" ({_CORRECTED[self.correction]})" if pair.p_value != pair.raw_p_value else ""
        p = f"{pair.test} {format_p(pair.p_value)}{corrected}"
        yield f"difference {pair.interval.format(pair.interval.value)} ({bounds}), {p}: {self._verdict(pair)}"
        if pair.alone is not None:
            better = pair.alone if self.direction is Direction.MAXIMIZE else pair.alone[::-1]
            rows = "row" if better[0] == 1 else "rows"
            counts = f"{pair.a} is better on {better[0]:,} {rows}, {pair.b} on {better[1]:,}"
            yield f"{counts}; the others are equal"
        yield from self._power(pair)

    def _power(self, pair: PairDifference) -> Iterator[str]:
        if pair.detectable is None:
            why = "nothing varies from row to row" if pair.alone is None else "fewer than 10 rows differ"
            yield f"{why}, so the number of rows that would separate them is unknown"
            return
        line = f"{100 * POWER:g} of 100 such comparisons would detect a difference of {pair.detectable:.3g}"
        gap = self.equivalence or abs(pair.interval.value)
        if self.folds is None and pair.verdict is Verdict.NOT_TOLD_APART and 0 < gap < pair.detectable:
            rows = pair.rows_wanted(gap)
            wanted = "more trainings, not more rows" if rows is None else f"about {rows:,} rows"
            line += f"; {gap:.3g} needs {wanted}"
        yield line

    def _of_many(self) -> Iterator[str]:
        yield f"{self._title} on {self._basis}"
        yield aligned(
            [
                ["", "value", f"{100 * (1 - self.level):g}%"],
                *([label, number(one.value), one.bounds] for label, one in self.values.items()),
            ]
        )
        yield ""
        head = ["", "difference", f"{100 * (1 - self.level):g}%", "p", "test", ""]
        yield aligned([head, *(self._row(pair) for pair in self.pairs)])
        yield f"p-values are {_CORRECTED[self.correction]}"
        if len(self.pairs) == math.comb(len(self.values), 2):
            yield from (
                f"not shown to differ: {listed(group)}" for group in self.together() if len(group) > 1
            )

    def _row(self, pair: PairDifference) -> list[str]:
        p = format_p(pair.p_value).removeprefix("p ").removeprefix("= ")
        gap = pair.interval.format(pair.interval.value)
        return [f"{pair.a} - {pair.b}", gap, pair.interval.bounds, p, pair.test, self._verdict(pair)]

    def _verdict(self, pair: PairDifference) -> str:
        better = {Verdict.A_BETTER: pair.a, Verdict.B_BETTER: pair.b}.get(pair.verdict)
        if better is not None:
            return f"{better} is better"
        return "no significant difference" if pair.verdict is Verdict.NOT_TOLD_APART else pair.verdict.value


def _split(group: tuple[str, ...], apart: frozenset[str]) -> list[tuple[str, ...]]:
    """Return a group without one and without the other of two that are told apart, if it has both."""
    if not apart <= set(group):
        return [group]
    return [tuple(label for label in group if label != one) for one in sorted(apart)]


def corrected_together(comparisons: Sequence[ModelComparison]) -> list[ModelComparison]:
    """Return comparisons by several metrics with the p-values of all of them corrected together."""
    all_p_values = {
        (place, pair.a, pair.b): pair.raw_p_value
        for place, one in enumerate(comparisons)
        for pair in one.pairs
    }
    correction = comparisons[0].correction
    if correction != "raw":
        all_p_values = (holm if correction == "holm" else benjamini_hochberg)(all_p_values)
    return [
        replace(
            one,
            pairs=tuple(
                _judged(replace(pair, p_value=all_p_values[place, pair.a, pair.b]), one) for pair in one.pairs
            ),
        )
        for place, one in enumerate(comparisons)
    ]


def _judged(pair: PairDifference, comparison: ModelComparison) -> PairDifference:
    value, level = pair.interval.value, comparison.level
    reach = pair._parts.half_width(min(1.0, 2 * level))
    is_known = reach > 0 or (not value and pair._parts.rows > 1)
    if comparison.equivalence > 0 and is_known and abs(value) + reach <= comparison.equivalence:
        return replace(pair, verdict=Verdict.EQUIVALENT)
    if not pair.p_value < level or not value:
        return replace(pair, verdict=Verdict.NOT_TOLD_APART)
    is_better = comparison.direction.better(value, 0.0)
    return replace(pair, verdict=Verdict.A_BETTER if is_better else Verdict.B_BETTER)
