"""The classes of torchmetrics whose metrics this package computes itself, and how each is called.

The laws are tried on them as well, and the tests compare their values with ours. The classes that the
package takes from torchmetrics are the rows of `metrics/catalogue/torchmetrics`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
import torchmetrics
from torch import Tensor
from torchmetrics.functional.text import translation_edit_rate

from ..metrics.catalogue.torchmetrics import ROWS
from ..metrics.catalogue.torchmetrics._row import MetricInputs, Row
from ..metrics.catalogue.torchmetrics.texts import several, single
from ..metrics.features import (
    BINARY,
    CATEGORY,
    CLUSTERS,
    LOGITS,
    MASK,
    NUMBER,
    PROBABILITIES,
    RANKING,
    SEQUENCE,
    SET,
    TEXT,
    VECTOR,
)

_FOUR = ("macro", "micro", "weighted", "none")
_EMPTY = ("skip", "neg", "pos")


def answers(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with texts as SQuAD's answers, with row numbers as ids."""
    preds = [{"prediction_text": text, "id": str(row)} for row, text in enumerate(inputs.preds)]
    target = [
        {"answers": {"answer_start": [0] * len(texts), "text": list(texts)}, "id": str(row)}
        for row, texts in enumerate(inputs.target)
    ]
    inner.update(preds, target)


def tercom(inner: Any, inputs: MetricInputs) -> None:
    """Add the edits as Tercom counts them: words of the text are shifted, never those of its reference."""
    for text, references in zip(inputs.preds, inputs.target, strict=True):
        inner.total_num_edits += min(_tercom_edits(text, reference) for reference in references)
        inner.total_tgt_len += sum(len(reference.split()) for reference in references) / len(references)


def _tercom_edits(text: str, reference: str) -> int:
    """Return edits and shifts of words; a text without words costs those of the other."""
    length, reference_length = len(text.split()), len(reference.split())
    if not length or not reference_length:
        return max(length, reference_length)
    per_word: Any = translation_edit_rate([reference], [[text]])  # it shifts words of the second argument
    return round(float(per_word) * length)


