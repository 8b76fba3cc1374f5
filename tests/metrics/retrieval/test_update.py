from __future__ import annotations

import pytest
import torch

from hpometrics import MetricCollection, MetricInputError, Ranking, get_metric
from hpometrics.metrics.retrieval.update import side_by_side


def test_pairs_stand_side_by_side():
    """Each query a row, its pairs in the order given; -inf, grade 0 and item -1 behind them."""
    scores, grades, names, items = side_by_side(
        torch.tensor([0.1, 0.2, 0.3]), [1, 0, 2], [7, 4, 7], [5, 6, 8]
    )
    rows = dict(zip(names.tolist(), zip(scores.tolist(), grades.tolist(), strict=True), strict=True))
    assert items.tolist() == [[5, 8], [6, -1]]
    wide = torch.tensor([[0.2, -torch.inf], [0.1, 0.3]]).tolist()
    assert rows == {4: (wide[0], [0, 0]), 7: (wide[1], [1, 2])}


def test_queries_are_in_the_order_in_which_they_first_come():
    """What is given by query, such as a weight, is in this order too: query 7 is right and counts alone."""
    given = {"scores": torch.tensor([0.9, 0.9, 0.1, 0.1]), "target": [1, 0, 0, 1], "queries": [7, 4, 7, 4]}
    assert side_by_side(*given.values())[2].tolist() == [7, 4]
    panel = MetricCollection(["precision@1"], output=Ranking())
    panel.update(**given, sample_weight=[1.0, 0.0])
    assert panel.compute()["precision@1"] == 1


def test_no_pairs():
    """No query has no row."""
    scores, grades, names, items = side_by_side(
        torch.zeros(0), torch.zeros(0), torch.zeros(0, dtype=torch.int64)
    )
    assert items is None and scores.shape == grades.shape == (0, 0) and len(names) == 0


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((None, [1], [0]), "queries= needs scores= and target="),
        ((torch.zeros(1), None, [0]), "queries= needs scores= and target="),
        ((torch.zeros(2), [1, 0], [0]), r"one entry per pair, got \(2,\), \(2,\) and \(1,\)"),
        ((torch.zeros(2, 1), [[1], [0]], [0, 1]), r"one entry per pair, got \(2, 1\)"),
        ((torch.zeros(2), [1, 0], [0, 1], [7]), r"target, queries and items must have .* and \(1,\)"),
    ],
)
def test_what_is_no_pairs(given, text):
    """All three have one entry per pair."""
    with pytest.raises(MetricInputError, match=text):
        side_by_side(*given)


@pytest.mark.parametrize("scores", [[3, 2, 1], [True, False, True]])
def test_scores_of_pairs_are_real_numbers(scores):
    """As those of rows: -inf fills these up."""
    given = {"scores": torch.tensor(scores), "target": [1, 0, 1], "queries": [0, 0, 1]}
    with pytest.raises(MetricInputError, match="scores of pairs must be real numbers, got torch"):
        get_metric("mrr", Ranking()).update(**given)


@pytest.mark.parametrize("kind", [torch.uint8, torch.int16])
def test_items_of_pairs_are_whole_numbers_of_any_kind(kind):
    """-1, which fills up a row, is an item of none of them."""
    given = {"scores": torch.tensor([0.9, 0.5, 0.1]), "target": [0, 1, 1], "queries": [0, 0, 1]}
    metric = get_metric("num_retrieved@2", Ranking(num_items=4))
    metric.update(**given, items=torch.tensor([3, 1, 2], dtype=kind))
    assert metric.compute() == 1.5


@pytest.mark.parametrize("keyword", ["queries", "indexes"])
def test_queries_are_rows(keyword):
    """The same value as of the lists themselves, of unequal length, in any order of the pairs."""
    torch.manual_seed(0)
    scores, target = torch.randn(6, 8), torch.randint(0, 2, (6, 8))
    there = torch.arange(8) < torch.tensor([8, 3, 5, 1, 8, 2]).unsqueeze(1)
    names = ["precision@3", "recall@2", "ndcg@5"]
    by_row, by_pair = (MetricCollection(names, Ranking()) for _ in range(2))
    by_row.update(scores=scores.masked_fill(~there, -torch.inf), target=target * there)
    row, column = there.nonzero()[torch.randperm(int(there.sum()))].T
    by_pair.update(scores=scores[row, column], target=target[row, column], **{keyword: 100 - row})
    for name, value in by_row.compute().items():
        torch.testing.assert_close(by_pair.compute()[name], value)


@pytest.mark.parametrize(
    ("output", "given", "text"),
    [
        (Ranking(seen=[[0]]), {}, "documents of queries have no numbers"),
        (Ranking(num_negatives=1), {}, "documents of queries have no numbers"),
        (Ranking(), {"users": [0, 0]}, "leave out users="),
    ],
)
def test_documents_of_queries_are_not_numbered(output, given, text):
    """Places of a query are no items, which nothing of the catalogue may be told of."""
    panel = MetricCollection(["mrr"], output=output)
    with pytest.raises(MetricInputError, match=text):
        panel.update(scores=torch.rand(2), target=[1, 0], queries=[0, 0], **given)


def test_documents_with_numbers_are_items():
    """Beside `items=` the catalogue is known, as of lists of candidates; -1 has no part."""
    torch.manual_seed(1)
    popular = torch.arange(20)
    output = Ranking(item_popularity=popular, item_groups=popular % 3, item_features=torch.rand(20, 4))
    names = ["ndcg@3", "item_coverage@2", "arp@2", "srecall@2", "reo@2", "pop_rsp@2", "item_mad_ranking@2"]
    items = torch.stack([torch.randperm(20)[:5] for _ in range(6)])
    scores, target = torch.randn(6, 5), torch.randint(0, 2, (6, 5))
    by_row, by_pair = (MetricCollection(names, output) for _ in range(2))
    row, column = torch.ones(6, 5).nonzero()[torch.randperm(30)].T
    given = {"scores": scores, "target": target, "items": items}
    by_row.update(**given)
    pairs = {name: value[row, column] for name, value in given.items()}
    by_pair.update(**pairs, queries=row)
    for name, value in by_row.compute().items():
        torch.testing.assert_close(by_pair.compute()[name], value)


CATALOGUE = [
    "item_coverage@2",
    "arp@2",
    "srecall@2",
    "reo@2",
    "pop_rsp@2",
    "item_mad_ranking@2",
    "serendipity@2",
]


@pytest.mark.parametrize("name", CATALOGUE)
def test_places_of_a_query_are_no_items(name):
    """Nothing of the catalogue is told of them, though there are as many; lists are measured all the same."""
    output = Ranking(item_popularity=[5, 1], item_groups=[0, 1], item_features=[[1.0], [0.5]])
    given = {"scores": torch.rand(2), "target": [1, 0], "queries": [0, 0]}
    with pytest.raises(MetricInputError, match="queries= does not name them; pass items=, "):
        MetricCollection([name], output).update(**given)
    panel = MetricCollection(["recall@2"], output)
    panel.update(**given)
    assert panel.compute()["recall@2"] == 1
