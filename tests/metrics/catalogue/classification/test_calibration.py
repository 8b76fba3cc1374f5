from __future__ import annotations

import numpy as np
import pytest
import scipy.special
import sklearn.calibration
import sklearn.metrics as sk
import torch
import torchmetrics.functional.classification as tm

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Binary, Category, Set
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

NORMS = {"ece": "l1", "rms_calibration_error": "l2", "mce": "max"}
OUTPUTS = {"binary": Binary(), "category": Category(4), "set": Set(3)}
EDGELESS = 15  # bins whose edges no float32 probability meets


def case(kind, rows, seed, ties=False):
    """Probabilities of a middling model and what was right."""
    random = np.random.default_rng([seed, rows])
    if kind == "category":
        target = random.integers(4, size=rows)
        logits = 2 * random.normal(size=(rows, 4)) + np.eye(4)[target]
        probabilities = scipy.special.softmax(logits, axis=1)
    else:
        shape = (rows, 3) if kind == "set" else (rows,)
        target = random.integers(2, size=shape)
        probabilities = scipy.special.expit(2 * random.normal(size=shape) + target)
    if ties:
        probabilities = probabilities[random.integers(rows // 4 + 1, size=rows)]
    return torch.tensor(probabilities), torch.tensor(target)


def measured(name, kind, probabilities, target, weight=None):
    """The value of one batch."""
    metric = get_metric(name, OUTPUTS[kind])
    kwargs = {} if weight is None else {"sample_weight": weight}
    metric.update(probabilities=probabilities, target=target, **kwargs)
    return metric.compute()


def answers(kind, probabilities, target):
    """Confidence and right or wrong of every answer, by NumPy."""
    if kind == "category":
        best = probabilities.argmax(1)
        return probabilities.amax(1).numpy(), (best == target).double().numpy()
    return probabilities.flatten().numpy(), target.flatten().double().numpy()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("rows", [1, 17, 500])
@pytest.mark.parametrize("name", NORMS)
@pytest.mark.parametrize("kind", ["binary", "category"])
def test_errors_are_those_of_torchmetrics(kind, name, rows, seed):
    """All three norms, of the probability of class 1 and of the largest probability."""
    probabilities, target = case(kind, rows, seed)
    if kind == "binary":
        expected = tm.binary_calibration_error(probabilities, target, EDGELESS, NORMS[name])
    else:
        expected = tm.multiclass_calibration_error(probabilities, target, 4, EDGELESS, NORMS[name])
    assert measured(name, kind, probabilities, target).item() == pytest.approx(expected.item(), abs=1e-6)


@pytest.mark.parametrize("name", NORMS)
def test_a_confidence_of_1_joins_the_last_bin(name):
    """A wrong answer of 1 and a right one of 0.95 are 0.975 and a half; torchmetrics bins each alone."""
    probabilities, target = torch.tensor([[1.0, 0.0], [0.95, 0.05]]), torch.tensor([1, 0])
    theirs = tm.multiclass_calibration_error(probabilities, target, 2, EDGELESS, NORMS[name]).item()
    metric = get_metric(name, Category(2))
    metric.update(probabilities=probabilities, target=target)
    assert metric.compute().item() == pytest.approx(0.475)
    assert theirs == pytest.approx({"l1": 0.525, "l2": (1.0025 / 2) ** 0.5, "max": 1.0}[NORMS[name]])
    assert "bin of its own" in find_metric(name, "category").entries[0].deviates


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("bins", [5, 10, 15])
def test_a_confidence_on_an_edge_is_in_the_bin_above(bins, dtype):
    """Of a category as of a binary output: probabilities are binned as they are."""
    sure = torch.arange(bins // 2 + 1, bins, dtype=dtype) / bins
    values = []
    for output, probabilities in ((Binary(), sure), (Category(2), torch.stack([1 - sure, sure], 1))):
        metric = get_metric(f"reliability_curve(bins={bins})", output)
        metric.update(probabilities=probabilities, target=torch.ones(len(sure), dtype=torch.int64))
        values.append(metric.compute())
    torch.testing.assert_close(*values, rtol=0, atol=0, equal_nan=True)


def brute_force(sure, right, bins):
    """Weight, mean confidence and share right of each bin that has an answer."""
    places = np.minimum((sure * bins).astype(int), bins - 1)
    held = [places == i for i in range(bins) if (places == i).any()]
    return np.array([(h.mean(), sure[h].mean(), right[h].mean()) for h in held]).T


@pytest.mark.parametrize("bins", [1, 4, 15, 100])
@pytest.mark.parametrize("kind", OUTPUTS)
def test_errors_by_brute_force(kind, bins):
    """Bin by bin, in float64, for each feature; a set's labels are answers of their own."""
    probabilities, target = case(kind, 200, seed=5)
    share, sure, right = brute_force(*answers(kind, probabilities, target), bins)
    gaps = np.abs(sure - right)
    expected = {"ece": share @ gaps, "rms_calibration_error": (share @ gaps**2) ** 0.5, "mce": gaps.max()}
    for name, value in expected.items():
        got = measured(f"{name}(bins={bins})", kind, probabilities, target)
        assert got.item() == pytest.approx(value, abs=1e-12)


def test_the_curve_is_that_of_scikit_learn():
    """The bins that have rows; the others are nan."""
    probabilities, target = case("binary", 40, seed=1)
    sure, right, share = measured("reliability_curve(bins=20)", "binary", probabilities, target)
    expected = sklearn.calibration.calibration_curve(target, probabilities, n_bins=20)
    held = share > 0
    assert sure[held].tolist() == pytest.approx(expected[1]) and right[held].tolist() == pytest.approx(
        expected[0]
    )
    assert sure[~held].isnan().all() and share.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("kind", ["category", "set"])
def test_classwise_ece_is_the_mean_of_binary_ones(kind):
    """Each class against the rest, as an output of its own."""
    probabilities, target = case(kind, 150, seed=2)
    hot = torch.nn.functional.one_hot(target, 4) if kind == "category" else target
    columns = zip(probabilities.T, hot.T, strict=True)
    expected = np.mean([measured("ece", "binary", p, y).item() for p, y in columns])
    assert measured("classwise_ece", kind, probabilities, target).item() == pytest.approx(expected)


@pytest.mark.parametrize("bins", [1, 5, 20])
@pytest.mark.parametrize("kind", OUTPUTS)
def test_adaptive_ece_by_brute_force(kind, bins):
    """Where answers divide by bins and none are tied: sorted, and cut into equal parts."""
    sure, right = answers(kind, *case(kind, 100, seed=3))
    order = np.argsort(sure)
    parts = zip(np.split(sure[order], bins), np.split(right[order], bins), strict=True)
    expected = np.mean([abs(s.mean() - r.mean()) for s, r in parts])
    got = measured(f"adaptive_ece(bins={bins})", kind, *case(kind, 100, seed=3))
    assert got.item() == pytest.approx(expected)


@pytest.mark.parametrize("name", ["adaptive_ece(bins=7)", "ks_calibration_error"])
@pytest.mark.parametrize("kind", OUTPUTS)
def test_ties_are_shared_out(kind, name):
    """Rows of one confidence have no order: shuffled, repeated or weighed they give the same value."""
    probabilities, target = case(kind, 90, seed=4, ties=True)
    value = measured(name, kind, probabilities, target).item()
    shuffled = torch.randperm(90, generator=torch.Generator().manual_seed(0))
    twice = torch.arange(90).repeat_interleave(2)
    thirds = torch.full((90,), 1 / 3)
    assert value == pytest.approx(measured(name, kind, probabilities[shuffled], target[shuffled]).item())
    assert value == pytest.approx(measured(name, kind, probabilities[twice], target[twice]).item())
    assert value == pytest.approx(measured(name, kind, probabilities, target, thirds).item())


def test_adaptive_ece_by_hand():
    """Three rows in two bins: the one in the middle belongs to both by half."""
    probabilities, target = torch.tensor([0.2, 0.5, 0.8]), torch.tensor([0, 1, 1])
    first, second = 0.2 / 1.5 - 0.5 * 0.5 / 1.5, -0.5 * 0.5 / 1.5 - 0.2 / 1.5
    got = measured("adaptive_ece(bins=2)", "binary", probabilities, target)
    assert got.item() == pytest.approx((abs(first) + abs(second)) / 2)


@pytest.mark.parametrize("kind", OUTPUTS)
def test_ks_by_brute_force(kind):
    """The largest gap of the two cumulative curves."""
    sure, right = answers(kind, *case(kind, 80, seed=6))
    order = np.argsort(sure)
    expected = np.abs(np.cumsum((sure - right)[order])).max() / len(sure)
    assert measured("ks_calibration_error", kind, *case(kind, 80, seed=6)).item() == pytest.approx(expected)


@pytest.mark.parametrize("weighed", [False, True])
@pytest.mark.parametrize("kind", OUTPUTS)
def test_the_parts_add_up_to_the_brier_score_of_the_binned_forecast(kind, weighed):
    """Reliability - resolution + uncertainty, where each probability is replaced by the mean of its bin."""
    probabilities, target = case(kind, 300, seed=7)
    weight = torch.rand(300, dtype=torch.float64) if weighed else torch.ones(300, dtype=torch.float64)
    panel = MetricCollection(
        [f"brier_{part}(bins=6)" for part in ("reliability", "resolution", "uncertainty")], OUTPUTS[kind]
    )
    panel.update(probabilities=probabilities, target=target, sample_weight=weight)
    reliability, resolution, uncertainty = (value.item() for value in panel.compute().values())
    hot = torch.nn.functional.one_hot(target, 4) if kind == "category" else target
    gaps = torch.stack([
        (binned(p, weight) - y).square() @ weight / weight.sum()
        for p, y in zip(probabilities.reshape(300, -1).T, hot.reshape(300, -1).T, strict=True)
    ])  # fmt: skip
    expected = gaps.mean() if kind == "set" else gaps.sum()
    assert reliability - resolution + uncertainty == pytest.approx(expected.item())
    assert len(panel.statistics) == 1


def binned(probabilities, weight):
    """Each probability, replaced by the weighted mean of its bin of six."""
    places = (probabilities * 6).long().clamp(max=5)
    sums = [torch.bincount(places, w, 6) for w in (probabilities * weight, weight)]
    return (sums[0] / sums[1])[places]


@pytest.mark.parametrize("seed", range(3))
def test_brier_is_that_of_scikit_learn(seed):
    """Of one probability, of a set's labels, and summed over classes; with weights."""
    weight = np.random.default_rng(seed).random(60)
    probabilities, target = case("binary", 60, seed)
    expected = sk.brier_score_loss(target, probabilities, sample_weight=weight)
    got = measured("brier", "binary", probabilities, target, torch.tensor(weight))
    assert got.item() == pytest.approx(expected)
    probabilities, target = case("category", 60, seed)
    expected = sk.brier_score_loss(target, probabilities, scale_by_half=False, labels=range(4))
    assert measured("brier", "category", probabilities, target).item() == pytest.approx(expected)
    probabilities, target = case("set", 60, seed)
    expected = np.mean([sk.brier_score_loss(target[:, i], probabilities[:, i]) for i in range(3)])
    assert measured("brier", "set", probabilities, target).item() == pytest.approx(expected)


def test_brier_reads_soft_labels():
    """A probability that is right about how often has no gap."""
    for output, soft in ((Binary(), [0.7, 0.2]), (Category(2), [[0.3, 0.7], [0.8, 0.2]])):
        metric = get_metric("brier", output)
        metric.update(probabilities=torch.tensor(soft), target_probabilities=torch.tensor(soft))
        assert metric.compute().item() == 0.0
    metric = get_metric("brier", Category(2))
    metric.update(probabilities=torch.tensor([[0.5, 0.5]]), target_probabilities=torch.tensor([[0.9, 0.1]]))
    assert metric.compute().item() == pytest.approx(2 * 0.4**2)


@pytest.mark.parametrize("kind", ["binary", "category"])
def test_confidence_less_accuracy_is_overconfidence(kind):
    """Confidence is the probability of what was predicted, on either side of the threshold."""
    probabilities, target = case(kind, 120, seed=8)
    columns = torch.stack([1 - probabilities, probabilities], 1) if kind == "binary" else probabilities
    confidence, accuracy = columns.amax(1).mean().item(), (columns.argmax(1) == target).double().mean().item()
    assert measured("confidence", kind, probabilities, target).item() == pytest.approx(confidence)
    value = measured("overconfidence", kind, probabilities, target).item()
    assert value == pytest.approx(confidence - accuracy)
    assert measured("absolute_overconfidence", kind, probabilities, target).item() == pytest.approx(
        abs(value)
    )


def test_the_larger_of_two_probabilities_is_a_category_s():
    """`Category(2)` holds the larger probability against being right; a binary output that of class 1."""
    probabilities, target = torch.tensor([0.1, 0.1, 0.9, 0.9]), torch.tensor([0, 0, 1, 0])
    assert measured("ece", "binary", probabilities, target).item() == pytest.approx((0.1 + 0.4) / 2)
    columns = torch.stack([1 - probabilities, probabilities], 1)
    metric = get_metric("ece", Category(2))
    metric.update(probabilities=columns, target=target)
    assert metric.compute().item() == pytest.approx(0.9 - 3 / 4)


def test_a_panel_bins_once_and_stores_once():
    """Metrics of the same bins share them, whatever they make of them."""
    names = ["ece", "mce", "rms_calibration_error", "reliability_curve", "brier_reliability"]
    panel = MetricCollection([*names, "adaptive_ece", "ks_calibration_error"], Binary())
    assert len(panel.statistics) == 2


BINNED = ["ece", "mce", "rms_calibration_error", "classwise_ece", "adaptive_ece", "brier_reliability"]


@pytest.mark.parametrize("name", BINNED)
def test_there_is_at_least_one_bin(name):
    """The message names the metric."""
    with pytest.raises(MetricNameError, match=f"{name} needs at least one bin, got bins=0"):
        get_metric(f"{name}(bins=0)", Category(4))


@pytest.mark.parametrize("name", [*BINNED, "brier", "ks_calibration_error", "absolute_overconfidence"])
def test_rows_without_weight_are_nothing(name):
    """All weights 0 is as undefined as no row."""
    metric = get_metric(name, Category(4))
    probabilities, target = case("category", 5, seed=0)
    metric.update(probabilities=probabilities, target=target, sample_weight=torch.zeros(5))
    assert metric.compute().isnan() and metric.undefined_reason == "no rows were counted"
