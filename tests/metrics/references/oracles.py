"""The oracles: what scikit-learn, scipy and torchmetrics say of a case, by metric and feature.

A reference takes what the model gave as NumPy arrays (`Case`) and says the library's value. Where a library
answers what is undefined with a number, the reference says nan, as we do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
import scipy.special
import scipy.stats
import sklearn.metrics as sk
import torch
import torchmetrics.functional as tm
import torchmetrics.functional.text as tm_text
from oracle_cases import NAN, Case, Reference

AVERAGES = ("micro", "macro", "weighted", "none")


def averaged(
    per_class: Callable[[np.ndarray, np.ndarray], float], average: str, *, every: bool = False
) -> Reference:
    """Average a yes-or-no score over the classes that occur, as scikit-learn does with its default labels.

    With `every` all are averaged, as torchmetrics does with the labels of a set.
    """

    def reference(case: Case) -> float | np.ndarray:
        if average == "micro":
            stacked = np.concatenate([np.stack(column[:2]) for column in case.columns], axis=1)
            return per_class(*stacked)
        values = np.array([per_class(target, preds) for target, preds, _ in case.columns])
        occurs = np.array([every or bool(target.any() or preds.any()) for target, preds, _ in case.columns])
        if average == "none":
            return np.where(occurs, values, NAN)
        weights = [
            target.sum() if average == "weighted" else here
            for (target, _, _), here in zip(case.columns, occurs, strict=True)
        ]
        return np.average(values, weights=weights) if np.sum(weights) else NAN

    return reference


def curve(per_class: Callable[[np.ndarray, np.ndarray], float], average: str) -> Reference:
    """Average an area over the classes that have one."""

    def reference(case: Case) -> float | np.ndarray:
        areas = np.array([_area(per_class, target, scores) for target, _, scores in case.columns])
        if average == "none":
            return areas
        weights = np.array(
            [float(target.sum()) if average == "weighted" else 1.0 for target, _, _ in case.columns]
        )
        has = ~np.isnan(areas)
        return np.average(areas[has], weights=weights[has]) if has.any() else NAN

    return reference


def _area(per_class: Callable, target: np.ndarray, scores: np.ndarray) -> float:
    if not target.any() or (per_class is sk.roc_auc_score and target.all()):
        return NAN
    return per_class(target, scores)


def decision(score: Callable, **options) -> Reference:
    """A scikit-learn score of target and predictions."""
    return lambda case: score(case.target, case.predictions, **options)


def yes_or_no(score: Callable, zero_division: float) -> Callable[[np.ndarray, np.ndarray], float]:
    """A score of class 1 with scikit-learn's answer to a denominator of 0 spelled out."""
    return lambda target, preds: score(target, preds, labels=[0, 1], zero_division=zero_division)


def real(score: Callable) -> Reference:
    """A scikit-learn score of real outputs."""
    return lambda case: score(case.target, case.predictions)


def per_column(score: Callable[[np.ndarray, np.ndarray], float]) -> Reference:
    """The mean over columns of a score that scipy or torchmetrics has for one."""

    def reference(case: Case) -> float:
        target, preds = (x.reshape(len(x), -1).T for x in (case.target, case.predictions))
        return float(np.mean([score(p, t) for p, t in zip(preds, target, strict=True)]))

    return reference


def spread_or_nan(score: Reference) -> Reference:
    """A share of variation needs two rows."""
    return lambda case: score(case) if len(case.target) > 1 else NAN


def all_labels(case: Case) -> list[int]:
    """The classes of a category or of a binary output."""
    return [0, 1] if case.feature == "binary" else list(range(case.logits.shape[1]))


def kappa(weights: str | None) -> Reference:
    """Cohen's kappa; nan where target and predictions are one and the same class."""
    return lambda case: sk.cohen_kappa_score(
        case.target, case.predictions, labels=all_labels(case), weights=weights
    )


