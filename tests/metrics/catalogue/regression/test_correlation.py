"""Correlations against scipy and scikit-learn, with ties and weights, at the edges."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics.pairwise
import torch
import torchmetrics
import torchmetrics.functional as reference
from matrix import covering, pairs
from real_outputs import draw, fed, value, weights

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.features import Number, Vector
from hpometrics.metrics.registry.lookup import find_metric
from hpometrics.metrics.registry.register import get_metric

SCIPY = {
    "pearson": lambda p, t: scipy.stats.pearsonr(p, t).statistic,
    "spearman": lambda p, t: scipy.stats.spearmanr(p, t).statistic,
    "kendall": lambda p, t: scipy.stats.kendalltau(p, t, variant="b").statistic,
    "kendall(variant=c)": lambda p, t: scipy.stats.kendalltau(p, t, variant="c").statistic,
}


@pytest.mark.parametrize(
    ("name", "shape", "seed", "ties"),
    covering(
        product(SCIPY, [(1000,), (37,), (41, 4)], range(3), [False, True]),
        lambda case: pairs(*case[:2], case[3]),
        ids=str,
    ),
)
def test_scipy_agrees(name, shape, seed, ties):
    """Over uneven batches, with ties and without; of several columns the mean."""
    preds, target = draw(shape, seed, ties=ties)
    columns = zip(preds.reshape(len(preds), -1).T, target.reshape(len(target), -1).T, strict=True)
    expected = np.mean([SCIPY[name](p.numpy(), t.numpy()) for p, t in columns])
    assert value(name, preds, target) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("name", [*SCIPY, "kendall(variant=a)", "concordance"])
def test_a_weight_is_a_number_of_repetitions(name):
    """Whole weights, some of them 0, are the rows that many times over."""
    preds, target = draw((60,), 3, ties=True)
    times = torch.randint(0, 4, (60,), generator=torch.Generator().manual_seed(0))
    repeated = value(name, preds.repeat_interleave(times), target.repeat_interleave(times))
    assert value(name, preds, target, sample_weight=times) == pytest.approx(repeated, abs=1e-12)


def test_fractions_as_weights():
    """Pearson's weighted form, by numpy's weighted covariance."""
    preds, target = draw((80,), 1)
    weight = weights(80)
    cov = np.cov(preds, target, aweights=weight)
    expected = cov[0, 1] / np.sqrt(cov[0, 0] * cov[1, 1])
    assert value("pearson", preds, target, sample_weight=weight) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_concordance_is_lins(seed):
    """By numpy with moments over n; torchmetrics, over n - 1, comes near for many rows."""
    preds, target = draw((2000,), seed)
    p, t = preds.numpy(), target.numpy()
    expected = 2 * np.cov(p, t, bias=True)[0, 1] / (p.var() + t.var() + (p.mean() - t.mean()) ** 2)
    assert value("concordance", preds, target) == pytest.approx(expected, abs=1e-12)
    assert expected == pytest.approx(reference.concordance_corrcoef(preds, target).item(), abs=1e-3)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [(2,), (7,), (200,), (9, 3)], ids=str)
def test_torchmetrics_divides_by_one_row_less(shape, seed):
    """Covariance and variances, which is `ddof=1`; of several columns the mean of its values."""
    preds, target = draw(shape, seed)
    expected = reference.concordance_corrcoef(preds, target).mean().item()
    assert value("concordance(ddof=1)", preds, target) == pytest.approx(expected, rel=1e-6)
    assert value("concordance", preds, target) != pytest.approx(expected, rel=1e-6)


def test_one_row_less_than_none():
    """Undefined with the number of rows; a ddof below 0 is refused."""
    metric = fed("concordance(ddof=1)", Number(), predictions=torch.ones(1), target=torch.zeros(1))
    assert metric.compute().isnan() and "rows, got 1" in metric.undefined_reason
    with pytest.raises(MetricNameError, match="ddof must be a number of rows of at least 0, got -1"):
        get_metric("concordance(ddof=-1)", Number())


def test_concordance_sees_an_offset():
    """A prediction that is right up to a constant correlates fully and does not agree."""
    target = torch.arange(100.0)
    assert value("pearson", target + 50, target) == pytest.approx(1)
    assert value("concordance", target + 50, target) < 0.5


@pytest.mark.parametrize("seed", range(3))
def test_cosines_of_rows(seed):
    """The mean of scikit-learn's paired cosines, weighted."""
    preds, target = draw((50, 6), seed)
    preds, weight = preds - 4, weights(50)
    cosines = 1 - sklearn.metrics.pairwise.paired_cosine_distances(preds, target)
    assert value("cosine_similarity", preds, target) == pytest.approx(cosines.mean(), abs=1e-12)
    weighed = value("cosine_similarity", preds, target, sample_weight=weight)
    assert weighed == pytest.approx(np.average(cosines, weights=weight), abs=1e-12)


