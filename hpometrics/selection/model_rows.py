"""The row values of models, of one training or of several, and their comparison pair by pair."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from .._formatting import plural
from ..direction import Direction
from ..exceptions import ConfigError
from ..metrics.p_values import mcnemar
from .intervals import Scale
from .model_comparison import (
    CORRECTIONS,
    Correction,
    ModelComparison,
    PairDifference,
    Verdict,
    corrected_together,
)
from .two_way import FEW_CLUSTERS, TwoWay, by_cluster, unpaired

FEW_ROWS = 200
"""Up to so many rows have Student's quantile; those of McNemar and DeLong have the normal one."""
LEAST_CLUSTERS = 20
_MOST_EXACT = 200  # rows that differ, up to which McNemar's test is exact
_NEAR = 1e-9


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
    """

    label: str
    table: NDArray[np.float64]
    method: str = "rows"
    count: int = 0
    positive: NDArray[np.bool_] | None = None
    rows_id: str | None = None

    @property
    def seeds(self) -> int:
        """How many trainings it has."""
        return len(self.table)

    @property
    def rows(self) -> int:
        """How many rows were measured."""
        return self.count or self.table.shape[1]


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
    scale: Scale = Scale.IDENTITY,
    notes: Sequence[str] = (),
) -> ModelComparison:
    """Compare the first model with each of the others, or every model with every other.

    One training of each is compared by McNemar's exact test where every row counts 0 or 1, by DeLong's
    variance where rows are pairs, else by the mean of the rows' differences and its standard error. Several
    trainings are compared over seeds and rows, see `TwoWay`.

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
        scale: on which the interval of each value is symmetric.
        notes: further lines.

    Raises:
        ConfigError: there are fewer than two models, or a setting is out of range.

    Source: McNemar 1947, Psychometrika 12(2); DeLong, DeLong & Clarke-Pearson 1988, Biometrics 44(3);
        Schuirmann 1987, Journal of Pharmacokinetics and Biopharmaceutics 15(6), for equivalence.
    """
    _check(models, level, equivalence, correction)
    count = None if clusters is None else int(clusters.max()) + 1
    if count == 1:
        raise ConfigError("all rows are in one cluster; two at least show how clusters vary")
    sides = [_Side(model, clusters) for model in models]
    chosen = list(combinations(sides, 2)) if every else [(sides[0], other) for other in sides[1:]]
    pairs = tuple(_difference(a, b, level) for a, b in chosen)
    few = []
    if count is not None and count < LEAST_CLUSTERS:
        few.append(f"{plural(count, 'cluster')}: intervals of fewer than {LEAST_CLUSTERS} are rough")
    if not all(pair.paired for pair in pairs):
        few.append("not paired: the models were measured on other rows")
    comparison = ModelComparison(
        metric,
        direction,
        {side.label: scale.interval(side.parts.mean, side.parts.half_width(level)) for side in sides},
        pairs,
        level,
        equivalence,
        max(model.rows for model in models),
        models[0].seeds,
        count,
        correction,
        (*few, *notes),
    )
    return corrected_together([comparison])[0]


class _Side:
    """A model's row values, or those of its clusters, and the parts of their mean."""

    def __init__(self, model: ModelRows, clusters: NDArray[np.int64] | None) -> None:
        self.model, self.label = model, model.label
        self.is_clustered = clusters is not None
        self.table = model.table if clusters is None else by_cluster(model.table, clusters)
        self.parts = self._parts(self.table, model.positive)

    def minus(self, other: _Side) -> TwoWay:
        """Return the parts of the difference of two models; each adds its rows if they are not the same."""
        if self.is_paired_with(other):
            return self._parts(self.table - other.table, self.model.positive)
        differences = self.table.mean(axis=1) - other.table.mean(axis=1)
        return unpaired(self.parts, other.parts, differences.tolist())

    def is_paired_with(self, other: _Side) -> bool:
        """Check whether both have the same rows."""
        same = self.table.shape == other.table.shape and self.model.method == other.model.method
        return same and self.model.rows_id == other.model.rows_id

    @property
    def is_right(self) -> NDArray[np.bool_] | None:
        """Which rows have the value 1; None unless each has 0 or 1 in one training."""
        rows = self.table[0]
        near = abs(rows - rows.round()).max(initial=0.0) < _NEAR and rows.min(initial=0.0) > -_NEAR
        if self.is_clustered or len(self.table) > 1 or self.model.method != "rows" or not near:
            return None
        return rows.round() == 1 if rows.max(initial=0.0) < 1 + _NEAR else None

    def _parts(self, table: NDArray[np.float64], positive: NDArray[np.bool_] | None) -> TwoWay:
        if self.is_clustered:
            return TwoWay.of(table, FEW_CLUSTERS)
        if len(table) == 1 and positive is not None:
            return replace(TwoWay.of(table), row_variance=_variance_by_class(table[0], positive))
        is_normal = len(table) == 1 and (self.model.method == "pairs" or self.is_right is not None)
        return TwoWay.of(table, 0 if is_normal or len(table) > 1 else FEW_ROWS)