def mcc(case: Case) -> float:
    """Matthews' correlation; undefined where target or predictions are constant (scikit-learn gives 0)."""
    constant = len(set(case.target)) == 1 or len(set(case.predictions)) == 1
    return NAN if constant else sk.matthews_corrcoef(case.target, case.predictions)


def specificity(target: np.ndarray, preds: np.ndarray, zero_division: float = 0) -> float:
    """The recall of class 0."""
    return sk.recall_score(target, preds, pos_label=0, labels=[0, 1], zero_division=zero_division)


def log_loss(case: Case) -> float:
    """Mean over the labels of a set, as scikit-learn has one column only."""
    if case.feature == "category":
        return sk.log_loss(case.target, case.probabilities, labels=all_labels(case))
    return float(np.mean([sk.log_loss(target, scores, labels=[0, 1]) for target, _, scores in case.columns]))


def brier(case: Case) -> float:
    """The sum over classes of a category, the square of class 1 of a binary output."""
    if case.feature == "binary":
        return sk.brier_score_loss(case.target, case.probabilities, labels=[0, 1])
    return sk.brier_score_loss(case.target, case.probabilities, labels=all_labels(case), scale_by_half=False)


def ece(case: Case) -> float:
    """The binned calibration error of torchmetrics."""
    probabilities, _, target = case.tensors
    if case.feature == "binary":
        return tm.classification.binary_calibration_error(probabilities, target, 15).item()
    classes = probabilities.shape[1]
    return tm.classification.multiclass_calibration_error(probabilities, target, classes, 15).item()


def hits(case: Case) -> float:
    """Top-2; scikit-learn breaks ties the other way, so the scores are given a hint of class order."""
    hinted = case.logits - 1e-9 * np.arange(case.logits.shape[1])
    return sk.top_k_accuracy_score(case.target, hinted, k=2, labels=all_labels(case))


def token_accuracy(case: Case) -> float:
    """The micro accuracy of torchmetrics over tokens that count."""
    _, preds, target = case.tensors
    return tm.classification.multiclass_accuracy(
        preds, target, num_classes=7, average="micro", ignore_index=-100
    ).item()


def token_accuracy_by_sequence(case: Case) -> float:
    """The mean of torchmetrics' accuracies of the sequences that have tokens."""
    _, preds, target = case.tensors
    shares = tm.classification.multiclass_accuracy(
        preds, target, num_classes=7, average="micro", ignore_index=-100, multidim_average="samplewise"
    )
    has_tokens = (target != -100).any(1)
    return shares[has_tokens].double().mean().item()


def sequence_accuracy(case: Case) -> float:
    """The exact match of torchmetrics over the sequences that have tokens."""
    _, preds, target = case.tensors
    has_tokens = (target != -100).any(1)
    if not has_tokens.any():
        return NAN
    return tm.classification.multiclass_exact_match(
        preds[has_tokens], target[has_tokens], num_classes=7, ignore_index=-100
    ).item()


def jaccard(case: Case) -> float:
    """The Jaccard index of class 1; scikit-learn has no nan for an empty union."""
    union = case.target.any() or case.predictions.any()
    return sk.jaccard_score(case.target, case.predictions) if union else NAN


def perplexity(case: Case) -> float:
    """The perplexity of torchmetrics."""
    return tm_text.perplexity(torch.tensor(case.logits), torch.tensor(case.target), ignore_index=-100).item()


RATIOS = {
    "precision": sk.precision_score,
    "recall": sk.recall_score,
    "f1": sk.f1_score,
    "fbeta": partial(sk.fbeta_score, beta=0.5),
    "jaccard": sk.jaccard_score,
}


REAL = ("number", "vector", "timeseries")


