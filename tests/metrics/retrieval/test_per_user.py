from __future__ import annotations

import io
import pickle

import pytest
import torch

from hpometrics import MetricCollection, Ranking, get_metric
from hpometrics.direction import MAXIMIZE
from hpometrics.exceptions import MetricInputError, StateError
from hpometrics.metrics.retrieval.base import UserAverageTopKMetric
from hpometrics.metrics.retrieval.per_user import PerUser, quantile_groups
from hpometrics.metrics.statistics.user_values import UserValues

NAMES = ["precision@2", "precision@5", "ndcg@5", "mae(average=user)", "f_score@5"]
USERS, ITEMS = 40, 12


def drawn(seed: int = 0) -> dict[str, torch.Tensor]:
    """Users in any order, some of them without a relevant item."""
    random = torch.Generator().manual_seed(seed)
    scores = torch.rand(USERS, ITEMS, generator=random)
    target = (torch.rand(USERS, ITEMS, generator=random) < 0.3).long()
    target[[4, 9]] = 0
    return {"scores": scores, "target": target, "users": torch.randperm(USERS, generator=random)}


def rows(batch, which) -> dict[str, torch.Tensor]:
    """Some rows of a batch."""
    return {name: value[which] for name, value in batch.items()}


def fed(*batches, names=NAMES) -> MetricCollection:
    """A collection that keeps values by user, and has measured."""
    panel = MetricCollection(names, output=Ranking(per_user=True))
    for batch in batches:
        panel.update(**batch)
    return panel


def assert_same(one: PerUser, other: PerUser) -> None:
    """Equal to the last bit."""
    assert list(one) == list(other)
    for name in one:
        for mine, theirs in zip(one[name], other[name], strict=True):
            assert torch.equal(mine.nan_to_num(-1), theirs.nan_to_num(-1))


def test_each_user_has_the_value_of_its_own_row():
    """The value of a user is what the metric gives that row alone; nan where nothing is relevant."""
    batch = drawn()
    found = fed(batch).per_user()
    for name in NAMES:
        users, values = found[name]
        assert users.tolist() == list(range(USERS)) and values.dtype is torch.float32
        for row in range(USERS):
            alone = get_metric(name, Ranking())
            alone.update(**rows(batch, slice(row, row + 1)))
            own = values[batch["users"][row]].item()
            assert own == pytest.approx(alone.compute().item(), rel=1e-6, nan_ok=True)
        assert values.isnan().sum() == (batch["target"].sum(1) == 0).sum() >= 2


def test_users_have_strata_where_the_output_tells_them():
    """Groups by number; thirds by the mean popularity of what is relevant, the same in parts and weighted."""
    batch, popularity = drawn(), torch.arange(ITEMS).double()
    output = Ranking(per_user=True, user_groups=torch.arange(USERS - 1) % 3, item_popularity=popularity)
    panels = [MetricCollection(NAMES, output=output) for _ in range(2)]
    panels[0].update(**batch)
    for part in (slice(0, 15), slice(15, None)):
        panels[1].update(**rows(batch, part), sample_weight=torch.full((USERS,), 2.0)[part])
    liked = batch["target"][batch["users"].argsort()].double()
    expected = quantile_groups(liked @ popularity / liked.sum(1))
    for panel in panels:
        strata = panel.per_user().strata
        assert list(strata) == ["group", "popularity"]
        assert strata["group"][1].tolist() == [*(user % 3 for user in range(USERS - 1)), -1]
        assert strata["popularity"][0].tolist() == list(range(USERS))
        assert strata["popularity"][1].tolist() == expected.tolist()
    assert (expected == -1).sum() >= 2


def test_documents_without_a_number_have_no_popularity():
    """Users are told apart by nothing then, and are in no third."""
    panel = MetricCollection(["mrr"], output=Ranking(per_user=True, item_popularity=[1.0, 2.0]))
    scores, target = torch.tensor([0.9, 0.5]), torch.tensor([0, 1])
    panel.update(scores=scores, target=target, queries=torch.tensor([4, 4]))
    assert panel.per_user().strata["popularity"][1].tolist() == [-1]


def test_the_mean_is_not_touched():
    """The values of the metrics are those of a collection that keeps no users, and the mean of the users'."""
    batch = drawn()
    panel, plain = fed(batch), MetricCollection(NAMES, output=Ranking())
    plain.update(**batch)
    assert panel.compute() == plain.compute()
    for name, (_, values) in panel.per_user().items():
        assert values.nanmean().item() == pytest.approx(panel.compute()[name].item(), rel=1e-6)


@pytest.mark.parametrize("name", ["auc", "mae(average=pooled)"])
def test_a_mean_in_which_users_do_not_count_alike_keeps_none(name):
    """Its value is not the mean of the users', by which a comparison could turn it around."""
    panel = fed(drawn(), names=[name, "gauc"])
    assert list(panel.per_user()) == ["gauc"]
    plain = get_metric(name, Ranking())
    plain.update(**drawn())
    assert panel.compute()[name] == plain.compute()


def test_parts_merge_to_the_same_values():
    """Batches, merged shards in any order, saved and loaded states: the same to the last bit."""
    batch = drawn()
    whole = fed(batch).per_user()
    first, second = rows(batch, slice(0, 15)), rows(batch, slice(15, None))
    assert_same(fed(first, second).per_user(), whole)
    merged = fed(second)
    merged.merge(fed(first))
    assert_same(merged.per_user(), whole)
    file = io.BytesIO()
    torch.save(fed(first).state_dict(), file)
    file.seek(0)
    loaded = fed(second)
    loaded.load_state_dict(torch.load(file, weights_only=True))
    loaded.update(**second)
    assert_same(loaded.per_user(), whole)
    assert_same(pickle.loads(pickle.dumps(loaded)).per_user(), whole)


