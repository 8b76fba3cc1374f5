"""Errors and shares of variation at the edges: offsets, constants, zeros, single rows, wrong parameters."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from real_references import REFERENCES, SHARES, draw, measured

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Number
from hpometrics.metrics.registry.register import get_metric


@pytest.mark.parametrize(("offset", "scale"), [(1e6, 1.0), (1e6, 1e-4), (0.0, 1e-4), (4096.0, 1e-2)])
@pytest.mark.parametrize("name", [*SHARES, "rse", "rae", "bias", "absolute_bias"])
def test_an_offset_or_a_scale_changes_nothing(name, offset, scale):
    """Shares of variation do not depend on where zero is, in ten batches; a bias only on the unit."""
    preds, target = draw((100,))
    expected = measured(name, preds, target).compute().item() * (scale if "bias" in name else 1)
    moved = measured(name, offset + scale * preds, offset + scale * target, [10] * 10)
    tolerance = 1e-12 + 1e-15 * offset / scale  # what float64 leaves of the moved numbers
    assert moved.compute().item() == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("name", [*SHARES, "rse", "rae"])
def test_one_row_has_no_variation(name):
    """Undefined, with the number of rows that it takes."""
    metric = measured(name, torch.tensor([1.0]), torch.tensor([2.0]))
    assert metric.compute().isnan()
    assert metric.undefined_reason == f"{name} needs at least 2 rows, got 1"


@pytest.mark.parametrize("name", [*SHARES, "rse"])
def test_a_constant_target_has_no_variation(name):
    """Undefined, where scikit-learn gives 0 or 1; the column is named where there are several."""
    preds, target = draw((20,))
    metric = measured(name, preds, torch.full((20,), 0.1), [3, 17])
    assert metric.compute().isnan()
    assert "every target is the same number" in metric.undefined_reason
    metric = measured(name, preds.repeat(2, 1).T, torch.stack([target, torch.full((20,), 0.1)], 1))
    assert metric.compute().isnan()
    assert "every target in column 1 is the same number" in metric.undefined_reason


def test_constant_predictions_have_no_correlation():
    """Correlation is undefined for them; r2 is not."""
    constant, (_, target) = torch.full((20,), 0.3), draw((20,))
    metric = measured("pearson", constant, target)
    assert metric.compute().isnan()
    assert "every prediction is the same number" in metric.undefined_reason
    assert measured("r2", constant, target).compute().item() <= 0


@pytest.mark.parametrize("prediction", [0.0, 1.0])
def test_mape_is_undefined_for_a_target_of_zero(prediction):
    """Whatever was predicted for it: the data decides, not the model."""
    metric = measured("mape", torch.tensor([1.0, prediction]), torch.tensor([1.0, 0.0]))
    assert metric.compute().isnan()
    assert metric.undefined_reason.startswith("a target is 0, so relative errors are undefined; use smape")


def test_smape_of_zeros():
    """No error where both are 0, the largest where one is."""
    assert measured("smape", torch.tensor([0.0]), torch.tensor([0.0])).compute().item() == 0.0
    assert measured("smape", torch.tensor([1e-9]), torch.tensor([0.0])).compute().item() == 2.0


def test_rmsle_refuses_what_has_no_logarithm():
    """The message has the value, and no member of the collection has taken any of the batch."""
    metrics = MetricCollection(["mse", "rmsle", "mae"], output=Number())
    metrics.update(predictions=[1.0, 2.0], target=[1.0, 2.0])
    with pytest.raises(MetricInputError, match=r"rmsle and msle need .* above -1, got -1.5"):
        metrics.update(predictions=[-1.5, 9.0], target=[1.0, 2.0])
    assert metrics.compute() == {"mse": 0.0, "rmsle": 0.0, "mae": 0.0}


def test_shapes_never_broadcast():
    """(N, 1) against (N,) is the classic silent N x N error."""
    with pytest.raises(MetricInputError, match="shapes never broadcast; reshape one of them"):
        get_metric("mse", Number()).update(torch.zeros(3, 1), torch.zeros(3))


def test_tabnet_takes_predictions_below_zero_as_zero():
    """Its golden value, with a prediction that has a logarithm and one that had none."""
    target = torch.tensor([3.0, 5.0, 2.5, 7.0])
    preds = torch.tensor([2.5, 5.0, 4.0, 8.0])
    assert measured("rmsle", preds, target).compute().item() == pytest.approx(0.199324, abs=5e-7)
    got = measured("rmsle(clip=true)", torch.tensor([-3.0]), torch.tensor([1.0])).compute().item()
    assert got == pytest.approx(np.log(2))
    with pytest.raises(MetricInputError, match="targets above -1, got -2"):
        measured("rmsle(clip=true)", torch.tensor([-3.0]), torch.tensor([-2.0]))


@pytest.mark.parametrize(("error", "value"), [(1e-9, 5e-19), (1e-3, 5e-7), (800.0, 800 - np.log(2))])
def test_log_cosh_of_the_smallest_and_the_largest(error, value):
    """Half the square near 0 and a straight line far away, neither rounded away nor overflown."""
    batch = torch.tensor([error], dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    assert measured("log_cosh", *batch).compute().item() == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mape", "a target is 0"), ("rmspe", "a target is 0"), ("wape", "every target is 0"),
        ("nrmse(normalization=mean)", "the mean of the target is 0"),
        ("nrmse(normalization=range)", "the range of the target is 0"),
        ("nrmse(normalization=std)", "the std of the target is 0"),
    ],
)  # fmt: skip
def test_no_share_of_zero(name, reason):
    """Undefined where the unit is 0, with the reason; a row of weight 0 does not spoil it."""
    metric = measured(name, torch.ones(3), torch.zeros(3))
    assert metric.compute().isnan() and reason in metric.undefined_reason
    preds, target = torch.ones(4), torch.tensor([0.0, 1.0, 2.0, 4.0])
    weighed = measured(name, preds, target, weight=torch.tensor([0.0, 1.0, 1.0, 1.0])).compute().item()
    assert weighed == pytest.approx(measured(name, preds[1:], target[1:]).compute().item())


@pytest.mark.parametrize("name", [name for name in REFERENCES if name not in SHARES])
def test_no_row_that_weighs_is_no_value(name):
    """Undefined with a reason, never 0."""
    metric = measured(name, torch.ones(3), torch.ones(3), weight=torch.zeros(3))
    assert metric.compute().isnan() and metric.undefined_reason


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("minkowski(p=0.5)", "p must be a number from 1 to 512"),
        ("minkowski(p=513)", "got 513.*for larger p, use max_error"),
        ("huber(delta=-1)", "delta must be a number above 0,"),
        ("adjusted_r2", "adjusted_r2 of number needs features="), ("nrmse", "needs normalization="),
        ("adjusted_r2(features=-1)", "features must be a number of inputs, at least 0"),
    ],
)  # fmt: skip
def test_parameters_that_make_no_sense(name, message):
    """Refused when the metric is made."""
    with pytest.raises(MetricNameError, match=message):
        get_metric(name, Number())


def test_too_few_rows_to_adjust_for():
    """As many inputs as rows leave nothing to judge by, where torchmetrics gives plain r2."""
    metric = measured("adjusted_r2(features=4)", *draw((5,)))
    assert metric.compute().isnan()
    assert metric.undefined_reason == "adjusted_r2(features=4) needs more than 5 rows"
