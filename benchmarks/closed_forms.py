"""Values from counts and from sorted scores: the floor's arithmetic once all rows are counted."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

Values = dict[str, float]
Scores = NDArray[np.float32]


def of_category(matrix: Tensor, ranks: Tensor) -> Values:
    """Everything that a confusion matrix (rows are targets) and a histogram of ranks say."""
    n, tp, predicted, actual = matrix.sum(), matrix.diagonal(), matrix.sum(0), matrix.sum(1)
    fp, fn = predicted - tp, actual - tp
    f1, precision = 2 * tp / (2 * tp + fp + fn), tp / predicted.clamp(min=1)
    values = {
        "accuracy": tp.sum() / n, "balanced_accuracy": (tp / actual).mean(), "f1_macro": f1.mean(),
        "f1_micro": tp.sum() / n, "f1_weighted": (f1 * actual).sum() / n,
        "precision_macro": precision.mean(), "precision_weighted": (precision * actual).sum() / n,
        "recall_macro": (tp / actual).mean(),
        "specificity_macro": ((n - predicted - fn) / (n - actual)).mean(),
        "jaccard_macro": (tp / (tp + fp + fn)).mean(),
        "fbeta(average=macro, beta=2.0)": (5 * tp / (5 * tp + 4 * fn + fp)).mean(),
        **_agreement(n, tp, predicted, actual), "hamming": 1 - tp.sum() / n,
        "hits@3": ranks[:3].sum() / n, "hits@5": ranks[:5].sum() / n,
    }  # fmt: skip
    return _as_floats(values)


def of_binary(matrix: Tensor) -> Values:
    """Everything that a confusion matrix of two classes says."""
    (tn, fp), (fn, tp) = matrix
    n = matrix.sum()
    values = {
        "accuracy": (tp + tn) / n, "balanced_accuracy": (tp / (tp + fn) + tn / (tn + fp)) / 2,
        "f1": 2 * tp / (2 * tp + fp + fn), "precision": tp / (tp + fp), "recall": tp / (tp + fn),
        "specificity": tn / (tn + fp), "jaccard": tp / (tp + fp + fn),
        "fbeta(beta=0.5)": 1.25 * tp / (1.25 * tp + 0.25 * fn + fp),
        "fbeta(beta=2.0)": 5 * tp / (5 * tp + 4 * fn + fp),
        **_agreement(n, matrix.diagonal(), matrix.sum(0), matrix.sum(1)), "hamming": (fp + fn) / n,
    }  # fmt: skip
    return _as_floats(values)


def of_labels(tp: Tensor, predicted: Tensor, actual: Tensor, rows: int) -> Values:
    """Everything that the counts of each label say."""
    fp, fn = predicted - tp, actual - tp
    values = {
        "f1_macro": (2 * tp / (predicted + actual)).mean(),
        "f1_micro": 2 * tp.sum() / (predicted + actual).sum(),
        "precision_macro": (tp / predicted).mean(), "precision_micro": tp.sum() / predicted.sum(),
        "recall_macro": (tp / actual).mean(), "recall_micro": tp.sum() / actual.sum(),
        "specificity_macro": ((rows - predicted - fn) / (rows - actual)).mean(),
        "jaccard_macro": (tp / (tp + fp + fn)).mean(), "jaccard_micro": tp.sum() / (tp + fp + fn).sum(),
        "hamming": (fp + fn).sum() / (rows * len(tp)),
    }  # fmt: skip
    return _as_floats(values)


def areas_in(every: Scores, positive: Scores) -> tuple[float, float]:
    """ROC AUC and average precision from a whole column and its positives, both ascending.

    Each positive is searched for once; only where the next score is equal is there a tie to look up.
    """
    n, p = len(every), len(positive)
    first = np.searchsorted(every, positive)
    end = first + 1
    tied = np.flatnonzero(every[np.minimum(end, n - 1)] == positive)
    end[tied] = np.searchsorted(every, positive[tied], side="right")
    wins = (first.sum() + end.sum()) / 2 - p * p / 2
    return wins / (p * (n - p)), _mean_precision(positive, n - first)


def areas_apart(positive: Scores, negative: Scores) -> tuple[float, float]:
    """The same from positives and negatives that were sorted apart: cheaper where positives are many."""
    p, n = len(positive), len(negative)
    below = np.searchsorted(negative, positive)
    end = below.copy()
    tied = np.flatnonzero(negative[np.minimum(below, n - 1)] == positive)
    end[tied] = np.searchsorted(negative, positive[tied], side="right")
    selected = n - below + p - _first_of_equals(positive)
    return (below.sum() + end.sum()) / 2 / (p * n), _mean_precision(positive, selected)


def _mean_precision(positive: Scores, selected: NDArray[np.int64]) -> float:
    """Mean, over positives, of the share of positives among the rows that score at least as much."""
    return float(((len(positive) - _first_of_equals(positive)) / selected).mean())


def _first_of_equals(ascending: Scores) -> NDArray[np.int64]:
    places = np.arange(len(ascending))
    places[1:][ascending[1:] == ascending[:-1]] = 0
    return np.maximum.accumulate(places)


def _agreement(n: Tensor, tp: Tensor, predicted: Tensor, actual: Tensor) -> dict[str, Tensor]:
    by_chance = predicted @ actual
    spread = ((n**2 - predicted @ predicted) * (n**2 - actual @ actual)).sqrt()
    return {
        "mcc": (tp.sum() * n - by_chance) / spread,
        "cohen_kappa": (tp.sum() - by_chance / n) / (n - by_chance / n),
    }


def _as_floats(values: dict[str, Tensor]) -> Values:
    return {name: value.item() for name, value in values.items()}
