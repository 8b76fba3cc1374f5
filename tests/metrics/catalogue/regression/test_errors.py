"""Errors and shares of variation: by hand, and against scikit-learn, torch and torchmetrics."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
import torchmetrics
import torchmetrics.functional as reference
from matrix import covering
from real_outputs import weights
from real_references import NAMES, REFERENCES, SHARES, draw, measured
from sklearn.metrics import mean_squared_error, mean_squared_log_error
from torch.nn import functional

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Number, Timeseries
from hpometrics.metrics.registry.index import all_entries
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mse", 0.375), ("rmse", 0.375**0.5), ("mae", 0.5), ("mape", (1 / 6 + 1 + 0 + 1 / 7) / 4),
        ("smape", (2 / 11 + 2 + 0 + 2 / 15) / 4), ("r2", 1 - 1.5 / 29.1875),
        ("explained_variance", 1 - 1.25 / 29.1875), ("pearson", 0.98487), ("rse", 1.5 / 29.1875),
        ("median_absolute_error", 0.5), ("max_error", 1.0), ("bias", 0.25), ("absolute_bias", 0.25),
        ("huber", 0.1875), ("wape", 2 / 12.5), ("nrmse(normalization=range)", 0.375**0.5 / 7.5),
        ("rae", 2 / 8.5), ("minkowski(p=1)", 0.5), ("minkowski(p=2)", 0.375**0.5),
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


def families_of(name):
    """The families of a metric, which share their statistics."""
    return find_metric(name, "number").entries[0].families


@pytest.mark.parametrize(
    ("name", "shape", "sizes"),
    covering(
        product(REFERENCES, [(90,), (90, 4)], [(1, 80, 9), (90,), (1,) * 90]),
        lambda case: [(case[0], case[1]), (families_of(case[0]), case[2])],
        ids=lambda case: f"{case[0]}-{case[1]}-{len(case[2])}",
    ),
)
def test_the_references_agree(name, shape, sizes):
    """scikit-learn, torch or the formula in numpy: in every partition, with columns averaged uniformly."""
    preds, target = draw(shape)
    expected = REFERENCES[name](target.numpy(), preds.numpy())
    assert measured(name, preds, target, list(sizes)).compute().item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "shape", "seed"),
    covering(
        product(REFERENCES, [(90,), (90, 4), (9, 2)], range(3)),
        lambda case: [case[0], (families_of(case[0]), case[1])],
        ids=str,
    ),
)
def test_the_references_agree_on_weights(name, shape, seed):
    """Fractions, and weights of 0, in uneven batches."""
    preds, target = draw(shape, seed)
    weight = weights(len(target), seed)
    if name == "pearson":
        weight = weight.round()
    expected = REFERENCES[name](target.numpy(), preds.numpy(), weight.numpy())
    got = measured(name, preds, target, [1, 5, len(target) - 6], weight).compute().item()
    assert got == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("mse", reference.mean_squared_error), ("mae", reference.mean_absolute_error),
        ("mape", reference.mean_absolute_percentage_error),
        ("smape", reference.symmetric_mean_absolute_percentage_error),
        ("r2", reference.r2_score), ("explained_variance", reference.explained_variance),
        ("pearson", reference.pearson_corrcoef), ("msle", reference.mean_squared_log_error),
        ("log_cosh", reference.log_cosh_error), ("rse", reference.relative_squared_error),
        ("wape", reference.weighted_mean_absolute_percentage_error),
        *[
            (f"nrmse(normalization={unit})",
             partial(reference.regression.normalized_root_mean_squared_error, normalization=unit))
            for unit in ("mean", "range", "std")
        ],
        ("adjusted_r2(features=5)", partial(reference.r2_score, adjusted=5)),
        ("minkowski(p=3)", lambda p, t: reference.minkowski_distance(p, t, 3) / 200 ** (1 / 3)),
    ],
)  # fmt: skip
def test_torchmetrics_agrees(name, function):
    """On numbers, to its precision; smape on its scale of 0 to 2."""
    preds, target = draw((200,))
    assert measured(name, preds, target).compute().item() == pytest.approx(
        function(preds, target).item(), rel=1e-5
    )


@pytest.mark.parametrize("name", NAMES)
def test_directions(name):
    """Errors are made small, shares of variation large."""
    metric = get_metric(name, Number())
    assert metric.direction is (MAXIMIZE if name in SHARES else MINIMIZE)


@pytest.mark.parametrize("name", NAMES)
def test_a_perfect_model_has_the_best_value(name):
    """Exactly the best, but for a rounding of the correlation."""
    _, target = draw((50, 2))
    best = 1.0 if get_metric(name, Number()).direction is MAXIMIZE else 0.0
    assert measured(name, target, target).compute().item() == pytest.approx(best, abs=1e-15)


def test_rmse_averages_the_roots_of_columns():
    """(3 + 4) / 2, and not sqrt((9 + 16) / 2)."""
    metric = measured("rmse", torch.tensor([[3.0, 4.0], [3.0, 4.0]]), torch.zeros(2, 2))
    assert metric.compute().item() == 3.5


def tabnet_rmsle(target, preds):
    """The root of the mean over the columns, of predictions clipped at 0: pytorch-tabnet's RMSLE."""
    return np.sqrt(mean_squared_log_error(target, np.clip(preds, 0, None)))


POOLED = {
    "rmse(multioutput=pooled)": lambda t, p: np.sqrt(mean_squared_error(t, p)),  # pytorch-tabnet's RMSE
    "rmsle(clip=true, multioutput=pooled)": tabnet_rmsle,
    "rmspe(multioutput=pooled)": lambda t, p: np.sqrt((((t - p) / t) ** 2).mean()),  # Ludwig's
}


