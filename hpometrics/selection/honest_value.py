"""The value of a winner's params on new rows, without the luck of picking trial and epoch on these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..direction import Direction
from ..records.trial_record import number_in
from .confirmation import ConfirmationRecord, FreshRun, HonestValue, RowTables
from .intervals import Scale
from .two_way import FEW_CLUSTERS, TwoWay, normal_quantile

Array = NDArray[np.float64]

DRAWS = 200
_SHARE = 0.632
"""A draw with replacement holds this share of the rows (Efron 1983, JASA 78(382))."""
_ROWS_FOR_SKEWNESS = 25


class Redraws:
    """The rows drawn again, 200 times, and what would have been picked on each draw.

    What is computed of a run is kept for the next look.

    Args:
        direction: of the metric.
        search: the row values of the trials of the search; None leaves out the choice of the contenders.
        top: how many contenders each draw would have had.
    """

    def __init__(self, direction: Direction, search: RowTables | None, top: int) -> None:
        self._sign = direction.sign
        self._search, self._top = search, top
        self._draws: dict[int, Draws] = {}
        self._runs: dict[int, tuple[FreshRun, _RunDraws]] = {}

    @classmethod
    def of(cls, record: ConfirmationRecord) -> Redraws:
        """Return the draws of a confirmation."""
        return cls(record.direction, record.search, len(record.contenders))

    def fits(self, record: ConfirmationRecord) -> bool:
        """Check whether these are the draws of a confirmation: one with the same search."""
        return self._search is record.search and self._top == len(record.contenders)

    def luck(self, runs: Mapping[int, Sequence[FreshRun]]) -> Luck | None:
        """Return what picking among the contenders and their epochs adds; None where rows cannot be redrawn.

        Args:
            runs: the fresh runs of each contender.
        """
        every = [run for one in runs.values() for run in one]
        if not every or any(run.rows is None for run in every) or len({run.rows_id for run in every}) > 1:
            return None
        draws = self._drawn(every[0].picked_rows.size)
        trials = {
            trial: TrialDraws([self._of(run, draws) for run in ours]) for trial, ours in runs.items() if ours
        }
        return Luck(trials, _winners(trials, self._contenders(draws)), draws)

    def _drawn(self, rows: int) -> Draws:
        if rows not in self._draws:
            self._draws[rows] = Draws.of_rows(rows)
        return self._draws[rows]

    def _of(self, run: FreshRun, draws: Draws) -> _RunDraws:
        """Return a run on every draw, computed once: the run is found by its identity, and held for that."""
        if id(run) not in self._runs:
            self._runs[id(run)] = run, _RunDraws.of(np.asarray(run.rows), draws, self._sign)
        return self._runs[id(run)][1]

    def _contenders(self, draws: Draws) -> Array | None:
        """Return the trials that each draw would have had as contenders, of shape (200, top)."""
        if self._search is None or any(table.shape[1] != draws.rows for table in self._search.values()):
            return None
        return self._drawn_contenders

    @cached_property
    def _drawn_contenders(self) -> Array:
        tables = dict(sorted((self._search or {}).items()))
        draws = self._drawn(next(iter(tables.values())).shape[1])
        best = np.stack([draws.means(self._sign * table).max(axis=0) for table in tables.values()])
        order = np.argsort(-best, axis=0, kind="stable")[: self._top].T
        return np.array(list(tables))[order]


@dataclass(frozen=True)
class Draws:
    """The rows drawn with replacement: how often each draw has each row, of shape (draws, rows)."""

    weights: Array

    @classmethod
    def of_rows(cls, rows: int) -> Draws:
        """Draw so many rows 200 times, always the same ones."""
        drawn = np.random.default_rng(0).multinomial(rows, np.full(rows, 1 / rows), size=DRAWS)
        return cls(drawn.astype(np.float64))

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.weights.shape[1])

    @cached_property
    def left_out(self) -> Array:
        """1 for each row that a draw left out, else 0; of shape (draws, rows)."""
        left_out: Array = (self.weights == 0).astype(np.float64)
        return left_out

    @cached_property
    def counts(self) -> Array:
        """How many rows each draw left out."""
        counts: Array = self.left_out.sum(axis=1)
        return counts

    def means(self, table: Array) -> Array:
        """Return the mean of each epoch on each draw, of shape (epochs, draws)."""
        signs = np.sign(table)
        if np.array_equal(signs, table):  # sums of whole numbers have all their digits in float32
            sums = (signs.astype(np.float32) @ self._weights32.T).astype(np.float64)
        else:
            sums = table @ self.weights.T
        means: Array = sums / self.rows
        return means

    @cached_property
    def _weights32(self) -> NDArray[np.float32]:
        return self.weights.astype(np.float32)


@dataclass(frozen=True)
class _RunDraws:
    """A run on every draw, where it picks its epoch; a value above is better."""

    inside: Array
    """Its value on the rows of each draw."""
    outside: Array
    """Its value on the rows that the draw left out, at the same epoch."""
    table: Array
    """Its row values, of shape (epochs, rows)."""
    epochs: NDArray[np.intp]
    """The epoch that each draw picks."""

    @classmethod
    def of(cls, rows: Array, draws: Draws, sign: float) -> _RunDraws:
        """Pick the epoch by each draw."""
        table = sign * rows.astype(np.float64)
        means = draws.means(table)
        epochs = means.argmax(axis=0)
        inside = means[epochs, np.arange(len(epochs))]
        outside = np.empty(len(epochs))
        for epoch in np.unique(epochs):
            picked = epochs == epoch
            outside[picked] = draws.left_out[picked] @ table[epoch] / np.maximum(draws.counts[picked], 1)
        return cls(inside, np.where(draws.counts, outside, inside), table, epochs)  # a draw may have all rows

    def left_out_sums(self, draws: Draws, chosen: NDArray[np.bool_]) -> Array:
        """Return for each row the sum of its values over the chosen draws that left it out."""
        at = np.zeros((len(self.table), len(chosen)))
        at[self.epochs[chosen], np.flatnonzero(chosen)] = 1
        sums: Array = ((at @ draws.left_out) * self.table).sum(axis=0)
        return sums


@dataclass(frozen=True)
class TrialDraws:
    """A contender on every draw: the mean over its runs."""

    runs: Sequence[_RunDraws]

    @cached_property
    def inside(self) -> Array:
        """Its value on the rows of each draw."""
        inside: Array = np.mean([run.inside for run in self.runs], axis=0)
        return inside

    @cached_property
    def outside(self) -> Array:
        """Its value on the rows that the draw left out, at the same epochs."""
        outside: Array = np.mean([run.outside for run in self.runs], axis=0)
        return outside

    @property
    def gaps(self) -> Array:
        """The values of each draw on its own rows less those on the rows that it left out."""
        return self.inside - self.outside


@dataclass(frozen=True)
class Luck:
    """The part of a value that comes from picking on the rows it is measured on."""

    trials: Mapping[int, TrialDraws]
    winners: Sequence[int]
    draws: Draws

    @cached_property
    def bias(self) -> float:
        """The part that the winner of a draw owes to being picked there, with its epochs."""
        gaps = [self.trials[winner].gaps[draw] for draw, winner in enumerate(self.winners)]
        return _SHARE * float(np.mean(gaps))

    def of_choice(self, winner: int) -> float:
        """Return the part that comes from choosing among trials, not from picking epochs."""
        own = _SHARE * float(self.trials[winner].gaps.mean())
        return max(0.0, self.bias - own)

    @cached_property
    def row_variance(self) -> float:
        """The variance of a mean of rows, each measured by the winners of the draws that left it out."""
        totals, winners = np.zeros(self.draws.rows), np.array(self.winners)
        for trial, drawn in self.trials.items():
            for run in drawn.runs if trial in self.winners else ():
                totals += run.left_out_sums(self.draws, winners == trial) / len(drawn.runs)
        counts = self.draws.left_out.sum(axis=0)
        means = totals[counts > 0] / counts[counts > 0]
        return float(means.var(ddof=1)) / self.draws.rows if len(means) > 1 else 0.0


def honest_value(
    direction: Direction,
    runs: Sequence[FreshRun],
    luck: Luck | None,
    *,
    scale: Scale = Scale.IDENTITY,
    clustered: bool = False,
    level: float = 0.05,
    limits: Sequence[str] = (),
) -> HonestValue:
    """Return the value of a winner without the luck of picking, with its interval.

    Args:
        direction: of the metric.
        runs: the winner's fresh runs, which did not fail.
        luck: what picking adds; None where no rows were kept, so that only seeds are in the interval.
        scale: of the metric's values.
        clustered: whether rows are sums of clusters.
        level: how often the interval misses the true value.
        limits: what else the interval leaves out.

    Source: Efron 1983, Estimating the error rate of a prediction rule, JASA 78(382), for the share .632.
    """
    mean = math.fsum(_value(run) for run in runs) / len(runs)
    if luck is None:
        table = TwoWay.of_seeds([_value(run) for run in runs])
        return HonestValue(scale.interval(mean, table.half_width(level)), mean, 0.0, tuple(limits))
    table = TwoWay.of(np.stack([run.picked_rows for run in runs]), FEW_CLUSTERS if clustered else 0)
    variance = max(table.row_variance, luck.row_variance) - table.residual_variance + (luck.bias / 2) ** 2
    half = math.sqrt(table.seed_share(level) + normal_quantile(level) ** 2 * max(0.0, variance))
    honest = mean - direction.sign * luck.bias
    return HonestValue(scale.interval(honest, half), mean, luck.bias, tuple(limits))


def with_held_out(
    honest: HonestValue,
    runs: Sequence[FreshRun],
    name: str,
    *,
    scale: Scale = Scale.IDENTITY,
    clustered: bool = False,
    level: float = 0.05,
) -> HonestValue:
    """Return an honest value with that on the test split, which needs no correction.

    Args:
        honest: the value on new rows.
        runs: the winner's fresh runs.
        name: of the value on the test split; without it in each run there is none.
        scale: of the metric's values.
        clustered: whether rows are sums of clusters.
        level: how often the interval misses the true value.
    """
    values = [number_in(run.values, name) for run in runs]
    if not all(map(math.isfinite, values)):
        return honest
    tables = [run.held_out for run in runs if run.held_out is not None]
    paired = len(tables) == len(runs) and len({run.held_out_id for run in runs}) == 1
    few = FEW_CLUSTERS if clustered else 0
    table = TwoWay.of(np.stack(tables), few) if paired else TwoWay.of_seeds(values)
    interval = scale.interval(math.fsum(values) / len(values), table.half_width(level))
    return replace(honest, held_out=interval, held_out_rows=table.rows)


def are_few(rows: Array) -> bool:
    """Check whether rows are too few for their skewness; values from 0 to 1 have their scale for that.

    Source: Cochran 1977, Sampling Techniques, section 2.15.
    """
    above = rows - rows.mean()
    variance = float(np.square(above).mean())
    if not variance:
        return False
    skewness = float((above**3).mean()) / variance**1.5
    return bool(len(rows) < _ROWS_FOR_SKEWNESS * skewness**2)


def _winners(trials: Mapping[int, TrialDraws], contenders: Array | None) -> list[int]:
    """Return the best of each draw's contenders; where none of those was trained again, of all that were."""
    numbers = list(trials)
    inside = np.stack([trials[trial].inside for trial in numbers])
    if contenders is not None:
        among = (np.array(numbers)[:, None, None] == contenders).any(axis=2)
        among |= ~among.any(axis=0)
        inside = np.where(among, inside, -np.inf)
    return [numbers[place] for place in inside.argmax(axis=0)]


def _value(run: FreshRun) -> float:
    return math.nan if run.value is None else run.value
