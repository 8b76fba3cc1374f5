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
    "acc_score": "accuracy", "categorical_accuracy": "accuracy", "sparse_categorical_accuracy": "accuracy",
    "target_acc": "accuracy", "xnli": "accuracy", "bal_acc": "balanced_accuracy",
    "b_acc": "balanced_accuracy", "balanced_acc": "balanced_accuracy",
    "top_k_categorical_accuracy": "hits@5", "sparse_top_k_categorical_accuracy": "hits@5",
    "error": "zero_one_loss", "err_rate": "zero_one_loss", "merror": "zero_one_loss",
    "binary_error": "zero_one_loss", "multi_error": "zero_one_loss",
    "crossentropy": "log_loss", "categorical_crossentropy": "log_loss", "xentropy": "log_loss",
    "sparse_categorical_crossentropy": "log_loss", "mlogloss": "log_loss", "binary_logloss": "log_loss",
    "multi_logloss": "log_loss", "multiclass": "log_loss", "softmax": "log_loss", "multiclassova": "log_loss",
    "multiclass_ova": "log_loss", "ova": "log_loss", "ovr": "log_loss", "binary": "log_loss",
    "focal_crossentropy": "focal", "categorical_focal_crossentropy": "focal",
    "categorical_hinge": "hinge",
    "kullback_leibler": "kl_divergence", "kldiv": "kl_divergence", "matthews_correlation": "mcc",
    "aucpr": "average_precision", "prauc": "average_precision", "auc_pr": "average_precision",
    "auc_mu": "roc_auc_ovo", "false_positives": "false_positive_rate",
    "false_negatives": "false_negative_rate", "true_positives": "recall", "true_negatives": "specificity",
    "regression_l1": "mae", "regression_l2": "mse", "l2_root": "rmse", "mphe": "huber",
    "mean_squared_logarithmic_error": "msle", "poisson": "poisson_nll", "poisson_nloglik": "poisson_nll",
    "gamma": "gamma_deviance", "gamma_nloglik": "gamma_deviance", "tweedie_nloglik": "tweedie_deviance",
    "expectile": "mean_pinball", "concordance_correlation": "concordance", "pearson_correlation": "pearson",
    "io_u": "iou", "one_hot_io_u": "iou", "one_hot_mean_io_u": "mean_iou",
    "levenshtein": "edit_distance", "levenshtein_distance": "edit_distance", "lm_ppl": "perplexity",
    "squad_v2": "squad_f1", "rouge_score": "rouge_l", "pre": "precision", "hit_ratio": "hit_rate",
    "lambdarank": "ndcg", "rank_xendcg": "ndcg", "xendcg": "ndcg", "xe_ndcg": "ndcg", "xe_ndcg_mart": "ndcg",
    "xendcg_mart": "ndcg", "per_class_stats": "f1(average=none)",
    "overall_stats": "confusion_matrix", "retrieval_precision_recall_curve": "precision_recall_curve",
    "silhouette": "davies_bouldin", "silhouette_score": "davies_bouldin",
    "silhouette_samples": "davies_bouldin",
    "absolute_error": "mae", "squared_error": "mse", "f1_max_threshold": "best_threshold(criterion=f1)",
    "average_precision_samples": "label_ranking_average_precision", "exact": "squad_em",
    "overall_accuracy": "accuracy", "per_category_iou": "iou(average=none)",
    "per_category_accuracy": "recall(average=none)",
    "prec_at_80_recall": "precision_at_recall(recall=0.8)",
    "prec_at_90_recall": "precision_at_recall(recall=0.9)",
}  # fmt: skip
"""By lower case; for a metric that does not exist here (silhouette), the nearest one."""

_MEAN_AP = {
    "set": "average_precision(average=macro)",
    "category": "average_precision(average=macro)",
    "binary": "average_precision",
}
CALLED_HERE = {name: _MEAN_AP for name in ("map", "m_ap", "mean_ap", "mean_average_precision")}
"""By lower case: names of metrics of some outputs, and their meaning for other outputs."""

