"""Scoring: the source of the scores of a batch, read or computed a tile of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from .._device import on_host
from .interactions import Interactions, PaddedInteractions

_TILE = 1 << 19  # scores in a tile: they fit in the cache, and no memory grows with rows x items
_TILE_ON_DEVICE = 1 << 26
_GATHER = 1 << 20  # factors of single items that are gathered at a time, to fit in the cache
_GATHER_ON_DEVICE = 1 << 27


class GivenScores:
    """Scores that the caller passed, (rows, columns)."""

    def __init__(self, scores: Tensor) -> None:
        self.scores = scores
        self.overflow: Tensor | None = None
        self.shape = (scores.shape[0], scores.shape[1])
        self.num_items: int | None = None
        self.device = scores.device
        self.dtype = wide(scores.dtype)

    @property
    def ordered(self) -> Tensor:
        """Whether no score is nan or inf; -inf marks an item that is not a candidate."""
        return self.scores.amax() < torch.inf if self.scores.numel() else torch.ones((), dtype=torch.bool)

    def sound(self, scores: Tensor) -> Tensor:
        """Return which rows of the scores of `rows` can be ordered, (rows,) bool."""
        return scores.amax(1) < torch.inf

    def rows(self, start: int, stop: int, into: Tensor | None = None) -> Tensor:
        """Return the scores of some rows, float32 or float64: `into`, or possibly the caller's own tensor."""
        part = self.scores[start:stop]
        return part.to(self.dtype) if into is None else into.copy_(part)

    def pairs(self, row: Tensor, column: Tensor) -> Tensor:
        """Return single scores."""
        return self.scores[row, column]

    def only(self, which: Tensor) -> GivenScores:
        """Return the scores of some rows alone."""
        return GivenScores(self.scores[which])

    def masked(self, keep: Tensor) -> GivenScores:
        """Return the same scoring with scores of 0 in the rows where `keep`, (rows,) bool, is false."""
        return GivenScores(torch.where(keep.unsqueeze(1), self.scores, 0.0))

    def of(self, items: Tensor) -> GivenScores:
        """Return the scores of some items of each row, (rows, candidates); -1 is padding."""
        return GivenScores(self.scores.gather(1, items.clamp(min=0)))


