"""Classes of torchmetrics combined with ours by inheritance, as Ludwig writes its `RMSEMetric`."""

from __future__ import annotations

import importlib
import warnings
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from matrix import failures
from torchmetrics import MeanSquaredError, Metric as TorchMetric
from torchmetrics.text import Perplexity

from hpometrics import MAXIMIZE, MINIMIZE, PREDICTIONS, Number, OptunaObjective
from hpometrics.exceptions import MetricInputError, StateError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.catalogue.torchmetrics import Reference
from hpometrics.metrics.catalogue.torchmetrics._data import draw_of
from hpometrics.metrics.catalogue.torchmetrics._row import MetricInputs
from hpometrics.metrics.features import FEATURES
from hpometrics.metrics.metric import LudwigMetric, MeanMetric, Metric
from hpometrics.testing import OUTPUTS, draw
from hpometrics.testing.peers import EVERY_ROW

REQUIRED = {float: 0.5, int: 2, "p": 3.0, "beta": 2.0, "threshold": 0.1, "things": 2}
"""Values for the parameters that a class cannot do without."""
READ_A_MAPPING = {"SpatialDistortionIndex", "QualityWithNoReference"}
"""Classes whose target is a mapping of tensors, which is none here; `as_metric(object)` wraps them."""
DOWNLOAD = {"BERTScore", "InfoLM", "CLIPScore"}
"""Classes that fetch a model when they are made."""


class RMSEMetric(MeanSquaredError, LudwigMetric):
    """The class that Ludwig's guide points at."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(squared=False)

    @classmethod
    def get_objective(cls):
        return MINIMIZE

    @classmethod
    def get_inputs(cls):
        return PREDICTIONS


def test_the_class_of_the_guide_is_optimized():
    """Its value is one number, alone and as the objective of trials."""

    def train(params, run):
        for _ in run.epochs(2):
            run.update(predictions=[1.0 + params["gap"], 2.0], target=[1.0, 2.0])

    metric = RMSEMetric()
    metric.update(torch.tensor([1.0, 4.0]), torch.tensor([1.0, 2.0]))
    assert metric.compute().shape == () and metric.compute().item() == pytest.approx(2**0.5)
    objective = OptunaObjective(train, {"gap": 2.0}, metric=RMSEMetric, output=Number())
    study = objective.create_study()
    study.optimize(objective, n_trials=1)
    assert study.best_value == pytest.approx(2**0.5)


def made(row: Any, feature: str, combine: bool, ours_first: bool = False) -> TorchMetric:
    """An object of the class of a row, or of a class of ours that inherits it."""

    def make(cls: type, arguments: dict[str, Any]) -> TorchMetric:
        facts = {"direction": MAXIMIZE, "inputs": row.inputs}
        bases = (Metric, cls) if ours_first else (cls, Metric)
        return row.make(type(f"Own{cls.__name__}", bases, facts) if combine else cls, arguments)

    own = type(row.name, (Reference,), {"row": replace(row, make=make, packages=()), "inputs": row.inputs})
    params = {key: _example(key, kind) for key, kind in row.params.items() if kind is not None}
    metric = own(**params)
    metric.output = OUTPUTS.get(feature) or FEATURES[feature]()
    facts = metric.output.facts
    known = [facts[name] for name in ("num_classes", "num_labels", "vocab_size") if facts.get(name)]
    return metric.build(known[0] if known else 3 if feature == "clusters" else None)


def _example(key: str, kind: Any) -> Any:
    if isinstance(kind, tuple):
        return kind[0]
    return REQUIRED.get(key, REQUIRED[kind]) if isinstance(kind, type) else kind


def given_to(row: Any, feature: str) -> MetricInputs:
    """A batch as the class of a row reads it."""
    output = OUTPUTS.get(feature) or FEATURES[feature]()
    make = draw_of(row) or (lambda output, rows, noise, random: draw(output, rows, noise, 0))
    batch = Outputs(output, **make(output, 30, 0.3, torch.Generator().manual_seed(0)))
    samples = {"samples": torch.randn(30, 5, generator=torch.Generator().manual_seed(1))}
    return MetricInputs(batch[row.inputs], batch.answer, {**samples, **batch.extras})


@pytest.mark.parametrize("ours_first", [False, True])
def test_every_class_keeps_its_value(ours_first):
    """The value that torchmetrics' own class gives, in the same shape, in both orders of the bases."""
    tried = []

    def check(case):
        row, feature = cases[case]
        module = importlib.import_module(f"torchmetrics.{row.module}")
        name = row.class_name(feature)
        if row.missing_packages or not hasattr(module, name) or name in DOWNLOAD | READ_A_MAPPING:
            return
        plain, own = made(row, feature, False), made(row, feature, True, ours_first)
        given = given_to(row, feature)
        row.feed(plain, given)
        row.feed(own, given)
        torch.testing.assert_close(own.compute(), plain.compute(), equal_nan=True, check_dtype=False)
        tried.append(name)

    cases = {f"{row.name} of {feature}": (row, feature) for row in EVERY_ROW for feature in row.features}
    with warnings.catch_warnings(action="ignore"):
        missed = failures(cases, check)
    assert "\n".join(missed) == ""
    assert len(set(tried)) > 80


