"""What an `update` of one's own is given: scores first, all else as its signature asks; WarpRec's form."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor

from hpometrics import MAXIMIZE, BaseMetric, MetricBlock, MetricCollection, Ranking, TopKMetric
from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.registry.facts import params_of
from hpometrics.metrics.retrieval.base import own_value

SCORES = torch.tensor([[0.9, 0.1, 0.5, 0.3], [0.2, 0.8, 0.4, 0.6]])
TARGET = torch.tensor([[1, 0, 2, 0], [0, 0, 1, 0]])
USERS = torch.tensor([3, 1])


class Noting(BaseMetric):
    """Keeps what it is given; a subclass says in which form."""

    direction = MAXIMIZE

    def note(self, **given):
        """Keep it, with one count."""
        self.given = given

    def compute(self):
        """Nothing of interest."""
        return torch.tensor(0.0)


class OnlyKeywords(Noting):
    """WarpRec's form: scores, and any keyword."""

    _REQUIRED_COMPONENTS: ClassVar = {MetricBlock.BINARY_RELEVANCE}

    def update(self, preds, **kwargs):
        """Note all."""
        self.note(preds=preds, **kwargs)


class Users(Noting):
    """WarpRec's other form, whose second parameter is no target."""

    def update(self, preds, user_indices, **kwargs):
        """Note all."""
        self.note(preds=preds, user_indices=user_indices, **kwargs)


class Named(Noting):
    """All by name, and no more than that."""

    def update(self, *, target, preds, items=None):
        """Note all."""
        self.note(preds=preds, target=target, items=items)


class Plain(Noting):
    """Two parameters under names of its own."""

    def update(self, scores, grades):
        """Note both."""
        self.note(preds=scores, target=grades)


class Places(Noting):
    """Whatever comes by place."""

    def update(self, *args):
        """Note both."""
        self.note(preds=args[0], target=args[1])


class UserCoverage(TopKMetric):
    """WarpRec's UserCoverage to the letter, but for its direction."""

    direction = MAXIMIZE
    _REQUIRED_COMPONENTS: ClassVar[set[Any]] = {
        MetricBlock.BINARY_RELEVANCE,
        MetricBlock.VALID_USERS,
    }

    users: Tensor

    def __init__(self, k: int, dist_sync_on_step: bool = False, **kwargs: Any):
        super().__init__(k, dist_sync_on_step)
        self.add_state("users", default=torch.tensor(0.0), dist_reduce_fx="sum")

    def update(self, preds: Tensor, **kwargs: Any):
        """Count the users of a batch."""
        users = kwargs.get("valid_users")

        # Count only users with at least one interaction
        self.users += users.sum()

    def compute(self):
        """Give it by name."""
        return {self.name: int(self.users.item())}


class ItemCoverage(TopKMetric):
    """WarpRec's ItemCoverage to the letter, but for its direction."""

    direction = MAXIMIZE
    _REQUIRED_COMPONENTS: ClassVar[set[Any]] = {MetricBlock.TOP_K_INDICES}

    item_counts: Tensor

    def __init__(
        self,
        k: int,
        num_items: int,
        dist_sync_on_step: bool = False,
        **kwargs: Any,
    ):
        super().__init__(k, dist_sync_on_step)
        self.add_state(
            "item_counts", default=torch.zeros(num_items), dist_reduce_fx="sum"
        )  # fmt: skip

    def update(self, preds: Tensor, **kwargs: Any):
        """Count the items of the lists."""
        # Retrieve top_k_indices from kwargs
        top_k_indices = kwargs.get(f"top_{self.k}_indices")

        # Remap top_k_indices to global
        item_indices = kwargs.get("item_indices")
        top_k_indices = self.remap_indices(top_k_indices, item_indices)

        # Flatten the indices to count occurrences across the entire batch
        flat_indices = top_k_indices.flatten()

        # Update counts
        batch_counts = torch.bincount(flat_indices, minlength=len(self.item_counts))
        self.item_counts += batch_counts.to(self.item_counts)

    def compute(self):
        """Give it by name."""
        item_coverage = (self.item_counts > 0).sum().item()
        return {self.name: item_coverage}


