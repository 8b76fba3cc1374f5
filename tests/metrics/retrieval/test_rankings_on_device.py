"""What is computed on a device without reading from it is what the host computes: every metric, both ways."""

from __future__ import annotations

from functools import partial
from itertools import product

import numpy as np
import pytest
import torch
from matrix import covering
from torch.utils._python_dispatch import TorchDispatchMode

from hpometrics import MetricCollection, Ranking
from hpometrics.metrics.features import RANKING
from hpometrics.metrics.registry.index import all_entries, observed_of
from hpometrics.metrics.retrieval import scoring as scoring_module
from hpometrics.metrics.retrieval.interactions import Interactions, PaddedInteractions
from hpometrics.metrics.retrieval.ranking_batch import RankingBatch, finite_rows, ranking_checks
from hpometrics.metrics.retrieval.row_areas import ranks_of
from hpometrics.metrics.retrieval.scoring import FactorScores
from hpometrics.metrics.retrieval.update import _split_entries
from hpometrics.testing import OUTPUTS, away, draw, subjects_of, waits_of

ENTRIES = [entry for entry in all_entries(RANKING) if ".torchmetrics" not in entry.path]


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


TOGETHER = [_listed_candidates, _candidate_factors, _tied, _unranked, _listed, _candidates, _factors]
"""The forms for which the host might wait, those that are two at once first."""


def parts_of(form):
    """What a form is made of."""
    return form.__name__.removesuffix("s").split("_")[1:]


def _value(entry, form):
    subject = subjects_of(entry)[0]
    metric = subject.make()
    for seed in (0, 1):
        metric.update(**form(subject.draw(30, seed=seed)))
    return metric.compute()


def _kinds(case):
    """The statistics of a metric in each form of a batch, and the module of its formula in any."""
    entry, form = case
    return [entry.path.partition(":")[0], *[(name, form) for name in observed_of(entry).statistics]]


def _ids(case):
    return f"{case[0]}-{case[1].__name__}"


@pytest.mark.parametrize(("entry", "form"), covering(product(ENTRIES, FORMS), _kinds, _ids))
def test_a_value_is_the_same(entry, form, elsewhere):
    """Seen items, groups and popularity included, whether rows are packed or padded."""
    here = _value(entry, form)
    elsewhere()
    torch.testing.assert_close(_value(entry, form), here, rtol=1e-12, atol=1e-12, equal_nan=True)


def _panel():
    """Every metric that reads nothing but rankings, in one collection."""
    subjects = [subjects_of(entry)[0] for entry in ENTRIES if entry.name != "loss"]
    return MetricCollection([subject.name for subject in subjects], subjects[0].output)


