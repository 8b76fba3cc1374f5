"""Classes that are not registered measure, and may state their facts by themselves."""

from __future__ import annotations

import pickle

import pytest
import torch
from sample_metrics import Gap

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import RegistrationError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import LOGITS, PREDICTIONS, Number
from hpometrics.metrics.metric import MeanMetric
from hpometrics.run import Run

pytestmark = pytest.mark.usefixtures("samples")


def test_an_unregistered_class_measures_what_it_is_given():
    """Nothing is known of its output, so nothing is checked or derived: (N, C) against (N,) is fine."""

    class TopScore(MeanMetric):
        direction = MAXIMIZE
        inputs = LOGITS

        def get_current_value(self, preds, target):
            return preds.amax(-1)

    metric = TopScore()
    metric.update(torch.tensor([[1.0, 3.0], [4.0, 2.0]]), torch.tensor([0, 1]))
    assert metric.compute().item() == 3.5


class ShareRight(MeanMetric):
    """States its facts as Ludwig's guide does, and is not registered."""

    @classmethod
    def get_objective(cls):
        return "maximize"

    @classmethod
    def get_inputs(cls):
        return PREDICTIONS

    def get_current_value(self, preds, target):
        return (preds == target).float()


class ShareWrong(ShareRight):
    @classmethod
    def get_objective(cls):
        return MINIMIZE

    def get_current_value(self, preds, target):
        return (preds != target).float()


class Turned(Gap):
    """Of a class that is registered, which says MINIMIZE by an attribute."""

    @classmethod
    def get_objective(cls):
        return MAXIMIZE


@pytest.mark.parametrize(
    ("cls", "direction", "value"),
    [(ShareRight, MAXIMIZE, 0.75), (ShareWrong, MINIMIZE, 0.25), (Turned, MAXIMIZE, 0.25)],
)
def test_an_unregistered_class_may_state_its_facts_by_classmethods(cls, direction, value):
    """Alone, in a collection and as what a run optimizes it is what it would be if it were registered."""
    preds, target = torch.tensor([1, 0, 1, 1]), torch.tensor([1, 1, 1, 1])
    metric = cls()
    assert (metric.direction, metric.inputs) == (direction, PREDICTIONS)
    assert metric.higher_is_better is (direction is MAXIMIZE)
    metric.update(preds, target)
    together = MetricCollection([cls], output=Number())
    together.update(predictions=preds, target=target)
    run = Run(metric=cls(), output=Number())
    for _ in run.epochs(1):
        run.update(predictions=preds, target=target)
    assert metric.compute() == together.compute()[metric.name] == run.value == value
    assert together.direction_of(metric.name) is run.spec.direction is direction


def test_an_object_of_an_unregistered_class_is_unpickled_with_its_facts():
    """In another process none was made before; the class there has its classmethods alone."""
    stored = pickle.dumps(ShareWrong())
    for name in ("direction", "inputs", "_facts_of"):
        delattr(ShareWrong, name)
    metric = pickle.loads(stored)
    assert (metric.direction, metric.inputs) == (MINIMIZE, PREDICTIONS)


def test_a_class_whose_facts_disagree_is_refused_with_its_first_object():
    """As it would be in registration."""
    torn = type("Torn", (ShareRight,), {"inputs": PREDICTIONS, "get_inputs": classmethod(lambda cls: LOGITS)})
    with pytest.raises(
        RegistrationError, match=r"Torn: its statements of inputs contradict each other: .* says logits"
    ):
        torn()
