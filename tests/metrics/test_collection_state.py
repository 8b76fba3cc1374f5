"""A collection merges, copies, saves, resets: whatever its metrics keep, by whichever way."""

from __future__ import annotations

import copy
import io
import itertools
import pickle

import pytest
import torch
from sample_collections import KINDS, TARGET, collection, fed, values
from sample_metrics import OwnGap, ReducedGap, ScaledGap
from torchmetrics.regression import MeanSquaredError, PearsonCorrCoef

from hpometrics.exceptions import HpometricsError, StateError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import NUMBER, PREDICTIONS, Binary, Category, Number, Ranking, Vector
from hpometrics.metrics.metric import Metric
from hpometrics.metrics.registry.register import get_metric
from hpometrics.testing import draw

pytestmark = pytest.mark.usefixtures("samples")


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_merging_is_measuring_together(order):
    """Three collections with 3, 0 and 1 rows merge to the same values in any order; the merged ones stay."""
    parts = [fed(collection(*KINDS)), collection(*KINDS), fed(collection(*KINDS), [7.0], [0.0])]
    first, *others = [parts[i] for i in order]
    for other in others:
        first.merge(other)
    assert values(first) == dict.fromkeys(KINDS, 4.0)
    assert first.rows == 4
    alone = [fed(collection(*KINDS)), collection(*KINDS), fed(collection(*KINDS), [7.0], [0.0])]
    for i, other in zip(order[1:], others, strict=True):
        assert other.rows == alone[i].rows
        assert {n: v.nan_to_num(-1) for n, v in other.compute().items()} == {
            n: v.nan_to_num(-1) for n, v in alone[i].compute().items()
        }


def test_a_collection_goes_on_after_a_merge():
    """What was merged in and what is updated afterwards add up, and a value computed before is forgotten."""
    first, second = fed(collection(*KINDS)), fed(collection(*KINDS), [7.0], [0.0])
    assert values(first) == dict.fromkeys(KINDS, 3.0)
    first.merge(second)
    fed(first, [14.0], [0.0])
    assert values(first) == dict.fromkeys(KINDS, 6.0)
    assert values(second) == dict.fromkeys(KINDS, 7.0)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda panel: pickle.loads(pickle.dumps(panel))])
def test_a_copy_goes_on_alone(copied):
    """A copy made in the middle shares nothing with its original, and still shares statistics within."""
    panel = fed(collection())
    twin = fed(copied(panel), [7.0], [0.0])
    assert values(twin)["gap"] == values(twin)["own_gap"] == values(twin)["shared_gap"] == 4.0
    assert values(panel)["gap"] == values(panel)["own_gap"] == values(panel)["shared_gap"] == 3.0
    assert [s.key[0].__name__ for s in twin.statistics].count("GapSums") == 1
    twin.reset()
    assert values(fed(twin, [7.0], [0.0]))["shared_total"] == 7.0


def test_a_state_goes_through_a_file():
    """`torch.save` and `weights_only` loading in the middle replace what was measured before, rows too."""
    file = io.BytesIO()
    torch.save(fed(collection()).state_dict(), file)
    file.seek(0)
    panel = fed(collection(), [100.0], [0.0])
    panel.load_state_dict(torch.load(file, weights_only=True))
    assert values(panel)["gap"] == values(panel)["own_gap"] == values(panel)["shared_gap"] == 3.0
    assert panel.rows == 3
    assert values(fed(panel, [7.0], [0.0]))["own_gap"] == 4.0


def test_a_state_is_a_snapshot():
    """It does not follow the collection it was taken from, nor the ones it is loaded into."""
    panel = fed(collection())
    state, before = panel.state_dict(), values(panel)
    fed(panel, [7.0], [0.0])
    for _ in range(2):
        panel.load_state_dict(state)
        assert values(panel) == before
        fed(panel, [7.0], [0.0])


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"rows": 1},
        "other",
        "cut",
    ],
    ids=str,
)
def test_a_foreign_state_is_refused_and_changes_nothing(state):
    """A state of other metrics, or of half of them, is a StateError, and what was measured is still there."""
    panel = fed(collection(*KINDS))
    if state == "other":
        state = fed(collection("gap")).state_dict()
    if state == "cut":
        state = fed(collection(*KINDS)).state_dict()
        next(iter(state["statistics"].values())).popitem()
    with pytest.raises(StateError):
        panel.load_state_dict(state)
    assert values(panel) == dict.fromkeys(KINDS, 3.0)