def _batch(rows, seed):
    return draw(OUTPUTS[RANKING], rows, 0.3, seed)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_all_values_of_a_collection_are_the_same(form, elsewhere):
    """Each metric in each form, from the blocks that the others share."""

    def values():
        panel = _panel()
        for seed in (0, 1):
            panel.update(**form(_batch(30, seed)))
        return panel.compute()

    here = values()
    elsewhere()
    there = values()
    undefined = [name for name, value in here.items() if value.isnan().all()]
    assert len(here) == len(ENTRIES) - 1 and undefined == []
    for name, value in here.items():
        np.testing.assert_allclose(there[name], value, rtol=1e-12, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("form", covering(TOGETHER, parts_of, ids=lambda form: form.__name__))
def test_an_update_of_a_collection_is_not_waited_for(form):
    """Whatever its metrics share: no value is read."""
    panel = _panel()
    assert waits_of(partial(panel.update, **away(form(_batch(20, 0))))) == []


@pytest.mark.parametrize(
    ("entry", "form"),
    covering(product(ENTRIES, FORMS[1:]), lambda case: [*observed_of(case[0]).statistics, case[1]], _ids),
)
def test_an_update_is_not_waited_for(entry, form):
    """Whatever the form: no value is read, and what lies on the host, as lists of ids, is sent."""
    subject = subjects_of(entry)[0]
    metric = subject.make()
    for seed in (0, 1):
        assert waits_of(partial(metric.update, **away(form(subject.draw(20, seed=seed))))) == []
    assert metric.update_count == 2


class TopK(TorchDispatchMode):
    """Counts what is ranked."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func is torch.ops.aten.topk.default
        return func(*args, **(kwargs or {}))


NAMES = (
    "ndcg@10",
    "ndcg@3",
    "precision@5",
    "recall@10",
    "map@10",
    "mrr@5",
    "hit_rate@1",
    "auc",
    "arp@10",
    "gini@10",
)
SEEN = [[0, 1], [2], [3, 4, 5], []]
RELEVANT = [[7], [8, 9], [], [19]]


def _scored(**others):
    return {"scores": torch.rand(4, 20), "users": torch.arange(4), **others}


@pytest.mark.parametrize(
    ("given", "ranked"),
    [
        (_scored(target=RELEVANT), 1),
        (_scored(target=torch.eye(4, 20, dtype=torch.bool)), 1),
        (_scored(target=RELEVANT, sample_weight=[1.0, 2.0, 0.0, 1.0]), 1),
        (_scored(target=(torch.tensor([0, 1, 3, 3, 4]), torch.tensor([7, 8, 9, 19]))), 1),
        (_scored(target=[{item: 2.0 for item in row} for row in RELEVANT]), 2),  # grades for the ideal list
        (_scored(target=torch.eye(4, 20)), 2),
    ],
)
def test_a_batch_is_ranked_once(given, ranked):
    """Forty values take one top-k of the scores, and nobody waits; grades are ranked for the ideal list."""
    metrics = MetricCollection(NAMES, Ranking(20, seen=SEEN, item_popularity=list(range(1, 21))))
    for _ in range(2):
        with TopK() as counted:
            assert waits_of(partial(metrics.update, **away(given))) == []
        assert counted.count == ranked


HOST = torch.tensor([0, 0, 1, 1, 1, 2])
PLACES = HOST.to("meta")
PAIRS = {"scores": torch.rand(6).to("meta"), "target": torch.ones(6).to("meta")}


@pytest.mark.parametrize("here", [(), ("users",), ("sample_weight",), ("items",)])
def test_what_goes_with_scores_may_stay_on_the_host(here):
    """Users, weights and candidates are sent."""
    given = _scored(target=RELEVANT, sample_weight=torch.ones(4), items=torch.arange(20).expand(4, 20))
    metrics = MetricCollection(["ndcg@3", "auc"], Ranking(20))
    assert waits_of(partial(metrics.update, **{**away(given), **{name: given[name] for name in here}})) == []


def test_queries_of_the_host_are_not_waited_for():
    """They say how many rows there are and how long the longest is; on a device that is read, once."""
    metrics = MetricCollection(["ndcg@3", "auc", "mrr"], Ranking())
    assert waits_of(partial(metrics.update, **PAIRS, queries=HOST, sample_weight=[1.0, 2.0, 0.0])) == []
    (told,) = waits_of(partial(metrics.update, **PAIRS, queries=HOST.to("meta")))
    assert "unique" in told


@pytest.mark.parametrize("target", [RELEVANT, [{7: 1.0}, {8: 2.0, 9: 0.0}, {}, {}]])
@pytest.mark.parametrize("factors", [False, True])
def test_drawn_candidates_are_not_waited_for(target, factors):
    """They are drawn on the host, of what lies there, and sent."""
    metrics = MetricCollection(["ndcg@3", "auc", "mrr"], Ranking(20, seen=SEEN, num_negatives=4))
    scores = {"user_factors": torch.rand(4, 3), "item_factors": torch.rand(20, 3)}
    given = away(scores if factors else {"scores": torch.rand(4, 20)})
    assert waits_of(partial(metrics.update, **given, target=target, users=torch.arange(4))) == []


def test_what_they_are_drawn_of_is_waited_for():
    """A matrix on a device has to come to the host first."""
    metrics = MetricCollection(["ndcg@3"], Ranking(20, num_negatives=4))
    given = away({"scores": torch.rand(4, 20), "target": torch.eye(4, 20)})
    assert waits_of(partial(metrics.update, **given))


@pytest.mark.parametrize(("items", "bad"), [([[1, 0, -1, -1]], False), ([[3, 0, 1, 3]], True)])
def test_an_item_that_stands_twice_is_flagged(items, bad, elsewhere):
    """By a sort that nobody waits for."""
    batch = RankingBatch(Ranking(), scores=torch.rand(1, 4), target=[[0]], items=torch.tensor(items))
    elsewhere()
    assert [check.bad for check in ranking_checks(batch)] == [False, bad]


@pytest.mark.parametrize("items", [None, torch.tensor([[0, 2, 1], [3, 1, -1], [4, 0, 2], [1, 0, 4]])])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, 3e38])
@pytest.mark.parametrize("where", ["user", "item"])
def test_rows_of_factors_that_are_left_out_stay_factors(items, bad, where, elsewhere, monkeypatch):
    """What a bad user or item spoils is 0 and weighs nothing; never are all scores of all rows made."""
    users, catalogue = torch.rand(4, 3) + 1, torch.rand(5, 3) + 1
    (users if where == "user" else catalogue)[3] = bad
    given = {"user_factors": users, "item_factors": catalogue, "target": [[0], [1], [2], [0]], "items": items}
    keep = ((users @ catalogue.T).abs() < torch.inf).all(1)
    if items is not None:
        keep = torch.tensor([True, where == "user", True, where == "item"])
    elsewhere()
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


def test_each_user_that_has_seen_something_is_masked(elsewhere):
    """Users in any order, one of them twice, one that has seen nothing."""
    seen, users = [[0, 2], [], [1]], torch.tensor([2, 0, 1, 0])
    output = Ranking(seen=seen)
    elsewhere()
    batch = RankingBatch(output, scores=torch.zeros(4, 3), target=torch.ones(4, 3), users=users)
    shown = (batch.logits == 0).int().tolist()
    assert shown == [[1, 0, 1], [0, 1, 0], [1, 1, 1], [0, 1, 0]]


def test_nobody_has_seen_anything(elsewhere):
    """A table without places hides nothing."""
    elsewhere()
    batch = RankingBatch(
        Ranking(seen=[[], []]), scores=torch.zeros(2, 2), target=[[], []], users=torch.tensor([0, 1])
    )
    assert batch.logits.tolist() == [[0, 0], [0, 0]] and batch.relevance.counts.tolist() == [0, 0]


def test_drawn_candidates_are_the_same(elsewhere):
    """The draw is made on the host, of what is packed there."""
    given = {"scores": torch.rand(3, 30), "target": torch.eye(3, 30), "users": torch.tensor([0, 1, 2])}
    output = Ranking(seen=[[4], [5, 6], []], num_negatives=5)
    here = RankingBatch(output, **given)
    elsewhere()
    there = RankingBatch(output, **given)
    assert torch.equal(there.items, here.items) and torch.equal(there.target, here.target)


@pytest.mark.parametrize("void", [None, 0.0])
def test_entries_of_a_device_are_told_apart_there(void):
    """What is packed on a device is counted there, which is waited for, and meets nothing of the host."""
    entries = Interactions(PLACES, PLACES)
    made = []
    _split_entries(entries, lambda _, **others: made.append(others["refused"]), 0.0, void, None)
    (told,) = waits_of(made[0])
    assert "nonzero" in told


@pytest.mark.parametrize("keep", [[True, False, True], [False, True, False]])
def test_rows_are_chosen(keep, elsewhere):
    """Rows keep their seen and their relevant items."""
    given = {"scores": torch.rand(3, 4), "target": [[0], [1, 2], []], "users": torch.tensor([0, 1, 2])}
    output = Ranking(seen=[[3], [], [0, 1]])
    here = RankingBatch(output, **given).rows(torch.tensor(keep))
    elsewhere()
    there = RankingBatch(output, **given).rows(torch.tensor(keep))
    assert torch.equal(there.logits, here.logits) and torch.equal(there.answer, here.answer)


def test_ranks_of_tied_scores_follow_columns(elsewhere):
    """-0.0 is 0.0, and what is not ranked has no rank."""
    scores = torch.tensor([[0.0, -0.0, 1.0, -torch.inf], [2.0, 2.0, 2.0, 2.0]])
    entries = Interactions.of([[1, 3], [3, 0]], "target")
    elsewhere()
    found = ranks_of(scores, PaddedInteractions.from_packed(entries))
    assert found.tolist() == [3, torch.inf, 4, 1]


def test_packing_undoes_padding():
    """The same items and grades, in the same order."""
    entries = Interactions.of([{2: 1.0, 0: 3.0}, {}, {1: 2.0}], "target")
    packed = (
        PaddedInteractions.from_packed(entries).rows(torch.arange(3)).packed()
    )  # what is chosen came from nowhere
    for name in ("offsets", "items", "grades"):
        assert torch.equal(getattr(packed, name), getattr(entries, name))


@pytest.mark.parametrize(
    "target", [torch.tensor([[0.0, 1.0], [1.0, torch.nan]]), [{1: 1.0}, {0: 1.0, 1: torch.nan}]]
)
@pytest.mark.parametrize(("weight", "bad"), [(None, True), ([1.0, 0.0], False), ([0.0, 1.0], True)])
def test_a_grade_that_is_not_finite_is_flagged(target, weight, bad, elsewhere):
    """By a look that nobody waits for; a row that was left out weighs nothing."""
    given = {"scores": torch.rand(2, 2), "target": target, "sample_weight": weight}
    batch = RankingBatch(Ranking(), **{name: value for name, value in given.items() if value is not None})
    elsewhere()
    assert any(check.bad for check in ranking_checks(batch)) is bad


ITEMS = [[7, -3, 2, 0], [5, 1, -1, 4]]


@pytest.mark.parametrize(
    ("output", "given", "rules"),
    [
        (Ranking(num_items=5), {"items": ITEMS}, ["items must be in 0..4, or -1 for none"]),
        (Ranking(), {"items": ITEMS}, ["items must be in 0.., or -1 for none"]),
        (Ranking(num_items=8), {"items": [[7, 8, 2, 0], [5, 1, -1, 4]]}, []),
        (Ranking(seen=[[0], [1]]), {"users": [1, 2]}, ["seen has users 0..1"]),
        (Ranking(seen=[[0], [1]]), {"users": [-1, 0]}, ["seen has users 0..1"]),
        (Ranking(seen=[[0], [1]]), {"users": [1, 0]}, []),
    ],
)
def test_ids_that_are_not_known_are_flagged(output, given, rules, elsewhere):
    """Nobody waits for them, and nothing is read beyond its end."""
    elsewhere()
    told = {name: torch.tensor(value) for name, value in given.items()}
    batch = RankingBatch(output, scores=torch.rand(2, 4), target=[[0], [1]], **told)
    assert [check.rule for check in ranking_checks(batch) if check.bad] == rules
    batch.reach(4)
    assert int(batch.lists.items.max()) < (output.num_items or 8) and int(batch.lists.items.min()) >= -1


def test_candidates_of_factors_that_are_not_known_are_flagged(elsewhere):
    """They have no factors, and are not ranked."""
    elsewhere()
    given = {"user_factors": torch.rand(2, 3), "item_factors": torch.rand(5, 3), "target": [[0], [1]]}
    batch = RankingBatch(Ranking(), **given, items=torch.tensor(ITEMS))
    assert [check.rule for check in ranking_checks(batch) if check.bad] == [
        "items must be in 0..4, or -1 for none"
    ]
    batch.reach(4)
    assert batch.lists.lengths.tolist() == [[2], [2]]
