"""Names of metrics in other libraries, which are suggested for an unknown name but never resolved."""

from __future__ import annotations

import re

ALSO_CALLED = {
    "acc": "accuracy", "ap": "average_precision", "auprc": "average_precision", "aupr": "average_precision",
    "roc_auc_score": "roc_auc", "average_precision_score": "average_precision", "brier_score_loss": "brier",
    "calibration_error": "ece", "ce": "log_loss", "corr": "pearson", "coverage": "interval_coverage",
    "evs": "explained_variance", "explained_var": "explained_variance", "f2": "fbeta(beta=2)",
    "f05": "fbeta(beta=0.5)", "best_f1": "f1_max", "l2": "mse", "logcosh": "log_cosh", "mbe": "bias",
    "m_ap": "map", "medae": "median_absolute_error", "mdae": "median_absolute_error", "mean_ap": "map",
    "miou": "mean_iou", "mean_io_u": "mean_iou", "ndcg_score": "ndcg", "nse": "r2", "quantile": "pinball",
    "qwk": "cohen_kappa(weights=quadratic)", "quadratic_weighted_kappa": "cohen_kappa(weights=quadratic)",
    "r_squared": "r2", "rsquared": "r2", "r^2": "r2", "r²": "r2", "tweedie": "tweedie_deviance",
    "winkler": "interval_score", "word_info_lost": "wil", "word_information_lost": "wil",
    "word_info_preserved": "wip", "word_information_preserved": "wip", "translation_edit_rate": "ter",
    "match_error_rate": "mer", "chrf_score": "chrf", "chrf+": "chrf(word_order=1)",
    "chrf++": "chrf(word_order=2)", "auroc": "roc_auc", "minkowski_distance": "minkowski",
    "sacre_bleu_score": "sacrebleu", "squad": "squad_f1", "rsme": "rmse",
    "concordance_corrcoef": "concordance", "concordance_corr_coef": "concordance",
    "prec": "precision", "rec": "recall", "hr": "hit_rate",
    "giniindex": "gini", "gini_index": "gini", "ndcg_cut": "ndcg",
    "averagepopularity": "arp", "average_popularity": "arp", "tailpercentage": "tail_percentage",
    "iprec": "interpolated_precision", "numrel": "num_relevant", "numret": "num_retrieved",
    "numrelret": "num_hits",
    "class_likelihood_ratios": "positive_likelihood_ratio",
    "precision_recall_fscore_support": "f1", "homogeneity_completeness_v_measure": "v_measure",
    "pair_confusion_matrix": "rand", "confusion_matrix_at_thresholds": "confusion_matrix",
    "metric_at_thresholds": "best_threshold", "retrieval_average_precision": "map", "pit_permutate": "pit",
    "kl_div_loss": "kl_divergence", "linear_cross_entropy": "softmax_cross_entropy",
    "linear_cross_entropy_loss": "softmax_cross_entropy", "adaptive_log_softmax_with_loss": "log_loss",
    "triplet_margin_with_distance_loss": "triplet_margin",
    "silhouette": "davies_bouldin", "silhouette_score": "davies_bouldin",
    "silhouette_samples": "davies_bouldin",
}  # fmt: skip
"""By lower case; for a metric that does not exist here (silhouette), the nearest one."""

_MEAN_AP = {
    "set": "average_precision(average=macro)",
    "category": "average_precision(average=macro)",
    "binary": "average_precision",
}
CALLED_HERE = {name: _MEAN_AP for name in ("map", "m_ap", "mean_ap", "mean_average_precision")}
"""By lower case: names of metrics of some outputs, and their meaning for other outputs."""

_NO_METRICS = {"get_scorer", "get_scorer_names", "make_scorer", "check_scoring", "euclidean_distances"}
_COMBINED = re.compile(r"(?P<name>f1|eucdistance|hypervolume)\[(?P<parts>[^\[\]]+)\](?P<k>@\d+)?\Z")
_TOP = re.compile(
    r"(?:top[_-]?(?P<top>[1-9]\d*)(?:[_-]?(?:acc(?:uracy)?|score))?|acc(?:uracy)?@(?P<at>[1-9]\d*))\Z"
)
_AVERAGED = re.compile(r"(?P<average>macro|micro|weighted)[_-](?P<name>f1|precision|recall|jaccard)\Z")
_F_SCORE = re.compile(r"f_?(?P<beta>[0-9]*\.[0-9]+)(?:_score)?\Z")


def meaning_for_output(word: str, feature_type: str | None) -> str | None:
    """Return the meaning for this output of a name that is a metric of other outputs.

    >>> meaning_for_output("mAP", "set"), meaning_for_output("map", "text")
    ('average_precision(average=macro)', None)
    """
    return None if feature_type is None else CALLED_HERE.get(word.lower(), {}).get(feature_type)


def meaning_elsewhere(word: str) -> str | None:
    """Return the meaning of a word in other libraries; empty if it is not a metric there, None if unknown.

    >>> meaning_elsewhere("chrF++"), meaning_elsewhere("f1.5")
    ('chrf(word_order=2)', 'fbeta(beta=1.5)')
    >>> meaning_elsewhere("make_scorer"), meaning_elsewhere("gap")
    ('', None)
    >>> meaning_elsewhere("F1[nDCG, Recall]@10")  # as WarpRec writes it
    'f_score(a=ndcg, b=recall)@10'
    >>> meaning_elsewhere("top5"), meaning_elsewhere("acc@5"), meaning_elsewhere("macro_f1")
    ('hits@5', 'hits@5', 'f1(average=macro)')
    """
    lower = word.lower()
    if top := _TOP.match(lower):
        return f"hits@{top['top'] or top['at']}"
    if averaged := _AVERAGED.match(lower):
        return f"{averaged['name']}(average={averaged['average']})"
    if combined := _COMBINED.match(lower):
        parts = [part.strip() for part in combined["parts"].split(",")]
        return _combination(combined["name"], parts) + (combined["k"] or "")
    if score := _F_SCORE.match(lower):
        return f"fbeta(beta={float(score['beta']):g})"
    return "" if lower in _NO_METRICS else ALSO_CALLED.get(lower)


def _combination(name: str, parts: list[str]) -> str:
    if name == "f1":
        return f"f_score({', '.join(f'{key}={part}' for key, part in zip('ab', parts, strict=False))})"
    return f'{"euc_distance" if name == "eucdistance" else name}(metrics="{", ".join(parts)}")'
