from __future__ import annotations

import math
import random
import statistics

import numpy as np
import pytest
import torch
from sample_evaluations import RMSE, Accuracy, Precision, PrecisionAtK, Recall

from hpometrics import MAXIMIZE, MetricInputError
from hpometrics.evaluation import (
    AverageMetric,
    MapReduceMetric,
    OptionAverageMetric,
    OptionStdevMetric,
    StdevMetric,
    SumMetric,
    ZeroMetric,
)


def valued(base):
    """A metric of this base whose number of a tuple is its query."""
    return type(f"Valued{base.__name__}", (base,), {"calculate": lambda self, q, p, a: q})()


def folds(*values):
    """Folds of tuples with these queries."""
    return [(f"fold {i}", [(value, None, None) for value in fold]) for i, fold in enumerate(values)]


def test_an_average_is_pooled_over_folds():
    """1 to 6 in two folds average 3.5, and unequal folds do not weigh the same."""
    assert valued(AverageMetric).score(folds([1, 2, 3], [4, 5, 6])) == 3.5
    measured = valued(AverageMetric).measure(folds([1.0], [3.0, 5.0, 7.0]))
    assert (measured.value, measured.fold_values) == (4.0, (1.0, 5.0))
    assert (measured.mean, measured.deviation) == (3.0, math.sqrt(8))


def test_a_dont_care_is_not_in_the_denominator():
    """Of 1, 2, 3, -4, -5, 6 without the negative ones the average is 3."""
    rows = folds([1, 2, 3], [None, None, 6])
    assert valued(OptionAverageMetric).score(rows) == 3.0
    assert valued(OptionAverageMetric).fold_scores(rows) == (2.0, 6.0)


def test_a_standard_deviation_is_that_of_the_population():
    """Four 1s and four 5s deviate by 2; a don't-care changes nothing."""
    assert valued(StdevMetric).score(folds([1, 1, 1, 1], [5, 5, 5, 5])) == 2.0
    assert valued(OptionStdevMetric).score(folds([1, 1, 1, 1], [5, 5, 5, 5, None])) == 2.0


@pytest.mark.parametrize("shift", [0.0, 1e9, -1e12])
def test_a_standard_deviation_is_stable(shift):
    """A large constant in all values does not eat the digits that differ."""
    random.seed(3)
    values = [shift + random.random() for _ in range(1000)]
    expected = statistics.pstdev(values)
    assert valued(StdevMetric).score(folds(values[:300], values[300:])) == pytest.approx(expected, rel=1e-12)


def test_a_sum_keeps_its_type():
    """Ints sum to an int, of any size, floats to a float."""
    whole, real = valued(SumMetric).score(folds([1, 2, 3], [4, 5, 6])), valued(SumMetric).score(folds([21.0]))
    assert (whole, type(whole), real, type(real)) == (21, int, 21.0, float)
    assert valued(SumMetric).score(folds([2**60, 1], [True])) == 2**60 + 2
    assert valued(SumMetric).score(folds([0.1] * 10)) == 1.0


def test_a_mean_is_exact():
    """What cancels cancels, in whatever order it comes."""
    assert valued(AverageMetric).score(folds([1e16, 1.0], [-1e16, 2.0])) == 0.75


def test_zero_is_a_placeholder():
    """It is 0 of anything, and can be optimized: everything ties."""
    assert (ZeroMetric().score([]), ZeroMetric().direction) == (0.0, MAXIMIZE)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (folds(), "the evaluation has no tuples"),
        (folds([], []), "the evaluation has no tuples"),
        (folds([None, None], [None]), "all 3 tuples are don't-cares"),
        (folds([1.0, math.nan], [None, 2.0]), "calculate returned nan for 1 of 4 tuples"),
        (folds([-math.inf, math.inf]), "calculate returned -inf for 2 of 2 tuples"),
    ],
)
@pytest.mark.parametrize("base", [OptionAverageMetric, OptionStdevMetric])
def test_an_undefined_value_is_nan_with_a_reason(base, rows, reason):
    """Never 0, and never the value of what happens to be left."""
    measured = valued(base).measure(rows)
    assert math.isnan(measured.value)
    assert measured.reason == reason


def test_an_empty_sum_is_undefined_too():
    """A minimized sum over nothing must not win."""
    assert math.isnan(valued(SumMetric).score(folds([])))


def test_an_undefined_fold_makes_the_mean_of_folds_undefined():
    """The pooled value stands, the mean of the folds has no value to take."""
    measured = valued(OptionAverageMetric).measure(folds([1.0, 3.0], [None]))
    assert (measured.value, measured.folds[1].reason) == (2.0, "all 1 tuples are don't-cares")
    assert math.isnan(measured.mean) and math.isnan(measured.deviation)


