"""Confusion and contingency counts: how often target and prediction are which labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._checks import MOST_CLASSES
from .._device import on_host
from ..batch import Outputs
from ..features import BINARY, SET, OutputFeature
from .statistic import Reduction, Statistic, refuse_other_width, tally

_EXACT = 1 << 24  # ones whose sum is exact in float32
_SPAN = 1 << 16  # labels within this range are counted without sorting
_ROUNDING = 1e-12  # share of the total weight below which a difference of sums is rounding error
_FEW = 1 << 12  # cells up to which they are counted by one bincount, whatever the size of the batch


@dataclass(frozen=True)
class Counts:
    """True and false positives and negatives per class, float64 of shape (C,)."""

    tp: Tensor
    fp: Tensor
    fn: Tensor
    tn: Tensor

    @cached_property
    def support(self) -> Tensor:
        """Rows whose target is the class."""
        return self.tp + self.fn

    @cached_property
    def present(self) -> Tensor:
        """Whether each class occurs in target or predictions, bool."""
        return self.tp + self.fp + self.fn > 0

    @property
    def near_one(self) -> Counts:
        """The counts scaled by a power of two, without rounding, so that a product of four is finite."""
        _, exponent = torch.frexp(self.support.sum() + self.tn.max())
        return Counts(*(torch.ldexp(part, -exponent) for part in (self.tp, self.fp, self.fn, self.tn)))

    def pooled(self) -> Counts:
        """Return the counts of all classes summed, shape (1,)."""
        return Counts(*(part.sum(0, keepdim=True) for part in (self.tp, self.fp, self.fn, self.tn)))


class ClassTable(Statistic):
    """Base class of a table with a column per class: int64, with weights float64.

    Without a given number of classes it grows with the labels of the batches.
    """

    weighted: ClassVar[bool] = True
    name: ClassVar[str]
    shape: ClassVar[tuple[int, ...]]
    """The sizes of a table, with -1 for the number of classes."""

    def reset(self) -> None:
        """Forget every row."""
        super().reset()
        self._width: int | None = None

    def grown(self, classes: int, device: torch.device, weight: Tensor | None) -> Tensor:
        """Return the stored table with at least so many classes; it becomes float64 with the first weight."""
        table = self._state.get(self.name)
        if table is None:
            sizes = [classes if size < 0 else size for size in self.shape]
            table = torch.zeros(sizes, dtype=torch.int64, device=device)
        table = self._padded(table if weight is None else table.double(), classes)
        self._state[self.name] = table
        return table

    def add_state(self, state: Mapping[str, Tensor]) -> None:
        """Merge another table; the one with fewer classes is padded."""
        other = state[self.name]
        if self._state:
            own = self._state[self.name]
            self._state[self.name] = self._padded(own, other.shape[-1])
            other = self._padded(other, own.shape[-1])
        self.add(**{self.name: other})

    def _check_shapes(self, state: Mapping[str, Tensor]) -> None:
        """Accept any number of classes."""

    def _padded(self, table: Tensor, classes: int) -> Tensor:
        missing = classes - table.shape[-1]
        return torch.nn.functional.pad(table, (0, missing) * self.shape.count(-1)) if missing > 0 else table


class Confusion(ClassTable):
    """Confusion matrix of rows, tokens or pixels: `matrix[target, prediction]`, (C, C) int64.

    With weights it is float64. Without a given number of classes it grows with the labels of the batches.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"matrix": "sum"}
    regroups = True
    name = "matrix"
    shape = (-1, -1)

    @property
    def matrix(self) -> Tensor:
        """The counts as float64, exact up to 2^53 rows."""
        return self.derived("matrix", lambda own: own._state["matrix"].double())

    @property
    def counts(self) -> Counts:
        """Per-class counts."""
        return self.derived("counts", _counts_of_matrix)

    def check(self, batch: Outputs) -> None:
        """Check that the number of classes is that of earlier batches, and small enough for a matrix.

        Raises:
            MetricInputError: the batch has another number, or too many classes.
        """
        if batch.num_classes is not None and batch.feature.type != BINARY:
            refuse_other_width(batch, self._width)
        if on_host(batch.target):
            classes = batch.block("num_classes", _num_classes)
            if classes > MOST_CLASSES:
                raise MetricInputError(
                    f"a confusion matrix can have at most {MOST_CLASSES} classes, got {classes}; for so "
                    "many, choose ratios of counts such as accuracy or f1_macro, and state their number: "
                    f"category(num_classes={classes})"
                )

    def update(self, batch: Outputs) -> None:
        """Count one batch."""
        classes = batch.block("num_classes", _num_classes)
        self._width = batch.num_classes or self._width
        if self._state and classes < len(self._state["matrix"]):
            classes = len(self._state["matrix"])
        target, preds, weight = batch.decided
        codes = torch.add(preds, target, alpha=classes)
        _count_into(self.grown(classes, target.device, weight), codes, weight)
        self._derived = {}


