from __future__ import annotations

import math
import re

import pytest
import torch
from scipy import sparse as scipy_sparse

from hpometrics import MetricCollection, MetricInputError, NonFiniteError, Ranking
from hpometrics.metrics.retrieval import ranking_batch as batch_module
from hpometrics.metrics.retrieval.interactions import Interactions
from hpometrics.metrics.retrieval.ranking_batch import RankingBatch

NAMES = [f"{name}@{k}" for name in ("precision", "recall", "ndcg") for k in (1, 3, 10)]
torch.manual_seed(0)
SCORES = torch.randn(12, 30)
TARGET = torch.randint(0, 3, (12, 30)) * (torch.rand(12, 30) < 0.3)
TARGET[4] = 0


def measured(output=None, names=NAMES, **given):
    """The values of one update."""
    metrics = MetricCollection(names, output or Ranking(num_items=30))
    metrics.update(**given)
    return {name: value.item() for name, value in metrics.compute().items()}


WHOLE = measured(scores=SCORES, target=TARGET)
SPARSE = Interactions.of(TARGET, "target")


@pytest.mark.parametrize(
    "target",
    [
        TARGET.numpy(),
        TARGET.to_sparse(),
        SPARSE,
        (SPARSE.offsets, SPARSE.items, SPARSE.grades),
        [{int(i): float(row[i]) for i in row.nonzero()} for row in TARGET],
    ],
    ids=["array", "sparse", "interactions", "packed", "lists"],
)
def test_every_form_of_target_has_the_same_values(target):
    """As the dense tensor has."""
    assert measured(scores=SCORES, target=target) == pytest.approx(WHOLE)


def test_factors_have_the_values_of_their_products():
    """Scores need never be held."""
    users, items = torch.randn(12, 4), torch.randn(30, 4)
    wanted = measured(scores=users @ items.T, target=TARGET)
    assert measured(user_factors=users, item_factors=items, target=TARGET) == pytest.approx(wanted)


def test_one_ranking_serves_all_metrics_and_cutoffs(monkeypatch):
    """One top-k a tile, of the largest k, however many metrics there are."""
    depths = []

    def counted(scores, k, found=batch_module.top_k):
        depths.append(k)
        return found(scores, k)

    monkeypatch.setattr(batch_module, "top_k", counted)
    measured(names=[*NAMES, "ndcg(gain=exp)@7", "recall(capped=true)@5"], scores=SCORES, target=TARGET)
    assert depths == [10]


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_scores_that_cannot_be_ordered_are_refused(bad):
    """Naming the user; what was measured before stays."""
    scores = SCORES.clone()
    scores[7, 2] = bad
    metrics = MetricCollection(NAMES, Ranking())
    metrics.update(scores=SCORES, target=TARGET)
    with pytest.raises(NonFiniteError, match="1 rows contain such values, the first is user 107"):
        metrics.update(scores=scores, target=TARGET, users=torch.arange(100, 112))
    with pytest.raises(NonFiniteError, match="the first is row 7"):
        metrics.update(scores=scores, target=TARGET)
    assert {name: value.item() for name, value in metrics.compute().items()} == WHOLE


@pytest.mark.parametrize("policy", ["propagate", "ignore"])
def test_other_policies_for_scores_that_cannot_be_ordered(policy):
    """Every value is nan with the reason, or the row is left out."""
    scores = SCORES.clone()
    scores[7, 2] = float("nan")
    metrics = MetricCollection(NAMES, Ranking(), non_finite=policy)
    metrics.update(scores=scores, target=TARGET)
    values = {name: value.item() for name, value in metrics.compute().items()}
    if policy == "propagate":
        assert "the first is row 7" in metrics.reasons["ndcg@3"] and values["ndcg@3"] != values["ndcg@3"]
    else:
        keep = torch.arange(12) != 7
        assert values == pytest.approx(measured(scores=SCORES[keep], target=TARGET[keep]))
        assert metrics.rows_left_out == 1


def test_users_without_a_relevant_item_are_left_out():
    """User 4 has none; where nobody has one there is no value."""
    keep = torch.arange(12) != 4
    assert measured(scores=SCORES[keep], target=TARGET[keep]) == pytest.approx(WHOLE)
    metrics = MetricCollection(["ndcg@3"], Ranking())
    metrics.update(scores=SCORES, target=torch.zeros_like(TARGET))
    assert metrics.compute()["ndcg@3"].isnan() and "no user" in metrics.reasons["ndcg@3"]


