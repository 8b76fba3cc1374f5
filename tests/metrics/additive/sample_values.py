"""A value of every additive type, as Hypothesis draws them."""

from __future__ import annotations

import math

from hypothesis import strategies as st

from hpometrics.metrics.additive import (
    AverageMetric,
    DistinctMetric,
    FixedMetric,
    GlobalAverageMetric,
    GlobalFixedMetric,
    GlobalSumMetric,
    GlobalTimerMetric,
    MacroAverageMetric,
    SumMetric,
    TimerMetric,
)


class Perplexity(AverageMetric):
    """What a user writes: another end to the same sums."""

    def value(self) -> float:
        """The exponential of the mean."""
        return math.exp(super().value())


TASKS = ("a", "b", "c")
INTS = st.integers()
DYADIC = st.integers(-(2**30), 2**30).map(lambda n: n / 1024)
"""Floats whose sums float64 holds exactly, in any order."""
FLOATS = st.floats(-1e9, 1e9)


def drawn(numbers: st.SearchStrategy) -> dict[type, st.SearchStrategy]:
    """For each type, values made of numbers such as these."""
    averages = st.builds(AverageMetric, numbers, numbers)
    return {
        FixedMetric: st.just(FixedMetric(729)),
        SumMetric: st.builds(SumMetric, numbers),
        AverageMetric: averages,
        Perplexity: st.builds(Perplexity, numbers, numbers),
        TimerMetric: st.builds(TimerMetric, numbers, numbers, numbers),
        GlobalFixedMetric: st.just(GlobalFixedMetric(math.nan)),
        GlobalSumMetric: st.builds(GlobalSumMetric, numbers),
        GlobalAverageMetric: st.builds(GlobalAverageMetric, numbers, numbers),
        GlobalTimerMetric: st.builds(GlobalTimerMetric, numbers, numbers, numbers),
        MacroAverageMetric: st.builds(MacroAverageMetric, st.dictionaries(st.sampled_from(TASKS), averages)),
        DistinctMetric: st.builds(DistinctMetric.of, st.text("abc ", max_size=12), st.just(2)),
    }


TYPES = list(drawn(INTS))
