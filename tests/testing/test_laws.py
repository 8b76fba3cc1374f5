from __future__ import annotations

import re
from dataclasses import replace
from operator import attrgetter

import numpy as np
import pytest
import torch
import torchmetrics
from matrix import covering, entries, failures, traits
from sample_metrics import Gap, OwnGap, ScaledGap, SharedGap, SharedTotal

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import MetricInputError, UnknownMetricError
from hpometrics.metrics.batch import Outputs
from hpometrics.metrics.features import (
    BINARY,
    CATEGORY,
    CLUSTERS,
    NUMBER,
    PREDICTIONS,
    PROBABILITIES,
    parse_feature,
)
from hpometrics.metrics.metric import MeanMetric
from hpometrics.metrics.registry.index import all_entries
from hpometrics.run.checkpoint import random_states, set_random_states
from hpometrics.testing import (
    LAWS,
    OUTPUTS,
    LawBroken,
    Subject,
    check_buffer,
    check_company,
    check_device,
    check_direction,
    check_division,
    check_empty,
    check_forms,
    check_forward,
    check_half,
    check_ignored,
    check_inputs,
    check_labels,
    check_margin,
    check_merge,
    check_partition,
    check_pickle,
    check_policy,
    check_refusal,
    check_repetition,
    check_reset,
    check_row_order,
    check_shapes,
    check_single,
    check_state_dict,
    check_streams,
    check_sync_free,
    check_value_scale,
    check_whole_numbers,
    draw,
    subjects_of,
)
from hpometrics.testing.exemptions import EXEMPT, LAST_DIGIT, NO_DIRECTION, UNTRIED
from hpometrics.testing.subjects import is_here

pytestmark = pytest.mark.usefixtures("streams")

TRIED = [entry for entry in entries() if is_here(entry)]
"""All but those whose packages are not installed, and those that download a trained network."""
SUBJECTS = [subject for entry in TRIED for subject in subjects_of(entry)]

LAWS_HERE = [law for law in LAWS if law is not check_device or torch.cuda.is_available()]
"""The device law has nothing to look at without an accelerator."""


def is_exempt(law, entry) -> bool:
    """Whether a metric breaks a law by its nature."""
    return not {entry.name, str(entry)}.isdisjoint(EXEMPT.get(law.__name__, {}))


def traits_of(subject) -> list:
    """What a use of a metric stands for; the matrix of averages is that of the oracles."""
    return traits(subject.entry)


@pytest.mark.parametrize("subject", covering(SUBJECTS, traits_of, ids=str))
def test_every_law(subject):
    """Every use of every metric keeps every law, unless it is exempt by name; each broken law is reported."""
    laws = [law for law in LAWS_HERE if not is_exempt(law, subject.entry)]
    assert failures(laws, lambda law: law(subject)) == []


def _has_no_value(subject, noise) -> bool:
    """A model that makes no mistake has no likelihood ratio: there is nothing to divide by."""
    return subject.entry.name == "positive_likelihood_ratio" and noise == 0.0


EXEMPTIONS = [
    (law, name, uses)
    for law in LAWS
    for name in EXEMPT.get(law.__name__, {})
    if (law.__name__, name) not in LAST_DIGIT
    and (uses := [one for one in SUBJECTS if name in (one.entry.name, str(one.entry))])
]


@pytest.mark.parametrize(
    ("law", "name", "uses"),
    covering(
        EXEMPTIONS,
        lambda case: [(case[0], EXEMPT[case[0].__name__][case[1]])],
        ids=lambda case: f"{case[0].__name__}-{case[1]}",
    ),
)
def test_an_exemption_is_needed(law, name, uses):
    """What is exempt does break the law: nobody is let off who could keep it."""
    with pytest.raises(LawBroken):
        for subject in uses:
            law(subject)


RANGE = re.compile(
    r"float (?:in [\[(](?P<low>-?\w+), (?P<high>\w+)[\])]|from (?P<least>\d+)|up to (?P<most>\d+))"
)


RANGED = [s for s in SUBJECTS if not s.per_class and s.entry.value.startswith("float")]


def range_of(subject) -> list:
    """What a use of a metric stands for, each range that is stated included."""
    return [*traits_of(subject), ("range", *RANGE.match(subject.entry.value).groups())]