def test_a_user_whose_items_are_all_hidden_finds_nothing():
    """Zero, not nan: something is relevant and nothing is ranked."""
    nothing = torch.full((1, 30), -torch.inf)
    assert set(measured(scores=nothing, target=torch.ones(1, 30)).values()) == {0.0}


def test_more_places_than_items():
    """A short list is the whole ranking; precision still divides by k."""
    values = measured(
        Ranking(), ["precision@10", "recall@10"], scores=torch.tensor([[2.0, 1.0]]), target=torch.ones(1, 2)
    )
    assert values == {"precision@10": 0.2, "recall@10": 1.0}


def test_seen_items_are_masked_by_user():
    """In any order of users, as -inf would be; the caller's scores are not touched."""
    seen = torch.rand(12, 30) < 0.3
    before, order = SCORES.clone(), torch.randperm(12)
    for users in (torch.arange(12), order):
        wanted = measured(scores=SCORES[users].masked_fill(seen[users], -torch.inf), target=TARGET[users])
        found = measured(Ranking(seen=seen), scores=SCORES[users], target=TARGET[users], users=users)
        assert found == pytest.approx(wanted)
    assert torch.equal(SCORES, before)


def test_candidates_are_named_by_item():
    """Each row's own candidates; a relevant item that is none of them can only be missed."""
    items = torch.stack([torch.randperm(30)[:20] for _ in range(12)])
    items[:, 17:] = -1
    near = items.clamp(min=0)
    dense = torch.full((12, 30), -torch.inf).scatter(1, near[:, :17], SCORES.gather(1, near[:, :17]))
    flags = (TARGET > 0).long()
    wanted = measured(scores=dense, target=flags)
    found = measured(scores=SCORES.gather(1, near), items=items, target=Interactions.of(flags > 0, "target"))
    assert found == pytest.approx(wanted)


def test_rows_cut_in_any_way_have_equal_values():
    """Batches of one, of five, and all at once; tied scores included."""
    scores = SCORES.round()
    wanted = measured(scores=scores, target=TARGET)
    for size in (1, 5):
        metrics = MetricCollection(NAMES, Ranking())
        for part, target in zip(scores.split(size), TARGET.split(size), strict=True):
            metrics.update(scores=part, target=target)
        assert {name: value.item() for name, value in metrics.compute().items()} == pytest.approx(wanted)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"target": TARGET}, "a ranking needs scores=.* got none of them"),
        ({"scores": SCORES}, "an update needs target="),
        ({"scores": SCORES, "logits": SCORES, "target": TARGET}, "scores were passed twice"),
        ({"scores": SCORES, "probabilities": SCORES, "target": TARGET}, "a ranking needs scores"),
        ({"user_factors": SCORES, "target": TARGET}, "got user_factors"),
        ({"scores": SCORES[0], "target": TARGET[0]}, r"of shape \(users, items\)"),
        ({"scores": SCORES.long(), "target": TARGET}, "scores must be real numbers"),
        (
            {"scores": SCORES, "target": TARGET[:, 1:]},
            r"must have the same shape or be sparse; got \(12, 29\)",
        ),
        ({"scores": SCORES, "target": [[1]]}, "must have one entry per row, 12 by the scores; got 1"),
        ({"scores": SCORES, "target": TARGET, "items": TARGET[:2]}, "items must name the item of each score"),
        ({"scores": SCORES, "target": TARGET, "items": TARGET - 9}, r"items must be in 0\.\.29, or -1"),
        ({"scores": SCORES, "target": TARGET, "users": [1, 2]}, r"one per row, shape \(12,\)"),
    ],
)
def test_what_is_no_batch_of_rankings(given, text):
    """The message says what came and what to do."""
    with pytest.raises(MetricInputError, match=text):
        RankingBatch(Ranking(num_items=30), **given)


