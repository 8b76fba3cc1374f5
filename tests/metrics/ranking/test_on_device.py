"""What is computed on a device without reading from it is what the host computes: every metric, both ways."""

from __future__ import annotations

import sys

import pytest
import torch

from hpometrics import Ranking
from hpometrics.metrics.features import RANKING
from hpometrics.metrics.ranking import scoring as scoring_module
from hpometrics.metrics.ranking.areas import ranks_of
from hpometrics.metrics.ranking.batch import RankingBatch
from hpometrics.metrics.ranking.checks import finite_rows, ranking_checks
from hpometrics.metrics.ranking.factors import FactorScores
from hpometrics.metrics.ranking.interactions import Interactions
from hpometrics.metrics.ranking.padded import Padded
from hpometrics.metrics.registry import all_entries
from hpometrics.testing import subjects_of

ENTRIES = [entry for entry in all_entries(RANKING) if "reference" not in entry.path]


@pytest.fixture
def away(monkeypatch):
    """Call it, and every tensor is taken for one on a device, where nothing may be counted."""

    def leave():
        for name, module in list(sys.modules.items()):
            if name.startswith("hpometrics.") and hasattr(module, "on_host"):
                monkeypatch.setattr(module, "on_host", lambda tensor: False)

    return leave


def _dense(batch):
    return batch


def _tied(batch):
    return {**batch, "logits": batch["logits"].round().clamp(max=2), "sample_weight": _weights(batch)}


def _unranked(batch):
    """Each fifth item is no candidate of each third user; two users have nothing relevant."""
    scores, target = batch["logits"].clone(), batch["target"].clone()
    scores[::3, ::5] = -torch.inf
    target[4:6] = 0
    return {**batch, "logits": scores, "target": target}


def _candidates(batch):
    """The items of each user in an order of its own; the last places of some are none."""
    rows, width = batch["target"].shape
    order = torch.rand(rows, width, generator=torch.Generator().manual_seed(1)).argsort(dim=1)
    items = order.clone()
    items[::2, -3:] = -1
    target = batch["target"].gather(1, order).masked_fill(items < 0, 0)
    return {**batch, "logits": batch["logits"].gather(1, order), "target": target, "items": items}


def _listed(batch):
    """Grades by item, one of which is 0; the first user has none."""
    rows = [{int(i): float(row[i]) for i in row.nonzero()} | {0: 0.0} for row in batch["target"]]
    return {**batch, "target": [{}, *rows[1:]]}


def _listed_candidates(batch):
    """Relevant items in lists, of which some are no candidates."""
    given = _candidates(batch)
    return {**given, "target": [row.nonzero().squeeze(1).tolist() for row in batch["target"]]}


def _factors(batch):
    """Scores that are products, none of them -inf."""
    others = {name: value for name, value in batch.items() if name != "logits"}
    scores = batch["logits"].nan_to_num(neginf=-9.0)
    return {**others, "user_factors": scores, "item_factors": torch.eye(scores.shape[1])}


def _candidate_factors(batch):
    """Those of some items alone."""
    given = _candidates(batch)
    return {**_factors(batch), "items": given["items"], "target": given["target"]}


def _weights(batch):
    return torch.arange(len(batch["target"])) % 3


FORMS = [_dense, _tied, _unranked, _candidates, _listed, _listed_candidates, _factors, _candidate_factors]


