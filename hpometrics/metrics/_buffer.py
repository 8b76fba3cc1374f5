"""Gathering: small batches are joined before they are counted and very large ones cut, for the same values.

What an update costs is then what its rows cost: a batch of eight rows pays for eight rows of a large one, and
the blocks of a very large one stay in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor

from ._device import on_host
from .autograd import without_autograd
from .batch import Outputs
from .features import CATEGORY, LOGITS
from .joining import Joining
from .likeness import Likeness, Part, part_of
from .statistics.apart import FEW
from .statistics.statistic import Statistic

_JOINED = 1 << 16  # elements of a batch that passes at a glance, and that are gathered at most
_ROOM = 1 << 18  # bytes that are gathered at most; a batch of half of them is not worth a copy
_OF_A_ROW = 16  # bytes of each row beside its outputs and target: labels and losses are made of it
_ALONE = (1 << 15) - 1  # elements up to which torch works on one thread: to wake others would cost more
_CUT = 1 << 17  # elements from which a batch is counted in blocks


class Gathering:
    """What stands between the door and the statistics of a metric or collection.

    Statistics that do not `regroup` are given each batch as it came. The others are given the first batch of
    a kind (same outputs, dtypes and widths) at once; small ones that follow are copied and counted together,
    at the latest before anyone reads the statistics. A gathered batch has passed every check, so that to
    count it later cannot fail. On a device, where rows are counted without waiting for them, nothing is
    gathered. Of rankings the lists wait, see `Joining`.

    Attributes:
        batches: how many were added since the last reset, for all members of a collection.
        noted: whether a member of a collection has noted anything itself since then, such as a value.
    """

    def __init__(self, statistics: Iterable[Statistic]) -> None:
        every = list(statistics)
        self._regrouped = [statistic for statistic in every if statistic.regroups]
        self._joining = Joining(statistic for statistic in every if statistic.joins)
        self._direct = [statistic for statistic in every if not (statistic.regroups or statistic.joins)]
        self.forget()

    def forget(self) -> None:
        """Drop what is gathered: the statistics are about to be reset."""
        self.batches, self.noted = 0, False
        self._joining.forget()
        self._forget_rows()

    def _forget_rows(self) -> None:
        self._first: Outputs | None = None
        self._likeness: Likeness | None = None
        self._room: tuple[Tensor, ...] = ()
        self._room_parts: tuple[Any, ...] = ()  # tensors, or the arrays that share their memory
        self._rows = 0
        self._most = 0
        self._joined = 0

    def take(self, named: Mapping[str, Any]) -> int:
        """Take a small batch that at a glance is like the first of its kind, and sound.

        Returns:
            Its number of rows; 0 if it is not taken and must go through every check.

        Raises:
            MetricInputError: a statistic that does not regroup refuses it; nothing has been counted.
        """
        likeness, first, parts = self._likeness, self._first, self._parts_of(named)
        if not parts or likeness is None or first is None:
            return 0
        rows = parts[-1].shape[0]
        if self._direct:
            self._pass_on(first.of(likeness.tensors_of(named)))
        if self._regrouped and rows <= self._joined // 2:
            self._keep(parts, rows)
        elif self._regrouped:
            self._count_kept()
            self._count_made(first.of(likeness.tensors_of(named)))
        self.batches += 1
        return rows

    def alike(self, named: Mapping[str, Any]) -> bool:
        """Whether a small batch is at a glance like the first of its kind, and sound."""
        return bool(self._parts_of(named))

    def _parts_of(self, named: Mapping[str, Any]) -> list[Part]:
        return [] if self._likeness is None else self._likeness.parts_of(named, self._most)

    def would_take(self, named: Mapping[str, Any]) -> bool:
        """Whether `take` would take it, and no statistic could refuse it."""
        return not self._direct and self.alike(named)

    def check(self, batch: Outputs) -> None:
        """Ask every statistic whether the batch fits; those that regroup once for a kind.

        Raises:
            MetricInputError: it does not fit; nothing has been counted.
        """
        for statistic in (*self._direct, *self._joining.statistics):
            statistic.prepare(batch)
        for statistic in self._direct:
            statistic.check(batch)
        self._joining.check(batch)
        if self._first is None or self._first.kind != batch.kind:
            self._settle_rows()
            for statistic in self._regrouped:
                statistic.check(batch)

    def add(self, batch: Outputs) -> None:
        """Add a batch that every statistic has agreed to."""
        for statistic in self._direct:
            statistic.update(batch)
        self._joining.add(batch)
        if self._first is None:
            self._count(batch)
            self._begin(batch)
        elif len(batch) <= self._joined // 2:
            self._keep(batch.tensors, len(batch))
        else:
            self._count_kept()
            self._count(batch)
        self.batches += 1

    def settle(self) -> None:
        """Count what is gathered; whoever reads, moves or merges the statistics calls this first."""
        self._joining.settle()
        self._settle_rows()

    def _settle_rows(self) -> None:
        if self._first is None:
            return
        self._count_kept()
        self._forget_rows()  # what the statistics hold may change before the next batch

    def _begin(self, batch: Outputs) -> None:
        """Note what the batches to be gathered are like; nothing of this one stays alive."""
        if batch.kind is None or not on_host(batch.target):
            return
        elements = _JOINED if torch.get_num_threads() == 1 else _ALONE
        self._most = max(1, elements * len(batch) // max(1, batch.elements))
        self._joined = min(self._most, _ROOM * len(batch) // max(1, _size(batch)))
        self._likeness = Likeness.of(batch)
        self._first = batch.of(x.new_empty(0, *x.shape[1:]) for x in batch.tensors)

    def _pass_on(self, batch: Outputs) -> None:
        with without_autograd():
            for statistic in self._direct:
                statistic.check(batch)
            for statistic in self._direct:
                statistic.update(batch)

    def _keep(self, parts: Iterable[Part], rows: int) -> None:
        if self._rows + rows > self._joined:
            self._count_kept()
        if not self._room and self._first is not None:
            with torch.inference_mode(False):  # what is made in it could not be written to outside
                self._room = tuple(_room(self._joined, x, self._first) for x in self._first.tensors)
                self._room_parts = tuple(part_of(room) for room in self._room)
        end = self._rows + rows
        for room, part in zip(self._room_parts, parts, strict=True):
            room[self._rows : end] = part_of(part) if isinstance(part, Tensor) else part
        self._rows = end

    def _count_kept(self) -> None:
        if not self._rows or self._first is None:
            return
        rows, self._rows = self._rows, 0
        self._count_made(self._first.of(room[:rows] for room in self._room))

    def _count_made(self, batch: Outputs) -> None:
        """Count a batch that nobody handed in as it is."""
        with without_autograd():
            self._count(batch)

    def _count(self, batch: Outputs) -> None:
        for block in batch.blocks(_CUT) if batch.kind is not None else (batch,):
            for statistic in self._regrouped:
                statistic.update(block)


def _size(batch: Outputs) -> int:
    """The bytes of a batch and of what is made of its rows; the logits of classes become probabilities."""
    size = _OF_A_ROW * len(batch) + sum(x.element_size() * x.numel() for x in batch.tensors)
    logits = batch.given.get(LOGITS)
    if logits is None or batch.feature.type != CATEGORY:
        return size
    return size + logits.element_size() * logits.numel()


def _room(rows: int, like: Tensor, batch: Outputs) -> Tensor:
    """Room for so many rows; the logits of few classes lie class by class, which their log-softmax wants."""
    logits = batch.given.get(LOGITS)
    if like is logits and batch.feature.type == CATEGORY and like.shape[1] <= FEW:
        return like.new_empty(like.shape[1], rows).t()
    return like.new_empty(rows, *like.shape[1:])