def test_seen_needs_users_that_it_knows():
    """Else nobody could say what to mask."""
    output = Ranking(seen=[[0]] * 12)
    with pytest.raises(MetricInputError, match="pass users=, the user of each row"):
        RankingBatch(output, scores=SCORES, target=TARGET)
    with pytest.raises(MetricInputError, match=r"seen has users 0\.\.11, got users from 1 to 12"):
        RankingBatch(output, scores=SCORES, target=TARGET, users=torch.arange(1, 13))


def test_a_seen_item_has_a_score():
    """One beyond the scores is refused; it would hide an item of the next user."""
    output = Ranking(seen=[[10], []])
    panel = MetricCollection(["recall@9"], output=output)
    with pytest.raises(
        MetricInputError, match=r"seen has items up to 10, but the scores are for items 0\.\.8"
    ):
        panel.update(scores=torch.rand(2, 9), target=[[0], [1]], users=[0, 1])


def test_a_seen_item_is_not_ranked_among_drawn_candidates_either():
    """A relevant item that was seen is never found, in full as in sampled evaluation."""
    given = {"scores": torch.rand(6, 9), "target": [[0]] * 6, "users": range(6), "names": ["recall@9"]}
    for drawn in (None, 2):
        found = measured(Ranking(seen=[[0]] * 6, num_negatives=drawn), **given)
        assert found["recall@9"] == 0


def test_drawn_candidates_are_of_a_catalogue_of_known_size():
    """The scores that they are drawn from show it."""
    found = measured(Ranking(num_negatives=3), ["catalog_coverage@20"], scores=SCORES, target=TARGET)
    assert 0 < found["catalog_coverage@20"] <= 1


def test_a_place_that_only_fills_up_is_never_relevant():
    """Whatever the target says there."""
    items = torch.tensor([[4, 2, -1]])
    found = measured(None, ["recall@3"], scores=torch.rand(1, 3), target=torch.ones(1, 3), items=items)
    assert found["recall@3"] == 1


@pytest.mark.parametrize("policy", ["error", "propagate", "ignore"])
@pytest.mark.parametrize("sign", [1, -1])
def test_factors_whose_products_are_too_large(sign, policy):
    """User 5 has an infinite score, though the factors are numbers: refused, nan, or left out."""
    users, items = torch.rand(12, 4), torch.rand(30, 4)
    users[5, 0], items[7, 0] = sign * 1e30, 1e20
    panel = MetricCollection(["ndcg@3", "mae(average=user)"], Ranking(), non_finite=policy)
    given = {"user_factors": users, "item_factors": items, "target": TARGET, "users": torch.arange(12)}
    told = r"that torch\.float32 can hold; 1 rows have one that is too large, the first is user 5"
    if policy == "error":
        with pytest.raises(NonFiniteError, match=told):
            panel.update(**given)
        return
    panel.update(**given)
    values = panel.compute()
    if policy == "propagate":
        assert values["ndcg@3"].isnan() and re.search(told, panel.reasons["ndcg@3"])
    else:
        assert values["mae(average=user)"].isfinite() and panel.rows_left_out == 1


@pytest.mark.parametrize("policy", ["error", "propagate", "ignore"])
def test_a_hidden_score_must_be_sound_too(policy):
    """A nan where an item was seen is a nan of the model: its row is named, or left out."""
    scores = SCORES.clone()
    scores[3, 2] = torch.nan
    panel = MetricCollection(["ndcg@3"], Ranking(seen=[[2]] * 12), non_finite=policy)
    given = {"scores": scores, "target": TARGET, "users": torch.arange(12)}
    if policy == "error":
        with pytest.raises(NonFiniteError, match="1 rows contain such values, the first is user 3"):
            panel.update(**given)
        return
    panel.update(**given)
    assert bool(panel.compute()["ndcg@3"].isnan()) is (policy == "propagate")


@pytest.mark.parametrize(
    ("items", "text"),
    [
        (torch.full((2, 3), 7), r"items must be in 0\.\.4"),
        (torch.rand(2, 3), "whole numbers of shape"),
        (torch.arange(3), "whole numbers of shape"),
    ],
)
def test_candidates_are_among_the_factors(items, text):
    """An item without factors is refused, as is what names no item."""
    with pytest.raises(MetricInputError, match=text):
        measured(
            Ranking(),
            user_factors=torch.rand(2, 4),
            item_factors=torch.rand(5, 4),
            items=items,
            target=[[0], [1]],
        )


