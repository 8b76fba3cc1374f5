from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
import torchmetrics
from sample_metrics import Gap, GapSums, OwnGap, ScaledGap, SharedGap, WeightedGap

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import MetricInputError, NonFiniteError, RegistrationError, StateError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import NUMBER, PREDICTIONS, Category, Number
from hpometrics.metrics.metric import LudwigMetric, MeanMetric, Metric
from hpometrics.metrics.registry.register import get_metric
from hpometrics.run import Run

KINDS = [Gap, OwnGap, SharedGap]
PREDS = torch.tensor([1.0, 2.0, 6.0])
TARGET = torch.zeros(3)

pytestmark = pytest.mark.usefixtures("samples")


class Given(MeanMetric):
    """A MeanMetric whose batch value is what the test says."""

    direction = MAXIMIZE
    inputs = PREDICTIONS

    def __init__(self, *answers):
        super().__init__()
        self.answers = list(answers)

    def get_current_value(self, preds, target):
        return self.answers.pop(0)


def mean_of(*answers, rows: int = 2) -> float:
    """The value after one batch of so many rows for each answer."""
    metric = Given(*answers)
    for _ in answers:
        metric.update(torch.zeros(rows), torch.zeros(rows))
    return metric.compute().item()


def fed(metric: Metric, preds=PREDS, target=TARGET) -> Metric:
    """The same metric after one more batch."""
    metric.update(preds, target)
    return metric


def test_a_value_per_row_is_a_mean_over_rows():
    """Rows (1, 2) and (6): 9 / 3 = 3, while the mean of the two batch means would be 3.75."""
    metric = fed(fed(Gap(), PREDS[:2], TARGET[:2]), PREDS[2:], TARGET[2:])
    assert metric.compute().item() == 3.0


@pytest.mark.parametrize("scalar", [0.5, torch.tensor(0.5), np.float32(0.5), torch.tensor(0.5).half()])
def test_one_value_for_a_batch_weighs_as_much_as_its_rows(scalar):
    """0.5 on 2 rows and 2.0 on 1 row: (0.5 * 2 + 2.0) / 3."""
    metric = Given(scalar, 2.0)
    metric.update(torch.zeros(2), torch.zeros(2))
    metric.update(torch.zeros(1), torch.zeros(1))
    assert metric.compute().item() == 1.0


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ((torch.tensor([1.0, 5.0]), torch.tensor([3.0, 1.0])), 2.0),
        ((torch.tensor([1.0, 5.0]), torch.tensor([True, False])), 1.0),
        ((torch.tensor([1.0, torch.nan]), torch.tensor([True, False])), 1.0),
        ((3.0, 7), 3.0),
        ((3.0, torch.tensor([True, False])), 3.0),
        ((torch.tensor([[1.0, 2.0], [3.0, 6.0]]), None), 3.0),
        (([1.0, 5.0], [3, 1]), 2.0),
        ([1.0, None], 1.0),
        ([None, torch.tensor(5.0)], 5.0),
        (([None, 5.0], [3, 2]), 5.0),
        (torch.tensor([1, 4]), 2.5),
        (torch.tensor([True, False]), 0.5),
    ],
)
def test_weights_and_masks(answer, value):
    """A weight per row, a mask of rows that count, or one weight for the batch; a masked nan is not seen."""
    assert mean_of(answer) == value