def test_one_fold_has_no_deviation():
    """Of one value nothing is known about the spread."""
    measured = valued(AverageMetric).measure(folds([1.0, 2.0]))
    assert measured.mean == 1.5 and math.isnan(measured.deviation)


@pytest.mark.parametrize(
    "one", [True, np.float32(1), np.int64(1), np.bool_(True), torch.tensor(1.0), torch.tensor(1)]
)
def test_a_number_may_be_of_any_library(one):
    """A bool, a NumPy scalar or a tensor without dimensions is read as the number it is."""
    assert valued(AverageMetric).score(folds([one, 0])) == 0.5


@pytest.mark.parametrize("value", ["1.0", [1.0], object(), np.ones(2), 1j])
def test_what_is_no_number_is_refused(value):
    """A text that looks like a number is none either."""
    with pytest.raises(MetricInputError, match="ValuedAverageMetric: calculate must return a number, got"):
        valued(AverageMetric).score(folds([value]))


@pytest.mark.parametrize("base", [AverageMetric, StdevMetric, SumMetric])
def test_none_is_refused_where_nothing_may_be_left_out(base):
    """The message names what to derive from."""
    with pytest.raises(MetricInputError, match=r"calculate returned None; .* OptionAverageMetric"):
        valued(base).score(folds([1, None]))


def test_a_header_shows_the_parameters():
    """The class is the name, unless it has a title; arguments follow as in PredictionIO's templates."""
    assert PrecisionAtK(k=10).header == "Precision@K (k=10, threshold=4.0)"
    assert Precision(label=1.0).header == "Precision (label=1.0)"
    assert Accuracy().header == "Accuracy"


def test_the_identity_is_class_and_parameters():
    """Equal arguments make equal metrics."""
    assert PrecisionAtK(10) == PrecisionAtK(10) != PrecisionAtK(5)
    assert Accuracy() == Accuracy() != RMSE()
    assert len({Accuracy(), Accuracy()}) == 1


def test_precision_at_k_leaves_out_users_without_positives():
    """2 of min(3, 2) for one user, 0 of 1 for another; the third liked nothing."""
    rows = [("u", ["a", "b", "c"], {"a": 5, "c": 4}), ("v", ["a"], {"b": 5}), ("w", ["a"], {"a": 1})]
    assert PrecisionAtK(k=3).score([(None, rows)]) == 0.5


def test_the_documents_matrix():
    """Predicted by actual (30, 0, 60 / 15, 35, 10 / 0, 0, 50): accuracy .575, precision 1/3, recall 2/3."""
    matrix = [(30, 0, 60), (15, 35, 10), (0, 0, 50)]
    rows = [
        ("q", i + 1.0, j + 1.0) for i, row in enumerate(matrix) for j, n in enumerate(row) for _ in range(n)
    ]
    found = [metric.score([(None, rows)]) for metric in (Accuracy(), Precision(1.0), Recall(1.0))]
    assert found == [0.575, 30 / 90, 30 / 45]


def test_a_root_is_taken_of_the_pooled_mean():
    """sqrt((9 + 16 + 0) / 3), not a mean of the folds' roots."""
    rows = [(0, [("q", 3.0, 0.0), ("q", 4.0, 0.0)]), (1, [("q", 1.0, 1.0)])]
    assert RMSE().score(rows) == math.sqrt(25 / 3)
    assert RMSE().fold_scores(rows) == (math.sqrt(12.5), 0.0)


class Words(MapReduceMetric):
    """How many different words were predicted; a set that grows in place."""

    direction = MAXIMIZE

    def map(self, query, predicted, actual):
        return None if predicted is None else {predicted}

    def reduce(self, a, b):
        a |= b
        return a

    def finish(self, total):
        return len(total)


def test_map_reduce_finish_over_folds():
    """A reduction that changes its first argument leaves each fold's value as it is."""
    measured = Words().measure([(0, [("q", "a", 0), ("q", "b", 0)]), (1, [("q", "b", 0), ("q", None, 0)])])
    assert (measured.value, measured.fold_values) == (2, (2, 1))


def test_map_reduce_of_nothing_is_undefined():
    """`finish` is not asked."""
    measured = Words().measure([(0, [("q", None, 0)]), (1, [])])
    assert math.isnan(measured.value) and measured.reason == "no tuple counted"


def test_every_tuple_is_calculated_once():
    """Pooled and per fold come from one pass."""
    asked = []

    class Counting(AverageMetric):
        def calculate(self, query, predicted, actual):
            asked.append(query)
            return 1.0

    Counting().measure(folds([1, 2], [3]))
    assert asked == [1, 2, 3]
