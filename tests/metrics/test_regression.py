"""Metrics of real outputs: by hand, against scikit-learn and torchmetrics, at the edges."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
import torch
import torchmetrics.functional as reference
from torch import Tensor

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.catalogue import regression
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Number, Timeseries, Vector
from hpometrics.metrics.metric import Metric
from hpometrics.metrics.registry import all_entries, find_metric, get_metric
from hpometrics.objective import MAXIMIZE, MINIMIZE

NAMES = ["mse", "rmse", "mae", "mape", "smape", "rmsle", "r2", "explained_variance", "pearson"]


def sklearn_pearson(target: np.ndarray, preds: np.ndarray) -> float:
    """The mean over columns of scipy's."""
    pairs = zip(target.reshape(len(target), -1).T, preds.reshape(len(preds), -1).T, strict=True)
    return float(np.mean([scipy.stats.pearsonr(t, p).statistic for t, p in pairs]))


def numpy_smape(target: np.ndarray, preds: np.ndarray) -> float:
    """The formula."""
    return float((2 * np.abs(preds - target) / (np.abs(preds) + np.abs(target))).mean())


REFERENCES = {
    "mse": sklearn.metrics.mean_squared_error,
    "rmse": sklearn.metrics.root_mean_squared_error,
    "mae": sklearn.metrics.mean_absolute_error,
    "mape": sklearn.metrics.mean_absolute_percentage_error,
    "smape": numpy_smape,
    "rmsle": sklearn.metrics.root_mean_squared_log_error,
    "r2": sklearn.metrics.r2_score,
    "explained_variance": sklearn.metrics.explained_variance_score,
    "pearson": sklearn_pearson,
}


def draw(shape: tuple[int, ...], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw positive targets and predictions near them, in float64."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(shape, generator=generator, dtype=torch.float64) * 5 + 0.1
    noise = torch.rand(shape, generator=generator, dtype=torch.float64) - 0.3
    return (target + noise).clamp(min=0.01), target


def measured(name: str, preds: Tensor, target: Tensor, sizes: list[int] | None = None) -> Metric:
    """Feed a metric, in batches of these sizes."""
    metric = get_metric(name, Number() if target.ndim == 1 else Vector())
    for p, t in zip(preds.split(sizes or len(preds)), target.split(sizes or len(target)), strict=True):
        metric.update(p, t)
    return metric


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mse", 0.375), ("rmse", 0.375**0.5), ("mae", 0.5), ("mape", (1 / 6 + 1 + 0 + 1 / 7) / 4),
        ("smape", (2 / 11 + 2 + 0 + 2 / 15) / 4), ("r2", 1 - 1.5 / 29.1875),
        ("explained_variance", 1 - 1.25 / 29.1875), ("pearson", 0.98487),
    ],
)  # fmt: skip
def test_values_by_hand(name, value):
    """Predictions 2.5 0 2 8 for 3 -0.5 2 7: errors -.5 .5 0 1; the target's squared gaps sum to 29.1875."""
    preds, target = torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0])
    assert measured(name, preds, target).compute().item() == pytest.approx(value, rel=1e-5)


def test_rmsle_by_hand():
    """log(e / 1) = 1 and log(1 / 1) = 0, so the root of the mean square is sqrt(1 / 2)."""
    preds, target = torch.tensor([np.e - 1, 0.0], dtype=torch.float64), torch.tensor([0, 0])
    assert measured("rmsle", preds, target).compute().item() == pytest.approx(0.5**0.5)


@pytest.mark.parametrize("sizes", [None, [1] * 90, [1, 80, 9]], ids=["whole", "rows", "uneven"])
@pytest.mark.parametrize("shape", [(90,), (90, 4)], ids=["number", "vector"])
@pytest.mark.parametrize("name", NAMES)
def test_scikit_learn_agrees(name, shape, sizes):
    """In every partition, with columns averaged uniformly."""
    preds, target = draw(shape)
    expected = REFERENCES[name](target.numpy(), preds.numpy())
    assert measured(name, preds, target, sizes).compute().item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("mse", reference.mean_squared_error), ("mae", reference.mean_absolute_error),
        ("mape", reference.mean_absolute_percentage_error),
        ("smape", reference.symmetric_mean_absolute_percentage_error),
        ("r2", reference.r2_score), ("explained_variance", reference.explained_variance),
        ("pearson", reference.pearson_corrcoef),
    ],
)  # fmt: skip
def test_torchmetrics_agrees(name, function):
    """On numbers, to its precision; smape on its scale of 0 to 2."""
    preds, target = draw((200,))
    assert measured(name, preds, target).compute().item() == pytest.approx(
        function(preds, target).item(), rel=1e-5
    )


