"""Additive values one by one: what they come to, take and refuse, and how they stand beside numbers."""

from __future__ import annotations

import math
import operator
import pickle
import unittest
from fractions import Fraction

import numpy as np
import pytest
import torch

from hpometrics.exceptions import AdditionError, MetricInputError
from hpometrics.metrics.additive import (
    AverageMetric,
    DistinctMetric,
    FixedMetric,
    GlobalAverageMetric,
    MacroAverageMetric,
    SumMetric,
    TimerMetric,
)

UNDEFINED = {
    "0/0": AverageMetric(0, 0),
    "x/0": AverageMetric(3, 0),
    "nan": AverageMetric(math.nan, 1),
    "of infinitely many": AverageMetric(1, math.inf),
    "infinite": SumMetric(math.inf),
    "fixed infinite": FixedMetric(-math.inf),
    "too large for a float": SumMetric(10**400),
    "quotient too large": AverageMetric(1e300, 1e-300),
    "no time": TimerMetric(3, start=5, end=5),
    "no time and nothing done": TimerMetric(0),
    "no n-grams": DistinctMetric.of("word", 2),
    "no task": MacroAverageMetric({}),
    "an undefined task": MacroAverageMetric({"a": AverageMetric(1, 1), "b": AverageMetric(0, 0)}),
}

HALF = AverageMetric(1, 2)
HALVES = [
    HALF,
    SumMetric(0.5),
    DistinctMetric.of("no no", 1),
    MacroAverageMetric({"a": AverageMetric(1, 1), "b": AverageMetric(0, 1)}),
]
NOTHING = AverageMetric(0, 0)


@pytest.mark.parametrize("value", UNDEFINED.values(), ids=UNDEFINED)
def test_undefined_is_nan(value):
    """What nothing was counted for is nan: 0 would be the worst score, or the best."""
    assert math.isnan(value.value())


def test_a_mean_is_divided_once():
    """1 of 1 and 1 of 3 are 2 of 4; the mean of the means would be 2/3."""
    assert (AverageMetric(1, 1) + AverageMetric(1, 3)).value() == 0.5


def test_a_value_is_read_as_a_float():
    """By the builtin, whatever it holds."""
    assert float(AverageMetric(1, 2)) == 0.5
    assert float(SumMetric(3)) == 3.0


def test_ints_are_exact():
    """2^53 + 1 is no float64; as a sum of ints it is not rounded."""
    total = SumMetric(2**53) + SumMetric(1) + SumMetric(2**70)
    assert total.total == 2**53 + 1 + 2**70


def test_a_rate_spans_all_workers():
    """30 tokens from second 0 to second 6, however the workers' times overlap: not the sum of rates."""
    workers = [TimerMetric(10, start=0, end=4), TimerMetric(20, start=2, end=6)]
    assert sum(workers).value() == 5.0


def test_a_rate_begins_now():
    """Without times a timer has no duration; with a start it ends now."""
    now = TimerMetric(1)
    assert now.start == now.end
    assert TimerMetric(1, start=0).end >= now.end


def test_fixed_values_agree_or_are_refused():
    """The error names both values; two nan agree."""
    assert math.isnan((FixedMetric(math.nan) + FixedMetric(float("nan"))).value())
    with pytest.raises(MetricInputError, match=r"the same everywhere, got 729 and 730"):
        FixedMetric(729) + FixedMetric(730)


def test_tasks_of_uneven_workers():
    """A worker with tasks a (1) and b (0), one with c (0): the mean of three tasks, not of two workers."""
    one = MacroAverageMetric({"a": AverageMetric(1, 1), "b": AverageMetric(0, 1)})
    other = MacroAverageMetric({"c": AverageMetric(0, 1)})
    assert (one + other).value() == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    ("first", "second", "named"),
    [
        (SumMetric(1), AverageMetric(1, 2), r"SumMetric\(total=1\) \+ AverageMetric\(numer=1, denom=2\)"),
        (AverageMetric(1, 2), GlobalAverageMetric(3, 4), r"AverageMetric\(.*\) \+ GlobalAverageMetric\("),
        (AverageMetric(1, 2), 0.5, r"AverageMetric\(.*\) \+ 0.5 \(float\)"),
        (AverageMetric(1, 2), 0, r"AverageMetric\(.*\) \+ 0 \(int\)"),
    ],
)
def test_two_types_are_not_added(first, second, named):
    """The error names both; it is a TypeError to whoever catches those."""
    with pytest.raises(AdditionError, match=named) as caught:
        first + second
    assert isinstance(caught.value, TypeError)


