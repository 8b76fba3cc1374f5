"""The attributes of a metric, and what `MetricCollection.reset` costs a member and may not leave behind."""

from __future__ import annotations

import pytest
import torch

from hpometrics import MAXIMIZE, PROBABILITIES, Metric, MetricCollection, MetricInputError
from hpometrics.metrics import _state
from hpometrics.metrics._state import StatefulMetric
from hpometrics.metrics.catalogue.classification.calibration import BinaryBrier
from hpometrics.metrics.features import Binary
from hpometrics.metrics.metric import MeanMetric


class Scaled(MeanMetric):
    """Has an attribute of every kind that a module keeps apart, and a property."""

    name = "scaled"
    direction = MAXIMIZE

    def __init__(self):
        super().__init__()
        self.plain = 1.0
        self.weight = torch.nn.Parameter(torch.ones(1))
        self.register_buffer("shift", torch.zeros(1))
        self.layer = torch.nn.Linear(1, 1)
        self.factor = 2.0

    @property
    def factor(self):
        """Half of what is kept."""
        return self.kept_factor / 2

    @factor.setter
    def factor(self, value):
        self.kept_factor = value * 2


def test_attributes_are_those_of_a_module():
    """However often a name gets another value, and of whichever kind."""

    def held():
        return set(metric.state_dict()) - {"_extra_state"}

    metric = Scaled()
    assert (metric.factor, metric.kept_factor) == (2.0, 4.0) and "factor" not in vars(metric)
    assert held() == {"weight", "shift", "layer.weight", "layer.bias"}
    with pytest.raises(TypeError, match="cannot assign 'float' as parameter 'weight'"):
        metric.weight = 1.0
    with pytest.raises(TypeError, match="cannot assign 'int' as buffer 'shift'"):
        metric.shift = 1
    metric.weight = metric.shift = metric.layer = None
    assert not held()
    metric.plain = torch.nn.Parameter(torch.ones(1))
    assert held() == {"plain"} and "plain" not in vars(metric)
    with pytest.raises(RuntimeError, match="Can't change const `higher_is_better`"):
        metric.higher_is_better = True


def test_a_member_without_a_state_of_its_own_forgets_without_a_reset_of_its_own(monkeypatch):
    """Its statistics are the collection's: what is left are a count and a value."""
    panel = MetricCollection(["accuracy", "brier"], output=Binary())
    panel.update(probabilities=torch.tensor([0.9, 0.2]), target=torch.tensor([1, 1]))
    panel.compute()
    calls = []
    monkeypatch.setattr(StatefulMetric, "_reset_own", lambda self: calls.append(self.name))
    panel.reset()
    assert not calls
    assert panel["brier"].update_count == 0
    assert panel.compute()["brier"].isnan()


def measured():
    """A collection that has measured two of three rows right."""
    panel = MetricCollection(["accuracy", "brier"], output=Binary())
    panel.update(probabilities=torch.tensor([0.9, 0.2, 0.8]), target=torch.tensor([1, 1, 1]))
    return panel


@pytest.mark.parametrize("option", ["compute_on_cpu", "process_group"])
def test_an_option_without_effect_is_refused(option):
    """Torchmetrics has it; its default may be passed."""
    assert BinaryBrier(**{option: False}).compute().isnan()
    with pytest.raises(MetricInputError, match=f"BinaryBrier does not support {option}=; leave it out"):
        BinaryBrier(**{option: True})


def test_a_value_may_be_computed_each_time(monkeypatch):
    """With `compute_with_cache=False`, as in torchmetrics."""
    metric, calls = BinaryBrier(compute_with_cache=False), []
    compute = BinaryBrier.compute
    monkeypatch.setattr(BinaryBrier, "compute", lambda self: (calls.append(1), compute(self))[1])
    metric.update(torch.tensor([0.5]), torch.tensor([1]))
    assert metric.compute() == metric.compute() == 0.25 and len(calls) == 2


def test_other_ranks_are_left_out_by_a_function_of_the_users(monkeypatch):
    """`distributed_available_fn` says whether there are any, where there are."""
    monkeypatch.setattr(_state, "world_size", lambda: 2)
    local = [
        BinaryBrier(distributed_available_fn=lambda known=known: known).is_local for known in (True, False)
    ]
    assert local == [False, True]


def test_members_are_not_visited_with_each_batch(monkeypatch):
    """What a collection adds is counted once for all of them, whether or not it was computed before."""
    calls = []
    monkeypatch.setattr(StatefulMetric, "count_updates", lambda self, updates=1: calls.append(self.name))
    monkeypatch.setattr(StatefulMetric, "forget", lambda self: calls.append(self.name))
    panel = measured()
    panel.compute()
    panel.update(probabilities=torch.tensor([0.9]), target=torch.tensor([1]))
    assert panel["brier"].update_count == 2 and panel["brier"].update_called
    panel.reset()
    assert panel["brier"].update_count == 0
    assert not calls


def test_a_member_that_was_read_by_itself_gives_no_old_value():
    """Neither after another batch of its collection nor after its reset."""
    panel = measured()
    accuracy = panel["accuracy"]
    assert accuracy.compute().item() == pytest.approx(2 / 3)
    panel.update(probabilities=torch.tensor([0.9]), target=torch.tensor([1]))
    assert accuracy.compute().item() == 0.75
    panel.reset()
    assert accuracy.compute().isnan()
    assert accuracy.undefined_reason == "nothing was measured"


def test_a_reset_forgets_why_a_member_had_no_value():
    """The reason belongs to what was measured."""
    panel = MetricCollection(["roc_auc"], output=Binary())
    panel.update(probabilities=torch.tensor([0.9, 0.2]), target=torch.tensor([1, 1]))
    panel.compute()
    assert panel["roc_auc"].undefined_reason
    panel.reset()
    assert panel["roc_auc"].undefined_reason is None


def test_a_value_is_computed_once(monkeypatch):
    """A collection keeps its values until the next batch; what it gives is the caller's dict."""
    panel, calls = measured(), []
    compute = BinaryBrier.compute
    monkeypatch.setattr(BinaryBrier, "compute", lambda self: (calls.append(1), compute(self))[1])
    panel.compute().clear()
    assert list(panel.compute()) == ["accuracy", "brier"]
    assert len(calls) == 1


def test_a_member_with_a_state_of_its_own_may_be_reset_by_itself():
    """Its collection then finds nothing measured there, and other members as they were."""
    panel = MetricCollection([Rows(), "accuracy"], output=Binary())
    panel.update(probabilities=torch.tensor([0.9, 0.2]), target=torch.tensor([1, 1]))
    assert panel.compute()["Rows"] == 2
    panel["Rows"].reset()
    assert panel["Rows"].update_count == 0
    assert panel.compute()["Rows"] == 0 and panel.compute()["accuracy"] == 0.5


class Rows(Metric):
    """How many rows there were, kept without statistics."""

    direction = MAXIMIZE
    inputs = PROBABILITIES

    def __init__(self):
        super().__init__()
        self.add_state("rows", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, preds, target):
        """Count rows."""
        self.rows += len(preds)

    def compute(self):
        """Give their number."""
        return self.rows
