"""The names of metrics that give the values of the classes of torchmetrics at their defaults.

A class whose default value differs from that of every metric here has no name: its name is refused with a
hint to the nearest metric. Some values differ for special data only: a class or label that does not occur, a
user without a relevant item, a confidence of exactly 1, pictures that do not range from 0 to 1. The page of
the metric states this under Deviates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..features import (
    AUDIO,
    BINARY,
    CATEGORY,
    CLUSTERS,
    IMAGE,
    MASK,
    NUMBER,
    RANKING,
    SEQUENCE,
    SET,
    TEXT,
    TIMESERIES,
    VECTOR,
)
from .names import MetricName

_AVERAGED = {
    "AUROC": "roc_auc",
    "AveragePrecision": "average_precision",
    "ConfusionMatrix": "confusion_matrix",
}
_MACRO = {
    **_AVERAGED,
    "F1Score": "f1(average=macro)",
    "FBetaScore": "fbeta(average=macro)",
    "JaccardIndex": "jaccard(average=macro)",
    "NegativePredictiveValue": "negative_predictive_value(average=macro)",
    "Precision": "precision(average=macro)",
    "Recall": "recall(average=macro)",
    "Specificity": "specificity(average=macro)",
    "EER": "eer(average=none)",
    "PrecisionAtFixedRecall": "precision_at_recall(average=none)",
    "RecallAtFixedPrecision": "recall_at_precision(average=none)",
    "SensitivityAtSpecificity": "sensitivity_at_specificity(average=none)",
    "SpecificityAtSensitivity": "specificity_at_sensitivity(average=none)",
}
_BINARY = {
    **_AVERAGED,
    "Accuracy": "accuracy",
    "CalibrationError": "ece",
    "CohenKappa": "cohen_kappa",
    "EER": "eer",
    "F1Score": "f1",
    "FBetaScore": "fbeta",
    "HammingDistance": "hamming",
    "JaccardIndex": "jaccard",
    "MatthewsCorrCoef": "mcc",
    "NegativePredictiveValue": "negative_predictive_value",
    "Precision": "precision",
    "PrecisionAtFixedRecall": "precision_at_recall",
    "Recall": "recall",
    "RecallAtFixedPrecision": "recall_at_precision",
    "SensitivityAtSpecificity": "sensitivity_at_specificity",
    "Specificity": "specificity",
    "SpecificityAtSensitivity": "specificity_at_sensitivity",
    "StatScores": "stat_scores",
}
_CATEGORY = {
    **_MACRO,
    "Accuracy": "recall(average=macro)",
    "CalibrationError": "ece",
    "CohenKappa": "cohen_kappa",
    "HammingDistance": "false_negative_rate(average=macro)",
    "MatthewsCorrCoef": "mcc",
}
_SET = {
    **_MACRO,
    "Accuracy": "label_accuracy",
    "CoverageError": "coverage_error",
    "ExactMatch": "accuracy",
    "HammingDistance": "hamming",
    "MatthewsCorrCoef": "mcc(average=micro)",
    "RankingAveragePrecision": "label_ranking_average_precision",
    "RankingLoss": "label_ranking_loss",
}
_REAL = {
    "ConcordanceCorrCoef": "concordance(ddof=1)",
    "ExplainedVariance": "explained_variance",
    "KendallRankCorrCoef": "kendall",
    "LogCoshError": "log_cosh",
    "MeanAbsoluteError": "mae",
    "MeanAbsolutePercentageError": "mape",
    "MeanSquaredError": "mse",
    "MeanSquaredLogError": "msle",
    "R2Score": "r2",
    "RelativeSquaredError": "rse",
    "SymmetricMeanAbsolutePercentageError": "smape",
    "TweedieDevianceScore": "tweedie_deviance",
    "CriticalSuccessIndex": "csi",
    "NormalizedRootMeanSquaredError": "nrmse(normalization=mean)",
    "PearsonCorrCoef": "pearson",
    "SpearmanCorrCoef": "spearman",
    "WeightedMeanAbsolutePercentageError": "wape",
}
_COLUMNS = {**_REAL, "NormalizedRootMeanSquaredError": "nrmse(multioutput=pooled, normalization=mean)"}
_NOMINAL = {
    "CramersV": "cramers_v(bias_correction=true, yates=true)",
    "PearsonsContingencyCoefficient": "pearsons_contingency",
    "TheilsU": "theils_u(explained=predictions)",
    "TschuprowsT": "tschuprows_t(bias_correction=true, yates=true)",
}

CLASS_NAMES: Mapping[str, Mapping[str, str]] = {
    BINARY: {f"Binary{name}": meaning for name, meaning in _BINARY.items()},
    CATEGORY: {**{f"Multiclass{name}": meaning for name, meaning in _CATEGORY.items()}, **_NOMINAL},
    SET: {f"Multilabel{name}": meaning for name, meaning in _SET.items()},
    NUMBER: _REAL,
    VECTOR: {**_COLUMNS, "JensenShannonDivergence": "js_divergence"},
    TIMESERIES: _COLUMNS,
    CLUSTERS: {
        **_NOMINAL,
        "AdjustedMutualInfoScore": "adjusted_mutual_information",
        "AdjustedRandScore": "adjusted_rand",
        "CalinskiHarabaszScore": "calinski_harabasz",
        "CompletenessScore": "completeness",
        "DaviesBouldinScore": "davies_bouldin",
        "DunnIndex": "dunn",
        "FowlkesMallowsIndex": "fowlkes_mallows",
        "HomogeneityScore": "homogeneity",
        "MutualInfoScore": "mutual_information",
        "NormalizedMutualInfoScore": "normalized_mutual_information",
        "RandScore": "rand",
        "VMeasureScore": "v_measure",
    },
    SEQUENCE: {"Perplexity": "perplexity"},
    TEXT: {
        "BLEUScore": "bleu_score",
        "CharErrorRate": "cer",
        "EditDistance": "edit_distance",
        "ExtendedEditDistance": "eed",
        "Perplexity": "perplexity",
        "WordErrorRate": "wer",
    },
    RANKING: {
        "RetrievalAUROC": "gauc",
        "RetrievalFallOut": "fall_out",
        "RetrievalHitRate": "hit_rate",
        "RetrievalMAP": "map(norm=hits)",
        "RetrievalMRR": "mrr",
        "RetrievalNormalizedDCG": "ndcg",
        "RetrievalPrecision": "precision",
        "RetrievalRPrecision": "r_precision",
        "RetrievalRecall": "recall",
    },
    MASK: {"DiceScore": "dice_score", "HausdorffDistance": "hausdorff", "MeanIoU": "mean_iou"},
    IMAGE: {
        "ErrorRelativeGlobalDimensionlessSynthesis": "ergas",
        "PeakSignalNoiseRatio": "psnr",
        "PeakSignalNoiseRatioWithBlockedEffect": "psnrb",
        "ProcrustesDisparity": "procrustes",
        "QualityWithNoReference": "qnr",
        "RelativeAverageSpectralError": "rase",
        "RootMeanSquaredErrorUsingSlidingWindow": "rmse_sw",
        "SpatialCorrelationCoefficient": "scc",
        "SpatialDistortionIndex": "spatial_distortion",
        "SpectralAngleMapper": "sam",
        "SpectralDistortionIndex": "spectral_distortion",
        "StructuralSimilarityIndexMeasure": "ssim",
        "UniversalImageQualityIndex": "uqi",
        "VisualInformationFidelity": "vif",
    },
    AUDIO: {
        "ComplexScaleInvariantSignalNoiseRatio": "c_si_snr",
        "ScaleInvariantSignalDistortionRatio": "si_sdr",
        "ScaleInvariantSignalNoiseRatio": "si_snr",
        "SignalDistortionRatio": "sdr",
        "SignalNoiseRatio": "snr",
        "SourceAggregatedSignalDistortionRatio": "sa_sdr",
    },
}
"""By output feature: class -> its meaning. A parameter written beside the class takes precedence."""


def class_meaning(name: str, feature_type: str) -> str | None:
    """Return the name of the metric that is a class of torchmetrics, for one output feature.

    >>> class_meaning("MulticlassF1Score", "category"), class_meaning("MulticlassF1Score", "binary")
    ('f1(average=macro)', None)
    """
    return CLASS_NAMES.get(feature_type, {}).get(name)


def class_argument(name: MetricName, feature_type: str) -> MetricName:
    """Replace a class whose argument makes it another metric; all other names stay as they are.

    >>> str(class_argument(MetricName.parse("MeanSquaredError(squared=false)"), "vector"))
    'rmse(multioutput=pooled)'
    """
    params = dict(name.params)
    squared = params.pop("squared", None)
    if class_meaning(name.metric, feature_type) != "mse" or not isinstance(squared, bool):
        return name
    if not squared:
        params = {"multioutput": "pooled", **params}
    return replace(name, metric="mse" if squared else "rmse", params=tuple(params.items()))