def test_candidates_of_factors_are_filled_up_too():
    """With -1 or the size of the catalogue, which no factors belong to."""
    given = {"user_factors": torch.rand(2, 4), "item_factors": torch.rand(5, 4), "target": [[0], [3]]}
    found = [
        measured(
            Ranking(), ["mrr", "item_coverage@3"], items=torch.tensor([[0, 1, none], [2, 3, 4]]), **given
        )
        for none in (-1, 5)
    ]
    assert found[0] == found[1] and found[0]["item_coverage@3"] == 5


def test_items_are_counted_over_one_catalogue():
    """Batches of other widths are told to say which."""
    panel = MetricCollection(["item_coverage@3"], Ranking())
    panel.update(scores=torch.rand(2, 5), target=[[0], [1]])
    with pytest.raises(MetricInputError, match=r"it had 5 items, now 8. Pass Ranking\(num_items="):
        panel.update(scores=torch.rand(2, 8), target=[[0], [1]])


@pytest.mark.parametrize("name", ["auc", "gauc", "lauc@3", "partial_auc@3", "fall_out@3"])
def test_no_value_where_everything_is_relevant(name):
    """The reason says that there is nothing to compare with."""
    panel = MetricCollection([name], Ranking())
    panel.update(scores=SCORES, target=torch.ones_like(SCORES))
    assert panel.compute()[name].isnan()
    assert panel.reasons[name] == "no user has both a relevant and an irrelevant item"


@pytest.mark.parametrize(("users", "who"), [(None, "row 1"), ([7, 9], "row 1, that of user 9,")])
def test_an_item_stands_once_among_the_candidates_of_a_row(users, who):
    """A second time is refused, naming row and item, before anything is counted; -1 may stand often."""
    panel = MetricCollection(["recall@2", "item_coverage@2"], Ranking(num_items=9))
    good = torch.tensor([[4, -1, -1], [2, 8, 0]])
    given = {"scores": torch.rand(2, 3), "target": [[4], [8]], "users": users}
    panel.update(**given, items=good)
    before = panel.compute()
    text = f"once, with -1 as padding; {who} contains item 8 twice; keep one"
    with pytest.raises(MetricInputError, match=text):
        panel.update(**given, items=torch.tensor([[4, 9, 9], [8, 2, 8]]))
    assert panel.compute() == before and panel.rows == 2


GRADES = TARGET.float()
GRADES[7, 2] = torch.nan


@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf, 1e300])
@pytest.mark.parametrize("name", ["recall@3", "ndcg@3", "map", "item_coverage@3"])
def test_grades_of_a_matrix_are_finite(name, bad):
    """As those of a sparse target: in float32, naming the user, whatever the metrics read of them."""
    grades = GRADES.double()
    grades[7, 2] = bad
    panel = MetricCollection([name], Ranking())
    with pytest.raises(NonFiniteError, match=r"grades .* 1 rows contain such values, the first is user 107"):
        panel.update(scores=SCORES, target=grades, users=torch.arange(100, 112))
    assert panel.rows == 0


@pytest.mark.parametrize("policy", ["propagate", "ignore"])
def test_other_policies_for_grades_that_are_not_finite(policy):
    """Every value is nan with the reason, or the row is left out."""
    panel = MetricCollection(NAMES, Ranking(), non_finite=policy)
    panel.update(scores=SCORES, target=GRADES)
    values = {name: value.item() for name, value in panel.compute().items()}
    if policy == "propagate":
        assert "the first is row 7" in panel.reasons["recall@3"] and values["recall@3"] != values["recall@3"]
    else:
        keep = torch.arange(12) != 7
        assert values == pytest.approx(measured(scores=SCORES[keep], target=GRADES[keep]))
        assert panel.rows_left_out == 1


def sparse_forms(bad):
    """GRADES with another grade in the place of its nan, in each form of a sparse target."""
    grades = GRADES.double()
    grades[7, 2] = bad
    row, item = (grades != 0).nonzero().T
    values = grades[row, item]
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), torch.bincount(row, minlength=12).cumsum(0)])
    return {
        "mappings": [
            {j: grades[i, j].item() for j in range(30) if grades[i, j] != 0} for i in range(len(grades))
        ],
        "sparse": grades.to_sparse(),
        "scipy": scipy_sparse.csr_matrix(grades.numpy()),
        "packed": (offsets, item, values),
    }