@pytest.mark.parametrize("shape", [(2, 2), (9, 3), (200, 5)])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", POOLED)
def test_pytorch_tabnets_root_is_of_all_columns(name, seed, shape):
    """Whose sizes differ, so that the mean of the roots is another number; in uneven batches."""
    preds, target = (x * 10.0 ** torch.arange(shape[1]) for x in draw(shape, seed))
    preds = preds - 0.5 * (seed % 2)  # below 0 is a prediction as well
    expected = POOLED[name](target.numpy(), preds.numpy())
    value = partial(measured, preds=preds, target=target, sizes=[1, len(preds) - 1])
    if "rmsle" not in name:
        assert value(name.partition("(")[0]).compute().item() != pytest.approx(expected)
    assert value(name).compute().item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("unit", ["mean", "range", "std"])
@pytest.mark.parametrize("shape", [(2, 2), (9, 3), (200, 5)])
@pytest.mark.parametrize("seed", range(4))
def test_torchmetrics_takes_one_unit_of_all_columns(seed, shape, unit):
    """Unless it is told how many there are, which is `multioutput=uniform`."""
    preds, target = draw(shape, seed)
    for multioutput, width in (("pooled", 1), ("uniform", shape[1])):
        theirs = torchmetrics.NormalizedRootMeanSquaredError(unit, num_outputs=width).set_dtype(torch.float64)
        theirs.update(preds, target)
        got = measured(
            f"nrmse(normalization={unit}, multioutput={multioutput})", preds, target, [1, len(preds) - 1]
        )
        assert got.compute().item() == pytest.approx(theirs.compute().mean().item(), rel=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e160, 1e300])
def test_a_root_of_all_columns_is_a_float_where_its_square_is_not(scale):
    """sqrt((9 + 16) / 2) in any unit, and 0 where nothing is wrong."""
    wrong = scale * torch.tensor([[3.0, 4.0], [3.0, 4.0]], dtype=torch.float64)
    metric = measured("rmse(multioutput=pooled)", wrong, torch.zeros_like(wrong))
    assert metric.compute().item() == pytest.approx(scale * 12.5**0.5, rel=1e-14)
    assert measured("rmse(multioutput=pooled)", wrong, wrong).compute().item() == 0.0


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("neg_mean_squared_error", "mse"), ("mean_squared_error", "mse"),
        ("neg_root_mean_squared_error", "rmse"), ("neg_mean_absolute_error", "mae"),
        ("neg_mean_absolute_percentage_error", "mape"), ("neg_root_mean_squared_log_error", "rmsle"),
        ("symmetric_mean_absolute_percentage_error", "smape"), ("r2_score", "r2"),
        ("neg_mean_squared_log_error", "msle"), ("neg_median_absolute_error", "median_absolute_error"),
        ("neg_max_error", "max_error"), ("explained_variance_score", "explained_variance"),
        ("root_mean_squared_percentage_error", "rmspe"), ("wmape", "wape"), ("log_cosh_error", "log_cosh"),
        ("relative_squared_error", "rse"), ("mean_squared_log_error", "msle"), ("huber_loss", "huber"),
        ("weighted_mean_absolute_percentage_error", "wape"), ("smooth_l1_loss", "smooth_l1"),
    ],
)  # fmt: skip
def test_the_names_of_others(alias, name):
    """Ludwig's and scikit-learn's spellings mean the natural value, minimized."""
    assert str(find_metric(alias, "number").name) == name


def test_metrics_of_one_measure_share_it():
    """All of them over thirteen statistics, besides the means of two that have their own."""
    metrics = MetricCollection(REFERENCES, output=Timeseries(horizon=4))
    preds, target = draw((30, 4))
    metrics.update(predictions=preds, target=target)
    shared = [s for s in metrics.statistics if type(s).__name__ != "WeightedMean"]
    assert len(shared) == 13 and len(metrics.statistics) == 15
    for name, value in metrics.compute().items():
        assert value.item() == pytest.approx(measured(name, preds, target).compute().item(), rel=1e-15)


def test_rmspe_pools_batches():
    """The root of the mean over all rows, where Ludwig's mean over batches is another number."""
    preds, target = torch.tensor([1.0, 2.0, 30.0]), torch.tensor([1.0, 1.0, 10.0])
    pooled = measured("rmspe", preds, target, [2, 1]).compute().item()
    assert pooled == pytest.approx(np.sqrt((0 + 1 + 4) / 3))
    assert pooled != pytest.approx((np.sqrt(1 / 2) + 2) / 2)


@pytest.mark.parametrize("delta", [0.3, 1.0, 4.0])
def test_where_a_loss_bends(delta):
    """Of both robust losses, in units of their bend."""
    preds, target = draw((50, 3), 2)
    got = measured(f"huber(delta={delta})", 4 * preds, target).compute().item()
    assert got == pytest.approx(functional.huber_loss(4 * preds, target, delta=delta).item(), rel=1e-12)
    assert delta * measured(f"smooth_l1(beta={delta})", 4 * preds, target).compute().item() == pytest.approx(
        got
    )


def test_every_metric_of_the_files_is_tested_here():
    """A metric added to one of them must be added to REFERENCES."""
    files = ("errors", "robust", "relative", "variation")
    more = {"minkowski", "unsup_loss"}  # which are compared elsewhere
    found = {e.name for e in all_entries() if e.path.partition(":")[0].rpartition(".")[2] in files}
    assert found == {name.partition("(")[0] for name in REFERENCES} - {"pearson"} | more
