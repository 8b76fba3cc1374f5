"""Metrics that break a law by their nature, or have no direction: each by name, with the reason."""

from __future__ import annotations

TABLE = "a table of counts grows with the rows"
PAIRS = "it counts pairs of rows: three copies of a row also pair with each other"
DEGREES = "it counts degrees of freedom: n - 1 of n rows are not 3 n - 1 of 3 n"
REPEATED = "repeated text adds n-grams, none of them new"
PAIRED = "the data decide which pairs of groups occur, and how many"
THEIRS = "the update of torchmetrics reads values or copies numbers to the device"
NO_KERNEL = "torch cannot infer the shape of its loss without values"
POINTS = "a point per distinct score: half precision ties what float64 separates"

_WAITING = (
    {"ctc": NO_KERNEL}
    | dict.fromkeys(
        ("adjusted_mutual_information", "adjusted_rand", "cluster_accuracy", "completeness", "cramers_v",
         "fowlkes_mallows of clusters", "homogeneity", "mutual_information of clusters",
         "normalized_mutual_information", "pearsons_contingency", "purity", "rand", "theils_u",
         "tschuprows_t", "v_measure", "variation_of_information"),
        PAIRED,
    )
    | dict.fromkeys(
        ("calinski_harabasz", "davies_bouldin", "dice_score of mask", "dunn", "fairness", "fleiss_kappa",
         "hausdorff", "mean_iou of mask", "modified_panoptic_quality", "ms_ssim", "panoptic_quality", "pit",
         "procrustes", "psnr", "psnrb", "rmse_sw", "scc", "sdr", "vif"),
        THEIRS,
    )
)  # fmt: skip

EXEMPT: dict[str, dict[str, str]] = {
    "check_repetition": {
        "confusion_matrix": TABLE,
        "stat_scores": TABLE,
        "adjusted_rand": PAIRS,
        "rand": PAIRS,
        "fowlkes_mallows of clusters": PAIRS,
        "adjusted_mutual_information": PAIRS,
        "adjusted_r2": DEGREES,
        "calinski_harabasz": DEGREES,
        "unsup_loss": DEGREES,
        "interdistinct_1": REPEATED,
        "interdistinct_2": REPEATED,
    },
    "check_weight_scale": {
        "confusion_matrix": TABLE,
        "stat_scores": TABLE,
        "rand": PAIRS,
        "fowlkes_mallows of clusters": PAIRS,
        "adjusted_r2": DEGREES,
        "unsup_loss": DEGREES,
        "interdistinct_1": REPEATED,
        "interdistinct_2": REPEATED,
    },
    "check_whole_numbers": dict.fromkeys(
        ("gaussian_crps", "gaussian_nll", "mase", "nrmse", "rmsse"),
        "it converts targets and extra numbers to float64, which rounds whole numbers from 2^53",
    ),
    "check_weightless": {
        "confusion_matrix": "a table without rows contains zeros",
        "stat_scores": "a table without rows contains zeros",
    },
    "check_ignored": {"ctc": "its frames differ from its labels: a longer row is a longer sound"},
    "check_half": {
        "roc_curve of category": POINTS,
        "precision_recall_curve of category": POINTS,
        "det_curve of category": POINTS,
        "average_precision_binned of category": "rounding moves a score into the next bin, which its error "
        "bound covers",
    },
    "check_sync_free": _WAITING,
    "check_device": {"scc": "torchmetrics measures it in float32, whose last digits differ between devices"},
}
"""Exemptions from laws: law -> metric, or metric of a feature -> reason."""

LAST_DIGIT = {("check_half", "average_precision_binned of category"), ("check_device", "scc")}
"""Exemptions that depend on the last digit of an exponential, which differs between processors."""

_NETWORK = "its class downloads a trained network"

UNTRIED: dict[str, str] = dict.fromkeys(
    ("arniqa", "bert_score", "clip_iqa", "clip_score", "dists", "dnsmos", "fid", "inception_score", "infolm",
     "kid", "lpips", "mifid", "nisqa"),
    _NETWORK,
) | {"vmaf": "its package brings trained models"}  # fmt: skip
"""Metrics that no law tries, even if their packages are installed: name -> reason."""

NO_DIRECTION: dict[str, str] = {
    "best_threshold": "a threshold is a setting, not a quality",
    "bias": "best is 0, from either side; absolute_bias is minimized",
    "bias_disparity_bs": "it depends only on the training data",
    "bias_disparity_table": "a table",
    "brier_uncertainty": "it depends only on the target",
    "confidence": "confidence does not show correctness",
    "confusion_matrix": "a table",
    "det_curve": "a curve",
    "gen_n_toks": "longer texts are neither better nor worse",
    "interval_coverage": "best is the nominal level, from either side; interval_coverage_error is minimized",
    "judged": "lists are not better because they show judged items",
    "num_relevant": "it depends only on the target",
    "overconfidence": "best is 0, from either side; absolute_overconfidence is minimized",
    "positive_likelihood_ratio": "a perfect model has no value for it",
    "precision_recall_curve": "a curve",
    "reliability_curve": "a curve",
    "roc_curve": "a curve",
    "stat_scores": "a table",
}
"""Metrics that are measured and never optimized: name -> reason."""
