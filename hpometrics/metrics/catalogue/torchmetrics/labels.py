"""Rows of classification metrics: binary outputs, categories and sets of labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricInputError
from ...features import BINARY, CATEGORY, PROBABILITIES, SET
from ._row import MetricInputs, Row

_ALL = (BINARY, CATEGORY, SET)
_FOUR = ("macro", "micro", "weighted", "none")
_SHARE = "float in [0, 1], no unit, 1 is best"
_ERROR = "float in [0, 1], no unit, 0 is best"
_BOOKS = "Sokolova & Lapalme 2009, Information Processing & Management 45(4)."


def in_groups(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with predictions, target and the group of each row, which must be one of the groups."""
    groups, last = inputs.extras["groups"], int(inner.num_groups) - 1  # type: ignore[arg-type]  # a number
    odd = groups if isinstance(groups, list) else groups[(groups < 0) | (groups > last) | (groups % 1 != 0)]
    if len(odd):
        first = odd[0].item() if isinstance(odd, Tensor) else odd[0]
        raise MetricInputError(
            f"fairness needs groups= as whole numbers from 0 to {last}, got {first!r}; set "
            f"fairness(num_groups={last + 2}) for more"
        )
    with inputs.preds.device:  # torchmetrics makes a target of its own for demographic_parity
        inner.update(inputs.preds, inputs.target, groups.long())


def without_rates(inputs: MetricInputs, params: Mapping[str, Any]) -> str | None:
    """Return why no rate is a share of another: a group has none, or all are 0."""
    groups, count = inputs.extras["groups"].long(), params["num_groups"]
    rows = {
        "demographic_parity": ("", inputs.target >= 0),
        "equal_opportunity": (" of class 1", inputs.target == 1),
    }
    for task, (kind, among) in rows.items():
        if params["task"] not in ("all", task):
            continue
        without = torch.bincount(groups[among], minlength=count) == 0
        if without.any():
            return f"group {int(without.nonzero()[0])} of {count} has no row{kind}"
        if not inputs.preds[among].any():
            return f"no row{kind} is predicted 1"
    return None


def _counts(name: str, source: str, summary: str, formula: str, **more: Any) -> Row:
    facts: dict[str, Any] = {
        "features": _ALL, "direction": MAXIMIZE, "params": {"average": _FOUR}, "value": _SHARE, **more
    }  # fmt: skip
    return Row(
        name=name, source=f"classification.{source}", summary=summary, formula=formula, paper=_BOOKS,
        **facts,
    )  # fmt: skip


def _scores(name: str, source: str, summary: str, formula: str, **more: Any) -> Row:
    facts: dict[str, Any] = {"params": {}, "inputs": PROBABILITIES, "keeps": "rows", **more}
    return _counts(name, source, summary, formula, **facts)


def _at_level(name: str, source: str, least: str, summary: str, formula: str) -> Row:
    return _scores(name, source, summary, formula, params={least: float}, component=(0, "mean"))


