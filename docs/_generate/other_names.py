"""Generate `reference/other-names.md`: what a name of another library is here, or the answer to it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest

import torchmetrics
import torchmetrics.classification
import torchmetrics.functional

from hpometrics.backends.registry import meaning_elsewhere
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import HpometricsError
from hpometrics.metrics.features import RANKING
from hpometrics.metrics.registry.diagnostics import diagnostic
from hpometrics.metrics.registry.groups import group_named
from hpometrics.metrics.registry.index import MetricEntry
from hpometrics.metrics.registry.lookup import find_metric, possible_meanings
from hpometrics.metrics.registry.names import MetricName

_HEAD = """# Names of other libraries

Printed by `make index`. A row says what a name of another library is here. A name marked *here* is read as it
stands; for another one the error names the right spelling. `v` is minimized and `^` maximized. No metric is
negated here: scikit-learn's `neg_mean_squared_error`, which is maximized there, is `mse`, which is minimized.
Where a name is another metric for each output, the row has all of them, and the output decides. More names of
ranking metrics are in [Rankings](rankings.md).

`val_accuracy` and `eval_accuracy` are `accuracy`, unless the file says that the engine reports the value, as
`{metric: val_accuracy, direction: maximize}` does. `test_accuracy` is written `test:accuracy`, and
`recall@[5,10]` is two names, `recall@5` and `recall@10`.
"""
_NAMED = re.compile(r"`(\w+)[^`]*`(?: [v^])?(?:,|$)")
_MEANT = re.compile(r"Did you mean '(.*?)'\?")
_NEEDS = re.compile(r"\bneeds (?:its k, as in (?P<k>\S+)|.* choose one of (?P<choices>.*))$")
_ABSENT = re.compile(r"\. (?P<text>\S.* is not computed here(?:; [^.]*)?)\.")


@dataclass(frozen=True)
class Library:
    """The names of a library.

    Args:
        title: its name.
        source: where the names are from, and when they were read.
        names: as a user types them.
        rankings: whether they are of rankings.
    """

    title: str
    source: str
    names: str
    rankings: bool = False


LIBRARIES = (
    Library(
        "scikit-learn",
        "`sklearn.metrics.get_scorer_names()` of 1.9, 2026-11",
        """
        accuracy adjusted_mutual_info_score adjusted_rand_score average_precision balanced_accuracy
        completeness_score d2_absolute_error_score d2_brier_score d2_log_loss_score explained_variance f1
        f1_macro f1_micro f1_samples f1_weighted fowlkes_mallows_score homogeneity_score jaccard
        jaccard_macro jaccard_micro jaccard_samples jaccard_weighted matthews_corrcoef mutual_info_score
        neg_brier_score neg_log_loss neg_max_error neg_mean_absolute_error
        neg_mean_absolute_percentage_error neg_mean_gamma_deviance neg_mean_poisson_deviance
        neg_mean_squared_error neg_mean_squared_log_error neg_median_absolute_error
        neg_negative_likelihood_ratio neg_root_mean_squared_error neg_root_mean_squared_log_error
        normalized_mutual_info_score positive_likelihood_ratio precision precision_macro precision_micro
        precision_samples precision_weighted r2 rand_score recall recall_macro recall_micro recall_samples
        recall_weighted roc_auc roc_auc_ovo roc_auc_ovo_weighted roc_auc_ovr roc_auc_ovr_weighted
        top_k_accuracy v_measure_score
        """,
    ),
    Library(
        "torchmetrics",
        "`torchmetrics.functional.__all__` of 1.9; a class such as `MulticlassF1Score` is read, too; 2026-11",
        """
        accuracy auroc average_precision binary_eer bleu_score calibration_error char_error_rate
        chrf_score cohen_kappa concordance_corrcoef confusion_matrix cosine_similarity cramers_v
        cramers_v_matrix critical_success_index eer error_relative_global_dimensionless_synthesis
        exact_match explained_variance extended_edit_distance f1_score fbeta_score fleiss_kappa
        hamming_distance hinge_loss image_gradients jaccard_index kendall_rank_corrcoef kl_divergence
        lip_vertex_error log_cosh_error logauc match_error_rate matthews_corrcoef mean_absolute_error
        mean_absolute_percentage_error mean_squared_error mean_squared_log_error minkowski_distance
        multiclass_eer multilabel_eer multiscale_structural_similarity_index_measure
        negative_predictive_value normalized_root_mean_squared_error pairwise_cosine_similarity
        pairwise_euclidean_distance pairwise_linear_similarity pairwise_manhattan_distance
        pairwise_minkowski_distance panoptic_quality peak_signal_noise_ratio pearson_corrcoef
        pearsons_contingency_coefficient pearsons_contingency_coefficient_matrix
        permutation_invariant_training perplexity pit_permutate precision precision_at_fixed_recall
        precision_recall_curve r2_score recall recall_at_fixed_precision relative_average_spectral_error
        relative_squared_error retrieval_average_precision retrieval_fall_out retrieval_hit_rate
        retrieval_normalized_dcg retrieval_precision retrieval_precision_recall_curve
        retrieval_r_precision retrieval_recall retrieval_reciprocal_rank roc
        root_mean_squared_error_using_sliding_window rouge_score sacre_bleu_score
        scale_invariant_signal_distortion_ratio scale_invariant_signal_noise_ratio
        sensitivity_at_specificity signal_distortion_ratio signal_noise_ratio spearman_corrcoef
        specificity specificity_at_sensitivity spectral_angle_mapper spectral_distortion_index squad
        stat_scores structural_similarity_index_measure symmetric_mean_absolute_percentage_error theils_u
        theils_u_matrix total_variation translation_edit_rate tschuprows_t tschuprows_t_matrix
        tweedie_deviance_score universal_image_quality_index weighted_mean_absolute_percentage_error
        word_error_rate word_information_lost word_information_preserved
        """,
    ),
    Library(
        "Keras",
        "`keras/src/metrics/__init__.py` and `keras/src/losses/__init__.py`, with their aliases, 2026-11",
        """
        acc Accuracy AUC bce BinaryAccuracy BinaryCrossentropy BinaryFocalCrossentropy BinaryIoU
        CategoricalAccuracy CategoricalCrossentropy CategoricalFocalCrossentropy
        CategoricalGeneralizedCrossEntropy CategoricalHinge Circle ConcordanceCorrelation CosineSimilarity
        crossentropy CTC Dice F1Score FalseNegatives FalsePositives FBetaScore Hinge Huber IoU
        KLDivergence LogCosh LogCoshError mae mape Mean MeanAbsoluteError MeanAbsolutePercentageError
        MeanIoU MeanMetricWrapper MeanSquaredError MeanSquaredLogarithmicError mse msle OneHotIoU
        OneHotMeanIoU PearsonCorrelation Poisson Precision PrecisionAtRecall R2Score Recall
        RecallAtPrecision RootMeanSquaredError SensitivityAtSpecificity SparseCategoricalAccuracy
        SparseCategoricalCrossentropy SparseTopKCategoricalAccuracy SpecificityAtSensitivity SquaredHinge
        Sum TopKCategoricalAccuracy TrueNegatives TruePositives Tversky binary_accuracy
        binary_crossentropy binary_focal_crossentropy categorical_accuracy categorical_crossentropy
        categorical_focal_crossentropy categorical_generalized_cross_entropy categorical_hinge circle
        concordance_correlation cosine_similarity ctc dice hinge huber kl_divergence log_cosh
        mean_absolute_error mean_absolute_percentage_error mean_squared_error
        mean_squared_logarithmic_error pearson_correlation poisson sparse_categorical_accuracy
        sparse_categorical_crossentropy sparse_top_k_categorical_accuracy squared_hinge
        top_k_categorical_accuracy tversky
        """,
    ),
    Library(
        "XGBoost",
        "`eval_metric` in its documentation of parameters, 2026-11",
        """
        rmse rmsle mae mape mphe logloss error error@0.7 merror mlogloss auc aucpr pre pre@5 ndcg ndcg@5
        ndcg- map map@5 map- poisson-nloglik gamma-nloglik cox-nloglik gamma-deviance tweedie-nloglik
        tweedie-nloglik@1.5 aft-nloglik interval-regression-accuracy quantile
        """,
    ),
    Library(
        "LightGBM",
        "`metric` in `docs/Parameters.rst`, with its aliases, 2026-11",
        """
        l1 mean_absolute_error mae regression_l1 l2 mean_squared_error mse regression_l2 rmse
        root_mean_squared_error l2_root quantile mape mean_absolute_percentage_error huber fair poisson
        gamma gamma_deviance tweedie ndcg lambdarank rank_xendcg xendcg xe_ndcg xe_ndcg_mart xendcg_mart
        map mean_average_precision auc average_precision binary_logloss binary binary_error auc_mu
        multi_logloss multiclass softmax multiclassova multiclass_ova ova ovr multi_error cross_entropy
        xentropy cross_entropy_lambda xentlambda kullback_leibler kldiv r2
        """,
    ),
    Library(
        "Hugging Face evaluate",
        "the modules in `metrics/`, `measurements/` and `comparisons/` of its repository, 2026-12",
        """
        accuracy bertscore bleu bleurt brier_score cer character charcut_mt chrf code_eval comet
        competition_math confusion_matrix coval cuad exact_match f1 fever frugalscore glue google_bleu
        indic_glue mae mahalanobis mape mase matthews_correlation mauve mean_iou meteor mse nist_mt
        pearsonr perplexity poseval precision r_squared recall rl_reliability roc_auc rouge rouge1 rouge2
        rougeL rougeLsum sacrebleu sari seqeval smape spearmanr squad squad_v2 super_glue ter trec_eval
        wer wiki_split xnli xtreme_s honest label_distribution regard text_duplicates toxicity word_count
        word_length mcnemar wilcoxon overall_accuracy overall_precision overall_recall overall_f1
        mean_accuracy mean_perplexity per_category_iou exact fever_score conll_score
        """,
    ),
    Library(
        "RecBole",
        "`recbole/evaluator/metrics.py`, 2026-11",
        """
        recall@10 mrr@10 ndcg@10 hit@10 precision@10 map@10 gauc auc logloss mae rmse itemcoverage@10
        averagepopularity@10 giniindex@10 shannonentropy@10 tailpercentage@10 hr@10
        """,
        rankings=True,
    ),
    Library(
        "WarpRec",
        "the names of its metrics, 2026-11",
        """
        nDCG@10 nDCGRendle2020@10 Precision@10 Recall@10 F1@10 MAP@10 MAR@10 MRR@10 HitRate@10 AUC GAUC
        LAUC MAE MSE RMSE ACLT@10 APLT@10 ARP@10 PopREO@10 PopRSP@10 EFD@10 EPC@10 Gini@10
        ShannonEntropy@10 SRecall@10 ItemCoverage@10 UserCoverage@10 UserCoverageAtN@10 NumRetrieved@10
        REO@10 RSP@10 BiasDisparityBD BiasDisparityBR ItemMADRanking@10
        ItemMADRating@10 UserMADRanking@10 UserMADRating@10
        """,
        rankings=True,
    ),
    Library(
        "ParlAI",
        "the names that its agents and teachers report, 2026-12",
        """
        accuracy auc f1 precision recall bleu-1 bleu-2 bleu-3 bleu-4 fairseq_bleu1 fairseq_bleu4 rouge-1
        rouge-2 rouge-L hits@1 hits@5 hits@10 hits@100 mrr rank loss ppl token_acc token_em exs clen
        ctrunc ctpb ctps llen ltrunc ltpb ltps tpb tps ups exps gnorm clip lr gpu_mem total_train_updates
        ctrunclen ltrunclen gen_n_toks mean_loss train_accuracy skipped_batches fp16_loss_scalar mean_rank
        slot_p slot_r exact_match in_metric hallucination knowledge_f1 knowledge_f1_docs rare_word_f1
        passage_r@1 title_r@5 graph_subject_f1 speaker_acc speech_f1 referent_accuracy
        interdistinct-1 interdistinct-2 intradistinct-1 intradistinct-2 jga macro_f1 micro_f1 weighted_f1
        class_0_f1 class_0_prec class_0_recall
        """,
    ),
    Library(
        "Ludwig",
        "its metric registry, its statistics and its losses, 2026-12",
        """
        accuracy accuracy_micro balanced_accuracy bleu char_error_rate hits_at_k jaccard last_accuracy
        loss mean_absolute_error mean_absolute_percentage_error mean_squared_error next_token_perplexity
        perplexity precision r2 recall roc_auc root_mean_squared_error root_mean_squared_percentage_error
        rouge sequence_accuracy sequence_softmax_cross_entropy sigmoid_cross_entropy softmax_cross_entropy
        specificity token_accuracy word_error_rate edit_distance binary_weighted_cross_entropy
        mean_absolute_scaled_error symmetric_mean_absolute_percentage_error huber corn anomaly_auroc f1_max
        next_token_softmax_cross_entropy overall_stats per_class_stats confusion_matrix roc_auc_macro
        roc_auc_micro average_precision_macro average_precision_micro average_precision_samples
        precision_recall_curve f1_max_threshold focal dice lovasz_softmax nt_xent poly sparsemax entmax15
        deep_svdd deep_sad drocc entropic_open_set objectosphere
        """,
    ),
)


SEARCHES = {
    "Optuna": (
        "TPESampler GPSampler CmaEsSampler RandomSampler GridSampler BruteForceSampler QMCSampler "
        "NSGAIISampler NSGAIIISampler",
        "MedianPruner SuccessiveHalvingPruner HyperbandPruner PercentilePruner PatientPruner ThresholdPruner "
        "WilcoxonPruner NopPruner",
    ),
    "Ray Tune": (
        "OptunaSearch HyperOptSearch TuneBOHB AxSearch BayesOptSearch HEBOSearch NevergradSearch ZOOptSearch "
        "BasicVariantGenerator",
        "ASHAScheduler AsyncHyperBandScheduler HyperBandScheduler HyperBandForBOHB MedianStoppingRule "
        "PopulationBasedTraining PB2 FIFOScheduler",
    ),
    "Ludwig": (
        "variant_generator random hyperopt bohb ax bayesopt blendsearch cfo dragonfly hebo skopt optuna "
        "zoopt nevergrad",
        "fifo asynchyperband async_hyperband hyperband median_stopping_rule medianstopping pbt pb2 hb_bohb",
    ),
    "W&B": ("bayes random grid", "hyperband"),
    "KerasTuner": ("RandomSearch GridSearch BayesianOptimization", "Hyperband"),
    "others": ("sobol halton cma-es genetic bayesian", "successive_halving sha early_stopping asha"),
}
"""The samplers and pruners of libraries by their names, as they were in November 2026."""


@dataclass(frozen=True)
class Answer:
    """The meaning of a name here.

    Args:
        here: the metrics, each with its direction, or the sentence of the answer.
        is_read: whether the name is read as it stands.
    """

    here: str
    is_read: bool = False


def answer(name: str, feature_type: str | None = None) -> Answer | None:
    """Return what a name of another library is; None if it is neither read nor answered with a name."""
    if (entry := diagnostic(name)) is not None:
        return Answer(
            f"recorded by {entry.comes_from.partition('(')[0]}: {entry.meaning.partition('.')[0]}", True
        )
    try:
        if group_named(MetricName.parse(name)):
            return Answer(f"the group `{name}`", True)
        return Answer(_metrics(find_metric(name, feature_type).meanings), True)
    except HpometricsError as err:
        text = str(err)
    if needs := _NEEDS.search(text):
        choices = [needs["k"]] if needs["k"] else needs["choices"].split(", ")
        example = min(choices, key=lambda choice: ("(" not in choice, choice))
        return Answer(f"{_metrics(possible_meanings(name, feature_type))}, as in `{example}`", True)
    if meant := _MEANT.search(text):
        try:
            return Answer(_metrics(possible_meanings(meant[1], feature_type)) or f"`{meant[1]}`")
        except HpometricsError:
            return Answer(f"`{meant[1]}`")
    absent = _ABSENT.search(text)
    return Answer(absent["text"]) if absent else None


def also_called() -> dict[str, list[str]]:
    """Return, by the name of a metric, the names by which other libraries call it."""
    names = {name for library in LIBRARIES for name in library.names.split() if not library.rankings}
    names |= {*torchmetrics.__all__, *torchmetrics.classification.__all__, *torchmetrics.functional.__all__}
    called: dict[str, set[str]] = {}
    rankings = {name for library in LIBRARIES for name in library.names.split() if library.rankings}
    for name, feature_type in [*((name, None) for name in names), *((name, RANKING) for name in rankings)]:
        found = answer(name, feature_type)
        for metric in _NAMED.findall("" if found is None else found.here):
            called.setdefault(metric, set()).add(name)
    return {metric: sorted(theirs - {metric}, key=str.lower) for metric, theirs in called.items()}


def _metrics(meanings: Iterable[tuple[MetricName, MetricEntry]]) -> str:
    """Return metrics with their directions, each once."""
    marks = {MINIMIZE: " v", MAXIMIZE: " ^", None: ""}
    return ", ".join(dict.fromkeys(f"`{name}`{marks[entry.direction]}" for name, entry in meanings))


def page() -> str:
    """Return the page.

    Raises:
        ValueError: a name has no answer.
    """
    metrics = (line for library in LIBRARIES for line in _section(library))
    return "\n".join([_HEAD, *metrics, *_searches()])


def _searches() -> Iterator[str]:
    """Yield the table of samplers and pruners."""
    yield from ("## Samplers and pruners", "")
    yield "For `search.sampler` and `search.pruner` of a sweep file; the error about a name has the one here."
    yield from ("", "| library | sampler | here | pruner | here |", "|---|---|---|---|---|")
    for library, (samplers, pruners) in SEARCHES.items():
        for sampler, pruner in zip_longest(samplers.split(), pruners.split()):
            cells = (*_plug_in("sampler", sampler), *_plug_in("pruner", pruner))
            yield f"| {library} | {' | '.join(cells)} |"
    yield ""


def _plug_in(what: str, name: str | None) -> tuple[str, str]:
    called = None if name is None else meaning_elsewhere(what, name)
    return ("", "") if name is None else (f"`{name}`", f"`{called}`")


def _section(library: Library) -> Iterator[str]:
    yield from (
        f"## {library.title}",
        "",
        f"Names: {library.source}.",
        "",
        "| name | here | |",
        "|---|---|---|",
    )
    for name in library.names.split():
        found = answer(name, RANKING if library.rankings else None)
        if found is None:
            raise ValueError(f"{name} of {library.title} has no answer")
        here = found.here.replace("|", "\\|")
        yield f"| `{name}` | {here} | {'here' if found.is_read else ''} |"
    yield ""
