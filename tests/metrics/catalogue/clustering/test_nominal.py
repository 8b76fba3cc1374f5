from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
import torch
import torchmetrics.functional.nominal as tm
from torchmetrics import nominal

from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Category, Clusters
from hpometrics.metrics.registry.register import get_metric


def labels(size, classes, seed):
    """Predictions that are right half of the time; every class occurs on both sides."""
    random = np.random.default_rng([seed, size])
    target = np.concatenate([np.arange(classes), random.integers(classes, size=size)])
    guess = np.concatenate([np.arange(classes), random.integers(classes, size=size)])
    return torch.tensor(np.where(random.random(len(target)) < 0.5, guess, target)), torch.tensor(target)


def measured(name, preds, target, output=None):
    """The metric, fed with one batch."""
    metric = get_metric(name, output or Category())
    metric.update(preds, target)
    return metric


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(("size", "classes"), [(20, 2), (57, 3), (400, 9)])
@pytest.mark.parametrize(
    ("name", "method"),
    [("cramers_v", "cramer"), ("tschuprows_t", "tschuprow"), ("pearsons_contingency", "pearson")],
)
def test_association_is_that_of_scipy(name, method, size, classes, seed):
    """Without a correction, for tables of any size."""
    preds, target = labels(size, classes, seed)
    table = np.zeros((classes, classes), dtype=int)
    np.add.at(table, (target.numpy(), preds.numpy()), 1)
    expected = scipy.stats.contingency.association(table, method=method)
    assert measured(name, preds, target).compute().item() == pytest.approx(expected)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("name", "function"), [("cramers_v", tm.cramers_v), ("tschuprows_t", tm.tschuprows_t)]
)
def test_the_correction_is_that_of_torchmetrics(name, function, seed):
    """Of more than two classes; tables of two are changed by Yates' correction, too."""
    preds, target = labels(150, 4, seed)
    expected = getattr(tm, name)(preds, target, bias_correction=True).item()
    value = measured(f"{name}(bias_correction=true)", preds, target).compute().item()
    assert value == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("size", [6, 20, 150])
def test_yates_correction_is_that_of_scipy(size, seed):
    """Of two classes; more are left as they are."""
    for classes in (2, 3):
        preds, target = labels(size, classes, seed)
        table = np.zeros((classes, classes), dtype=int)
        np.add.at(table, (target.numpy(), preds.numpy()), 1)
        expected = scipy.stats.contingency.association(table, method="cramer", correction=True)
        assert measured("cramers_v(yates=true)", preds, target).compute().item() == pytest.approx(
            expected, abs=1e-7
        )


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("name", "theirs"), [("cramers_v", nominal.CramersV), ("tschuprows_t", nominal.TschuprowsT)]
)
def test_two_classes_of_torchmetrics(name, theirs, seed):
    """Both corrections at once, which its class names mean; its functions fail on two classes."""
    preds, target = labels(150, 2, seed)
    value = measured(theirs.__name__, preds, target).compute().item()
    assert value == pytest.approx(theirs(num_classes=2)(preds, target).item(), rel=1e-4)
    assert value != pytest.approx(measured(f"{name}(bias_correction=true)", preds, target).compute().item())


def test_a_count_nearer_than_a_half_is_the_expected_one():
    """Counts 1 1 1 2 are 0.2 from the expected ones: nothing is left, where torchmetrics adds a half."""
    preds, target = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 1, 0, 1, 1])
    assert measured("cramers_v(yates=true)", preds, target).compute().item() == 0.0


@pytest.mark.parametrize("seed", range(3))
def test_theils_u_explains_either_side(seed):
    """Ours explains the target by the predictions; torchmetrics' arguments are to be swapped."""
    preds, target = labels(90, 5, seed)
    of_target = measured("theils_u", preds, target).compute().item()
    of_preds = measured("theils_u(explained=predictions)", preds, target).compute().item()
    assert of_target == pytest.approx(tm.theils_u(target, preds).item(), rel=1e-5)
    assert of_preds == pytest.approx(tm.theils_u(preds, target).item(), rel=1e-5)


def test_a_correction_of_two_by_two_is_bergsma_s_alone():
    """phi^2 = 1/3 of 4 rows: (1/3 - 1/3) / (2 - 1/3 - 1) is 0."""
    preds, target = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 1, 1, 1])
    assert measured("cramers_v(bias_correction=true)", preds, target).compute().item() == pytest.approx(
        0.0, abs=1e-7
    )
    assert measured("cramers_v", preds, target).compute().item() == pytest.approx((1 / 3) ** 0.5)


def test_names_of_the_classes_mean_nothing():
    """A model that always calls 0 what is 1 is as strongly associated, as a category or as groups."""
    preds, target = labels(60, 3, seed=4)
    swapped = torch.tensor([2, 0, 1])[preds]
    for name in ("cramers_v", "tschuprows_t", "pearsons_contingency", "theils_u"):
        value = measured(name, preds, target).compute().item()
        assert measured(name, swapped, target).compute().item() == pytest.approx(value)
        far = measured(name, swapped * 10**12, -target, Clusters())
        assert far.compute().item() == pytest.approx(value)


@pytest.mark.parametrize("name", ["cramers_v", "tschuprows_t", "pearsons_contingency", "theils_u"])
def test_a_single_value_has_no_association(name):
    """A value that cannot vary gives nan with a reason, where torchmetrics gives nan or 0."""
    metric = measured(name, torch.tensor([0, 1]), torch.tensor([1, 1]))
    assert metric.compute().isnan() and "single value" in metric.undefined_reason


def test_a_category_shares_its_confusion_matrix():
    """The table of a category costs nothing beside accuracy."""
    panel = MetricCollection(["confusion_matrix", "cramers_v", "theils_u"], Category(3))
    assert len(panel.statistics) == 1