ROWS = [
    _counts(
        "accuracy", "Accuracy", "Share of rows that are predicted correctly.", "right / rows",
        features=(BINARY, CATEGORY), params={}, fixed={"average": "micro"},
    ),
    _counts(
        "balanced_accuracy", "MulticlassAccuracy",
        "Mean recall over classes.",
        "mean of right / rows of the class", features=(CATEGORY,), params={}, fixed={"average": "macro"},
    ),
    _counts(
        "label_accuracy", "MultilabelAccuracy", "Share of labels that are predicted correctly.",
        "right / labels", features=(SET,), params={}, fixed={"average": "micro"},
    ),
    _counts(
        "accuracy", "MultilabelExactMatch", "Share of rows in which every label is right.",
        "right rows / rows", features=(SET,), params={},
    ),
    _counts("precision", "Precision", "Share of the predicted positives that are right.", "tp / (tp + fp)"),
    _counts("recall", "Recall", "Share of the positives that are found.", "tp / (tp + fn)"),
    _counts(
        "specificity", "Specificity", "Share of the negatives that are predicted negative.",
        "tn / (tn + fp)",
    ),
    _counts(
        "negative_predictive_value", "NegativePredictiveValue",
        "Share of the predicted negatives that are right.",
        "tn / (tn + fn)", aliases=("npv",),
    ),
    _counts("f1", "F1Score", "Harmonic mean of precision and recall.", "2 tp / (2 tp + fp + fn)"),
    _counts(
        "fbeta", "FBetaScore", "Weighted harmonic mean of precision and recall.",
        "(1 + b^2) tp / ((1 + b^2) tp + b^2 fn + fp)", params={"beta": float, "average": _FOUR},
    ),
    _counts(
        "jaccard", "JaccardIndex", "Overlap of predicted and true rows over their union.",
        "tp / (tp + fp + fn)",
    ),
    _counts(
        "hamming", "HammingDistance", "Share of labels that are predicted wrongly.", "wrong / labels",
        params={}, fixed={"average": "micro"}, direction=MINIMIZE, value=_ERROR,
    ),
    _counts(
        "mcc", "MatthewsCorrCoef", "Correlation of predicted and true classes.",
        "cov(preds, target) / sqrt(var(preds) var(target))", params={}, aliases=("matthews_corrcoef",),
        value="float in [-1, 1], no unit, 1 is best, 0 is chance",
    ),
    _counts(
        "cohen_kappa", "CohenKappa", "Agreement beyond chance.", "(p_o - p_e) / (1 - p_e)",
        features=(BINARY, CATEGORY), params={"weights": ("none", "linear", "quadratic")},
        value="float in [-1, 1], no unit, 1 is best, 0 is chance",
    ),
    _counts(
        "fairness", "BinaryFairness", "Lowest rate of a group over the highest, of `groups=` (N,) int.",
        "min of least / largest share predicted 1, and of least / largest recall", features=(BINARY,),
        shape="preds, target, `groups=`: (N,) int.",
        params={"num_groups": 2, "task": ("all", "demographic_parity", "equal_opportunity")},
        feed=in_groups, void=without_rates, extras=("groups",), component=("least",), keeps="rows",
        value=f"{_SHARE}; nan where a group has no row (of class 1), or none is predicted 1",
        deviates="torchmetrics says that lower is better; 1 is fair. Where a rate is missing it gives 0.",
    ),
    _scores(
        "roc_auc", "AUROC", "Area under the ROC curve.",
        "area under the curve",
    ),
    _scores(
        "average_precision", "AveragePrecision", "Average precision at the rows of the class.",
        "sum of (recall step) * precision",
    ),
    _scores(
        "ece", "CalibrationError", "Mean gap of confidence and accuracy over bins.", "sum of share * gap",
        features=(BINARY, CATEGORY), direction=MINIMIZE, value=_ERROR,
    ),
    _scores(
        "eer", "EER", "Error rate where both kinds of error are equally frequent.", "fpr = fnr",
        direction=MINIMIZE,
        value=_ERROR, component=("mean",),
    ),
    _scores(
        "hinge", "HingeLoss", "Mean hinge loss of probabilities.", "mean of max(0, 1 - margin)",
        features=(BINARY, CATEGORY), direction=MINIMIZE, value="float from 0, no unit, 0 is best",
    ),
    _scores(
        "log_auc", "LogAUC", "Area under the ROC curve over log fpr.", "mean tpr over log fpr",
        component=("mean",),
    ),
    _at_level(
        "precision_at_recall", "PrecisionAtFixedRecall", "min_recall",
        "Highest precision where recall is at least `min_recall`.", "max precision",
    ),
    _at_level(
        "recall_at_precision", "RecallAtFixedPrecision", "min_precision",
        "Highest recall where precision is at least `min_precision`.", "max recall",
    ),
    _at_level(
        "sensitivity_at_specificity", "SensitivityAtSpecificity", "min_specificity",
        "Highest sensitivity where specificity is at least `min_specificity`.", "max sensitivity",
    ),
    _at_level(
        "specificity_at_sensitivity", "SpecificityAtSensitivity", "min_sensitivity",
        "Highest specificity where sensitivity is at least `min_sensitivity`.", "max specificity",
    ),
    _scores(
        "coverage_error", "MultilabelCoverageError",
        "Number of top-scoring labels that include all right ones.",
        "mean of the largest rank", features=(SET,), direction=MINIMIZE, keeps="states",
        value="float from 0, in labels, the mean number of labels is best",
    ),
    _scores(
        "label_ranking_average_precision", "MultilabelRankingAveragePrecision",
        "Mean precision at each label that a row has.", "mean of right above / rank", features=(SET,),
        keeps="states",
    ),
    _scores(
        "label_ranking_loss", "MultilabelRankingLoss", "Share of pairs of labels in the wrong order.",
        "wrong pairs / pairs", features=(SET,), keeps="states", direction=MINIMIZE, value=_ERROR,
    ),
]  # fmt: skip
