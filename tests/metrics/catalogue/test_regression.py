"""Errors and shares of variation: by hand, against scikit-learn, torch and torchmetrics, at the edges."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import sklearn.metrics
import torch
import torchmetrics.functional as reference
from real_outputs import weights
from torch import Tensor
from torch.nn import functional

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Number, Timeseries, Vector
from hpometrics.metrics.metric import Metric
from hpometrics.metrics.registry import all_entries, find_metric, get_metric
from hpometrics.objective import MAXIMIZE, MINIMIZE


def by_column(measure):
    """The mean over columns of a number that has no form for several."""

    def mean(target: np.ndarray, preds: np.ndarray, weight: np.ndarray | None = None) -> float:
        pairs = zip(target.reshape(len(target), -1).T, preds.reshape(len(preds), -1).T, strict=True)
        return float(
            np.mean([measure(t, p, np.ones(len(t)) if weight is None else weight) for t, p in pairs])
        )

    return mean


def of_rows(loss):
    """The weighted mean over rows of torch's loss of each value."""

    def mean(target: np.ndarray, preds: np.ndarray, weight: np.ndarray | None = None) -> float:
        each = loss(torch.tensor(preds), torch.tensor(target), reduction="none").numpy()
        return float(np.average(each.reshape(len(each), -1).mean(1), weights=weight))

    return mean


def scikit(score):
    """A score of scikit-learn."""
    return lambda target, preds, weight=None: score(target, preds, sample_weight=weight)


def spread(target, weight):
    """The weighted standard deviation over n."""
    return np.sqrt(np.cov(target, aweights=weight, bias=True))


def root(target, preds, weight):
    """The weighted root mean squared error of a column."""
    return np.sqrt(np.average((preds - target) ** 2, weights=weight))


def adjusted(target, preds, weight):
    """r2 adjusted for three inputs."""
    rest = 1 - sklearn.metrics.r2_score(target, preds, sample_weight=weight)
    return 1 - rest * (weight.sum() - 1) / (weight.sum() - 4)


def rae(target, preds, weight):
    """The errors' sizes against those of the gaps from the mean."""
    gaps = np.abs(target - np.average(target, weights=weight))
    return (weight * np.abs(preds - target)).sum() / (weight * gaps).sum()


def wape(target, preds, weight=None):
    """Over all values together."""
    weight = np.ones(len(target)) if weight is None else weight
    error, size = (np.abs(x).reshape(len(x), -1).sum(1) for x in (preds - target, target))
    return float((weight * error).sum() / (weight * size).sum())


REFERENCES = {
    "mse": scikit(sklearn.metrics.mean_squared_error),
    "rmse": scikit(sklearn.metrics.root_mean_squared_error),
    "mae": scikit(sklearn.metrics.mean_absolute_error),
    "median_absolute_error": scikit(sklearn.metrics.median_absolute_error),
    "max_error": by_column(lambda t, p, w: np.abs(p - t)[w > 0].max()),
    "bias": by_column(lambda t, p, w: np.average(p - t, weights=w)),
    "absolute_bias": by_column(lambda t, p, w: abs(np.average(p - t, weights=w))),
    "huber": of_rows(functional.huber_loss),
    "smooth_l1": of_rows(functional.smooth_l1_loss),
    "log_cosh": by_column(lambda t, p, w: np.average(np.log(np.cosh(p - t)), weights=w)),
    "mape": scikit(sklearn.metrics.mean_absolute_percentage_error),
    "rmspe": by_column(lambda t, p, w: np.sqrt(np.average(((p - t) / t) ** 2, weights=w))),
    "smape": by_column(lambda t, p, w: np.average(2 * np.abs(p - t) / (np.abs(p) + np.abs(t)), weights=w)),
    "wape": wape,
    "msle": scikit(sklearn.metrics.mean_squared_log_error),
    "rmsle": scikit(sklearn.metrics.root_mean_squared_log_error),
    "rmsle(clip=true)": scikit(sklearn.metrics.root_mean_squared_log_error),
    "nrmse(normalization=mean)": by_column(lambda t, p, w: root(t, p, w) / np.average(t, weights=w)),
    "nrmse(normalization=range)": by_column(lambda t, p, w: root(t, p, w) / np.ptp(t[w > 0])),
    "nrmse(normalization=std)": by_column(lambda t, p, w: root(t, p, w) / spread(t, w)),
    "r2": scikit(sklearn.metrics.r2_score),
    "r2(multioutput=variance_weighted)": lambda t, p, w=None: sklearn.metrics.r2_score(
        t, p, sample_weight=w, multioutput="variance_weighted"
    ),
    "adjusted_r2(features=3)": by_column(adjusted),
    "explained_variance": scikit(sklearn.metrics.explained_variance_score),
    "explained_variance(multioutput=variance_weighted)": lambda t, p, w=None: (
        sklearn.metrics.explained_variance_score(t, p, sample_weight=w, multioutput="variance_weighted")
    ),
    "rse": by_column(lambda t, p, w: 1 - sklearn.metrics.r2_score(t, p, sample_weight=w)),
    "rae": by_column(rae),
    "pearson": by_column(lambda t, p, w: np.cov(t, p, aweights=w)[0, 1] / spread(t, w) / spread(p, w)
                         * (w.sum() ** 2 - (w**2).sum()) / w.sum() ** 2),
}  # fmt: skip
NAMES = [name for name in REFERENCES if name != "bias"]
SHARES = [name for name in NAMES if name.startswith(("r2", "adjusted", "explained", "pearson"))]


