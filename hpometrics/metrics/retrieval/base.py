"""Base classes of ranking metrics: over lists of each k, over all scores, over ratings.

`ListMetric` is the fast way: a formula over the lists of a batch, at all its cut-offs at once. The others are
for custom metrics over plain tensors, whose `update` and `compute_scores` receive the arguments that their
signatures name.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..aggregation import RowValues
from ..batch import Outputs
from ..features import LOGITS, InputType, OutputFeature, Ranking
from ..metric import Metric, overrides_update
from ..registry.lookup import printed_name
from ..statistics.statistic import Statistic
from ..statistics.user_values import Reads, UserFacts, UserMeans, means_of_users
from .blocks import Block, MetricBlock, Tile, blocks_of
from .lists import Cut
from .per_user import PerUser
from .ranking_batch import RankingBatch, rankings_in

Arguments = tuple[list[Any], dict[str, Any]]

_DEEPEST = 2**20
"""The largest cut-off; a batch stores so many positions for every row, whatever the number of items."""


class BaseMetric(Metric):
    """A ranking metric without cut-off that measures tensors: scores and grades of some rows at a time.

    Define `update(preds, target, **kwargs)` and `compute()` over `add_state`; both tensors are (rows,
    columns), dense, and scores are -inf for items that are not ranked. `update` is called for a tile of rows
    at a time. It receives the arguments that its signature names, or all if it accepts any keyword: `users`
    (rows,) and `items` (rows, columns), both None where unknown, and the blocks that the class requests.
    WarpRec's form, `update(preds, **kwargs)`, and its names work as well: `ground` is the target,
    `user_indices` are the users and `item_indices` the items.

    A class requests blocks by `blocks = {...}` or `_REQUIRED_COMPONENTS = {...}`.
    """

    inputs: ClassVar[InputType] = LOGITS
    unstated_output: ClassVar[type[OutputFeature]] = Ranking
    blocks: ClassVar[Iterable[Block | str]] = ()
    _REQUIRED_COMPONENTS: ClassVar[Iterable[Block | str]] = ()
    counts_empty: ClassVar[bool] = True
    """Whether `Ranking(empty="neg")` counts a user without a relevant item as 0, which must then be the value
    of a list without a hit."""
    _reads_tiles = True
    k: int | None = None

    @classmethod
    def wanted_blocks(cls) -> tuple[Block | str, ...]:
        """Return the blocks that the class requests."""
        blocks = (cls.blocks,) if isinstance(cls.blocks, (str, Block)) else cls.blocks
        return (*blocks, *cls._REQUIRED_COMPONENTS)

    def observe(self, batch: Outputs) -> None:
        """Add a validated batch."""
        self.prepare(batch)
        if not overrides_update(self):
            super().observe(batch)
            return
        for tile in rankings_in(batch).dense_tiles():
            args, keywords = arrange_arguments(type(self).update, tile, self._arguments_of(tile), self.name)
            type(self).update(self, *args, **keywords)

    def compute_defined(self) -> Any:
        """Compute, and select the metric's own value if it returns values by name, as in WarpRec."""
        value = super().compute_defined()
        return own_value(value, self.name) if isinstance(value, Mapping) else value

    @property
    def formula(self) -> str:
        """The identity of its formula: its name without the cut-off; a name of the user's with the class."""
        if self.name != printed_name(type(self), vars(self)):
            return f"{self.name} of {type(self).__qualname__}"
        return self.name.rpartition("@")[0] or self.name

    def row_values(self, batch: Outputs) -> RowValues | None:
        """Return the value of each user if the only statistic is a mean over users, otherwise None."""
        statistics = [statistic for statistic in self.kept.values() if not isinstance(statistic, UserFacts)]
        if len(statistics) != 1 or not isinstance(statistics[0], UserMeans):
            return None
        return statistics[0].of_rows(batch, (self.k or 0) if statistics[0].cutoffs else None)

    def per_user(self) -> PerUser:
        """Return the value of each user, which `Ranking(per_user=True)` stores.

        Raises:
            MetricInputError: the metric stores none.
        """
        with self._over_all_ranks():
            return PerUser.of({self.name: self})

    def _arguments_of(self, tile: Tile) -> dict[str, Any]:
        """Return the keyword arguments for a tile: users and items, extras and blocks."""
        blocks = blocks_of(self.wanted_blocks(), tile, self.k or 1)
        return {**users_and_items(tile), **self.wanted(tile.batch.extras), **blocks}