def _difference(a: _Side, b: _Side, level: float) -> PairDifference:
    """Return the difference of two models, with its own p-value and no verdict yet."""
    parts, paired = a.minus(b), a.is_paired_with(b)
    ours, theirs = a.is_right, b.is_right
    p, test, alone = parts.p_value, _test_of(a, parts, paired), None
    if ours is not None and theirs is not None and paired:
        alone = int((ours & ~theirs).sum()), int((theirs & ~ours).sum())
        if sum(alone) < _MOST_EXACT:
            p, test = mcnemar(*alone), "McNemar"
        else:
            test = "paired z"
    return PairDifference(
        a.label,
        b.label,
        parts.interval(level),
        p,
        p,
        test,
        Verdict.NOT_TOLD_APART,
        parts.detectable(level),
        alone,
        paired,
        _parts=parts,
        _rows_per_column=a.model.rows / a.table.shape[1],
        _level=level,
    )


def _test_of(side: _Side, parts: TwoWay, paired: bool) -> str:
    if parts.seeds > 1:
        return "t of seeds and rows"
    if side.model.method == "pairs" and not side.is_clustered:
        return "DeLong"
    quantile = "t" if parts.rows < parts.student_below else "z"
    if side.is_clustered:
        return f"{quantile} of clusters"
    return f"paired {quantile}" if paired else f"unpaired {quantile}"


def _variance_by_class(values: NDArray[np.float64], positive: NDArray[np.bool_]) -> float:
    """Return the variance of the mean of placements, whose two classes vary each by itself."""
    total = 0.0
    for rows in (values[positive], values[~positive]):
        if len(rows) > 1:
            total += len(rows) / (len(rows) - 1) * float(((rows - rows.mean()) ** 2).sum())
    return total / len(values) ** 2


def _check(models: Sequence[ModelRows], level: float, equivalence: float, correction: str) -> None:
    if len(models) < 2:
        raise ConfigError(f"two models or more are compared, got {len(models)}")
    labels = [model.label for model in models]
    if len(set(labels)) < len(labels):
        raise ConfigError(f"each model needs a name of its own, got {', '.join(labels)}")
    if len({model.seeds for model in models}) > 1:
        counts = ", ".join(f"{model.label} {model.seeds}" for model in models)
        raise ConfigError(f"each model needs as many trainings as the others, got {counts}")
    fewest = min(models, key=lambda model: model.table.shape[1])
    if fewest.table.shape[1] < 2:
        raise ConfigError(f"{fewest.label} has {plural(fewest.rows, 'row')}; two at least show how rows vary")
    if not 0 < level < 1:
        raise ConfigError(f"level must be between 0 and 1, got {level!r}")
    if not 0 <= equivalence < math.inf:
        raise ConfigError(f"equivalence must be 0 or more, in the metric's unit, got {equivalence!r}")
    if correction not in CORRECTIONS:
        raise ConfigError(f"correction must be one of {', '.join(CORRECTIONS)}, got {correction!r}")