@pytest.mark.parametrize("name", ["spatial_distortion", "qnr"])
def test_a_class_whose_target_is_a_mapping_is_refused(name):
    """It gives no other number: its first batch says what a target is."""
    row = next(row for row in EVERY_ROW if row.name == name)
    with (
        warnings.catch_warnings(action="ignore"),
        pytest.raises(MetricInputError, match="target= must be a tensor"),
    ):
        row.feed(made(row, "image", True), given_to(row, "image"))


def explicit_init(self: Any) -> None:
    """Call the `__init__` of torchmetrics by name."""
    MeanSquaredError.__init__(self, squared=False)


def both_inits(self: Any) -> None:
    """Call each `__init__` by name."""
    Metric.__init__(self)
    MeanSquaredError.__init__(self, squared=False)


def inherited_init(self: Any) -> None:
    """Call the next `__init__`."""
    super(type(self), self).__init__(squared=False)


def next_update(self: Any, preds: Any, target: Any) -> None:
    """Call the next `update`."""
    super(type(self), self).update(preds, target)


class Stated(Metric):
    """A class of ours that states its facts and measures nothing."""

    direction, inputs = MINIMIZE, PREDICTIONS


@pytest.mark.parametrize("base", [Metric, Stated])
@pytest.mark.parametrize("update", [None, next_update])
@pytest.mark.parametrize("init", [explicit_init, both_inits, inherited_init])
def test_our_base_may_come_first(base, init, update):
    """The value is that of the other order, whoever calls whose `__init__` and `update`."""
    own = {"__init__": init, **({"update": update} if update else {})}
    facts = {"direction": MINIMIZE, "inputs": PREDICTIONS, **own}
    metric = type("Own", (base, MeanSquaredError), facts)()
    metric.update(torch.tensor([1.0, 4.0]), torch.tensor([1.0, 2.0]))
    assert metric.compute().shape == () and metric.compute().item() == pytest.approx(2**0.5)


def test_a_class_of_ours_that_measures_stays_first():
    """Its own `update` or `get_current_value` is not given up for that of torchmetrics."""

    class Gap(MeanMetric, MeanSquaredError):
        direction, inputs = MINIMIZE, PREDICTIONS

        def get_current_value(self, preds, target):
            return (preds - target).abs()

    metric = Gap()
    metric.update(torch.tensor([1.0, 4.0]), torch.tensor([1.0, 2.0]))
    assert metric.compute().item() == 1.0


def test_a_state_may_be_called_as_torchmetrics_calls_it():
    """`count`, say; what every metric has is refused by name."""

    class Kept(Metric):
        direction, inputs = MINIMIZE, PREDICTIONS

        def __init__(self, name: str) -> None:
            super().__init__()
            self.add_state(name, torch.zeros(()), dist_reduce_fx="sum")

        def update(self, preds, target):
            self.count += len(preds)

        def compute(self):
            return self.count

    metric = Kept("count")
    metric.update(torch.ones(3), torch.ones(3))
    metric.merge(metric.clone())
    assert metric.compute() == 6 and "count" in Perplexity()._defaults
    with pytest.raises(StateError, match="'batch' is an attribute of every metric; choose another"):
        Kept("batch")


def test_further_arguments_of_update_go_by_position():
    """As in torchmetrics; one too many, or one given twice, is refused with the signature."""

    class Counted(Metric):
        direction, inputs = MAXIMIZE, PREDICTIONS

        def __init__(self) -> None:
            super().__init__()
            self.add_state("hits", torch.zeros(()), dist_reduce_fx="sum")

        def update(self, preds, target, counts):
            self.hits += ((preds == target) * counts).sum()

        def compute(self):
            return self.hits

    metric, ones = Counted(), torch.ones(2)
    metric.update(ones, ones, torch.tensor([1, 2]))
    assert metric.compute() == 3
    for args, kwargs in (((ones,) * 4, {}), ((ones,) * 3, {"counts": ones})):
        with pytest.raises(
            MetricInputError, match=r"update expects preds, target, counts; got \d arguments by"
        ):
            metric.update(*args, **kwargs)
    assert metric.compute() == 3


def test_a_constant_of_torchmetrics_merges_with_its_like():
    """As the data range of a signal-to-noise ratio, which its class says to average."""
    cls = importlib.import_module("torchmetrics.image").PeakSignalNoiseRatio
    own = partial(type("Own", (cls, Metric), {"direction": MAXIMIZE, "inputs": PREDICTIONS}))
    first, second, other = own(data_range=1.0), own(data_range=1.0), own(data_range=2.0)
    images = torch.rand(3, 2, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for metric, picture in zip((first, second, other), images, strict=True):
        metric.update(picture, picture.flip(0))
    whole = cls(data_range=1.0)
    whole.update(images[:2].flatten(0, 1), images[:2].flip(1).flatten(0, 1))
    first.merge(second)
    assert first.compute().item() == pytest.approx(whole.compute().item())
    with pytest.raises(StateError, match="only metrics with the same settings can merge, got"):
        first.merge(other)
