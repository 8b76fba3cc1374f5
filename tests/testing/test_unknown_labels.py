"""Labels of a set that are not known: whatever is measured, they are as if they were not there."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import sklearn.metrics as sk
import torch
import torchmetrics.classification as tm
from matrix import covering
from torch import Tensor

from hpometrics import MetricCollection
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import MetricInputError, StateError
from hpometrics.metrics.features import PROBABILITIES, Binary, Set
from hpometrics.metrics.metric import MeanMetric
from hpometrics.metrics.registry.index import observed_of
from hpometrics.metrics.registry.register import get_metric
from hpometrics.testing import (
    all_subjects,
    check_company,
    check_forms,
    check_labels,
    check_merge,
    check_partition,
    check_repetition,
    check_row_order,
    check_soft_labels,
    check_state_dict,
    check_weights,
)
from hpometrics.testing.exemptions import EXEMPT

UNKNOWN = -1
SHAPES = [(200, 5, 0), (41, 3, 1), (13, 2, 2), (64, 17, 3)]
"""Rows, labels and seed."""

EACH_LABEL = [
    *("f1", "precision", "recall", "specificity", "jaccard", "informedness", "fowlkes_mallows"),
    *("fbeta(beta=2.0)", "roc_auc", "roc_auc(max_fpr=0.5)", "average_precision", "log_auc", "gini", "ks"),
    *("f1_max", "mcc_max", "accuracy_max", "recall_at_precision(precision=0.6)", "eer", "fpr_at_tpr"),
    *("roc_auc_binned", "average_precision_binned", "roc_curve", "precision_recall_curve", "det_curve"),
]
"""What is measured of one label against its absence, as of a binary output."""

ALL_LABELS = [
    *("log_loss", "brier", "binary_cross_entropy", "focal", "hinge", "kl_divergence"),
    *("ece", "mce", "rms_calibration_error", "reliability_curve", "adaptive_ece", "ks_calibration_error"),
    "hamming",
]
"""What takes every label of every row as a yes-or-no question of its own."""

EACH_ROW = [
    *("accuracy", "zero_one_loss", "coverage_error", "label_ranking_average_precision"),
    *("label_ranking_loss", "multilabel_margin", "f1(average=samples)", "jaccard(average=samples)"),
]
"""What is a mean over rows of something of all labels of each."""

COUNTED = {
    "f1": tm.MultilabelF1Score, "precision": tm.MultilabelPrecision, "recall": tm.MultilabelRecall,
    "specificity": tm.MultilabelSpecificity, "jaccard": tm.MultilabelJaccardIndex,
    "negative_predictive_value": tm.MultilabelNegativePredictiveValue,
    "roc_auc": tm.MultilabelAUROC, "average_precision": tm.MultilabelAveragePrecision,
}  # fmt: skip

WHOLE = {
    "accuracy": tm.MultilabelExactMatch,
    "label_ranking_average_precision": tm.MultilabelRankingAveragePrecision,
    "mcc(average=micro)": tm.MultilabelMatthewsCorrCoef,
    "confusion_matrix": tm.MultilabelConfusionMatrix,
}


def drawn(rows: int, labels: int, seed: int) -> tuple[Tensor, Tensor]:
    """Probabilities, few of which tie, and targets of which a third is not known; no row is without any."""
    random = torch.Generator().manual_seed(seed)
    target = torch.randint(2, (rows, labels), generator=random)
    noise = torch.randn(rows, labels, generator=random)
    probabilities = ((target + noise).sigmoid() * 64).round() / 65
    unknown = torch.rand(rows, labels, generator=random) < 0.33
    unknown[torch.arange(rows), torch.randint(labels, (rows,), generator=random)] = False
    return probabilities, target.masked_fill(unknown, UNKNOWN)


def values_of(name: str, output, *batches, **more) -> np.ndarray:
    """The value of a metric over some batches of probabilities and target."""
    metric = get_metric(name, output)
    form = "logits" if metric.inputs.value == "logits" else "probabilities"
    for probabilities, target in batches:
        given = probabilities.logit(1e-3) if form == "logits" else probabilities
        metric.update(**{form: given}, target=target, **more)
    return metric.compute().double().numpy()


def of_set(name: str, probabilities: Tensor, target: Tensor) -> np.ndarray:
    """Our value over two uneven batches."""
    third = -(-len(target) // 3)
    parts = [(probabilities[part], target[part]) for part in (slice(third), slice(third, None))]
    return values_of(name, Set(ignore_index=UNKNOWN), *parts)


def told(name: str, **params: object) -> str:
    """A name with further parameters."""
    bare, _, own = name.removesuffix(")").partition("(")
    more = ", ".join(f"{key}={value}" for key, value in params.items())
    return f"{bare}({', '.join(filter(None, [own, more]))})"


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", EACH_LABEL)
def test_a_label_is_a_binary_output_of_the_rows_where_it_is_known(name, shape):
    """Counts, areas, thresholds and curves of each label alone."""
    probabilities, target = drawn(*shape)
    for label in range(min(3, target.shape[1])):
        known = target[:, label] != UNKNOWN
        alone = values_of(name, Binary(), (probabilities[known, label], target[known, label]))
        found = of_set(told(name, **{"class": label}), probabilities, target)
        np.testing.assert_allclose(found, alone, rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", [*ALL_LABELS, "roc_auc(average=micro)", "f1_max(average=micro)"])
def test_labels_taken_together_are_those_that_are_known(name, shape):
    """Losses, calibration and pooled curves are those of a binary output of all that is known."""
    probabilities, target = drawn(*shape)
    known = target != UNKNOWN
    single = name.partition("(")[0]
    alone = values_of(single, Binary(), (probabilities[known], target[known]))
    np.testing.assert_allclose(of_set(name, probabilities, target), alone, rtol=1e-6)


@pytest.mark.parametrize(("name", "shape"), covering(product(EACH_ROW, SHAPES), list, ids=str))
def test_a_row_is_that_of_its_known_labels(name, shape):
    """Each row measured as a set of the labels that are known of it, and the mean over rows."""
    probabilities, target = drawn(*shape)
    rows = [
        values_of(name, Set(), (p[t != UNKNOWN][None], t[t != UNKNOWN][None]))
        for p, t in zip(probabilities, target, strict=True)
    ]
    np.testing.assert_allclose(of_set(name, probabilities, target), np.mean(rows), rtol=1e-6)


@pytest.mark.parametrize(
    "name", ["classwise_ece", "brier_reliability", "brier_resolution", "brier_uncertainty"]
)
def test_means_over_labels_leave_out_one_that_is_never_known(name):
    """Each label's own value is that of the rows where it is known; one of none has no value."""
    probabilities, target = drawn(60, 4, 5)
    target[:, 2] = UNKNOWN
    single = {"classwise_ece": "ece"}.get(name, name)
    each = [
        values_of(single, Binary(), (probabilities[known, label], target[known, label]))
        for label, known in enumerate((target != UNKNOWN).T)
        if known.any()
    ]
    np.testing.assert_allclose(of_set(name, probabilities, target), np.mean(each), rtol=1e-12)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("average", ["micro", "macro", "weighted", "none"])