def samples(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with an ensemble of predictions."""
    inner.update(inputs.extras["samples"], inputs.target)


def target_first(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with the target before the predictions."""
    inner.update(inputs.target, inputs.preds)


def by_user(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with the items of all users in one vector, relevant or not, and the index of the user."""
    preds, target, indexes = _flat(inputs)
    inner.update(preds, (target > 0).long(), indexes=indexes)


def graded_by_user(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with the items of all users in one vector, with their grades."""
    preds, target, indexes = _flat(inputs)
    inner.update(preds, target, indexes=indexes)


def mean_over_users(values: Tensor, dim: int) -> Tensor:
    """Return the mean in float64, which does not depend on the order of users."""
    return values.double().mean(dim)


def construct_with_mean(cls: type, arguments: dict[str, Any]) -> torchmetrics.Metric:
    """Call the constructor and set the mean in float64, which is not an argument of it."""
    metric: torchmetrics.Metric = cls(**arguments)
    metric.aggregation = mean_over_users
    return metric


def nothing_relevant(inputs: MetricInputs, params: Mapping[str, Any]) -> str | None:
    """Return the reason where no user has a relevant item, which torchmetrics counts as 0."""
    return None if bool((inputs.target > 0).any()) else "no user has a relevant item"


def nothing_irrelevant(inputs: MetricInputs, params: Mapping[str, Any]) -> str | None:
    """Return the reason where no user has an item that is not relevant."""
    return None if bool((inputs.target <= 0).any()) else "no user has an item that is not relevant"


def _flat(inputs: MetricInputs) -> tuple[Tensor, Tensor, Tensor]:
    preds, target = inputs.preds.flatten(), inputs.target.flatten()
    indexes = torch.arange(len(inputs.target), device=target.device).repeat_interleave(inputs.target.shape[1])
    mask = (preds > -torch.inf) | (target > 0)  # an item without a rank counts only if it is relevant
    return preds[mask], target[mask], indexes[mask]


_ALL = (BINARY, CATEGORY, SET)
_decided = partial(Row, features=_ALL, params={"average": _FOUR})
_scored = partial(Row, features=_ALL, inputs=PROBABILITIES, keeps="rows")
_number = partial(Row, features=(NUMBER,), keeps="rows")
_clusters = partial(Row, features=(CLUSTERS,), keeps="rows")
_nominal = partial(Row, features=(CATEGORY,), keeps="rows")
_text = partial(Row, features=(TEXT,), feed=several, optional=("texts", "references"))
_ranking = partial(
    Row, features=(RANKING,), inputs=LOGITS, keeps="rows", feed=by_user, void=nothing_relevant,
    params={"empty": _EMPTY, "k": None}, fixed={"aggregation": mean_over_users},
    argument_names={"k": "top_k", "empty": "empty_target_action"},
)  # fmt: skip

PEERS: tuple[Row, ...] = (
    _decided(
        name="accuracy", source="classification.Accuracy", features=(BINARY, CATEGORY), params={},
        fixed={"average": "micro"},
    ),
    _decided(
        name="balanced_accuracy", source="classification.MulticlassAccuracy", features=(CATEGORY,),
        params={}, fixed={"average": "macro"},
    ),
    _decided(
        name="label_accuracy", source="classification.MultilabelAccuracy", features=(SET,), params={},
        fixed={"average": "micro"},
    ),
    _decided(name="accuracy", source="classification.MultilabelExactMatch", features=(SET,), params={}),
    _decided(name="precision", source="classification.Precision"),
    _decided(name="recall", source="classification.Recall"),
    _decided(name="specificity", source="classification.Specificity"),
    _decided(name="negative_predictive_value", source="classification.NegativePredictiveValue"),
    _decided(name="f1", source="classification.F1Score"),
    _decided(name="fbeta", source="classification.FBetaScore", params={"beta": float, "average": _FOUR}),
    _decided(name="jaccard", source="classification.JaccardIndex"),
    _decided(name="hamming", source="classification.HammingDistance", params={}, fixed={"average": "micro"}),
    _decided(name="mcc", source="classification.MatthewsCorrCoef", params={}),
    _decided(
        name="cohen_kappa", source="classification.CohenKappa", features=(BINARY, CATEGORY),
        params={"weights": ("none", "linear", "quadratic")},
    ),
    _scored(name="roc_auc", source="classification.AUROC"),
    _scored(name="average_precision", source="classification.AveragePrecision"),
    _scored(name="ece", source="classification.CalibrationError", features=(BINARY, CATEGORY)),
    _scored(name="eer", source="classification.EER", component=("mean",)),
    _scored(name="hinge", source="classification.HingeLoss", features=(BINARY, CATEGORY)),
    _scored(name="log_auc", source="classification.LogAUC", component=("mean",)),
    _scored(
        name="precision_at_recall", source="classification.PrecisionAtFixedRecall",
        params={"min_recall": float}, component=(0, "mean"),
    ),
    _scored(
        name="recall_at_precision", source="classification.RecallAtFixedPrecision",
        params={"min_precision": float}, component=(0, "mean"),
    ),
    _scored(
        name="sensitivity_at_specificity", source="classification.SensitivityAtSpecificity",
        params={"min_specificity": float}, component=(0, "mean"),
    ),
    _scored(
        name="specificity_at_sensitivity", source="classification.SpecificityAtSensitivity",
        params={"min_sensitivity": float}, component=(0, "mean"),
    ),
    _scored(
        name="coverage_error", source="classification.MultilabelCoverageError", features=(SET,),
        keeps="states",
    ),
    _scored(
        name="label_ranking_average_precision", source="classification.MultilabelRankingAveragePrecision",
        features=(SET,), keeps="states",
    ),
    _scored(
        name="label_ranking_loss", source="classification.MultilabelRankingLoss", features=(SET,),
        keeps="states",
    ),
    _number(name="mse", source="regression.MeanSquaredError"),
    _number(name="rmse", source="regression.MeanSquaredError", fixed={"squared": False}),
    _number(name="mae", source="regression.MeanAbsoluteError"),
    _number(name="mape", source="regression.MeanAbsolutePercentageError"),
    _number(name="smape", source="regression.SymmetricMeanAbsolutePercentageError"),
    _number(name="wape", source="regression.WeightedMeanAbsolutePercentageError"),
    _number(name="msle", source="regression.MeanSquaredLogError"),
    _number(name="log_cosh", source="regression.LogCoshError"),
    _number(name="minkowski", source="regression.MinkowskiDistance", params={"p": float}),
    _number(name="tweedie_deviance", source="regression.TweedieDevianceScore", params={"power": 0.0}),
    _number(
        name="nrmse", source="regression.NormalizedRootMeanSquaredError",
        params={"normalization": ("mean", "range", "std", "l2")},
    ),
    _number(name="rse", source="regression.RelativeSquaredError"),
    _number(name="r2", source="regression.R2Score"),
    _number(name="explained_variance", source="regression.ExplainedVariance"),
    _number(name="concordance", source="regression.ConcordanceCorrCoef"),
    _number(name="pearson", source="regression.PearsonCorrCoef"),
    _number(name="spearman", source="regression.SpearmanCorrCoef"),
    _number(name="kendall", source="regression.KendallRankCorrCoef", params={"variant": ("b", "a", "c")}),
    _number(name="csi", source="regression.CriticalSuccessIndex", params={"threshold": float}),
    _number(
        name="crps", source="regression.ContinuousRankedProbabilityScore", feed=samples, extras=("samples",),
    ),
    _number(
        name="cosine_similarity", source="regression.CosineSimilarity", features=(VECTOR,),
        fixed={"reduction": "mean"},
    ),
    _number(name="kl_divergence", source="regression.KLDivergence", features=(VECTOR,), feed=target_first),
    _number(name="js_divergence", source="regression.JensenShannonDivergence", features=(VECTOR,)),
    _clusters(name="adjusted_rand", source="clustering.AdjustedRandScore"),
    _clusters(
        name="adjusted_mutual_information", source="clustering.AdjustedMutualInfoScore",
        params={"average_method": ("arithmetic", "min", "geometric", "max")},
    ),
    _clusters(
        name="normalized_mutual_information", source="clustering.NormalizedMutualInfoScore",
        params={"average_method": ("arithmetic", "min", "geometric", "max")},
    ),
    _clusters(name="mutual_information", source="clustering.MutualInfoScore"),
    _clusters(name="rand", source="clustering.RandScore"),
    _clusters(name="fowlkes_mallows", source="clustering.FowlkesMallowsIndex"),
    _clusters(name="homogeneity", source="clustering.HomogeneityScore"),
    _clusters(name="completeness", source="clustering.CompletenessScore"),
    _clusters(name="v_measure", source="clustering.VMeasureScore", params={"beta": 1.0}),
    _clusters(
        name="cluster_accuracy", source="clustering.ClusterAccuracy", packages=("torch_linear_assignment",),
        requires="clustering",
    ),
    _nominal(name="cramers_v", source="nominal.CramersV", params={"bias_correction": False}),
    _nominal(name="tschuprows_t", source="nominal.TschuprowsT", params={"bias_correction": False}),
    _nominal(name="pearsons_contingency", source="nominal.PearsonsContingencyCoefficient"),
    _nominal(name="theils_u", source="nominal.TheilsU", feed=target_first),
    _text(
        name="bleu", source="text.SacreBLEUScore",
        params={"tokenize": ("13a", "none", "char", "intl", "zh"), "lowercase": False},
        fixed={"smooth": True},
    ),
    _text(name="chrf", source="text.CHRFScore", fixed={"n_word_order": 0}),
    _text(name="ter", source="text.TranslationEditRate", feed=tercom),
    _text(
        name="eed", source="text.ExtendedEditDistance",
        params={"alpha": 2.0, "rho": 0.3, "deletion": 0.2, "insertion": 1.0},
        fixed={"return_sentence_level_score": True}, component=(1, "mean"), keeps="rows",
    ),
    _text(name="wer", source="text.WordErrorRate", feed=single),
    _text(name="cer", source="text.CharErrorRate", feed=single),
    _text(name="mer", source="text.MatchErrorRate", feed=single),
    _text(name="wil", source="text.WordInfoLost", feed=single),
    _text(name="wip", source="text.WordInfoPreserved", feed=single),
    _text(name="edit_distance", source="text.EditDistance", feed=single),
    _text(
        name="rouge_1", source="text.ROUGEScore", fixed={"rouge_keys": "rouge1", "accumulate": "best"},
        component=("rouge1_fmeasure",), keeps="rows",
    ),
    _text(
        name="rouge_2", source="text.ROUGEScore", fixed={"rouge_keys": "rouge2", "accumulate": "best"},
        component=("rouge2_fmeasure",), keeps="rows",
    ),
    _text(
        name="rouge_l", source="text.ROUGEScore", fixed={"rouge_keys": "rougeL", "accumulate": "best"},
        component=("rougeL_fmeasure",), keeps="rows",
    ),
    _text(name="squad_f1", source="text.SQuAD", component=("f1",), feed=answers),
    _text(name="squad_em", source="text.SQuAD", component=("exact_match",), feed=answers),
    Row(
        name="perplexity", source="text.Perplexity", features=(SEQUENCE, TEXT), inputs=LOGITS,
        keeps_ignored=True,
    ),
    Row(
        name="sequence_accuracy", source="classification.MulticlassExactMatch", features=(SEQUENCE,),
        keeps_ignored=True,
    ),
    _ranking(name="map", source="retrieval.RetrievalMAP"),
    _ranking(name="ndcg", source="retrieval.RetrievalNormalizedDCG", feed=graded_by_user),
    _ranking(name="mrr", source="retrieval.RetrievalMRR"),
    _ranking(name="precision", source="retrieval.RetrievalPrecision", params={"k": int, "empty": _EMPTY}),
    _ranking(name="recall", source="retrieval.RetrievalRecall", params={"k": int, "empty": _EMPTY}),
    _ranking(name="hit_rate", source="retrieval.RetrievalHitRate", params={"k": int, "empty": _EMPTY}),
    _ranking(
        name="fall_out", source="retrieval.RetrievalFallOut", params={"k": int, "empty": _EMPTY},
        void=nothing_irrelevant,
    ),
    _ranking(name="r_precision", source="retrieval.RetrievalRPrecision", params={"empty": _EMPTY}),
    _ranking(name="roc_auc", source="retrieval.RetrievalAUROC"),
    _ranking(
        name="recall_at_precision", source="retrieval.RetrievalRecallAtFixedPrecision",
        params={"min_precision": float, "empty": _EMPTY, "k": None},
        argument_names={"k": "max_k", "empty": "empty_target_action"}, component=(0,),
        make=construct_with_mean,
    ),
    Row(
        name="generalized_dice", source="segmentation.GeneralizedDiceScore", features=(MASK,),
        params={"weight_type": ("square", "simple", "linear"), "include_background": True},
        fixed={"input_format": "index"},
    ),
)  # fmt: skip
"""A row for each of them, under the name of our metric."""

EVERY_ROW = (*ROWS, *PEERS)
"""The rows of all classes of torchmetrics that measure one number."""