class FactorScores:
    """Scores that are inner products of factors: of (rows, d) and (items, d), or of each row's candidates.

    Finite factors may have a product that overflows its type. On the host the largest factors usually rule
    that out for all products at once, otherwise every product is checked; on a device, which must not
    synchronize, the computed tiles set a flag.
    """

    def __init__(self, users: Tensor, items: Tensor, candidates: Tensor | None = None) -> None:
        self.dtype = wide(torch.promote_types(users.dtype, items.dtype))
        self._users, self._items, self._candidates = users.to(self.dtype), items.to(self.dtype), candidates
        self._largest = _largest(users), _largest(items)
        self.shape = (len(users), len(items) if candidates is None else candidates.shape[-1])
        self.num_items: int | None = len(items)
        self.device = users.device
        self._overflow_flag: Tensor | None = None
        if not on_host(users):
            self._overflow_flag = torch.zeros((), dtype=torch.bool, device=self.device)

    @property
    def ordered(self) -> Tensor:
        """Whether no factor is nan or infinite."""
        return torch.stack([largest < torch.inf for largest in self._largest]).all()

    @property
    def overflow(self) -> Tensor:
        """Whether a product overflows its type; on a device this is complete after all tiles are computed."""
        if self._overflow_flag is not None:
            return self._overflow_flag
        users, items = (largest.item() for largest in self._largest)
        within = self._users.shape[1] * users * items < torch.finfo(self.dtype).max / 2
        parts = [] if within or not self.shape[1] else [self.sound(scores) for _, scores in tiles(self)]
        return torch.tensor(not all(bool(part.all()) for part in parts))

    def sound(self, scores: Tensor) -> Tensor:
        """Return which rows of products are finite."""
        low, high = scores.aminmax(dim=1)
        return (low > -torch.inf) & (high < torch.inf)

    def rows(self, start: int, stop: int, into: Tensor | None = None) -> Tensor:
        """Multiply the factors of some rows."""
        part = self._users[start:stop]
        if self._candidates is None:
            return self._flag_overflow(torch.mm(part, self._items.T, out=into))
        near = self._candidates[start:stop].clamp(min=0)
        scores = part.new_empty(near.shape)  # always a new tensor
        for some in self._pieces(near):
            scores[some] = torch.bmm(self._items[near[some]], part[some].unsqueeze(2)).squeeze(2)
        return self._flag_overflow(scores)

    def pairs(self, row: Tensor, column: Tensor) -> Tensor:
        """Multiply pairs of factors."""
        item = column if self._candidates is None else self._candidates[row, column].clamp(min=0)
        scores = self._users.new_empty(item.shape)
        for some in self._pieces(item):
            scores[some] = (self._users[row[some]] * self._items[item[some]]).sum(1)
        return self._flag_overflow(scores)

    def only(self, which: Tensor) -> FactorScores:
        """Return the scores of some rows alone."""
        near = None if self._candidates is None else self._candidates[which]
        return FactorScores(self._users[which], self._items, near)

    def masked(self, keep: Tensor) -> FactorScores:
        """Return the same scoring with scores of 0 in the rows where `keep` is false, without synchronizing.

        An item whose factors are not finite invalidates every row that it is scored for, so none of these
        rows is in `keep`.
        """
        users = torch.where(keep.unsqueeze(1), self._users, 0.0)
        return FactorScores(users, self._items.nan_to_num(0.0, 0.0, 0.0), self._candidates)

    def of(self, items: Tensor) -> FactorScores:
        """Return the scores of some items of each row."""
        return FactorScores(self._users, self._items, items)

    def _pieces(self, items: Tensor) -> Iterator[slice]:
        """Split items, (rows, ...), into pieces with a bounded number of factors."""
        most = _GATHER if on_host(items) else _GATHER_ON_DEVICE
        rows = max(1, most // max(1, items.shape[1:].numel() * self._items.shape[1]))
        for start in range(0, len(items), rows):
            yield slice(start, start + rows)

    def _flag_overflow(self, scores: Tensor) -> Tensor:
        """Set the flag if a product overflows its type, without synchronizing."""
        if self._overflow_flag is not None and scores.numel():
            low, high = scores.aminmax()
            self._overflow_flag.logical_or_(~((low > -torch.inf) & (high < torch.inf)))
        return scores


Scoring = GivenScores | FactorScores
"""Scores of rows over columns; `overflow` is None where they are not computed."""


def tiles(
    scoring: Scoring,
    hidden: Interactions | None = None,
    padding: Tensor | None = None,
    *,
    scratch: bool = False,
) -> Iterator[tuple[int, Tensor]]:
    """Split the scores into tiles of rows, with -inf for hidden items and padding.

    Args:
        scoring: the source of the scores.
        hidden: columns of each row that are excluded from the ranking.
        padding: (rows, columns) bool, positions without an item.
        scratch: whether the caller overwrites the tiles.

    Yields:
        The first row of a tile, and its scores, which are valid until the next tile is requested.
    """
    rows, width = scoring.shape
    most = _TILE if scoring.device.type == "cpu" else _TILE_ON_DEVICE
    height = min(rows, max(1, most // max(1, width)))
    writes = scratch or hidden is not None or padding is not None
    buffer = torch.empty(height, width, dtype=scoring.dtype, device=scoring.device) if writes else None
    for start in range(0, rows, max(1, height)):
        stop = min(rows, start + height)
        scores = scoring.rows(start, stop, None if buffer is None else buffer[: stop - start])
        if hidden is not None:
            _hide(scores, hidden, start, stop)
        if padding is not None:
            scores.masked_fill_(padding[start:stop], -torch.inf)
        yield start, scores


def wide(dtype: torch.dtype) -> torch.dtype:
    """Return the type in which scores of a type are ranked, float32 or float64."""
    return dtype if dtype in (torch.float32, torch.float64) else torch.float32


def _hide(scores: Tensor, hidden: Interactions, start: int, stop: int) -> None:
    width = scores.shape[1]
    if isinstance(hidden, PaddedInteractions):  # the smaller of a score and inf is the score
        part = hidden.part(start, stop)
        lowest = part.real(scores.new_full((len(part.items),), -torch.inf), torch.inf)
        scores.view(-1).scatter_reduce_(0, part.places(width), lowest, "amin")
    else:  # in half the time of torch
        scores.view(-1).numpy()[hidden.places_on_host(start, stop, width)] = -np.inf


def _largest(factors: Tensor) -> Tensor:
    """Return the largest absolute value, float64, without a copy of the factors; nan if there is one."""
    if not factors.numel():
        return torch.zeros((), dtype=torch.float64, device=factors.device)
    low, high = factors.aminmax()
    return torch.maximum(high, -low).double()
