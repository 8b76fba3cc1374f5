"""P-values of paired counts, and p-values corrected for several comparisons."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeVar

K = TypeVar("K")
McNemarTest = Literal["exact", "mid-p", "chi-squared", "corrected"]


def holm(p_values: Mapping[K, float]) -> dict[K, float]:
    """Correct p-values for multiple comparisons, step by step from the smallest.

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


def benjamini_hochberg(p_values: Mapping[K, float]) -> dict[K, float]:
    """Correct p-values so that of the differences below a level at most that share is expected to be none.

    Source: Benjamini & Hochberg 1995, Journal of the Royal Statistical Society B 57(1).

    >>> benjamini_hochberg({"ndcg@10": 0.01, "recall@10": 0.04, "mrr@10": 0.03})
    {'ndcg@10': 0.03, 'recall@10': 0.04, 'mrr@10': 0.04}
    """
    corrected: dict[K, float] = {}
    smallest = 1.0
    ordered = sorted(p_values, key=lambda name: p_values[name])
    for rank, name in reversed(list(enumerate(ordered, 1))):
        smallest = min(smallest, len(ordered) / rank * p_values[name])
        corrected[name] = smallest
    return {name: corrected[name] for name in p_values}


def mcnemar(only_a: int, only_b: int, test: McNemarTest = "exact") -> float:
    """Compute the p-value of two counts of rows: those right in one model alone, and in the other alone.

    Args:
        only_a: how many rows are right in the first model alone.
        only_b: how many in the second alone.
        test: `exact` is binomial and two-sided; `mid-p` counts half of what was observed; `chi-squared` and
            `corrected`, with Yates' correction, are for many rows.

    Source: McNemar 1947, Psychometrika 12(2); Fagerland, Lydersen & Laake 2013, BMC Medical Research
        Methodology 13(91).

    >>> mcnemar(5, 0), mcnemar(10, 3)
    (0.0625, 0.09228515625)
    """
    differing, fewer = only_a + only_b, min(only_a, only_b)
    if not differing:
        return 1.0
    if test in ("exact", "mid-p"):
        tail = sum(math.comb(differing, count) for count in range(fewer + 1)) / (1 << differing)
        half = math.comb(differing, fewer) / (1 << differing) if test == "mid-p" else 0.0
        return min(1.0, 2 * tail - half)
    gap = max(0, abs(only_a - only_b) - (test == "corrected"))
    return math.erfc(gap / math.sqrt(2 * differing))