def test_a_sum_begins_with_nothing_else():
    """`sum` begins with 0 or None; any other start is refused as any other operand is."""
    with pytest.raises(AdditionError, match=r"got AverageMetric\(numer=1, denom=2\) \+ 1 \(int\)"):
        1 + AverageMetric(1, 2)


@pytest.mark.parametrize(
    "given",
    [True, np.bool_(True), np.float32(1), np.int64(1), np.ones(()), np.ones(1), Fraction(1), torch.tensor(1),
     torch.tensor([True]), torch.ones(1, 1, dtype=torch.float16), torch.ones((), requires_grad=True)],
    ids=repr,
)  # fmt: skip
def test_every_number_is_taken(given):
    """Booleans are 0 and 1; numpy's scalars, arrays and tensors of one element are their number."""
    value = AverageMetric(given, 2)
    assert value == AverageMetric(1, 2)
    assert value.value() == 0.5


@pytest.mark.parametrize(
    ("given", "came"),
    [("1", r"got '1' \(str\)"), (None, r"got None \(NoneType\)"), (1j, r"got 1j \(complex\)"),
     ([1], r"got \[1\]"),
     (torch.ones(2), r"got a tensor of shape \(2,\)"), (torch.tensor(1j), "got a tensor"),
     (np.array(["1"]), "got .*str_"), (np.ones(2), r"got array\(\[1., 1.\]\)")],
)  # fmt: skip
def test_what_is_no_number_is_refused(given, came):
    """The error says which part of which value, what came, and what to do."""
    with pytest.raises(
        MetricInputError, match=rf"AverageMetric: denom must be one number, {came}.*'hello' in text"
    ):
        AverageMetric(1, given)


def test_a_tensor_that_changes_later_changes_nothing():
    """A counter that is added to in place was worth what it was when it was taken."""
    counter = torch.zeros((), dtype=torch.float64)
    value = SumMetric(counter)
    counter += 1
    assert value.value() == 0.0


def test_nothing_waits_for_a_device():
    """Tensors of the meta device cannot be read at all: made, added and cut into rows, none of them is."""
    values, mask = torch.ones(2, 3, device="meta"), torch.ones(2, 3, device="meta", dtype=torch.bool)
    masked = AverageMetric.from_mask(values, mask)
    total = sum([*masked, *AverageMetric.many(values[:, 0], [1, 2]), AverageMetric(values[0, 0], 1)])
    assert (total.numer.device.type, total.numer.dtype) == ("meta", torch.float64)
    assert (total.denom.device.type, total.denom.dtype) == ("meta", torch.int64)
    with pytest.raises(RuntimeError, match="meta"):
        total.value()


@pytest.mark.parametrize(("added", "dtype"), [(1, torch.int64), (0.5, torch.float64)])
def test_device_sums_are_in_double_precision(added, dtype):
    """A Python number beside an int64 tensor gives int64 or float64, where torch alone would take float32."""
    count = SumMetric(torch.ones((), dtype=torch.int32, device="meta"))
    assert (count + SumMetric(added)).total.dtype == (SumMetric(added) + count).total.dtype == dtype


def test_many_makes_a_value_per_row():
    """Columns may be lists, arrays and tensors; float32 is taken as the number it is."""
    made = AverageMetric.many(torch.tensor([0.5, 0.25]), np.array([1, 2]))
    assert made == [AverageMetric(0.5, 1), AverageMetric(0.25, 2)]
    assert SumMetric.many(["hello" in text for text in ("hello", "bye")]) == [SumMetric(1), SumMetric(0)]
    assert AverageMetric.many([], []) == []


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (([1, 2, 3], [1, 2]), "columns of equal length; got lengths 3 and 2"),
        ((torch.ones(2, 2), [1, 2]), r"column 0 needs one number per row, shape \(N,\); got shape \(2, 2\)"),
        (([1, 2], torch.tensor(1)), r"column 1 needs one number per row, shape \(N,\); got shape \(\)"),
        ((["1"], [1]), r"numer must be one number, got '1' \(str\)"),
        (("12", [1, 2]), r"column 0 needs one number per row, got '12' \(str\)"),
        ((1, [1]), r"column 0 needs one number per row, got 1 \(int\)"),
    ],
)
def test_many_refuses_what_is_no_column(columns, said):
    """The error names the column or the lengths."""
    with pytest.raises(MetricInputError, match=said):
        AverageMetric.many(*columns)


