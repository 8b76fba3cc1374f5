"""Ranking metrics of one's own: the four base classes, the blocks they ask for, one top-k for all."""

from __future__ import annotations

import copy
import pickle
from typing import ClassVar

import pytest
import torch
from ray import cloudpickle

from hpometrics import (
    MAXIMIZE,
    MINIMIZE,
    RANKING,
    BaseMetric,
    Block,
    ListMetric,
    MetricBlock,
    MetricCollection,
    Ranking,
    RatingMetric,
    TopKMetric,
    UserAverageTopKMetric,
    get_metric,
    register_metric,
)
from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.retrieval import ranking_batch as batch_module
from hpometrics.testing import LawBroken, check_no_hits, subjects_of

SCORES = torch.tensor([[0.9, 0.1, 0.5, 0.3], [0.2, 0.8, 0.4, 0.6]])
TARGET = torch.tensor([[1, 0, 2, 0], [0, 0, 1, 0]])


class Blocks(MetricBlock):
    """Blocks of a third party, beside the built-in ones."""

    SPREAD = Block("spread", lambda tile, k: tile.preds.amax(1) - tile.preds.amin(1))


class Asking(UserAverageTopKMetric):
    """Keeps what it is given."""

    direction = MAXIMIZE
    _REQUIRED_COMPONENTS: ClassVar = {
        MetricBlock.BINARY_RELEVANCE, MetricBlock.DISCOUNTED_RELEVANCE, MetricBlock.VALID_USERS,
        MetricBlock.VALID_USERS_MASK, MetricBlock.TOP_K_INDICES, MetricBlock.TOP_K_VALUES,
        MetricBlock.TOP_K_BINARY_RELEVANCE, MetricBlock.TOP_K_DISCOUNTED_RELEVANCE, Blocks.SPREAD,
    }  # fmt: skip

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        """Note everything, and count hits."""
        self.given = {"preds": preds, "target": target, "top_k_rel": top_k_rel, **kwargs}
        return top_k_rel.sum(1)