@pytest.mark.parametrize(
    "nothing",
    [
        None,
        (None, None),
        [None, None],
        (torch.tensor([1.0, 2.0]), torch.tensor([False, False])),
        (torch.tensor(torch.nan), torch.tensor([False, False])),
        (torch.nan, 0),
    ],
)
def test_a_batch_in_which_nothing_counts_adds_nothing(nothing):
    """All don't-care: a batch before and after it keep their mean; alone it is nan with a reason."""
    assert mean_of(torch.tensor([1.0, 2.0]), nothing, torch.tensor([4.0, 5.0])) == 3.0
    metric = fed(Given(nothing), PREDS[:2], TARGET[:2])
    assert metric.compute().isnan()
    assert metric.undefined_reason == "no rows were counted"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (torch.zeros(3), r"one value, or one per row; the batch has 2 rows, got shape \(3,\)"),
        ({"f1": 0.5}, r"one value, or one per row, got \{'f1': 0.5\}"),
        (["a", "b"], r"one value, or one per row, got \['a', 'b'\]"),
        ([0.5, [None]], r"one value, or one per row, got \[0.5, \[None\]\]"),
        (torch.zeros(1), r"the batch has 2 rows, got shape \(1,\)"),
        (([1.0, None], torch.ones(3)), r"values have shape \(2,\), but weights have \(3,\)"),
        ((torch.zeros(2), torch.ones(3)), r"values have shape \(2,\), but weights have \(3,\)"),
        ((torch.zeros(2), torch.tensor([1.0, torch.nan])), "weight"),
        ((1.0, torch.inf), "weight"),
    ],
)
def test_values_and_weights_that_make_no_mean_are_refused(answer, message):
    """Another number of rows, weights of another shape or not finite: refused, and the state stays."""
    metric = fed(Given(torch.tensor([1.0, 3.0]), answer), PREDS[:2], TARGET[:2])
    with pytest.raises(MetricInputError, match=message):
        fed(metric, PREDS[:2], TARGET[:2])
    assert metric.compute().item() == 2.0


def test_sums_are_kept_in_float64():
    """2^24 and then 1000 ones: float32 would lose every single one of them."""
    rows = 2**24 + 1000
    metric = Given((torch.tensor(1.0), 2.0**24), *[(torch.tensor(1.0), 1.0)] * 1000, (0.0, 1000.0))
    for _ in range(1002):
        metric.update(PREDS[:2], TARGET[:2])
    assert metric.compute().item() == rows / (rows + 1000)


def test_ten_thousand_tenths_are_a_tenth():
    """float32 accumulation gives 0.09999; the sum here is exact to the last digits."""
    assert mean_of(torch.full((100_000,), 0.1, dtype=torch.float64), rows=100_000) == pytest.approx(
        0.1, rel=1e-13
    )


def test_the_rows_of_one_metric_know_the_extras_it_asks_for():
    """Alone as in a collection: an extra it names reaches it, another one is refused by name."""
    metric = WeightedGap()
    metric.update(PREDS, TARGET, weights=torch.tensor([0.0, 0.0, 2.0]))
    assert metric.compute().item() == 6.0
    with pytest.raises(MetricInputError, match="weighted_gap does not accept wieghts"):
        metric.update(PREDS, TARGET, wieghts=torch.ones(3))


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize(
    ("batch", "error"),
    [
        (([torch.nan, 1.0], [0.0, 0.0]), NonFiniteError),
        (([1.0, 2.0], [0.0]), MetricInputError),
        (([[1.0], [2.0]], [0.0, 0.0]), MetricInputError),
        (([1.0, 2.0],), MetricInputError),
    ],
)
def test_a_metric_alone_has_the_same_door(cls, batch, error):
    """nan, broadcasting shapes and a missing target are refused however the metric measures."""
    metric = fed(cls())
    with pytest.raises(error):
        metric.update(*batch)
    assert metric.compute().item() == 3.0
    assert metric.update_count == 1


def test_an_update_that_fails_half_way_leaves_its_own_state():
    """`own_gap` adds before it refuses a target of 13; alone, too, nothing of that batch remains."""
    metric = fed(OwnGap())
    with pytest.raises(MetricInputError, match="no target of 13"):
        metric.update(torch.tensor([1.0]), torch.tensor([13.0]))
    assert metric.compute().item() == 3.0


@pytest.mark.parametrize("cls", KINDS)
def test_outputs_go_by_position_or_by_name(cls):
    """`update(preds, target)` is the torchmetrics form, keywords say which output a tensor is."""
    by_name = cls()
    by_name.update(predictions=PREDS, target=TARGET)
    assert by_name.compute() == fed(cls()).compute()


def test_one_output_is_not_given_twice():
    """A positional output and the keyword it stands for contradict each other."""
    with pytest.raises(MetricInputError, match="predictions"):
        Gap().update(PREDS, TARGET, predictions=PREDS + 1)


@pytest.mark.parametrize("position", [(PREDS,), (PREDS, TARGET)], ids=len)
def test_an_output_by_position_is_read_beside_those_by_name(position):
    """It contradicts them, also where the names alone are those of a batch before."""
    metric = get_metric("accuracy", Category(2))
    batch = {"logits": torch.eye(2), "target": torch.tensor([0, 1])}
    metric.update(**batch)
    with pytest.raises((MetricInputError, TypeError)):
        metric.update(*position, **batch)
    assert metric.update_count == 1


