"""scikit-learn's scorers: each by its own name, with scikit-learn's number in its natural sign."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.metrics import get_scorer, get_scorer_names

from hpometrics.metrics.registry.register import get_metric

BINARY, CATEGORY, SET, NUMBER, CLUSTERS = (
    "binary",
    "category(num_classes=4)",
    "set(num_labels=3)",
    "number",
    "clusters",
)
AVERAGED = ("macro", "micro", "weighted")

SCORERS: dict[str, tuple[str, ...]] = {
    "accuracy": (BINARY, CATEGORY, SET),
    "adjusted_mutual_info_score": (CLUSTERS,),
    "adjusted_rand_score": (CLUSTERS,),
    "average_precision": (BINARY, CATEGORY, SET),
    "balanced_accuracy": (BINARY, CATEGORY),
    "completeness_score": (CLUSTERS,),
    "d2_absolute_error_score": (NUMBER,),
    "d2_brier_score": (BINARY, CATEGORY),
    "d2_log_loss_score": (BINARY, CATEGORY),
    "explained_variance": (NUMBER,),
    **{name: (BINARY,) for name in ("f1", "jaccard", "precision", "recall")},
    **{
        f"{name}_{average}": (BINARY, CATEGORY, SET)
        for name in ("f1", "jaccard", "precision", "recall")
        for average in AVERAGED
    },
    **{f"{name}_samples": (SET,) for name in ("f1", "jaccard", "precision", "recall")},
    "fowlkes_mallows_score": (CLUSTERS,),
    "homogeneity_score": (CLUSTERS,),
    "matthews_corrcoef": (BINARY, CATEGORY),
    "mutual_info_score": (CLUSTERS,),
    "neg_brier_score": (BINARY, CATEGORY),
    "neg_log_loss": (BINARY, CATEGORY),
    "neg_max_error": (NUMBER,),
    "neg_mean_absolute_error": (NUMBER,),
    "neg_mean_absolute_percentage_error": (NUMBER,),
    "neg_mean_gamma_deviance": (NUMBER,),
    "neg_mean_poisson_deviance": (NUMBER,),
    "neg_mean_squared_error": (NUMBER,),
    "neg_mean_squared_log_error": (NUMBER,),
    "neg_median_absolute_error": (NUMBER,),
    "neg_negative_likelihood_ratio": (BINARY,),
    "neg_root_mean_squared_error": (NUMBER,),
    "neg_root_mean_squared_log_error": (NUMBER,),
    "normalized_mutual_info_score": (CLUSTERS,),
    "positive_likelihood_ratio": (BINARY,),
    "r2": (NUMBER,),
    "rand_score": (CLUSTERS,),
    "roc_auc": (BINARY, SET),
    "roc_auc_ovo": (CATEGORY,),
    "roc_auc_ovo_weighted": (CATEGORY,),
    "roc_auc_ovr": (BINARY, CATEGORY, SET),
    "roc_auc_ovr_weighted": (BINARY, CATEGORY, SET),
    "top_k_accuracy": (CATEGORY,),
    "v_measure_score": (CLUSTERS,),
}
"""Scorer -> the outputs for which our metric of that name has its number."""

SPELLED = {"top_k_accuracy": "top_k_accuracy@2"}
"""Our spelling, where a parameter that scikit-learn has a default for must be given."""

NOT_WEIGHED = {
    "neg_max_error": "a maximum has no weights there",
    "roc_auc_ovo": "scikit-learn refuses weights",
    "roc_auc_ovo_weighted": "scikit-learn refuses weights",
    "neg_negative_likelihood_ratio": "a scorer of both ratios takes no weights",
    "positive_likelihood_ratio": "a scorer of both ratios takes no weights",
}
"""Scorers that are compared without weights -> why; those of clusters know none either."""

CASES = [(name, output) for name, outputs in SCORERS.items() for output in outputs]


def drawn(output: str, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Target, what a model predicts, and its probabilities."""
    rng, rows = np.random.default_rng(seed), 150
    if output == NUMBER:
        target = rng.random(rows) + 0.5
        made = target * np.exp(0.2 * rng.standard_normal(rows))
        return target, made, made
    if output == CATEGORY:
        target = rng.integers(0, 4, rows)
        odds = rng.random((rows, 4)) + np.eye(4)[target]
        probabilities = odds / odds.sum(1, keepdims=True)
        return target, probabilities.argmax(1), probabilities
    if output == CLUSTERS:
        target = rng.integers(0, 4, rows)
        found = np.where(rng.random(rows) < 0.3, rng.integers(0, 4, rows), target)
        return target, found, found
    target = rng.integers(0, 2, (rows, 3) if output == SET else rows)
    probabilities = np.clip(0.3 * target + 0.7 * rng.random(target.shape), 0.01, 0.99)
    return target, (probabilities > 0.5).astype(int), probabilities


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
@pytest.mark.parametrize("seed", [0, 1])
@pytest.mark.parametrize(("name", "output"), CASES)
def test_a_scorer_by_its_own_name(name: str, output: str, seed: int):
    """The number is that of the scorer's own function, of weighed rows too, and never sign-flipped."""
    scorer, (target, predictions, probabilities) = get_scorer(name), drawn(output, seed)
    decided = scorer._response_method == "predict"
    given = predictions if decided else probabilities
    kind = "predictions" if decided else "probabilities"
    weights = [None] if name in NOT_WEIGHED or output == CLUSTERS else [None, np.arange(150) % 7 / 3]
    for weight in weights:
        weighed = {} if weight is None else {"sample_weight": weight}
        metric = get_metric(SPELLED.get(name, name), output)
        metric.update(
            **{kind: torch.tensor(given)}, target=target, **{k: torch.tensor(w) for k, w in weighed.items()}
        )
        right = scorer._score_func(target, given, **scorer._kwargs, **weighed)
        assert float(metric.compute()) == pytest.approx(float(right), abs=1e-9)


def test_no_scorer_is_forgotten():
    """Every scorer that scikit-learn has is in the table."""
    assert set(get_scorer_names()) == set(SCORERS)