@pytest.mark.parametrize("name", COUNTED)
def test_every_average_is_that_of_torchmetrics(name, average, shape):
    """Of the classes that know `ignore_index`."""
    probabilities, target = drawn(*shape)
    theirs = COUNTED[name](target.shape[1], average=average, ignore_index=UNKNOWN)
    found = of_set(told(name, average=average), probabilities, target)
    np.testing.assert_allclose(found, theirs(probabilities, target).numpy(), atol=1e-6)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("name", WHOLE)
def test_values_of_whole_sets_are_those_of_torchmetrics(name, shape):
    """Exact match asks for the labels that are known; a label that is not comes after all in a ranking."""
    probabilities, target = drawn(*shape)
    theirs = WHOLE[name](target.shape[1], ignore_index=UNKNOWN)(probabilities, target)
    np.testing.assert_allclose(of_set(name, probabilities, target), theirs.numpy(), atol=1e-6)


@pytest.mark.parametrize("name, measure", [
    ("coverage_error", sk.coverage_error), ("label_ranking_loss", sk.label_ranking_loss),
])  # fmt: skip
def test_rankings_are_those_of_scikit_learn_on_the_known_labels(name, measure):
    """Where torchmetrics counts labels that are not known: as taken by the cover, as wrong in every pair."""
    probabilities, target = drawn(60, 6, 4)
    rows = [
        measure(t[t != UNKNOWN][None].numpy(), p[t != UNKNOWN][None].numpy())
        for p, t in zip(probabilities, target, strict=True)
        if (t != UNKNOWN).sum() > 1  # scikit-learn takes one column for a binary output
    ]
    many = (target != UNKNOWN).sum(1) > 1
    found = of_set(name, probabilities[many], target[many])
    np.testing.assert_allclose(found, np.mean(rows), rtol=1e-12)


@pytest.mark.parametrize("ignored", [0, 1, 7, -100])
def test_any_number_may_say_that_a_label_is_not_known(ignored):
    """With 0 or 1 what is left is of one kind, as torchmetrics has it."""
    probabilities, target = drawn(50, 4, 6)
    target = target.masked_fill(target == UNKNOWN, ignored)
    theirs = tm.MultilabelRecall(4, average="micro", ignore_index=ignored)(probabilities, target)
    found = values_of("recall(average=micro)", Set(4, ignore_index=ignored), (probabilities, target))
    np.testing.assert_allclose(found, theirs.numpy(), atol=1e-6)


