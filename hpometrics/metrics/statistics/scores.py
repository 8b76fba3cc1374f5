"""Stored scores: every row's scores and target, for metrics that need the order of all rows at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ...exceptions import MetricInputError, StateError
from ..features import CATEGORY, LOGITS
from ..outputs import Outputs
from .areas import Areas, ascending, counted_areas, weighted_areas
from .statistic import Reduction, Statistic, refuse_other_width

Stored = tuple[Tensor, Tensor, Tensor | None]
_CHUNK = 1 << 18  # elements per stored chunk: filled once, never moved
_COLUMNS = 16  # columns sorted at a time, of fewer than 128 an eighth: bounds what is held beside the store
_FEW = 64  # classes up to which a look for each of them is cheaper than an order of all rows


@dataclass(frozen=True)
class Curves:
    """What one sort per class yields, float64 of shape (C,); nan where a class has no positive row.

    Attributes:
        positives: the rows of each class, or what they weigh.
        roc_auc, average_precision: the areas of each class against the rest.
    """

    positives: Tensor
    roc_auc: Tensor
    average_precision: Tensor


class Scores(Statistic):
    """Scores (N, C), target and weight of every row; row-major, in chunks, copied from the batch.

    Given logits, a category's scores are log-probabilities (rows can be compared and none saturates), a
    binary or set output's the logits themselves; otherwise they are the probabilities. All batches of an
    epoch must be of one kind. Weights are kept once a batch has some; before, each row weighs 1.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {
        "scores": "own", "target": "own", "weight": "own", "are_logits": "own",
    }  # fmt: skip
    weighted: ClassVar[bool] = True
    regroups = True

    def reset(self) -> None:
        """Forget every row."""
        super().reset()
        self._chunks: list[Stored] = []
        self._free = 0
        self._are_logits: bool | None = None

    def __init__(self) -> None:
        super().__init__()
        self.reset()

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
        """Whether the scores are logits (of a category log-probabilities), not probabilities."""
        return bool(self._are_logits)

    @property
    def classes(self) -> int:
        """How many columns of scores there are: 1 of a binary output."""
        return self._chunks[0][0].shape[1]

    @property
    def target(self) -> Tensor:
        """The target of all rows, (N,) int64, of a set (N, L)."""
        return self.derived("target", lambda own: torch.cat([target for _, target, _ in own.filled]).long())

    @property
    def weight(self) -> Tensor | None:
        """The weight of all rows, (N,) float64; None if no batch had weights."""
        return self.derived("weight", _weight_of)

    def column(self, index: int) -> Stored:
        """One class against the rest: its scores, which rows are of it (bool), weight or None; each (N,)."""
        scores = torch.cat([scores[:, index] for scores, _, _ in self.filled])
        target = self.target
        positive = target[:, index] == 1 if target.ndim == 2 else target == (index if self.classes > 1 else 1)
        return scores, positive, self.weight

    def pooled(self) -> Stored:
        """All rows as one copy: scores (N, C), target and weight or None."""
        return torch.cat([scores for scores, _, _ in self.filled]), self.target, self.weight

    @property
    def curves(self) -> Curves:
        """Exact area under the ROC curve and average precision of every class against the rest."""
        return self.derived("curves", _curves_of)

    def check(self, batch: Outputs) -> None:
        """Refuse another number of classes, and probabilities after logits: their scale is another.

        Raises:
            MetricInputError: the batch has another number of classes, or gives the other of the two.
        """
        refuse_other_width(batch, self.classes if self._chunks else None)
        if self._are_logits not in (None, _gives_logits(batch)):
            raise MetricInputError(
                f"earlier batches gave {'logits' if self._are_logits else 'probabilities'}, this one gives "
                f"{'probabilities' if self._are_logits else 'logits'}; an epoch's scores are of one kind"
            )

    def update(self, batch: Outputs) -> None:
        """Store one batch."""
        self._are_logits = _gives_logits(batch)
        in_logs = self._are_logits and batch.feature.type == CATEGORY
        scores = batch.log_probabilities if in_logs else batch.scores
        scores = scores if scores.ndim == 2 else scores.unsqueeze(1)
        self._append(scores, _narrow(batch.target, scores.shape[1]), batch.weight)
        self._derived = {}

    def state(self) -> dict[str, Tensor]:
        """The filled rows by name; empty before the first row. A weight of no rows says that all are 1."""
        if self.empty:
            return {}
        weight = self.weight
        return {
            "scores": torch.cat([scores for scores, _, _ in self.filled]),
            "target": self.target.clone(),
            "weight": self.target.new_empty(0, dtype=torch.float64) if weight is None else weight.clone(),
            "are_logits": torch.tensor([self.are_logits]),
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Replace the rows by those of a state."""
        self.reset()
        self.merge_state(state)

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Append the rows of a state.

        Raises:
            StateError: its names, its number of classes or its kind of scores are others.
        """
        self._check_state(state)
        if not state:
            return
        are_logits = bool(state["are_logits"][0])
        width = self.classes if self._chunks else state["scores"].shape[1]
        if self._are_logits not in (None, are_logits) or state["scores"].shape[1] != width:
            raise StateError(
                f"{self}: scores of {width} classes and one kind merge, got {state['scores'].shape[1]}"
            )
        self._are_logits = are_logits
        target = _narrow(state["target"], width)
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
            held = self._chunks[-1]
            fill, count = len(held[0]) - self._free, min(self._free, len(scores) - start)
            for kept, rows in zip(held, (scores, target, weight), strict=True):
                if kept is not None and rows is not None:
                    kept[fill : fill + count] = rows[start : start + count]
            self._free -= count
            start += count

    def _open_chunk(self, scores: Tensor, target: Tensor, weight: Tensor | None) -> None:
        if self._free:
            self._chunks = self.filled
        rows = max(1, _CHUNK // scores.shape[1])
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
    """Whether rows can be written into a chunk: same precision, and both with weights or both without."""
    return chunk[0].dtype == scores.dtype and (chunk[2] is None) == (weight is None)


def _weight_of(own: Scores) -> Tensor | None:
    filled = own.filled
    if all(weight is None for _, _, weight in filled):
        return None
    ones = (scores.new_ones(len(scores), dtype=torch.float64) for scores, _, _ in filled)
    return torch.cat([one if w is None else w for one, (_, _, w) in zip(ones, filled, strict=True)])


def _gives_logits(batch: Outputs) -> bool:
    return LOGITS in batch.given


def _curves_of(own: Scores) -> Curves:
    if own.weight is None:
        areas = _counted(own)
    else:
        areas = [weighted_areas(*own.column(index)) for index in range(own.classes)]
    positives, roc_auc, average_precision = torch.tensor(areas, dtype=torch.float64).T
    return Curves(positives, roc_auc, average_precision)


def _counted(own: Scores) -> list[Areas]:
    """Sort a few columns at a time, so that little is held beside the store."""
    positive_of = _positive_of(own)
    at_once = min(_COLUMNS, max(1, own.classes // 8))
    areas = []
    for first in range(0, own.classes, at_once):
        columns = torch.cat([scores[:, first : first + at_once].t() for scores, _, _ in own.filled], dim=1)
        positive = [ascending(positive_of(first + i, column)) for i, column in enumerate(columns)]
        areas += [counted_areas(*pair) for pair in zip(ascending(columns), positive, strict=True)]
    return areas


def _positive_of(own: Scores) -> Callable[[int, Tensor], Tensor]:
    """What takes, for each class, the scores of its positive rows out of its column."""
    labels = [target for _, target, _ in own.filled]
    if labels[0].ndim == 2:
        return lambda index, column: _flagged(column, [label[:, index] for label in labels])
    if own.classes == 1:
        return lambda _, column: _flagged(column, labels)
    if own.classes <= _FEW:
        return lambda index, column: _flagged(column, [label == index for label in labels])
    joined = torch.cat(labels)
    rows = torch.split(_stable_order(joined), torch.bincount(joined, minlength=own.classes).tolist())
    return lambda index, column: column[rows[index]]


def _flagged(column: Tensor, flags: list[Tensor]) -> Tensor:
    """The scores whose flag is 1; chunk by chunk, or the places of all would be held beside them."""
    pairs = zip(torch.split(column, [len(part) for part in flags]), flags, strict=True)
    if column.device.type != "cpu":
        return torch.cat([part[flag.bool()] for part, flag in pairs])
    return torch.from_numpy(
        np.concatenate([part.numpy().compress(flag.view(torch.bool).numpy()) for part, flag in pairs])
    )


def _stable_order(labels: Tensor) -> Tensor:
    if labels.device.type != "cpu":
        return labels.argsort(stable=True)
    return torch.from_numpy(labels.numpy().argsort(kind="stable"))  # a radix sort of 16-bit labels


def _narrow(target: Tensor, classes: int) -> Tensor:
    """The labels in the smallest integers that hold them: they are kept beside every row of scores."""
    if target.ndim == 2 or classes == 1:
        return target.to(torch.uint8)
    return target.to(torch.int16 if classes <= torch.iinfo(torch.int16).max else torch.int32)
