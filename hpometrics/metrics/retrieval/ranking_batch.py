"""A batch of scores over items with its relevant items, from which ranked lists are created once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any, Self, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from ...exceptions import MetricInputError, NonFiniteError
from .._checks import Check, read, weight_checks
from .._device import on_host
from ..batch import Outputs
from ..features import LOGITS, InputType, OutputFeature, Ranking
from .blocks import Tile
from .interactions import Interactions, PaddedInteractions
from .lists import Cut, HitLists, Lists, WholeLists
from .relevance import Relevance, SparseRelevance, fits_float32, may_be_odd, odd_rows
from .row_areas import Areas, count_others, is_wide, ranks_of, right_pairs, scores_of
from .scoring import GivenScores, Scoring, tiles
from .side_data import SideData, known_users
from .topk import top_k
from .update import Update

_NARROW = 64  # candidates up to which lists take no more time than the ranks of relevant items

T = TypeVar("T")


class RankingBatch(Outputs):
    """One batch of a `Ranking`: scores, or the factors whose products they are, and the relevant items.

    Args:
        feature: the output, with its side data.
        logits: scores (rows, items); `scores` is an alias.
        target: grades (rows, items), or relevant items in any form of `Interactions`.
        items: (rows, candidates) the item of each column of each row, -1 or `num_items` for none; with
            `queries` (pairs,).
        users: (rows,) the number of each user, for seen items, groups and values by user.
        queries: (pairs,) the query of each score, for scores and target (pairs,); each row is then a query.
            torchmetrics' `indexes` is an alias.
        user_factors, item_factors: (rows, d) and (items, d) instead of scores.
        sample_weight: the weight of each row.
        extras: all other keyword arguments; they reach the metrics that read them.

    Attributes:
        side: the side data of the output.
        items: (rows, candidates) the item of each column, -1 for none; None where columns are items.
        users: (rows,) the number of each user, or None.
        relevance: the relevant items of each row.

    Raises:
        MetricInputError: shapes do not match, item ids are out of range, or an argument is missing.
    """

    __slots__ = ("_depth", "_reads_items", "_update", "_visitors", "items", "relevance", "side", "users")

    feature: Ranking
    side: SideData
    items: Tensor | None
    users: Tensor | None
    relevance: Relevance

    def __init__(self, feature: OutputFeature, **inputs: Any) -> None:
        self._begin(cast(Ranking, feature), Update.of(feature, **inputs))

    def _begin(self, feature: Ranking, update: Update) -> None:
        self.feature, self._update = feature, update
        self.side, self.items, self.users = update.side, update.items, update.users
        self.relevance, self.target, self.weight = update.relevance, update.target, update.weight
        scoring = update.scoring
        scores = {LOGITS: scoring.scores} if isinstance(scoring, GivenScores) else {}
        self.given: dict[InputType, Tensor] = scores
        self.extras, self.records, self.soft = update.extras, {}, None
        self._blocks: dict[Hashable, Any] = {}
        self._kind = False
        self._depth, self._reads_items = 0, False
        self._visitors: dict[str, Callable[[Tile], Tensor]] = {}

    @property
    def scoring(self) -> Scoring:
        """Where the scores come from."""
        return self._update.scoring

    @property
    def strays(self) -> tuple[tuple[str, Tensor], ...]:
        """Rules for ids on a device, and for each a flag that is true if an id breaks it."""
        return self._update.strays

    @property
    def width(self) -> int:
        """The number of columns of the scores: all items, or the candidates."""
        return self.scoring.shape[1]

    @property
    def valid(self) -> Tensor:
        """Whether each row has a relevant item, (rows,) bool."""
        return self.relevance.counts > 0

    @property
    def logits(self) -> Tensor:
        """All scores, (rows, columns), -inf for items that are not ranked."""
        return self._cached("logits", lambda: torch.cat([scores.clone() for _, scores in self.tiles()]))

    @property
    def answer(self) -> Tensor:
        """All grades, (rows, columns) float32."""
        return self._cached("answer", lambda: self.relevance.dense(0, len(self)))

    @property
    def others(self) -> Tensor:
        """The number of items of each row that are ranked and not relevant, (rows,) float64."""
        return self._cached(
            "others", lambda: self._measure_tiles(count_others, self.relevance.entries, len(self))
        )

    @property
    def areas(self) -> Areas:
        """Correctly ordered pairs, relevant items and other items of each row, see `right_pairs`."""
        return self._cached("areas", self._count_pairs)

    @property
    def rated(self) -> Areas:
        """Row, score and grade of each relevant entry, for errors against ratings; -inf if not ranked."""
        return self._cached("rated", self._rated_entries)

    def ranks(self, entries: Interactions, within: float = torch.inf) -> Tensor:
        """Return the rank from 1 of columns of each row, (entries,) float64; inf for what is not ranked.

        A rank above `within` may be any other number above it.
        """
        if not len(entries.items):
            return entries.sizes.double()
        return self._measure_tiles(partial(ranks_of, within=within), entries, len(entries.items))

    def tiles(self, *, scratch: bool = False) -> Iterator[tuple[int, Tensor]]:
        """Split the scores into tiles: the first row of each, and its scores, -inf for what is not ranked.

        With `scratch` a tile may be overwritten; otherwise it may share memory with the caller's scores.
        """
        padding = None if self.items is None else self.items < 0
        return tiles(self.scoring, self._update.hidden, padding, scratch=scratch)

    def raw_tiles(self) -> Iterator[Tensor]:
        """Split the scores into tiles without hiding any."""
        return (scores for _, scores in tiles(self.scoring))

    def rows(self, keep: Tensor) -> Self:
        """Return a batch of the rows where `keep` is true."""
        return self._with_update(self._update.only(keep.nonzero().squeeze(1)))

    def masked(self, keep: Tensor) -> Self:
        """Return the same rows, with weight 0 where `keep` is false; no device synchronizes."""
        weight = keep.double() if self.weight is None else torch.where(keep, self.weight, 0.0)
        return self._with_update(replace(self._update, scoring=self.scoring.masked(keep), weight=weight))

    @property
    def numbered(self) -> bool:
        """Whether the scored items are known, which documents of queries may not be."""
        return self._update.num_items is not None or self.items is not None

    @property
    def num_items(self) -> int:
        """The size of the catalog.

        Raises:
            MetricInputError: only candidates are scored and the output does not state the size; or documents
                of queries without item ids are scored.
        """
        self._check_numbered()
        if self._update.num_items is None:
            raise MetricInputError(
                "the size of the catalog is unknown, because the batch has only candidates; pass "
                "Ranking(num_items=...)"
            )
        return self._update.num_items

    def of_valid(self, values: Tensor, counts_empty: bool) -> Tensor:
        """Replace the values of rows without a relevant item by nan, which excludes them, or by 0.

        Args:
            values: (rows, columns), any number in rows without a relevant item.
            counts_empty: whether `Ranking(empty="neg")` counts them as 0.
        """
        if self._cached("all valid", lambda: on_host(self.target) and bool(self.valid.all())):
            return values
        empty = 0.0 if counts_empty and self.feature.empty == "neg" else torch.nan
        return values.masked_fill(~self.valid.unsqueeze(1), empty)

    @property
    def item_groups(self) -> Tensor:
        """The group of each item of the catalog, -1 where it is unknown, (items,) int64.

        Raises:
            MetricInputError: the output has no groups of items, or the scored items are unknown.
        """
        self._check_numbered()
        return self.side.item_groups

    @property
    def item_features(self) -> Tensor:
        """The features of each item of the catalog, (items, features) float32.

        Raises:
            MetricInputError: the output has no features of items, or the scored items are unknown.
        """
        self._check_numbered()
        return self.side.item_features

    @property
    def user_groups(self) -> Tensor:
        """The group of the user of each row, -1 where it is unknown, (rows,) int64.

        Raises:
            MetricInputError: the output has no groups of users, or users are missing or out of range.
        """
        groups = self.side.user_groups
        users = known_users(self.users, len(groups), "user_groups", "groups of users are looked up")
        if on_host(users):
            return groups[users]
        is_known = (users >= 0) & (users < len(groups))  # ids on a device are not checked
        return torch.where(is_known, groups[users.clamp(0, len(groups) - 1)], -1)

    @property
    def catalogue(self) -> int | None:
        """The size of the catalog, None where it is unknown."""
        return self._update.num_items

    def with_lists(self, lists: Lists, weight: Tensor | None = None) -> RankingBatch:
        """Return a batch over the same catalog with these lists and weights, without scores."""
        batch = self._with_update(self._update.without_scores(lists.relevant, weight))
        batch._blocks["lists"], batch._depth = lists, lists.depth
        return batch

    def reach(self, k: int, *, only_hits: bool = False) -> None:
        """Request lists of at least k items, or of only the hits among them, before they are read."""
        self._depth = max(self._depth, k)
        self._reads_items = self._reads_items or (k > 0 and not only_hits)

    @property
    def lists(self) -> Lists:
        """The best items of each row, to the largest requested depth, from one pass over the scores."""
        lists: Lists | None = self._blocks.get("lists")
        if lists is None or lists.depth < self._depth or (self._reads_items and isinstance(lists, HitLists)):
            self._blocks["lists"] = lists = self._rank(max(1, self._depth))
        return lists

    @property
    def whole(self) -> WholeLists:
        """Lists without a cut-off, see `WholeLists`, for which no list is ranked."""
        return self._cached("whole", self._whole_lists)

    def cuts(self, cutoffs: tuple[int, ...]) -> list[Cut]:
        """Return the lists cut at each k; 0, which comes first, is the whole ranking."""
        return self._cached(("cuts", cutoffs), lambda: self._cut_lists(cutoffs))

    def listed(self, cut: Cut) -> Tensor:
        """Return the length of a list of each k, (rows, cutoffs) float64; a whole one has all ranked."""
        return self.others.unsqueeze(1) + cut.found if cut.lists.endless else cut.lengths

    @property
    def relevant_items(self) -> Interactions:
        """The ids of the relevant items of each row, including those that are not candidates."""
        return self._cached("relevant items", self._relevant_items)

    def dense_tiles(self) -> Iterator[Tile]:
        """Split the batch into tiles of scores and grades, with their lists."""
        self.reach(1)
        lists = self.lists
        for start, preds in self.tiles():
            stop = start + len(preds)
            yield Tile(self, start, preds, lists.part(start, stop), self.relevance.dense(start, stop))

    def visit(self, name: str, measure: Callable[[Tile], Tensor]) -> None:
        """Register a function of every tile; all functions registered before `visited` share the tiles."""
        self._visitors[name] = measure

    def visited(self, name: str) -> Tensor:
        """Return the results of a registered function, (rows,): the concatenated tensors of its tiles."""
        results: dict[str, Tensor] = self.block("visited", lambda _: {})
        if name not in results:
            missing = {
                visitor: measure for visitor, measure in self._visitors.items() if visitor not in results
            }
            parts: dict[str, list[Tensor]] = {visitor: [] for visitor in missing}
            for tile in self.dense_tiles():
                for visitor, measure in missing.items():
                    parts[visitor].append(measure(tile))
            none = torch.zeros(0, device=self.target.device)
            results.update({visitor: torch.cat(tensors or [none]) for visitor, tensors in parts.items()})
        return results[name]

    def require(self, kind: InputType, reader: str) -> None:
        """Check that a model output is available: a ranking has scores only.

        Raises:
            MetricInputError: another output is requested.
        """
        if kind is not LOGITS:
            raise MetricInputError(f"{reader} reads {kind}: a ranking output has scores")

    def _with_update(self, update: Update) -> Self:
        part = object.__new__(type(self))
        part._begin(self.feature, update)
        return part

    def _cached(self, name: Hashable, make: Callable[[], T]) -> T:
        return self.block(name, lambda _: make())

    def _measure_tiles(
        self, measure: Callable[[Tensor, Interactions], Tensor], entries: Interactions, size: int
    ) -> Tensor:
        """Measure the entries of each tile of scores and concatenate the results, (size,) float64."""
        measured, end = torch.empty(size, dtype=torch.float64, device=self.target.device), 0
        for start, scores in self.tiles():
            part = measure(scores, entries.part(start, start + len(scores)))
            measured[end : end + len(part)] = part
            end += len(part)
        return measured

    def _count_pairs(self) -> Areas:
        entries = self.relevance.entries
        return right_pairs(self.tiles(scratch=not is_wide(self.width, entries)), entries, self.width)

    def _rated_entries(self) -> Areas:
        entries = self.relevance.entries
        row = entries.row_of
        if self._update.hidden is None:
            scores = entries.real(self.scoring.pairs(row, entries.items), -torch.inf)
        else:  # hidden columns may be among the entries
            scores = self._measure_tiles(scores_of, entries, len(entries.items))
        return row, scores, entries.sizes

    def _cut_lists(self, cutoffs: tuple[int, ...]) -> list[Cut]:
        some = tuple(k for k in cutoffs if k)
        whole = [self.whole.cut((self.width,))] if 0 in cutoffs else []
        return whole + ([self.lists.cut(some)] if some else [])

    def _check_numbered(self) -> None:
        if not self.numbered:
            raise MetricInputError(
                "the items of lists are needed, but queries= does not name them; pass items=, (pairs,), "
                "the item of each pair, or leave out metrics of the catalog"
            )

    def _rank(self, depth: int) -> Lists:
        relevance = self.relevance
        best, graded = partial(relevance.ideal, depth), relevance.graded
        if self._depth > 1 and not self._reads_items and self.width > _NARROW and relevance.few:
            entries = relevance.entries
            ranks = self.ranks(entries, depth)
            return HitLists.of(ranks, entries, relevance.counts, depth, best=best, graded=graded)
        columns = torch.empty(len(self), depth, dtype=torch.int64, device=self.target.device)
        values = torch.empty(columns.shape, dtype=self.scoring.dtype, device=columns.device)
        for start, scores in self.tiles():  # no allocation between tiles, whose memory is reused
            part = slice(start, start + len(scores))
            values[part], columns[part] = top_k(scores, depth)
        items = columns
        if self.items is not None and self.width:
            items = self.items.gather(1, columns.clamp(min=0)).masked_fill(columns < 0, -1)
        grades, counts = relevance.at(columns), relevance.counts
        return Lists(values, columns, items, grades, counts, best=best, graded=graded)

    def _whole_lists(self) -> WholeLists:
        entries, counts = self.relevance.entries, self.relevance.counts
        depth = max(1, entries.most if isinstance(entries, PaddedInteractions) else _most(counts))
        item = entries.items if self.items is None else self.items[entries.row_of, entries.items]
        facts = self.ranks(entries), self.scoring.pairs(entries.row_of, entries.items), item
        best = partial(self.relevance.ideal, depth)
        return WholeLists.of(entries, facts, counts, depth, best)

    def _relevant_items(self) -> Interactions:
        if isinstance(self.relevance, SparseRelevance):
            return self.relevance.by_id
        entries = self.relevance.entries
        if self.items is None:
            return entries
        ids = self.items[entries.row_of, entries.items]
        return entries.renumbered(ids)


def _most(counts: Tensor) -> int:
    return int(counts.max()) if len(counts) else 0


def rankings_in(batch: Outputs) -> RankingBatch:
    """Return the batch if it is a batch of rankings.

    Raises:
        MetricInputError: it is not.
    """
    if not isinstance(batch, RankingBatch):
        raise MetricInputError(f"ranked lists need a ranking output, got {batch.feature}")
    return batch


def ranking_checks(batch: RankingBatch) -> Iterator[Check]:
    """Yield the checks of the values of one batch; a score of -inf is an item that is not a candidate."""
    rule = "scores must be numbers, or -inf for an item that is not a candidate; not nan or inf"

    def explain() -> str:
        bad = ~_ordered_rows(batch)
        return _format_rows(rule, bad, batch) if bool(bad.any()) else f"{rule}; factors contain such values"

    yield Check(read(~batch.scoring.ordered), rule, explain, NonFiniteError)
    if batch.scoring.overflow is not None:
        yield _check_overflow(batch.scoring.overflow, batch)
    for id_rule, stray in batch.strays:
        yield Check(read(stray), id_rule, partial(str, id_rule))
    if batch.items is not None:
        yield _check_distinct(batch.items, batch)
    if batch.relevance.odd is not None or may_be_odd(batch.target):
        yield _check_grades(batch)
    yield from weight_checks(batch)


def _check_overflow(overflow: Tensor, batch: RankingBatch) -> Check:
    rule = f"products of user_factors and item_factors must be numbers that {batch.scoring.dtype} can hold"

    def explain() -> str:
        bad = ~_ordered_rows(batch)
        return (
            f"{rule}; {int(bad.sum())} rows have one that is too large, the first is "
            f"{_format_first(bad, batch)}. Pass smaller factors, or float64"
        )

    return Check(read(overflow), rule, explain, NonFiniteError)


def _check_grades(batch: RankingBatch) -> Check:
    rule = "grades of a target must be finite numbers of float32, not nan or infinite"
    if batch.relevance.odd is None and on_host(batch.target):
        bad = ~fits_float32(*batch.target.aminmax())
    elif batch.weight is None:
        bad = _odd_rows(batch).any()
    else:  # on a device an excluded row remains, with weight 0
        bad = (_odd_rows(batch) & (batch.weight != 0)).any()
    return Check(read(bad), rule, lambda: _format_rows(rule, _odd_rows(batch), batch), NonFiniteError)


def _odd_rows(batch: RankingBatch) -> Tensor:
    """Return which rows have a grade that is not finite, (rows,) bool."""
    odd = batch.relevance.odd
    if odd is not None or not may_be_odd(batch.target):
        return torch.zeros(len(batch), dtype=torch.bool, device=batch.target.device) if odd is None else odd
    return odd_rows(batch.target)


def _check_distinct(items: Tensor, batch: RankingBatch) -> Check:
    rule = "items must list each candidate of a row once, with -1 as padding"
    ordered = torch.from_numpy(np.sort(items.numpy(), axis=1)) if on_host(items) else items.sort(dim=1).values
    repeats = torch.where(ordered[:, 1:] == ordered[:, :-1], ordered[:, 1:], -1)  # -1 is no repeated item

    def explain() -> str:
        row, place = (int(number) for number in (repeats >= 0).nonzero()[0])
        whose = "" if batch.users is None else f", that of user {int(batch.users[row])},"
        return f"{rule}; row {row}{whose} contains item {int(repeats[row, place])} twice; keep one of them"

    return Check(read((repeats >= 0).any()), rule, explain)


def _format_rows(rule: str, bad: Tensor, batch: RankingBatch) -> str:
    """Format which rows break a rule."""
    return f"{rule}; {int(bad.sum())} rows contain such values, the first is {_format_first(bad, batch)}"


def _format_first(bad: Tensor, batch: RankingBatch) -> str:
    """Format the first row where it is true, or its user."""
    first = int(bad.nonzero()[0])
    return f"row {first}" if batch.users is None else f"user {int(batch.users[first])}"


def finite_rows(batch: RankingBatch) -> Tensor:
    """Return which rows have scores that can be ordered, finite grades and a finite weight, (rows,) bool."""
    sound = _ordered_rows(batch) & ~_odd_rows(batch)
    return sound if batch.weight is None else sound & batch.weight.isfinite()


def _ordered_rows(batch: RankingBatch) -> Tensor:
    """Return which rows have scores that can be ordered, including hidden ones, (rows,) bool."""
    parts = [batch.scoring.sound(scores) for scores in batch.raw_tiles()] if batch.width else []
    everyone = torch.ones(len(batch), dtype=torch.bool, device=batch.target.device)
    return torch.cat(parts) if parts else everyone
