"""torchmetrics: one `MetricCollection` with its compute groups; log loss and Brier by its mean."""

from __future__ import annotations

import torch
import torchmetrics.classification as tm
from closed_forms import Values
from panels import Batches, Panel
from torch import Tensor
from torch.nn import functional
from torchmetrics import MeanMetric, Metric, MetricCollection

from hpometrics import Binary, Category

BINS = 15


def measure(panel: Panel, batches: Batches) -> Values:
    """Measure a panel; the classes that fit its output, in one collection."""
    decided, means = collection(panel), means_of(panel)
    for logits, target in batches:
        update(panel, decided, means, logits, target)
    return values_of(panel, decided, means)


def values_of(panel: Panel, decided: MetricCollection, means: dict[str, MeanMetric]) -> Values:
    """Compute the panel's values."""
    values = {name: value.item() for name, value in decided.compute().items()}
    values |= {name: mean.compute().item() for name, mean in means.items()}
    if isinstance(panel.output, Binary):
        values["balanced_accuracy"] = (values["recall"] + values["specificity"]) / 2
    return {name: values[_module_name(name)] for name in panel.metrics}


def collection(panel: Panel) -> MetricCollection:
    """Build the panel's collection."""
    if isinstance(panel.output, Category):
        metrics = _of_a_category(panel.columns)
    else:
        metrics = _of_binary() if isinstance(panel.output, Binary) else _of_a_set(panel.columns)
    return MetricCollection({_module_name(name): metric for name, metric in metrics.items()})


def means_of(panel: Panel) -> dict[str, MeanMetric]:
    """Build a mean for each of the panel's metrics that torchmetrics has no class for."""
    return {name: MeanMetric() for name in ("log_loss", "brier") if name in panel.metrics}


def update(
    panel: Panel, decided: MetricCollection, means: dict[str, MeanMetric], logits: Tensor, target: Tensor
) -> None:
    """Add one batch."""
    decided.update(logits, target)
    if isinstance(panel.output, Category):
        logp = logits.log_softmax(1)
        p, true = logp.exp(), logp.gather(1, target[:, None]).squeeze(1)
        means["log_loss"].update(-true)
        means["brier"].update(p.square().sum(1) - 2 * true.exp() + 1)
        return
    truth = target.float()
    means["log_loss"].update(functional.binary_cross_entropy_with_logits(logits, truth, reduction="none"))
    if "brier" in means:
        means["brier"].update((torch.sigmoid(logits) - truth).square())


def _of_a_category(c: int) -> dict[str, Metric]:
    return {
        "accuracy": tm.MulticlassAccuracy(c, average="micro"),
        "balanced_accuracy": tm.MulticlassAccuracy(c, average="macro"),
        "f1_macro": tm.MulticlassF1Score(c, average="macro"),
        "f1_micro": tm.MulticlassF1Score(c, average="micro"),
        "f1_weighted": tm.MulticlassF1Score(c, average="weighted"),
        "precision_macro": tm.MulticlassPrecision(c, average="macro"),
        "precision_weighted": tm.MulticlassPrecision(c, average="weighted"),
        "recall_macro": tm.MulticlassRecall(c, average="macro"),
        "specificity_macro": tm.MulticlassSpecificity(c, average="macro"),
        "jaccard_macro": tm.MulticlassJaccardIndex(c, average="macro"),
        "fbeta(average=macro, beta=2.0)": tm.MulticlassFBetaScore(2.0, c, average="macro"),
        "mcc": tm.MulticlassMatthewsCorrCoef(c),
        "cohen_kappa": tm.MulticlassCohenKappa(c),
        "hamming": tm.MulticlassHammingDistance(c, average="micro"),
        "hits@3": tm.MulticlassAccuracy(c, average="micro", top_k=3),
        "hits@5": tm.MulticlassAccuracy(c, average="micro", top_k=5),
        "roc_auc": tm.MulticlassAUROC(c, average="macro"),
        "average_precision": tm.MulticlassAveragePrecision(c, average="macro"),
        "ece": tm.MulticlassCalibrationError(c, n_bins=BINS),
    }


def _of_binary() -> dict[str, Metric]:
    return {
        "accuracy": tm.BinaryAccuracy(),
        "f1": tm.BinaryF1Score(),
        "precision": tm.BinaryPrecision(),
        "recall": tm.BinaryRecall(),
        "specificity": tm.BinarySpecificity(),
        "jaccard": tm.BinaryJaccardIndex(),
        "fbeta(beta=0.5)": tm.BinaryFBetaScore(0.5),
        "fbeta(beta=2.0)": tm.BinaryFBetaScore(2.0),
        "mcc": tm.BinaryMatthewsCorrCoef(),
        "cohen_kappa": tm.BinaryCohenKappa(),
        "hamming": tm.BinaryHammingDistance(),
        "roc_auc": tm.BinaryAUROC(),
        "average_precision": tm.BinaryAveragePrecision(),
        "ece": tm.BinaryCalibrationError(n_bins=BINS),
    }


def _of_a_set(c: int) -> dict[str, Metric]:
    return {
        "accuracy": tm.MultilabelExactMatch(c),
        "f1_macro": tm.MultilabelF1Score(c, average="macro"),
        "f1_micro": tm.MultilabelF1Score(c, average="micro"),
        "precision_macro": tm.MultilabelPrecision(c, average="macro"),
        "precision_micro": tm.MultilabelPrecision(c, average="micro"),
        "recall_macro": tm.MultilabelRecall(c, average="macro"),
        "recall_micro": tm.MultilabelRecall(c, average="micro"),
        "specificity_macro": tm.MultilabelSpecificity(c, average="macro"),
        "jaccard_macro": tm.MultilabelJaccardIndex(c, average="macro"),
        "jaccard_micro": tm.MultilabelJaccardIndex(c, average="micro"),
        "hamming": tm.MultilabelHammingDistance(c, average="micro"),
        "roc_auc": tm.MultilabelAUROC(c, average="macro"),
        "average_precision": tm.MultilabelAveragePrecision(c, average="macro"),
    }


def _module_name(name: str) -> str:
    """A name within a collection is one of a module, which holds no dot."""
    return name.replace(".", "_")
