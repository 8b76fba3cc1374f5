"""The row values of models, of one training or of several, and their comparison pair by pair."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .._formatting import plural
from ..direction import Direction
from ..exceptions import ConfigError
from ..metrics.p_values import mcnemar
from .intervals import Interval, Scale
from .model_comparison import (
    CORRECTIONS,
    Correction,
    ModelComparison,
    PairDifference,
    Verdict,
    corrected_together,
)
from .two_way import FEW_CLUSTERS, LEAST_CLUSTERS, TwoWay, by_cluster, normal_quantile, unpaired

FEW_ROWS = 200
"""Fewer rows than this have Student's quantile; those of McNemar and DeLong have the normal one."""
_MOST_EXACT = 200  # rows that differ, up to which McNemar's test is exact
_FEW_DIFFER = 10  # rows, up to which the usual interval of their difference is too short
_FEW_OF_A_CLASS = 10
_NEAR = 1e-9
_ROUNDING = 1e-12


@dataclass(frozen=True)
class ModelRows:
    """The row values of one model.

    Args:
        label: the name of the model.
        table: (seeds, n) the row values of each of its trainings.
        method: how they were computed, see `RowMeter`.
        count: how many rows were measured, if that is more than n.
        positive: (n,) for the method `pairs`, which rows are of the class, if that is known.
        rows_id: identifies the rows; values of models with other rows are not paired.
        clustered: whether rows were summed by cluster before.
    """

    label: str
    table: NDArray[np.float64]
    method: str = "rows"
    count: int = 0
    positive: NDArray[np.bool_] | None = None
    rows_id: str | None = None
    clustered: bool = False

    @property
    def seeds(self) -> int:
        """How many trainings it has."""
        return len(self.table)

    @property
    def rows(self) -> int:
        """How many rows were measured."""
        return self.count or self.table.shape[1]

    def interval(self, level: float = 0.05, scale: Scale = Scale.IDENTITY) -> Interval:
        """Return the value with its interval.

        Args:
            level: how often such an interval misses the true value.
            scale: on which the interval is symmetric.
        """
        return _Side(self).interval(level, scale)

    def difference(self, other: ModelRows, level: float = 0.05) -> PairDifference:
        """Return the difference to another model, see `compare_models`.

        Raises:
            ConfigError: the two cannot be compared.
        """
        _check([self, other], level)
        return _Pair(_Side(self), _Side(other)).difference(level)


def compare_models(
    models: Sequence[ModelRows],
    *,
    metric: str,
    direction: Direction,
    level: float = 0.05,
    equivalence: float = 0.0,
    every: bool = False,
    correction: Correction = "holm",
    clusters: NDArray[np.int64] | None = None,
    test_share: float | None = None,
    scale: Scale = Scale.IDENTITY,
    notes: Sequence[str] = (),
) -> ModelComparison:
    """Compare the first model with each of the others, or every model with every other.

    One training of each is compared by McNemar's exact test where every row counts 0 or 1, by DeLong's
    variance where rows are pairs, else by the mean of the rows' differences and its standard error. Several
    trainings are compared over seeds and rows, see `TwoWay`. Folds of one data set share training rows, so
    that Student's t is corrected for that.

    Args:
        models: two or more, with as many trainings each.
        metric: its name.
        direction: its direction.
        level: of tests and intervals.
        equivalence: differences up to it do not count: models are equivalent if both one-sided tests at the
            level show that the difference is smaller.
        every: compare every pair.
        correction: of the p-values, if there are several pairs.
        clusters: (n,) the number of the cluster of each row, from 0 without a gap; rows of one cluster are
            not independent.
        test_share: says that each value is one of a fold: how many rows a fold is measured on, for each row
            that it is trained on, such as 1 / 9 of ten folds.
        scale: on which the interval of each value is symmetric.
        notes: further lines.

    Raises:
        ConfigError: there are fewer than two models, or a setting is out of range.

    Source: McNemar 1947, Psychometrika 12(2); DeLong, DeLong & Clarke-Pearson 1988, Biometrics 44(3);
        Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15(6), for equivalence; Nadeau &
        Bengio 2003, Machine Learning 52(3), for folds.
    """
    _check(models, level, equivalence, correction)
    if test_share is not None:
        _check_folds(models, clusters, test_share)
    sides = [_Side(model, clusters, test_share) for model in models]
    chosen = list(combinations(sides, 2)) if every else [(sides[0], other) for other in sides[1:]]
    pairs = tuple(_Pair(a, b).difference(level) for a, b in chosen)
    count = sides[0].table.shape[1] if sides[0].is_clustered else None
    comparison = ModelComparison(
        metric,
        direction,
        {side.label: side.interval(level, scale) for side in sides},
        pairs,
        level,
        equivalence,
        0 if test_share is not None else max(model.rows for model in models),
        models[0].seeds,
        count,
        correction,
        (*_cautions(models, pairs, count), *notes),
        None if test_share is None else models[0].rows,
    )
    return corrected_together([comparison])[0]