@pytest.mark.parametrize("subject", covering(RANGED, range_of, ids=str))
def test_values_lie_in_the_stated_range(subject):
    """`Value: float in [0, 1]` of the docstring holds, for a model that is right, wrong, or mere noise."""
    found = RANGE.match(subject.entry.value)
    low, high = (
        float(found["low"] or found["least"] or "-inf"),
        float(found["high"] or found["most"] or "inf"),
    )
    for noise in (0.0, 0.5, 1.0):
        value = float(subject.measure(subject.draw(60, noise)))
        assert low - 1e-12 <= value <= high + 1e-12 or _has_no_value(subject, noise)


def test_exempt_and_the_rest_are_the_whole_registry():
    """An exemption names a law and an entry that exist, with a reason; every entry has a subject."""
    names = {name for entry in all_entries() for name in (entry.name, str(entry))}
    assert EXEMPT.keys() <= {law.__name__ for law in LAWS}
    for exempt in (NO_DIRECTION, *EXEMPT.values()):
        assert exempt.keys() <= names and all(exempt.values())
    assert {str(subject.entry) for subject in SUBJECTS} == {str(entry) for entry in TRIED}
    assert {entry.name for entry in all_entries() if entry.direction is None} == set(NO_DIRECTION)
    assert UNTRIED.keys() <= {one.name for one in all_entries() if one.requires} and all(UNTRIED.values())


DIRECTED = [entry for entry in TRIED if entry.direction]


@pytest.mark.parametrize(
    "entry", covering(DIRECTED, lambda entry: [entry.feature_type, entry.direction], ids=str)
)
def test_a_flipped_direction_breaks_the_law(entry):
    """The experiment is strong enough to tell: with the other direction every use of the entry fails."""
    flipped = replace(entry, direction=MINIMIZE if entry.direction is MAXIMIZE else MAXIMIZE)
    scalars = [subject for subject in subjects_of(flipped) if not subject.per_class]
    assert scalars
    for subject in scalars:
        with pytest.raises(LawBroken, match=f"says {flipped.direction}; noise"):
            check_direction(subject)


class MeanOfMeans(Gap):
    """Every batch weighs the same."""

    def get_current_value(self, preds, target):
        return (preds - target).abs().mean(), 1.0


class LastRow(Gap):
    """Only the last row of a batch counts."""

    def get_current_value(self, preds, target):
        return (preds - target).abs()[-1]


class ZeroWhenEmpty(OwnGap):
    """A best value out of nothing."""

    def compute(self):
        rows = sum(len(gaps) for gaps in self.gaps)
        return self.total / max(rows, 1)


class KeepsInputs(OwnGap):
    """Holds the caller's tensors."""

    def update(self, preds, target):
        self.gaps.append(preds)

    def compute(self):
        return torch.cat(self.gaps).double().mean() if self.gaps else self.undefined("no row")


class WritesInputs(Gap):
    """Works in place on what it was lent."""

    def get_current_value(self, preds, target):
        return preds.sub_(target).abs()


class NarrowSum(Gap):
    """Sums in the precision of its inputs."""

    def get_current_value(self, preds, target):
        return (preds - target).square().sum() / len(preds)


class HiddenState(OwnGap):
    """Keeps its sum where nobody looks."""

    def __init__(self):
        super().__init__()
        self.hidden = 0.0

    def update(self, preds, target):
        self.hidden += (preds - target).abs().sum().item()
        self.total += len(preds)

    def compute(self):
        return torch.tensor(self.hidden) / self.total


class ClassState(Gap):
    """Keeps its sum on the class, so that every object has it."""

    seen: list = []  # noqa: RUF012

    def get_current_value(self, preds, target):
        self.seen.append((preds - target).abs().mean())
        return torch.stack(self.seen).mean()


class OpenDoor(Gap):
    """Lets everything in."""

    def __init__(self):
        super().__init__()
        self._validator.validate = lambda batch, number: None


class RunningForward(Gap):
    """Answers a batch with the value of the epoch."""

    def forward(self, *args, **kwargs):
        self.update(*args, **kwargs)
        return self.compute()


class NeedsContiguous(Gap):
    """Sees nothing in strided tensors."""

    def get_current_value(self, preds, target):
        return (preds - target).abs() * preds.is_contiguous()