class TopKMetric(BaseMetric):
    """A ranking metric over lists of k items, otherwise like `BaseMetric`. Blocks of lists are cut at `k`."""

    def __init__(self, k: int, dist_sync_on_step: bool = False, **kwargs: Any) -> None:
        super().__init__(dist_sync_on_step=dist_sync_on_step, **kwargs)
        self.k: int = _check_cutoff(self, k)

    @property
    def _class_name(self) -> str:
        return f"{super()._class_name}@{self.k}"

    def prepare(self, batch: Outputs) -> None:
        """Request lists of k items."""
        rankings_in(batch).reach(self.k)

    def remap_indices(self, top_k_indices: Tensor, item_indices: Tensor | None) -> Tensor:
        """Return the items at indices of lists, (rows, k): the indices unless candidates are scored."""
        if item_indices is None:
            return top_k_indices
        return item_indices.gather(1, top_k_indices.clamp(min=0)).masked_fill(top_k_indices < 0, -1)


class UserAverageTopKMetric(TopKMetric):
    """A metric whose value is the mean over users of a value from each user's list of k items.

    Users without a relevant item are excluded; with `Ranking(empty="neg")` they count 0, but for a class with
    `counts_empty = False`.

    >>> from hpometrics import MAXIMIZE
    >>> class Precision(UserAverageTopKMetric):
    ...     direction = MAXIMIZE
    ...
    ...     def compute_scores(self, preds, target, top_k_rel, **kwargs):
    ...         return top_k_rel.sum(dim=1).float() / self.k
    """

    def __init__(self, k: int, **kwargs: Any) -> None:
        kwargs.pop("num_users", None)  # an argument of WarpRec's metrics
        super().__init__(k, **kwargs)

    def statistics(self) -> dict[str, Statistic]:
        """Return the statistic of the sum of the users' values."""
        return means_of_users(self.output, f"{self.formula}@{self.k}", self.of_batch, (self.k,))

    def compute(self) -> Tensor:
        """Divide once; nan with a reason where no user has a relevant item."""
        return mean_over_users(self, self.k)

    def compute_scores(self, preds: Tensor, target: Tensor, top_k_rel: Tensor, **kwargs: Any) -> Tensor:
        """Measure users.

        Args:
            preds: (users, columns) scores, -inf for items that are not ranked.
            target: (users, columns) float32 grades.
            top_k_rel: (users, k) float32, 1 where an item of the list is relevant; 0 after its end.
            kwargs: the requested blocks; `users`, `items`.

        Returns:
            One value per user, (users,).
        """
        raise NotImplementedError(
            f"{type(self).__name__} needs compute_scores(preds, target, top_k_rel, **kwargs)"
        )

    def prepare(self, batch: Outputs) -> None:
        """Request lists of k items and every tile."""
        super().prepare(batch)
        rankings_in(batch).visit(self.name, self._of_tile)

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Measure the users of a batch, a tile at a time; nan for those without a relevant item."""
        return batch.of_valid(batch.visited(self.name).double().unsqueeze(1), self.counts_empty)

    def _of_tile(self, tile: Tile) -> Tensor:
        relevant = tile.block(MetricBlock.TOP_K_BINARY_RELEVANCE, self.k)
        arguments = select_arguments(type(self).compute_scores, self._arguments_of(tile))
        values: Any = self.compute_scores(tile.preds, tile.target, relevant, **arguments)
        if not isinstance(values, Tensor) or values.shape != (len(tile.preds),):
            shape = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise MetricInputError(
                f"{self.name}: compute_scores must return a tensor with one value per user, shape "
                f"({len(tile.preds)},); got {shape}"
            )
        return values


class ListMetric(BaseMetric):
    """A metric whose value for a user is a formula over lists; all cut-offs are measured at once.

    A subclass defines `values`, or `values_in` if it needs more of the batch than its lists; its parameters
    except k identify the formula. If the cut-off is optional, `__init__` has `k: int | None = None`: without
    k, the list is the whole ranking, and the formula adds up over positions of relevant items, the only ones
    in `WholeLists`.
    """

    every_user: ClassVar[bool] = False
    """Whether users without a relevant item are included."""
    void: ClassVar[str] = "no user has a relevant item"
    """The reason for an undefined value if no user has one."""
    reads: Reads = "batch"
    """The part of a batch that the formula of this class reads; a subclass with another formula does not
    inherit it. `lists`: only lists and side data, of which it refuses none, so that the lists of several
    batches are measured together. `hits`: of these lists only the ranks and grades of relevant items; where
    such items are few, their ranks are counted and no list is sorted."""

    def __init__(self, k: int | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.k = None if k is None else _check_cutoff(self, k)

    def statistics(self) -> dict[str, Statistic]:
        """Return the statistic of the sum of the users' values, shared by all cut-offs of the formula."""
        reads = self.reads if "reads" in vars(_formula_class(type(self))) else "batch"
        return means_of_users(self.output, self.formula, self.of_batch, (self.k or 0,), reads=reads)

    def compute(self) -> Tensor:
        """Divide once; nan with a reason where no user has a value."""
        return mean_over_users(self, self.k or 0, self.void)

    def values(self, cut: Cut) -> Tensor:
        """Measure each user at each k.

        Returns:
            (users, cut-offs) float64; nan for a user who has no value.
        """
        raise NotImplementedError(f"{type(self).__name__} needs values(cut)")

    def values_in(self, batch: RankingBatch, cut: Cut) -> Tensor:
        """Measure each user at each k, with side data and all else in the batch."""
        return self.values(cut)

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor | tuple[Tensor, Tensor]:
        """Measure a batch at several cut-offs; users without a relevant item have no value by default.

        Returns:
            (users, cut-offs) float64, nan for a user without a value; or a pair of these and their weights.
        """
        each = [self.values_in(batch, cut) for cut in batch.cuts(cutoffs)]
        values = each[0] if len(each) == 1 else torch.cat(each, dim=1)
        return values if self.every_user else batch.of_valid(values, self.counts_empty)


