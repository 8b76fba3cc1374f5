"""Error sums, moments and extremes: exact however the rows were cut, whatever their offset and scale."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from hpometrics import get_metric
from hpometrics.exceptions import MetricInputError, NonFiniteError, StateError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import Number, Vector
from hpometrics.metrics.statistics import moments as moments_module
from hpometrics.metrics.statistics.errors import _SUMS, ERROR, PREDS, TARGET, Errors, columns
from hpometrics.metrics.statistics.moments import Extremes, Moments, _raw_moments

SIZES = {"whole": [120], "rows": [1] * 120, "uneven": [1, 100, 17, 2], "halves": [60, 60]}


def batch_of(preds: Tensor, target: Tensor) -> Outputs:
    """Make a batch of a number or a vector output."""
    return Outputs(Number() if preds.ndim == 1 else Vector(), predictions=preds, target=target)


def pair(offset: float = 0.0, scale: float = 1.0, columns: int = 3) -> tuple[Tensor, Tensor]:
    """Draw related predictions and targets in float64."""
    draws = np.random.default_rng(7).normal(size=(2, 120, columns))
    target = torch.from_numpy(offset + scale * draws[0])
    return target + torch.from_numpy(scale * 0.5 * draws[1]), target


def moments_of(preds: Tensor, target: Tensor, sizes: list[int]) -> Moments:
    """Feed one batch after the other."""
    moments = Moments()
    for p, t in zip(preds.split(sizes), target.split(sizes), strict=True):
        moments.update(batch_of(p, t))
    return moments


def merged(preds: Tensor, target: Tensor, sizes: list[int]) -> Moments:
    """Feed each batch to a statistic of its own and merge them."""
    whole = Moments()
    for p, t in zip(preds.split(sizes), target.split(sizes), strict=True):
        whole.merge(moments_of(p, t, [len(p)]))
    return whole


def exact(preds: Tensor, target: Tensor) -> dict[str, np.ndarray]:
    """Work the moments out in extended precision."""
    p, t = (x.numpy().astype(np.longdouble) for x in (preds, target))
    gaps = [x - x.mean(0) for x in (p, t, p - t)]
    spread = np.stack([(gap * gap).sum(0) for gap in gaps])
    return {"spread": spread, "cross": (gaps[0] * gaps[1]).sum(0), "mean": np.stack([p.mean(0), t.mean(0)])}


@pytest.mark.parametrize("make", [moments_of, merged])
@pytest.mark.parametrize("sizes", SIZES.values(), ids=SIZES)
@pytest.mark.parametrize(("offset", "scale"), [(0, 1), (1e6, 1), (1e6, 1e-4), (0, 1e-4), (-1e12, 1)])
def test_any_partition_at_any_offset_is_exact(make, sizes, offset, scale):
    """Against extended precision the moments are right to 12 digits, in one piece, cut up or merged."""
    preds, target = pair(offset, scale)
    moments, right = make(preds, target, sizes), exact(preds, target)
    assert moments.rows == 120
    for of in (PREDS, TARGET, ERROR):
        np.testing.assert_allclose(moments.spread(of), right["spread"][of].astype(float), rtol=1e-12)
    np.testing.assert_allclose(moments.cross, right["cross"].astype(float), rtol=1e-12)
    for of in (PREDS, TARGET):
        np.testing.assert_allclose(moments.mean(of), right["mean"][of].astype(float), rtol=1e-12, atol=1e-15)


def test_moments_by_hand():
    """Targets 1, 2, 6 have mean 3 and squared gaps 4 + 1 + 9; errors 0, 0, -3 have mean -1 and 1 + 1 + 4."""
    moments = moments_of(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1, 2, 6]), [2, 1])
    assert moments.mean(TARGET).item() == 3.0
    assert moments.spread(TARGET).item() == 14.0
    assert moments.mean(ERROR).item() == -1.0
    assert moments.spread(ERROR).item() == 6.0
    assert moments.cross.item() == 5.0  # (-1)(-2) + 0(-1) + 1 * 3


@pytest.mark.parametrize("value", [0.1, 1e6 + 0.1, -3e-7])
def test_a_constant_has_no_spread_at_all(value):
    """Exactly 0, not a rounding error of it: this is how a constant target is recognized."""
    constant = torch.full((120,), value)
    assert moments_of(constant, constant, SIZES["uneven"]).spread(TARGET).item() == 0.0


CLOSE = {
    "ordinary": (0.0, 1.0),
    "near": (1e-3, 1e-5),
    "small": (0.5, 1e-9),
    "far": (1e4, 3.0),
    "one row": (7.0, 0.5),
}


@pytest.mark.parametrize("measure", sorted(_SUMS))
@pytest.mark.parametrize(("offset", "scale"), CLOSE.values(), ids=CLOSE)
def test_a_column_is_summed_faster_to_the_same_digits(measure, offset, scale):
    """The plain formula of each value has no digit more, for wide errors as for tiny ones."""
    target = offset + torch.rand(1 if offset == 7.0 else 1500, dtype=torch.float64)
    preds = target + scale * torch.randn(len(target), generator=torch.Generator().manual_seed(3)).double()
    batch = batch_of(preds.clamp(min=-0.9), target)
    errors = Errors(measure)
    errors.update(batch)
    expected = errors.measured(batch).numpy().astype(np.longdouble).sum()
    assert errors.total.item() == pytest.approx(float(expected), rel=2e-12, abs=0.0)


def test_faster_sums_are_taken_only_where_they_serve():
    """Small errors, a share of 0 by 0 and a huge square are left to the formula of each value."""
    ordinary = batch_of(torch.tensor([1.0, 3.0]), torch.tensor([2.0, 5.0]))
    assert all(math.isfinite(_SUMS[name](columns(ordinary))) for name in _SUMS)
    small = batch_of(torch.tensor([1e-9]), torch.tensor([2e-9]))
    assert all(
        math.isnan(_SUMS[name](columns(small))) for name in ("square_log", "square_log_clipped", "log_cosh")
    )
    zeros = batch_of(torch.tensor([0.0, 1.0]), torch.tensor([0.0, 2.0]))
    assert math.isnan(_SUMS["symmetric"](columns(zeros)))
    symmetric = Errors("symmetric")
    symmetric.update(zeros)
    assert symmetric.total.item() == pytest.approx(2 / 3)


LARGE = 10_000


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("column", ["predictions", "target", "both"])
@pytest.mark.parametrize("statistic", [Moments(), *map(Errors, sorted(_SUMS))], ids=str)
def test_sums_show_that_all_numbers_of_a_large_batch_are_finite(statistic, column, bad):
    """A batch with one number that is not is never accepted for its sums, whatever the others are."""
    sound = {name: 4 * torch.rand(LARGE) + 0.01 for name in ("predictions", "target")}
    is_shown = statistic.shows_finite(Outputs(Number(), **sound))
    assert is_shown == (statistic.params.get("measure") not in ("size", "square_log_clipped"))
    for name in sound if column == "both" else [column]:
        sound[name][LARGE // 2] = bad
    assert not statistic.shows_finite(Outputs(Number(), **sound))


@pytest.mark.parametrize("name", ["mse", "r2", "rmsle(clip=true)", "wape"])
def test_a_large_batch_that_is_not_finite_changes_nothing(name):
    """The batch before and the one after are measured as if it had not been there."""
    metric, clean = get_metric(name, Number()), get_metric(name, Number())
    for place in (None, 5, None):
        preds, target = torch.linspace(1, 3, LARGE), torch.linspace(2, 3, LARGE)
        if place is None:
            metric.update(preds, target)
            clean.update(preds, target)
            continue
        preds[place] = -math.inf
        with pytest.raises(NonFiniteError, match="position 5"):
            metric.update(preds, target)
    assert torch.equal(metric.compute(), clean.compute())


@pytest.mark.parametrize("value", [-1.0, -3.0])
def test_a_value_without_a_logarithm_is_not_summed(value):
    """Two of them have a quotient above 0, whose logarithm says nothing."""
    batch = batch_of(torch.tensor([value, 1.0]), torch.tensor([value + 0.5, 2.0]))
    with pytest.raises(MetricInputError, match="above -1, got"):
        Errors("square_log").check(batch)


@pytest.mark.parametrize("offset", [0.0, 2.0])
def test_raw_moments_are_those_of_centered_rows(offset):
    """A column of numbers has no subtraction; for few digits, several columns or weights there is none."""
    preds, target = (x[:, 0] for x in pair(offset, columns=1))
    raw, right = _raw_moments(batch_of(preds, target)).state(), exact(preds[:, None], target[:, None])
    np.testing.assert_allclose(raw["spread"], right["spread"].astype(float), rtol=1e-13)
    np.testing.assert_allclose(raw["cross"], right["cross"].astype(float), rtol=1e-13)
    assert _raw_moments(batch_of(preds + 100, target + 100)) is None
    assert _raw_moments(batch_of(*pair())) is None
    assert _raw_moments(batch_of(target, target)) is None


def test_plain_numbers_are_joined_as_tensors_are():
    """After a look at the tensors the same formula goes on with them, to the same bits."""
    preds, target = (x[:, 0] for x in pair(offset=0.5, columns=1))
    numbers, tensors = Moments(), Moments()
    for p, t in zip(preds.split(30), target.split(30), strict=True):
        numbers.update(batch_of(p, t))
        tensors.update(batch_of(p, t))
        tensors.add_state({name: 0 * value for name, value in tensors.state().items()})
    assert numbers._numbers is not None
    assert tensors._numbers is None
    for name, value in numbers.state().items():
        assert torch.equal(value, tensors.state()[name]), name


def test_a_small_batch_with_a_value_out_of_bounds_is_refused_at_once():
    """Batches like the first are only joined while every value has a logarithm; the state does not change."""
    metric = get_metric("msle", Number())
    assert all(statistic.regroups for statistic in metric.statistics().values())
    good = torch.tensor([0.5, 1.0]), torch.tensor([1.0, 2.0])
    for _ in range(3):
        metric.update(*good)
    expected = metric.compute()
    for bad in ((-torch.ones(2), good[1]), (good[0], torch.tensor([1.0, -1.5]))):
        with pytest.raises(MetricInputError, match="above -1, got"):
            metric.update(*bad)
        with pytest.raises(MetricInputError, match="above -1, got"):
            metric.update(*bad, sample_weight=torch.ones(2))
    assert metric.compute() == expected
    metric.update(*good)
    assert metric.compute() == pytest.approx(expected)


def test_clipped_predictions_have_no_bound():
    """They count as 0, in the batches that are joined too; a target is refused."""
    metric = get_metric("rmsle(clip=true)", Number())
    for _ in range(3):
        metric.update(torch.tensor([-5.0]), torch.tensor([math.e - 1]))
    assert metric.compute().item() == pytest.approx(1.0)
    with pytest.raises(MetricInputError, match="above -1, got"):
        metric.update(torch.tensor([-5.0]), torch.tensor([-1.0]))


def test_narrow_inputs_are_widened_first():
    """Bytes do not wrap around, halves do not overflow."""
    errors = Errors("square")
    errors.update(
        batch_of(torch.tensor([0, 255], dtype=torch.uint8), torch.tensor([255, 0], dtype=torch.uint8))
    )
    assert errors.mean.item() == 255.0**2
    errors = Errors("square")
    errors.update(batch_of(torch.full((70_000,), 300.0).half(), torch.zeros(70_000).half()))
    assert errors.mean.item() == 90_000.0


@pytest.mark.parametrize(
    ("measure", "expected"),
    [("absolute", 1.5), ("square", 2.5), ("percentage", 0.75), ("symmetric", (2 / 3 + 2 / 3) / 2)],
)
def test_errors_by_hand(measure, expected):
    """Predictions 2 and 2 for targets 1 and 4: errors 1 and -2."""
    errors = Errors(measure)
    errors.update(batch_of(torch.tensor([2.0, 2.0]), torch.tensor([1.0, 4.0])))
    assert errors.mean.item() == pytest.approx(expected)


def test_metrics_share_what_a_batch_gives():
    """The columns and the error are made once per batch, however many statistics read them."""
    batch = batch_of(*pair())
    Errors("square").update(batch)
    error = columns(batch).error
    Moments().update(batch)
    assert columns(batch).error is error


@pytest.mark.parametrize("make", [Moments, lambda: Errors("square")])
def test_another_width_is_refused(make):
    """A column more than before would broadcast; a state of another width does not merge."""
    wide, narrow = pair(columns=3), pair(columns=2)
    statistic, other = make(), make()
    statistic.check(batch_of(*wide))
    statistic.update(batch_of(*wide))
    with pytest.raises(MetricInputError, match="earlier batches had 3 columns, but this one has 2"):
        statistic.check(batch_of(*narrow))
    other.update(batch_of(*narrow))
    with pytest.raises(StateError, match="has shape"):
        statistic.merge(other)


def test_a_state_handed_out_does_not_change():
    """What `state` gave stays as it was when more rows come; an empty statistic merges as nothing."""
    preds, target = pair()
    moments = moments_of(preds, target, [120])
    held = {name: value.clone() for name, value in moments.state().items()}
    state = moments.state()
    moments.update(batch_of(preds, target))
    assert all(torch.equal(state[name], held[name]) for name in held)
    before = moments.state()
    moments.merge(Moments())
    assert all(torch.equal(before[name], value) for name, value in moments.state().items())


MAGNITUDES = [(1e200, 1e-200), (1e-200, 1e200), (1.0, 1e200), (1e200, 1.0), (1e-200, 1.0), (1e-180, 1e-200)]


@pytest.mark.parametrize(("first", "second"), MAGNITUDES)
@pytest.mark.parametrize("measure", ["absolute", "square"])
def test_errors_out_of_range_are_added_in_a_unit_of_their_own(measure, first, second):
    """In one batch, in two, merged, and restored; each column has a unit of its own."""
    preds = torch.tensor([[first, second], [3 * first, second], [second, first]], dtype=torch.float64)
    batches = [batch_of(part, torch.zeros_like(part)) for part in (preds, preds[:2], preds[2:])]
    whole, parts, other, restored = (Errors(measure) for _ in range(4))
    whole.update(batches[0])
    parts.update(batches[1])
    other.update(batches[2])
    restored.load_state(parts.state())
    restored.merge(other)
    parts.update(batches[2])
    for errors in (whole, parts, restored):
        if measure == "absolute":
            expected = preds.mean(0)
            assert torch.allclose(errors.mean / expected, torch.ones(2, dtype=torch.float64), rtol=1e-12)
        else:
            size = preds.amax(0)
            expected = size * (preds / size).square().mean(0).sqrt()
            assert torch.allclose(errors.root_mean / expected, torch.ones(2, dtype=torch.float64), rtol=1e-12)


def test_errors_in_range_keep_the_state_that_they_had():
    """Kept statistics of before are read, and only sums out of range are in a unit of their own."""
    errors = Errors("square")
    errors.update(batch_of(torch.tensor([1.0, 2.0]), torch.tensor([0.0, 0.0])))
    errors.update(batch_of(torch.tensor([1.0]), torch.tensor([1.0])))
    assert errors.state().keys() == {"rows", "total"}
    errors.update(batch_of(torch.tensor([1e200], dtype=torch.float64), torch.tensor([0.0])))
    assert errors.state().keys() == {"rows", "total", "exponent"}
    assert errors.root_mean.item() == pytest.approx(0.5e200)


ORDINARY = {
    "noise": (torch.tensor([1.0, 3.0, 2.0]), torch.tensor([1.0, 2.0, 4.0])),
    "one row": (torch.tensor([1.5]), torch.tensor([2.0])),
    "constant": (torch.full((3,), 2.5), torch.full((3,), 1.5)),
    "constant predictions": (torch.full((3,), 2.5), torch.tensor([1.0, 2.0, 4.0])),
    "whole numbers": (torch.tensor([1, 3, 2]), torch.tensor([4, 2, 4])),
}


@pytest.mark.parametrize(("preds", "target"), ORDINARY.values(), ids=ORDINARY)
def test_ordinary_rows_are_not_searched_for_a_unit(preds, target, monkeypatch):
    """Neither where a spread is 0 as nothing varies; the state has no exponent."""
    monkeypatch.setattr(moments_module, "largest_of", None)
    assert "exponent" not in moments_of(preds, target, [len(preds)]).state()


def test_only_the_errors_of_a_perfect_model_are_searched(monkeypatch):
    """Their spread is 0 around 0, which a spread of 1e-400 would be as well."""
    searched, largest_of = [], moments_module.largest_of

    def counted(values, weight):
        searched.append(values)
        return largest_of(values, weight)

    monkeypatch.setattr(moments_module, "largest_of", counted)
    target = torch.tensor([1.0, 2.0, 4.0])
    assert "exponent" not in moments_of(target, target, [3]).state()
    assert [values.tolist() for values in searched] == [[[0.0], [0.0], [0.0]]]


def test_weights_that_take_squares_out_of_range():
    """Squares of 1e130 are float64, but not 1e100 times as much: the unit heeds the weights."""
    preds, target = pair(columns=1)
    weight = torch.full((len(preds),), 1e100, dtype=torch.float64)
    for scale in (1e130, 1.0, 1e-130):
        batch = Outputs(Vector(), predictions=scale * preds, target=scale * target, sample_weight=weight)
        moments = Moments()
        moments.update(batch)
        share = moments.in_one_unit().spread(ERROR) / moments.in_one_unit().spread(TARGET)
        plain = moments_of(preds, target, [120])
        assert torch.allclose(share, plain.spread(ERROR) / plain.spread(TARGET), rtol=1e-12)


ROWS = torch.tensor([[1.0, -5.0], [4.0, 2.0], [9.0, 0.0]])


def extremes_of(rows, **options):
    """Of the targets of some rows."""
    extremes = Extremes("target")
    extremes.update(Outputs(Vector(), predictions=ROWS[rows], target=ROWS[rows], **options))
    return extremes


def test_extremes_of_parts_merge():
    """By column."""
    whole = extremes_of(slice(1))
    whole.merge(extremes_of(slice(1, 3)))
    assert whole.low.tolist() == [1.0, -5.0] and whole.high.tolist() == [9.0, 2.0]


def test_extremes_leave_out_rows_of_weight_0():
    """Neither as the least nor as the greatest."""
    extremes = extremes_of(slice(3), sample_weight=[0.0, 1.0, 0.0])
    assert extremes.low.tolist() == extremes.high.tolist() == [4.0, 2.0]


def test_extremes_of_another_width_are_refused():
    """Naming both."""
    batch = Outputs(Vector(), predictions=torch.ones(2, 3), target=torch.ones(2, 3))
    with pytest.raises(MetricInputError, match="2 columns, but this one has 3"):
        extremes_of(slice(3)).check(batch)