class ReadsWhatIsGiven(MeanMetric):
    """Takes the first tensor for what it wants."""

    direction = MAXIMIZE
    inputs = PROBABILITIES

    def measure(self, batch):
        return next(iter(batch.given.values()))


class InfiniteAlone(Gap):
    """Divides by the spread of its rows."""

    def get_current_value(self, preds, target):
        return (preds - target).abs() / target.std(correction=0)


class LetsLabelsIn(MeanMetric):
    """Counts every row, whatever its label."""

    direction = MINIMIZE
    inputs = PROBABILITIES

    def __init__(self):
        super().__init__()
        self._validator.validate = lambda batch, number: batch

    def get_current_value(self, preds, target):
        return (preds - (target == 1).double()).abs()


class DeafToPolicy(Gap):
    """Refuses what is not finite, whatever it is told."""

    non_finite = "error"


class CopiesNumbers(Gap):
    """Makes a tensor of numbers for each batch."""

    def get_current_value(self, preds, target):
        return (preds - target).abs() * torch.tensor([2.0], device=preds.device)


class SeedsAll(Gap):
    """Starts the streams anew, as who wants the same draws each time."""

    def get_current_value(self, preds, target):
        torch.manual_seed(0)
        return (preds - target).abs() + 0 * torch.rand(())


class DrawsFromNumPy(Gap):
    """Takes numbers from the stream that a training uses."""

    def get_current_value(self, preds, target):
        return (preds - target).abs() + 0 * np.random.rand()


class SeedsTheDevice(Gap):
    """Puts the stream of the CPU back, and not that of the accelerator."""

    def get_current_value(self, preds, target):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return (preds - target).abs() + 0 * torch.rand(())


class NarrowGap(Gap):
    """Measures in single precision, where 1e-300 is 0."""

    def get_current_value(self, preds, target):
        return (preds - target).float().abs()


class RoundedGap(Gap):
    """Rounds whole numbers to float64 before it subtracts them."""

    def get_current_value(self, preds, target):
        return (preds.double() - target.double()).abs()


class MissesItsGoal(MeanMetric):
    """Counts the rows whose share of the largest is all of it."""

    direction = MAXIMIZE
    inputs = PROBABILITIES

    def get_current_value(self, preds, target):
        return (3 * preds / (3 * preds).amax().item() == 1).double()


class Saturates(MeanMetric):
    """Reads whether a model is sure off its rounded probability."""

    direction = MAXIMIZE
    inputs = PROBABILITIES

    def get_current_value(self, preds, target):
        return (preds < 1).double()


class ForgetsWhenCalled(OwnGap):
    """Is called as torchmetrics has it, which resets the metric before a batch that may be refused."""

    forward = torchmetrics.Metric.forward


class HidesItsScale(Gap):
    """Stores its parameter where its name does not look."""

    def __init__(self, *, scale: float = 1.0):
        super().__init__()
        self._scale = scale


class SpoilsBlocks(MeanMetric):
    """Writes to the probabilities that all metrics share."""

    direction = MAXIMIZE
    inputs = PROBABILITIES

    def get_current_value(self, preds, target):
        return preds.zero_()


@pytest.mark.parametrize(
    ("cls", "law"),
    [
        (MeanOfMeans, check_partition),
        (MeanOfMeans, check_merge),
        (LastRow, check_row_order),
        (SharedTotal, check_repetition),
        (ZeroWhenEmpty, check_empty),
        (KeepsInputs, check_buffer),
        (WritesInputs, check_buffer),
        (NarrowSum, check_half),
        (HiddenState, check_merge),
        (HiddenState, check_reset),
        (HiddenState, check_state_dict),
        (ClassState, check_pickle),
        (OpenDoor, check_refusal),
        (RunningForward, check_forward),
        (NeedsContiguous, check_forms),
        (ReadsWhatIsGiven, check_inputs),
        (InfiniteAlone, check_single),
        (LetsLabelsIn, check_labels),
        (LetsLabelsIn, check_ignored),
        (OpenDoor, check_shapes),
        (DeafToPolicy, check_policy),
        (ForgetsWhenCalled, check_policy),
        (HiddenState, check_sync_free),
        (CopiesNumbers, check_sync_free),
        (SeedsAll, check_streams),
        (DrawsFromNumPy, check_streams),
        (SeedsTheDevice, check_streams),
        (NarrowGap, check_value_scale),
        (RoundedGap, check_whole_numbers),
        (MissesItsGoal, check_division),
        (Saturates, check_margin),
        (HidesItsScale, check_company),
    ],
    ids=lambda thing: thing.__name__,
)
def test_a_law_catches_who_breaks_it(cls, law, registry):
    """Each law can fail: a metric with that one fault is caught, and the message names it."""
    feature = BINARY if cls.inputs is PROBABILITIES else NUMBER
    registry.register_metric("faulty", [feature])(cls)
    before = random_states()
    with pytest.raises(LawBroken, match=f"faulty-{feature}|faulty of"):
        law(*subjects_of("faulty", feature))
    set_random_states(before)