@pytest.mark.parametrize(("offset", "scale"), [(1e6, 1.0), (1e6, 1e-4), (0.0, 1e-4), (4096.0, 1e-2)])
@pytest.mark.parametrize("name", ["r2", "explained_variance", "pearson"])
def test_an_offset_or_a_scale_changes_nothing(name, offset, scale):
    """The three shares of variation do not depend on where zero is, in ten batches."""
    preds, target = draw((100,))
    expected = measured(name, preds, target).compute().item()
    moved = measured(name, offset + scale * preds, offset + scale * target, [10] * 10)
    tolerance = 1e-12 + 1e-15 * offset / scale  # what float64 leaves of the moved numbers
    assert moved.compute().item() == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_directions(name):
    """Errors are made small, shares of variation large."""
    metric = get_metric(name, Number())
    assert metric.objective is (MAXIMIZE if name in ("r2", "explained_variance", "pearson") else MINIMIZE)


@pytest.mark.parametrize("name", NAMES)
def test_a_perfect_model_has_the_best_value(name):
    """Exactly the best, but for a rounding of the correlation."""
    _, target = draw((50, 2))
    best = 1.0 if get_metric(name, Number()).objective is MAXIMIZE else 0.0
    assert measured(name, target, target).compute().item() == pytest.approx(best, abs=1e-15)


@pytest.mark.parametrize("name", ["r2", "explained_variance", "pearson"])
def test_one_row_has_no_variation(name):
    """Undefined, with the number of rows that it takes."""
    metric = measured(name, torch.tensor([1.0]), torch.tensor([2.0]))
    assert metric.compute().isnan()
    assert metric.undefined_reason == f"{name} needs at least 2 rows, got 1"


@pytest.mark.parametrize("name", ["r2", "explained_variance", "pearson"])
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
    assert metric.undefined_reason.startswith("a target is 0, of which no error is a share")


def test_smape_of_zeros():
    """No error where both are 0, the largest where one is."""
    assert measured("smape", torch.tensor([0.0]), torch.tensor([0.0])).compute().item() == 0.0
    assert measured("smape", torch.tensor([1e-9]), torch.tensor([0.0])).compute().item() == 2.0


def test_rmse_averages_the_roots_of_columns():
    """(3 + 4) / 2, and not sqrt((9 + 16) / 2)."""
    metric = measured("rmse", torch.tensor([[3.0, 4.0], [3.0, 4.0]]), torch.zeros(2, 2))
    assert metric.compute().item() == 3.5


def test_rmsle_refuses_what_has_no_logarithm():
    """The message has the value, and no member of the collection has taken any of the batch."""
    metrics = MetricCollection(["mse", "rmsle", "mae"], output=Number())
    metrics.update(predictions=[1.0, 2.0], target=[1.0, 2.0])
    with pytest.raises(MetricInputError, match=r"rmsle reads predictions and targets above -1, got -1.5"):
        metrics.update(predictions=[-1.5, 9.0], target=[1.0, 2.0])
    assert metrics.compute() == {"mse": 0.0, "rmsle": 0.0, "mae": 0.0}


def test_shapes_never_broadcast():
    """(N, 1) against (N,) is the classic silent N x N error."""
    with pytest.raises(MetricInputError, match="shapes never broadcast; reshape one of them"):
        get_metric("mse", Number()).update(torch.zeros(3, 1), torch.zeros(3))


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("neg_mean_squared_error", "mse"), ("mean_squared_error", "mse"),
        ("neg_root_mean_squared_error", "rmse"), ("neg_mean_absolute_error", "mae"),
        ("neg_mean_absolute_percentage_error", "mape"), ("neg_root_mean_squared_log_error", "rmsle"),
        ("symmetric_mean_absolute_percentage_error", "smape"), ("r2_score", "r2"),
    ],
)  # fmt: skip
def test_the_names_of_others(alias, name):
    """Ludwig's and scikit-learn's spellings mean the natural value, minimised."""
    assert str(find_metric(alias, "number").name) == name


def test_metrics_of_one_measure_share_it():
    """Nine metrics over six statistics."""
    metrics = MetricCollection(NAMES, output=Timeseries(horizon=4))
    preds, target = draw((30, 4))
    metrics.update(predictions=preds, target=target)
    assert len(metrics.statistics) == 6
    for name, value in metrics.compute().items():
        assert value.item() == pytest.approx(measured(name, preds, target).compute().item(), rel=1e-15)


def test_every_metric_of_the_file_is_tested_here():
    """A metric added to the file must be added to NAMES."""
    found = {entry.name for entry in all_entries() if entry.path.startswith(regression.__name__ + ":")}
    assert found == set(NAMES)