@pytest.mark.parametrize("form", ["mappings", "sparse", "scipy", "packed"])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf, -torch.inf, 1e300])
def test_grades_of_a_sparse_target_follow_the_policy(form, bad):
    """As those of a matrix: refused naming the user, every value nan with the reason, or the row left out."""
    keep = torch.arange(12) != 7
    given = {"scores": SCORES, "target": sparse_forms(bad)[form], "users": torch.arange(100, 112)}
    told = r"grades .* finite numbers of float32.*; 1 rows contain such values, the first is user 107"
    panel = MetricCollection(NAMES, Ranking())
    with pytest.raises(NonFiniteError, match=told):
        panel.update(**given)
    assert panel.rows == 0
    for policy in ("propagate", "ignore"):
        panel = MetricCollection(NAMES, Ranking(), non_finite=policy)
        panel.update(**given)
        values = {name: value.item() for name, value in panel.compute().items()}
        if policy == "propagate":
            assert all(map(math.isnan, values.values())) and re.search(told, panel.reasons["ndcg@3"])
        else:
            assert values == pytest.approx(measured(scores=SCORES[keep], target=GRADES[keep]))
            assert panel.rows_left_out == 1


@pytest.mark.parametrize("form", ["matrix", "mappings"])
def test_grades_beside_drawn_negatives_follow_the_policy_too(form):
    """What is drawn for the other users does not depend on who is left out."""
    keep, users = torch.arange(12) != 7, torch.arange(12)
    target = GRADES if form == "matrix" else sparse_forms(torch.nan)["mappings"]
    output = Ranking(num_negatives=5, seed=3)
    with pytest.raises(NonFiniteError, match="1 rows contain such values, the first is user 7"):
        measured(output, scores=SCORES, target=target, users=users)
    panel = MetricCollection(NAMES, output, non_finite="ignore")
    panel.update(scores=SCORES, target=target, users=users)
    others = measured(output, scores=SCORES[keep], target=GRADES[keep], users=users[keep])
    assert {name: value.item() for name, value in panel.compute().items()} == pytest.approx(others)


def test_what_is_said_of_scores_counts_no_row_of_another_fault():
    """Rows with a nan score are told apart from those with a nan weight."""
    scores, weight = SCORES.clone(), torch.ones(12)
    scores[7, 2], weight[3] = torch.nan, torch.nan
    with pytest.raises(NonFiniteError, match="1 rows contain such values, the first is row 7"):
        measured(scores=scores, target=TARGET, sample_weight=weight)


def test_a_grade_where_a_place_only_fills_up_is_not_read():
    """Whatever stands there."""
    items, target = torch.tensor([[4, 2, -1]]), torch.tensor([[1.0, 0.0, torch.nan]])
    found = measured(None, ["recall@3"], scores=torch.rand(1, 3), target=target, items=items)
    assert found["recall@3"] == 1


@pytest.mark.parametrize(
    "given", [{"scores": SCORES[:0]}, {"user_factors": SCORES[:0], "item_factors": torch.eye(30)}]
)
def test_an_empty_batch_of_lists(given):
    """An empty list is one of whole numbers too; it adds nothing."""
    panel = MetricCollection(["ndcg@3"], Ranking(seen=[[0]]))
    panel.update(**given, target=[], users=[])
    assert panel.rows == 0 and panel.compute()["ndcg@3"].isnan()


@pytest.mark.parametrize(
    ("given", "text"),
    [
        (
            {"scores": torch.rand(1, 2), "target": torch.ones(1, 2) + 1j},
            "grades .* real numbers, got torch.complex64",
        ),
        (
            {"user_factors": torch.ones(1, 2) + 1j, "item_factors": torch.rand(3, 2), "target": [[0]]},
            "factors must be real numbers, got torch.complex64 and torch.float32",
        ),
    ],
)
def test_complex_numbers_are_refused(given, text):
    """By name; torch's own error said nothing of the argument."""
    with pytest.raises(MetricInputError, match=text):
        measured(Ranking(), ["ndcg@1"], **given)
