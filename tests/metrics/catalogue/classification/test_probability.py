from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.special
import sklearn.metrics as sk
import torch
from scored import SEEDS, epoch, measured

from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric


@pytest.mark.parametrize(("rows", "seed", "ties"), SEEDS)
@pytest.mark.parametrize("form", ["logits", "probabilities"])
@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("feature", ["binary", "category"])
def test_losses_and_skills_agree_with_scikit_learn(feature, weighted, form, rows, seed, ties):
    """log_loss, d2_log_loss and d2_brier, with weights; some classes may be missing from the target."""
    case = epoch(feature, rows, seed, ties)
    weight = case.weight if weighted else None
    labels = [0, 1] if feature == "binary" else range(4)
    brier = {} if feature == "binary" else {"labels": list(labels)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        probabilities = case.probabilities
        both = np.stack([1 - probabilities, probabilities], 1) if feature == "binary" else probabilities
        expected = {
            "log_loss": sk.log_loss(case.target, both, labels=labels, sample_weight=weight),
            "d2_log_loss": sk.d2_log_loss_score(
                case.target, y_proba=both, labels=labels, sample_weight=weight
            ),
            "d2_brier": sk.d2_brier_score(case.target, probabilities, sample_weight=weight, **brier),
        }
    for name, value in expected.items():
        np.testing.assert_allclose(measured(name, case, weighted, form), value, atol=1e-12)


def soft_case(feature, rows, seed):
    """Logits and soft labels."""
    random = np.random.default_rng(seed)
    shape = {"binary": (rows,), "category": (rows, 4), "set": (rows, 3)}[feature]
    logits, soft = random.normal(size=shape), random.dirichlet(np.ones(4), rows)
    return logits, soft if feature == "category" else random.random(shape).round(1)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("form", ["logits", "probabilities"])
@pytest.mark.parametrize("feature", ["binary", "category", "set"])
def test_soft_labels_give_cross_entropy_and_divergence(feature, form, seed):
    """Against scipy's rel_entr; labels of exactly 0 and 1 have no entropy."""
    logits, soft = soft_case(feature, 50, seed)
    p = scipy.special.softmax(logits, 1) if feature == "category" else scipy.special.expit(logits)
    q = soft
    if feature != "category":
        p, q = np.stack([p, 1 - p], -1), np.stack([soft, 1 - soft], -1)
    expected = {
        "kl_divergence": scipy.special.rel_entr(q, p).sum(-1).mean(),
        "log_loss": -scipy.special.xlogy(q, p).sum(-1).mean(),
    }
    given = torch.tensor(logits if form == "logits" else (p if feature == "category" else p[..., 0]))
    for name, value in expected.items():
        metric = get_metric(name, feature)
        for part in (slice(None, 20), slice(20, None)):
            metric.update(**{form: given[part]}, target_probabilities=torch.tensor(soft[part]))
        assert metric.compute().item() == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("feature", ["binary", "category", "set"])
def test_hard_labels_are_soft_labels_of_0_and_1(feature):
    """Both give one log loss, and the divergence is that loss."""
    case = epoch(feature, 40, 4)
    hard = measured("log_loss", case)
    shown = torch.tensor(case.shown if feature == "category" else case.target).double()
    for name in ("log_loss", "kl_divergence"):
        assert measured(name, case) == hard
        metric = get_metric(name, feature)
        metric.update(logits=torch.tensor(case.logits), target_probabilities=shown)
        assert metric.compute().item() == pytest.approx(float(hard), rel=1e-12)


def test_a_model_that_gives_the_labels_has_no_divergence():
    """The cross-entropy is then the labels' entropy."""
    soft = torch.tensor([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]], dtype=torch.float64)
    metric = get_metric("kl_divergence", "category")
    metric.update(probabilities=soft, target_probabilities=soft)
    assert metric.compute().item() == pytest.approx(0.0, abs=1e-12)


def test_soft_skill_is_measured_against_the_mean_label():
    """A model that says the mean soft label for every row has skill 0."""
    soft = torch.rand(30, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    metric = get_metric("d2_log_loss", "binary")
    metric.update(probabilities=soft.mean().expand(30), target_probabilities=soft)
    assert metric.compute().item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", ["d2_log_loss", "d2_brier"])
@pytest.mark.parametrize("feature", ["binary", "category"])
def test_nothing_is_left_to_predict_of_one_class(name, feature):
    """The share of the class is a perfect prediction already."""
    metric = get_metric(name, feature)
    given = torch.full((5,), 0.5) if feature == "binary" else torch.full((5, 2), 0.5)
    metric.update(probabilities=given, target=torch.ones(5).long())
    assert metric.compute().isnan() and metric.undefined_reason == "the target has a single class"


def test_names_of_scikit_learn():
    """Its scorers' names mean our metrics, in their natural sign."""
    for alias, name in {
        "neg_log_loss": "log_loss",
        "logloss": "log_loss",
        "cross_entropy": "log_loss",
        "d2_log_loss_score": "d2_log_loss",
        "d2_brier_score": "d2_brier",
    }.items():
        assert str(find_metric(alias, "category").name) == name