def test_from_mask_counts_what_is_let_through():
    """A row that is all padding is 0 of 0, which adds nothing; nan in padding is not seen."""
    losses = torch.tensor([[1.0, 2.0, math.nan], [math.inf, math.nan, math.nan], [4.0, 5.0, 6.0]])
    mask = torch.tensor([[1, 1, 0], [0, 0, 0], [1, 1, 1]])
    made = AverageMetric.from_mask(losses, mask)
    assert made == [AverageMetric(3.0, 2), AverageMetric(0.0, 0), AverageMetric(15.0, 3)]
    assert sum(made) == AverageMetric(18.0, 5)


def test_from_mask_sums_in_double_precision():
    """Ten thousand times float32's 0.1 are summed in float64; numbers in lists are float64 from the start."""
    assert AverageMetric.from_mask([[0.1, 0.2]], [[1, 0]]) == [AverageMetric(0.1, 1)]
    tenths = torch.full((1, 10_000), 0.1)
    (made,) = AverageMetric.from_mask(tenths, torch.ones_like(tenths, dtype=torch.bool))
    assert made.value() == pytest.approx(tenths[0, 0].double().item(), rel=1e-14)


@pytest.mark.parametrize("shapes", [((2, 3), (2, 1)), ((2, 3), (3,)), ((3,), (3,))])
def test_from_mask_does_not_broadcast(shapes):
    """The error names both shapes."""
    values, mask = map(torch.ones, shapes)
    with pytest.raises(MetricInputError, match=r"of one shape \(B, T\); got \(.*\) and \(.*\)"):
        AverageMetric.from_mask(values, mask)


def test_from_mask_weighs():
    """A mask of weights is a weighted mean: (1 * 0.5 + 2 * 1.5) / 2."""
    (made,) = AverageMetric.from_mask([[1, 2]], [[0.5, 1.5]])
    assert made.value() == 1.75


def test_from_mask_is_of_real_numbers():
    """An imaginary part is not dropped in silence."""
    with pytest.raises(
        MetricInputError, match=r"AverageMetric.from_mask reads real numbers, got torch.complex64"
    ):
        AverageMetric.from_mask(torch.ones(1, 1) * 1j, torch.ones(1, 1))


def test_the_mean_over_tasks_is_rounded_once():
    """Three tasks with 0.1 have 0.1 on average; two with the largest floats do not overflow on the way."""
    assert MacroAverageMetric(dict.fromkeys("abc", AverageMetric(0.1))).value() == 0.1
    assert MacroAverageMetric(dict.fromkeys("ab", FixedMetric(1.5e308))).value() == 1.5e308


def test_values_are_equal_by_what_they_hold():
    """1/2 and 2/4 are different states; types differ."""
    assert AverageMetric(1, 2) == AverageMetric(1.0, 2.0)
    assert AverageMetric(1, 2) != AverageMetric(2, 4)
    assert AverageMetric(1, 2) != GlobalAverageMetric(1, 2)
    assert (
        len({AverageMetric(1, 2), AverageMetric(1, 2), AverageMetric(math.nan), AverageMetric(math.nan)}) == 2
    )


def test_a_value_cannot_be_changed():
    """What one holds is not assigned to."""
    with pytest.raises(AttributeError, match="cannot assign to field 'numer'"):
        AverageMetric(1, 2).numer = 3


def test_a_macro_average_is_of_values_that_add():
    """A bare number for a task is refused by the task's name."""
    with pytest.raises(MetricInputError, match=r"the value of task 'a' must be additive,.*got 0.5 \(float\)"):
        MacroAverageMetric({"a": 0.5})