def test_a_zero_vector_has_no_direction():
    """Its cosine counts as 0, as in scikit-learn."""
    assert value("cosine_similarity", torch.zeros(1, 3), torch.ones(1, 3)) == 0.0


@pytest.mark.parametrize("name", ["spearman", "kendall"])
def test_one_row_has_no_order(name):
    """Undefined, with the number of rows that it takes."""
    metric = fed(name, Number(), predictions=torch.ones(1), target=torch.ones(1))
    assert metric.compute().isnan()
    assert metric.undefined_reason == f"{name} needs at least 2 rows, got 1"


@pytest.mark.parametrize("name", ["spearman", "kendall"])
@pytest.mark.parametrize("constant", ["prediction", "target"])
def test_a_constant_has_no_order(name, constant):
    """Undefined for a constant on either side, also in one column of several."""
    same, other = torch.ones(5, 2), torch.arange(10.0).view(5, 2)
    preds, target = (same, other) if constant == "prediction" else (other, same)
    metric = fed(name, Vector(), predictions=preds, target=target)
    assert metric.compute().isnan()
    assert metric.undefined_reason == f"{name} compares orders, but every {constant} is the same number"


def test_kendall_of_many_rows():
    """A hundred thousand rows take no time to speak of, which all pairs would; untied, `a` is `b`."""
    preds, target = draw((100_000,), 5)
    expected = scipy.stats.kendalltau(preds, target).statistic
    for name in ("kendall", "kendall(variant=a)"):
        assert value(name, preds, target) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", [(60,), (7,), (33, 3)], ids=str)
@pytest.mark.parametrize("variant", ["a", "b", "c"])
def test_torchmetrics_agrees_on_every_variant(variant, shape, seed):
    """Where many are tied; of several columns the mean of its values."""
    preds, target = draw(shape, seed, ties=True)
    theirs = torchmetrics.KendallRankCorrCoef(variant, num_outputs=1 if len(shape) == 1 else shape[1])
    expected = theirs(preds, target).double().mean().item()
    assert value(f"kendall(variant={variant})", preds, target) == pytest.approx(expected, abs=1e-6)


def test_the_first_variant_by_hand():
    """Of 6 pairs 1 is tied on each side, 3 are in order and 1 is not: (3 - 1) / (3 + 1)."""
    preds, target = torch.tensor([1.0, 1.0, 2.0, 3.0]), torch.tensor([2.0, 1.0, 3.0, 2.0])
    assert value("kendall(variant=a)", preds, target) == 0.5


@pytest.mark.parametrize(
    ("alias", "name"),
    [
        ("pearson_corrcoef", "pearson"), ("spearman_corrcoef", "spearman"), ("spearmanr", "spearman"),
        ("kendall_rank_corrcoef", "kendall"), ("kendalltau", "kendall"), ("ccc", "concordance"),
    ],
)  # fmt: skip
def test_the_names_of_others(alias, name):
    """The names of torchmetrics and scipy."""
    assert str(find_metric(alias, "number").name) == name
