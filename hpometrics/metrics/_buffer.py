"""Gathering: small batches are joined before they are counted and very large ones cut, for the same values.

What an update costs is then what its rows cost: a batch of eight rows pays for eight rows of a large one, and
the blocks of a very large one stay in the cache.

What forty formulas cost beside the lists are calls, as many for ten users as for thousands: a batch of few
users then pays for finding its lists and for little else.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ._checks import labels_of
from ._device import on_host, without_autograd
from .batch import Outputs
from .features import CATEGORY, LOGITS, PROBABILITIES
from .retrieval.lists import Lists
from .retrieval.ranking_batch import RankingBatch
from .statistics.cutoffs import rankings_in
from .statistics.sorted_scores import FEW
from .statistics.statistic import Statistic

SHORT_LIST = 128  # numbers up to which a Python list is looked through or added up faster than an array
_SOME = 1 << 13  # numbers up to which a product with themselves is cheaper than a sum, and takes one thread
_MULTIPLIED = (np.float32, np.float64)  # types whose squares of what one meets do not overflow

Part = Tensor | npt.NDArray[Any]
"""A tensor, or the array that shares its memory: of few numbers it is read and copied in half the time."""


class Like(NamedTuple):
    """What one tensor must be like: its dtype, its width and, of labels, the largest one."""

    name: str
    dtype: torch.dtype
    width: torch.Size
    top: float | None


class Likeness:
    """The names, dtypes, widths and label ranges of a batch that passed every check.

    It is kept of batches on the CPU that hold plain tensors whose values are checked by one look at each:
    finite logits and numbers, labels in range. Nothing else is ever taken at a glance.
    """

    def __init__(self, tensors: list[Like]) -> None:
        self._tensors = tensors
        self._names = frozenset(like.name for like in tensors)

    @classmethod
    def of(cls, batch: Outputs) -> Likeness | None:
        """Return that of a batch; None if the next one must be looked at closely whatever it is like."""
        plain = batch.kind is not None and batch.weight is None and on_host(batch.target)
        ignores = getattr(batch.feature, "ignore_index", None) is not None
        if not plain or ignores or PROBABILITIES in batch.given:
            return None
        tensors = []
        for name, tensor in (*batch.given.items(), ("target", batch.target)):
            is_label, top = labels_of(batch, name)
            if is_label and tensor.is_floating_point():
                return None
            tensors.append(Like(str(name), tensor.dtype, tensor.shape[1:], top if is_label else None))
        return cls(tensors)

    def parts_of(self, named: Mapping[str, Any], most: int) -> list[Part]:
        """What a batch of at most `most` rows holds, if alike and sound; nothing if it needs a closer look.

        The outputs come first and the target last.
        """
        if named.keys() != self._names:
            return []
        parts: list[Part] = []
        part: Part
        rows = 0
        for name, dtype, width, top in self._tensors:
            tensor = named[name]
            if type(tensor) is not Tensor or tensor.dtype != dtype or not on_host(tensor):
                return []
            if tensor.layout is not torch.strided or tensor.is_neg():
                return []
            shape = tensor.shape
            if not shape or shape[1:] != width or not 0 < shape[0] <= most or rows not in (0, shape[0]):
                return []
            rows = shape[0]
            if len(shape) == 1 and rows <= SHORT_LIST:
                part, sound = tensor, _few_are_sound(tensor.tolist(), top)
            else:
                part = part_of(tensor)
                sound = _is_sound(tensor, part, top)
            if not sound:
                return []
            parts.append(part)
        return parts

    def tensors_of(self, named: Mapping[str, Any]) -> list[Tensor]:
        """The tensors of a batch that is alike, outputs first and the target last."""
        return [outside_of_autograd(named[like.name]) for like in self._tensors]


def outside_of_autograd(tensor: Tensor) -> Tensor:
    """The tensor, detached if it asks for a gradient; to detach each would take a while for few rows."""
    return tensor.detach() if tensor.requires_grad else tensor


def part_of(tensor: Tensor) -> Part:
    """The array that shares the memory of a tensor on the CPU; the tensor where NumPy lacks its type."""
    return tensor.numpy(force=True) if _has_array(tensor.dtype) else tensor.detach()


@functools.cache
def _has_array(dtype: torch.dtype) -> bool:
    try:
        torch.empty(0, dtype=dtype).numpy()
    except TypeError:
        return False
    return True


def _few_are_sound(values: list[Any], top: float | None) -> bool:
    """Whether numbers are finite, or where `top` is given labels from 0 to it."""
    if top is None:
        return math.isfinite(sum(values))
    return bool(min(values) >= 0 and max(values) <= top)


def _is_sound(tensor: Tensor, part: Part, top: float | None) -> bool:
    """The same of a tensor of any size."""
    if top is None:
        return not tensor.dtype.is_floating_point or math.isfinite(_finite_if_all_are(tensor, part))
    if tensor.dtype is torch.bool or not tensor.numel():
        return tensor.dtype is torch.bool
    low, high = tensor.aminmax()
    return bool(low.item() >= 0 and high.item() <= top)


def _finite_if_all_are(tensor: Tensor, part: Part) -> float:
    """A number that is finite only where all values are; of huge ones it may be infinite all the same."""
    if isinstance(part, np.ndarray) and part.size <= _SOME and part.dtype in _MULTIPLIED:
        return float(np.vdot(part, part))
    return tensor.sum().item()


_MOST = 1 << 19  # places of lists that wait at most: 8 MiB, and some times as much to measure them

Kind = tuple[int, int | None, bool, bool, torch.device]


class Joining:
    """What stands between ranked lists and the statistics that read nothing else of a batch.

    Lists are kept and measured together, at the latest before anyone reads the statistics. With the first
    batch of a kind the statistics are asked whether they can measure it, by one without rows: they may lack
    side data. Lists with grades other than 0 and 1 do not wait, as only their target tells their ideal order.
    """

    def __init__(self, statistics: Iterable[Statistic]) -> None:
        self.statistics = list(statistics)
        self._empty: tuple[Kind, RankingBatch] | None = None
        self.forget()

    def forget(self) -> None:
        """Drop what waits: the statistics are about to be reset."""
        self._kind: Kind | None = None
        self._waiting: list[tuple[Lists, Tensor | None]] = []
        self._places = 0

    def check(self, batch: Outputs) -> None:
        """Ask the statistics whether the batch fits, once for a kind.

        Raises:
            MetricInputError: it does not fit; nothing has been counted.
        """
        if not self.statistics:
            return
        ranked = rankings_in(batch)
        kind = _kind_of(ranked)
        if kind is not None and kind == self._kind:
            return
        self.settle()
        asked = ranked if kind is None else self._empty_like(ranked, kind)
        for statistic in self.statistics:
            statistic.check(asked)
        self._kind = kind

    def add(self, batch: Outputs) -> None:
        """Add a batch that the statistics have agreed to."""
        if not self.statistics:
            return
        ranked = rankings_in(batch)
        if self._kind is None or ranked.lists.items.numel() > _MOST // 2:  # of so many not worth a copy
            self._count(ranked)
        else:
            self._keep(ranked)

    def settle(self) -> None:
        """Measure what waits; whoever reads, moves or merges the statistics calls this first."""
        if self._kind is None:
            return
        self._count_waiting()
        self.forget()  # what the statistics hold may change before the next batch

    def __getstate__(self) -> dict[str, Any]:
        """What a copy starts from: nothing that waits, and no batch."""
        self.settle()
        return {**self.__dict__, "_empty": None}

    def _empty_like(self, batch: RankingBatch, kind: Kind) -> RankingBatch:
        """Return a batch of a kind without rows, the last one where it is of this kind: it was measured."""
        if self._empty is None or self._empty[0] != kind:
            self._empty = kind, _without_rows(batch)
        return self._empty[1]

    def _keep(self, batch: RankingBatch) -> None:
        lists = batch.lists.alone()
        if self._places + lists.items.numel() > _MOST:
            self._count_waiting()
        weight = None if batch.weight is None else batch.weight.clone()  # it may be the caller's
        self._waiting.append((lists, weight))
        self._places += lists.items.numel()

    def _count_waiting(self) -> None:
        if not self._waiting or self._empty is None:
            return
        with without_autograd():
            weights = [weight for _, weight in self._waiting if weight is not None]
            weight = torch.cat(weights) if weights else None
            lists = Lists.joined([lists for lists, _ in self._waiting])
            self._waiting, self._places = [], 0  # formulas find room where they were
            self._count(self._empty[1].with_lists(lists, weight))

    def _count(self, batch: RankingBatch) -> None:
        for statistic in self.statistics:
            statistic.update(batch)


def _kind_of(batch: RankingBatch) -> Kind | None:
    """What two batches have in common whose lists may be joined; None of one whose lists may not."""
    if batch.relevance.graded:
        return None
    weighs = batch.weight is not None
    return batch.lists.depth, batch.catalogue, batch.numbered, weighs, batch.target.device


def _without_rows(batch: RankingBatch) -> RankingBatch:
    """Return a batch of the same kind with no rows, which holds nothing of what was handed in."""
    weight = None if batch.weight is None else batch.weight.new_empty(0)
    return batch.with_lists(Lists.joined([batch.lists.part(0, 0)]), weight)


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
