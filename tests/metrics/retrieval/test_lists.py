from __future__ import annotations

import pytest
import torch

from hpometrics import Ranking, get_metric
from hpometrics.metrics.catalogue.retrieval.gain import gains
from hpometrics.metrics.retrieval.ranking_batch import RankingBatch

torch.manual_seed(0)
SCORES = torch.randn(40, 30)
GRADES = torch.randint(0, 4, (40, 30)) * (torch.rand(40, 30) < 0.4)
ENDING = SCORES.masked_fill(torch.arange(30) >= torch.arange(40).unsqueeze(1), -torch.inf)
"""Row r has r items that are ranked."""
CUTOFFS = (1, 4, 9)


def lists_of(scores, target):
    """The nine best of each row."""
    batch = RankingBatch(Ranking(num_items=30), scores=scores, target=target)
    batch.reach(max(CUTOFFS))
    return batch.lists


@pytest.mark.parametrize("scores", [SCORES, ENDING], ids=["full", "ending early"])
def test_a_list_has_as_many_items_as_are_ranked(scores):
    """Nine, or all there are; none of them where no row has so many."""
    wanted = (scores > -torch.inf).sum(1, keepdim=True).clamp(max=9).double()
    lists = lists_of(scores, GRADES)
    assert torch.equal(lists.lengths, wanted)
    assert torch.equal(lists.cut(CUTOFFS).lengths, torch.minimum(wanted, torch.tensor(CUTOFFS)))


@pytest.mark.parametrize("scores", [SCORES, ENDING], ids=["full", "ending early"])
def test_facts_of_items_are_zero_behind_the_end(scores):
    """Each place has the fact of its item; lists that all go on to the last place need no zero."""
    facts, lists = torch.arange(1.0, 31.0), lists_of(scores, GRADES)
    assert lists.full == bool((lists.items >= 0).all())
    assert torch.equal(lists.of_items(facts), (lists.items + 1.0) * (lists.items >= 0))


@pytest.mark.parametrize("rows", [slice(0), slice(1), slice(40)])
@pytest.mark.parametrize("scores", [SCORES, ENDING], ids=["full", "ending early"])
@pytest.mark.parametrize("target", [GRADES, GRADES > 0], ids=["grades", "flags"])
def test_hits_count_alike_with_and_without_grades(target, scores, rows):
    """1 for each relevant item, whatever its grade, dense and sparse; as many within k as stand there."""
    order = scores.argsort(dim=1, descending=True)[rows, :9]
    there = scores[rows].gather(1, order) > -torch.inf
    hits = (GRADES[rows].gather(1, order) > 0) & there
    for given in (target[rows], target[rows].to_sparse()):
        lists = lists_of(scores[rows], given)
        assert torch.equal(lists.marks, hits.double()) and torch.equal(lists.hits, hits)
        wanted = torch.stack([hits[:, :k].sum(1) for k in CUTOFFS], dim=1).double()
        assert torch.equal(lists.cut(CUTOFFS).found, wanted)
        assert torch.equal(lists.part(0, len(hits)).marks, lists.marks)


def test_only_grades_are_worth_more_than_a_hit():
    """Lists know whether there are grades; a matrix of flags, and entries without grades, have none."""
    for flags in (GRADES > 0, [row.nonzero().squeeze(1) for row in GRADES]):
        lists = lists_of(SCORES, flags)
        assert (
            not lists.graded and not lists.part(3, 5).graded and set(lists.worth.unique().tolist()) == {0, 1}
        )
    assert lists_of(SCORES, GRADES).graded and lists_of(SCORES, GRADES.to_sparse()).worth.amax() == 3


@pytest.mark.parametrize("rows", [40, 4])
@pytest.mark.parametrize("gain", ["linear", "exp", "warprec", "binary"])
def test_an_ideal_list_is_worth_what_its_grades_add_up_to(rows, gain):
    """By number of relevant items for many rows, row by row for few ones; a row without one has nothing."""
    target = GRADES[:rows].clamp(max=1)
    target[0] = 0
    lists = lists_of(SCORES[:rows], target)
    cut = lists.cut(CUTOFFS)
    found = cut.sum_of_ideal(lambda grades: gains(grades, gain, grades[:, :1]), lists.ideal_discounts)
    each = gains(lists.ideal, gain, lists.ideal[:, :1]) * lists.ideal_discounts
    wanted = torch.stack([each[:, :k].sum(1) for k in CUTOFFS], dim=1)
    torch.testing.assert_close(found, wanted, rtol=1e-15, atol=0)
    assert (found[0] == 0).all()


def test_lists_far_deeper_than_the_catalogue_cost_their_places_alone():
    """A table of every length would take 10^10 places here."""
    metric = get_metric("ndcg@100000", Ranking())
    metric.update(scores=SCORES[:3], target=torch.eye(3, 30))
    shown = get_metric("ndcg@30", Ranking())
    shown.update(scores=SCORES[:3], target=torch.eye(3, 30))
    assert metric.compute().item() == pytest.approx(shown.compute().item(), rel=1e-15)
