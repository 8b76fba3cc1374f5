"""RankingBatch: a batch of scores over items, with what is relevant; its lists and areas, each made once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..features import LOGITS, InputType, OutputFeature, Ranking
from ..outputs import Outputs, as_tensor
from .areas import count_others, ranks_of, right_pairs
from .blocks import Tile
from .candidates import sample_candidates
from .interactions import Interactions
from .lists import Cut, Lists
from .padded import Padded
from .queries import side_by_side
from .reading import (
    known_users,
    placed,
    read_items,
    read_scores,
    read_scoring,
    read_seen,
    read_target,
    read_users,
)
from .relevance import DenseRelevance, Relevance, SparseRelevance
from .scoring import GivenScores, Scoring, tiles
from .side import SideData
from .topk import top_k
from .whole import WholeLists

T = TypeVar("T")
Areas = tuple[Tensor, Tensor, Tensor]


class RankingBatch(Outputs):
    """One batch of a `Ranking`: scores, or the factors that they are products of, and what is relevant.

    Args:
        feature: the output, with its side data.
        logits: scores (rows, items); `scores` is the same.
        target: grades (rows, items), or relevant items in any form of `Interactions`.
        items: (rows, candidates) the item of each column of each row, -1 or `num_items` for none.
        users: (rows,) the number of each user, for seen items, groups and values by user.
        queries: (pairs,) the query of each score, for scores and target (pairs,); a row is then a query.
            torchmetrics' `indexes` is the same.
        user_factors, item_factors: (rows, d) and (items, d) in the place of scores.
        sample_weight: how much each row counts.
        extras: whatever else; it reaches the metrics that ask for it.

    Raises:
        MetricInputError: shapes that do not belong together, item ids out of range, or something missing.
    """

    __slots__ = (
        "_catalogue",
        "_depth",
        "_hidden",
        "_scoring",
        "_visitors",
        "items",
        "relevance",
        "side",
        "users",
    )

    feature: Ranking
    relevance: Relevance
    items: Tensor | None
    users: Tensor | None
    _hidden: Interactions | None

    def __init__(
        self,
        feature: OutputFeature,
        *,
        logits: Any = None,
        scores: Any = None,
        target: Any = None,
        items: Any = None,
        users: Any = None,
        queries: Any = None,
        indexes: Any = None,
        user_factors: Any = None,
        item_factors: Any = None,
        sample_weight: Any = None,
        **extras: Any,
    ) -> None:
        if not isinstance(feature, Ranking):
            raise MetricInputError(f"a batch of rankings is of Ranking(), got {feature}")
        given = read_scores(logits, scores, extras)
        queries = indexes if queries is None else queries
        if queries is not None:
            if users is not None or items is not None:
                raise MetricInputError("queries= say which row a pair is in; leave out users= and items=")
            if feature.seen is not None or feature.num_negatives is not None:
                raise MetricInputError(
                    "documents of queries are not numbered, so that none is masked as seen or drawn; leave "
                    "out seen= and num_negatives= of the output, or give scores by row with items="
                )
            given, target, users = side_by_side(given, target, queries)
        self._begin(feature, read_scoring(given, user_factors, item_factors, items), extras)
        self.weight = None if sample_weight is None else as_tensor(sample_weight).double()
        (rows, width), total = self._scoring.shape, self.side.num_items
        scored = width if items is None else self._catalogue
        if None not in (total, scored) and total != scored:
            raise MetricInputError(
                f"scores are of {scored} items, the catalogue has {total}; of candidates alone, pass items="
            )
        self.users = None if users is None else read_users(users, rows)
        self.items = (
            None if items is None else read_items(as_tensor(items), self._scoring.shape, self._known_items)
        )
        self.relevance, self.target = read_target(
            target, self._scoring, self.items, feature.relevance_threshold, self._known_items
        )
        masks = feature.seen is not None and self.items is None  # candidates are the caller's choice
        self._hidden = read_seen(self.side, self.users, self.width) if masks else None
        if feature.num_negatives is not None and self.items is None:
            self._sample(feature.num_negatives)
        if isinstance(self._scoring, GivenScores):
            self.given[LOGITS] = self._scoring.scores

    def _begin(self, feature: Ranking, scoring: Scoring, extras: dict[str, Any]) -> None:
        self.feature, self._scoring, self.extras = feature, scoring, extras
        self.side = SideData.of(feature, scoring.device)
        self.given: dict[InputType, Tensor] = {}
        self.records: dict[str, list[Any]] = {}
        self.soft: Tensor | None = None
        self._blocks: dict[str, Any] = {}
        self._catalogue = scoring.num_items
        self._kind, self._depth = False, 0
        self._visitors: dict[str, Callable[[Tile], Tensor]] = {}

    @property
    def width(self) -> int:
        """How many columns the scores have: all items, or the candidates."""
        return self._scoring.shape[1]

    @property
    def num_items(self) -> int:
        """The size of the catalogue.

        Raises:
            MetricInputError: only candidates are scored, and the output does not say it.
        """
        known = self._known_items
        if known is None and self.items is not None:
            raise MetricInputError(
                "the size of the catalogue is wanted, candidates do not show it; give Ranking(num_items=...)"
            )
        return self.width if known is None else known

    @property
    def _known_items(self) -> int | None:
        """The size of the catalogue, where side data or factors show it."""
        return self.side.num_items if self._catalogue is None else self._catalogue

    @property
    def valid(self) -> Tensor:
        """Which rows have a relevant item, (rows,) bool."""
        return self.relevance.counts > 0

    @property
    def user_groups(self) -> Tensor:
        """The group of the user of each row, -1 where it is unknown, (rows,) int64.

        Raises:
            MetricInputError: the output has no groups of users, or users are not given or not among them.
        """
        groups = self.side.user_groups
        return groups[known_users(self.users, len(groups), "user_groups", "groups of users are told")]

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
        some = tuple(k for k in cutoffs if k)
        whole = [self.whole.cut((self.width,))] if 0 in cutoffs else []
        return whole + ([self.lists.cut(some)] if some else [])

    @property
    def others(self) -> Tensor:
        """How many items of each row are ranked and not relevant, (rows,) float64."""
        return self._once("others", lambda: self._measured(count_others, self.relevance.entries))

    @property
    def areas(self) -> Areas:
        """Pairs in the right order, relevant items and others of each row, see `right_pairs`."""
        return self._once("areas", self._counted)

    @property
    def rated(self) -> Areas:
        """Row, score and grade of each relevant entry, for errors against ratings."""
        return self._once("rated", self._rated)

    @property
    def relevant_items(self) -> Interactions:
        """The ids of the relevant items of each row, those that are no candidates included."""
        return self._once("relevant items", self._named)

    @property
    def ordered(self) -> Tensor:
        """Whether all scores can be ordered, a flag: neither nan nor inf among them."""
        tops = [part.amax() < torch.inf for part in self._scoring.inputs if part.numel()]
        return torch.stack(tops).all() if tops else torch.ones((), dtype=torch.bool)

    @property
    def logits(self) -> Tensor:
        """All scores, (rows, columns), -inf for what is not ranked."""
        return self._once("logits", lambda: torch.cat([scores.clone() for _, scores in self.tiles()]))

    @property
    def answer(self) -> Tensor:
        """All grades, (rows, columns) float32."""
        return self._once("answer", lambda: self.relevance.dense(0, len(self)))

    def _once(self, name: str, make: Callable[[], T]) -> T:
        return self.block(name, lambda _: make())

    def tiles(self, *, scratch: bool = False) -> Iterator[tuple[int, Tensor]]:
        """Cut the scores into tiles: the first row of each, and its scores, -inf for what is not ranked.

        With `scratch` a tile may be written into; else it may be the caller's own scores.
        """
        padding = None if self.items is None else self.items < 0
        return tiles(self._scoring, self._hidden, padding, scratch=scratch)

    def raw_tiles(self) -> Iterator[Tensor]:
        """Cut the scores into tiles as they were given, with nothing hidden."""
        return (scores for _, scores in tiles(self._scoring, None, None))

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

    def ranks(self, entries: Interactions) -> Tensor:
        """Find the rank from 1 of columns of each row, (entries,) float64; inf for what is not ranked."""
        return self._measured(ranks_of, entries) if len(entries.items) else entries.sizes.double()

    def require(self, kind: InputType, reader: str) -> None:
        """Make sure that a model output is given: a ranking has scores and nothing else.

        Raises:
            MetricInputError: another one is wanted.
        """
        if kind is not LOGITS:
            raise MetricInputError(f"{reader} reads {kind}: a ranking output has scores")

    def rows(self, keep: Tensor) -> Self:
        """Return the batch of those rows where `keep` is true."""
        part, which = self._copied(), keep.nonzero().squeeze(1)
        part._scoring = self._scoring.only(which)
        part.relevance = self.relevance.only(which)
        part._hidden = None if self._hidden is None else self._hidden.rows(which)
        for name in ("users", "items", "weight", "target"):
            value = getattr(self, name)
            setattr(part, name, None if value is None else value[which])
        if LOGITS in self.given:
            part.given = {LOGITS: part._scoring.scores}  # type: ignore[attr-defined]  # given scores
        return part

    def masked(self, keep: Tensor) -> Self:
        """Return the same rows, of which those that are not to be kept weigh nothing; nobody waits for it."""
        part = self._copied()
        part.weight = keep.double() if self.weight is None else torch.where(keep, self.weight, 0.0)
        part._scoring = GivenScores(torch.where(keep.unsqueeze(1), self._scoring.rows(0, len(self)), 0.0))
        return part

    def _copied(self) -> Self:
        part = object.__new__(type(self))
        for name in (*Outputs.__slots__, *RankingBatch.__slots__):
            setattr(part, name, getattr(self, name))
        part._blocks, part._visitors = {}, {}
        return part

    def _sample(self, num_negatives: int) -> None:
        """Draw candidates by the seed, and score only them."""
        drawn = sample_candidates(
            self.relevance.entries.packed(), self.num_items, num_negatives,
            seen=None if self._hidden is None else self._hidden.packed(),
            users=self.users, seed=self.feature.seed,
        )  # fmt: skip
        device, self._catalogue = self._scoring.device, self.num_items
        self.items, self.target = drawn.items.to(device), drawn.target.to(device)
        if self._hidden is not None:  # a relevant item may have been seen
            self._hidden = placed(self._hidden.packed(), drawn.items).to(device)
        self.relevance = DenseRelevance(self.target, 0.0)
        self._scoring = self._scoring.of(self.items)

    def _ranked(self, depth: int) -> Lists:
        found = [top_k(scores, depth) for _, scores in self.tiles()]
        none = torch.zeros(0, depth, device=self.target.device)
        values, columns = map(torch.cat, zip(*found or [(none, none.long())], strict=True))
        items = columns
        if self.items is not None:
            items = self.items.gather(1, columns.clamp(min=0)).masked_fill(columns < 0, -1)
        grades, ideal = self.relevance.at(columns), self.relevance.ideal(depth)
        return Lists(values, columns, items, grades, self.relevance.counts, ideal)

    def _placed(self) -> WholeLists:
        entries, counts = self.relevance.entries, self.relevance.counts
        depth = max(1, entries.most if isinstance(entries, Padded) else _most(counts))
        item = entries.items if self.items is None else self.items[entries.row_of, entries.items]
        facts = self.ranks(entries), self._scoring.pairs(entries.row_of, entries.items), item
        return WholeLists.of(entries, facts, self.relevance.ideal(depth), counts)

    def _measured(self, measure: Callable[[Tensor, Interactions], Tensor], entries: Interactions) -> Tensor:
        """Measure the entries of each tile of scores, one behind the other."""
        parts = [torch.zeros(0, dtype=torch.float64, device=self.target.device)]
        for start, scores in self.tiles():
            parts.append(measure(scores, entries.part(start, start + len(scores))))
        return torch.cat(parts)

    def _counted(self) -> Areas:
        entries = self.relevance.entries
        none = torch.zeros(0, dtype=torch.float64, device=self.target.device)
        parts = [(none, none, none)]
        for start, scores in self.tiles(scratch=True):
            parts.append(right_pairs(scores, entries.part(start, start + len(scores))))
        right, positives, others = (torch.cat(column) for column in zip(*parts, strict=True))
        return right, positives, others

    def _named(self) -> Interactions:
        if isinstance(self.relevance, SparseRelevance):
            return self.relevance.named
        entries = self.relevance.entries
        if self.items is None:
            return entries
        ids = self.items[entries.row_of, entries.items]
        return entries.named(ids)

    def _rated(self) -> Areas:
        entries = self.relevance.entries
        row = entries.row_of
        return row, entries.real(self._scoring.pairs(row, entries.items), -torch.inf), entries.sizes


def _most(counts: Tensor) -> int:
    return int(counts.max()) if len(counts) else 0
