"""Comparison: whether two models differ, by the values that they give the same users."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...exceptions import MetricInputError, missing_extra
from .per_user import Column, PerUser

K = TypeVar("K")
Floats = npt.NDArray[np.float64]
_AT_ONCE = 1 << 22  # resampled values that are held at a time


@dataclass(frozen=True)
class Comparison:
    """How the values of model a differ from those of model b, over the users that both give a value.

    Attributes:
        metric: the name of the metric.
        users: how many users are compared.
        mean_a, mean_b: the means over them.
        difference: the mean of a less that of b.
        low, high: bounds of the confidence interval of the difference, by a paired bootstrap over users.
        p_value: of the two-sided Wilcoxon signed-rank test; 1 where no user differs.
        effect_size: the difference in standard deviations of the users' differences (Cohen's d of pairs); nan
            where these are all the same.
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
    """Compare two models by a metric, user by user; needs SciPy.

    Args:
        a: what `per_user()` gave for one model.
        b: and for the other.
        metric: the name of the metric, which both have.
        confidence: of the interval.
        resamples: how often users are drawn again.
        seed: of these draws; the same seed gives the same interval.

    Raises:
        MetricInputError: fewer than two users have a value in both.
        MissingExtraError: SciPy is not installed.

    Source: Efron & Tibshirani 1993, An Introduction to the Bootstrap; Wilcoxon 1945, Biometrics Bulletin
        1(6).

    >>> users = torch.arange(4)
    >>> a = PerUser({"ndcg@10": (users, torch.tensor([0.5, 0.75, 1.0, 0.75]))})
    >>> b = PerUser({"ndcg@10": (users, torch.tensor([0.5, 0.5, 0.75, 0.25]))})
    >>> found = compare(a, b, "ndcg@10")
    >>> found.users, found.difference, found.p_value
    (4, 0.25, 0.25)
    """
    first, second = _paired(a[metric], b[metric])
    if not len(first):
        raise MetricInputError(
            f"{metric}: no user has a value in both; compare models that have measured the same users, under "
            f"the same numbers. {_known(a[metric])} in one, {_known(b[metric])} in the other"
        )
    if len(first) < 2:
        raise MetricInputError(
            f"{metric}: two users at least must have a value in both, to be compared; there are {len(first)}"
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
        p_value=_signed_rank(gaps),
        effect_size=float(gaps.mean()) / spread if spread > 0 else float("nan"),
    )


def compare_all(
    a: PerUser, b: PerUser, metrics: Iterable[str] | None = None, **options: Any
) -> dict[str, Comparison]:
    """Compare two models by several metrics, with the p-values of all of them corrected together by `holm`.

    Args:
        a: what `per_user()` gave for one model.
        b: and for the other.
        metrics: their names; all that both have, if left out.
        options: those of `compare`.
    """
    names = list(metrics) if metrics is not None else [name for name in a if name in b]
    found = {name: compare(a, b, name, **options) for name in names}
    corrected = holm({name: one.p_value for name, one in found.items()})
    return {name: replace(one, p_value=corrected[name]) for name, one in found.items()}


def compare_strata(
    a: PerUser, b: PerUser, by: str, metrics: Iterable[str] | None = None, **options: Any
) -> dict[tuple[str, int], Comparison]:
    """Compare two models within each stratum of users, with all p-values corrected together by `holm`.

    Args:
        a: what `per_user()` gave for one model, which says what stratum a user is in.
        b: and for the other.
        by: what users are told apart by, `group` or `popularity`.
        metrics: their names; all that both have, if left out.
        options: those of `compare`.

    Returns:
        The comparisons by metric and stratum; a stratum with fewer than two users who have a value in both is
        left out.

    Raises:
        MetricInputError: the users of a are not told apart in this way.
    """
    names = list(metrics) if metrics is not None else [name for name in a if name in b]
    found = {}
    for name in names:
        for stratum, users in a.strata_of(name, by).items():
            one, other = (_within(table[name], users) for table in (a, b))
            if len(_paired(one, other)[0]) > 1:
                found[name, stratum] = compare(PerUser({name: one}), PerUser({name: other}), name, **options)
    corrected = holm({key: one.p_value for key, one in found.items()})
    return {key: replace(one, p_value=corrected[key]) for key, one in found.items()}


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Correct p-values for their number, step by step from the smallest.

    Source: Holm 1979, Scandinavian Journal of Statistics 6(2).

    >>> holm({"ndcg@10": 0.01, "recall@10": 0.04, "mrr@10": 0.03})
    {'ndcg@10': 0.03, 'recall@10': 0.06, 'mrr@10': 0.06}
    """
    corrected: dict[K, float] = {}
    largest = 0.0
    for rank, name in enumerate(sorted(p_values, key=lambda name: p_values[name])):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[name]))
        corrected[name] = largest
    return {name: corrected[name] for name in p_values}


def _paired(a: Column, b: Column) -> tuple[Floats, Floats]:
    """The values of the users who have one in both, in the order of the users."""
    tables = [
        {user: value for user, value in zip(users.tolist(), values.tolist(), strict=True) if value == value}
        for users, values in (a, b)
    ]
    both = sorted(tables[0].keys() & tables[1].keys())
    first, second = (np.array([table[user] for user in both], dtype=np.float64) for table in tables)
    return first, second


def _within(column: Column, users: Tensor) -> Column:
    """What a column has of some users."""
    own = torch.isin(column[0], users)
    return column[0][own], column[1][own]


def _known(column: Column) -> str:
    users = column[0][~column[1].isnan()]
    return f"{len(users)} users from {int(users.min())} to {int(users.max())}" if len(users) else "no users"


def _interval(gaps: Floats, confidence: float, resamples: int, seed: int) -> tuple[float, float]:
    if (gaps == gaps[0]).all():
        return float(gaps[0]), float(gaps[0])
    found = _scipy_stats().bootstrap(
        (gaps,),
        np.mean,
        n_resamples=resamples,
        batch=max(1, _AT_ONCE // len(gaps)),
        confidence_level=confidence,
        method="percentile",
        random_state=np.random.default_rng(seed),
    )
    return float(found.confidence_interval.low), float(found.confidence_interval.high)


def _signed_rank(gaps: Floats) -> float:
    return float(_scipy_stats().wilcoxon(gaps).pvalue) if gaps.any() else 1.0


def _scipy_stats() -> Any:
    try:
        import scipy.stats
    except ImportError as err:
        raise missing_extra("a comparison of users", "scipy", "compare") from err
    return scipy.stats