NOT_HERE = {
    "aft_nloglik": ("the likelihood of an accelerated failure time model", "minimize"),
    "bleurt": ("BLEURT", "maximize"), "character": ("CharacTER", "minimize"),
    "categorical_generalized_cross_entropy": ("the generalized cross-entropy", "minimize"),
    "charcut_mt": ("CharCut", "minimize"), "circle": ("the circle loss", "minimize"),
    "code_eval": ("pass@k of programs", "maximize"), "comet": ("COMET", "maximize"),
    "competition_math": ("the share of solved problems", "maximize"),
    "coval": ("the CoNLL score of coreference", "maximize"),
    "cox_nloglik": ("Cox's partial likelihood", "minimize"),
    "cross_entropy_lambda": ("the intensity-weighted cross-entropy", "minimize"),
    "xentlambda": ("the intensity-weighted cross-entropy", "minimize"),
    "cuad": ("the area under the precision-recall curve of CUAD", "maximize"),
    "fair": ("the fair loss", "minimize"), "frugalscore": ("FrugalScore", "maximize"),
    "google_bleu": ("GLEU", "maximize"),
    "interval_regression_accuracy": ("the share of hit intervals", "maximize"),
    "lip_vertex_error": ("the lip vertex error", "minimize"), "mauve": ("MAUVE", "maximize"),
    "mahalanobis": ("the distance of rows from a distribution", ""), "meteor": ("METEOR", "maximize"),
    "nist_mt": ("NIST", "maximize"), "poseval": ("the report of a tagger", ""),
    "rl_reliability": ("the report of several runs of an agent", ""), "sari": ("SARI", "maximize"),
    "squared_hinge": ("the squared hinge loss", "minimize"),
    "seqeval": ("F1 of entities", "maximize"), "tversky": ("the Tversky loss", "minimize"),
    "wiki_split": ("SARI with the exact matches", "maximize"),
    "glue": ("what GLUE measures of a task", ""), "super_glue": ("what SuperGLUE measures of a task", ""),
    "indic_glue": ("what IndicGLUE measures of a task", ""),
    "xtreme_s": ("what XTREME-S measures of a task", ""),
    "trec_eval": ("a program, whose metrics are names such as map and ndcg@10,", ""),
    "image_gradients": ("the gradient of an image", ""),
    "mean": ("an average of your own values, which run.record_global takes,", ""),
    "sum": ("a sum of your own values, which run.record_global takes,", ""),
    "mean_metric_wrapper": ("a function, which as_metric turns into a metric,", ""),
    **{f"pairwise_{name}_distance": ("the matrix of distances between rows", "")
       for name in ("euclidean", "manhattan", "minkowski")},
    "pairwise_linear_similarity": ("the matrix of products of rows", ""),
    "api_call_attempts": ("the number of calls of an interface in a dialogue", "minimize"),
    "brevity_penalty": ("the brevity penalty of BLEU", ""),
    "conll_score": ("the CoNLL score of coreference", "maximize"),
    "deep_sad": ("the Deep SAD loss", "minimize"), "deep_svdd": ("the Deep SVDD loss", "minimize"),
    "dice_loss": ("the Dice loss, whose score is dice,", "minimize"), "drocc": ("the DROCC loss", "minimize"),
    "duplicate_fraction": ("the share of duplicate texts", "minimize"),
    "text_duplicates": ("the share of duplicate texts", "minimize"),
    "entmax15": ("the entmax loss", "minimize"), "sparsemax": ("the sparsemax loss", "minimize"),
    "entropic_open_set": ("the entropic open-set loss", "minimize"),
    "f1_a": ("F1 over the answers of MultiRC", "maximize"),
    "f1_m": ("F1 of the questions of MultiRC", "maximize"),
    "fever": ("the FEVER score, of labels with their evidence,", "maximize"),
    "fever_score": ("the FEVER score, of labels with their evidence,", "maximize"),
    "fp16_loss_scalar": ("the factor of the loss in half precision", ""),
    "hallucination": ("the share of slots that are not in the dialogue", "minimize"),
    "honest": ("HONEST, the share of hurtful words,", "minimize"),
    "honest_score": ("HONEST, the share of hurtful words,", "minimize"),
    "in_metric": ("the share of replies that contain an answer", "maximize"),
    "label_distribution": ("the share of each label in the data", ""),
    "label_skew": ("the skew of the labels", ""),
    "length_ratio": ("the length of the texts as a share of the references' length", ""),
    "lovasz_softmax": ("the Lovász-softmax loss", "minimize"),
    "mcnemar": ("a test between two models, which hpometrics compare makes,", ""),
    "wilcoxon": ("a test between two models, which hpometrics compare makes,", ""),
    "nt_xent": ("the NT-Xent loss", "minimize"), "objectosphere": ("the objectosphere loss", "minimize"),
    "overall_f1": ("F1 of entities", "maximize"), "overall_precision": ("precision of entities", "maximize"),
    "overall_recall": ("recall of entities", "maximize"),
    "pass": ("pass@k of programs", "maximize"),
    "passage_r": ("the share of replies whose passage is retrieved", "maximize"),
    "title_r": ("the share of replies whose title is retrieved", "maximize"),
    "poly": ("the poly loss", "minimize"), "regard": ("the regard of texts for a group", ""),
    "average_regard": ("the regard of texts for a group", ""),
    "regard_difference": ("the regard of texts for a group", ""),
    "skipped_batches": ("the number of batches without an update", "minimize"),
    "toxicity": ("the toxicity of texts", "minimize"),
    "toxicity_ratio": ("the share of toxic texts", "minimize"),
    **{name: ("the length of texts", "") for name in
       ("word_count", "total_word_count", "unique_words", "word_length", "average_word_length")},
}  # fmt: skip
"""By lower case: what a name of another library stands for that is not measured here, and its direction."""