def _value(entry, form):
    subject = subjects_of(entry)[0]
    metric = subject.make()
    for seed in (0, 1):
        metric.update(**form(subject.draw(30, seed=seed)))
    return metric.compute()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_a_value_is_the_same(entry, form, away):
    """Seen items, groups and popularity included, whether rows are packed or padded."""
    here = _value(entry, form)
    away()
    torch.testing.assert_close(_value(entry, form), here, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("form", FORMS[1:], ids=lambda form: form.__name__)
@pytest.mark.parametrize("entry", ENTRIES, ids=str)
def test_an_update_reads_nothing(entry, form):
    """Tensors without values are enough for every form; lists of ids lie on the host and are read there."""
    subject = subjects_of(entry)[0]
    metric = subject.make()
    for name, value in (batch := form(subject.draw(20))).items():
        if isinstance(value, torch.Tensor):
            batch[name] = value.to("meta")
    metric.update(**batch)
    assert metric.update_count == 1


@pytest.mark.parametrize(("items", "bad"), [([[1, 0, -1, -1]], False), ([[3, 0, 1, 3]], True)])
def test_an_item_that_stands_twice_is_flagged(items, bad, away):
    """By a sort that nobody waits for."""
    batch = RankingBatch(Ranking(), scores=torch.rand(1, 4), target=[[0]], items=torch.tensor(items))
    away()
    assert [check.bad for check in ranking_checks(batch)] == [False, bad]


@pytest.mark.parametrize("items", [None, torch.tensor([[0, 2, 1], [3, 1, -1], [4, 0, 2], [1, 0, 4]])])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 3e38])
@pytest.mark.parametrize("where", ["user", "item"])
def test_rows_of_factors_that_are_left_out_stay_factors(items, bad, where, away, monkeypatch):
    """What a bad user or item spoils is 0 and weighs nothing; never are all scores of all rows made."""
    users, catalogue = torch.rand(4, 3) + 1, torch.rand(5, 3) + 1
    (users if where == "user" else catalogue)[3] = bad
    given = {"user_factors": users, "item_factors": catalogue, "target": [[0], [1], [2], [0]], "items": items}
    keep = ((users @ catalogue.T).abs() < torch.inf).all(1)
    if items is not None:
        keep = torch.tensor([True, where == "user", True, where == "item"])
    away()
    monkeypatch.setattr(scoring_module, "_TILE", 1)  # a row each
    rows, most = FactorScores.rows, []

    def counted(self, start, stop, into=None):
        most.append(stop - start)
        return rows(self, start, stop, into)

    monkeypatch.setattr(FactorScores, "rows", counted)
    batch = RankingBatch(Ranking(), **{name: value for name, value in given.items() if value is not None})
    masked = batch.masked(finite_rows(batch))
    assert isinstance(masked.scoring, FactorScores) and masked.weight.tolist() == keep.double().tolist()
    assert not any(check.bad for check in ranking_checks(masked))
    assert torch.equal(masked.logits[keep], batch.logits[keep]) and set(most) == {1}
    assert set(masked.logits[~keep].view(-1).tolist()) <= {0.0, -torch.inf}


def test_each_user_that_has_seen_something_is_masked(away):
    """Users in any order, one of them twice, one that has seen nothing."""
    seen, users = [[0, 2], [], [1]], torch.tensor([2, 0, 1, 0])
    output = Ranking(seen=seen)
    away()
    batch = RankingBatch(output, scores=torch.zeros(4, 3), target=torch.ones(4, 3), users=users)
    shown = (batch.logits == 0).int().tolist()
    assert shown == [[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 1, 0]]


def test_nobody_has_seen_anything(away):
    """A table without places hides nothing."""
    away()
    batch = RankingBatch(
        Ranking(seen=[[], []]), scores=torch.zeros(2, 2), target=[[], []], users=torch.tensor([0, 1])
    )
    assert batch.logits.tolist() == [[0, 0], [0, 0]] and batch.relevance.counts.tolist() == [0, 0]


def test_drawn_candidates_are_the_same(away):
    """The draw is made on the host, of what is packed there."""
    given = {"scores": torch.rand(3, 30), "target": torch.eye(3, 30), "users": torch.tensor([0, 1, 2])}
    output = Ranking(seen=[[4], [5, 6], []], num_negatives=5)
    here = RankingBatch(output, **given)
    away()
    there = RankingBatch(output, **given)
    assert torch.equal(there.items, here.items) and torch.equal(there.target, here.target)


