"""An `update` of one's own that adds to `self.avg`, as Ludwig's guide shows it."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from hpometrics import MetricCollection, register_metric
from hpometrics.direction import MAXIMIZE
from hpometrics.exceptions import MetricInputError, StateError
from hpometrics.metrics.features import PREDICTIONS, SEQUENCE, TEXT, Sequence
from hpometrics.metrics.metric import MeanMetric
from hpometrics.metrics.registry.index import all_entries
from hpometrics.testing import LAWS, check_device, check_direction, subjects_of

OUTPUT = Sequence(7, ignore_index=-100)


class TokenAccuracyMetric(MeanMetric):
    """The metric of the guide: its four methods, and the update that it shows."""

    def get_current_value(self, preds: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Share of tokens that are right, a value per row; of padding nothing is asked."""
        counted = target != -100
        return ((preds == target) & counted).sum(1) / counted.sum(1).double()

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        """As the guide has it."""
        self.avg.update(self.get_current_value(preds, target))

    @classmethod
    def get_objective(cls):
        """As the guide has it."""
        return MAXIMIZE

    @classmethod
    def get_inputs(cls):
        """As the guide has it."""
        return PREDICTIONS


class WholeBatch(TokenAccuracyMetric):
    """One value for a batch, which is what the guide returns."""

    def get_current_value(self, preds: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """Share of all tokens of the batch that are right."""
        return (preds == target).double().mean()


class Delegating(TokenAccuracyMetric):
    """Changes what it is given, and leaves the rest to the update it has from its base."""

    def update(self, preds: torch.Tensor, target: torch.Tensor) -> None:
        """Call the update of the base class, which adds `get_current_value`."""
        MeanMetric.update(self, preds, target)


class Plain(TokenAccuracyMetric):
    """The same without an update of its own."""

    update = MeanMetric.update


class Halved(TokenAccuracyMetric):
    """Weighs its values and reads an extra."""

    def update(self, preds: torch.Tensor, target: torch.Tensor, share: float = 1.0) -> None:
        """Count only rows that begin with a 1."""
        self.avg.update(share * self.get_current_value(preds, target), target[:, 0] == 1)


@pytest.fixture(autouse=True)
def registered(registry):
    """Each by the line of the guide."""
    for cls in (TokenAccuracyMetric, WholeBatch, Delegating, Plain, Halved):
        register_metric(f"guided_{cls.__name__.lower()}", [SEQUENCE, TEXT])(cls)


def drawn(rows: int, seed: int = 0) -> dict[str, torch.Tensor]:
    """Predicted and right tokens."""
    preds, target = torch.randint(3, (2, rows, 4), generator=torch.Generator().manual_seed(seed))
    return {"predictions": preds, "target": target}


def told(cls):
    """A metric of a sequence."""
    metric = cls()
    metric.output = OUTPUT
    return metric


@pytest.mark.parametrize("cls", [TokenAccuracyMetric, WholeBatch, Delegating])
@pytest.mark.parametrize("sizes", [[5, 1, 40], [46], [1, 1, 44]], ids=str)
def test_it_is_the_mean_over_rows_however_they_are_cut(cls, sizes):
    """Of batches of 5, 1 and 40 rows as well; the mean of the batches' means would be another."""
    whole, metric = drawn(46), told(cls)
    for preds, target in zip(*(whole[name].split(sizes) for name in ("predictions", "target")), strict=True):
        metric.update(preds, target)
    expected = (whole["predictions"] == whole["target"]).double().mean()
    assert metric.compute().item() == pytest.approx(expected.item(), rel=1e-12)


def test_in_a_collection_it_counts_once():
    """Beside one that shares its gathering; a mean hides what is counted twice, its weight does not."""
    panel = MetricCollection(["guided_tokenaccuracymetric", "guided_plain", "token_accuracy"], OUTPUT)
    for seed in range(20):
        panel.update(**drawn(3, seed))
    own, plain = panel["guided_tokenaccuracymetric"], panel["guided_plain"]
    assert own.compute() == plain.compute()
    assert own.avg_weight == plain.kept["mean"].weight == 60


def test_every_law_holds(subtests):
    """Registered by the line of the guide: it merges, saves, moves, resets and refuses as any other."""
    entry = next(entry for entry in all_entries() if entry.name == "guided_tokenaccuracymetric")
    for subject in subjects_of(entry):
        for law in LAWS:
            if law not in (check_device, check_direction):
                with subtests.test(law.__name__):
                    law(subject)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda metric: pickle.loads(pickle.dumps(metric))])
def test_a_copy_has_an_average_of_its_own(copied):
    """What is added to it does not reach the first."""
    metric = told(TokenAccuracyMetric)
    metric.update(torch.ones(1, 2), torch.ones(1, 2))
    other = copied(metric)
    other.update(torch.ones(1, 2), torch.zeros(1, 2))
    assert (metric.compute(), other.compute()) == (1.0, 0.5)
    metric.merge(other)
    assert metric.compute().item() == pytest.approx(2 / 3)


def test_weights_and_extras():
    """Of two rows that begin with a 1, one is right: half of a half; `avg` is read as torchmetrics' is."""
    metric = told(Halved)
    target = torch.tensor([[1, 2], [1, 1], [2, 2]])
    metric.update(predictions=torch.tensor([[1, 2], [0, 0], [2, 2]]), target=target, share=0.5)
    assert metric.compute() == metric.avg.compute() == 0.25
    with pytest.raises(MetricInputError, match="does not support weights"):
        metric.update(predictions=target, target=target, sample_weight=torch.ones(3))


def test_nothing_measured_is_undefined():
    """Before the first row, and where no row counts."""
    metric = told(Halved)
    assert metric.compute().isnan() and metric.avg.compute().isnan()
    metric.update(torch.zeros(2, 3), torch.zeros(2, 3))
    assert metric.compute().isnan() and metric.undefined_reason == "no rows were counted"


def test_it_is_added_to_by_an_update_only():
    """Outside of one nobody says of which rows a value is."""
    with pytest.raises(StateError, match=r"call avg\.update in update\(preds, target\)"):
        told(TokenAccuracyMetric).avg.update(torch.ones(2))
