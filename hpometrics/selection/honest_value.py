"""The value of a winner's params on new rows, without the luck of picking trial and epoch on these."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..direction import Direction
from .confirmation import FreshRun, HonestValue, RowTables
from .intervals import Scale
from .two_way import FEW_CLUSTERS, TwoWay, normal_quantile

Array = NDArray[np.float64]

DRAWS = 200
_SHARE = 0.632
"""A draw with replacement holds this share of the rows (Efron 1983, JASA 78(382))."""


class Redraws:
    """The rows drawn again, 200 times, and what would have been picked on each draw.

    Args:
        direction: of the metric.
        search: the row values of the trials of the search; None leaves out the choice of the contenders.
        top: how many contenders each draw would have had.
    """

    def __init__(self, direction: Direction, search: RowTables | None, top: int) -> None:
        self._sign = direction.sign
        self._search, self._top = search, top
        self._weights: dict[int, Array] = {}

    def weights(self, rows: int) -> Array:
        """Return how often each draw has each row, of shape (200, rows)."""
        if rows not in self._weights:
            drawn = np.random.default_rng(0).multinomial(rows, np.full(rows, 1 / rows), size=DRAWS)
            self._weights[rows] = drawn.astype(np.float64)
        return self._weights[rows]

    def luck(self, runs: Mapping[int, Sequence[FreshRun]]) -> Luck | None:
        """Return what picking among the contenders and their epochs adds; None where rows cannot be redrawn.

        Args:
            runs: the fresh runs of each contender.
        """
        every = [run for one in runs.values() for run in one]
        if not every or any(run.rows is None for run in every) or len({run.rows_id for run in every}) > 1:
            return None
        rows = every[0].picked_rows.size
        weights = self.weights(rows)
        trials = {trial: _TrialDraws.of(ours, weights, self._sign) for trial, ours in runs.items() if ours}
        winners = _winners(trials, self._contenders(rows))
        return Luck(trials, winners, weights)

    def _contenders(self, rows: int) -> Array | None:
        """Return the trials that each draw would have had as contenders, of shape (200, top)."""
        if self._search is None or any(table.shape[1] != rows for table in self._search.values()):
            return None
        return self._drawn_contenders

    @cached_property
    def _drawn_contenders(self) -> Array:
        tables = dict(sorted((self._search or {}).items()))
        weights = self.weights(next(iter(tables.values())).shape[1])
        best = np.stack([(self._sign * table @ weights.T).max(axis=0) for table in tables.values()])
        order = np.argsort(-best, axis=0, kind="stable")[: self._top].T
        return np.array(list(tables))[order]


@dataclass(frozen=True)
class _TrialDraws:
    """A contender on every draw: each run picks its epoch there; a value above is better."""

    inside: Array
    """Its value on the rows of each draw, the mean over its runs."""
    outside: Array
    """Its value on the rows that the draw left out, at the same epochs."""
    rows: list[Array]
    """The row values of each run, of shape (epochs, rows)."""
    epochs: list[NDArray[np.intp]]
    """The epoch of each run that each draw picks."""

    @classmethod
    def of(cls, runs: Sequence[FreshRun], weights: Array, sign: float) -> _TrialDraws:
        """Pick the epoch of each run by each draw."""
        left_out = (weights == 0).astype(np.float64)
        counts = left_out.sum(axis=1)
        draws = np.arange(len(weights))
        inside, outside, rows, epochs = [], [], [], []
        for run in runs:
            table = sign * np.asarray(run.rows, dtype=np.float64)
            drawn = table @ weights.T / table.shape[1]
            picked = drawn.argmax(axis=0)
            inside.append(drawn[picked, draws])
            unseen = (table @ left_out.T)[picked, draws] / np.maximum(counts, 1)
            outside.append(np.where(counts, unseen, inside[-1]))  # a draw may have all of a few rows
            rows.append(table)
            epochs.append(picked)
        return cls(np.mean(inside, axis=0), np.mean(outside, axis=0), rows, epochs)

    @property
    def gaps(self) -> Array:
        """The values of each draw on its own rows less those on the rows that it left out."""
        return self.inside - self.outside


@dataclass(frozen=True)
class Luck:
    """The part of a value that comes from picking on the rows it is measured on."""

    trials: Mapping[int, _TrialDraws]
    winners: Sequence[int]
    weights: Array

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
        left_out = self.weights == 0
        totals = np.zeros(left_out.shape[1])
        for draw, winner in enumerate(self.winners):
            trial, outside = self.trials[winner], left_out[draw]
            values = [
                table[epochs[draw], outside] for table, epochs in zip(trial.rows, trial.epochs, strict=True)
            ]
            totals[outside] += np.mean(values, axis=0)
        counts = left_out.sum(axis=0)
        means = totals[counts > 0] / counts[counts > 0]
        return float(means.var(ddof=1)) / left_out.shape[1] if len(means) > 1 else 0.0


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


def _winners(trials: Mapping[int, _TrialDraws], contenders: Array | None) -> list[int]:
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
