"""Row: what we say of one torchmetrics class, so that it can be reached by a name and optimized.

`as_metric` still takes an object of any of them, but one that forgets all but the last batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal

import torchmetrics

from ....direction import Objective
from ...features import (
    AUDIO,
    BINARY,
    BOXES,
    CATEGORY,
    CLUSTERS,
    IMAGE,
    MASK,
    PREDICTIONS,
    RANKING,
    SET,
    TEXT,
    InputType,
)
from ._packing import Given

Feed = Callable[[torchmetrics.Metric, Given], None]
Void = Callable[[Given, Mapping[str, Any]], str | None]
Make = Callable[[type, dict[str, Any]], torchmetrics.Metric]

SHAPES: Mapping[str, str] = {
    CATEGORY: "preds, target: (N,) int.",
    CLUSTERS: "preds, target: (N,) int.",
    TEXT: "predictions: N texts. target: N texts, or N lists of one or more references.",
    RANKING: "preds: (users, items) float, scores. target: (users, items), relevant above 0; or sparse.",
    IMAGE: "preds, target: (N, channels, height, width) float.",
    AUDIO: "preds, target: (N, samples) float.",
    BOXES: "preds, target: N mappings of `boxes` (M, 4) float and `labels` (M,) int; those of preds have "
    "`scores` (M,) float.",
    MASK: "preds: (N, height, width) int, classes (or logits (N, C, height, width) by keyword). target: (N, "
    "height, width) int.",
}
"""What the rows of a feature read, if they do not say otherwise."""

_PREFIXES = {BINARY: "Binary", CATEGORY: "Multiclass", SET: "Multilabel"}


def pair(inner: torchmetrics.Metric, given: Given) -> None:
    """Hand over predictions and target."""
    inner.update(given.preds, given.target)


def row_by_row(inner: torchmetrics.Metric, given: Given) -> None:
    """Hand over one row after the other: a class that sums the rows of a batch in float32 then does not."""
    for preds, target in zip(given.preds, given.target, strict=True):
        inner.update(preds[None], target[None])


def target_first(inner: torchmetrics.Metric, given: Given) -> None:
    """Hand over the target before the predictions."""
    inner.update(given.target, given.preds)


def predictions_only(inner: torchmetrics.Metric, given: Given) -> None:
    """Hand over what was made; there is no right one."""
    inner.update(given.preds)


def unit_predictions_only(inner: torchmetrics.Metric, given: Given) -> None:
    """Hand over what was made, cut to [0, 1] as a file of it would be."""
    inner.update(given.preds.clamp(0, 1))


def plainly(cls: type, arguments: dict[str, Any]) -> torchmetrics.Metric:
    """Call the constructor."""
    made: torchmetrics.Metric = cls(**arguments)
    return made


@dataclass(frozen=True, kw_only=True)
class Row:
    """One name for one torchmetrics class, or for one of each of its binary, multiclass, multilabel three.

    Attributes:
        name: the canonical name; of a native metric where there is one, which then wins.
        features: the output features it serves.
        source: module and class, without `torchmetrics`; of classification without the prefix of the three.
        objective: which way is better. It is ours, proven by experiment, and never read from the class.
        inputs: which model output it reads.
        summary, value, formula, paper, deviates: what its docstring says.
        shape: what it reads, where that is not what others of its feature do (`SHAPES`).
        params: what a name may set: `{"data_range": 1.0}` a default, a tuple its choices (the first is the
            default), a type what must be given, None an optional whole number.
        fixed: further constructor arguments.
        renamed: what the constructor calls a parameter, where that is another name.
        component: the way to the one number in a result of several: keys, indices, `mean`, `least`;
            `component` in `params` lets a name choose, by the numbers of `entries` where those are places.
        feed: hands what was given to `update`; `make` calls the constructor.
        keeps: `states` adds up what the class keeps; `rows` keeps the inputs, for a class whose states do
            not add up, and measures once.
        wide: whether it is measured in float64.
        highest: the largest value of a picture, where no `data_range` says it.
        keeps_ignored: the class leaves out the positions of the output's `ignore_index`.
        extras: keyword arguments of `update` that it needs; `optional` those that it can use.
        packages: what must be importable, `a|b` one of the two, and `requires` the extra that brings it.
        sentinel: a value that stands for undefined, and why it comes about; `void` says of all rows, by the
            parameters, why they have no value, where the class has one for them.
        aliases: further names.
    """

    name: str
    features: tuple[str, ...]
    source: str
    objective: Objective | None
    summary: str
    value: str
    shape: str = ""
    formula: str = ""
    paper: str = ""
    deviates: str = ""
    inputs: InputType = PREDICTIONS
    params: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    renamed: Mapping[str, str] = field(default_factory=dict)
    component: tuple[str | int, ...] = ()
    entries: Mapping[str, int] = field(default_factory=dict)
    feed: Feed = pair
    make: Make = plainly
    keeps: Literal["states", "rows"] = "states"
    wide: bool = True
    highest: float | None = None
    keeps_ignored: bool = False
    extras: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    requires: str | None = None
    sentinel: tuple[float, str] | None = None
    void: Void | None = None
    aliases: tuple[str, ...] | Mapping[str, str] = ()

    @property
    def missing_packages(self) -> list[str]:
        """The packages that are not installed; of alternatives the first."""
        choices = [package.split("|") for package in self.packages]
        return [names[0] for names in choices if not any(map(find_spec, names))]

    @property
    def reads_signals(self) -> bool:
        """Whether whole numbers are values of pixels or samples, not classes."""
        return not {IMAGE, AUDIO}.isdisjoint(self.features)

    @property
    def module(self) -> str:
        """The torchmetrics module of the class."""
        return self.source.rpartition(".")[0]

    @property
    def family(self) -> str:
        """The first of the modules: `image`, `audio`."""
        return self.source.partition(".")[0]

    def class_name(self, feature_type: str) -> str:
        """The torchmetrics class that measures a feature."""
        name = self.source.rpartition(".")[2]
        if self.family != "classification" or name.startswith(tuple(_PREFIXES.values())):
            return name
        return f"{_PREFIXES[feature_type]}{name}"

    @property
    def sources(self) -> set[str]:
        """Every class it reaches, as `module.Class`."""
        return {f"{self.family}.{self.class_name(feature)}" for feature in self.features}


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
