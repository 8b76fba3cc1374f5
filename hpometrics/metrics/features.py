"""Output features, which describe what a model predicts, and the types of output that metrics read."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

from .._text import did_you_mean
from ..exceptions import MetricInputError, MetricNameError, StateError
from .registry.names import MetricName

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
    """The output of a model that a metric reads."""

    PREDICTIONS = "predictions"
    PROBABILITIES = "probabilities"
    LOGITS = "logits"


PREDICTIONS = InputType.PREDICTIONS
PROBABILITIES = InputType.PROBABILITIES
LOGITS = InputType.LOGITS


_FROM_SHAPE = frozenset({"num_classes", "num_labels", "size", "horizon", "vocab_size", "num_items"})
"""Facts that follow from the shape of a tensor if they are left out."""


@dataclass(frozen=True)
class OutputFeature:
    """The output of a model. Facts that follow from the shape of a tensor may be left out.

    `str()` returns the form that `parse_feature` reads: `category(num_classes=10)`.
    """

    type: ClassVar[str]

    def __str__(self) -> str:
        facts = [
            (f.name, getattr(self, f.name))
            for f in fields(self)
            if f.repr and getattr(self, f.name) != f.default
        ]
        return self.type + (
            f"({', '.join(f'{name}={_format_value(value)}' for name, value in facts)})" if facts else ""
        )

    @property
    def facts(self) -> dict[str, Any]:
        """Its type and facts by name, without side data and facts that follow from the shape of a tensor."""
        values = {f.name: getattr(self, f.name) for f in fields(self) if f.repr}
        return {
            "type": self.type,
            **{name: value for name, value in values.items() if value is not None or name not in _FROM_SHAPE},
        }

    def refuse_other(self, facts: Mapping[str, Any], reader: str) -> None:
        """Raise if the facts are those of another output; a fact that is missing does not matter.

        Raises:
            StateError: with the facts of both outputs that differ, and the reader of this one.
        """
        own = {"type": self.type, **{k: v for k, v in self.facts.items() if facts.get(k, v) != v}}
        other = {key: facts.get(key, value) for key, value in own.items()}
        if own != other:
            raise StateError(
                f"the measured {_format_facts(other)} does not match {reader} of {_format_facts(own)}; use "
                "the same output= for both"
            )

    def _plain(self, name: str) -> Any:
        """Return a fact, with a NumPy number as a Python one, which can stand in states and files."""
        value = getattr(self, name)
        if isinstance(value, Real) and type(value).__module__ != "builtins":
            value = int(value) if isinstance(value, Integral) else float(value)
            object.__setattr__(self, name, value)
        return value

    def _check_count(self, name: str) -> None:
        value = self._plain(name)
        if value is not None and not (_is_whole(value) and value >= 1):
            raise MetricInputError(f"{self.type}: {name} must be a whole number of at least 1, got {value!r}")

    def _check_index(self, name: str) -> None:
        value = self._plain(name)
        if value is not None and not _is_whole(value):
            raise MetricInputError(f"{self.type}: {name} must be a whole number, got {value!r}")

    def _check_tokens(self) -> None:
        self._check_count("vocab_size")
        if not _is_whole(ignored := self._plain("ignore_index")):
            raise MetricInputError(f"{self.type}: ignore_index must be a token id, got {ignored!r}")

    def _check_threshold(self) -> None:
        value = self._plain("threshold")
        if not (isinstance(value, (int, float)) and math.isfinite(value) and 0 < value < 1):
            raise MetricInputError(
                f"{self.type}: threshold must be a probability between 0 and 1 (exclusive), got {value!r}"
            )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _format_facts(facts: Mapping[str, Any]) -> str:
    values = ", ".join(f"{name}={_format_value(value)}" for name, value in facts.items() if name != "type")
    return f"{facts['type']}({values})" if values else str(facts["type"])


def _format_value(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


@dataclass(frozen=True)
class Binary(OutputFeature):
    """One yes or no per row, predicted 1 when its probability exceeds `threshold`.

    Rows whose target is `ignore_index` do not count.

    Shape: logits, probabilities (N,); predictions, target (N,) of 0 and 1.
    """

    type: ClassVar[str] = BINARY
    threshold: float = 0.5
    ignore_index: int | None = None

    def __post_init__(self) -> None:
        self._check_threshold()
        self._check_index("ignore_index")


@dataclass(frozen=True)
class Category(OutputFeature):
    """One class of several per row. Rows whose target is `ignore_index` do not count.

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

    A label whose target is `ignore_index` is unknown and does not count in its row, as if it were absent. A
    row whose labels are all unknown does not count.

    Shape: logits, probabilities (N, L); predictions, target (N, L) of 0 and 1.
    """

    type: ClassVar[str] = SET
    num_labels: int | None = None
    threshold: float = 0.5
    ignore_index: int | None = None

    def __post_init__(self) -> None:
        self._check_count("num_labels")
        self._check_threshold()
        self._check_index("ignore_index")


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
    """The next values of each series. Shape: predictions, target (N, H)."""

    type: ClassVar[str] = TIMESERIES
    horizon: int | None = None

    def __post_init__(self) -> None:
        self._check_count("horizon")


@dataclass(frozen=True)
class Sequence(OutputFeature):
    """A token per position. Positions whose target is `ignore_index` do not count.

    Shape: logits, probabilities (N, T, V); predictions, target (N, T) int.
    """

    type: ClassVar[str] = SEQUENCE
    vocab_size: int | None = None
    ignore_index: int = -100

    def __post_init__(self) -> None:
        self._check_tokens()


@dataclass(frozen=True)
class Text(OutputFeature):
    """Text: as strings, or as token ids with the shapes and the `ignore_index` of `Sequence`.

    Shape: predictions N strings; target N strings or N lists of references; logits, probabilities (N, T, V)
    of token ids; predictions, target (N, T) int token ids; texts, references N strings beside token ids.
    """

    type: ClassVar[str] = TEXT
    vocab_size: int | None = None
    ignore_index: int = -100

    def __post_init__(self) -> None:
        self._check_tokens()


@dataclass(frozen=True, eq=False)
class Ranking(OutputFeature):
    """Scores of items per user (or per query); a relevant item should rank high.

    Each user with a relevant item counts once in an average. Seen items are not ranked unless `items=` names
    them, equal scores rank in the order of their columns, and -inf means that an item is not a candidate.

    Side data, such as the seen items, are arguments of the output.

    Shape: logits or scores (users, items); target (users, items), sparse, or lists of item ids; items
    (users, candidates) of item ids, for scores and target of this shape; users (users,) the number of each
    user; queries (pairs,) the query of each score, for scores and target of this shape; user_factors
    (users, D) beside item_factors, in place of scores; item_factors (items, D).

    Args:
        num_items: the size of the catalog.
        num_users: the number of users in training; by default the rows of `seen`.
        relevance_threshold: items whose grade is above it are relevant.
        unjudged: the grade of an item that should have been judged and was not, such as the -1 of TREC; for
            `bpref`, `infap` and `judged`. For all other metrics the item is not relevant.
        empty: the value of a user without a relevant item, for metrics of relevant items: `skip`, none, as
            in WarpRec and RecBole, or `neg`, 0, as in trec_eval, ir_measures, ranx and torchmetrics. Other
            metrics skip such a user: areas such as `auc`, `fall_out`, and all that a list without a hit does
            not bring to 0, such as its length, its popularity, or the mean of its scores.
        num_negatives: the number of items, neither relevant nor seen, that are sampled for each user; only
            they and the relevant items are ranked (sampled evaluation).
        seed: the seed of that sample.
        per_user: whether the value of each user is stored, see `MetricCollection.per_user`.
        seen: training interactions, users x items (dense, sparse, lists of ids), masked out; needs `users=`.
        item_popularity: (items,) interactions of each item; by default counted from `seen`.
        item_groups, user_groups: (items,), (users,) whole numbers from 0; -1 where unknown.
        item_features: (items, features).
        propensity: (items,) the chance that a relevant item is observed, in (0, 1]; by default estimated
            from the popularity.
        made_by: the function that returned this output, see `make_output`; a pickle then has the function in
            place of the side data.
    """

    type: ClassVar[str] = RANKING
    num_items: int | None = None
    num_users: int | None = None
    relevance_threshold: float = 0.0
    num_negatives: int | None = None
    seed: int = 0
    per_user: bool = False
    unjudged: float | None = None
    empty: Literal["skip", "neg"] = "skip"
    seen: Any = field(default=None, repr=False)
    item_popularity: Any = field(default=None, repr=False)
    item_groups: Any = field(default=None, repr=False)
    user_groups: Any = field(default=None, repr=False)
    item_features: Any = field(default=None, repr=False)
    propensity: Any = field(default=None, repr=False)
    made_by: Callable[[], Any] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("num_items", "num_users", "num_negatives"):
            self._check_count(name)
        self._check_index("seed")
        for name in ("relevance_threshold", "unjudged"):
            self._plain(name)
        if not (isinstance(self.relevance_threshold, (int, float)) and self.relevance_threshold >= 0):
            raise MetricInputError(
                f"{self.type}: relevance_threshold must be a grade of at least 0, got "
                f"{self.relevance_threshold!r}"
            )
        if self.empty not in ("skip", "neg"):
            raise MetricInputError(
                f"{self.type}: empty must be `skip` or `neg`, the value of a user without a relevant item; "
                f"got {self.empty!r}"
            )
        if self.unjudged is not None and not self.unjudged <= self.relevance_threshold:
            raise MetricInputError(
                f"{self.type}: unjudged must be a grade of at most "
                f"relevance_threshold={self.relevance_threshold!r}, because grades above it are relevant; "
                f"got {self.unjudged!r}"
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Ranking) and all(
            getattr(self, f.name) == getattr(other, f.name)
            if f.repr
            else getattr(self, f.name) is getattr(other, f.name)
            for f in fields(self)
        )

    def __hash__(self) -> int:
        return hash((self.type, *(getattr(self, f.name) for f in fields(self) if f.repr)))

    def __deepcopy__(self, memo: Any) -> Ranking:
        return self  # frozen, and its side data is large

    def __reduce__(self) -> tuple[Any, ...]:
        facts = {f.name: getattr(self, f.name) for f in fields(self) if f.repr or self.made_by is None}
        return (_remake, (self.made_by, facts)) if self.made_by else (_restore, (facts,))


def _restore(facts: Mapping[str, Any]) -> Ranking:
    return Ranking(**facts)


def _remake(make: Callable[[], Any], facts: Mapping[str, Any]) -> OutputFeature:
    output = make_output(make)
    own = {name: getattr(output, name) for name in facts}
    return output if own == facts else replace(output, **facts)


@dataclass(frozen=True)
class Image(OutputFeature):
    """A picture per row. Shape: predictions, target (N, channels, height, width)."""

    type: ClassVar[str] = IMAGE


@dataclass(frozen=True)
class Audio(OutputFeature):
    """A sound per row. Shape: predictions, target (N, samples), or (N, speakers, samples)."""

    type: ClassVar[str] = AUDIO


@dataclass(frozen=True)
class Boxes(OutputFeature):
    """The objects of a picture per row, as in torchvision: each box is x1, y1, x2, y2 in pixels.

    Shape: predictions N mappings of `boxes` (M, 4), `labels` (M,) int and `scores` (M,); target N mappings of
    `boxes` and `labels`.
    """

    type: ClassVar[str] = BOXES


@dataclass(frozen=True)
class Mask(OutputFeature):
    """A class per pixel. Pixels whose target is `ignore_index` do not count.

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
    """A group per row, whose number has no meaning. Shape: predictions, target (N,) int."""

    type: ClassVar[str] = CLUSTERS