def updated(metric: BaseMetric, **more: Any) -> Any:
    """The metric after one batch, of its own or of a collection."""
    metric.output = Ranking(num_items=9 if "items" in more else None)
    metric.update(SCORES, TARGET, **more)
    return metric


@pytest.mark.parametrize("kind", [OnlyKeywords, Named, Plain, Places])
def test_scores_and_grades_reach_every_form(kind):
    """By place or by name, whatever they are called."""
    given = updated(kind()).given
    assert given["preds"].equal(SCORES) and given["target"].equal(TARGET.float())


def test_any_keyword_gets_everything():
    """Both spellings of who and what, the target under both its names, and the blocks."""
    given = updated(OnlyKeywords(), users=USERS).given
    assert sorted(given) == [
        "binary_relevance", "ground", "item_indices", "items", "preds", "target", "user_indices", "users",
    ]  # fmt: skip
    assert given["ground"] is given["target"] and given["user_indices"].equal(USERS)


def test_users_in_the_second_place_come_by_name():
    """They are no target, and what cannot do without them says so."""
    given = updated(Users(), users=USERS).given
    assert given["user_indices"].equal(USERS) and given["target"].equal(TARGET.float())
    with pytest.raises(MetricInputError, match="needs user_indices; pass users="):
        updated(Users())


def test_weights_reach_an_update_that_takes_them():
    """A tile has those of its rows."""

    class Weighing(Noting):
        def update(self, preds, target, sample_weight=None):
            self.note(weight=sample_weight)

    weight = torch.tensor([0.0, 2.0])
    assert updated(Weighing(), sample_weight=weight).given["weight"].tolist() == [0.0, 2.0]


def test_the_form_changes_nothing_about_the_door():
    """Scores and target go in by place or by name, through the gate; a misshapen batch is refused."""
    metric = OnlyKeywords()
    metric.output = Ranking()
    metric.update(scores=SCORES, target=TARGET)
    assert metric.given["preds"].equal(SCORES)
    with pytest.raises(MetricInputError):
        metric.update(SCORES, TARGET[:1])


def test_metrics_copied_from_warprec():
    """Both users of both batches have a relevant item; items 0 and 1 come first."""
    panel = MetricCollection([UserCoverage(k=2), ItemCoverage(k=1, num_items=4)], output=Ranking())
    for _ in range(2):
        panel.update(scores=SCORES, target=TARGET)
    values = {name: value.item() for name, value in panel.compute().items()}
    assert values == {"UserCoverage@2": 4.0, "ItemCoverage@1": 2.0}


def test_candidates_are_mapped_to_their_items():
    """The first columns of the lists are items 7 and 8; a place behind the end of a list is no item."""
    metric = updated(ItemCoverage(k=1, num_items=9), items=torch.tensor([[7, 1, 2, 3], [0, 8, 1, 2]]))
    assert metric.item_counts.nonzero().flatten().tolist() == [7, 8]
    mapped = metric.remap_indices(torch.tensor([[1, -1]]), torch.tensor([[4, 5]]))
    assert mapped.tolist() == [[5, -1]]


def test_a_value_by_name():
    """The one of its own name counts, or the only one; of users the mean over those who have one."""
    assert own_value({"a": 2, "a_of_group": 3}, "a").item() == 2
    assert own_value({"other": torch.tensor([1.0, torch.nan, 2.0])}, "a").item() == 1.5
    with pytest.raises(MetricInputError, match=r"a: compute must return one value, .* got 'b', 'c'"):
        own_value({"b": 1, "c": 2}, "a")


def test_synchronization_is_no_parameter_of_a_name():
    """It belongs to torchmetrics; what a name tells is k."""
    assert [param.name for param in params_of(UserCoverage)] == ["k"]
