"""Losses beyond torch: those of Ludwig, that of the caller, weights, and what a loss refuses."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as functional
from loss_draws import ROWS, Draw
from real_outputs import fed

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.features import Binary, Category, Number, Sequence, Vector, parse_feature
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

LUDWIG = {
    "binary": "binary_weighted_cross_entropy loss",
    "category": "softmax_cross_entropy corn loss",
    "set": "sigmoid_cross_entropy loss",
    "sequence": "sequence_softmax_cross_entropy next_token_softmax_cross_entropy loss",
    "text": "sequence_softmax_cross_entropy next_token_softmax_cross_entropy loss",
    "mask": "softmax_cross_entropy loss",
    "number": "mean_squared_error mean_absolute_error mean_absolute_percentage_error root_mean_squared_error "
    "root_mean_squared_percentage_error r2 huber loss",
    "vector": "mean_squared_error mean_absolute_error mean_absolute_percentage_error r2 huber loss",
    "timeseries": "mean_squared_error mean_absolute_error mean_absolute_percentage_error r2 huber loss "
    "root_mean_squared_error mean_absolute_scaled_error symmetric_mean_absolute_percentage_error",
}


@pytest.mark.parametrize("feature", LUDWIG)
def test_ludwigs_names(feature):
    """Each of its regression names and losses resolves for its output features, with its direction."""
    for name in LUDWIG[feature].split():
        assert str(find_metric(name, feature).direction) == ("maximize" if name == "r2" else "minimize")


def test_a_probability_of_zero_costs_a_hundred():
    """Torch's way of cutting off the logarithm; from logits nothing is cut off."""
    target = torch.tensor([1, 0])
    assert (
        fed("bce", Binary(), probabilities=torch.tensor([0.0, 1.0]), target=target).compute().item() == 100.0
    )
    logits = torch.tensor([-500.0, 500.0])
    assert fed("bce", Binary(), logits=logits, target=target).compute().item() == 500.0


def ludwig_bwce(logits, target, weight, robust):
    """Ludwig's, without the confidence penalty."""
    loss = functional.binary_cross_entropy_with_logits(
        logits, target.double(), pos_weight=torch.tensor([weight], dtype=torch.float64)
    )
    return ((1 - robust) * loss + robust / 2).item()


@pytest.mark.parametrize(("weight", "robust"), [(1.0, 0.0), (3.0, 0.0), (0.4, 0.3)])
def test_ludwigs_weighted_cross_entropy(weight, robust):
    """Its formula of the whole epoch, in uneven batches."""
    draw = Draw(1)
    batch = {"logits": draw.normal(ROWS), "target": draw.labels(2, ROWS)}
    name = f"binary_weighted_cross_entropy(positive_class_weight={weight}, robust_lambda={robust})"
    expected = ludwig_bwce(batch["logits"], batch["target"], weight, robust)
    assert fed(name, Binary(), [10, 43], **batch).compute().item() == pytest.approx(expected, rel=1e-12)


def test_the_price_of_being_sure():
    """Nothing for a coin, one for certainty: the entropy of each row against log(2)."""
    name = "binary_weighted_cross_entropy(confidence_penalty=2.0)"
    coin = fed(name, Binary(), logits=torch.zeros(1), target=torch.ones(1)).compute().item()
    sure = fed(name, Binary(), logits=torch.full((1,), 60.0), target=torch.ones(1)).compute().item()
    assert (coin, sure) == pytest.approx((math.log(2), 2.0), abs=1e-9)
    p = np.array([0.2, 0.7])
    entropy = -(p * np.log(p) + (1 - p) * np.log(1 - p))
    expected = (-np.log(p) + 2 * (1 - entropy / np.log(2))).mean()
    got = fed(name, Binary(), logits=torch.logit(torch.tensor(p)), target=torch.ones(2)).compute().item()
    assert got == pytest.approx(expected, rel=1e-12)


def corn(logits, target):
    """Question by question, as coral-pytorch does."""
    total, asked = 0.0, 0
    for k in range(logits.shape[1] - 1):
        reached = target >= k
        beyond = (target[reached] > k).double()
        total += functional.binary_cross_entropy_with_logits(
            logits[reached, k], beyond, reduction="sum"
        ).item()
        asked += int(reached.sum())
    return total / asked


@pytest.mark.parametrize("seed", range(3))
def test_ordered_classes(seed):
    """CORN of the whole epoch, every question weighing the same."""
    draw = Draw(seed)
    batch = {"logits": draw.normal(ROWS, 5), "target": draw.labels(5, ROWS)}
    got = fed("corn", Category(5), [1, 12, 40], **batch).compute().item()
    assert got == pytest.approx(corn(batch["logits"], batch["target"]), rel=1e-12)


