"""Scoring: the source of the scores of a batch, read a tile of rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from .interactions import Interactions, PaddedInteractions

_TILE = 1 << 19  # scores in a tile: they fit in the cache, and no memory grows with rows x items
_TILE_ON_DEVICE = 1 << 26


class Scoring(Protocol):
    """Scores of rows over columns."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""

    @property
    def num_items(self) -> int | None:
        """The size of the catalogue, None if only the columns are known."""

    @property
    def device(self) -> torch.device:
        """The device of the scores."""

    @property
    def ordered(self) -> Tensor:
        """A flag, true if the inputs contain neither nan nor inf, so that the scores can be ordered."""

    @property
    def overflow(self) -> Tensor | None:
        """A flag, true if a score overflows its type; None if the scores are not computed."""

    @property
    def dtype(self) -> torch.dtype:
        """The type of the scores that `rows` returns: float32 or float64."""

    def rows(self, start: int, stop: int, into: Tensor | None = None) -> Tensor:
        """Return the scores of some rows, written to `into`, or possibly the caller's own tensor."""

    def sound(self, scores: Tensor) -> Tensor:
        """Return which rows of the scores of `rows` can be ordered, (rows,) bool."""

    def pairs(self, row: Tensor, column: Tensor) -> Tensor:
        """Return single scores."""

    def only(self, which: Tensor) -> Scoring:
        """Return the scores of some rows alone."""

    def masked(self, keep: Tensor) -> Scoring:
        """Return the same scoring with scores of 0 in the rows where `keep`, (rows,) bool, is false."""

    def of(self, items: Tensor) -> Scoring:
        """Return the scores of some items of each row, (rows, candidates); -1 is padding."""


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
        """Return which rows of scores can be ordered."""
        return scores.amax(1) < torch.inf

    def rows(self, start: int, stop: int, into: Tensor | None = None) -> Tensor:
        """Return the scores of some rows; types other than float32 and float64 are widened."""
        part = self.scores[start:stop]
        return part.to(self.dtype) if into is None else into.copy_(part)

    def pairs(self, row: Tensor, column: Tensor) -> Tensor:
        """Return single scores."""
        return self.scores[row, column]

    def only(self, which: Tensor) -> GivenScores:
        """Return the scores of some rows alone."""
        return GivenScores(self.scores[which])

    def masked(self, keep: Tensor) -> GivenScores:
        """Return the same scoring with scores of 0 in the rows where `keep` is false."""
        return GivenScores(torch.where(keep.unsqueeze(1), self.scores, 0.0))

    def of(self, items: Tensor) -> GivenScores:
        """Return the scores of some items of each row."""
        return GivenScores(self.scores.gather(1, items.clamp(min=0)))


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