def draw(shape: tuple[int, ...], seed: int = 0) -> tuple[Tensor, Tensor]:
    """Draw positive targets and predictions near them, in float64."""
    generator = torch.Generator().manual_seed(seed)
    target = torch.rand(shape, generator=generator, dtype=torch.float64) * 5 + 0.1
    noise = torch.rand(shape, generator=generator, dtype=torch.float64) - 0.3
    return (target + noise).clamp(min=0.01), target


def measured(
    name: str, preds: Tensor, target: Tensor, sizes: list[int] | None = None, weight: Tensor | None = None
) -> Metric:
    """Feed a metric, in batches of these sizes."""
    metric = get_metric(name, Number() if target.ndim == 1 else Vector())
    parts = [x.split(sizes or len(x)) for x in (preds, target, *([] if weight is None else [weight]))]
    for part in zip(*parts, strict=True):
        metric.update(*part[:2], **({} if weight is None else {"sample_weight": part[2]}))
    return metric


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


@pytest.mark.parametrize("sizes", [None, [1] * 90, [1, 80, 9]], ids=["whole", "rows", "uneven"])
@pytest.mark.parametrize("shape", [(90,), (90, 4)], ids=["number", "vector"])
@pytest.mark.parametrize("name", REFERENCES)
def test_the_references_agree(name, shape, sizes):
    """scikit-learn, torch or the formula in numpy: in every partition, with columns averaged uniformly."""
    preds, target = draw(shape)
    expected = REFERENCES[name](target.numpy(), preds.numpy())
    assert measured(name, preds, target, sizes).compute().item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shape", [(90,), (90, 4), (9, 2)])
@pytest.mark.parametrize("name", REFERENCES)
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


