"""Buffers between metrics and statistics, which join small batches and cut large ones, for the same values.

An update then costs as much as its rows: a batch of eight rows costs what eight rows of a large one cost, and
the blocks of a very large batch stay in the cache. Of rankings the lists are joined. Beside the lists, forty
formulas cost calls, as many for ten users as for thousands: a batch of few users then pays for little more
than finding its lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from copy import copy
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ._checks import BatchSignature, Part, part_of
from ._device import on_host, without_autograd
from .batch import Outputs
from .features import CATEGORY, LOGITS
from .retrieval.lists import Lists
from .retrieval.ranking_batch import RankingBatch, rankings_in
from .statistics.sorted_scores import FEW
from .statistics.statistic import Statistic

_MAX_ELEMENTS = 1 << 16  # of a batch that is accepted by its signature, and of a full buffer
_MAX_BYTES = 1 << 18  # of a full buffer; a batch of half of them is not worth a copy
_BYTES_OF_A_ROW = 16  # beside its outputs and target: labels and losses are made of it
_ONE_THREAD = (1 << 15) - 1  # elements up to which torch works on one thread: to wake others would cost more
_BLOCK_ELEMENTS = 1 << 17  # from which a batch is counted in blocks
_MAX_PLACES = 1 << 19  # of the lists in a buffer: 8 MiB, and several times as much to measure them

Kind = tuple[type[Lists], int, int | None, bool, bool, torch.device]
"""The facts that two batches share whose lists may be joined."""


class BatchBuffer:
    """The buffer between the validated batches of a metric or collection and its statistics.

    Statistics that do not `regroup` are given each batch as it came. The others are given the first batch of
    a kind (same outputs, dtypes and widths) at once. The small ones that follow are copied and counted
    together, at the latest before anyone reads the statistics. A buffered batch has passed every check, so
    that to count it later cannot fail. On a device, where rows are counted without waiting for them, nothing
    is buffered. The lists of rankings have a buffer of their own, see `RankingBuffer`.

    Attributes:
        batches: the number added since the last reset, for all members of a collection.
        members_changed: whether a member of a collection has stored something itself since then, such as
            a value.
    """

    def __init__(self, statistics: Iterable[Statistic]) -> None:
        members = list(statistics)
        self._regrouped = [statistic for statistic in members if statistic.regroups]
        self._showing = [
            member for member in self._regrouped if type(member).shows_finite is not Statistic.shows_finite
        ]
        bounds = [bound for statistic in self._regrouped for bound in statistic.above.items()]
        self._bounds = dict(sorted(bounds, key=itemgetter(1)))  # the highest of each name
        self._rankings = RankingBuffer(statistic for statistic in members if statistic.joins)
        self._direct = [statistic for statistic in members if not (statistic.regroups or statistic.joins)]
        self._learned: RowStore | None = None  # for batches like the last that passed every check
        self._taught: RowStore | None = None  # for a first batch like one of another buffer
        self.reset()

    def reset(self) -> None:
        """Drop the stored rows: the statistics are about to be reset, so that batches like the last fit."""
        self.batches, self.members_changed = 0, False
        self._rankings.reset()
        self._store = self._learned
        if self._store is not None:
            self._store.clear()

    def learn_from(self, other: BatchBuffer) -> None:
        """Accept a first batch like those that a buffer of equal statistics has validated."""
        if other._learned is not None:
            self._taught = copy(other._learned)
            self._taught.clear()

    def add_similar(self, tensors: Mapping[str, Any]) -> int:
        """Add a small batch without validation if it is sound and has the signature of a validated one.

        Returns:
            Its number of rows; 0 if it was not added and has to be validated.

        Raises:
            MetricInputError: a statistic that does not regroup refuses it; nothing has been counted.
        """
        is_first = self._store is None
        store = self._taught if is_first and not self.batches else self._store
        if store is None:
            return 0
        large: list[Outputs] = []  # the batch that was looked at as a whole, if one was
        shows_finite = partial(self._shows_finite, store, tensors, large) if self._showing else None
        parts = store.parts_of(tensors, shows_finite)
        if not parts or not self._lie_within_bounds(tensors):
            return 0
        rows = parts[-1].shape[0]
        if self._direct:
            self._count_directly(store.batch_of(tensors))
        if is_first:  # it is counted at once, as one that was validated
            self._store = self._learned = store
            self._count_outside_autograd(large[0] if large else store.batch_of(tensors))
        elif self._regrouped and store.takes(rows):
            self._store_rows(store, parts, rows)
        elif self._regrouped:
            self._count_stored(store)
            self._count_outside_autograd(large[0] if large else store.batch_of(tensors))
        self.batches += 1
        return rows

    def _shows_finite(self, store: RowStore, tensors: Mapping[str, Any], large: list[Outputs]) -> bool:
        """Store the batch that has a signature, and return whether a statistic shows that it is finite."""
        large.append(store.batch_of(tensors))
        with without_autograd():
            return any(statistic.shows_finite(large[0]) for statistic in self._showing)

    def is_similar(self, tensors: Mapping[str, Any]) -> bool:
        """Return whether a small batch is sound and has the signature of a validated one."""
        store = self._store
        return store is not None and bool(store.parts_of(tensors)) and self._lie_within_bounds(tensors)

    def _lie_within_bounds(self, tensors: Mapping[str, Any]) -> bool:
        """Return whether every value of sound tensors is one that no statistic that regroups could refuse."""
        bounds = self._bounds.items()
        return not bounds or all(tensors[name].min().item() > bound for name, bound in bounds)

    def accepts(self, tensors: Mapping[str, Any]) -> bool:
        """Return whether `add_similar` would add the batch and no statistic could refuse it."""
        return not self._direct and self.is_similar(tensors)

    def check(self, batch: Outputs) -> None:
        """Ask every statistic whether the batch fits; those that regroup once for each kind.

        Raises:
            MetricInputError: it does not fit; nothing has been counted.
        """
        for statistic in (*self._direct, *self._rankings.statistics):
            statistic.prepare(batch)
        for statistic in self._direct:
            statistic.check(batch)
        self._rankings.check(batch)
        if self._store is None or self._store.kind != batch.kind:
            self._flush_rows()
            for statistic in self._regrouped:
                statistic.check(batch)
        elif self._bounds:
            for statistic in self._regrouped:
                if statistic.above:
                    statistic.check(batch)

    def add(self, batch: Outputs) -> None:
        """Add a batch that passed `check`."""
        for statistic in self._direct:
            statistic.update(batch)
        self._rankings.add(batch)
        if self._store is None:
            self._count(batch)
            if batch.kind is not None and on_host(batch.target):
                self._store = self._learned = RowStore(batch)
        elif self._store.takes(len(batch)):
            self._store_rows(self._store, batch.tensors, len(batch))
        else:
            self._count_stored(self._store)
            self._count(batch)
        self.batches += 1

    def flush(self) -> None:
        """Count the stored rows; whoever reads, moves or merges the statistics calls this first."""
        self._taught = None
        if self._rankings.statistics:
            self._rankings.flush()
        self._flush_rows()

    def _flush_rows(self) -> None:
        if self._store is not None:
            self._count_stored(self._store)
            self._store.clear()
            self._store = None  # the statistics may change before the next batch

    def _count_directly(self, batch: Outputs) -> None:
        with without_autograd():
            for statistic in self._direct:
                statistic.check(batch)
            for statistic in self._direct:
                statistic.update(batch)

    def _store_rows(self, store: RowStore, parts: Iterable[Part], rows: int) -> None:
        if not store.has_room(rows):
            self._count_stored(store)
        store.add(parts, rows)

    def _count_stored(self, store: RowStore) -> None:
        if store.rows:
            batch = store.take()
            with without_autograd():
                for statistic in self._regrouped:  # it is smaller than a block
                    statistic.update(batch)

    def _count_outside_autograd(self, batch: Outputs) -> None:
        with without_autograd():
            self._count(batch)

    def _count(self, batch: Outputs) -> None:
        if not self._regrouped:
            return
        for block in batch.blocks(_BLOCK_ELEMENTS) if batch.kind is not None else (batch,):
            for statistic in self._regrouped:
                statistic.update(block)


class RowStore:
    """The rows of small batches like one that passed every check, until they are counted together.

    No tensor of that batch stays alive, only its kind and what follows from it.

    Args:
        batch: a batch of plain tensors on the CPU.

    Attributes:
        kind: the kind of the batches.
        rows: the number of stored rows.
    """

    def __init__(self, batch: Outputs) -> None:
        elements = _MAX_ELEMENTS if torch.get_num_threads() == 1 else _ONE_THREAD
        self._max_rows = max(1, elements * len(batch) // max(1, batch.elements))
        self._capacity = min(self._max_rows, _MAX_BYTES * len(batch) // max(1, _bytes_of(batch)))
        self._signature = BatchSignature.of(batch)
        self._empty = batch.of(x.new_empty(0, *x.shape[1:]) for x in batch.tensors)
        self.kind = batch.kind
        self.clear()

    def clear(self) -> None:
        """Drop the rows and free their memory."""
        self.rows = 0
        self._tensors: tuple[Tensor, ...] = ()
        self._parts: tuple[Any, ...] = ()  # the tensors, or the arrays that share their memory

    def parts_of(
        self, tensors: Mapping[str, Any], shows_finite: Callable[[], bool] | None = None
    ) -> list[Part]:
        """Return the tensors of a small, sound batch that has the signature; else an empty list."""
        if self._signature is None:
            return []
        return self._signature.parts_of(tensors, self._max_rows, shows_finite)

    def batch_of(self, tensors: Mapping[str, Any]) -> Outputs:
        """Return a batch that has the signature."""
        names = (*self._empty.given, "target")
        return self._empty.of([outside_of_autograd(tensors[name]) for name in names])

    def takes(self, rows: int) -> bool:
        """Return whether a batch of so many rows is small enough to be copied."""
        return rows <= self._capacity // 2

    def has_room(self, rows: int) -> bool:
        """Return whether so many rows fit in beside those that are stored."""
        return self.rows + rows <= self._capacity

    def add(self, parts: Iterable[Part], rows: int) -> None:
        """Copy the tensors of a batch."""
        if not self._parts:
            # a tensor made in inference mode could not be written to outside
            with torch.inference_mode(False) if torch.is_inference_mode_enabled() else nullcontext():
                like = self._empty
                self._tensors = tuple([_empty_rows(self._capacity, x, like) for x in like.tensors])
                self._parts = tuple(map(part_of, self._tensors))
        end = self.rows + rows
        for store, part in zip(self._parts, parts, strict=True):
            store[self.rows : end] = part if isinstance(part, np.ndarray) else part_of(part)
        self.rows = end

    def take(self) -> Outputs:
        """Return the stored rows as one batch, which is to be read before others are added."""
        rows, self.rows = self.rows, 0
        return self._empty.of([tensor[:rows] for tensor in self._tensors])


def _bytes_of(batch: Outputs) -> int:
    """Return the bytes of a batch and of what its rows become, such as probabilities of class logits."""
    size = _BYTES_OF_A_ROW * len(batch) + sum(x.element_size() * x.numel() for x in batch.tensors)
    logits = batch.given.get(LOGITS) if batch.feature.type == CATEGORY else None
    return size if logits is None else size + logits.element_size() * logits.numel()


def _empty_rows(rows: int, like: Tensor, batch: Outputs) -> Tensor:
    """Create room for rows; the logits of few classes lie class by class, which speeds up log-softmax."""
    logits = batch.given.get(LOGITS)
    if like is logits and batch.feature.type == CATEGORY and like.shape[1] <= FEW:
        return like.new_empty(like.shape[1], rows).t()
    return like.new_empty(rows, *like.shape[1:])


class RankingBuffer:
    """The buffer between ranked lists and the statistics that read nothing else of a batch.

    Lists are stored and measured together, at the latest before anyone reads the statistics. With the first
    batch of a kind the statistics are asked whether they can measure it, by a batch without rows: they may
    lack side data. Lists with grades other than 0 and 1 are not stored, as only their target has their ideal
    order.
    """

    def __init__(self, statistics: Iterable[Statistic]) -> None:
        self.statistics = list(statistics)
        self._empty: tuple[Kind, RankingBatch] | None = None
        self.reset()

    def reset(self) -> None:
        """Drop the stored lists: the statistics are about to be reset."""
        self._kind: Kind | None = None
        self._lists: list[tuple[Lists, Tensor | None]] = []
        self._places = 0

    def check(self, batch: Outputs) -> None:
        """Ask the statistics whether the batch fits, once for each kind.

        Raises:
            MetricInputError: it does not fit; nothing has been counted.
        """
        if not self.statistics:
            return
        rankings = rankings_in(batch)
        kind = _kind_of(rankings)
        if kind is not None and kind == self._kind:
            return
        self.flush()
        sample = rankings if kind is None else self._empty_like(rankings, kind)
        for statistic in self.statistics:
            statistic.check(sample)
        self._kind = kind

    def add(self, batch: Outputs) -> None:
        """Add a batch that passed `check`."""
        if not self.statistics:
            return
        rankings = rankings_in(batch)
        if self._kind is None or rankings.lists.grades.numel() > _MAX_PLACES // 2:  # not worth a copy
            self._count(rankings)
        else:
            self._store(rankings)

    def flush(self) -> None:
        """Measure the stored lists; whoever reads, moves or merges the statistics calls this first."""
        if self._kind is None:
            return
        self._count_stored()
        self.reset()  # the statistics may change before the next batch

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy, which holds neither stored lists nor a batch."""
        self.flush()
        return {**self.__dict__, "_empty": None}

    def _empty_like(self, batch: RankingBatch, kind: Kind) -> RankingBatch:
        """Return a batch of a kind without rows; the last one if it is of this kind, as it was measured."""
        if self._empty is None or self._empty[0] != kind:
            self._empty = kind, _without_rows(batch)
        return self._empty[1]

    def _store(self, batch: RankingBatch) -> None:
        lists = batch.lists.alone()
        if self._places + lists.grades.numel() > _MAX_PLACES:
            self._count_stored()
        weight = None if batch.weight is None else batch.weight.clone()  # it may be the caller's
        self._lists.append((lists, weight))
        self._places += lists.grades.numel()

    def _count_stored(self) -> None:
        if not self._lists or self._empty is None:
            return
        with without_autograd():
            weights = [weight for _, weight in self._lists if weight is not None]
            weight = torch.cat(weights) if weights else None
            lists = self._lists[0][0].joined([lists for lists, _ in self._lists])
            self._lists, self._places = [], 0  # frees memory for the formulas
            self._count(self._empty[1].with_lists(lists, weight))

    def _count(self, batch: RankingBatch) -> None:
        for statistic in self.statistics:
            statistic.update(batch)


def _kind_of(batch: RankingBatch) -> Kind | None:
    """Return the kind of a batch; None if its lists may not be joined with others."""
    if batch.relevance.graded:
        return None
    weighs = batch.weight is not None
    lists, device = batch.lists, batch.target.device
    return type(lists), lists.depth, batch.catalogue, batch.numbered, weighs, device


def _without_rows(batch: RankingBatch) -> RankingBatch:
    """Return a batch of the same kind without rows, which holds no tensor of the caller."""
    weight = None if batch.weight is None else batch.weight.new_empty(0)
    lists = batch.lists.part(0, 0)
    return batch.with_lists(lists.joined([lists]), weight)


def outside_of_autograd(tensor: Tensor) -> Tensor:
    """Return the tensor, detached if it requires a gradient; to detach each takes a while for few rows."""
    return tensor.detach() if tensor.requires_grad else tensor