def test_a_metric_that_spoils_others_is_caught(registry):
    """In the company of one that writes to shared blocks another metric has another value."""
    check_company(*subjects_of("brier", BINARY))
    registry.register_metric("a_spoiler", [BINARY])(SpoilsBlocks)
    with pytest.raises(LawBroken, match="brier-binary: in a collection of all metrics"):
        check_company(*subjects_of("brier", BINARY))


@pytest.mark.parametrize("cls", [Gap, OwnGap, SharedGap, ScaledGap])
@pytest.mark.parametrize("law", LAWS, ids=attrgetter("__name__"))
def test_every_kind_of_metric_can_keep_every_law(law, cls, registry):
    """By rows, by its own update, over a statistic, with a parameter: nothing but a fault breaks a law."""
    registry.register_metric("sound", [NUMBER])(cls)
    law(*subjects_of("sound", NUMBER))


DRAWN = {subject.output.type for subject in SUBJECTS if subject.source is draw} - {CLUSTERS}
"""What `draw` has recipes for; the groups of clusters are right under other numbers."""


def _share_right(output, batch):
    """The share of answers that are the target; of a ranking, of users whose first item is relevant."""
    if output.type == "ranking":
        return batch["target"].gather(1, batch["logits"].argmax(1, keepdim=True)).gt(0).double().mean().item()
    right = Outputs(output, **batch).predictions == batch["target"]
    return right[batch["target"] != -100].double().mean().item()


@pytest.mark.parametrize("kind", sorted(DRAWN))
def test_a_draw_is_right_but_for_its_noise(kind):
    """Same seed, same batch; without noise every answer is right, with much of it most are wrong."""
    output = OUTPUTS.get(kind) or parse_feature(kind)
    shares = []
    for noise in (0.0, 0.3, 0.9):
        batch, twin = draw(output, 300, noise, seed=5), draw(output, 300, noise, seed=5)
        assert all(torch.equal(batch[name], twin[name]) for name in batch)
        shares.append(_share_right(output, batch))
    assert shares[0] == 1.0 > shares[1] > shares[2]


def test_parameters_are_tried_out():
    """Each choice of a choice, 2 for a k; a feature is one of several, a name that is none is refused."""
    assert [str(s) for s in subjects_of("hits", CATEGORY)] == [
        "hits@2-category",
        "hits(average=macro)@2-category",
    ]
    assert {str(s.name) for s in subjects_of("f1", CATEGORY)} == {
        "f1(class=2)",
        *(f"f1(average={average})" for average in ("micro", "macro", "weighted", "none")),
    }
    assert [s.per_class for s in subjects_of("f1", CATEGORY)].count(True) == 1
    assert {s.output.type for s in subjects_of("accuracy")} == {BINARY, CATEGORY, "set", "text"}
    with pytest.raises(UnknownMetricError, match="no metric 'acuracy'"):
        subjects_of("acuracy")


def test_an_author_may_bring_data():
    """A feature that `draw` has no recipe for needs a draw of the author's own."""
    with pytest.raises(
        MetricInputError, match=r"no batch can be drawn for a boxes output; pass your own Subject"
    ):
        draw(parse_feature("boxes"), 3)
    (subject,) = subjects_of(
        "mse", NUMBER, source=lambda *_: {"predictions": torch.ones(4), "target": torch.ones(4)}
    )
    assert isinstance(subject, Subject) and subject.measure(subject.draw(9)).item() == 0.0
    assert subject.entry.inputs is PREDICTIONS
    check_company(subject)
