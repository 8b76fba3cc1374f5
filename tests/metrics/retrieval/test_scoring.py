from __future__ import annotations

import pytest
import torch

from hpometrics.metrics.retrieval import scoring
from hpometrics.metrics.retrieval.interactions import Interactions
from hpometrics.metrics.retrieval.scoring import FactorScores, GivenScores, tiles

USERS, ITEMS = torch.randn(7, 3), torch.randn(20, 3)
SCORES = USERS @ ITEMS.T
CANDIDATES = torch.randint(20, (7, 4))


def whole(scores, **options):
    """All tiles, one below the other."""
    return torch.cat([tile.clone() for _, tile in tiles(scores, None, None, **options)])


@pytest.mark.parametrize(
    "scores", [GivenScores(SCORES), FactorScores(USERS, ITEMS)], ids=["given", "factors"]
)
def test_factors_are_the_scores_that_they_are_products_of(scores):
    """Rows, pairs, some rows, candidates: all as of the matrix."""
    row, which = torch.tensor([0, 6, 6]), torch.tensor([5, 1])
    torch.testing.assert_close(whole(scores), SCORES)
    torch.testing.assert_close(scores.pairs(row, row * 3), SCORES[row, row * 3])
    torch.testing.assert_close(whole(scores.only(which)), SCORES[which])
    near = scores.of(CANDIDATES)
    torch.testing.assert_close(whole(near), SCORES.gather(1, CANDIDATES))
    torch.testing.assert_close(near.pairs(row, torch.tensor([0, 3, 1])), whole(near)[row, [0, 3, 1]])
    torch.testing.assert_close(whole(near.only(which)), SCORES.gather(1, CANDIDATES)[which])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("scratch", [False, True])
def test_tiles_are_wide_enough(dtype, scratch):
    """Half precision is widened before it is ranked or multiplied."""
    wide = torch.float64 if dtype is torch.float64 else torch.float32
    users, items = USERS.to(dtype), ITEMS.to(dtype)
    for scores in (GivenScores(SCORES.to(dtype)), FactorScores(users, items)):
        assert whole(scores, scratch=scratch).dtype is scores.dtype is wide
    product = whole(FactorScores(users, items), scratch=scratch)
    torch.testing.assert_close(product, users.to(wide) @ items.to(wide).T)


@pytest.mark.parametrize("size", [1, 20, 41, 1000])
def test_hidden_items_and_padding_are_not_ranked(monkeypatch, size):
    """-inf in the tile that a row is in, however rows are cut, and nothing of it in the scores given."""
    monkeypatch.setattr(scoring, "_TILE", size)
    before, hidden = SCORES.clone(), torch.rand(7, 20) < 0.4
    padding = torch.rand(7, 20) < 0.2
    parts = [
        (start, tile.clone())
        for start, tile in tiles(GivenScores(SCORES), Interactions.of(hidden, "seen"), padding)
    ]
    assert torch.equal(
        torch.cat([tile for _, tile in parts]), SCORES.masked_fill(hidden | padding, -torch.inf)
    )
    assert [start for start, _ in parts] == list(range(0, 7, max(1, size // 20)))
    assert torch.equal(SCORES, before)


def test_a_tile_to_write_into_is_no_one_elses():
    """With `scratch` the caller's scores stay as they are."""
    before = SCORES.clone()
    for _, tile in tiles(GivenScores(SCORES), None, None, scratch=True):
        tile.zero_()
    assert torch.equal(SCORES, before)


HUGE = torch.tensor([[1e30, 0.0], [0.0, 1e30]])


@pytest.mark.parametrize(
    ("items", "exceeds"), [([[0.0, 0.0]], False), ([[1e30, 0.0]], True), ([[-1e30, 0.0]], True)]
)
def test_a_product_that_exceeds_its_type_is_seen(items, exceeds):
    """Of large factors every product is looked at: those that do not meet are no harm."""
    assert bool(FactorScores(HUGE, torch.tensor(items)).overflow) is exceeds
    assert not FactorScores(HUGE, torch.tensor(items).double()).overflow


def test_nobody_multiplies_factors_to_know_that_they_are_small(monkeypatch):
    """The largest of each are enough."""
    monkeypatch.setattr(FactorScores, "rows", lambda *_: pytest.fail("a tile was made"))
    assert not FactorScores(USERS, ITEMS).overflow


@pytest.mark.parametrize("way", ["rows", "pairs"])
def test_on_a_device_products_raise_a_flag(way, monkeypatch):
    """The one tensor that was there before they were made, whichever of them was too large."""
    monkeypatch.setattr("hpometrics.metrics.retrieval.scoring.on_host", lambda tensor: False)
    scoring = FactorScores(HUGE, HUGE)
    flag = scoring.overflow
    assert not flag and bool(scoring.ordered)
    scoring.rows(0, 2) if way == "rows" else scoring.pairs(torch.tensor([0, 0]), torch.tensor([1, 0]))
    assert flag
