"""Stores of every row's outputs and target, for metrics that depend on the order of all rows."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ...exceptions import MetricInputError, StateError
from .._device import on_host
from ..batch import Outputs
from ..features import CATEGORY, LOGITS
from .errors import WHOLE, check_width, difference
from .statistic import Kept, NamedTensors, Reduction, Statistic, refuse_other_width

Values = npt.NDArray[Any]
Stored = tuple[Tensor, Tensor, Tensor | None]
CLASS_SCORES = 2
"""The value of `are_logits` in the state of scores by `class_scores_of`."""
UNKNOWN = 2
"""The value of a set's label that is neither 0 nor 1 but unknown."""
_CHUNK = 1 << 18  # elements per chunk, which is filled once and never moved
_SAMPLED = 1 << 9  # values that show where a place in the order of its square or more lies
_WIDE = 1 << 22, 128  # more elements for so many rows: a column is read from as few chunks as possible


class Scores(Statistic):
    """Scores (N, C), target and weight of every row; row-major, in chunks, copied from the batch.

    From logits, a category's scores are those of `class_scores_of` (comparable across rows, without
    saturation), and a binary or set output's are the logits; otherwise they are the probabilities. All
    batches of an epoch must be of one kind. Weights are stored once a batch has some; before, each row weighs
    1. An unknown label of a set is stored as `UNKNOWN` and belongs to no column.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {
        "scores": "own", "target": "own", "weight": "own", "are_logits": "own",
    }  # fmt: skip
    weighted: ClassVar[bool] = True
    pools_tasks: ClassVar[bool] = True
    grows: ClassVar[bool] = True
    regroups = True

    def reset(self) -> None:
        """Forget every row."""
        super().reset()
        self._chunks: list[Stored] = []
        self._free = 0
        self._are_logits: bool | None = None
        self.has_gaps = False
        """Whether labels of a set may be unknown, so that a column has fewer rows than the store."""

    @property
    def empty(self) -> bool:
        """True until the first row."""
        return not self._chunks

    @property
    def filled(self) -> list[Stored]:
        """Views of the filled rows of each chunk: scores, target, and weight or None where all are 1."""
        end = len(self._chunks[-1][0]) - self._free
        return [*self._chunks[:-1], _first(self._chunks[-1], end)]

    @property
    def are_logits(self) -> bool:
        """Whether the scores come from logits, instead of being probabilities."""
        return bool(self._are_logits)

    @property
    def of_classes(self) -> bool:
        """Whether the scores are those of `class_scores_of` for a category's logits."""
        return self.are_logits and self.classes > 1 and self._chunks[0][1].ndim == 1

    @property
    def classes(self) -> int:
        """The number of columns of scores; 1 for a binary output."""
        return self._chunks[0][0].shape[1]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return sum(len(target) for _, target, _ in self.filled)

    @property
    def target(self) -> Tensor:
        """The target of all rows, (N,) int64, for a set (N, L)."""
        return self.derived("target", lambda own: torch.cat([target for _, target, _ in own.filled]).long())

    @property
    def weight(self) -> Tensor | None:
        """The weight of all rows, (N,) float64; None if no batch had weights."""
        return self.derived("weight", _weight_of)

    def column(self, index: int) -> Stored:
        """Return one class against the rest: its scores, its rows as bool, weight or None; each (N,)."""
        filled, weight = self.filled, self.weight
        scores = torch.cat([scores[:, index] for scores, _, _ in filled])
        if filled[0][1].ndim == 1:
            return scores, self.target == (index if self.classes > 1 else 1), weight
        label = torch.cat([target[:, index] for _, target, _ in filled])
        if not self.has_gaps:
            return scores, label == 1, weight
        is_known = label != UNKNOWN
        return scores[is_known], label[is_known] == 1, None if weight is None else weight[is_known]

    def pooled(self) -> Stored:
        """Return a copy of all rows: scores (N, C), target, and weight or None."""
        return torch.cat([scores for scores, _, _ in self.filled]), self.target, self.weight

    def check(self, batch: Outputs) -> None:
        """Check that the number of classes and the kind of scores are those of earlier batches.

        Raises:
            MetricInputError: the number differs, or probabilities follow logits, or logits probabilities.
        """
        refuse_other_width(batch, self.classes if self._chunks else None)
        if self._are_logits not in (None, _gives_logits(batch)):
            raise MetricInputError(
                f"earlier batches had {'logits' if self._are_logits else 'probabilities'}, but this one "
                f"has {'probabilities' if self._are_logits else 'logits'}; all scores of an epoch must be "
                "of one kind"
            )

    def update(self, batch: Outputs) -> None:
        """Store one batch."""
        self._are_logits = _gives_logits(batch)
        scores = batch.class_scores if self._are_logits and batch.feature.type == CATEGORY else batch.scores
        scores = scores if scores.ndim == 2 else scores.unsqueeze(1)
        target = _narrow(batch.outcome, scores.shape[1])
        if batch.known is not None:
            target, self.has_gaps = target.masked_fill(~batch.known, UNKNOWN), True
        self._append(scores, target, batch.weight)
        self._derived = {}

    def state(self) -> dict[str, Tensor]:
        """Return the rows by name; empty before the first row. An empty weight means that all are 1."""
        if self.empty:
            return {}
        weight = self.weight
        kind = [CLASS_SCORES] if self.of_classes else [self.are_logits]
        return {
            "scores": torch.cat([scores for scores, _, _ in self.filled]),
            "target": self.target.clone(),
            "weight": self.target.new_empty(0, dtype=torch.float64) if weight is None else weight.clone(),
            "are_logits": torch.tensor(kind, dtype=torch.uint8 if self.of_classes else torch.bool),
        }

    def _check_shapes(self, state: Mapping[str, Tensor]) -> None:
        width = self.classes if self._chunks else state["scores"].shape[1]
        if self._are_logits not in (None, bool(state["are_logits"][0])) or state["scores"].shape[1] != width:
            raise StateError(
                f"{self}: only scores of {width} classes and one kind can merge, got "
                f"{state['scores'].shape[1]}"
            )

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Append the rows of a state.

        Raises:
            StateError: its names, its number of classes or its kind of scores differ.
        """
        self.check_merge(state)
        if not state:
            return
        self._are_logits = bool(state["are_logits"][0])
        target = _narrow(state["target"], state["scores"].shape[1])
        self.has_gaps |= target.ndim == 2 and bool((target == UNKNOWN).any())
        self._append(state["scores"], target, state["weight"] if len(state["weight"]) else None)
        self._derived = {}

    def to(self, device: torch.device | str) -> None:
        """Move the rows to a device."""
        self._chunks = [
            (scores.to(device), target.to(device), None if weight is None else weight.to(device))
            for scores, target, weight in self._chunks
        ]
        self._derived = {}

    def _append(self, scores: Tensor, target: Tensor, weight: Tensor | None) -> None:
        start = 0
        while start < len(scores):
            if not self._free or not _fits(self._chunks[-1], scores, weight):
                self._open_chunk(scores, target, weight)
            chunk = self._chunks[-1]
            fill, count = len(chunk[0]) - self._free, min(self._free, len(scores) - start)
            for stored, rows in zip(chunk, (scores, target, weight), strict=True):
                if stored is not None and rows is not None:
                    stored[fill : fill + count] = rows[start : start + count]
            self._free -= count
            start += count

    def _open_chunk(self, scores: Tensor, target: Tensor, weight: Tensor | None) -> None:
        if self._free:
            self._chunks = self.filled
        size, least = _WIDE
        rows = max(1, _CHUNK // scores.shape[1], min(least, size // scores.shape[1]))
        self._chunks.append((
            scores.new_empty(rows, scores.shape[1]),
            target.new_empty(rows, *target.shape[1:]),
            None if weight is None else weight.new_empty(rows),
        ))  # fmt: skip
        self._free = rows


def _first(chunk: Stored, rows: int) -> Stored:
    scores, target, weight = chunk
    return scores[:rows], target[:rows], None if weight is None else weight[:rows]


def _fits(chunk: Stored, scores: Tensor, weight: Tensor | None) -> bool:
    """Return whether rows can be written into a chunk: same precision, and weights in both or neither."""
    return chunk[0].dtype == scores.dtype and (chunk[2] is None) == (weight is None)


def _weight_of(own: Scores) -> Tensor | None:
    filled = own.filled
    if all(weight is None for _, _, weight in filled):
        return None
    ones = (scores.new_ones(len(scores), dtype=torch.float64) for scores, _, _ in filled)
    return torch.cat([one if w is None else w for one, (_, _, w) in zip(ones, filled, strict=True)])


def _gives_logits(batch: Outputs) -> bool:
    return LOGITS in batch.given


def _narrow(target: Tensor, classes: int) -> Tensor:
    """Return the labels in a small integer type, as they are stored beside every row of scores."""
    if target.ndim == 2 or classes == 1:
        return target.to(torch.uint8)
    return target.to(torch.int16 if classes <= torch.iinfo(torch.int16).max else torch.int32)


class Rows(NamedTuple):
    """Rows with a weight above 0: predictions and target (N, D) and weight (N,).

    All are float64, except that integers are int64, as float64 does not distinguish some from 2^53 on.
    """

    preds: Tensor
    target: Tensor
    weight: Tensor

    @property
    def errors(self) -> Tensor:
        """Predictions - target, float64."""
        return difference(self.preds, self.target)

    @property
    def gaps(self) -> Tensor:
        """The target minus that of the first row, float64."""
        return difference(self.target, self.target[0])


class Pooled(Kept):
    """Predictions, target and weight of every row; memory grows by 16 bytes per value and 8 per row.

    >>> from hpometrics.metrics.features import Number
    >>> pooled = Pooled()
    >>> pooled.update(Outputs(Number(), predictions=[1.0, 2.0], target=[1.0, 4.0]))
    >>> pooled.rows.target.tolist()
    [[1.0], [4.0]]
    """

    weighted: ClassVar[bool] = True
    regroups = True

    def __init__(self) -> None:
        super().__init__("rows", _values_and_weight)
        self.params = {}  # all are the same statistic

    @property
    def rows(self) -> Rows:
        """All rows whose weight is above 0, in their original order."""
        return self.derived("rows", lambda pooled: _weighted_rows(**pooled.tensors))

    @property
    def gaps(self) -> tuple[Tensor, Tensor]:
        """The absolute errors of these rows, (N, D) float64, and their weights; the rows are not joined."""
        parts = [_weighted_rows(**part) for part in self._parts]
        return torch.cat([part.errors.abs_() for part in parts]), torch.cat([part.weight for part in parts])

    def check(self, batch: Outputs) -> None:
        """Check the number of columns.

        Raises:
            MetricInputError: naming both numbers.
        """
        check_width(batch, None if self.empty else self._parts[0]["values"])


def quantile(values: Tensor, weight: Tensor, alpha: float) -> Tensor:
    """Compute the weighted quantile of each column of (N, D): the least value with a share `alpha` up to it.

    Where the share ends exactly at a value, the result is the middle between it and the next one, so that the
    median is the usual one (Hyndman & Fan's averaged inverse of the distribution function, as in
    scikit-learn).

    >>> quantile(torch.tensor([[1.0], [3.0], [4.0], [9.0]]), torch.ones(4), 0.5).item()
    3.5
    """
    lower, upper, is_boundary = _around(values, weight, alpha)
    middle = (lower + upper) / 2
    middle = torch.where(middle.isinf(), lower / 2 + upper / 2, middle)
    return torch.where(is_boundary, middle, lower)


def _around(values: Tensor, weight: Tensor, alpha: float) -> tuple[Tensor, Tensor, Tensor]:
    """Return the least values up to which the share lies, (D,), the next ones, and whether it ends there."""
    last = len(values) - 1
    if on_host(values) and bool((weight == 1).all()):
        mass, slack = alpha * len(values), 1e-12 * len(values)
        place = min(max(math.ceil(mass - slack) - 1, 0), last)
        following = min(place + 1, last)
        columns = values.t().contiguous().numpy()
        found = np.array([_at_places(column, place, following) for column in columns], columns.dtype)
        lower, upper = torch.from_numpy(found.reshape(-1, 2)).unbind(1)
        return lower, upper, torch.tensor(place + 1 <= mass + slack)
    ordered_values, order = values.sort(0)
    below = weight[order].double().cumsum(0)
    mass_of, slack_of = alpha * below[-1:], 1e-12 * below[-1:]
    places = (below < mass_of - slack_of).sum(0, keepdim=True).clamp(max=last)
    is_boundary = below.gather(0, places) <= mass_of + slack_of
    lower, upper = (ordered_values.gather(0, at.clamp(max=last)) for at in (places, places + 1))
    return lower.squeeze(0), upper.squeeze(0), is_boundary.squeeze(0)


def _at_places(values: Values, first: int, last: int) -> tuple[Any, Any]:
    """Return the values at two neighboring places of the ascending order, `np.sort(values)[[first, last]]`.

    A sorted sample shows between which two values they lie; only the values between these are partitioned.
    """
    size, begin = len(values), 0
    if size > _SAMPLED**2:
        sample = np.sort(values[:: size // _SAMPLED])
        place, margin = first * len(sample) // size, int(2 * len(sample) ** 0.5)
        low = sample[place - margin] if place >= margin else -np.inf
        high = sample[place + margin] if place + margin < len(sample) else np.inf
        between = values[(values >= low) & (values <= high)]
        below = int(np.count_nonzero(values < low))
        if below <= first and last < below + len(between):
            values, begin = between, below
    ordered = np.partition(values, [first - begin, last - begin])
    return ordered[first - begin], ordered[last - begin]


def _values_and_weight(batch: Outputs) -> NamedTensors:
    parts = batch.predictions, batch.target
    if all(part.dtype in WHOLE for part in parts):
        values = torch.stack([part.long() for part in parts], 1)
        values = values.unsqueeze(-1) if values.ndim == 2 else values
    else:
        shape = batch.target.shape if batch.target.ndim > 1 else (len(batch), 1)
        values = batch.target.new_empty((len(batch), 2, shape[1]), dtype=torch.float64)
        for place, part in enumerate(parts):
            values[:, place] = part.view(shape)
    weight = batch.weights  # new ones where the batch has none
    return {"values": values, "weight": weight if batch.weight is None else weight.clone()}


def _weighted_rows(values: Tensor, weight: Tensor) -> Rows:
    counts = weight > 0
    if not bool(counts.all()):
        values, weight = values[counts], weight[counts]
    return Rows(values[:, 0], values[:, 1], weight)