_OF_A_TASK = re.compile(
    r"[a-z]\w*_(?:(?P<more>f1(?:_\w+)?|precision|recall|acc(?:uracy)?|exact_match)|(?P<less>loss|ppl))\Z"
)
_CUT_NAMES = {"hit": "hit_rate", "hits": "hits"}
_PARAMETER = re.compile(r"(?P<name>error|tweedie-nloglik)@(?P<value>\d+\.?\d*)\Z")
_NO_METRICS = {"get_scorer", "get_scorer_names", "make_scorer", "check_scoring", "euclidean_distances"}
_COMBINED = re.compile(r"(?P<name>f1|eucdistance|hypervolume)\[(?P<parts>[^\[\]]+)\](?P<k>@\d+)?\Z")
_TOP = re.compile(
    r"(?:top[_-]?(?P<top>[1-9]\d*)(?:[_-]?(?:acc(?:uracy)?|score))?|acc(?:uracy)?@(?P<at>[1-9]\d*))\Z"
)
_AVERAGED = re.compile(r"(?P<average>macro|micro|weighted)[_-](?P<name>f1|precision|recall|jaccard)\Z")
_OF_SCORE = re.compile(r"(?P<name>f1|precision|recall|jaccard)_score[_-](?P<average>macro|micro|weighted)\Z")
_CUT = re.compile(
    r"(?:(?P<name>[a-z]+(?:_[a-z]+)*?)_?at_?(?P<at>[1-9]\d*|k)|"
    r"(?P<short>ndcg|map|mrr|hr|hit|recall|precision)_?(?P<k>[1-9]\d*))\Z"
)
_OVERLAP = re.compile(r"map(?:@?0?\.?(?P<at>50|5|75)|@?(?:\[?0?\.?50?[-:](?:0?\.05:)?0?\.?95\]?))\Z")
_CUT_OFFS = re.compile(r"(?P<name>.*[A-Za-z0-9_)])@\[?(?P<ks>\s*\d+(?:\s*,\s*\d+)+\s*)\]?\Z", re.DOTALL)
_LOGGED = re.compile(r"(?:val|eval)_(?P<metric>[A-Za-z].*)\Z")
_OTHER_SPLIT = re.compile(r"(?P<split>test|train)(?:ing)?_(?P<metric>[A-Za-z].*)\Z")
NEGATED = re.compile(r"(?:neg|negative|minus)[_-](?P<name>.+)\Z", re.IGNORECASE)
"""A name that scikit-learn's scorers give to what is minimized."""
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
    if averaged := _OF_SCORE.match(lower):
        return f"{averaged['name']}(average={averaged['average']})"
    if overlap := _OVERLAP.match(lower):
        return "map" if overlap["at"] is None else "map_75" if overlap["at"] == "75" else "map_50"
    if lower in ALSO_CALLED or lower in _NO_METRICS:
        return ALSO_CALLED.get(lower, "")
    if cut := _CUT.match(lower):
        name, k = cut["name"] or cut["short"], cut["at"] or cut["k"]
        return f"{_CUT_NAMES.get(name) or ALSO_CALLED.get(name, name)}@{5 if k == 'k' else k}"
    if parameter := _PARAMETER.match(lower):
        name = ALSO_CALLED.get(parameter["name"].replace("-", "_"), "")
        return f"{name}(power={parameter['value']})" if name == "tweedie_deviance" else name or None
    return None


