"""Output features: what a model predicts, with its facts, and the kinds of output it shows."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from difflib import get_close_matches
from enum import StrEnum
from typing import ClassVar

from ..exceptions import MetricInputError, MetricNameError

BINARY = "binary"
CATEGORY = "category"
SET = "set"
NUMBER = "number"
VECTOR = "vector"
TIMESERIES = "timeseries"
SEQUENCE = "sequence"
TEXT = "text"
RANKING = "ranking"
IMAGE = "image"
AUDIO = "audio"
BOXES = "boxes"
MASK = "mask"
CLUSTERS = "clusters"


class InputType(StrEnum):
    """Which output of a model a metric reads."""

    PREDICTIONS = "predictions"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"


PREDICTIONS = InputType.PREDICTIONS
PROBABILITIES = InputType.PROBABILITIES
LOGITS = InputType.LOGITS


@dataclass(frozen=True)
class OutputFeature:
    """What a model predicts. Facts that a tensor shows by its shape may be left out.

    `str()` gives what `parse_feature` reads: `category(num_classes=10)`.
    """

    type: ClassVar[str]

    def __str__(self) -> str:
        facts = [(f.name, getattr(self, f.name)) for f in fields(self) if getattr(self, f.name) != f.default]
        return self.type + (f"({', '.join(f'{name}={value}' for name, value in facts)})" if facts else "")

    def _check_count(self, name: str) -> None:
        value = getattr(self, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
            raise MetricInputError(f"{self.type}: {name} must be a whole number of at least 1, got {value!r}")

    def _check_index(self, name: str) -> None:
        value = getattr(self, name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise MetricInputError(f"{self.type}: {name} is a whole number, got {value!r}")

    def _check_threshold(self, value: float) -> None:
        if not (isinstance(value, (int, float)) and math.isfinite(value) and 0 < value < 1):
            raise MetricInputError(
                f"{self.type}: threshold is a probability between 0 and 1 (exclusive), got {value!r}"
            )


@dataclass(frozen=True)
class Binary(OutputFeature):
    """One yes or no per row, predicted 1 when its probability exceeds `threshold`.

    Rows whose target is `ignore_index` count for nothing.

    Shape: logits, probabilities, predictions, target (N,).
    """

    type: ClassVar[str] = BINARY
    threshold: float = 0.5
    ignore_index: int | None = None

    def __post_init__(self) -> None:
        self._check_threshold(self.threshold)
        self._check_index("ignore_index")


@dataclass(frozen=True)
class Category(OutputFeature):
    """One class of several per row. Rows whose target is `ignore_index` count for nothing.

    Shape: logits, probabilities (N, C); predictions, target (N,) int in [0, C).
    """

    type: ClassVar[str] = CATEGORY
    num_classes: int | None = None
    ignore_index: int | None = None

    def __post_init__(self) -> None:
        self._check_count("num_classes")
        self._check_index("ignore_index")


@dataclass(frozen=True)
class Set(OutputFeature):
    """Any number of labels per row (multilabel), each predicted when its probability exceeds `threshold`.

    Shape: logits, probabilities, predictions, target (N, L).
    """

    type: ClassVar[str] = SET
    num_labels: int | None = None
    threshold: float = 0.5

    def __post_init__(self) -> None:
        self._check_count("num_labels")
        self._check_threshold(self.threshold)


@dataclass(frozen=True)
class Number(OutputFeature):
    """One real value per row. Shape: predictions, target (N,)."""

    type: ClassVar[str] = NUMBER


@dataclass(frozen=True)
class Vector(OutputFeature):
    """A fixed number of real values per row. Shape: predictions, target (N, D)."""

    type: ClassVar[str] = VECTOR
    size: int | None = None

    def __post_init__(self) -> None:
        self._check_count("size")


@dataclass(frozen=True)
class Timeseries(OutputFeature):
    """The next values of a series. Shape: predictions, target (N, H)."""

    type: ClassVar[str] = TIMESERIES
    horizon: int | None = None

    def __post_init__(self) -> None:
        self._check_count("horizon")


@dataclass(frozen=True)
class Sequence(OutputFeature):
    """A token per position. Positions whose target is `ignore_index` count for nothing.

    Shape: logits, probabilities (N, T, V); predictions, target (N, T) int.
    """

    type: ClassVar[str] = SEQUENCE
    vocab_size: int | None = None
    ignore_index: int = -100

    def __post_init__(self) -> None:
        self._check_count("vocab_size")
        if isinstance(self.ignore_index, bool) or not isinstance(self.ignore_index, int):
            raise MetricInputError(f"{self.type}: ignore_index is a token id, got {self.ignore_index!r}")


@dataclass(frozen=True)
class Text(OutputFeature):
    """Text: as strings, or as token ids with the shapes and the `ignore_index` of `Sequence`.

    Shape: predictions N strings, target N strings or N lists of references; token ids beside or instead.
    """

    type: ClassVar[str] = TEXT
    vocab_size: int | None = None
    ignore_index: int = -100

    def __post_init__(self) -> None:
        self._check_count("vocab_size")
        if isinstance(self.ignore_index, bool) or not isinstance(self.ignore_index, int):
            raise MetricInputError(f"{self.type}: ignore_index is a token id, got {self.ignore_index!r}")


@dataclass(frozen=True)
class Ranking(OutputFeature):
    """Scores of items per user. Shape: logits (scores), target (users, items)."""

    type: ClassVar[str] = RANKING
    num_items: int | None = None

    def __post_init__(self) -> None:
        self._check_count("num_items")


@dataclass(frozen=True)
class Image(OutputFeature):
    """Pictures. Shape: predictions, target (N, channels, height, width)."""

    type: ClassVar[str] = IMAGE


@dataclass(frozen=True)
class Audio(OutputFeature):
    """Sound. Shape: predictions, target (N, samples)."""

    type: ClassVar[str] = AUDIO


@dataclass(frozen=True)
class Boxes(OutputFeature):
    """Objects found in pictures. Shape: predictions, target N mappings of tensors, as in torchvision."""

    type: ClassVar[str] = BOXES


@dataclass(frozen=True)
class Mask(OutputFeature):
    """A class per pixel. Pixels whose target is `ignore_index` count for nothing.

    Shape: logits, probabilities (N, C, height, width); predictions, target (N, height, width) int.
    """

    type: ClassVar[str] = MASK
    num_classes: int | None = None
    ignore_index: int | None = None

    def __post_init__(self) -> None:
        self._check_count("num_classes")
        self._check_index("ignore_index")


@dataclass(frozen=True)
class Clusters(OutputFeature):
    """A group per row, its number without meaning. Shape: predictions, target (N,) int."""

    type: ClassVar[str] = CLUSTERS


FEATURES: dict[str, type[OutputFeature]] = {
    feature.type: feature
    for feature in (
        Binary, Category, Set, Number, Vector, Timeseries, Sequence, Text, Ranking,
        Image, Audio, Boxes, Mask, Clusters,
    )
}  # fmt: skip


def check_feature_type(name: str) -> str:
    """Return `name` if it is a feature type.

    Raises:
        MetricInputError: it is not; the message lists all of them.
    """
    if name not in FEATURES:
        close = get_close_matches(str(name), FEATURES, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise MetricInputError(f"{name!r} is no output feature.{hint} Choose from {', '.join(FEATURES)}")
    return name


def parse_feature(text: str | OutputFeature) -> OutputFeature:
    """Read `category`, `category(num_classes=10)` or `binary(threshold=0.3)`.

    Raises:
        MetricInputError: no such feature, or no such fact of it.
    """
    if isinstance(text, OutputFeature):
        return text
    from .names import MetricName  # the same small grammar

    try:
        name = MetricName.parse(text)
    except MetricNameError as err:
        raise MetricInputError(
            f"{text!r} is no output feature; write category or category(num_classes=10)"
        ) from err
    if str(name.bare) != str(name) or name.k is not None:
        raise MetricInputError(f"{text!r}: an output feature has no split, task, feature or @k")
    feature = FEATURES[check_feature_type(name.metric)]
    known = [f.name for f in fields(feature)]
    for key, _ in name.params:
        if key not in known:
            raise MetricInputError(
                f"{feature.type} has no {key!r}; it knows {', '.join(known) or 'no facts'}"
            )
    return feature(**dict(name.params))
