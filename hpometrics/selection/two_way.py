"""The difference of two trials over seeds and rows: its variance, interval and p-value."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._redaction import excerpt
from .intervals import Interval

Array = NDArray[np.float64]

POWER = 0.8
"""How often a detectable difference is detected."""

_LEAST_P = 1e-12
_STEPS = 60
_NEAR = 1e-6
_MOST_SEEDS = 1000
FEW_CLUSTERS = 100
"""Fewer clusters than this have Student's quantile, more the normal one."""
LEAST_CLUSTERS = 20
"""Intervals of fewer clusters than this are rough."""


def normal_quantile(level: float) -> float:
    """Return how many standard deviations a normal value stays within but for a share `level`.

    >>> round(normal_quantile(0.05), 4)
    1.96
    """
    return -NormalDist().inv_cdf(level / 2)


def student_quantile(level: float, degrees: float) -> float:
    """Return the same for Student's t with some degrees of freedom.

    >>> round(student_quantile(0.05, 4), 4)
    2.7764
    """
    from scipy.special import stdtrit  # a search that confirms nothing does not load it

    return float(-stdtrit(degrees, level / 2))


@dataclass(frozen=True)
class TwoWay:
    """The mean of a table of seeds x rows, and the variance of that mean by its parts.

    Seeds and rows are crossed random effects: every seed was measured on the same rows. A table of one seed
    has no variance of seeds, one without rows none of rows.

    Args:
        mean: of the whole table.
        seed_variance: of the mean, by the seeds: the variance of the row means / seeds.
        row_variance: of the mean, by the rows: the variance of the seed means / rows.
        residual_variance: of the mean, by what is left of each cell.
        seeds: their number.
        rows: their number, or that of clusters; 0 if only the value of each seed is known.
        student_below: with fewer rows than this, their quantile is Student's and not the normal one.

    Source: Banerjee 1960, Sankhya 22(3/4): an interval in which each part has its own quantile is never too
        short.

    >>> table = TwoWay.of([[1, 0, 1, 0, 0], [0, 0, 1, 0, -1], [1, 0, 1, -1, 1]])
    >>> round(table.mean, 4), round(table.half_width(0.05), 4), round(table.p_value, 4)
    (0.2667, 0.6855, 0.307)
    """

    mean: float
    seed_variance: float
    row_variance: float = 0.0
    residual_variance: float = 0.0
    seeds: int = 1
    rows: int = 0
    student_below: int = 0

    @classmethod
    def of(cls, table: ArrayLike, student_below: int = 0) -> Self:
        """Compute the parts of a table of shape (seeds, rows)."""
        cells = np.asarray(table, dtype=np.float64)
        seeds, rows = cells.shape
        by_seed, by_row, mean = cells.mean(axis=1), cells.mean(axis=0), cells.mean()
        residual = 0.0
        if seeds > 1 and rows > 1:
            rest = cells - by_seed[:, None] - by_row + mean
            residual = float(np.square(rest).sum()) / ((seeds - 1) * (rows - 1)) / (seeds * rows)
        variances = _variance(by_seed), _variance(by_row), residual
        return cls(float(mean), *variances, seeds, rows, student_below)

    @classmethod
    def of_folds(cls, differences: Sequence[float], test_share: float) -> Self:
        """Compute the parts of the differences of two models over the folds of one data set.

        Folds share training rows, so that their values vary less than those of new data.

        Args:
            differences: by fold, or by fold and repeat.
            test_share: how many rows a fold is measured on, for each row that it is trained on.

        Source: Nadeau & Bengio 2003, Machine Learning 52(3), the corrected resampled t-test.
        """
        each = np.asarray(differences, dtype=np.float64)
        spread = float(each.var(ddof=1)) if len(each) > 1 else 0.0
        return cls(float(each.mean()), spread * (1 / len(each) + test_share), seeds=len(each))

    @classmethod
    def of_seeds(cls, values: Sequence[float]) -> Self:
        """Compute the parts where each seed has one value and its rows are unknown."""
        each = np.asarray(values, dtype=np.float64)
        return cls(float(each.mean()), _variance(each), seeds=len(each))

    def row_share(self, level: float) -> float:
        """Return what the rows add to the square of the half width."""
        few = 1 < self.rows < self.student_below
        quantile = student_quantile(level, self.rows - 1) if few else normal_quantile(level)
        return quantile**2 * max(0.0, self.row_variance - self.residual_variance)

    def seed_share(self, level: float) -> float:
        """Return what the seeds add to the square of the half width."""
        if self.seeds < 2:
            return 0.0
        return student_quantile(level, self.seeds - 1) ** 2 * self.seed_variance

    def half_width(self, level: float) -> float:
        """Return half the length of the interval that misses the true mean in a share `level` of tables."""
        return math.sqrt(self.seed_share(level) + self.row_share(level))

    def interval(self, level: float = 0.05) -> Interval:
        """Return the mean with its interval."""
        half = self.half_width(level)
        return Interval(self.mean, self.mean - half, self.mean + half)

    @property
    def p_value(self) -> float:
        """The level at which the interval ends at 0: at least 1e-12, and 0 or 1 where nothing varies."""
        gap = abs(self.mean)
        if not self.half_width(_LEAST_P):
            return 0.0 if gap else 1.0
        low, high = math.log(_LEAST_P), 0.0
        for _ in range(_STEPS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.half_width(math.exp(middle)) > gap else (low, middle)
        return math.exp((low + high) / 2)

    def seeds_wanted(self, level: float) -> int | None:
        """Return how many seeds would show this mean to differ from 0; None if no number would."""
        rest = self.mean**2 - self.row_share(level)
        if rest <= 0 or self.seeds < 2:
            return None
        spread = self.seed_variance * self.seeds
        return next(
            (
                count
                for count in range(2, _MOST_SEEDS)
                if student_quantile(level, count - 1) ** 2 * spread / count <= rest
            ),
            None,
        )

    def rows_wanted(self, level: float) -> int | None:
        """Return how many rows it takes before seeds can show this mean to differ from 0."""
        if not self.mean or not self.rows:
            return None
        return math.ceil(self.rows * self.row_share(level) / self.mean**2)

    def detectable(self, level: float = 0.05, power: float = POWER) -> float:
        """Return the least true difference that a share `power` of such tables tells from 0."""
        return math.sqrt(self._planned_seeds(level, power) + self._planned_rows(level, power))

    def rows_to_detect(self, gap: float, level: float = 0.05, power: float = POWER) -> float | None:
        """Return how many rows it takes to detect a true difference.

        None if the seeds hide it whatever the rows, or if the rows do not vary.
        """
        rest = gap**2 - self._planned_seeds(level, power)
        spread = self.rows * max(0.0, self.row_variance - self.residual_variance)
        if rest <= 0 or not spread:
            return None
        few = range(2, self.student_below)  # their quantile depends on how many there are
        squares = ((rows, self._planned_quantile(rows, level, power) ** 2) for rows in few)
        enough = (float(rows) for rows, square in squares if spread * square / rows <= rest * (1 + _NEAR))
        return next(enough, spread * self._planned_quantile(math.inf, level, power) ** 2 / rest)

    def _planned_seeds(self, level: float, power: float) -> float:
        if self.seeds < 2:
            return 0.0
        degrees = self.seeds - 1
        quantile = student_quantile(level, degrees) + student_quantile(2 * (1 - power), degrees)
        return quantile**2 * self.seed_variance

    def _planned_rows(self, level: float, power: float) -> float:
        quantile = self._planned_quantile(self.rows, level, power)
        return quantile**2 * max(0.0, self.row_variance - self.residual_variance)

    def _planned_quantile(self, rows: float, level: float, power: float) -> float:
        miss = 2 * (1 - power)
        if rows < self.student_below and rows > 1:
            return student_quantile(level, rows - 1) + student_quantile(miss, rows - 1)
        return normal_quantile(level) + normal_quantile(miss)

    @property
    def of_one_seed(self) -> Self:
        """The same rows as if one seed had been trained: for seeds that all gave the same."""
        return type(self)(self.mean, 0.0, self.row_variance, 0.0, 1, self.rows, self.student_below)


def unpaired(left: TwoWay, right: TwoWay, differences: Sequence[float]) -> TwoWay:
    """Return the difference of two tables with the same seeds and other rows: each adds its own variance.

    Args:
        left: the table of the one.
        right: of the other.
        differences: of their values, seed by seed.
    """
    seeds = TwoWay.of_seeds(differences)
    return TwoWay(
        seeds.mean,
        seeds.seed_variance,
        left.row_variance + right.row_variance,
        left.residual_variance + right.residual_variance,
        seeds.seeds,
        min(left.rows, right.rows),
        max(left.student_below, right.student_below),
    )


def _variance(values: Array) -> float:
    """Return the variance of the mean of independent values."""
    return float(values.var(ddof=1)) / len(values) if len(values) > 1 else 0.0


def by_cluster(table: ArrayLike, clusters: ArrayLike) -> Array:
    """Return a table of shape (seeds, clusters) for one of shape (seeds, rows), with the same means.

    Each cluster sums what its rows have above the mean of their seed.

    Args:
        table: the row values.
        clusters: (rows,) the number of each row's cluster, from 0 without a gap.

    >>> by_cluster([[1, 1, 0, -1]], [0, 0, 1, 1]).tolist()
    [[1.0, -0.5]]
    """
    cells, codes = np.asarray(table, dtype=np.float64), np.asarray(clusters)
    mean, count = cells.mean(axis=1, keepdims=True), int(codes.max()) + 1
    sums = np.stack([np.bincount(codes, row, count) for row in cells - mean])
    joined: Array = mean + sums * (count / cells.shape[1])
    return joined


def ids_of_rows(values: Iterable[object]) -> list[Hashable]:
    """Return the id of each row, of what the row belongs to; a tensor of one number is that number.

    Raises:
        ValueError: one is neither a text nor a number.

    >>> ids_of_rows([np.int64(3), 3, "ada"])
    [3, 3, 'ada']
    """
    ids = [one.item() if hasattr(one, "item") and not getattr(one, "ndim", 0) else one for one in values]
    for row, one in enumerate(ids, 1):
        if one is None or getattr(one, "ndim", None) or not isinstance(one, Hashable) or one != one:
            raise ValueError(
                f"by needs a text or a number for each row, its cluster; got {excerpt(one, 60)} in row {row}"
            )
    return ids


def numbered(clusters: Iterable[Hashable]) -> NDArray[np.int64]:
    """Return clusters as numbers from 0, in the order in which they come first.

    >>> numbered(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    numbers: dict[Hashable, int] = {}
    return np.array([numbers.setdefault(cluster, len(numbers)) for cluster in clusters], dtype=np.int64)
