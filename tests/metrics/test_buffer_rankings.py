"""Lists of small batches of rankings are measured together; nobody can tell but by the time it takes."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest
import torch

from hpometrics import MAXIMIZE, ListMetric, MetricCollection, MetricInputError, Ranking, get_metric
from hpometrics.metrics import _buffer
from hpometrics.metrics.catalogue.retrieval.gain import RankingNDCG
from hpometrics.metrics.retrieval import ranking_batch
from hpometrics.metrics.retrieval.relevance import DenseRelevance
from hpometrics.metrics.statistics.user_values import UserMeans

ITEMS, ROWS = 30, 60
NAMES = (
    "precision@5", "precision(shown=true)@5", "recall@5", "recall@9", "hit_rate@5", "f1@5", "ndcg@9",
    "dcg@5", "ndcg(gain=exp)@5", "rbp@9", "err@5", "mrr@5", "map@9", "map(norm=hits)@5", "mar@5", "arp@5",
    "aclt@5", "aplt@9", "user_coverage@5", "user_coverage_at_n@9", "gini@5", "item_coverage@9",
    "shannon_entropy@5",
)  # fmt: skip
OUTPUT = Ranking(num_items=ITEMS, item_popularity=torch.arange(ITEMS))


def rankings(rows=ROWS, seed=0):
    """Scores, some rows of which rank fewer than nine items, and up to five relevant items a row, or none."""
    random = torch.Generator().manual_seed(seed)
    scores = torch.randn(rows, ITEMS, generator=random)
    scores[::7, 6:] = -torch.inf
    target = [torch.randperm(ITEMS, generator=random)[: row % 6].tolist() for row in range(rows)]
    return scores, target


def given(metrics, size, *, seed=0, weight=None):
    """A collection that was given rankings in batches of so many rows."""
    panel = MetricCollection(metrics, output=OUTPUT)
    scores, target = rankings(seed=seed)
    for start in range(0, ROWS, size):
        part = slice(start, start + size)
        weights = {} if weight is None else {"sample_weight": weight[part]}
        panel.update(scores=scores[part], target=target[part], **weights)
    return panel


@pytest.fixture
def measured(monkeypatch):
    """The sizes of the batches whose means over users are updated."""
    sizes: list[int] = []
    update = UserMeans.update
    monkeypatch.setattr(
        UserMeans, "update", lambda own, batch: (sizes.append(len(batch)), update(own, batch))
    )
    return sizes


def same(values, expected):
    """Values of every name, alike up to the order in which float64 adds them up."""
    assert values.keys() == expected.keys()
    found, wanted = (torch.stack([*of.values()]) for of in (values, expected))
    return torch.allclose(found, wanted, rtol=1e-12, equal_nan=True)


def test_lists_of_a_kind_are_measured_together(measured):
    """They wait until somebody reads."""
    panel = given(["ndcg@5"], 10)
    assert measured == []
    panel.compute()
    assert measured == [60]


@pytest.mark.parametrize("weight", [None, torch.arange(ROWS) % 4 * 0.5], ids=["plain", "weighted"])
@pytest.mark.parametrize("size", [1, 7, 25])
def test_values_are_those_of_one_batch(size, weight):
    """However the rows were cut, every metric has the value that one update gives it."""
    assert same(given(NAMES, size, weight=weight).compute(), given(NAMES, ROWS, weight=weight).compute())


def test_what_waits_is_bounded(measured, monkeypatch):
    """Lists are measured before their places exceed the most; a batch of more than half of it at once."""
    monkeypatch.setattr(_buffer, "_MAX_PLACES", 25 * 5)
    given(["ndcg@5"], 10)
    assert measured == [20, 20]
    measured.clear()
    given(["ndcg@5"], 15)
    assert measured == [15] * 4


def test_a_batch_of_another_kind_does_not_join(measured):
    """Rows that are weighed are no kind of those that are not; what waited is measured first."""
    panel, (scores, target) = given(["mrr@5"], 20), rankings()
    panel.update(scores=scores, target=target, sample_weight=torch.ones(ROWS))
    assert measured == [60]
    panel.compute()
    assert measured == [60, 60]


def test_a_refusal_is_that_of_the_batch():
    """A batch without rows stands for one of candidates too, of a catalogue of unknown size."""
    panel = MetricCollection(["item_coverage@2"], output=Ranking())
    with pytest.raises(
        MetricInputError,
        match=r"unknown, because the batch has only candidates; pass Ranking\(num_items=\.\.\.\)",
    ):
        panel.update(scores=torch.rand(1, 2), target=[[0]], items=torch.tensor([[3, 0]]))
    with pytest.raises(MetricInputError, match="queries= does not name"):
        panel.update(scores=torch.rand(2), target=torch.ones(2), queries=torch.tensor([0, 0]))


def test_lists_with_grades_do_not_wait(measured):
    """Their ideal order is the target's, which is the caller's own and may change."""
    panel, (scores, _) = MetricCollection(["ndcg@5"], output=OUTPUT), rankings()
    for _ in range(3):
        panel.update(scores=scores, target=torch.full((ROWS, ITEMS), 2.0))
    assert measured == [ROWS] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str)
def test_grades_of_0_and_1_are_none(measured, dtype):
    """Whatever the type of a dense target, its lists wait as those of flags do, for the same values."""
    scores, flags = rankings()[0], torch.rand(ROWS, ITEMS, generator=torch.Generator().manual_seed(1)) < 0.2
    panels = [MetricCollection(NAMES, output=OUTPUT) for _ in range(2)]
    for panel, target in zip(panels, (flags, flags.to(dtype)), strict=True):
        for start in range(0, ROWS, 20):
            panel.update(scores=scores[start : start + 20], target=target[start : start + 20])
    assert measured == []
    assert panels[0].compute() == panels[1].compute()


def test_nothing_of_a_batch_stays_alive():
    """What waits are lists of their own: scores, targets and weights may go, or change."""
    panel, before = MetricCollection(["ndcg@5", "gini@5"], output=OUTPUT), targets_alive()
    for seed in range(3):
        scores, weight = rankings(seed=seed)[0], torch.ones(ROWS, dtype=torch.float64)
        panel.update(scores=scores, target=scores > 1, sample_weight=weight)
        weight.zero_()
    assert targets_alive() == before
    assert not panel.compute()["ndcg@5"].isnan()


def targets_alive():
    """How many matrices of targets are held by anyone."""
    gc.collect()
    return sum(type(each) is DenseRelevance for each in gc.get_objects())


def test_who_reads_or_moves_what_was_measured_has_all_of_it():
    """A state, a merge, a copy and a pickle hold what waits; after a reset nothing does."""
    panel, expected = given(NAMES, 10), given(NAMES, ROWS).compute()
    loaded = panel.fresh()
    loaded.load_state_dict(given(NAMES, 10).state_dict())
    for other in (loaded, copy.deepcopy(given(NAMES, 10)), pickle.loads(pickle.dumps(given(NAMES, 10)))):
        assert same(other.compute(), expected)
    panel.merge(given(NAMES, 10, seed=1))
    both = given(NAMES, ROWS)
    scores, target = rankings(seed=1)
    both.update(scores=scores, target=target)
    assert same(panel.compute(), both.compute())
    again = given(NAMES, 10)
    again.reset()
    assert all(value.isnan() for value in again.compute().values())


def test_one_goes_on_after_a_look():
    """A value that was read in between does not keep later batches out."""
    panel, (scores, target) = given(NAMES, 10), rankings(seed=2)
    panel.compute()
    panel.update(scores=scores, target=target)
    whole = given(NAMES, ROWS)
    whole.update(scores=scores, target=target)
    assert same(panel.compute(), whole.compute())


def test_a_metric_on_its_own_joins_too(measured):
    """Its lists wait as those of a collection do."""
    metric = get_metric("map@5", OUTPUT)
    scores, target = rankings()
    for start in range(0, ROWS, 20):
        metric.update(scores=scores[start : start + 20], target=target[start : start + 20])
    assert metric.compute().item() == pytest.approx(given(["map@5"], ROWS).compute()["map@5"].item())
    assert measured[0] == 60


def test_inference_mode_does_not_matter():
    """Lists found in it are joined with those that were not."""
    panel, (scores, target) = MetricCollection(NAMES, output=OUTPUT), rankings()
    for place, start in enumerate(range(0, ROWS, 10)):
        with torch.inference_mode(place in (1, 3)):
            panel.update(scores=scores[start : start + 10], target=target[start : start + 10])
    assert same(panel.compute(), given(NAMES, ROWS).compute())


def test_a_formula_of_ones_own_is_measured_with_each_batch(measured):
    """It may read more than lists, or refuse them: `reads` holds for the class that gives the formula."""

    class Refuses(RankingNDCG):
        direction = MAXIMIZE

        def values(self, cut):
            if len(cut.lists) == 10:
                raise MetricInputError("ten rows are too many")
            return super().values(cut)

    assert RankingNDCG.reads == "hits" and issubclass(Refuses, ListMetric)
    panel, (scores, target) = MetricCollection([Refuses(k=5)], output=OUTPUT), rankings()
    panel.update(scores=scores[:20], target=target[:20])
    with pytest.raises(MetricInputError, match="ten rows are too many"):
        panel.update(scores=scores[:10], target=target[:10])
    panel.update(scores=scores[:5], target=target[:5])
    assert (measured, panel.rows) == ([20, 5], 25)


def test_what_is_missing_is_told_by_the_first_batch():
    """Nothing waits of it, and a metric that can do without measures what follows."""
    panel, (scores, target) = (
        MetricCollection(["ndcg@5", "arp@5"], output=Ranking(num_items=ITEMS)),
        rankings(),
    )
    with pytest.raises(MetricInputError, match="item_popularity"):
        panel.update(scores=scores, target=target)
    assert panel.rows == 0 and panel.compute()["ndcg@5"].isnan()


HITS = (
    "precision@5", "recall@9", "recall(capped=true)@2", "hit_rate@5", "hit_rate@1", "f1@5", "ndcg@9",
    "ndcg@2", "dcg@5", "ndcg(gain=exp)@5", "rbp@9", "err@5", "mrr@9", "mrr@2", "map@9",
    "map(norm=hits)@5", "mar@5",
)  # fmt: skip


def few_relevant(seed, *, dtype=torch.float32, grades=1):
    """Scores of 90 items, many of them equal or not ranked, and up to four relevant items a row, or none."""
    random = torch.Generator().manual_seed(seed)
    scores = torch.randn(50, 90, generator=random).mul(4).round().div(4)
    scores = scores.masked_fill(torch.rand(50, 90, generator=random) < 0.3, -torch.inf)
    target = torch.zeros(50, 90, dtype=torch.int64)
    for row in range(50):
        chosen = torch.randperm(90, generator=random)[: row % 5 if row % 7 else 0]
        target[row, chosen] = torch.randint(1, grades + 1, (len(chosen),), generator=random)
    return scores.to(dtype), target


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("grades", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16], ids=str)
def test_hits_alone_have_the_values_of_ranked_lists(dtype, grades, seed, monkeypatch):
    """The ranks of few relevant items are counted; with a metric of items in the collection, lists are."""
    scores, target = few_relevant(seed, dtype=dtype, grades=grades)
    alone, ranked = (
        MetricCollection([*HITS, *more], output=Ranking(num_items=90)) for more in ((), ("item_coverage@9",))
    )
    for form in (lambda rows: rows, lambda rows: rows > 0, torch.Tensor.to_sparse):
        for part in (slice(0, 7), slice(7, 50)):
            batch = {"scores": scores[part], "target": form(target[part])}
            alone.update(**batch)
            ranked.update(**batch)
    wanted = {name: ranked.compute()[name] for name in HITS}
    assert same(alone.compute(), wanted)
    monkeypatch.setattr(ranking_batch, "top_k", None)  # which only the collection with lists calls
    alone.update(**batch)
    with pytest.raises(TypeError):
        ranked.update(**batch)


def test_hits_join_lists_of_batches_with_many_relevant_items(measured):
    """Batches of few and of many relevant items are of two kinds, with the values of one batch."""
    scores, target = few_relevant(0)
    target[20:40, 50:60] = 1
    whole = MetricCollection(HITS, output=Ranking())
    whole.update(scores=scores, target=target)
    parts = MetricCollection(HITS, output=Ranking())
    for start in range(0, 50, 10):
        parts.update(scores=scores[start : start + 10], target=target[start : start + 10])
    assert same(parts.compute(), whole.compute())
