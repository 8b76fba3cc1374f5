from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.stats import chisquare

from hpometrics import MetricCollection, MetricInputError, Ranking
from hpometrics.metrics.retrieval.candidates import sample_candidates

ITEMS, NEGATIVES = 60, 12
RANDOM = np.random.default_rng(0)
DRAWN = [RANDOM.permutation(ITEMS)[:20].tolist() for _ in range(40)]
RELEVANT = [own[: 1 + user % 5] for user, own in enumerate(DRAWN)]
SEEN = [own[5:] for own in DRAWN]


def drawn(**options):
    """The candidates of all users."""
    return sample_candidates(RELEVANT, ITEMS, NEGATIVES, seen=SEEN, **options)


@pytest.mark.parametrize("shuffle", [True, False])
def test_negatives_are_neither_relevant_nor_seen_and_come_once(shuffle):
    """Each user has all relevant items and so many others."""
    found = drawn(shuffle=shuffle)
    for user, (items, target) in enumerate(zip(found.items, found.target, strict=True)):
        negatives = items[(target == 0) & (items >= 0)].tolist()
        assert len(set(negatives)) == len(negatives) == NEGATIVES
        assert not set(negatives) & {*RELEVANT[user], *SEEN[user]}
        assert sorted(items[target > 0].tolist()) == sorted(RELEVANT[user])


@pytest.mark.parametrize("wanted", [1, 5, 19])
def test_every_free_item_is_as_likely(wanted):
    """Over many users, with few and with nearly all items drawn; two of twenty-two cannot be."""
    users = 4000
    found = sample_candidates([[3]] * users, 22, wanted, seen=[[7]] * users, shuffle=False)
    counts = torch.bincount(found.items[:, 1:].reshape(-1), minlength=22)
    assert counts[3] == counts[7] == 0 and counts.sum() == users * wanted
    assert chisquare(counts[[i for i in range(22) if i not in (3, 7)]]).pvalue > 0.01


def test_a_draw_depends_on_seed_and_user_alone():
    """Not on the batch, nor on the order of users."""
    whole, order = drawn(shuffle=False), torch.randperm(40, generator=torch.Generator().manual_seed(0))
    part = order[:9].tolist()
    some = sample_candidates(
        [RELEVANT[u] for u in part], ITEMS, NEGATIVES,
        seen=[SEEN[u] for u in part], users=torch.tensor(part), shuffle=False,
    )  # fmt: skip
    assert torch.equal(some.items[:, -NEGATIVES:], whole.items[part, -NEGATIVES:])
    other = drawn(shuffle=False, seed=1)
    assert not torch.equal(other.items[:, -NEGATIVES:], whole.items[:, -NEGATIVES:])


def test_shuffled_order_carries_nothing():
    """The place of the one relevant item among ten is as likely any; the items are the same."""
    given = ([[3]] * 4000, 50, 9)
    mixed, plain = sample_candidates(*given), sample_candidates(*given, shuffle=False)
    assert torch.equal(mixed.items.sort().values, plain.items.sort().values)
    assert chisquare(mixed.target.sum(0)).pvalue > 0.01


def test_too_few_items_left():
    """The error names the user; on request each gets what there is, and places that are none."""
    given = {"target": [[0], [0, 1, 2]], "num_items": 5, "num_negatives": 3, "users": torch.tensor([8, 9])}
    with pytest.raises(MetricInputError, match="cannot draw 3 negatives: user 9 has 2 items"):
        sample_candidates(**given)
    fewer = sample_candidates(**given, allow_fewer=True, shuffle=False)
    assert sorted(fewer.items[1].tolist()) == [-1, 0, 1, 2, 3, 4] and (fewer.items[0] >= 0).sum() == 4


def test_an_output_that_draws_too_many_says_what_the_caller_can_do():
    """The candidates that it names may be measured by the same output, and are all there are."""
    target, scores = [[0], [0, 1, 2]], torch.randn(2, 5)
    panel = MetricCollection(["ndcg@3", "recall@3"], output=Ranking(num_items=5, num_negatives=3))
    with pytest.raises(MetricInputError, match=r"smaller num_negatives=, .* sample_candidates\(.* items="):
        panel.update(scores=scores, target=target)
    fewer = sample_candidates(target, 5, 3, allow_fewer=True)
    panel.update(scores=fewer.scores_of(scores), target=fewer.target, items=fewer.items)
    assert panel.rows == 2 and all(value.isfinite() for value in panel.compute().values())