def _cautions(
    models: Sequence[ModelRows], pairs: Sequence[PairDifference], clusters: int | None
) -> Iterator[str]:
    """Yield what makes intervals rough.

    Raises:
        ConfigError: rows or clusters do not show how they vary.
    """
    if clusters == 1:
        raise ConfigError("all rows are in one cluster; intervals need at least two clusters")
    if clusters is not None and clusters < LEAST_CLUSTERS:
        yield f"{plural(clusters, 'cluster')}: intervals from fewer than {LEAST_CLUSTERS} are rough"
    if not all(pair.paired for pair in pairs):
        yield "not paired: the models may have different rows"
    if models[0].positive is not None:
        of_class = int(models[0].positive.sum())
        fewest = min(of_class, len(models[0].positive) - of_class)
        if fewest < 2:
            raise ConfigError("one class has only one row; intervals need at least two rows of each class")
        if fewest < _FEW_OF_A_CLASS:
            yield f"one class has {fewest} rows: intervals from fewer than {_FEW_OF_A_CLASS} are rough"


class _Side:
    """A model's row values, or those of its clusters."""

    def __init__(
        self, model: ModelRows, clusters: NDArray[np.int64] | None = None, test_share: float | None = None
    ) -> None:
        self.model, self.label, self.test_share = model, model.label, test_share
        self.is_clustered = model.clustered or clusters is not None
        self.table = model.table if clusters is None else by_cluster(model.table, clusters)

    @property
    def is_normal(self) -> bool:
        """Whether its rows have the normal quantile, however few they are."""
        return not self.is_clustered and self.model.method == "pairs"

    @cached_property
    def is_right(self) -> NDArray[np.bool_] | None:
        """Which rows have the value 1; None unless each has 0 or 1 in one training."""
        rows = self.table[0]
        of_rows = self.model.method in ("rows", "cells") and self.test_share is None
        if self.is_clustered or len(self.table) > 1 or not of_rows:
            return None
        near_zero, near_one = np.abs(rows) < _NEAR, np.abs(rows - 1) < _NEAR
        return near_one if (near_zero | near_one).all() else None

    @cached_property
    def parts(self) -> TwoWay:
        """The parts of its value."""
        return self.parts_of(self.table, FEW_ROWS)

    def parts_of(self, table: NDArray[np.float64], student_below: int) -> TwoWay:
        """Return the parts of a table of its rows, or of their differences."""
        if self.test_share is not None:
            return TwoWay.of_folds(table[0], self.test_share)
        if self.is_clustered:
            return TwoWay.of(table, FEW_CLUSTERS)
        if len(table) == 1 and self.model.positive is not None:
            return replace(TwoWay.of(table), row_variance=_variance_by_class(table[0], self.model.positive))
        return TwoWay.of(table, 0 if self.is_normal or len(table) > 1 else student_below)

    def interval(self, level: float, scale: Scale) -> Interval:
        """Return its value with the interval, which is Wilson's where rows are right or wrong.

        Source: Wilson 1927, Journal of the American Statistical Association 22(158).
        """
        if self.is_right is None:
            return scale.interval(self.parts.mean, self.parts.half_width(level))
        rows, share, square = len(self.is_right), float(self.is_right.mean()), normal_quantile(level) ** 2
        middle = (share + square / (2 * rows)) / (1 + square / rows)
        half = math.sqrt(square * share * (1 - share) / rows + (square / (2 * rows)) ** 2) / (
            1 + square / rows
        )
        return Interval(share, max(0.0, middle - half), min(1.0, middle + half))


