"""Stored scores: every row's scores and target, for metrics that need the order of all rows at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from ...exceptions import MetricInputError, StateError
from ..features import CATEGORY, LOGITS
from ..outputs import Outputs
from .statistic import Reduction, Statistic, refuse_other_width

_CHUNK = 1 << 18  # elements per stored chunk: filled once, never moved
_COLUMNS = 16  # columns sorted at a time: bounds what is held beside the store


@dataclass(frozen=True)
class Curves:
    """What one sort per class yields, float64 of shape (C,); nan where a class has no positive row."""

    positives: Tensor
    roc_auc: Tensor
    average_precision: Tensor


class Scores(Statistic):
    """Scores (N, C) and target of every row; row-major, in chunks, copied from the batch.

    Given logits, a category's scores are log-probabilities (rows can be compared and none saturates), a
    binary or set output's the logits themselves; otherwise they are the probabilities. All batches of an
    epoch must be of one kind.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"scores": "own", "target": "own", "are_logits": "own"}

    def reset(self) -> None:
        """Forget every row."""
        super().reset()
        self._chunks: list[tuple[Tensor, Tensor]] = []
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
    def filled(self) -> list[tuple[Tensor, Tensor]]:
        """The stored scores and targets, as views of the chunks."""
        end = len(self._chunks[-1][0]) - self._free
        return [*self._chunks[:-1], (self._chunks[-1][0][:end], self._chunks[-1][1][:end])]

    @property
    def curves(self) -> Curves:
        """Exact area under the ROC curve and average precision of every class against the rest."""
        return self.derived("curves", _curves_of)

    def check(self, batch: Outputs) -> None:
        """Refuse another number of classes, and probabilities after logits: their scale is another.

        Raises:
            MetricInputError: the batch has another number of classes, or gives the other of the two.
        """
        refuse_other_width(batch, self._chunks[0][0].shape[1] if self._chunks else None)
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
        self._append(scores if scores.ndim == 2 else scores.unsqueeze(1), batch.index)
        self._derived = {}

    def state(self) -> dict[str, Tensor]:
        """The filled rows by name; empty before the first row."""
        if self.empty:
            return {}
        scores, target = (torch.cat(parts) for parts in zip(*self.filled, strict=True))
        return {"scores": scores, "target": target, "are_logits": torch.tensor([bool(self._are_logits)])}

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
        width = self._chunks[0][0].shape[1] if self._chunks else state["scores"].shape[1]
        if self._are_logits not in (None, are_logits) or state["scores"].shape[1] != width:
            raise StateError(
                f"{self}: scores of {width} classes and one kind merge, got {state['scores'].shape[1]}"
            )
        self._are_logits = are_logits
        self._append(state["scores"], state["target"])
        self._derived = {}

    def to(self, device: torch.device | str) -> None:
        """Move the rows to a device."""
        self._chunks = [(scores.to(device), target.to(device)) for scores, target in self._chunks]
        self._derived = {}

    def _append(self, scores: Tensor, target: Tensor) -> None:
        start = 0
        while start < len(scores):
            if not self._free or self._chunks[-1][0].dtype != scores.dtype:
                self._open_chunk(scores, target)
            held, held_target = self._chunks[-1]
            fill, count = len(held) - self._free, min(self._free, len(scores) - start)
            held[fill : fill + count] = scores[start : start + count]
            held_target[fill : fill + count] = target[start : start + count]
            self._free -= count
            start += count

    def _open_chunk(self, scores: Tensor, target: Tensor) -> None:
        if self._free:
            self._chunks = self.filled
        rows = max(1, _CHUNK // scores.shape[1])
        self._chunks.append(
            (scores.new_empty(rows, scores.shape[1]), target.new_empty(rows, *target.shape[1:]))
        )
        self._free = rows


def _gives_logits(batch: Outputs) -> bool:
    return LOGITS in batch.given


def _curves_of(own: Scores) -> Curves:
    filled = own.filled
    classes = filled[0][0].shape[1]
    rows_of = _rows_by_class(torch.cat([target for _, target in filled]), classes)
    parts = []
    for first in range(0, classes, _COLUMNS):
        columns = torch.cat([scores[:, first : first + _COLUMNS].t() for scores, _ in filled], dim=1)
        ordered = _sorted(columns)
        parts += [
            _curves_of_column(ordered[i], _sorted(columns[i, rows_of[first + i]]))
            for i in range(len(columns))
        ]
    positives, roc_auc, average_precision = torch.tensor(parts, dtype=torch.float64).T
    return Curves(positives, roc_auc, average_precision)


def _rows_by_class(target: Tensor, classes: int) -> list[Tensor]:
    """The rows that are positive for each class."""
    if target.ndim == 2:
        return [column.nonzero().squeeze(1) for column in target.T]
    if classes == 1:
        return [target.nonzero().squeeze(1)]
    counts = torch.bincount(target, minlength=classes)
    return list(torch.split(target.argsort(stable=True), counts.tolist()))


def _sorted(values: Tensor) -> Tensor:
    """Sort the last dimension; on the CPU by NumPy, whose vectorised sort is many times faster."""
    if values.device.type != "cpu":
        return values.sort(-1).values
    ordered = values.numpy().copy()
    ordered.sort(-1)
    return torch.from_numpy(ordered)


def _places(ordered: Tensor, values: Tensor, side: Literal["left", "right"]) -> Tensor:
    """Where values belong in ascending ones; NumPy profits from values that ascend as well."""
    if ordered.device.type != "cpu":
        return torch.searchsorted(ordered, values, side=side)
    return torch.from_numpy(np.searchsorted(ordered.numpy(), values.numpy(), side=side))


def _curves_of_column(every: Tensor, positive: Tensor) -> tuple[float, float, float]:
    """Positives, ROC AUC and average precision from all scores and the positive ones, both ascending.

    The rank sum counts a tie as a half; the positives' pairs among themselves are taken off again. Average
    precision is the mean, over positives, of the precision at their own score (ties share a threshold).
    """
    n, n_pos = len(every), len(positive)
    if n_pos in (0, n):
        return float(n_pos), float("nan"), float("nan") if n_pos == 0 else 1.0
    below, up_to = _places(every, positive, "left"), _places(every, positive, "right")
    wins = (below + up_to).sum().item() / 2 - n_pos * n_pos / 2
    precision = (n_pos - _places(positive, positive, "left")).double() / (n - below)
    return float(n_pos), wins / (n_pos * (n - n_pos)), precision.mean().item()