ORACLES: dict[tuple[str, str], tuple[Reference, float]] = {
    ("accuracy", "binary"): (decision(sk.accuracy_score), 1e-12),
    ("accuracy", "category"): (decision(sk.accuracy_score), 1e-12),
    ("accuracy", "set"): (decision(sk.accuracy_score), 1e-12),
    ("balanced_accuracy", "binary"): (decision(sk.balanced_accuracy_score), 1e-12),
    ("balanced_accuracy", "category"): (decision(sk.balanced_accuracy_score), 1e-12),
    ("hamming", "binary"): (decision(sk.hamming_loss), 1e-12),
    ("hamming", "category"): (decision(sk.hamming_loss), 1e-12),
    ("hamming", "set"): (decision(sk.hamming_loss), 1e-12),
    ("mcc", "binary"): (mcc, 1e-12),
    ("mcc", "category"): (mcc, 1e-12),
    ("hits@2", "category"): (hits, 1e-12),
    ("specificity", "binary"): (decision(partial(specificity, zero_division=NAN)), 1e-12),
    ("jaccard", "binary"): (jaccard, 1e-12),
    **{
        (name, feature): (reference, 1e-5)
        for feature in ("sequence", "text")
        for name, reference in (
            ("token_accuracy", token_accuracy),
            ("token_accuracy(average=sequence)", token_accuracy_by_sequence),
            ("sequence_accuracy", sequence_accuracy),
            ("perplexity", perplexity),
        )
    },
    **{("log_loss", feature): (log_loss, 1e-12) for feature in ("binary", "category", "set")},
    **{("brier", feature): (brier, 1e-12) for feature in ("binary", "category")},
    **{("ece", feature): (ece, 1e-5) for feature in ("binary", "category")},
    **{
        (f"cohen_kappa{f'(weights={weights})' if weights else ''}", feature): (kappa(weights), 1e-12)
        for weights in (None, "linear", "quadratic")
        for feature in ("binary", "category")
    },
    **{
        (f"{name}{'(beta=0.5)' if name == 'fbeta' else ''}", "binary"): (
            decision(yes_or_no(score, NAN)),
            1e-12,
        )
        for name, score in RATIOS.items()
        if name != "jaccard"
    },
    **{
        (f"{name}(average={average}{', beta=0.5' if name == 'fbeta' else ''})", feature): (
            averaged(yes_or_no(score, 0), average),
            1e-12,
        )
        for name, score in RATIOS.items()
        for average in AVERAGES
        for feature in ("category", "set")
    },
    **{
        (f"specificity(average={average})", feature): (
            averaged(specificity, average, every=feature == "set"),
            1e-12,
        )
        for average in AVERAGES
        for feature in ("category", "set")
    },
    **{
        (f"{name}{'' if average == 'macro' else f'(average={average})'}", feature): (
            curve(score, average),
            1e-12,
        )
        for name, score in (("roc_auc", sk.roc_auc_score), ("average_precision", sk.average_precision_score))
        for average in ("macro", "weighted", "none")
        for feature in ("binary", "category", "set")
    },
    **{
        (name, feature): (reference, tolerance)
        for feature in REAL
        for name, reference, tolerance in (
            ("mse", real(sk.mean_squared_error), 1e-12),
            ("rmse", real(sk.root_mean_squared_error), 1e-12),
            ("mae", real(sk.mean_absolute_error), 1e-12),
            ("mape", real(sk.mean_absolute_percentage_error), 1e-12),
            ("rmsle", real(sk.root_mean_squared_log_error), 1e-12),
            ("r2", spread_or_nan(real(sk.r2_score)), 1e-9),
            ("explained_variance", spread_or_nan(real(sk.explained_variance_score)), 1e-9),
            ("pearson", spread_or_nan(per_column(lambda p, t: scipy.stats.pearsonr(p, t).statistic)), 1e-9),
            (
                "smape",
                per_column(
                    lambda p, t: tm.symmetric_mean_absolute_percentage_error(
                        torch.tensor(p), torch.tensor(t)
                    ).item()
                ),
                1e-9,
            ),
        )
    },
}