class LabelConfusion(Statistic):
    """Confusion counts of each label of a set; rows are tp, fp, fn, tn; (4, L) int64, weighted float64."""

    reductions: ClassVar[Mapping[str, Reduction]] = {"counted": "sum"}
    weighted: ClassVar[bool] = True
    regroups = True

    @property
    def counts(self) -> Counts:
        """Per-label counts."""
        return self.derived("counts", _counts_of_labels)

    def check(self, batch: Outputs) -> None:
        """Check that the number of labels is that of earlier batches.

        Raises:
            MetricInputError: the batch has another number.
        """
        refuse_other_width(batch, self._state["counted"].shape[1] if self._state else None)

    def update(self, batch: Outputs) -> None:
        """Count one batch."""
        predicted, right = batch.label_flags
        tp, positives, actual = (_sum_flags(of, batch.weight) for of in (predicted * right, predicted, right))
        fp, fn = positives - tp, actual - tp
        self.add(counted=torch.stack([tp, fp, fn, _rows_of_labels(batch) - tp - fp - fn]))


def _counts_of_labels(own: LabelConfusion) -> Counts:
    counted = own._state["counted"]
    return _counts_of(counted, *counted.double())


def confusion_of(output: OutputFeature) -> Confusion | LabelConfusion:
    """Return the confusion statistic for an output feature."""
    return LabelConfusion() if output.type == SET else Confusion()


def _num_classes(batch: Outputs) -> int:
    if batch.feature.type == BINARY:
        return 2
    classes = batch.num_classes
    if classes is not None:
        return classes
    feature = batch.feature
    size: int | None = getattr(feature, "num_classes", None) or getattr(feature, "vocab_size", None)
    labels = batch.decided[:2]
    return size or max((int(label.amax()) for label in labels if len(label)), default=0) + 1


def _rows_of_labels(batch: Outputs) -> Tensor | int:
    """Return the number or weight of the rows in which each label is known; one number if all are."""
    if batch.known is not None:
        return _sum_flags(batch.known.float(), batch.weight)
    return len(batch) if batch.weight is None else batch.weight.sum()


def _sum_flags(of: Tensor, weight: Tensor | None) -> Tensor:
    """Return the number or the weight of the rows whose flag is set, per label."""
    if weight is not None:
        return weight @ of.double()
    exact = None if len(of) < _EXACT else torch.float64
    return of.sum(0, dtype=exact).long()


def _count_into(table: Tensor, codes: Tensor, weight: Tensor | None) -> None:
    """Count into the stored cells; many cells of a batch's own would cost more than the batch."""
    if table.numel() <= max(codes.shape[0], _FEW):
        table += tally(codes, weight, table.numel()).view_as(table).to(table.dtype)
        return
    ones = torch.ones_like(codes) if weight is None else weight
    table.view(-1).index_add_(0, codes, ones.to(table.dtype))


def _counts_of_matrix(own: Confusion) -> Counts:
    cells = own._state["matrix"]
    if on_host(cells) and not cells.is_floating_point():
        whole = cells.numpy()  # which adds up few numbers several times faster
        right, predicted, actual = whole.diagonal(), np.add.reduce(whole, 0), np.add.reduce(whole, 1)
        table = np.empty((4, len(right)))
        table[0], table[1], table[2] = right, predicted - right, actual - right
        table[3] = np.add.reduce(actual) - predicted - table[2]
        return Counts(*torch.from_numpy(table).unbind())
    matrix = own.matrix
    tp = matrix.diagonal()
    fp, fn = matrix.sum(0) - tp, matrix.sum(1) - tp
    return _counts_of(cells, tp, fp, fn, matrix.sum() - tp - fp - fn)