def test_only_the_same_metrics_merge():
    """A collection of other metrics, or of the same class with other parameters, is refused by name."""
    with pytest.raises(StateError, match="the state of own_gap does not match"):
        fed(collection("gap")).merge(fed(collection("own_gap")))
    scaled = [MetricCollection([ScaledGap(scale=scale)], Number()) for scale in (1.0, 2.0)]
    with pytest.raises(StateError):
        fed(scaled[0]).merge(fed(scaled[1]))


class PlainGap(OwnGap):
    """Of any output."""


def sums_of(*shape: int) -> type[OwnGap]:
    """A metric with a state of its own that merges with others of its shape alone."""

    class Own(OwnGap):
        def __init__(self):
            super().__init__()
            self.add_state("more", torch.zeros(shape), dist_reduce_fx="sum")

    return Own


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)], ids=["forth", "back"])
@pytest.mark.parametrize("refuses", ["hits@2", "roc_auc", "own"])
def test_a_merge_that_is_refused_changes_nothing(refuses, order):
    """Whichever of the metrics refuses, a statistic or a state of its own: no other has merged before it."""
    own = refuses == "own"
    panels = []
    for size in (3, 4):
        metrics = ["accuracy", PlainGap(), sums_of(size)() if own else refuses]
        panels.append(MetricCollection(metrics[order], Category()))
        panels[-1].update(**draw(Category(3 if own else size), 20, seed=size))
    before = str(panels[0].state_dict())
    with pytest.raises(StateError):
        panels[0].merge(panels[1])
    assert str(panels[0].state_dict()) == before
    panels[0].update(**draw(Category(3), 20, seed=5))
    assert panels[0]["PlainGap"].update_count == 2


def test_largest_and_smallest_merge(registry):
    """States reduced by max and min merge as they mean; (6 - 0.5) over both parts, also into an empty one."""
    registry.register_metric("reduced_gap", [NUMBER])(ReducedGap)
    first, second = fed(collection("reduced_gap")), fed(collection("reduced_gap"), [0.5], [0.0])
    empty = first.fresh()
    for part in (first, second):
        empty.merge(part)
    assert values(empty) == {"reduced_gap": 5.5}


class MeanState(OwnGap):
    """A mean as state, the form that torchmetrics cannot merge."""

    def __init__(self):
        super().__init__()
        self.add_state("mean", torch.zeros(()), dist_reduce_fx="mean")

    def update(self, preds, target):
        self.mean = (preds - target).abs().mean()

    def compute(self):
        return self.mean


def test_a_mean_as_state_is_merged_exactly_or_refused(registry):
    """Into an empty one it is itself (torchmetrics divides by 0 updates there), or it is an error."""
    registry.register_metric("mean_state", [NUMBER])(MeanState)
    try:
        panel = fed(collection("mean_state"))
        empty = panel.fresh()
        empty.merge(panel)
    except HpometricsError as err:
        assert "mean" in str(err)
    else:
        assert values(empty) == {"mean_state": 3.0}


class CountedRows(OwnGap):
    """A state that torchmetrics would stack with others, and one whose default is not 0."""

    def __init__(self, **reductions):
        super().__init__()
        self.add_state("rows", torch.tensor(1.0), **reductions)

    def update(self, preds, target):
        self.rows += len(preds)

    def compute(self):
        return self.rows


def test_a_state_that_cannot_merge_is_refused():
    """At once, with what it may be: torchmetrics would stack both, and later fail or have two values."""
    told = r"CountedRows: add_state\('rows', ...\) needs dist_reduce_fx= to merge two states; pass sum, max"
    with pytest.raises(StateError, match=told):
        CountedRows()


@pytest.mark.parametrize("facts", [{}, {"full_state_update": True}, {"dist_sync_on_step": True}], ids=str)
def test_a_state_is_loaded_as_it_is(facts):
    """Into an empty collection, whatever its default, and whatever torchmetrics would do with it."""
    metric = type("Rows", (CountedRows,), {"full_state_update": facts.get("full_state_update", False)})(
        dist_reduce_fx="sum"
    )
    metric.dist_sync_on_step = facts.get("dist_sync_on_step", False)
    panel = fed(MetricCollection([metric], Number()))
    for loaded in (panel.fresh(), panel.fresh()):
        loaded.load_state_dict(panel.state_dict())
        assert values(loaded) == {"Rows": 4.0}
        loaded.merge(panel)
        assert values(loaded) == {"Rows": 8.0}


@pytest.mark.parametrize("cls", [PearsonCorrCoef, MeanSquaredError])
def test_a_class_of_torchmetrics_is_loaded_as_it_is(cls):
    """Also one whose states torchmetrics stacks."""
    own = type("Own", (cls, Metric), {"direction": None, "inputs": PREDICTIONS})
    panel = fed(
        MetricCollection([own()], Number()), TARGET + torch.tensor([1.0, 2.0, 4.0]), torch.arange(3.0)
    )
    loaded = panel.fresh()
    loaded.load_state_dict(panel.state_dict())
    assert values(loaded) == values(panel)