def test_weights_are_repetitions():
    """Of losses that average rows, and of those that average questions."""
    draw = Draw(4)
    batch = {"logits": draw.normal(ROWS, 5), "target": draw.labels(5, ROWS)}
    times = draw.labels(4, ROWS)
    repeated = {name: x.repeat_interleave(times, 0) for name, x in batch.items()}
    for name in ("corn", "softmax_cross_entropy", "focal", "multi_margin"):
        weighed = fed(name, Category(5), [20, 33], **batch, sample_weight=times).compute().item()
        assert weighed == pytest.approx(fed(name, Category(5), **repeated).compute().item(), rel=1e-12)


def test_what_is_refused():
    """Targets, rates, labels and parameters that a loss cannot have."""
    two = torch.ones(2)
    with pytest.raises(
        MetricInputError, match="hinge_embedding needs targets of -1 and 1, got values from 0 to 0"
    ):
        get_metric("hinge_embedding", Number()).update(two, 0 * two)
    with pytest.raises(MetricInputError, match=r"margin_ranking needs other= beside .*; other= is missing"):
        get_metric("margin_ranking", Number()).update(two, two)
    with pytest.raises(
        MetricInputError, match="cosine_embedding needs similar= of -1 and 1, got values from 3"
    ):
        get_metric("cosine_embedding", Vector()).update(torch.ones(2, 2), torch.ones(2, 2), similar=3 * two)
    with pytest.raises(
        MetricInputError, match="poisson_nll needs rates and counts of at least 0, got predictions from -1"
    ):
        get_metric("poisson_nll", Number()).update(-two, two)
    with pytest.raises(MetricInputError, match="ctc: a target contains the blank, 0"):
        get_metric("ctc", Sequence(3)).update(torch.zeros(1, 2, 3), torch.tensor([[0, -100]]))
    with pytest.raises(MetricInputError, match="ctc: labels must come first in a row"):
        get_metric("ctc", Sequence(3)).update(torch.zeros(1, 2, 3), torch.tensor([[-100, 1]]))
    with pytest.raises(MetricInputError, match=r"needs lengths= of shape \(1,\), each in 1\.\.2"):
        get_metric("ctc", Sequence(3)).update(torch.zeros(1, 2, 3), torch.tensor([[1, -100]]), lengths=[5])
    for name, feature in (("multi_margin(p=3)", "category"), ("focal(gamma=-1)", "binary"),
                          ("huber(delta=0)", "number"), ("cosine_embedding(margin=2)", "vector"),
                          ("softmax_cross_entropy(label_smoothing=2)", "category"),
                          ("binary_weighted_cross_entropy(robust_lambda=2)", "binary"),
                          ("triplet_margin(margin=0)", "vector")):  # fmt: skip
        with pytest.raises(MetricNameError):
            get_metric(name, feature)


def test_labels_that_do_not_fit_into_their_positions():
    """An infinite loss is undefined, with the reason."""
    metric = get_metric("ctc", Sequence(3))
    metric.update(torch.zeros(1, 2, 3), torch.tensor([[1, 1]]))  # a repetition needs a blank between
    assert metric.compute().isnan()
    assert metric.undefined_reason == "a row has fewer positions than its labels need"


@pytest.mark.parametrize("feature", ["binary", "category", "set", "number", "vector", "timeseries"])
def test_the_loss_of_the_caller(feature):
    """One value a row, or one a batch that weighs as much as its rows; the outputs are not read."""
    target = torch.ones(4, 2) if feature in ("set", "vector", "timeseries") else torch.ones(4)
    metric = get_metric("loss", parse_feature(feature))
    metric.update(predictions=target, target=target, loss=torch.tensor([1.0, 2.0, 3.0, 4.0]))
    metric.update(predictions=target[:2], target=target[:2], loss=torch.tensor(7.0))
    assert metric.compute().item() == (10 + 14) / 6


def test_the_loss_is_needed_and_of_the_rows():
    """Missing, of another shape, not finite, or one value whose rows would have to weigh."""
    metric, two = get_metric("loss", Binary()), torch.ones(2)
    with pytest.raises(MetricInputError, match="loss needs loss=, the value of the criterion,"):
        metric.update(two, two)
    with pytest.raises(MetricInputError, match=r"as one value or one per row, got shape \(2, 1\)"):
        metric.update(two, two, loss=torch.ones(2, 1))
    with pytest.raises(MetricInputError, match="the batch has 2 rows, got shape"):
        metric.update(two, two, loss=torch.ones(3))
    with pytest.raises(MetricInputError, match="nan or infinite"):
        metric.update(two, two, loss=torch.nan)
    with pytest.raises(MetricInputError, match="cannot be weighted"):
        metric.update(two, two, loss=1.0, sample_weight=two)