@pytest.mark.parametrize("cls", KINDS)
def test_merging_keeps_the_other(cls):
    """(1 + 2 + 6 + 7) / 4, and the metric that was merged in still says 7."""
    first, second = fed(cls()), fed(cls(), torch.tensor([7.0]), torch.zeros(1))
    first.merge(second)
    assert (first.compute().item(), second.compute().item()) == (4.0, 7.0)
    empty = cls()
    empty.merge(first)
    first.merge(cls())
    assert (first.compute().item(), empty.compute().item()) == (4.0, 4.0)


@pytest.mark.parametrize("cls", KINDS)
def test_the_merge_of_torchmetrics_is_the_same(cls):
    """`merge_state`, which torchmetrics users call, takes in statistics too."""
    first, second = fed(cls()), fed(cls(), torch.tensor([7.0]), torch.zeros(1))
    first.merge_state(second)
    assert first.compute().item() == 4.0


@pytest.mark.parametrize("other", [OwnGap(), ScaledGap(scale=2.0)], ids=["class", "parameter"])
def test_only_its_own_kind_merges(other):
    """Another class, or the same class with another parameter, is another metric."""
    with pytest.raises(StateError, match="scaled_gap"):
        fed(ScaledGap()).merge(fed(other))


def test_the_same_name_is_not_the_same_metric():
    """Of a class that is not registered the name tells no parameters; those that differ are refused."""

    class Unregistered(ScaledGap):
        pass

    first, second = fed(Unregistered(scale=1.0)), fed(Unregistered(scale=2.0))
    with pytest.raises(StateError, match="Unregistered merges only with the same metric"):
        first.merge(second)
    assert first.compute().item() == 3.0


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("state", [{}, {"total": torch.tensor(1.0)}], ids=["empty", "partial"])
def test_a_state_that_is_not_whole_is_refused(cls, state):
    """An error, where torchmetrics says 'All keys matched' to an empty state and goes on with zeros."""
    metric = fed(cls())
    with pytest.raises((RuntimeError, StateError)):
        metric.load_state_dict(state)


@pytest.mark.parametrize("cls", KINDS)
def test_a_state_dict_holds_what_was_measured(cls):
    """Including the number of updates; the new metric has its value at once."""
    loaded = fed(cls(), torch.tensor([50.0]), torch.zeros(1))
    loaded.load_state_dict(fed(fed(cls())).state_dict())
    assert loaded.compute().item() == 3.0
    assert loaded.update_count == 2


@pytest.mark.parametrize("cls", KINDS)
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), Metric.clone])
def test_a_copy_measures_on_its_own(cls, copied):
    """A copy starts with the rows of its original and shares no tensor with it."""
    metric = fed(cls())
    twin = fed(copied(metric), torch.tensor([7.0]), torch.zeros(1))
    assert (metric.compute().item(), twin.compute().item()) == (3.0, 4.0)


@pytest.mark.parametrize("cls", KINDS)
def test_alone_gives_an_empty_twin(cls):
    """Same metric, nothing measured."""
    metric = fed(cls())
    assert metric.alone().compute().isnan()
    assert metric.compute().item() == 3.0


def test_parameters_are_part_of_the_name():
    """An object of a registered class prints as the name it parses from, at defaults without parameters."""
    assert ScaledGap().name == "scaled_gap"
    assert ScaledGap(scale=2.0).name == get_metric("scaled_gap(scale=2.0)").name == "scaled_gap(scale=2.0)"


def test_a_class_that_states_no_facts_says_so_when_they_are_needed():
    """Measuring needs its inputs, optimizing its direction; there is no default for either."""
    silent = type("Silent", (MeanMetric,), {})()
    with pytest.raises(
        RegistrationError,
        match="Silent does not state its inputs, which has no default; set inputs = PREDICTIONS, PROB",
    ):
        fed(silent)
    with pytest.raises(
        RegistrationError,
        match="Silent does not state its direction, which has no default; set direction = MINIMIZE, MAX",
    ):
        Run(metric=silent)


