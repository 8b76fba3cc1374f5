"""The unsupervised loss of pytorch-tabnet: its number of one batch, and one number of any cut of the rows."""

from __future__ import annotations

import pytest
import torch
from real_outputs import fed, value

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.features import Vector
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

PREDS = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 7.0]])
TARGET = torch.tensor([[1.0, 1.0], [2.0, 4.0], [6.0, 7.0]])
MASK = torch.tensor([[1, 1], [1, 0], [0, 1]])


def tabnet(preds, target, mask, eps=1e-9):
    """The formula of pytorch-tabnet, of one batch."""
    squares = ((preds - target) * mask) ** 2
    mean, variance = target.mean(0), target.var(0)
    variance = torch.where(variance == 0, torch.where(mean == 0, 1.0, mean), variance)
    return ((squares / variance).sum(1) / (mask.sum(1) + eps)).mean().item()


def test_the_golden_value():
    """As the documentation of pytorch-tabnet has it."""
    metric = fed("unsup_loss", Vector(), predictions=PREDS, target=TARGET, mask=MASK)
    assert metric.compute().item() == pytest.approx(0.0661376, abs=5e-8)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(50, 4), (7, 1), (2, 9)])
def test_one_batch_is_tabnets(shape, seed):
    """And any cut of the rows gives the same, where the mean over batches would not."""
    random = torch.Generator().manual_seed(seed)
    target = torch.randn(shape, generator=random, dtype=torch.float64)
    preds = target + torch.randn(shape, generator=random, dtype=torch.float64)
    mask = (torch.rand(shape, generator=random) < 0.5).double()
    target[:, 0] = 3.0
    expected = tabnet(preds, target, mask)
    assert value("unsup_loss", preds, target, mask=mask) == pytest.approx(expected, rel=1e-9)


def test_a_constant_column_never_lowers_the_loss():
    """pytorch-tabnet divides by the mean, -2 here, and gives a negative loss; the size of the mean counts."""
    target = torch.tensor([[-2.0], [-2.0]])
    batch = {"predictions": target + 2, "target": target, "mask": torch.ones(2, 1)}
    assert tabnet(target + 2, target, batch["mask"]) == pytest.approx(-2)
    assert fed("unsup_loss", Vector(), **batch).compute().item() == pytest.approx(2)


def test_rows_may_weigh():
    """A weight of 2 is the row twice, one of 0 is no row."""
    times = torch.tensor([2, 0, 1])
    repeated = [x.repeat_interleave(times, 0) for x in (PREDS, TARGET, MASK)]
    got = value("unsup_loss", PREDS, TARGET, mask=MASK, sample_weight=times)
    assert got == pytest.approx(value("unsup_loss", *repeated[:2], mask=repeated[2]))


def test_what_is_needed():
    """A mask of 0 and 1 in the shape of the target, and two rows."""
    metric = get_metric("unsup_loss", Vector())
    with pytest.raises(MetricInputError, match=r"unsup_loss needs mask=, .*; mask= is missing"):
        metric.update(PREDS, TARGET)
    with pytest.raises(MetricInputError, match=r"needs mask= of shape \(3, 2\), got \(3, 1\)"):
        metric.update(PREDS, TARGET, mask=MASK[:, :1])
    with pytest.raises(MetricInputError, match="needs mask= of 0 and 1, got values up to 2"):
        metric.update(PREDS, TARGET, mask=2 * MASK)
    metric.update(PREDS[:1], TARGET[:1], mask=MASK[:1])
    assert metric.compute().isnan() and "at least 2 rows, got 1" in metric.undefined_reason


@pytest.mark.parametrize(
    ("name", "extras"), [("unsup_loss", {"mask": MASK}), ("adjusted_r2(features=1)", {})]
)
def test_a_weight_is_a_repetition(name, extras):
    """The scale of the weights counts where degrees of freedom do; of mean 1 they are as many rows."""
    plain = value(name, PREDS, TARGET, **extras)
    doubled = value(name, PREDS, TARGET, **extras, sample_weight=torch.full((3,), 2.0))
    assert doubled != pytest.approx(plain)
    evened = torch.full((3,), 2.0) / 2.0
    assert value(name, PREDS, TARGET, **extras, sample_weight=evened) == pytest.approx(plain)


@pytest.mark.parametrize("alias", ["unsupervised_loss", "unsup_loss_numpy"])
def test_its_names(alias):
    """pytorch-tabnet registers two."""
    assert str(find_metric(alias, "vector").name) == "unsup_loss"
