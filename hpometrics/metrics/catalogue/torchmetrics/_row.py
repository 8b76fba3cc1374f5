"""Description of one torchmetrics class, by which it gets a name, a direction and documentation.

`as_metric` also accepts an object of any of these classes, except one that forgets earlier batches.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, Literal, NamedTuple

import torch
import torchmetrics
from torch import Tensor

from ....direction import Direction
from ...features import (
    AUDIO,
    BINARY,
    BOXES,
    CATEGORY,
    CLUSTERS,
    IMAGE,
    MASK,
    PREDICTIONS,
    SET,
    TEXT,
    InputType,
)
from ...wrappers import map_tensors


class MetricInputs(NamedTuple):
    """The inputs of a metric: model output, target and extras, for one batch or for all."""

    preds: Any
    target: Any
    extras: Mapping[str, Any]


Feed = Callable[[torchmetrics.Metric, MetricInputs], None]
Void = Callable[[MetricInputs, Mapping[str, Any]], str | None]
Sums = Callable[[MetricInputs, Mapping[str, Any]], list[float] | None]
ByRow = Callable[[MetricInputs, Mapping[str, Any]], Tensor | None]
OfSums = Callable[[Tensor, Mapping[str, Any]], Tensor]
Make = Callable[[type, dict[str, Any]], torchmetrics.Metric]

SHAPES: Mapping[str, str] = {
    CATEGORY: "preds, target: (N,) int.",
    CLUSTERS: "preds, target: (N,) int.",
    TEXT: "predictions: N texts. target: N texts, or N lists of one or more references.",
    IMAGE: "preds, target: (N, channels, height, width) float.",
    AUDIO: "preds, target: (N, samples) float.",
    BOXES: "preds, target: N mappings of `boxes` (M, 4) float and `labels` (M,) int; those of preds have "
    "`scores` (M,) float.",
    MASK: "preds: (N, height, width) int, classes (or logits (N, C, height, width) by keyword). target: (N, "
    "height, width) int.",
}
"""The inputs that the rows of a feature read by default."""

_PREFIXES = {BINARY: "Binary", CATEGORY: "Multiclass", SET: "Multilabel"}


def pair(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with predictions and target."""
    inner.update(inputs.preds, inputs.target)


def row_by_row(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update row by row, so that a class that sums the rows of a batch in float32 does not."""
    for preds, target in zip(inputs.preds, inputs.target, strict=True):
        inner.update(preds[None], target[None])


def predictions_only(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with the predictions alone, without a target."""
    inner.update(inputs.preds)


def unit_predictions_only(inner: torchmetrics.Metric, inputs: MetricInputs) -> None:
    """Update with the predictions alone, clamped to [0, 1] as a file would store them."""
    inner.update(inputs.preds.clamp(0, 1))


def construct(cls: type, arguments: dict[str, Any]) -> torchmetrics.Metric:
    """Call the constructor."""
    metric: torchmetrics.Metric = cls(**arguments)
    return metric


@dataclass(frozen=True, kw_only=True)
class Row:
    """One name for one torchmetrics class, or for its binary, multiclass and multilabel variants.

    Attributes:
        name: the canonical name.
        features: the output features it serves.
        source: module and class, without `torchmetrics`; for classification without the variant's prefix.
        direction: which way is better. It is ours, proven by experiment, and never read from the class.
        inputs: which model output it reads.
        summary, value, formula, paper, deviates: the text of its docstring.
        shape: its inputs, where they differ from those of its feature in `SHAPES`.
        params: the parameters of a name: `{"data_range": 1.0}` a default, a tuple its choices (the first is
            the default), a type a required value, None an optional whole number.
        fixed: further constructor arguments.
        argument_names: the constructor's name of a parameter, where it differs.
        component: the path to the value in a result of several: keys, indices, `mean`, `least`; `component`
            in `params` lets a name choose, by the indices of `entries` where the result is a sequence.
        feed: passes the inputs to `update`; `make` calls the constructor.
        sums: computes the sums of the class from pictures, on the CPU and in less time; None for those that
            only the class can measure or refuse.
        of_sums: computes the value from these sums as the class does; without it an object of the class does.
        by_row: computes the value of each row, whose mean is the value, under the same conditions.
        keeps: `states` adds up the states of the class; `lists` stores those that are lists of a tensor a
            row; `rows` stores the inputs, for a class whose states do not add up, and measures once.
        wide: whether it is measured in float64.
        highest: the largest value of a picture, where it has no `data_range`.
        keeps_ignored: the class leaves out the positions of the output's `ignore_index`.
        extras: keyword arguments of `update` that it needs; `optional` those that it can use.
        packages: required modules, `a|b` for one of the two; `requires` the extra that brings them.
        sentinel: a value that stands for undefined, and its reason; `void` returns, from all rows and the
            parameters, why they have no value, where the class returns one.
        aliases: further names.
    """

    name: str
    features: tuple[str, ...]
    source: str
    direction: Direction | None = None
    summary: str = ""
    value: str = ""
    shape: str = ""
    formula: str = ""
    paper: str = ""
    deviates: str = ""
    inputs: InputType = PREDICTIONS
    params: Mapping[str, Any] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    argument_names: Mapping[str, str] = field(default_factory=dict)
    component: tuple[str | int, ...] = ()
    entries: Mapping[str, int] = field(default_factory=dict)
    feed: Feed = pair
    make: Make = construct
    sums: Sums | None = None
    of_sums: OfSums | None = None
    by_row: ByRow | None = None
    keeps: Literal["states", "lists", "rows"] = "states"
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
        """The packages that are not installed; among alternatives the first."""
        choices = [package.split("|") for package in self.packages]
        return [names[0] for names in choices if not any(map(find_spec, names))]

    @property
    def draws(self) -> bool:
        """Whether it may draw random numbers, as trained networks and what measures their features do."""
        return bool(self.packages)

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
        """Return the name of the torchmetrics class that measures a feature."""
        name = self.source.rpartition(".")[2]
        if self.family != "classification" or name.startswith(tuple(_PREFIXES.values())):
            return name
        return f"{_PREFIXES[feature_type]}{name}"


def widened(inputs: MetricInputs, wide: bool, signals: bool) -> MetricInputs:
    """Return the inputs with wider tensors."""

    def cast(tensor: Tensor) -> Tensor:
        return tensor.to(_wider_dtype(tensor.dtype, wide, signals))

    return MetricInputs(*map_tensors(cast, list(inputs)))


def _wider_dtype(dtype: torch.dtype, wide: bool, signals: bool) -> torch.dtype:
    """Return the type to measure in: whole numbers of a signal would wrap around, others are classes."""
    if dtype.is_complex or (dtype is torch.bool and not signals):
        return dtype
    if not (signals or dtype.is_floating_point):
        return torch.int64
    if wide:
        return torch.float64
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32
