"""TiledBatch: scores of which a tile of rows is at hand at a time, and what a walk tells of each row."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from ..batch import Outputs
from ..features import LOGITS, InputType, OutputFeature
from .interactions import Interactions
from .relevance import Relevance
from .row_areas import Areas, count_others, ranks_of, right_pairs, scores_of
from .scoring import GivenScores, Scoring, tiles
from .side_data import SideData
from .update import Update

T = TypeVar("T")


class TiledBatch(Outputs):
    """A batch of rankings without its lists: what was given, walked a tile of rows at a time.

    Attributes:
        side: the side data of the output.
        items: (rows, candidates) the item of each column, -1 for none; None where columns are items.
        users: (rows,) the number of each user, or None.
        relevance: what is relevant to each row.
    """

    __slots__ = ("_update", "items", "relevance", "side", "users")

    side: SideData
    items: Tensor | None
    users: Tensor | None
    relevance: Relevance

    def _begin(self, feature: OutputFeature, update: Update) -> None:
        self.feature, self._update = feature, update
        self.side, self.items, self.users = update.side, update.items, update.users
        self.relevance, self.target, self.weight = update.relevance, update.target, update.weight
        given = update.scoring
        self.given: dict[InputType, Tensor] = {LOGITS: given.scores} if isinstance(given, GivenScores) else {}
        self.extras, self.records, self.soft = update.extras, {}, None
        self._blocks: dict[Hashable, Any] = {}
        self._kind = False

    @property
    def scoring(self) -> Scoring:
        """Where the scores come from."""
        return self._update.scoring

    @property
    def strays(self) -> tuple[tuple[str, Tensor], ...]:
        """What must hold of ids on a device, and whether it does not."""
        return self._update.strays

    @property
    def width(self) -> int:
        """How many columns the scores have: all items, or the candidates."""
        return self.scoring.shape[1]

    @property
    def valid(self) -> Tensor:
        """Which rows have a relevant item, (rows,) bool."""
        return self.relevance.counts > 0

    @property
    def logits(self) -> Tensor:
        """All scores, (rows, columns), -inf for what is not ranked."""
        return self._once("logits", lambda: torch.cat([scores.clone() for _, scores in self.tiles()]))

    @property
    def answer(self) -> Tensor:
        """All grades, (rows, columns) float32."""
        return self._once("answer", lambda: self.relevance.dense(0, len(self)))

    @property
    def others(self) -> Tensor:
        """How many items of each row are ranked and not relevant, (rows,) float64."""
        return self._once("others", lambda: self._measured(count_others, self.relevance.entries, len(self)))

    @property
    def areas(self) -> Areas:
        """Pairs in the right order, relevant items and others of each row, see `right_pairs`."""
        return self._once("areas", self._counted)

    @property
    def rated(self) -> Areas:
        """Row, score and grade of each relevant entry, for errors against ratings; -inf if it is unranked."""
        return self._once("rated", self._rated)

    def ranks(self, entries: Interactions) -> Tensor:
        """Find the rank from 1 of columns of each row, (entries,) float64; inf for what is not ranked."""
        none = not len(entries.items)
        return entries.sizes.double() if none else self._measured(ranks_of, entries, len(entries.items))

    def tiles(self, *, scratch: bool = False) -> Iterator[tuple[int, Tensor]]:
        """Cut the scores into tiles: the first row of each, and its scores, -inf for what is not ranked.

        With `scratch` a tile may be written into; else it may be the caller's own scores.
        """
        padding = None if self.items is None else self.items < 0
        return tiles(self.scoring, self._update.hidden, padding, scratch=scratch)

    def raw_tiles(self) -> Iterator[Tensor]:
        """Cut the scores into tiles as they were given, with nothing hidden."""
        return (scores for _, scores in tiles(self.scoring))

    def rows(self, keep: Tensor) -> Self:
        """Return the batch of those rows where `keep` is true."""
        return self._made(self._update.only(keep.nonzero().squeeze(1)))

    def masked(self, keep: Tensor) -> Self:
        """Return the same rows, of which those that are not to be kept weigh nothing; nobody waits for it."""
        weight = keep.double() if self.weight is None else torch.where(keep, self.weight, 0.0)
        return self._made(self._update.scored(self.scoring.masked(keep), weight))

    def _made(self, update: Update) -> Self:
        part = object.__new__(type(self))
        part._begin(self.feature, update)
        return part

    def _once(self, name: Hashable, make: Callable[[], T]) -> T:
        return self.block(name, lambda _: make())

    def _measured(
        self, measure: Callable[[Tensor, Interactions], Tensor], entries: Interactions, size: int
    ) -> Tensor:
        """Measure the entries of each tile of scores, one behind the other, (size,) float64."""
        measured, filled = torch.empty(size, dtype=torch.float64, device=self.target.device), 0
        for start, scores in self.tiles():
            part = measure(scores, entries.part(start, start + len(scores)))
            measured[filled : filled + len(part)] = part
            filled += len(part)
        return measured

    def _counted(self) -> Areas:
        return right_pairs(self.tiles(scratch=True), self.relevance.entries, self.width)

    def _rated(self) -> Areas:
        entries = self.relevance.entries
        row = entries.row_of
        if self._update.hidden is None:
            scores = entries.real(self.scoring.pairs(row, entries.items), -torch.inf)
        else:  # of which some may be among the entries
            scores = self._measured(scores_of, entries, len(entries.items))
        return row, scores, entries.sizes