def test_a_user_who_comes_twice_has_the_mean():
    """Weights count; a row of weight 0 and one without a value do not."""
    scores = torch.tensor([[2.0, 1], [1, 2], [2, 1], [2, 1], [1, 2]])
    target = torch.tensor([[1, 0], [1, 0], [0, 0], [1, 0], [1, 0]])
    panel = fed(names=["precision@1"])
    weight = torch.tensor([1.0, 3.0, 1.0, 2.0, 0.0])
    panel.update(scores=scores, target=target, users=[7, 7, 7, 2, 2], sample_weight=weight)
    users, values = panel.per_user()["precision@1"]
    assert users.tolist() == [2, 7] and values.tolist() == [1.0, 0.25]


def test_users_are_kept_once_for_all_cutoffs_of_a_formula():
    """Two cut-offs share one statistic, whose rows hold one number of a user and a float32 per cut-off."""
    panel = fed(drawn(), names=["ndcg@1", "ndcg@3", "ndcg@5"])
    (statistic,) = panel.statistics
    state = statistic.state()
    assert isinstance(statistic, UserValues)
    assert state["users"].shape == (USERS,)
    assert state["values"].shape == (USERS, 3) and state["values"].dtype is torch.float32


def test_a_metric_alone_keeps_them_too():
    """Standing alone, after reset, loaded and merged; one of one's own as well."""

    class Own(UserAverageTopKMetric):
        """Hits."""

        direction = MAXIMIZE

        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            """Count."""
            return top_k_rel.sum(dim=1)

    batch = drawn()
    for made in (lambda: get_metric("ndcg@5", Ranking(per_user=True)), lambda: Own(k=3)):
        metric, twin = made(), made()
        metric.output = twin.output = Ranking(per_user=True)
        metric.update(**batch)
        metric.reset()
        metric.update(**rows(batch, slice(0, 20)))
        twin.load_state_dict(metric.state_dict())
        metric.update(**rows(batch, slice(20, None)))
        other = made()
        other.output = Ranking(per_user=True)
        other.update(**rows(batch, slice(20, None)))
        twin.merge(other)
        assert_same(metric.per_user(), twin.per_user())
        assert len(metric.per_user()[metric.name][0]) == USERS


def test_what_is_missing_is_said():
    """Users must be named; nothing is saved unless asked for; a state of means is no state of values."""
    batch = drawn()
    with pytest.raises(MetricInputError, match="values by user need users="):
        fed(names=["ndcg@5"]).update(scores=batch["scores"], target=batch["target"])
    plain = MetricCollection(["ndcg@5"], output=Ranking())
    plain.update(**batch)
    with pytest.raises(MetricInputError, match=r"ndcg@5: no values by user are stored.*per_user=True"):
        plain.per_user()
    with pytest.raises(MetricInputError, match=r"mae\(average=pooled\): no values by user are stored"):
        fed(batch, names=["mae(average=pooled)"]).per_user()
    with pytest.raises(KeyError, match=r"no values of 'mrr@5' by user; the stored metrics are precision@2"):
        fed(batch).per_user()["mrr@5"]
    with pytest.raises(StateError, match="does not match"):
        fed(names=["ndcg@5"]).load_state_dict(plain.state_dict())


def test_a_table_is_written_and_read(tmp_path):
    """A row per user, a column per metric, an empty place where a metric has not seen the user."""
    found = fed(drawn()).per_user()
    found.to_csv(tmp_path / "users.csv")
    assert_same(PerUser.read_csv(tmp_path / "users.csv"), found)
    uneven = PerUser(
        {
            "a": (torch.tensor([1, 2]), torch.tensor([0.5, torch.nan])),
            "b": (torch.tensor([2]), torch.tensor([0.1])),
        }
    )
    uneven.to_csv(tmp_path / "uneven.csv")
    lines = (tmp_path / "uneven.csv").read_text().splitlines()
    assert lines[:2] == ["user,a,b", "1,0.5,"] and lines[2].startswith("2,nan,0.1")
    assert_same(PerUser.read_csv(tmp_path / "uneven.csv"), uneven)


def test_a_formula_at_other_cut_offs_stands_beside():
    """`recall_at_precision` measures precision at every length, which `precision@3` keeps by user at one."""
    names = ["precision@3", "recall@3", "recall_at_precision(min_precision=0.3)@3"]
    alone = fed(drawn(), names=names[2:]).compute()[names[2]]
    torch.testing.assert_close(fed(drawn(), names=names).compute()[names[2]], alone)


def test_a_table_of_nobody_is_written_and_read(tmp_path):
    """Of metrics that have met no user yet, strata included."""
    output = Ranking(per_user=True, user_groups=[0, 1], item_popularity=[1.0, 2.0])
    found = MetricCollection(["ndcg@5", "map"], output=output).per_user()
    for name in ("users.npz", "users.csv"):
        getattr(found, "to_" + name[-3:])(tmp_path / name)
        read = PerUser.read(tmp_path / name)
        assert_same(read, found)
        assert list(read.strata) == list(found.strata) == ["group"]


def test_strata_of_any_number(tmp_path):
    """Written in as many bytes as the largest needs, -1 for none."""
    users, values = torch.arange(3), torch.rand(3)
    for most in (0, 2**7, 2**31, 2**40):
        strata = {"group": (users, torch.tensor([-1, 0, most]))}
        PerUser({"ndcg@5": (users, values)}, strata).to_npz(tmp_path / "users.npz")
        assert PerUser.read(tmp_path / "users.npz").strata["group"][1].tolist() == [-1, 0, most]