def test_reset_forgets_everything():
    """After a reset values are nan with a reason, and counting starts anew."""
    panel = fed(collection(*KINDS))
    panel.compute()
    panel.reset()
    assert all(value.isnan() for value in panel.compute().values())
    assert set(panel.reasons) == set(KINDS)
    assert panel.rows == 0
    assert values(fed(panel, [7.0], [0.0])) == dict.fromkeys(KINDS, 7.0)


def test_fresh_is_the_same_with_nothing_in_it():
    """A fresh collection measures on its own; parameters and output stay."""
    panel = fed(MetricCollection([ScaledGap(scale=2.0), "shared_gap"], Number()))
    twin = fed(panel.fresh(), [7.0], [0.0])
    assert list(values(twin).values()) == [14.0, 7.0]
    assert list(values(panel).values()) == [6.0, 3.0]
    assert (twin.names, twin.output) == (panel.names, panel.output)


OTHERWISE = [
    ("f1", Binary(threshold=0.3), Binary(), r"binary\(threshold=0.3\)", r"binary\(threshold=0.5\)"),
    (
        "recall@1",
        Ranking(num_items=4),
        Ranking(num_items=50, num_negatives=3),
        r"ranking\(num_items=4, num_negatives=None\)",
        r"ranking\(num_items=50, num_negatives=3\)",
    ),
    (
        "accuracy",
        Category(3),
        Category(3, ignore_index=0),
        r"category\(ignore_index=None\)",
        r"category\(ignore_index=0\)",
    ),
    ("mse", Number(), Vector(), "number", "vector"),
]


@pytest.mark.parametrize("name, here, there, own, other", OTHERWISE, ids=[row[0] for row in OTHERWISE])
def test_only_the_same_output_merges(name, here, there, own, other):
    """What was decided by another threshold, or among other items, is refused, naming both outputs."""
    told = rf"the measured {other} does not match {name} of {own}; use the same output= for both"
    first, second = (MetricCollection([name], output) for output in (here, there))
    for take in (first.merge, lambda panel: first.load_state_dict(panel.state_dict())):
        with pytest.raises(StateError, match=told):
            take(second)
    single, foreign = get_metric(name, here), get_metric(name, there)
    for take in (single.merge, lambda metric: single.load_state_dict(metric.state_dict())):
        with pytest.raises(StateError):
            take(foreign)


def test_a_size_that_a_tensor_shows_need_not_be_told_to_merge():
    """In either of the two, nor to load; two that are told are compared."""
    told, shown = (MetricCollection(["accuracy"], output) for output in (Category(3), Category()))
    for panel in (told, shown):
        panel.update(logits=torch.eye(3), target=torch.arange(3))
    told.merge(shown)
    shown.load_state_dict(told.state_dict())
    assert shown.rows == 6
    with pytest.raises(StateError, match=r"category\(num_classes=4\)"):
        told.merge(MetricCollection(["accuracy"], Category(4)))


def test_side_data_of_an_output_are_no_matter_to_a_merge():
    """Every process has read its own copy of them."""
    first, second = (MetricCollection(["ndcg@1"], Ranking(item_groups=torch.arange(3))) for _ in range(2))
    for panel in (first, second):
        panel.update(scores=torch.rand(2, 3), target=torch.eye(3)[:2])
    first.merge(second)
    assert first.rows == 4


def test_a_part_of_a_state_is_of_the_same_cut_offs():
    """Its columns are those of all of them; the first would be taken for another."""
    larger, smaller = (
        MetricCollection(["ndcg@1", "ndcg@2"], Ranking()),
        MetricCollection(["ndcg@2"], Ranking()),
    )
    larger.update(scores=torch.rand(2, 3), target=torch.eye(3)[:2])
    with pytest.raises(StateError, match="does not match"):
        smaller.merge_state(smaller.part_of(larger.state_dict()))


def test_a_state_that_does_not_tell_its_output_is_read():
    """As those were that were saved before outputs were told."""
    panel, single = fed(collection("gap")), get_metric("mse", Number())
    single.update(torch.ones(2), torch.zeros(2))
    state, extra = panel.state_dict(), single.get_extra_state()
    del state["output"], extra["output"]
    panel.load_state_dict(state)
    single.set_extra_state(extra)
    assert values(panel) == {"gap": 3.0}
    assert single.compute() == 1.0