def cut_offs(text: str) -> list[str]:
    """Return the names of a list of cut-offs in one name; none if the text is something else.

    >>> cut_offs("recall@[5,10]"), cut_offs("ndcg@1, 3"), cut_offs("ndcg@1")
    (['recall@5', 'recall@10'], ['ndcg@1', 'ndcg@3'], [])
    """
    match = _CUT_OFFS.match(text)
    return [] if match is None else [f"{match['name']}@{int(k)}" for k in match["ks"].split(",")]


def logged_metric(word: str) -> str | None:
    """Return the metric of a name that a trainer logs for validation data; None for the name of a loss.

    The loss that an engine trains with is its own, and not always the one that this package has.

    >>> logged_metric("val_accuracy"), logged_metric("val_loss"), logged_metric("f1")
    ('accuracy', None, None)
    """
    match = _LOGGED.match(word)
    return None if match is None or match["metric"].endswith("loss") else match["metric"]


def split_of_log(word: str) -> tuple[str, str] | None:
    """Return the split and the metric of a name that a trainer logs for other data; None for another name.

    >>> split_of_log("test_accuracy"), split_of_log("accuracy")
    (('test', 'accuracy'), None)
    """
    match = _OTHER_SPLIT.match(word)
    return None if match is None else (match["split"], match["metric"])


def not_here(word: str) -> str:
    """Return a sentence on a name that no metric here measures; empty for another name.

    >>> not_here("METEOR")
    ' METEOR is not computed here; if the engine reports it, more is better.'
    """
    lower = word.lower().replace("-", "_")
    what, direction = NOT_HERE.get(lower) or NOT_HERE.get(lower.removesuffix("_loss"), ("", ""))
    better = {"maximize": "more", "minimize": "less"}.get(direction)
    end = "" if better is None else f"; if the engine reports it, {better} is better"
    return f" {what[0].upper()}{what[1:]} is not computed here{end}." if what else ""


def value_of_a_task(word: str) -> str:
    """Return a sentence on a task's own value, whose name ends with that of a metric; empty for another name.

    >>> value_of_a_task("knowledge_f1"), value_of_a_task("gap")
    (' It is not computed here; if the engine reports it, more is better.', '')
    """
    match = _OF_A_TASK.match(word.lower().replace("-", "_"))
    better = "" if match is None else "more" if match["more"] else "less"
    return f" It is not computed here; if the engine reports it, {better} is better." if better else ""


def _combination(name: str, parts: list[str]) -> str:
    if name == "f1":
        return f"f_score({', '.join(f'{key}={part}' for key, part in zip('ab', parts, strict=False))})"
    return f'{"euc_distance" if name == "eucdistance" else name}(metrics="{", ".join(parts)}")'
