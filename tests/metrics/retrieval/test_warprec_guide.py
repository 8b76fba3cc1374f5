"""The evaluation that WarpRec's guide shows: its matrices, full and sampled, and its Precision@K."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hpometrics import MAXIMIZE, MetricCollection, Ranking, UserAverageTopKMetric
from hpometrics.metrics.retrieval.candidates import Candidates, sample_candidates

INF = torch.inf
NAMES = ["precision@2", "ndcg@3"]
FULL = torch.tensor(
    [
        [0.95, 0.12, 0.44, 0.77, 0.05, 0.81, 0.50, -INF, 0.69, 0.21],
        [0.10, 0.88, -INF, 0.29, 0.73, -INF, 0.91, 0.03, 0.47, 0.62],
        [0.58, 0.25, 0.99, 0.14, 0.83, 0.37, 0.60, 0.07, -INF, 0.40],
        [0.71, 0.01, 0.35, 0.90, -INF, 0.52, 0.20, 0.85, 0.49, 0.66],
        [0.18, 0.65, 0.30, 0.87, 0.54, 0.09, 0.78, -INF, 0.23, 0.93],
    ]
)
RELEVANT = [[0], [1, 6], [2, 4], [3], [3]]
SAMPLED = torch.tensor(
    [
        [0.95, -INF, 0.12, 0.44],
        [0.88, 0.91, 0.29, 0.47],
        [0.99, 0.83, 0.14, 0.25],
        [0.90, -INF, 0.20, 0.49],
        [0.87, -INF, 0.23, 0.18],
    ]
)
SAMPLED_TARGET = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 0, 0], [1, 0, 0, 0]])
NEGATIVES = torch.tensor([[1, 2], [3, 8], [3, 1], [6, 8], [8, 0]])


class GuidePrecision(UserAverageTopKMetric):
    """The guide's Precision@K, to the letter."""

    direction = MAXIMIZE

    def compute_scores(
        self, preds: Tensor, target: Tensor, top_k_rel: Tensor, **kwargs: Any
    ) -> Tensor:  # fmt: skip
        return top_k_rel.sum(dim=1).float() / self.k


def full_target() -> Tensor:
    """The guide's target matrix."""
    target = torch.zeros(5, 10)
    for user, items in enumerate(RELEVANT):
        target[user, items] = 1
    return target


def measured(names: list[Any], **batch: Any) -> dict[str, float]:
    """The values of one batch."""
    panel = MetricCollection(names, output=Ranking())
    panel.update(**batch)
    return {name: value.item() for name, value in panel.compute().items()}


@pytest.mark.parametrize("target", [full_target(), RELEVANT, full_target().to_sparse()], ids=str)
def test_full_evaluation_by_hand(target):
    """Of the first two items of the five users 1, 2, 2, 1 and 1 are relevant: 7 of 10; all are found."""
    values = measured([GuidePrecision(k=2), "precision@2", "recall@2"], scores=FULL, target=target)
    assert values == pytest.approx({"GuidePrecision@2": 0.7, "precision@2": 0.7, "recall@2": 1.0})


def test_the_first_item_of_the_full_evaluation():
    """Four users have a relevant item first, the last has item 9 before item 3."""
    values = measured(["precision@1", GuidePrecision(k=1)], scores=FULL, target=RELEVANT)
    assert values == pytest.approx({"precision@1": 0.8, "GuidePrecision@1": 0.8})


def test_sampled_evaluation_by_hand():
    """Among the candidates every relevant item comes first, so every user's first item is relevant."""
    values = measured(["precision@1", "precision@2", "ndcg@4"], scores=SAMPLED, target=SAMPLED_TARGET)
    assert values == pytest.approx({"precision@1": 1.0, "precision@2": 0.7, "ndcg@4": 1.0})


def test_padding_is_no_item():
    """The user with one relevant item and two negatives has a list of three, however long it could be."""
    panel = MetricCollection(["precision@4"], output=Ranking())
    panel.update(scores=SAMPLED[:1], target=SAMPLED_TARGET[:1])
    assert panel.compute()["precision@4"].item() == pytest.approx(0.25)


def test_the_sampled_matrices_come_from_the_full_ones():
    """Relevant items first, padded to two places, then the negatives: the guide's two small matrices."""
    relevant = torch.tensor([[0, -1], [1, 6], [2, 4], [3, -1], [3, -1]])
    candidates = Candidates(torch.cat([relevant, NEGATIVES], dim=1), SAMPLED_TARGET.float())
    assert torch.equal(candidates.scores_of(FULL), SAMPLED)


def test_a_draw_has_the_form_of_the_sampled_matrices():
    """Two places for relevant items, two negatives; padding is nothing, a shuffle changes no value."""
    plain = sample_candidates(RELEVANT, 10, 2, seed=3, shuffle=False)
    mixed = sample_candidates(RELEVANT, 10, 2, seed=3)
    assert torch.equal(plain.target, SAMPLED_TARGET.float())
    assert torch.equal(plain.items[:, :2], torch.tensor([[0, -1], [1, 6], [2, 4], [3, -1], [3, -1]]))
    values = [
        measured(NAMES, scores=drawn.scores_of(FULL), target=drawn.target, items=drawn.items)
        for drawn in (plain, mixed)
    ]
    assert values[0] == pytest.approx(values[1])


def test_an_output_draws_its_own_candidates():
    """`num_negatives` restricts scores of all items to the candidates, by the output's seed."""
    output = Ranking(num_items=10, num_negatives=2, seed=3)
    assert str(output) == "ranking(num_items=10, num_negatives=2, seed=3)"
    panel = MetricCollection(["precision@2", "ndcg@3"], output=output)
    panel.update(scores=FULL, target=RELEVANT)
    drawn = sample_candidates(RELEVANT, 10, 2, seed=3)
    expected = measured(NAMES, scores=drawn.scores_of(FULL), target=drawn.target, items=drawn.items)
    assert {name: value.item() for name, value in panel.compute().items()} == pytest.approx(expected)


def test_users_without_a_relevant_item_are_left_out():
    """The denominator holds valid users only, as the guide says."""
    target = full_target()
    target[4] = 0
    values = measured(["precision@1", GuidePrecision(k=1)], scores=FULL, target=target)
    assert values == pytest.approx({"precision@1": 1.0, "GuidePrecision@1": 1.0})
