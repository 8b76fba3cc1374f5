"""The sums of PSNR and SSIM by blocks: those of torchmetrics in float64."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torchmetrics.aggregation import CatMetric

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.catalogue.torchmetrics import _pictures, class_of
from hpometrics.metrics.catalogue.torchmetrics._wrapper import read_states, write_states
from hpometrics.metrics.catalogue.torchmetrics.images import ROWS
from hpometrics.metrics.features import Image
from hpometrics.metrics.registry.register import get_metric
from hpometrics.metrics.row_values.by_row import has_row_values

SHAPES = {
    "small": (2, 3, 32, 32), "one": (1, 1, 6, 7), "wide": (1, 2, 20, 900), "high": (3, 1, 700, 64),
    "large": (1, 1, 190, 200), "many": (40, 3, 16, 16),
}  # fmt: skip


def pictures(*shape: int) -> tuple[Tensor, Tensor]:
    """Draw pictures in [0, 1], half of each flat, and predictions near them."""
    random = torch.Generator().manual_seed(5)
    target = torch.rand(shape, generator=random)
    target[..., : shape[-2] // 2, :] = 0.7
    return (target + 0.05 * torch.randn(shape, generator=random)).clamp(0, 1), target


def by_torchmetrics(name: str, preds: Tensor, target: Tensor, **params: float) -> float:
    """Measure with the class in float64."""
    metric = class_of(next(row for row in ROWS if row.name == name))(**params)
    metric.output = Image()
    inner = metric.build()
    inner.update(preds.double(), target.double())
    return inner.compute().item()


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", ["psnr", "ssim"])
def test_blocks_give_the_value_of_float64(name, shape, monkeypatch):
    """However the pictures are cut, in planes or in rows."""
    preds, target = pictures(*shape)
    expected = by_torchmetrics(name, preds, target)
    for block in (1 << 15, 1 << 9):
        monkeypatch.setattr(_pictures, "_BLOCK", block)
        metric = get_metric(name, "image")
        metric.update(preds, target)
        assert metric.compute().item() == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize("params", [{"sigma": 0.8, "data_range": 2.0}, {"k1": 0.05, "k2": 0.1, "sigma": 2.2}])
def test_the_parameters_of_ssim_are_those_of_torchmetrics(params):
    """The window grows with sigma, and the constants with the range."""
    preds, target = pictures(2, 3, 40, 30)
    metric = get_metric(f"ssim({', '.join(f'{name}={value}' for name, value in params.items())})", "image")
    metric.update(preds, target)
    assert metric.compute().item() == pytest.approx(
        by_torchmetrics("ssim", preds, target, **params), rel=1e-11
    )


@pytest.mark.parametrize("name", ["psnr", "ssim"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float64])
def test_pictures_of_any_type_and_layout(name, dtype):
    """Whole numbers do not wrap around, and a view that is not contiguous is read as it is."""
    preds, target = (x.mul(255).to(dtype).transpose(2, 3) for x in pictures(2, 3, 24, 20))
    metric = get_metric(f"{name}(data_range=255)", "image")
    metric.update(preds, target)
    assert metric.compute().item() == pytest.approx(
        by_torchmetrics(name, preds, target, data_range=255.0), rel=1e-11
    )


def test_the_value_of_each_picture_is_there():
    """Their mean is the value."""
    preds, target = pictures(5, 3, 32, 32)
    metric = get_metric("ssim", "image")
    batch = metric.batch(preds, target, {})
    metric.update(preds, target)
    values = metric.row_values(batch).values
    assert len(values) == 5 and values.mean().item() == pytest.approx(metric.compute().item(), rel=1e-12)
    assert values[3].item() == pytest.approx(by_torchmetrics("ssim", preds[3:4], target[3:4]), rel=1e-11)


@pytest.mark.parametrize(
    ("params", "shape"),
    [("kernel_size=4", (1, 1, 16, 16)), ("sigma=-1.0", (1, 1, 16, 16)), ("k1=0.01", (1, 1, 4, 9))],
)
def test_what_torchmetrics_refuses_is_refused(params, shape):
    """An even window, a negative deviation, and pictures smaller than half a window."""
    with pytest.raises(MetricInputError, match=r"ssim.* rejected the batch:"):
        get_metric(f"ssim({params})", "image").update(*pictures(*shape))


@pytest.mark.parametrize(
    ("name", "complaint"),
    [("psnr", "of the same shape, got .*; shapes never broadcast"), ("ssim", "rejected the batch:")],
)
def test_shapes_that_differ_are_refused(name, complaint):
    """A target of one channel is not the target of each channel."""
    preds, target = pictures(2, 3, 16, 16)
    with pytest.raises(MetricInputError, match=complaint):
        get_metric(name, "image").update(preds, target[:, :1])


def test_only_a_class_with_row_values_says_so():
    """The other metrics of torchmetrics are measured row by row."""
    assert [name for name in ("ssim", "psnr", "uqi") if has_row_values(get_metric(name, "image"))] == ["ssim"]


def test_formulas_are_not_seeded(monkeypatch):
    """Only classes with a package of their own draw; to seed the generator costs more than many an update."""
    assert {row.name for row in ROWS if row.draws} >= {"kid", "inception_score", "fid", "lpips"}
    monkeypatch.setattr(torch.random, "fork_rng", None)
    metric = get_metric("sam", "image")
    metric.update(*pictures(2, 3, 16, 16))
    assert metric.compute() > 0


def test_a_class_begins_each_batch_without_rows():
    """Its sums are those of the batch, also after a value was computed and after a reset."""
    preds, target = pictures(4, 3, 16, 16)
    metric = get_metric("sam", "image")
    metric.update(preds[:2], target[:2])
    metric.compute()
    metric.update(preds[2:], target[2:])
    expected = by_torchmetrics("sam", preds, target)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)
    metric.reset()
    metric.update(preds, target)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-12)


def test_lists_are_stored_with_the_sizes_of_their_tensors():
    """A picture without boxes stays one, and whole numbers stay whole, though all are one tensor."""
    source, restored = CatMetric(), CatMetric()
    for part in ([1, 2], [], [3]):
        source.value.append(torch.tensor(part, dtype=torch.int64))
    stored = read_states(source, wide=True, pieces=True)
    assert {name: tensor.tolist() for name, tensor in stored.items()} == {
        "rows of value": [1, 2, 3], "sizes of value": [2, 0, 1]
    }  # fmt: skip
    write_states(restored, stored)
    assert [part.tolist() for part in restored.value] == [[1, 2], [], [3]]
    assert restored.value[0].dtype == torch.int64


def test_decibels_are_those_of_the_class():
    """The value follows from the sums, by another range and base too; it is infinite if no pixel is wrong."""
    preds, target = pictures(4, 3, 16, 16)
    metric = get_metric("psnr(data_range=3.0, base=2.0)", "image")
    metric.update(target, target)
    assert metric.compute().item() == math.inf
    metric.reset()
    for one, right in zip(preds.split(1), target.split(1), strict=True):
        metric.update(one, right)
    expected = by_torchmetrics("psnr", preds, target, data_range=3.0, base=2.0)
    assert metric.compute().item() == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("name", ["psnr", "ssim"])
def test_plain_sums_are_joined_with_those_of_another_metric(name):
    """Before and after a look at the state, a merge and a load, the value is that of all pictures."""
    batches = [torch.rand(2, 2, 3, 16, 16, generator=torch.Generator().manual_seed(n)) for n in range(4)]
    whole, part, other = (get_metric(name, "image") for _ in range(3))
    for batch in batches:
        whole.update(*batch)
    part.update(*batches[0])
    part.update(*batches[1])
    other.update(*batches[2])
    part.merge(other)
    part.load_state_dict(part.state_dict())
    part.update(*batches[3])
    assert part.kept["states"].label == f"Kept(of='states of {name}')"  # as in the files of earlier versions
    assert part.compute().item() == pytest.approx(whole.compute().item(), rel=1e-12)