def _counts_of(state: Tensor, tp: Tensor, fp: Tensor, fn: Tensor, tn: Tensor) -> Counts:
    """Return the counts; true negatives that are only the rounding error of weighted rows become 0."""
    if state.is_floating_point():
        tn = torch.where(tn > _ROUNDING * (tp + fp + fn + tn), tn, 0.0)
    return Counts(tp, fp, fn, tn)


class ClassTotals(ClassTable):
    """Per class, the tokens predicted correctly, predicted, and in the target; (3, C) int64 or float64.

    It holds what ratios of counts need from a confusion matrix, in memory that grows with the vocabulary
    instead of its square. Without a given vocabulary size it grows with the labels of the batches.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"totals": "sum"}
    name = "totals"
    shape = (3, -1)

    @property
    def counts(self) -> Counts:
        """Per-class counts."""
        return self.derived("counts", _counts_of_totals)

    def check(self, batch: Outputs) -> None:
        """Check that the number of classes is that of earlier batches.

        Raises:
            MetricInputError: the batch has another number.
        """
        if batch.num_classes is not None:
            refuse_other_width(batch, self._width)

    def update(self, batch: Outputs) -> None:
        """Count one batch, into the stored totals: with many classes, new ones would cost more than it."""
        self._width = batch.num_classes or self._width
        target, preds, weight = batch.decided
        totals = self.grown(batch.block("num_classes", _num_classes), target.device, weight)
        right, classes = target == preds, totals.shape[1]
        ones = torch.ones_like(right, dtype=totals.dtype) if weight is None else weight
        codes = torch.cat([target, preds + classes, target + 2 * classes])
        _count_into(totals, codes, torch.cat([right * ones, ones, ones]))
        self._derived = {}


def _counts_of_totals(own: ClassTotals) -> Counts:
    tp, predicted, actual = own._state["totals"].double()
    fp, fn = predicted - tp, actual - tp
    return _counts_of(own._state["totals"], tp, fp, fn, actual.sum() - predicted - actual + tp)


class TargetCounts(Statistic):
    """The weight of the rows of each class of a binary or category output; (C,) float64.

    With `soft`, soft labels count by their probabilities where a batch has them.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"rows": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, soft: bool = False) -> None:
        super().__init__(soft=soft)
        self.soft = soft

    @property
    def shares(self) -> Tensor:
        """Each class's share of the rows."""
        rows = self._state["rows"]
        return rows / rows.sum()

    def update(self, batch: Outputs) -> None:
        """Count one batch."""
        if self.soft and batch.soft is not None:
            soft = batch.soft.double()
            shares = soft if soft.ndim == 2 else torch.stack([1 - soft, soft], 1)
            self.add(rows=(shares if batch.weight is None else shares * batch.weight.unsqueeze(1)).sum(0))
            return
        size = 2 if batch.feature.type == BINARY else batch.scores.shape[1]
        rows = torch.zeros(size, dtype=torch.float64, device=batch.index.device)
        self.add(rows=rows.index_add_(0, batch.index, batch.weights))

    def check(self, batch: Outputs) -> None:
        """Check that the number of classes is that of earlier batches.

        Raises:
            MetricInputError: the batch has another number.
        """
        if batch.feature.type != BINARY:
            refuse_other_width(batch, len(self._state["rows"]) if self._state else None)


@dataclass(frozen=True)
class Table:
    """The cells of a contingency table that hold rows, float64, and its margins.

    Attributes:
        cells: (M,) the number of rows in each cell that is not empty.
        row, column: (M,) int64, the row (target) and the column (prediction) of each cell.
        rows, columns: (R,) and (C,), the sums over each row and column.
    """

    cells: Tensor
    row: Tensor
    column: Tensor
    rows: Tensor
    columns: Tensor

    @property
    def total(self) -> Tensor:
        """The number of all rows."""
        return self.cells.sum()

    @property
    def same(self) -> bool:
        """Whether both sides group the rows alike, whatever the groups are called."""
        return len(self.cells) == len(self.rows) == len(self.columns)

    @property
    def whole(self) -> bool:
        """Whether the cells are whole numbers, as they are without weights."""
        return bool((self.cells == self.cells.round()).all())