def test_the_output_is_fixed_once_it_measures():
    """Statistics were chosen for one output; another one afterwards is refused."""
    metric = get_metric("accuracy", Category(3))
    metric.update(torch.tensor([0]), torch.tensor([0]))
    with pytest.raises(StateError, match="has already measured"):
        metric.output = Category(4)


@pytest.mark.parametrize("ask", ["pools_tasks", "takes_weights", "kept"])
def test_the_output_may_be_set_until_then(ask):
    """Whatever was asked of the metric before; its statistics are then those of the new output."""
    metric = get_metric("f1_macro", Category(3))
    getattr(metric, ask)
    with pytest.raises(MetricInputError):
        metric.update(logits=torch.zeros(2, 4), target=torch.tensor([0, 3]))
    metric.output = Category(4)
    metric.update(logits=torch.eye(4), target=torch.arange(4))
    assert metric.compute() == 1


def test_a_metric_names_the_statistic_it_lacks():
    """Asking for a statistic that it does not keep is an error, not None."""
    with pytest.raises(StateError, match="gap keeps no GapSums"):
        Gap().statistic(GapSums)


def test_the_base_classes_say_what_is_missing():
    """A subclass without get_current_value learns so at the first batch."""
    with pytest.raises(NotImplementedError, match=r"Bare needs get_current_value\(preds, target\)"):
        fed(type("Bare", (MeanMetric,), {"direction": MAXIMIZE, "inputs": PREDICTIONS})())
    assert LudwigMetric is Metric


@pytest.mark.parametrize("cls", KINDS)
def test_gradients_do_not_reach_the_state(cls):
    """Inputs that want gradients leave no graph behind and are not changed."""
    preds = PREDS.clone().requires_grad_()
    metric = fed(cls(), preds)
    assert not metric.compute().requires_grad
    assert preds.grad is None and torch.equal(preds, PREDS)


@pytest.mark.parametrize("cls", KINDS)
def test_it_works_in_a_torchmetrics_collection(cls):
    """Several in one torchmetrics.MetricCollection: updated, computed, reset, with no one left out."""
    panel = torchmetrics.MetricCollection({"a": cls(), "b": ScaledGap(scale=2.0), "c": Gap()})
    for _ in range(2):
        panel.update(PREDS, TARGET)
    panel.update(torch.tensor([7.0]), torch.zeros(1))
    assert {name: round(float(value), 9) for name, value in panel.compute().items()} == {
        "a": round(25 / 7, 9),
        "b": round(50 / 7, 9),
        "c": round(25 / 7, 9),
    }
    assert float(panel(PREDS, TARGET)["a"]) == 3.0
    panel.reset()
    panel.update(torch.tensor([7.0]), torch.zeros(1))
    assert float(panel.compute()["a"]) == 7.0


def test_torchmetrics_does_not_take_two_metrics_for_one():
    """Equal sums after a first batch without errors do not make one compute group of two metrics."""
    panel = torchmetrics.MetricCollection(
        {"one": ScaledGap(scale=1.0), "two": ScaledGap(scale=2.0), "gap": Gap()}
    )
    panel.update(TARGET, TARGET)
    panel.update(TARGET + 1, TARGET)
    assert {name: float(value) for name, value in panel.compute().items()} == {
        "one": 0.5,
        "two": 1.0,
        "gap": 0.5,
    }


@pytest.mark.parametrize("cls", KINDS)
def test_a_metric_tracker_knows_the_direction(cls):
    """MetricTracker reads `higher_is_better`, which follows from the direction: the smaller epoch is best."""
    tracker = torchmetrics.MetricTracker(cls(), maximize=None)
    for size in (5.0, 1.0, 3.0):
        tracker.increment()
        tracker.update(torch.tensor([size]), torch.zeros(1))
    assert tracker.best_metric() == 1.0
    assert cls.higher_is_better is (cls.direction is not MINIMIZE)


@pytest.mark.parametrize("cls", KINDS)
def test_forward_is_the_value_of_the_batch(cls):
    """As Lightning's self.log wants it: the batch alone, while the epoch goes on."""
    metric = cls()
    assert metric(PREDS, TARGET).item() == 3.0
    assert metric(torch.tensor([7.0]), torch.zeros(1)).item() == 7.0
    assert metric.compute().item() == 4.0
    assert metric.update_count == 2


