"""Comparison of two models by the values of the same users, with tests and intervals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..p_values import holm
from .per_user import Column, PerUser

Floats = npt.NDArray[np.float64]
_AT_ONCE = 1 << 22  # resampled values in memory at a time


@dataclass(frozen=True)
class Comparison:
    """The difference between the values of model a and those of model b, over the users with both.

    Attributes:
        metric: the name of the metric.
        users: the number of compared users.
        mean_a, mean_b: the means over these users.
        difference: the mean of a minus that of b.
        low, high: bounds of the confidence interval of the difference, by a paired bootstrap over users.
        p_value: of the two-sided Wilcoxon signed-rank test; 1 where no user differs.
        effect_size: the difference in standard deviations of the users' differences (Cohen's d of pairs); nan
            if these are all equal.
    """

    metric: str
    users: int
    mean_a: float
    mean_b: float
    difference: float
    low: float
    high: float
    p_value: float
    effect_size: float


def compare(
    a: PerUser, b: PerUser, metric: str, *, confidence: float = 0.95, resamples: int = 9999, seed: int = 0
) -> Comparison:
    """Compare two models by a metric, user by user.

    Args:
        a: the result of `per_user()` for one model.
        b: the result for the other.
        metric: the name of the metric, which both have.
        confidence: the level of the interval.
        resamples: the number of bootstrap samples.
        seed: the seed of the samples; the same seed gives the same interval.

    Raises:
        MetricInputError: fewer than two users have a value in both.

    Source: Efron & Tibshirani 1993, An Introduction to the Bootstrap; Wilcoxon 1945, Biometrics Bulletin
        1(6).

    >>> users = torch.arange(4)
    >>> a = PerUser({"ndcg@10": (users, torch.tensor([0.5, 0.75, 1.0, 0.75]))})
    >>> b = PerUser({"ndcg@10": (users, torch.tensor([0.5, 0.5, 0.75, 0.25]))})
    >>> comparison = compare(a, b, "ndcg@10")
    >>> comparison.users, comparison.difference, comparison.p_value
    (4, 0.25, 0.25)
    """
    first, second = _paired(a[metric], b[metric])
    if not len(first):
        raise MetricInputError(
            f"{metric}: no user has a value in both; compare models measured on the same users with the "
            f"same user numbers. {_format_users(a[metric])} in one, {_format_users(b[metric])} in the other"
        )
    if len(first) < 2:
        raise MetricInputError(
            f"{metric}: a comparison needs at least two users with a value in both; there are {len(first)}"
        )
    gaps = first - second
    low, high = _interval(gaps, confidence, resamples, seed)
    spread = float(gaps.std(ddof=1))
    return Comparison(
        metric=metric,
        users=len(gaps),
        mean_a=float(first.mean()),
        mean_b=float(second.mean()),
        difference=float(gaps.mean()),
        low=low,
        high=high,
        p_value=float(_scipy_stats().wilcoxon(gaps).pvalue) if gaps.any() else 1.0,
        effect_size=float(gaps.mean()) / spread if spread > 0 else float("nan"),
    )


def compare_all(
    a: PerUser, b: PerUser, metrics: Iterable[str] | None = None, **options: Any
) -> dict[str, Comparison]:
    """Compare two models by several metrics, with the p-values of all of them corrected together by `holm`.

    Args:
        a: the result of `per_user()` for one model.
        b: the result for the other.
        metrics: the names of the metrics; by default all that both have.
        options: those of `compare`.
    """
    names = list(metrics) if metrics is not None else [name for name in a if name in b]
    comparisons = {name: compare(a, b, name, **options) for name in names}
    corrected = holm({name: one.p_value for name, one in comparisons.items()})
    return {name: replace(one, p_value=corrected[name]) for name, one in comparisons.items()}


def compare_strata(
    a: PerUser, b: PerUser, by: str, metrics: Iterable[str] | None = None, **options: Any
) -> dict[tuple[str, int], Comparison]:
    """Compare two models within each stratum of users, with all p-values corrected together by `holm`.

    Args:
        a: the result of `per_user()` for one model, which defines the stratum of each user.
        b: the result for the other.
        by: the kind of strata, `group` or `popularity`.
        metrics: the names of the metrics; by default all that both have.
        options: those of `compare`.

    Returns:
        The comparisons by metric and stratum; strata with fewer than two users who have a value in both are
        excluded.

    Raises:
        MetricInputError: `a` has no strata of this kind.
    """
    names = list(metrics) if metrics is not None else [name for name in a if name in b]
    comparisons = {}
    for name in names:
        for stratum, users in a.strata_of(name, by).items():
            one, other = (_select_users(table[name], users) for table in (a, b))
            if len(_paired(one, other)[0]) > 1:
                comparisons[name, stratum] = compare(
                    PerUser({name: one}), PerUser({name: other}), name, **options
                )
    corrected = holm({key: one.p_value for key, one in comparisons.items()})
    return {key: replace(one, p_value=corrected[key]) for key, one in comparisons.items()}


def _paired(a: Column, b: Column) -> tuple[Floats, Floats]:
    """Return the values of the users who have one in both, in the order of the users."""
    tables = [
        {user: value for user, value in zip(users.tolist(), values.tolist(), strict=True) if value == value}
        for users, values in (a, b)
    ]
    both = sorted(tables[0].keys() & tables[1].keys())
    first, second = (np.array([table[user] for user in both], dtype=np.float64) for table in tables)
    return first, second


def _select_users(column: Column, users: Tensor) -> Column:
    """Return the rows of a column that belong to some users."""
    own = torch.isin(column[0], users)
    return column[0][own], column[1][own]


def _format_users(column: Column) -> str:
    users = column[0][~column[1].isnan()]
    return f"{len(users)} users from {int(users.min())} to {int(users.max())}" if len(users) else "no users"


def _interval(gaps: Floats, confidence: float, resamples: int, seed: int) -> tuple[float, float]:
    if (gaps == gaps[0]).all():
        return float(gaps[0]), float(gaps[0])
    result = _scipy_stats().bootstrap(
        (gaps,),
        np.mean,
        n_resamples=resamples,
        batch=max(1, _AT_ONCE // len(gaps)),
        confidence_level=confidence,
        method="percentile",
        random_state=np.random.default_rng(seed),
    )
    return float(result.confidence_interval.low), float(result.confidence_interval.high)


def _scipy_stats() -> Any:
    import scipy.stats  # takes half a second, and only a comparison needs it

    return scipy.stats