class AnyOutput(OutputFeature):
    """The output of a metric that was never registered; nothing of it is checked or derived."""

    type: ClassVar[str] = "any"


Output = OutputFeature | str | Callable[[], OutputFeature | str]

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
        MetricInputError: it is not; the message lists all types.
    """
    if name not in FEATURES:
        hint = did_you_mean(name, FEATURES) or "."
        raise MetricInputError(f"{name!r} is not an output feature{hint} Choose from {', '.join(FEATURES)}")
    return name


def parse_feature(text: Output) -> OutputFeature:
    """Parse `category`, `category(num_classes=10)` or `binary(threshold=0.3)`, or the result of a function.

    Raises:
        MetricInputError: there is no such feature, or it has no such fact.
    """
    if isinstance(text, OutputFeature):
        return text
    if callable(text):
        return make_output(text)

    try:
        name = MetricName.parse(text)
    except MetricNameError as err:
        raise MetricInputError(
            f"{text!r} is not an output feature; write category or category(num_classes=10)"
        ) from err
    if str(name.bare) != str(name) or name.k is not None:
        raise MetricInputError(f"{text!r}: an output feature has no split, task, feature or @k")
    feature = FEATURES[check_feature_type(name.metric)]
    names = [f.name for f in fields(feature) if f.repr]
    for key, _ in name.params:
        if key not in names:
            raise MetricInputError(
                f"{feature.type} has no {key!r}; it knows {', '.join(names) or 'no facts'}"
            )
    return feature(**dict(name.params))


@cache
def make_output(make: Callable[[], OutputFeature | str]) -> OutputFeature:
    """Call a function that returns an output, once per process however often it is needed.

    A `Ranking` made in this way pickles as the function, which is called where it is unpickled. So side data
    of any size are read there, as the training data are, and are not part of the pickle.

    Raises:
        MetricInputError: it returns something else.
    """
    result = make()
    if not isinstance(result, (OutputFeature, str)):
        raise MetricInputError(
            "a function as output= must return an output such as Ranking(seen=...), got "
            f"{type(result).__name__}"
        )
    output = parse_feature(result)
    return replace(output, made_by=make) if isinstance(output, Ranking) else output