class WholeMetric(ListMetric):
    """A metric of the whole ranking, which has no k."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(None, **kwargs)


class RatingMetric(BaseMetric):
    """An error against ratings, for which the scores of relevant entries are the predicted ratings.

    A subclass defines `compute_errors(preds, target)`, elementwise.

    Args:
        average: `user`, the mean over users of each user's value, or `pooled`, the mean over all ratings.

    Shape: scores, target (users, items); the relevant entries of the target are the ratings.
    """

    def __init__(self, average: Literal["user", "pooled"] = "user", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.average = average

    def statistics(self) -> dict[str, Statistic]:
        """Return the statistic of the sum of errors, over users or over all ratings."""
        if self.average == "pooled":  # a value per rating, not per user
            return {"errors": UserMeans(self.formula, self.of_batch)}
        return means_of_users(self.output, self.formula, self.of_batch)

    def compute(self) -> Tensor:
        """Divide once; nan with a reason where nothing that is rated has a score."""
        return mean_over_users(self, None, "no user has a relevant item that is ranked")

    def compute_errors(self, preds: Tensor, target: Tensor) -> Tensor:
        """Measure each rating: both tensors and the result are (ratings,)."""
        raise NotImplementedError(f"{type(self).__name__} needs compute_errors(preds, target)")

    def of_user(self, mean: Tensor) -> Tensor:
        """Turn a user's mean error into the user's value."""
        return mean

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> tuple[Tensor, Tensor]:
        """Measure users, or all ratings as one: each user's mean weighs as much as the user has ratings."""
        row, preds, target = batch.rated
        scored = preds > -torch.inf
        errors = torch.where(scored, self.compute_errors(preds.double(), target.double()), 0.0)
        none = torch.zeros(len(batch), dtype=torch.float64, device=row.device)
        sums = none.index_add(0, row, errors.double())
        counts = none.index_add(0, row, scored.double())
        means = sums / counts  # nan of users without a rating
        pooled = self.average == "pooled"
        values = means if pooled else self.of_user(means)
        return values.unsqueeze(1), (counts if pooled else torch.ones_like(counts)).unsqueeze(1)


