from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import scipy.optimize
import sklearn.metrics as sk
import torch
from matrix import covering, pairs
from sklearn.metrics.cluster import contingency_matrix

from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.catalogue.clustering.partitions import best_assignment
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Clusters
from hpometrics.metrics.registry.register import get_metric

METHODS = ("arithmetic", "geometric", "min", "max")
SIZES = [(2, 2, 2), (9, 1, 3), (40, 4, 3), (333, 12, 7), (60, 60, 60)]


def purity(target, preds):
    """The largest group of each cluster."""
    return contingency_matrix(target, preds).max(0).sum() / len(target)


def cluster_accuracy(target, preds):
    """The best naming of clusters, by scipy."""
    table = contingency_matrix(target, preds)
    return table[scipy.optimize.linear_sum_assignment(table, maximize=True)].sum() / len(target)


REFERENCES = {
    "adjusted_rand": sk.adjusted_rand_score,
    "rand": sk.rand_score,
    "fowlkes_mallows": sk.fowlkes_mallows_score,
    "mutual_information": sk.mutual_info_score,
    "homogeneity": sk.homogeneity_score,
    "completeness": sk.completeness_score,
    "v_measure": sk.v_measure_score,
    "v_measure(beta=0.3)": lambda t, p: sk.v_measure_score(t, p, beta=0.3),
    "purity": purity,
    "cluster_accuracy": cluster_accuracy,
    **{
        f"{name}(average_method={method})": lambda t, p, f=function, m=method: f(t, p, average_method=m)
        for name, function in (
            ("normalized_mutual_information", sk.normalized_mutual_info_score),
            ("adjusted_mutual_information", sk.adjusted_mutual_info_score),
        )
        for method in METHODS
    },
}


def groups(size, groups_of_target, groups_of_preds, seed):
    """Clusters that follow the groups half of the time, under numbers of their own."""
    random = np.random.default_rng([seed, size])
    target = random.integers(groups_of_target, size=size)
    guess = random.integers(groups_of_preds, size=size)
    return 10**12 - 7 * np.where(random.random(size) < 0.5, guess, target % groups_of_preds), target - 3


def measured(name, preds, target, weight=None):
    """The metric, fed with one batch."""
    metric = get_metric(name, Clusters())
    kwargs = {} if weight is None else {"sample_weight": torch.as_tensor(weight)}
    metric.update(torch.as_tensor(preds), torch.as_tensor(target), **kwargs)
    return metric


@pytest.mark.parametrize(
    ("name", "size", "seed"),
    covering(product(REFERENCES, SIZES, range(3)), lambda case: pairs(*case), ids=str),
)
def test_values_are_those_of_scikit_learn(name, size, seed):
    """On random groups, few and many, whatever their numbers."""
    preds, target = groups(*size, seed)
    metric = measured(name, preds, target)
    value = metric.compute().item()
    if np.isnan(value):
        assert "one side" in metric.undefined_reason or "chance alone" in metric.undefined_reason
    else:
        assert value == pytest.approx(REFERENCES[name](target, preds), abs=1e-11)


@pytest.mark.parametrize("name", [name for name in REFERENCES if "(" not in name])
def test_the_numbers_of_the_groups_mean_nothing(name):
    """Other numbers, negative and huge, give the same value."""
    preds, target = groups(80, 4, 5, seed=9)
    other = np.array([-(10**15), 3, 10**18, 12, 0])
    renamed = measured(name, other[np.unique(preds, return_inverse=True)[1]], -target)
    assert renamed.compute().item() == pytest.approx(measured(name, preds, target).compute().item())


def test_variation_of_information_is_what_mutual_information_leaves():
    """Both entropies, less the information twice; 0 for the same groups under other numbers."""
    preds, target = groups(200, 5, 4, seed=2)
    both = sum(scipy.stats.entropy(np.unique(x, return_counts=True)[1]) for x in (preds, target))
    expected = both - 2 * sk.mutual_info_score(target, preds)
    assert measured("variation_of_information", preds, target).compute().item() == pytest.approx(expected)
    assert measured("variation_of_information", 5 - target, target).compute().item() == 0.0


@pytest.mark.parametrize("same", [[1, 1, 1], [4, 5, 6], [2, 2, 9]])
@pytest.mark.parametrize("name", ["adjusted_rand", "adjusted_mutual_information", "nmi", "v_measure", "rand"])
def test_equal_groupings_are_perfect(name, same):
    """Also where all rows are one group, or each its own: chance could do as well, but nothing is wrong."""
    assert measured(name, same, [-x for x in same]).compute().item() == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "preds", "target", "reason"),
    [
        ("rand", [1], [1], "there are no pairs of rows"),
        ("adjusted_rand", [1], [1], "there are no pairs of rows"),
        ("fowlkes_mallows", [1, 2], [1, 1], "one side never groups two rows"),
        ("normalized_mutual_information(average_method=min)", [1, 1], [1, 2], "one side is a single group"),
        (
            "adjusted_mutual_information(average_method=min)",
            [1, 1],
            [1, 2],
            "chance alone reaches the maximum",
        ),
    ],
)
def test_what_is_undefined_is_nan_with_a_reason(name, preds, target, reason):
    """Where scikit-learn makes a number up."""
    metric = measured(name, preds, target)
    assert metric.compute().isnan() and reason in metric.undefined_reason


def test_broken_weights_void_only_what_counts_pairs():
    """Half a row has no pairs, but a share; rows without weight are nothing."""
    metric = measured("adjusted_rand", [0, 1, 1], [0, 1, 1], weight=[0.5, 1.0, 1.0])
    assert metric.compute().isnan() and "weights must be whole numbers" in metric.undefined_reason
    assert measured("purity", [0, 0, 1], [0, 1, 1], weight=[0.5, 1.5, 1.0]).compute().item() == 2.5 / 3
    nothing = measured("purity", [0, 1], [0, 1], weight=[0.0, 0.0])
    assert nothing.compute().isnan() and nothing.undefined_reason == "no rows were counted"


def test_a_panel_counts_once():
    """All of them read one table, which holds pairs and no rows."""
    panel = MetricCollection(list(REFERENCES), Clusters())
    preds, target = groups(5000, 5, 5, seed=1)
    panel.update(predictions=torch.tensor(preds), target=torch.tensor(target))
    (statistic,) = panel.statistics
    assert sum(value.numel() for value in statistic.state().values()) <= 3 * 25
    assert not any(value.isnan() for value in panel.compute().values())


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("shape", [(1, 1), (1, 6), (5, 5), (9, 4), (30, 41)])
def test_the_best_assignment_is_that_of_scipy(shape, seed):
    """As large a sum, no row or column twice; with ties and without."""
    random = np.random.default_rng([seed, *shape])
    for table in (random.integers(4, size=shape).astype(float), random.random(shape)):
        rows, columns = best_assignment(table)
        assert len(set(rows)) == len(set(columns)) == len(rows) == min(shape)
        best = table[scipy.optimize.linear_sum_assignment(table, maximize=True)].sum()
        assert table[rows, columns].sum() == pytest.approx(best)


def test_beta_of_v_measure_is_above_0():
    """A beta of 0 would leave homogeneity alone, under another name."""
    with pytest.raises(MetricNameError, match="needs a beta above 0, got beta=0"):
        get_metric("v_measure(beta=0.0)", Clusters())