class Contingency(Statistic):
    """The number of rows of each pair of target and predicted label; only pairs that occur are stored.

    Labels are any int64, negative or huge: memory grows with the number of distinct pairs, never with the
    rows or the size of the labels. An update on an accelerator synchronizes to read the pairs of the batch.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"pairs": "own", "counts": "own"}
    weighted: ClassVar[bool] = True

    @property
    def table(self) -> Table:
        """The counts with their margins."""
        return self.derived("table", _table_of_pairs)

    def check(self, batch: Outputs) -> None:
        """Check that labels are integers and that predictions have the shape of the target.

        Raises:
            MetricInputError: naming the type or both shapes.
        """
        predictions, target = batch.predictions, batch.target
        if predictions.shape != target.shape or target.ndim != 1:
            raise MetricInputError(
                "predictions and target of groups need one label per row, got shapes "
                f"{tuple(predictions.shape)} and {tuple(target.shape)}"
            )
        for name, labels in (("predictions", predictions), ("target", target)):
            if labels.is_floating_point():
                raise MetricInputError(
                    f"labels of groups must be whole numbers, got {name} of {labels.dtype}"
                )

    def update(self, batch: Outputs) -> None:
        """Count one batch."""
        target, predictions, weight = batch.decided
        counts = torch.ones_like(target, dtype=torch.float64) if weight is None else weight
        has_weight = counts > 0
        self._join(torch.stack([target[has_weight], predictions[has_weight]]), counts[has_weight])

    def add_state(self, state: Mapping[str, Tensor]) -> None:
        """Merge the pairs of another statistic."""
        self._join(state["pairs"], state["counts"])

    def _check_shapes(self, state: Mapping[str, Tensor]) -> None:
        """Accept any number of pairs."""

    def _join(self, pairs: Tensor, counts: Tensor) -> None:
        if self._state:
            pairs, counts = _merge_pairs(pairs, counts)
            pairs = torch.cat([self._state["pairs"], pairs], 1)
            counts = torch.cat([self._state["counts"], counts])
        pairs, counts = _merge_pairs(pairs, counts)
        self._state = {"pairs": pairs, "counts": counts}
        self._derived = {}


def table_of_matrix(matrix: Tensor) -> Table:
    """Return the table of a confusion matrix, without the classes that do not occur."""
    row, column = matrix.nonzero(as_tuple=True)
    return _table(row, column, matrix[row, column].double())


def _table_of_pairs(own: Contingency) -> Table:
    target, predictions = own._state["pairs"].unbind()
    return _table(target, predictions, own._state["counts"])


def _table(target: Tensor, predictions: Tensor, cells: Tensor) -> Table:
    rows, row = _unique(target)
    columns, column = _unique(predictions)
    return Table(
        cells, row, column, _sum_by_index(row, cells, len(rows)), _sum_by_index(column, cells, len(columns))
    )


def _merge_pairs(pairs: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Return each distinct pair, in ascending order, with the sum of its counts."""
    first, rows = _encode(pairs[0])
    second, columns = _encode(pairs[1])
    codes, indices = _encode(rows * len(second) + columns)
    pairs = torch.stack([first[codes // max(len(second), 1)], second[codes % max(len(second), 1)]])
    return pairs, _sum_by_index(indices, counts, len(codes))


def _encode(labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct labels, ascending, and the index of each given label among them."""
    if not on_host(labels) or not len(labels):
        return _unique(labels)
    low, high = (int(end) for end in labels.aminmax())
    if high - low >= _SPAN:
        return _unique(labels)
    occurs = torch.bincount(labels - low) > 0
    return occurs.nonzero().squeeze(1) + low, (occurs.cumsum(0) - 1)[labels - low]


def _unique(labels: Tensor) -> tuple[Tensor, Tensor]:
    distinct, indices = torch.unique(labels, return_inverse=True)
    return distinct, indices


def _sum_by_index(indices: Tensor, values: Tensor, size: int) -> Tensor:
    sums = torch.zeros(size, dtype=torch.float64, device=values.device)
    return sums.index_add_(0, indices, values)