@pytest.mark.parametrize("cls", KINDS)
def test_a_call_with_a_refused_batch_changes_nothing(cls):
    """It counts no update, and the next call goes on."""
    metric = fed(cls())
    with pytest.raises(NonFiniteError):
        metric(torch.tensor([torch.nan]), torch.zeros(1))
    assert (metric.update_count, metric.compute().item()) == (1, 3.0)
    metric(torch.tensor([7.0]), torch.zeros(1))
    assert (metric.update_count, metric.compute().item()) == (2, 4.0)


@pytest.mark.parametrize("cls", KINDS)
def test_a_call_leaves_its_value_where_lightning_looks(cls):
    """`self.log(metric, on_step=True)` reads it there."""
    metric = cls()
    metric(PREDS, TARGET)
    metric(torch.tensor([7.0]), torch.zeros(1))
    assert metric._forward_cache.item() == 7.0
    metric.reset()
    assert metric._forward_cache is None


@pytest.mark.parametrize("cls", KINDS)
def test_an_empty_twin_copies_no_rows(cls, monkeypatch):
    """Every call makes one: what it would copy grows with the epoch."""
    metric, copied = fed(cls()), []
    monkeypatch.setattr(torch.Tensor, "__deepcopy__", lambda tensor, memo: copied.append(tensor) or tensor)
    twin = metric.alone()
    assert all(len(tensor.shape) == 0 for tensor in copied)
    assert twin.compute().isnan() and metric.compute().item() == 3.0


@pytest.mark.parametrize("cls", KINDS)
def test_it_moves_as_a_module(cls):
    """`.to` keeps the value; `.half()` on the model that holds it does not narrow what it sums."""
    model = torch.nn.Module()
    model.metric = fed(cls())
    model.to("cpu").half()
    fed(model.metric, torch.tensor([7.0]), torch.zeros(1))
    assert model.metric.compute().item() == 4.0
    assert model.metric.compute().dtype == torch.float64


def test_a_plain_tensor_attribute_does_not_hide_as_state(registry):
    """The laws catch state that is not declared: it does not survive a state_dict."""
    from hpometrics.testing import LawBroken, check_state_dict, subjects_of

    registry.register_metric("hidden_sum", [NUMBER])(HiddenSum)
    with pytest.raises(LawBroken, match="loaded from a state_dict"):
        check_state_dict(*subjects_of("hidden_sum", NUMBER))
    assert get_metric("hidden_sum", Number()).name == "hidden_sum"


class HiddenSum(Metric):
    """Keeps its sum in a plain attribute."""

    direction = MINIMIZE
    inputs = PREDICTIONS

    def __init__(self):
        super().__init__()
        self.held = torch.zeros((), dtype=torch.float64)

    def update(self, preds, target):
        self.held = self.held + (preds - target).abs().sum()

    def compute(self):
        return self.held


class DocumentedGap(LudwigMetric):
    """A metric as Ludwig's guide has it: `update` and `reset` of its own, plain attributes in between."""

    direction = MINIMIZE
    inputs = PREDICTIONS

    def __init__(self):
        super().__init__()
        self.reset()

    def update(self, preds, target):
        self.gaps = self.gaps + (preds - target).abs().sum().item()
        self.count_of_rows = self.count_of_rows + len(target)

    def compute(self):
        return self.gaps / self.count_of_rows

    def reset(self):
        self.gaps, self.count_of_rows = 0.0, 0


def test_a_reset_of_its_own_is_called_by_a_collection(registry):
    """Each epoch of the documented form starts anew: 3 and then 1, not their mean."""
    registry.register_metric("documented_gap", [NUMBER])(DocumentedGap)
    panel = MetricCollection(["documented_gap"], Number())
    for gap in (3.0, 1.0):
        panel.update(predictions=torch.tensor([gap]), target=torch.tensor([0.0]))
        assert panel.compute()["documented_gap"].item() == gap
        panel.reset()


def test_plain_attributes_are_refused_where_they_would_be_lost():
    """What cannot be saved or merged says so, instead of giving a state without it."""
    metric = fed(DocumentedGap())
    with pytest.raises(StateError, match="keeps its state in plain attributes"):
        metric.state_dict()
    with pytest.raises(StateError, match="keeps its state in plain attributes"):
        DocumentedGap().merge(metric)