@pytest.mark.parametrize(("offset", "scale"), [(1e6, 1.0), (1e6, 1e-4), (0.0, 1e-4), (4096.0, 1e-2)])
@pytest.mark.parametrize("name", [*SHARES, "rse", "rae", "bias", "absolute_bias"])
def test_an_offset_or_a_scale_changes_nothing(name, offset, scale):
    """Shares of variation do not depend on where zero is, in ten batches; a bias only on the unit."""
    preds, target = draw((100,))
    expected = measured(name, preds, target).compute().item() * (scale if "bias" in name else 1)
    moved = measured(name, offset + scale * preds, offset + scale * target, [10] * 10)
    tolerance = 1e-12 + 1e-15 * offset / scale  # what float64 leaves of the moved numbers
    assert moved.compute().item() == pytest.approx(expected, abs=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_directions(name):
    """Errors are made small, shares of variation large."""
    metric = get_metric(name, Number())
    assert metric.objective is (MAXIMIZE if name in SHARES else MINIMIZE)


@pytest.mark.parametrize("name", NAMES)
def test_a_perfect_model_has_the_best_value(name):
    """Exactly the best, but for a rounding of the correlation."""
    _, target = draw((50, 2))
    best = 1.0 if get_metric(name, Number()).objective is MAXIMIZE else 0.0
    assert measured(name, target, target).compute().item() == pytest.approx(best, abs=1e-15)


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
    with pytest.raises(MetricInputError, match=r"rmsle and msle read .* above -1, got -1.5"):
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
        ("neg_mean_squared_log_error", "msle"), ("neg_median_absolute_error", "median_absolute_error"),
        ("neg_max_error", "max_error"), ("explained_variance_score", "explained_variance"),
        ("root_mean_squared_percentage_error", "rmspe"), ("wmape", "wape"), ("log_cosh_error", "log_cosh"),
        ("relative_squared_error", "rse"), ("mean_squared_log_error", "msle"), ("huber_loss", "huber"),
        ("weighted_mean_absolute_percentage_error", "wape"), ("smooth_l1_loss", "smooth_l1"),
    ],
)  # fmt: skip
def test_the_names_of_others(alias, name):
    """Ludwig's and scikit-learn's spellings mean the natural value, minimised."""
    assert str(find_metric(alias, "number").name) == name


def test_metrics_of_one_measure_share_it():
    """All of them over twelve statistics, besides the means of three that have their own."""
    metrics = MetricCollection(REFERENCES, output=Timeseries(horizon=4))
    preds, target = draw((30, 4))
    metrics.update(predictions=preds, target=target)
    shared = [s for s in metrics.statistics if type(s).__name__ != "WeightedMean"]
    assert len(shared) == 12 and len(metrics.statistics) == 15
    for name, value in metrics.compute().items():
        assert value.item() == pytest.approx(measured(name, preds, target).compute().item(), rel=1e-15)


def test_tabnet_takes_predictions_below_zero_as_zero():
    """Its golden value, with a prediction that has a logarithm and one that had none."""
    target = torch.tensor([3.0, 5.0, 2.5, 7.0])
    preds = torch.tensor([2.5, 5.0, 4.0, 8.0])
    assert measured("rmsle", preds, target).compute().item() == pytest.approx(0.199324, abs=5e-7)
    got = measured("rmsle(clip=true)", torch.tensor([-3.0]), torch.tensor([1.0])).compute().item()
    assert got == pytest.approx(np.log(2))
    with pytest.raises(MetricInputError, match="targets above -1, got -2"):
        measured("rmsle(clip=true)", torch.tensor([-3.0]), torch.tensor([-2.0]))


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


@pytest.mark.parametrize(("error", "value"), [(1e-9, 5e-19), (1e-3, 5e-7), (800.0, 800 - np.log(2))])
def test_log_cosh_of_the_smallest_and_the_largest(error, value):
    """Half the square near 0 and a straight line far away, neither rounded away nor overflown."""
    batch = torch.tensor([error], dtype=torch.float64), torch.zeros(1, dtype=torch.float64)
    assert measured("log_cosh", *batch).compute().item() == pytest.approx(value, rel=1e-6)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("mape", "a target is 0"), ("rmspe", "a target is 0"), ("wape", "every target is 0"),
        ("nrmse(normalization=mean)", "the target's mean is 0"),
        ("nrmse(normalization=range)", "the target's range is 0"),
        ("nrmse(normalization=std)", "the target's std is 0"),
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
        ("minkowski(p=0.5)", "p is a number from 1"), ("huber(delta=-1)", "delta is a number above 0"),
        ("adjusted_r2", "adjusted_r2 of number needs features="), ("nrmse", "needs normalization="),
        ("adjusted_r2(features=-1)", "features is a number of inputs from 0"),
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


def test_every_metric_of_the_files_is_tested_here():
    """A metric added to one of them must be added to REFERENCES."""
    files = ("regression", "robust", "relative", "variation")
    found = {e.name for e in all_entries() if e.path.partition(":")[0].rpartition(".")[2] in files}
    assert found == {name.partition("(")[0] for name in REFERENCES} - {"pearson"} | {"minkowski"}