LAWS_HERE = (
    *(check_partition, check_merge, check_row_order, check_repetition, check_weights, check_soft_labels),
    *(check_company, check_state_dict, check_forms, check_labels),
)
UNCOUNTED = 7


def with_gaps(source):
    """Draw as before, and say of a quarter of the labels that they are not known."""

    def drawn(output, rows, noise=0.3, seed=0):
        batch = source(output, rows, noise, seed)
        random = torch.Generator().manual_seed(seed + 99)
        unknown = torch.rand(batch["target"].shape, generator=random) < 0.25
        return {**batch, "target": batch["target"].masked_fill(unknown, UNCOUNTED)}

    return drawn


SUBJECTS = [
    replace(subject, output=Set(3, ignore_index=UNCOUNTED), source=with_gaps(subject.source))
    for subject in all_subjects()
    if subject.output.type == "set"
]


def kinds_of(subject) -> list:
    """What a use of a metric stands for: the statistics that hold its state, and what it reads."""
    seen = observed_of(subject.entry)
    return [("statistics", seen and seen.statistics), subject.entry.inputs]


@pytest.mark.parametrize("subject", covering(SUBJECTS, kinds_of, ids=str))
def test_laws_hold_where_labels_are_not_known(subject, subtests):
    """However the rows were cut, merged, ordered, weighed, saved and shared."""
    for law in LAWS_HERE:
        if {subject.entry.name, str(subject.entry)}.isdisjoint(EXEMPT.get(law.__name__, {})):
            with subtests.test(law.__name__):
                law(subject)


@pytest.mark.parametrize("subject", covering(SUBJECTS, kinds_of, ids=str))
def test_an_update_on_a_device_reads_nothing(subject):
    """Labels that are not known weigh nothing there: to drop them would make the host wait."""
    metric = subject.make()
    for seed in (0, 1):
        batch = subject.draw(20, seed=seed)
        metric.update(**{name: torch.empty_like(value, device="meta") for name, value in batch.items()})
    assert metric.update_count == 2


def test_a_row_of_which_nothing_is_known_counts_for_nothing():
    """It is neither right nor wrong; an epoch of such rows has no value, and says why."""
    panel = MetricCollection(["accuracy", "hamming", "coverage_error"], Set(2, ignore_index=UNKNOWN))
    panel.update(predictions=[[1, 0], [1, 1]], target=[[-1, -1], [1, 0]], logits=[[0.0, 1.0], [2.0, 1.0]])
    assert {name: value.item() for name, value in panel.compute().items()} == {
        "accuracy": 0.0, "hamming": 0.5, "coverage_error": 1.0,
    }  # fmt: skip
    panel.reset()
    panel.update(predictions=[[1, 0]], target=[[-1, -1]], logits=[[0.0, 1.0]])
    assert panel.compute()["accuracy"].isnan() and panel.reasons["hamming"] == "nothing was measured"


def test_counts_by_hand():
    """Of each label only the rows where it is known: [[tn, fp], [fn, tp]]."""
    metric = get_metric("confusion_matrix", Set(2, ignore_index=UNKNOWN))
    metric.update(torch.tensor([[1, 0], [1, 1], [0, 1]]), torch.tensor([[1, -1], [0, 1], [-1, 0]]))
    assert metric.compute().tolist() == [[[0, 1], [0, 1]], [[0, 1], [0, 1]]]


class Surprise(MeanMetric):
    """A value per label, as a user would write it, who does not look for labels that are not known."""

    direction = MINIMIZE
    inputs = PROBABILITIES

    def get_current_value(self, preds: Tensor, target: Tensor) -> Tensor:
        """The distance of each label."""
        return (preds - target).abs()


def test_a_mean_over_labels_of_ones_own_leaves_out_what_is_not_known():
    """Where it has a value per label: (0.5 + 0.25 + 0.25) / 3."""
    metric = Surprise()
    metric.output = Set(2, ignore_index=UNKNOWN)
    metric.update(torch.tensor([[0.5, 0.9], [0.25, 0.75]]), torch.tensor([[1, -1], [0, 1]]))
    assert metric.compute().item() == pytest.approx(1 / 3)


def test_without_being_told_it_is_refused():
    """-1 is no label; the message says how to make it none."""
    panel = MetricCollection(["f1(average=macro)"], Set(2))
    with pytest.raises(MetricInputError, match=r"be in 0..1, got .* -1 .*: set\(ignore_index=-1\)"):
        panel.update(predictions=[[1, 0]], target=[[1, -1]])


def test_what_was_told_otherwise_does_not_merge():
    """Nor with what was told nothing."""
    panel = MetricCollection(["roc_auc"], Set(2, ignore_index=UNKNOWN))
    for other in (Set(2), Set(2, ignore_index=0)):
        with pytest.raises(StateError, match=r"set\(ignore_index=.*\) does not match .*; use the same"):
            panel.merge(MetricCollection(["roc_auc"], other))
