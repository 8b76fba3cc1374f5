"""Factors: scores that are inner products, of which no more than a tile is ever made."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from .._device import on_host
from .scoring import tiles, wide

_TAKEN = 1 << 20  # numbers of factors of single items that are taken at a time, to stay in the cache
_TAKEN_ON_DEVICE = 1 << 27


class FactorScores:
    """Scores that are inner products of factors: of (rows, d) and (items, d), or of each row's candidates.

    Finite factors may have a product that exceeds its type. On the host the largest factors rule that out for
    all products at once, or else every product is looked at; on a device, where nobody may wait for that, a
    flag is raised by the tiles as they are made.
    """

    def __init__(self, users: Tensor, items: Tensor, candidates: Tensor | None = None) -> None:
        self.dtype = wide(torch.promote_types(users.dtype, items.dtype))
        self._users, self._items, self._candidates = users.to(self.dtype), items.to(self.dtype), candidates
        self._largest = _largest(users), _largest(items)
        self.shape = (len(users), len(items) if candidates is None else candidates.shape[-1])
        self.num_items: int | None = len(items)
        self.device = users.device
        self._raised: Tensor | None = None
        if not on_host(users):
            self._raised = torch.zeros((), dtype=torch.bool, device=self.device)

    @property
    def ordered(self) -> Tensor:
        """Whether no factor is nan or infinite."""
        return torch.stack([largest < torch.inf for largest in self._largest]).all()

    @property
    def overflow(self) -> Tensor:
        """Whether a product exceeds its type; on a device that is known once all tiles were made."""
        if self._raised is not None:
            return self._raised
        users, items = (largest.item() for largest in self._largest)
        within = self._users.shape[1] * users * items < torch.finfo(self.dtype).max / 2
        parts = [] if within or not self.shape[1] else [self.sound(scores) for _, scores in tiles(self)]
        return torch.tensor(not all(bool(part.all()) for part in parts))

    def sound(self, scores: Tensor) -> Tensor:
        """Which rows of products are finite."""
        low, high = scores.aminmax(dim=1)
        return (low > -torch.inf) & (high < torch.inf)

    def rows(self, start: int, stop: int, into: Tensor | None = None) -> Tensor:
        """Multiply the factors of some rows."""
        part = self._users[start:stop]
        if self._candidates is None:
            return self._noted(torch.mm(part, self._items.T, out=into))
        near = self._candidates[start:stop].clamp(min=0)
        scores = part.new_empty(near.shape)  # a tensor of its own in any case
        for some in self._pieces(near):
            scores[some] = torch.bmm(self._items[near[some]], part[some].unsqueeze(2)).squeeze(2)
        return self._noted(scores)

    def pairs(self, row: Tensor, column: Tensor) -> Tensor:
        """Multiply pairs of factors."""
        item = column if self._candidates is None else self._candidates[row, column].clamp(min=0)
        scores = self._users.new_empty(item.shape)
        for some in self._pieces(item):
            scores[some] = (self._users[row[some]] * self._items[item[some]]).sum(1)
        return self._noted(scores)

    def only(self, which: Tensor) -> FactorScores:
        """Return the scores of some rows alone."""
        near = None if self._candidates is None else self._candidates[which]
        return FactorScores(self._users[which], self._items, near)

    def masked(self, keep: Tensor) -> FactorScores:
        """Return the same with scores of 0 in other rows than those to be kept; nobody waits for it.

        An item whose factors are not finite spoils every row that it is scored for, so that none of those is
        kept.
        """
        users = torch.where(keep.unsqueeze(1), self._users, 0.0)
        return FactorScores(users, self._items.nan_to_num(0.0, 0.0, 0.0), self._candidates)

    def of(self, items: Tensor) -> FactorScores:
        """Return the scores of some items of each row."""
        return FactorScores(self._users, self._items, items)

    def _pieces(self, items: Tensor) -> Iterator[slice]:
        """Cut items, (rows, ...), so that the factors of those of a piece are not many."""
        most = _TAKEN if on_host(items) else _TAKEN_ON_DEVICE
        rows = max(1, most // max(1, items.shape[1:].numel() * self._items.shape[1]))
        for start in range(0, len(items), rows):
            yield slice(start, start + rows)

    def _noted(self, scores: Tensor) -> Tensor:
        """Raise the flag if a product exceeds its type; nobody waits for it."""
        if self._raised is not None and scores.numel():
            low, high = scores.aminmax()
            self._raised.logical_or_(~((low > -torch.inf) & (high < torch.inf)))
        return scores


def _largest(factors: Tensor) -> Tensor:
    """The largest absolute value, float64, without a copy of the factors; nan if there is one."""
    if not factors.numel():
        return torch.zeros((), dtype=torch.float64, device=factors.device)
    low, high = factors.aminmax()
    return torch.maximum(high, -low).double()
