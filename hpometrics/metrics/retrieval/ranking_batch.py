"""RankingBatch: a batch of scores over items, with what is relevant; its lists, each made once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host
from ..batch import Outputs
from ..features import LOGITS, InputType, OutputFeature, Ranking
from .blocks import Tile
from .interactions import Interactions, Padded
from .lists import Cut, Lists, WholeLists
from .reading import known_users
from .relevance import Relevance, SparseRelevance
from .row_areas import Areas, count_others, ranks_of, right_pairs, scores_of
from .scoring import GivenScores, Scoring, tiles
from .side_data import SideData
from .topk import top_k
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


class RankingBatch(TiledBatch):
    """One batch of a `Ranking`: scores, or the factors that they are products of, and what is relevant.

    Args:
        feature: the output, with its side data.
        logits: scores (rows, items); `scores` is the same.
        target: grades (rows, items), or relevant items in any form of `Interactions`.
        items: (rows, candidates) the item of each column of each row, -1 or `num_items` for none; beside
            `queries` (pairs,).
        users: (rows,) the number of each user, for seen items, groups and values by user.
        queries: (pairs,) the query of each score, for scores and target (pairs,); a row is then a query.
            torchmetrics' `indexes` is the same.
        user_factors, item_factors: (rows, d) and (items, d) in the place of scores.
        sample_weight: how much each row counts.
        extras: whatever else; it reaches the metrics that ask for it.

    Raises:
        MetricInputError: shapes that do not belong together, item ids out of range, or something missing.
    """

    __slots__ = ("_depth", "_visitors")

    feature: Ranking

    def __init__(self, feature: OutputFeature, **given: Any) -> None:
        self._begin(feature, Update.of(feature, **given))

    def _begin(self, feature: OutputFeature, update: Update) -> None:
        super()._begin(feature, update)
        self._depth = 0
        self._visitors: dict[str, Callable[[Tile], Tensor]] = {}

    @property
    def num_items(self) -> int:
        """The size of the catalogue.

        Raises:
            MetricInputError: only candidates are scored, and the output does not say it; or what is scored
                are documents of queries without a number.
        """
        self._check_numbered()
        if self._update.num_items is None:
            raise MetricInputError(
                "the size of the catalogue is wanted, candidates do not show it; give Ranking(num_items=...)"
            )
        return self._update.num_items

    def of_valid(self, values: Tensor) -> Tensor:
        """Replace the values of rows without a relevant item: by nan, which leaves them out, or by 0.

        Args:
            values: (rows, columns), of any number where nothing is relevant.
        """
        if self._once("all valid", lambda: on_host(self.target) and bool(self.valid.all())):
            return values
        empty = 0.0 if self.feature.empty == "neg" else torch.nan
        return values.masked_fill(~self.valid.unsqueeze(1), empty)

    @property
    def item_groups(self) -> Tensor:
        """The group of each item of the catalogue, -1 where it is unknown, (items,) int64.

        Raises:
            MetricInputError: the output has no groups of items, or nothing tells which items are scored.
        """
        self._check_numbered()
        return self.side.item_groups

    @property
    def item_features(self) -> Tensor:
        """The features of each item of the catalogue, (items, features) float32.

        Raises:
            MetricInputError: the output has no features of items, or nothing tells which items are scored.
        """
        self._check_numbered()
        return self.side.item_features

    @property
    def user_groups(self) -> Tensor:
        """The group of the user of each row, -1 where it is unknown, (rows,) int64.

        Raises:
            MetricInputError: the output has no groups of users, or users are not given or not among them.
        """
        groups = self.side.user_groups
        users = known_users(self.users, len(groups), "user_groups", "groups of users are told")
        if on_host(users):
            return groups[users]
        known = (users >= 0) & (users < len(groups))  # on a device nobody has looked
        return torch.where(known, groups[users.clamp(0, len(groups) - 1)], -1)

    @property
    def catalogue(self) -> int | None:
        """The size of the catalogue, None where nothing tells it."""
        return self._update.num_items

    def with_lists(self, lists: Lists, weight: Tensor | None = None) -> RankingBatch:
        """Return a batch over the same catalogue that has these lists and these weights, and nothing else."""
        made = self._made(self._update.without_scores(lists.relevant, weight))
        made._blocks["lists"], made._depth = lists, lists.depth
        return made

    def reach(self, k: int) -> None:
        """Ask for lists of at least k items, before anyone reads them."""
        self._depth = max(self._depth, k)

    @property
    def lists(self) -> Lists:
        """The best items of each row, as deep as anyone has asked for, found by one pass over the scores."""
        held: Lists | None = self._blocks.get("lists")
        if held is None or held.depth < self._depth:
            self._blocks["lists"] = held = self._ranked(max(1, self._depth))
        return held

    @property
    def whole(self) -> WholeLists:
        """Lists without an end, see `WholeLists`; no list is ranked for them."""
        return self._once("whole", self._placed)

    def cuts(self, cutoffs: tuple[int, ...]) -> list[Cut]:
        """Cut the lists at each k; 0, which comes first, is the whole ranking."""
        return self._once(("cuts", cutoffs), lambda: self._cut(cutoffs))

    def _cut(self, cutoffs: tuple[int, ...]) -> list[Cut]:
        some = tuple(k for k in cutoffs if k)
        whole = [self.whole.cut((self.width,))] if 0 in cutoffs else []
        return whole + ([self.lists.cut(some)] if some else [])

    def listed(self, cut: Cut) -> Tensor:
        """How many items a list of each k has, (rows, cutoffs) float64; a whole one all that is ranked."""
        return self.others.unsqueeze(1) + cut.found if cut.lists.endless else cut.lengths

    @property
    def relevant_items(self) -> Interactions:
        """The ids of the relevant items of each row, those that are no candidates included."""
        return self._once("relevant items", self._named)

    def dense_tiles(self) -> Iterator[Tile]:
        """Cut the batch into tiles of scores and grades, with their lists."""
        lists = self.lists
        for start, preds in self.tiles():
            stop = start + len(preds)
            yield Tile(self, start, preds, lists.part(start, stop), self.relevance.dense(start, stop))

    def visit(self, name: str, measure: Callable[[Tile], Tensor]) -> None:
        """Ask for every tile to be measured; all that ask before the first `visited` see the same tiles."""
        self._visitors[name] = measure

    def visited(self, name: str) -> Tensor:
        """What a visitor measured, (rows,): the tensors of its tiles, joined."""
        held: dict[str, Tensor] = self.block("visited", lambda _: {})
        if name not in held:
            waiting = {asked: measure for asked, measure in self._visitors.items() if asked not in held}
            parts: dict[str, list[Tensor]] = {asked: [] for asked in waiting}
            for tile in self.dense_tiles():
                for asked, measure in waiting.items():
                    parts[asked].append(measure(tile))
            none = torch.zeros(0, device=self.target.device)
            held.update({asked: torch.cat(found or [none]) for asked, found in parts.items()})
        return held[name]

    def require(self, kind: InputType, reader: str) -> None:
        """Make sure that a model output is given: a ranking has scores and nothing else.

        Raises:
            MetricInputError: another one is wanted.
        """
        if kind is not LOGITS:
            raise MetricInputError(f"{reader} reads {kind}: a ranking output has scores")

    @property
    def numbered(self) -> bool:
        """Whether it is known which items are scored; of documents of queries it may not be."""
        return self._update.num_items is not None or self.items is not None

    def _check_numbered(self) -> None:
        if not self.numbered:
            raise MetricInputError(
                "the items of lists are wanted, which queries= alone do not tell; pass items=, (pairs,), the "
                "item of each pair, or leave out metrics of the catalogue"
            )

    def _ranked(self, depth: int) -> Lists:
        columns = torch.empty(len(self), depth, dtype=torch.int64, device=self.target.device)
        values = torch.empty(columns.shape, dtype=self.scoring.dtype, device=columns.device)
        for start, scores in self.tiles():  # nothing that stays is made between tiles, which find room again
            part = slice(start, start + len(scores))
            values[part], columns[part] = top_k(scores, depth)
        items = columns
        if self.items is not None and self.width:
            items = self.items.gather(1, columns.clamp(min=0)).masked_fill(columns < 0, -1)
        told = self.relevance
        best = partial(told.ideal, depth)
        return Lists(values, columns, items, told.at(columns), told.counts, best=best, graded=told.graded)

    def _placed(self) -> WholeLists:
        entries, counts = self.relevance.entries, self.relevance.counts
        depth = max(1, entries.most if isinstance(entries, Padded) else _most(counts))
        item = entries.items if self.items is None else self.items[entries.row_of, entries.items]
        facts = self.ranks(entries), self.scoring.pairs(entries.row_of, entries.items), item
        best = partial(self.relevance.ideal, depth)
        return WholeLists.of(entries, facts, counts, depth, best)

    def _named(self) -> Interactions:
        if isinstance(self.relevance, SparseRelevance):
            return self.relevance.named
        entries = self.relevance.entries
        if self.items is None:
            return entries
        ids = self.items[entries.row_of, entries.items]
        return entries.named(ids)


def _most(counts: Tensor) -> int:
    return int(counts.max()) if len(counts) else 0
