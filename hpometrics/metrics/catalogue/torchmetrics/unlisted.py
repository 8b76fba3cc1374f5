"""Unlisted: torchmetrics classes that no name of the reference catalogue reaches, each with the reason.

`as_metric` still takes an object of any of them, but one that forgets all but the last batches.
"""

from __future__ import annotations

_CURVE = "a curve has no order, hence no direction; {} gives its points"
_FACADE = "it makes one of its binary, multiclass and multilabel three, which are listed"
_FED = "its direction is that of what it is fed with; a run averages its own values"
_WRAPS = "it has the direction of the metric inside; wrap that one"

FACADES = (
    "AUROC Accuracy AveragePrecision CalibrationError CohenKappa ConfusionMatrix EER ExactMatch F1Score "
    "FBetaScore HammingDistance HingeLoss JaccardIndex LogAUC MatthewsCorrCoef NegativePredictiveValue "
    "Precision PrecisionAtFixedRecall PrecisionRecallCurve ROC Recall RecallAtFixedPrecision "
    "SensitivityAtSpecificity Specificity SpecificityAtSensitivity StatScores"
).split()

_THREE = ("Binary", "Multiclass", "Multilabel")
_SHAPES = {
    "ConfusionMatrix": "a table has no order, hence no direction; confusion_matrix gives it",
    "PrecisionRecallCurve": _CURVE.format("precision_recall_curve"),
    "ROC": _CURVE.format("roc_curve"),
    "StatScores": "counts have no order, hence no direction; stat_scores gives them",
}

UNLISTED: dict[str, str] = {
    **{f"classification.{name}": _FACADE for name in FACADES},
    **{f"classification.{prefix}{name}": why for name, why in _SHAPES.items() for prefix in _THREE},
    "classification.BinaryGroupStatRates": "rates of each group have no order, hence no direction",
    "retrieval.RetrievalMetric": "the abstract base of the others",
    "retrieval.RetrievalPrecisionRecallCurve": "a curve has no order, hence no direction",
    "image.PerceptualPathLength": "it reads a generator, not what one made; less is better",
    "multimodal.LipVertexError": "it needs a list of vertices, which no name can hold; less is better",
    **{
        f"aggregation.{name}": _FED
        for name in "CatMetric MaxMetric MeanMetric MinMetric RunningMean RunningSum SumMetric".split()
    },
    "aggregation.BaseAggregator": "the abstract base of the others",
    **{
        f"wrappers.{name}": _WRAPS
        for name in (
            "BinaryTargetTransformer BootStrapper ClasswiseWrapper FeatureShare LambdaInputTransformer "
            "MetricInputTransformer MetricTracker MinMaxMetric MultioutputWrapper MultitaskWrapper Running"
        ).split()
    },
    "wrappers.WrapperMetric": "the abstract base of the others",
}
"""Class, as `module.Class` -> why no name reaches it."""
