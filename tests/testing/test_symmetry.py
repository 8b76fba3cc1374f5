"""Which metrics cannot tell predictions from target, or one class from another; every metric is looked at."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from matrix import covering, entries
from sample_metrics import Gap

from hpometrics.metrics.features import BINARY, CATEGORY, NUMBER, SET, Set
from hpometrics.metrics.registry.index import all_entries
from hpometrics.testing import exchanged, is_kept, renamed, subjects_of
from hpometrics.testing.subjects import Subject, is_here

ENTRIES = [entry for entry in entries() if is_here(entry)]

SYMMETRIC = set(
    """
    absolute_bias accuracy adjusted_mutual_information adjusted_rand c_si_snr cluster_accuracy cohen_kappa
    concordance cosine_similarity cramers_v csi edit_distance fairseq_bleu fleiss_kappa gen_n_toks
    generalized_dice hamming hausdorff huber image_dice image_iou js_divergence kendall label_accuracy
    last_accuracy log_cosh mae max_error mean_iou median_absolute_error mer minkowski ms_ssim mse msle
    mutual_information normalized_mutual_information pearson pearsons_contingency pinball pit pixel_accuracy
    procrustes psnr psnrb rand rmse rmse_sw rmsle rouge_1 rouge_2 rouge_l rouge_lsum sa_sdr sam scc
    sequence_accuracy si_sdr si_snr smape smooth_l1 spearman spectral_distortion squad_em squad_f1 ssim
    token_accuracy token_error_rate tschuprows_t tweedie_deviance uqi v_measure variation_of_information wil
    wip zero_one_loss
    """.split()
)
"""Of these every use, with the parameters that it has unless told otherwise."""

OVERLAPS = {"dice", "dice_score", "f1", "fowlkes_mallows", "iou", "jaccard", "mcc", "token_f1"}
"""What both have in common, over a mean of both: only weights by the target know which is which."""

RATES = set(
    """
    false_discovery_rate false_negative_rate false_omission_rate false_positive_rate fbeta informedness
    markedness negative_predictive_value precision recall specificity token_precision token_recall
    """.split()
)
"""Pooled over classes, of which each row has one, they are shares of right or wrong rows; else one-sided."""

SHARES_OF_THE_TARGET = {"false_negative_rate", "recall", "token_recall"}
"""Rates that, weighted by how often a class is the target, are shares of right or wrong rows too."""

ONE_SIDED_USES = {
    "generalized_dice",
    "generalized_dice(weighting=simple)",
    "pit(measure=snr)",
    *(f"{name}(measure={side})" for name in ("rouge_1", "rouge_2", "rouge_l", "rouge_lsum") for side in "pr"),
}
"""Of metrics that are symmetric otherwise: weights by the target, and shares of one of two lengths."""

ONE_SIDED = set(
    """
    adjusted_r2 balanced_accuracy bias bleu bleu_1 bleu_2 bleu_3 bleu_4 bleu_score cer chrf completeness
    confusion_matrix d2_absolute_error d2_pinball d2_tweedie eed ergas explained_variance gamma_deviance
    geometric_mean homogeneity interdistinct_1 interdistinct_2 intradistinct_1 intradistinct_2 kl_divergence
    mape mase mean_pixel_accuracy negative_likelihood_ratio nrmse poisson_deviance poisson_nll
    positive_likelihood_ratio purity r2 rae rase rmspe rse sdr snr stat_scores ter theils_u total_variation
    vif wape wer
    """.split()
)
"""Of these no use is symmetric."""

LISTS = (SYMMETRIC, OVERLAPS, RATES, ONE_SIDED)

ORDERED = {"confusion_matrix", "stat_scores", "corn"}
"""Of several classes: a table of them, or a metric of their order."""

OF_THE_YES = set(
    """
    average_precision average_precision_binned best_threshold confusion_matrix det_curve f1_max fairness
    fbeta_max focal fpr_at_tpr jaccard_max ks_calibration_error log_auc negative_likelihood_ratio
    positive_likelihood_ratio precision_at_recall precision_recall_curve recall_at_precision
    reliability_curve roc_curve sensitivity_at_specificity specificity_at_sensitivity stat_scores
    """.split()
)
"""Of two classes: what looks at one of them, whatever its parameters are."""

OF_THE_YES_ALONE = {"f1", "false_discovery_rate", "false_negative_rate", "false_omission_rate",
    "false_positive_rate", "fbeta", "fowlkes_mallows", "jaccard", "negative_predictive_value", "precision",
    "recall", "specificity"}  # fmt: skip
"""What looks at one of two classes unless an average over both is asked for."""


def is_symmetric(subject: Subject) -> bool:
    """What the lists say of predictions and target."""
    name, average = subject.entry.name, dict(subject.name.params).get("average")
    if name in OVERLAPS:
        return average != "weighted"
    if name in RATES:
        pooled = average == "micro" or (average == "weighted" and name in SHARES_OF_THE_TARGET)
        return pooled and subject.output.type != SET
    return name in SYMMETRIC and str(subject.name) not in ONE_SIDED_USES


def is_nameless(subject: Subject) -> bool:
    """What the lists say of classes that are called otherwise."""
    name, params = subject.entry.name, dict(subject.name.params)
    if subject.output.type == CATEGORY:
        by_class = (
            "class" in params or params.get("average") == "none" or params.get("weights", "none") != "none"
        )
        return name not in ORDERED and not by_class
    return name not in OF_THE_YES and (name not in OF_THE_YES_ALONE or "average" in params)


def uses(name: str) -> list[Subject]:
    """Every use; of labels there are so many that rates which differ do not coincide."""
    subjects = [subject for entry in ENTRIES if entry.name == name for subject in subjects_of(entry)]
    return [replace(one, output=Set(7)) if one.output.type == SET else one for one in subjects]


def kinds_of(name: str) -> list:
    """What a metric stands for: its module, its list, the outputs that it measures."""
    own = [entry for entry in ENTRIES if entry.name == name]
    listed = tuple(name in names for names in (*LISTS, ORDERED, OF_THE_YES, OF_THE_YES_ALONE))
    return [listed, *(kind for one in own for kind in (one.path.partition(":")[0], one.feature_type))]


NAMES = sorted({entry.name for entry in ENTRIES})
OF_CLASSES = sorted({one.name for one in ENTRIES if one.feature_type in (BINARY, CATEGORY)})


@pytest.mark.parametrize("name", covering(NAMES, kinds_of))
def test_the_lists_and_the_rest_are_the_whole_registry(name):
    """What reads predictions and target alone is on one list, right by experiment; others are on none."""
    found = [(subject, is_kept(subject, exchanged)) for subject in uses(name)]
    tried = [(subject, kept) for subject, kept in found if kept is not None]
    assert sum(name in names for names in LISTS) == bool(tried)
    for subject, kept in tried:
        assert kept == is_symmetric(subject), subject


@pytest.mark.parametrize("name", covering(OF_CLASSES, kinds_of))
def test_what_classes_are_called(name):
    """It is the same to every metric that is not on a list of those that know one from another."""
    for subject in uses(name):
        assert is_kept(subject, renamed) in (None, is_nameless(subject)), subject


def test_no_list_has_a_name_of_no_metric():
    """They are of this registry."""
    names = {entry.name for entry in all_entries()}
    assert names >= set().union(*LISTS, OF_THE_YES, OF_THE_YES_ALONE, ORDERED)


class Lopsided(Gap):
    """Counts errors above the target only."""

    def get_current_value(self, preds, target):
        return (preds - target).clamp(min=0)


def test_the_experiment_can_tell(registry):
    """A metric with one side is found out, one with both is not."""
    registry.register_metric("even", [NUMBER])(Gap)
    registry.register_metric("lopsided", [NUMBER])(Lopsided)
    [even], [lopsided] = subjects_of("even", NUMBER), subjects_of("lopsided", NUMBER)
    assert (is_kept(even, exchanged), is_kept(lopsided, exchanged)) == (True, False)
    assert is_kept(even, renamed) is None


def test_what_is_no_text_is_not_exchanged():
    """Boxes are predicted with scores, which the right ones do not have."""
    boxes = {"boxes": torch.tensor([[0.0, 0.0, 4.0, 4.0]]), "labels": torch.tensor([1])}
    batch = {"predictions": [{**boxes, "scores": torch.tensor([0.9])}], "target": [boxes]}
    assert exchanged(next(iter(subjects_of("bleu"))), batch) is None