@pytest.mark.parametrize("keep", [[True, False, True], [False, True, False]])
def test_rows_are_chosen(keep, away):
    """Rows keep their seen and their relevant items."""
    given = {"scores": torch.rand(3, 4), "target": [[0], [1, 2], []], "users": torch.tensor([0, 1, 2])}
    output = Ranking(seen=[[3], [], [0, 1]])
    here = RankingBatch(output, **given).rows(torch.tensor(keep))
    away()
    there = RankingBatch(output, **given).rows(torch.tensor(keep))
    assert torch.equal(there.logits, here.logits) and torch.equal(there.answer, here.answer)


def test_ranks_of_tied_scores_follow_columns(away):
    """-0.0 is 0.0, and what is not ranked has no rank."""
    scores = torch.tensor([[0.0, -0.0, 1.0, -torch.inf], [2.0, 2.0, 2.0, 2.0]])
    entries = Interactions.of([[1, 3], [3, 0]], "target")
    away()
    found = ranks_of(scores, Padded.unpacked(entries))
    assert found.tolist() == [3, torch.inf, 4, 1]


def test_packing_undoes_padding():
    """The same items and grades, in the same order."""
    entries = Interactions.of([{2: 1.0, 0: 3.0}, {}, {1: 2.0}], "target")
    packed = Padded.unpacked(entries).packed()
    for name in ("offsets", "items", "grades"):
        assert torch.equal(getattr(packed, name), getattr(entries, name))


@pytest.mark.parametrize(
    "target", [torch.tensor([[0.0, 1.0], [1.0, torch.nan]]), [{1: 1.0}, {0: 1.0, 1: torch.nan}]]
)
@pytest.mark.parametrize(("weight", "bad"), [(None, True), ([1.0, 0.0], False), ([0.0, 1.0], True)])
def test_a_grade_that_is_not_finite_is_flagged(target, weight, bad, away):
    """By a look that nobody waits for; a row that was left out weighs nothing."""
    given = {"scores": torch.rand(2, 2), "target": target, "sample_weight": weight}
    batch = RankingBatch(Ranking(), **{name: value for name, value in given.items() if value is not None})
    away()
    assert any(check.bad for check in ranking_checks(batch)) is bad


ITEMS = [[7, -3, 2, 0], [5, 1, -1, 4]]


@pytest.mark.parametrize(
    ("output", "given", "rules"),
    [
        (Ranking(num_items=5), {"items": ITEMS}, ["items lie in 0..4, or are -1 for none"]),
        (Ranking(), {"items": ITEMS}, ["items lie in 0.., or are -1 for none"]),
        (Ranking(num_items=8), {"items": [[7, 8, 2, 0], [5, 1, -1, 4]]}, []),
        (Ranking(seen=[[0], [1]]), {"users": [1, 2]}, ["seen has users 0..1"]),
        (Ranking(seen=[[0], [1]]), {"users": [-1, 0]}, ["seen has users 0..1"]),
        (Ranking(seen=[[0], [1]]), {"users": [1, 0]}, []),
    ],
)
def test_ids_that_are_not_known_are_flagged(output, given, rules, away):
    """Nobody waits for them, and nothing is read beyond its end."""
    away()
    told = {name: torch.tensor(value) for name, value in given.items()}
    batch = RankingBatch(output, scores=torch.rand(2, 4), target=[[0], [1]], **told)
    assert [check.rule for check in ranking_checks(batch) if check.bad] == rules
    batch.reach(4)
    assert int(batch.lists.items.max()) < (output.num_items or 8) and int(batch.lists.items.min()) >= -1


def test_candidates_of_factors_that_are_not_known_are_flagged(away):
    """They have no factors, and are not ranked."""
    away()
    given = {"user_factors": torch.rand(2, 3), "item_factors": torch.rand(5, 3), "target": [[0], [1]]}
    batch = RankingBatch(Ranking(), **given, items=torch.tensor(ITEMS))
    assert [check.rule for check in ranking_checks(batch) if check.bad] == [
        "items lie in 0..4, or are -1 for none"
    ]
    batch.reach(4)
    assert batch.lists.lengths.tolist() == [[2], [2]]