def _check_cutoff(metric: Metric, k: int) -> int:
    """Check that k is a cut-off, and return it."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise MetricInputError(f"{type(metric).__name__}: k must be a whole number of at least 1, got {k!r}")
    if k > _DEEPEST:
        raise MetricInputError(
            f"{type(metric).__name__}: k must be at most {_DEEPEST}, because each list keeps k places, got "
            f"{k}; leave k out to use the whole ranking"
        )
    return k


def _formula_class(cls: type[ListMetric]) -> type:
    """Return the class that defines the formula."""
    return next(c for c in cls.__mro__ if {"values", "values_in", "of_batch"} & vars(c).keys())


def mean_over_users(metric: Metric, k: int | None, void: str = "no user has a relevant item") -> Tensor:
    """Return the mean of a metric's `UserMeans` at a cut-off; nan with a reason if no user has a value."""
    mean = metric.statistic(UserMeans).mean(k)
    return metric.undefined(void) if math.isnan(mean) else mean


@dataclass(frozen=True)
class _Signature:
    """The parameters of a function after `self`."""

    by_place: tuple[str, ...]
    by_name: frozenset[str]
    needed: frozenset[str]
    any_place: bool
    any_name: bool

    def takes(self, place: int, keywords: Mapping[str, Any]) -> bool:
        """Return whether the parameter at a place is positional and its name is not one of `keywords`."""
        return self.by_place[place] not in keywords if place < len(self.by_place) else self.any_place


def users_and_items(tile: Tile) -> dict[str, Tensor | None]:
    """Return the users and items of a tile, None where unknown, under our names and those of WarpRec."""
    batch = tile.batch
    users = None if batch.users is None else batch.users[tile.rows]
    items = None if batch.items is None else batch.items[tile.rows]
    return {"users": users, "user_indices": users, "items": items, "item_indices": items}


def arrange_arguments(
    update: Callable[..., Any], tile: Tile, arguments: Mapping[str, Any], reader: str
) -> Arguments:
    """Arrange scores, grades and other arguments of a tile for an `update`.

    Scores come first. Grades come second, unless the name of the second parameter is one of `arguments`: then
    they are passed by name, like all the others: those in the signature, or all if it accepts any keyword.
    Grades are named `target`, or `ground` as in WarpRec.

    Raises:
        MetricInputError: the function requires `user_indices`, and the users are unknown.
    """
    signature = _signature(update)
    if "user_indices" in signature.needed and arguments["user_indices"] is None:
        raise MetricInputError(
            f"{reader}: its update needs user_indices; pass users=, the number of the user of each row"
        )
    keywords: dict[str, Any] = {**arguments, "ground": tile.target}
    if tile.batch.weight is not None:
        keywords["sample_weight"] = tile.batch.weight[tile.rows]
    args: list[Any] = []
    for place, (name, value) in enumerate((("preds", tile.preds), ("target", tile.target))):
        if signature.takes(place, keywords):
            args.append(value)
        else:
            keywords[name] = value
    return args, select_arguments(update, keywords)


def select_arguments(function: Callable[..., Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the keyword arguments in the signature of a function, or all if it accepts any keyword."""
    signature = _signature(function)
    return (
        dict(arguments)
        if signature.any_name
        else {name: arguments[name] for name in signature.by_name & arguments.keys()}
    )


def own_value(values: Mapping[str, Any], name: str) -> Any:
    """Return a metric's own value from the values by name that a `compute` in WarpRec's form returns.

    A value per user is averaged over the users who have one.

    Raises:
        MetricInputError: there are several values, none under the name of the metric.
    """
    if name not in values and len(values) != 1:
        raise MetricInputError(
            f"{name}: compute must return one value, or a mapping that includes its own name; got "
            f"{', '.join(map(repr, values)) or 'none'}"
        )
    value = values.get(name, next(iter(values.values())))
    return value.double().nanmean() if isinstance(value, Tensor) and value.ndim else torch.as_tensor(value)


@cache
def _signature(function: Callable[..., Any]) -> _Signature:
    parameters = list(inspect.signature(function).parameters.values())[1:]
    placed = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    keyword = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    kinds = {p.kind for p in parameters}
    return _Signature(
        by_place=tuple(p.name for p in placed),
        by_name=frozenset(p.name for p in keyword),
        needed=frozenset(p.name for p in keyword if p.default is p.empty),
        any_place=inspect.Parameter.VAR_POSITIONAL in kinds,
        any_name=inspect.Parameter.VAR_KEYWORD in kinds,
    )