def test_padding_is_never_ranked():
    """Users with fewer relevant items are filled up with -1, grade 0 and -inf."""
    found = drawn()
    scores = found.scores_of(torch.randn(40, ITEMS))
    assert torch.equal(scores == -torch.inf, found.items < 0) and found.items.shape == (40, 5 + NEGATIVES)
    assert (found.target[found.items < 0] == 0).all() and bool((found.items < 0).any())


def test_grades_are_kept():
    """A relevant item has the grade it came with."""
    found = sample_candidates([{4: 3.0, 1: 0.5}], 9, 2)
    assert dict(zip(found.items[0].tolist(), found.target[0].tolist(), strict=True)).items() >= {
        (4, 3.0),
        (1, 0.5),
    }


def test_no_users():
    """Nothing is drawn for nobody."""
    assert sample_candidates([], 9, 2).items.shape == (0, 2)


def test_the_order_of_candidates_depends_on_seed_and_user_alone():
    """However many places the others of a batch need, so that ties are broken alike in any batch."""
    whole = drawn()
    for user, own in enumerate(whole.items):
        alone = sample_candidates(
            [RELEVANT[user]], ITEMS, NEGATIVES, seen=[SEEN[user]], users=torch.tensor([user])
        )
        assert torch.equal(own[own >= 0], alone.items[0][alone.items[0] >= 0])


def test_ties_among_drawn_candidates_are_broken_alike_in_any_batch():
    """All scores are the same, and users have 1 to 5 relevant items."""
    names = ["ndcg@3", "mrr", "recall@2", "item_coverage@3"]
    panels = [MetricCollection(names, output=Ranking(num_negatives=5, seed=3)) for _ in range(2)]
    panels[0].update(scores=torch.zeros(40, ITEMS), target=RELEVANT, users=torch.arange(40))
    for user in reversed(range(40)):
        given = {"target": [RELEVANT[user]], "users": torch.tensor([user])}
        panels[1].update(scores=torch.zeros(1, ITEMS), **given)
    for together, apart in zip(*(panel.compute().values() for panel in panels), strict=True):
        assert together.item() == pytest.approx(apart.item())


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"seen": [[3]]}, r"seen must cover the same users as target, 2; got 1"),
        ({"seen": [[3], [4], [5]]}, r"seen must cover the same users as target, 2; got 3"),
        (
            {"users": torch.tensor([5])},
            r"users must be whole numbers, one per row, shape \(2,\); got .*\(1,\)",
        ),
        ({"users": [5.5, 5.2]}, r"users must be whole numbers, one per row, .* got torch.float64"),
        ({"num_negatives": -1}, "num_negatives must be a whole number of at least 0, got -1"),
        ({"num_negatives": 1.5}, "num_negatives must be a whole number of at least 0, got 1.5"),
        ({"num_items": None}, "num_items must be a whole number of at least 0, got None"),
    ],
)
def test_what_nothing_can_be_drawn_by(given, text):
    """Seen items of fewer users were those of the first, and users 5.5 and 5.2 the same one."""
    with pytest.raises(MetricInputError, match=text):
        sample_candidates(**{"target": [[0], [1, 2]], "num_items": 6, "num_negatives": 2, **given})


@pytest.mark.parametrize("form", [list, np.array, torch.tensor])
def test_users_come_in_any_form(form):
    """As they do in an update."""
    given = {"target": [[0], [1, 2]], "num_items": np.int64(6), "num_negatives": 2}
    found = sample_candidates(**given, users=form([7, 9]))
    assert torch.equal(found.items, sample_candidates(**given, users=torch.tensor([7, 9])).items)


def test_an_entry_that_is_0_was_not_seen():
    """As a sparse matrix may hold it: only item 2 is left to be drawn."""
    found = sample_candidates([[0]], 3, 1, seen=[{1: 1.0, 2: 0.0}], shuffle=False)
    assert found.items.tolist() == [[0, 2]]
