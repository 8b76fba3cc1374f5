"""scikit-learn: every function called once, on the concatenated arrays; it has no calibration error."""

from __future__ import annotations

import numpy as np
import sklearn.metrics as sk
import torch
from closed_forms import Values
from numpy.typing import NDArray
from panels import Batches, Panel

from hpometrics import Binary, Category


def measure(panel: Panel, batches: Batches) -> Values:
    """Measure a panel, all but `ece`."""
    logits, target = (torch.cat(parts) for parts in zip(*batches, strict=True))
    if isinstance(panel.output, Category):
        values = _category(logits.double().softmax(1).numpy(), target.numpy())
    elif isinstance(panel.output, Binary):
        values = _binary(logits.sigmoid().numpy(), target.numpy())
    else:
        values = _set(logits.sigmoid().numpy(), target.numpy())
    return {name: float(values[name]) for name in panel.metrics if name in values}


def _category(p: NDArray[np.float64], y: NDArray[np.int64]) -> Values:
    d, classes = p.argmax(1), np.arange(p.shape[1])
    return {
        **_averaged(y, d, ("macro", "weighted", "micro")),
        **_decided(y, d),
        "fbeta(average=macro, beta=2.0)": sk.fbeta_score(y, d, beta=2.0, average="macro"),
        "specificity_macro": _specificity(sk.multilabel_confusion_matrix(y, d)),
        "hits@3": sk.top_k_accuracy_score(y, p, k=3, labels=classes),
        "hits@5": sk.top_k_accuracy_score(y, p, k=5, labels=classes),
        "roc_auc": sk.roc_auc_score(y, p, multi_class="ovr"),
        "average_precision": sk.average_precision_score(y, p),
        "log_loss": sk.log_loss(y, p, labels=classes),
        "brier": sk.brier_score_loss(y, p, labels=classes, scale_by_half=False),
    }


def _binary(p: NDArray[np.float32], y: NDArray[np.int64]) -> Values:
    d = (p > 0.5).astype(np.int64)
    return {
        **_decided(y, d),
        "f1": sk.f1_score(y, d),
        "precision": sk.precision_score(y, d),
        "recall": sk.recall_score(y, d),
        "specificity": sk.recall_score(y, d, pos_label=0),
        "jaccard": sk.jaccard_score(y, d),
        "fbeta(beta=0.5)": sk.fbeta_score(y, d, beta=0.5),
        "fbeta(beta=2.0)": sk.fbeta_score(y, d, beta=2.0),
        "roc_auc": sk.roc_auc_score(y, p),
        "average_precision": sk.average_precision_score(y, p),
        "log_loss": sk.log_loss(y, p.astype(np.float64)),
        "brier": sk.brier_score_loss(y, p),
    }


def _set(p: NDArray[np.float32], y: NDArray[np.int64]) -> Values:
    d = (p > 0.5).astype(np.int64)
    per_label = [sk.log_loss(y[:, i], p[:, i].astype(np.float64)) for i in range(y.shape[1])]
    return {
        **_averaged(y, d, ("macro", "micro")),
        "accuracy": sk.accuracy_score(y, d),
        "specificity_macro": _specificity(sk.multilabel_confusion_matrix(y, d)),
        "hamming": sk.hamming_loss(y, d),
        "roc_auc": sk.roc_auc_score(y, p),
        "average_precision": sk.average_precision_score(y, p),
        "log_loss": np.mean(per_label),
    }


def _decided(y: NDArray[np.int64], d: NDArray[np.int64]) -> Values:
    return {
        "accuracy": sk.accuracy_score(y, d),
        "balanced_accuracy": sk.balanced_accuracy_score(y, d),
        "mcc": sk.matthews_corrcoef(y, d),
        "cohen_kappa": sk.cohen_kappa_score(y, d),
        "hamming": sk.hamming_loss(y, d),
    }


def _averaged(y: NDArray[np.int64], d: NDArray[np.int64], averages: tuple[str, ...]) -> Values:
    """Precision, recall and F1 of one average come from one call; nothing found counts as 0."""
    values: Values = {}
    for average in averages:
        parts = sk.precision_recall_fscore_support(y, d, average=average, zero_division=0)
        values |= dict(
            zip((f"{name}_{average}" for name in ("precision", "recall", "f1")), parts, strict=False)
        )
        values[f"jaccard_{average}"] = sk.jaccard_score(y, d, average=average)
    return values


def _specificity(matrices: NDArray[np.int64]) -> float:
    """The mean share of each class's negatives that are left alone, from (classes, 2, 2) counts."""
    return float((matrices[:, 0, 0] / matrices[:, 0].sum(1)).mean())
