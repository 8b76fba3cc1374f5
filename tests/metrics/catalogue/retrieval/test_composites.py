from __future__ import annotations

import numpy as np
import pytest
import torch
from grouped_rankings import USERS, grouped, measured

from hpometrics import MINIMIZE, MetricCollection, Ranking, find_metric, get_metric
from hpometrics.exceptions import MetricNameError
from hpometrics.metrics.registry.register import register_metric
from hpometrics.metrics.retrieval.base import ListMetric


def parts(case, k: int) -> np.ndarray:
    """Precision and recall of each user with a relevant item."""
    found = []
    for row in range(USERS):
        hits = sum(grade > 0 for *_, grade in case.ranked(row)[:k])
        if relevant := len(case.relevant(row)):
            found.append((hits / k, hits / relevant))
    return np.array(found)


@pytest.mark.parametrize("candidates", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_composites_are_those_of_loops(seed, candidates):
    """Per user, then the mean; a user without a hit has an F of 0."""
    case = grouped(seed, candidates)
    for k in (1, 4, 20):
        precision, recall = parts(case, k).T
        assert (precision == 0).any()
        with np.errstate(invalid="ignore"):
            f1 = np.nan_to_num(2 * precision * recall / (precision + recall))
            f2 = np.nan_to_num(5 * precision * recall / (4 * precision + recall))
        expected = {
            f"f_score@{k}": f1,
            f"f_score(beta=2.0)@{k}": f2,
            f"euc_distance@{k}": np.hypot(1 - precision, 1 - recall),
            f'hypervolume(nadir="0.1, 0.2")@{k}': np.maximum(0, precision - 0.1)
            * np.maximum(0, recall - 0.2),
        }
        found = measured(list(expected), case)
        for name, values in expected.items():
            assert found[name] == pytest.approx(values.mean(), rel=1e-12)


def test_f_score_is_per_user_and_not_of_the_means():
    """Users with (P, R) = (1, 1) and (0, 0): the mean of 1 and 0; with (1/2, 1) it is 2/3."""
    metric = get_metric("f_score@2", Ranking())
    assert metric.name == "f_score@2"
    metric.update(torch.tensor([[3.0, 2, 1]] * 2), torch.tensor([[1, 1, 0], [0, 0, 1]]))
    assert metric.compute().item() == 0.5
    metric.reset()
    metric.update(torch.tensor([[3.0, 2, 1]]), torch.tensor([[1, 0, 0]]))
    assert metric.compute().item() == pytest.approx(2 / 3)  # nothing is left of the first epoch


def test_composites_at_several_k_share_what_they_keep():
    """One statistic for two cut-offs of one formula; the parts asked for alone have values of their own."""
    name = 'f_score(a=ndcg, b="recall(capped=true)")'
    panel = MetricCollection([f"{name}@1", f"{name}@2", "ndcg@2"], output=Ranking())
    assert len(panel.statistics) == 2
    panel.update(scores=torch.tensor([[3.0, 2, 1]]), target=torch.tensor([[0, 1, 0]]))
    ndcg = 1 / np.log2(3)
    assert panel.compute()[f"{name}@2"].item() == pytest.approx(2 * ndcg / (ndcg + 1))
    assert panel.compute()[f"{name}@1"].item() == 0.0


def test_a_part_that_is_minimized_counts_from_the_other_side(registry):
    """The hypervolume knows the direction of each part; f_score takes none that is minimized."""

    @register_metric("depth", ["ranking"])
    class Depth(ListMetric):
        """Share of places that are no hit.

        Value: float in [0, 1].
        """

        direction = MINIMIZE

        def values(self, cut):
            """Count."""
            return 1 - cut.found / cut.k

    metric = get_metric('hypervolume(metrics="precision, depth", nadir="0, 0.75")@2', Ranking())
    metric.update(torch.tensor([[3.0, 2, 1]]), torch.tensor([[1, 0, 0]]))
    assert metric.compute().item() == pytest.approx(0.5 * (0.75 - 0.5))
    with pytest.raises(MetricNameError, match="needs metrics with higher-is-better values, got depth"):
        get_metric("f_score(a=depth)@2", Ranking())


def test_parts_are_read_with_care():
    """A part with a k, one that is no metric of users, and numbers that do not fit are refused by name."""
    with pytest.raises(MetricNameError, match="the parts use the k of the whole; leave out @5"):
        get_metric('f_score(a="ndcg@5")@2', Ranking())
    with pytest.raises(MetricNameError, match="rsp has no value per user"):
        get_metric("f_score(a=rsp)@2", Ranking())
    with pytest.raises(
        MetricNameError, match="utopia needs one number for each of ndcg, 1 in total; got '1, 1'"
    ):
        get_metric("euc_distance(metrics=ndcg)@2", Ranking())
    with pytest.raises(MetricNameError, match=r'nadir must be numbers, as in nadir="1, 0"; got \'low\''):
        get_metric("hypervolume(nadir=low)@2", Ranking())


def test_the_name_of_a_composite_is_its_identity():
    """It prints as it parses, quotes where the grammar wants them."""
    name = 'euc_distance(metrics="ndcg(gain=exp), recall(capped=true)", utopia="1, 0.5")@10'
    assert str(find_metric(name, "ranking").name) == name
    assert get_metric(name, Ranking()).name == name