def test_distinct_counts_normalized_ngrams():
    """Pairs of words: `to be` twice, `be or`, `not to`: 3 of 4; no pair crosses from one text to the next."""
    both = DistinctMetric.of("To be, or", 2) + DistinctMetric.of("not the to be!", 2)
    assert (len(both.ngrams), both.total, both.value()) == (3, 4, 0.75)
    assert pickle.loads(pickle.dumps(both)) == both


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda: DistinctMetric.of("a b", 0), MetricInputError, "needs n >= 1 words, got n = 0"),
        (lambda: DistinctMetric.of("a b", "2"), MetricInputError, "needs n >= 1 words, got n = '2'"),
        (lambda: DistinctMetric.of(None, 2), MetricInputError, r"expects text, got None \(NoneType\)"),
        (
            lambda: DistinctMetric.of("x y", 1) + DistinctMetric.of("x y", 2),
            AdditionError,
            "2 of 2 1-grams.*1 of 1 2",
        ),
    ],
)
def test_distinct_refuses_what_it_cannot_count(make, error, said):
    """No text, no length, and n-grams of two lengths."""
    with pytest.raises(error, match=said):
        make()


@pytest.mark.parametrize("half", HALVES, ids=lambda half: type(half).__name__)
@pytest.mark.parametrize("kind", [float, Fraction, np.float64, np.float32])
def test_a_value_stands_beside_numbers(half, kind):
    """On either side, whatever kind of number it is."""
    assert half == kind(0.5) and kind(0.5) == half
    assert half != kind(0.25) and not half == kind(0.25)
    assert kind(0.25) < half < kind(0.75) and kind(0.75) > half > kind(0.25)
    assert kind(0.5) <= half <= kind(0.5) and kind(0.5) >= half >= kind(0.5)


def test_values_are_ordered_among_themselves_and_with_numbers():
    """By what they come to, whatever their types."""
    low, high = AverageMetric(1, 4), SumMetric(3)
    assert sorted([high, 0.4, HALF, low, 1]) == [low, 0.4, HALF, 1, high]
    assert max([low, HALF, 0.3]) is HALF and min(0.1, HALF) == 0.1
    assert AverageMetric(1, 2) <= AverageMetric(2, 4) <= AverageMetric(1, 2)


@pytest.mark.parametrize("half", HALVES, ids=lambda half: type(half).__name__)
def test_what_is_equal_hashes_alike(half):
    """A number and a value that equals it are one key."""
    assert hash(half) == hash(0.5) and {half: "x"}[0.5] == "x"
    assert hash(AverageMetric(math.nan)) == hash(AverageMetric(math.nan))


def test_two_values_are_equal_by_what_they_hold():
    """Two means that come to the same are not the same value, though both equal the number."""
    assert AverageMetric(1, 2) != AverageMetric(2, 4)
    assert AverageMetric(1, 2) == 0.5 == AverageMetric(2, 4)


@pytest.mark.parametrize("compare", [operator.eq, operator.lt, operator.le, operator.gt, operator.ge])
def test_what_is_undefined_is_neither_more_nor_less(compare):
    """As nan is; `!=` alone holds."""
    assert not compare(NOTHING, 0.5) and not compare(0.5, NOTHING) and not compare(HALF, NOTHING)
    assert NOTHING != math.nan and math.isnan(NOTHING)


@pytest.mark.parametrize("other", ["0.5", None, [0.5], 1j])
def test_what_is_no_number_is_not_compared(other):
    """It is unequal, and in no order."""
    assert HALF != other
    with pytest.raises(TypeError):
        _ = HALF < other


def test_a_value_is_formatted_as_its_number():
    """By any format of a float; without one it shows what it holds."""
    assert f"{AverageMetric(2, 3):.3f} {HALF:.0%} {NOTHING:6.2f}" == "0.667 50%    nan"
    assert f"{HALF}" == str(HALF) == "AverageMetric(numer=1, denom=2)"


def test_almost_equal():
    """The difference to a number is a number, as unittest wants it; of two values there is none."""
    unittest.TestCase().assertAlmostEqual(AverageMetric(1, 3), 0.3333, places=4)
    unittest.TestCase().assertAlmostEqual(0.3333, AverageMetric(1, 3), places=4)
    assert (HALF - 0.25, 1 - HALF) == (0.25, 0.5)
    with pytest.raises(TypeError):
        _ = HALF - HALF