class FirstRank(TopKMetric):
    """Rank of the first relevant item of the last tile, measured by `update` on its own."""

    direction = MINIMIZE
    blocks = (MetricBlock.TOP_K_BINARY_RELEVANCE,)

    def __init__(self, k, **kwargs):
        super().__init__(k, **kwargs)
        self.add_state("total", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("users", torch.zeros((), dtype=torch.int64), dist_reduce_fx="sum")

    def update(self, preds, target, **kwargs):
        """Add the place of the first hit, k + 1 where there is none."""
        hits = kwargs[f"top_{self.k}_binary_relevance"]
        places = torch.where(hits.any(1), hits.argmax(1) + 1, self.k + 1)
        self.total += places.sum()
        self.users += len(preds)

    def compute(self):
        """Divide once."""
        return self.total / self.users


class Squared(RatingMetric):
    """Squared error against ratings."""

    direction = MINIMIZE

    def compute_errors(self, preds, target):
        """Square the gaps."""
        return (preds - target).square()


def with_output(metric, output=None):
    """The metric, ready for rankings."""
    metric.output = output or Ranking()
    return metric


def test_blocks_have_the_shapes_of_the_guide():
    """Dense blocks are rows x items, those of lists rows x k; `VALID_USERS` is a count, a mask beside it."""
    metric = with_output(Asking(k=2))
    metric.update(SCORES, TARGET)
    shapes = {name: tuple(value.shape) for name, value in metric.given.items() if value is not None}
    assert shapes == {
        "preds": (2, 4), "target": (2, 4), "top_k_rel": (2, 2), "binary_relevance": (2, 4),
        "discounted_relevance": (2, 4), "valid_users": (), "valid_users_mask": (2,), "top_2_indices": (2, 2),
        "top_2_values": (2, 2), "top_2_binary_relevance": (2, 2), "top_2_discounted_relevance": (2, 2),
        "spread": (2,),
    }  # fmt: skip
    assert metric.given["discounted_relevance"].tolist() == [[3, 0, 7, 0], [0, 0, 3, 0]]
    assert metric.given["top_2_indices"].tolist() == [[0, 2], [1, 3]]
    assert metric.given["top_2_discounted_relevance"].tolist() == [[3, 7], [0, 0]]
    assert metric.given["valid_users"].item() == 2
    assert metric.compute().item() == 1.0


def test_blocks_are_iterated_over_and_called_by_value():
    """As with an enum of texts: each block comes by its value, is that text, and is copied as it is."""
    values = [block.value for block in MetricBlock]
    assert len(set(values)) == len(MetricBlock) == 8 and "top_k_values" in values
    for block in Blocks:
        assert Blocks(block.value) is Blocks(block) is Blocks(block.name) is block
        assert block == block.value and hash(block) == hash(block.value) and f"{block}" == block.value
    assert {*Blocks} - {*MetricBlock} == {Blocks.SPREAD}
    assert copy.deepcopy(MetricBlock.VALID_USERS) == MetricBlock.VALID_USERS
    assert Block("spread", len) != Blocks.SPREAD
    with pytest.raises(ValueError, match=r"'spread' is not a block of MetricBlock; choose from binary_rel"):
        MetricBlock("spread")


def test_blocks_are_indexed_and_pickled_by_name():
    """As the members of an enum, those of an own namespace too; what is not importable travels by value."""
    for namespace in (MetricBlock, Blocks):
        for name, block in namespace.__members__.items():
            assert namespace[name] is getattr(namespace, name) is block
            assert pickle.loads(pickle.dumps(block)) is copy.deepcopy(block) is block
        assert list(namespace.__members__.values()) == list(namespace)
    with pytest.raises(KeyError, match="'SPREAD' is not a block of MetricBlock; choose from BINARY_REL"):
        MetricBlock["SPREAD"]

    class Local(MetricBlock):
        LENGTH = Block("length", lambda tile, k: len(tile.preds))

    there, length = pickle.loads(cloudpickle.dumps((Local, Local.LENGTH)))
    assert there["LENGTH"] == length == "length" and there["VALID_USERS"] is MetricBlock.VALID_USERS


def test_an_error_of_ratings_needs_no_average(registry):
    """A subclass averages by user, as WarpRec's does, alone and by its registered name: (4 + 1 / 2) / 2."""
    register_metric("squared_gap", [RANKING])(Squared)
    batch = torch.tensor([[3.0, 1.0], [2.0, 4.0]]), torch.tensor([[1, 0], [2, 3]])
    for metric in (Squared(), get_metric("squared_gap", "ranking"), Squared(average="user")):
        metric.update(*batch)
        assert metric.compute().item() == 2.25


def test_one_top_k_serves_all_metrics_and_cut_offs(monkeypatch):
    """Named metrics and metrics of one's own at five cut-offs take one top-k per tile, of the largest k."""
    asked = []
    original = batch_module.top_k
    monkeypatch.setattr(batch_module, "top_k", lambda scores, k: asked.append(k) or original(scores, k))
    names = [f"{name}@{k}" for name in ("precision", "recall", "ndcg") for k in (1, 2, 3)]
    panel = MetricCollection([*names, Asking(k=4), FirstRank(k=2)], output=Ranking())
    panel.update(scores=SCORES, target=TARGET)
    panel.update(scores=SCORES, target=TARGET)
    panel.compute()
    assert asked == [4, 4]


def test_a_block_is_made_once_for_all_that_ask(monkeypatch):
    """Two metrics that ask for the same block of the same tile are given the same tensor."""
    made = []
    block = Block("counted", lambda tile, k: made.append(k) or tile.preds.sum())

    class One(UserAverageTopKMetric):
        direction = MAXIMIZE
        blocks = (block,)

        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return top_k_rel.sum(1)

    class Two(One):
        pass

    MetricCollection([One(k=2), Two(k=2)], output=Ranking()).update(scores=SCORES, target=TARGET)
    assert made == [2]


def test_a_metric_that_measures_on_its_own():
    """The first user's first item is relevant; the second user has none among the first two."""
    metric = with_output(FirstRank(k=2))
    metric.update(SCORES, TARGET)
    assert metric.compute().item() == (1 + 3) / 2


def test_ratings_of_users_and_of_all():
    """Errors .01 and 2.25 of the first user, .36 of the second: means 1.13 and .36, or all three."""
    by_user, pooled = with_output(Squared(average="user")), with_output(Squared(average="pooled"))
    for metric in (by_user, pooled):
        metric.update(SCORES, TARGET)
    assert by_user.compute().item() == pytest.approx((1.13 + 0.36) / 2)
    assert pooled.compute().item() == pytest.approx(2.62 / 3)


def test_a_base_metric_sees_tiles():
    """Without a cut-off, `update` is given dense scores and grades, and who the users are."""

    class Width(BaseMetric):
        direction = MAXIMIZE

        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")

        def update(self, preds, target, users=None, items=None):
            assert target.tolist() == TARGET.tolist() and users.tolist() == [7, 9] and items is None
            self.total += preds.shape[1]

        def compute(self):
            return self.total

    metric = with_output(Width())
    metric.update(SCORES, target=TARGET.to_sparse(), users=[7, 9])
    assert metric.compute().item() == 4


def test_one_that_was_never_registered_measures_rankings():
    """On its own or alone in a collection, its output need not be said; that of a collection still counts."""
    alone, panel = FirstRank(k=2), MetricCollection([FirstRank(k=2)])
    alone.update(SCORES, TARGET)
    panel.update(scores=SCORES, target=TARGET)
    assert alone.compute() == panel.compute()["FirstRank@2"] == (1 + 3) / 2
    assert MetricCollection([FirstRank(k=2)], output=Ranking(num_items=4)).output == Ranking(num_items=4)


def test_what_is_no_block_is_refused_by_name():
    """The message lists the blocks there are."""

    class Wrong(Asking):
        _REQUIRED_COMPONENTS: ClassVar = {"top_k_relevance"}

    with pytest.raises(
        MetricInputError, match=r"'top_k_relevance' is not a metric block; choose from .*top_k_indices"
    ):
        with_output(Wrong(k=2)).update(SCORES, TARGET)


@pytest.mark.parametrize("k", [0, -1, 2.0, True, None])
def test_a_k_is_a_whole_number(k):
    """The message shows what came."""
    with pytest.raises(MetricInputError, match=f"k must be a whole number of at least 1, got {k}"):
        Asking(k=k)


def test_one_value_per_user_is_wanted():
    """A metric that gives another shape is refused, and nothing is counted."""

    class Flat(Asking):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return top_k_rel

    metric = with_output(Flat(k=2))
    with pytest.raises(MetricInputError, match=r"one value per user, shape \(2,\); got \(2, 2\)"):
        metric.update(SCORES, TARGET)
    assert metric.compute().isnan()


@pytest.mark.parametrize(("given", "named"), [(None, "NoneType"), ([0.0, 1.0], "list")])
def test_a_tensor_of_values_is_wanted(given, named):
    """The message says what came in its place."""

    class Other(Asking):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return given

    with pytest.raises(
        MetricInputError, match=rf"a tensor with one value per user, shape \(2,\); got {named}"
    ):
        with_output(Other(k=2)).update(SCORES, TARGET)


def test_scores_are_computed_of_what_the_signature_names():
    """As an `update` of one's own, `compute_scores` need not take what it does not read."""

    class Hits(UserAverageTopKMetric):
        direction = MAXIMIZE
        blocks = "valid_users"

        def compute_scores(self, preds, target, top_k_rel):
            return top_k_rel.sum(1)

    class Best(Hits):
        def compute_scores(self, preds, target, top_k_rel, valid_users, users):
            assert (valid_users, users) == (2, None)
            return preds.amax(1)

    for cls, value in ((Hits, 1.0), (Best, 0.85)):
        metric = with_output(cls(k=2))
        metric.update(SCORES, TARGET)
        assert metric.compute().item() == pytest.approx(value)


def test_a_metric_of_ones_own_stands_at_several_cut_offs():
    """Unregistered, it is called by its class and k; a name that is set stays."""

    class Hits(UserAverageTopKMetric):
        direction = MAXIMIZE

        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return top_k_rel.sum(1)

    panel = MetricCollection([Hits(k=1), Hits(k=3)], output=Ranking())
    panel.update(scores=SCORES, target=TARGET)
    assert {name: value.item() for name, value in panel.compute().items()} == {"Hits@1": 0.5, "Hits@3": 1.5}
    one = Hits(k=2)
    one.name = "found"
    assert one.name == "found"


class Constant(ListMetric):
    """A number for every user."""

    direction = MAXIMIZE

    def __init__(self, k, number):
        super().__init__(k)
        self.number = number

    def values(self, cut):
        return torch.full_like(cut.found, self.number, dtype=torch.float64)


@pytest.mark.parametrize("named", ["recall@2", "recall", "half"])
def test_a_name_of_ones_own_is_no_formula_of_others(named):
    """Whatever it has in common with that of a built-in metric, or of another use of the class."""
    metrics = [Constant(2, 0.5), Constant(3, 0.25)]
    for metric, name in zip(metrics, (named, "recall@3"), strict=True):
        metric.name = name
    panel = MetricCollection(["recall@1", *metrics], output=Ranking())
    panel.update(scores=SCORES, target=TARGET)
    values = {name: value.item() for name, value in panel.compute().items()}
    expected = get_metric("recall@1", Ranking())(SCORES, TARGET).item()
    assert values == {"recall@1": expected, named: 0.5, "recall@3": 0.25}


def test_one_formula_is_of_one_class(registry):
    """Else the metrics of one class would be measured by the formula of the other."""

    @registry.register_metric("recall", [RANKING], override=True)
    class Found(ListMetric):
        direction = MAXIMIZE

        def values(self, cut):
            return cut.found

    told = (
        "two formulas are named 'recall', of Found and RankingRecall; give one of the metrics another .name"
    )
    with pytest.raises(MetricInputError, match=told):
        MetricCollection(["recall@2", "recall_at_precision(min_precision=0.5)@2"], output=Ranking())


class Places(ListMetric):
    """The length of a list, which no missing hit brings to 0."""

    direction = MAXIMIZE

    def values(self, cut):
        return cut.lengths


@pytest.mark.parametrize("k", [1, 3])
def test_a_user_without_a_relevant_item_is_0_only_where_no_hit_is(k, registry):
    """The law catches a metric that says nothing of it; `counts_empty` leaves such users out."""
    registry.register_metric("places", [RANKING])(Places)
    with pytest.raises(LawBroken, match="places@2-ranking: users without a relevant item"):
        check_no_hits(*subjects_of("places", RANKING))
    served = type("Served", (Places,), {"counts_empty": False})
    registry.register_metric("places_of_served", [RANKING])(served)
    check_no_hits(*subjects_of("places_of_served", RANKING))
    metric = get_metric(f"places_of_served@{k}", Ranking(empty="neg"))
    metric.update(SCORES, [[0], []])
    assert metric.compute().item() == k