class _Pair:
    """Two models, row by row where they have the same rows."""

    def __init__(self, a: _Side, b: _Side) -> None:
        self._a, self._b = a, b
        same = a.table.shape == b.table.shape and a.model.method == b.model.method
        self.paired = same and a.model.rows_id == b.model.rows_id
        self._alone: tuple[int, int] | None = None
        if self.paired and a.is_right is not None and b.is_right is not None:
            self._alone = int((a.is_right & ~b.is_right).sum()), int((b.is_right & ~a.is_right).sum())

    def difference(self, level: float) -> PairDifference:
        """Return the difference, with its own p-value and no verdict yet."""
        parts, columns = self._parts, self._a.table.shape[1]
        p_value, test = self._test(parts)
        is_known = self._alone is None or sum(self._alone) >= _FEW_DIFFER
        return PairDifference(
            self._a.label,
            self._b.label,
            parts.interval(level),
            p_value,
            p_value,
            test,
            Verdict.NOT_TOLD_APART,
            (parts.detectable(level) or None) if is_known else None,
            self._alone,
            self.paired,
            _parts=parts,
            _rows_per_column=self._a.model.rows / columns,
            _level=level,
        )

    @cached_property
    def _parts(self) -> TwoWay:
        """The parts of the difference; models on other rows each add their own."""
        a, b = self._a.table, self._b.table
        if not self.paired:
            differences = a.mean(axis=1) - b.mean(axis=1)
            parts = unpaired(self._a.parts, self._b.parts, differences.tolist())
            if self._a.is_right is None or self._b.is_right is None:
                return parts
            apart = _variance_of_share(self._a.is_right) + _variance_of_share(self._b.is_right)
            return replace(parts, row_variance=max(parts.row_variance, apart))
        gaps = a - b
        gaps[np.abs(gaps) <= _ROUNDING * np.maximum(np.abs(a), np.abs(b))] = 0.0
        if self._alone is None:
            return self._a.parts_of(gaps, FEW_ROWS)
        parts = self._a.parts_of(gaps, 0)
        if sum(self._alone) >= _FEW_DIFFER:
            return parts
        few = _variance_of_few(self._alone, gaps.shape[1])
        return replace(parts, row_variance=max(parts.row_variance, few))

    def _test(self, parts: TwoWay) -> tuple[float, str]:
        """Return the p-value and the name of the test."""
        if self._alone is not None and sum(self._alone) < _MOST_EXACT:
            return mcnemar(*self._alone), "McNemar"
        if self._a.test_share is not None:
            return parts.p_value, "t of folds"
        if parts.seeds > 1:
            return parts.p_value, "t of seeds and rows"
        if self._a.is_normal:
            return parts.p_value, "DeLong"
        quantile = "t" if parts.rows < parts.student_below else "z"
        if self._a.is_clustered:
            return parts.p_value, f"{quantile} of clusters"
        if parts.mean and not parts.row_variance:  # all rows differ by the same: their signs agree
            return min(1.0, 2.0 ** (1 - parts.rows)), "sign"
        return parts.p_value, f"paired {quantile}" if self.paired else f"unpaired {quantile}"


def _variance_of_few(alone: tuple[int, int], rows: int) -> float:
    """Return the variance of a difference of shares where few rows differ: half a row more of each kind.

    Source: Agresti & Min 2005, Statistics in Medicine 24(5).
    """
    differing, gap, count = sum(alone) + 1, alone[0] - alone[1], rows + 2
    return (differing - gap**2 / count) / count**2


def _variance_of_share(is_right: NDArray[np.bool_]) -> float:
    """Return the variance of the share of right rows, with a row more of each kind: it is not 0 if all are.

    Source: Agresti & Caffo 2000, The American Statistician 54(4).
    """
    rows = len(is_right) + 2
    share = (int(is_right.sum()) + 1) / rows
    return share * (1 - share) / rows


def _variance_by_class(values: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Return the variance of the mean of placements, whose two classes vary each by itself."""
    total = 0.0
    for rows in (values[positive], values[~positive]):
        if len(rows) > 1:
            total += len(rows) / (len(rows) - 1) * float(((rows - rows.mean()) ** 2).sum())
    return total / len(values) ** 2


def _check_folds(models: Sequence[ModelRows], clusters: NDArray[np.int64] | None, test_share: float) -> None:
    if not isinstance(test_share, int | float) or not 0 < test_share < math.inf:
        raise ConfigError(
            "test_share must be the number of test rows for each training row of a fold, such as "
            f"1 / 9 for ten folds; got {test_share!r}"
        )
    if clusters is not None:
        raise ConfigError(
            "test_share means that each value belongs to a fold, and folds have no clusters; remove by"
        )
    if models[0].seeds > 1:
        raise ConfigError(
            "folds need one training of each model; for several trainings, pass the mean of each fold"
        )


def _check(
    models: Sequence[ModelRows], level: float, equivalence: float = 0.0, correction: str = "raw"
) -> None:
    if len(models) < 2:
        raise ConfigError(f"compare needs at least two models, got {len(models)}")
    labels = [model.label for model in models]
    if len(set(labels)) < len(labels):
        raise ConfigError(f"each model needs its own name, got {', '.join(labels)}")
    if len({model.seeds for model in models}) > 1:
        counts = ", ".join(f"{model.label} {model.seeds}" for model in models)
        raise ConfigError(f"all models need the same number of trainings, got {counts}")
    fewest = min(models, key=lambda model: model.table.shape[1])
    if fewest.table.shape[1] < 2:
        rows = plural(fewest.table.shape[1], "row")
        raise ConfigError(f"the models share only {rows} with a value; intervals need at least two")
    if not isinstance(level, int | float) or not 0 < level < 1:
        raise ConfigError(f"level must be between 0 and 1, got {level!r}")
    if not isinstance(equivalence, int | float) or not 0 <= equivalence < math.inf:
        raise ConfigError(f"equivalence must be 0 or more, in the metric's unit, got {equivalence!r}")
    if correction not in CORRECTIONS:
        raise ConfigError(f"correction must be one of {', '.join(CORRECTIONS)}, got {correction!r}")
