"""Base classes of ranking metrics: over lists of each k, over all scores, over ratings.

`ListMetric` is the fast way: a formula over the lists of a batch, at all its cut-offs at once. The other four
are for metrics of your own that want plain tensors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..aggregation import RowValues
from ..batch import Outputs
from ..features import LOGITS, InputType, OutputFeature, Ranking
from ..metric import Metric, overrides_update
from ..statistics.cutoffs import rankings_in
from ..statistics.statistic import Statistic
from ..statistics.user_values import UserFacts, UserMeans, means_of_users
from .blocks import Block, MetricBlock, Tile, blocks_of
from .lists import Cut
from .per_user import PerUser
from .ranking_batch import RankingBatch
from .user_functions import arranged, own_value, taken, whereabouts

_DEEPEST = 2**20
"""Places of a list at most; a batch keeps them for every row, whatever the number of items."""


class BaseMetric(Metric):
    """A ranking metric without cut-off that measures tensors: scores and grades of some rows at a time.

    Give `update(preds, target, **kwargs)` and `compute()` over `add_state`; both tensors are (rows, columns),
    dense, -inf for what is not ranked. `update` is called for a tile of rows at a time, with `users` (rows,)
    and `items` (rows, columns), both None where they are not known, and the blocks that the class asks for:
    of these with what its signature names, or with all where it takes any keyword. WarpRec's form,
    `update(preds, **kwargs)`, and its words do as well: `ground` is the target, `user_indices` are the users
    and `item_indices` the items.

    A class asks for blocks by `blocks = {...}` or `_REQUIRED_COMPONENTS = {...}`.
    """

    inputs: ClassVar[InputType] = LOGITS
    unstated_output: ClassVar[type[OutputFeature]] = Ranking
    blocks: ClassVar[Iterable[Block | str]] = ()
    _REQUIRED_COMPONENTS: ClassVar[Iterable[Block | str]] = ()
    k: int | None = None

    @classmethod
    def wanted_blocks(cls) -> tuple[Block | str, ...]:
        """The blocks that the class asks for."""
        blocks = (cls.blocks,) if isinstance(cls.blocks, (str, Block)) else cls.blocks
        return (*blocks, *cls._REQUIRED_COMPONENTS)

    def observe(self, batch: Outputs) -> None:
        """Add a batch that has passed the gate."""
        self.prepare(batch)
        if not overrides_update(self):
            super().observe(batch)
            return
        for tile in rankings_in(batch).dense_tiles():
            args, named = arranged(type(self).update, tile, self._told_of(tile), self.name)
            type(self).update(self, *args, **named)

    @property
    def _is_behind_the_door(self) -> bool:
        """Whatever the form of its `update`, it is given tiles of what has passed the gate."""
        return True

    def _compute_defined(self, compute: Callable[[], Any]) -> Any:
        """Compute; of WarpRec's form, values by name, take the one that is its own."""
        value = super()._compute_defined(compute)
        return own_value(value, self.name) if isinstance(value, Mapping) else value

    @property
    def formula(self) -> str:
        """Its name without the cut-off."""
        return self.name.rpartition("@")[0] or self.name

    def row_values(self, batch: Outputs) -> RowValues | None:
        """Give each user's value where it keeps the mean over users and nothing else."""
        held = [statistic for statistic in self.kept.values() if not isinstance(statistic, UserFacts)]
        if len(held) != 1 or not isinstance(held[0], UserMeans):
            return None
        return held[0].of_rows(batch, (self.k or 0) if held[0].cutoffs else None)

    def per_user(self) -> PerUser:
        """The value of each user, which `Ranking(per_user=True)` has it keep.

        Raises:
            MetricInputError: it keeps none.
        """
        with self._over_all_ranks():
            return PerUser.of({self.name: self})

    def _told_of(self, tile: Tile) -> dict[str, Any]:
        """The keyword arguments for a tile: who the users and what the items are, extras and blocks."""
        blocks = blocks_of(self.wanted_blocks(), tile, self.k or 1)
        return {**whereabouts(tile), **self.wanted(tile.batch.extras), **blocks}


class TopKMetric(BaseMetric):
    """A ranking metric over lists of k items; else as `BaseMetric`. Blocks of lists are cut at `k`."""

    def __init__(self, k: int, dist_sync_on_step: bool = False, **kwargs: Any) -> None:
        super().__init__(dist_sync_on_step=dist_sync_on_step, **kwargs)
        self.k: int = _cutoff(self, k)

    @property
    def _class_name(self) -> str:
        return f"{super()._class_name}@{self.k}"

    def prepare(self, batch: Outputs) -> None:
        """Ask for lists of k items."""
        rankings_in(batch).reach(self.k)

    def remap_indices(self, top_k_indices: Tensor, item_indices: Tensor | None) -> Tensor:
        """The items in the places of lists, (rows, k): the places themselves unless candidates are scored."""
        if item_indices is None:
            return top_k_indices
        return item_indices.gather(1, top_k_indices.clamp(min=0)).masked_fill(top_k_indices < 0, -1)


class UserAverageTopKMetric(TopKMetric):
    """A metric that gives each user a value from a list of k items; the mean over users is its own.

    Users without a relevant item are left out.

    >>> from hpometrics import MAXIMIZE
    >>> class Precision(UserAverageTopKMetric):
    ...     objective = MAXIMIZE
    ...
    ...     def compute_scores(self, preds, target, top_k_rel, **kwargs):
    ...         return top_k_rel.sum(dim=1).float() / self.k
    """

    def __init__(self, k: int, **kwargs: Any) -> None:
        kwargs.pop("num_users", None)  # which WarpRec wants to know beforehand
        super().__init__(k, **kwargs)

    def statistics(self) -> dict[str, Statistic]:
        """Keep the sum of the users' values."""
        return means_of_users(self.output, self.name, self.of_batch, (self.k,))

    def compute(self) -> Tensor:
        """Divide once; nan with a reason where no user has a relevant item."""
        return mean_over_users(self, self.k)

    def compute_scores(self, preds: Tensor, target: Tensor, top_k_rel: Tensor, **kwargs: Any) -> Tensor:
        """Measure users.

        Args:
            preds: (users, columns) scores, -inf for what is not ranked.
            target: (users, columns) float32 grades.
            top_k_rel: (users, k) float32, 1 where an item of the list is relevant; 0 behind its end.
            kwargs: the blocks asked for; `users`, `items`.

        Returns:
            One value per user, (users,).
        """
        raise NotImplementedError(
            f"{type(self).__name__} needs compute_scores(preds, target, top_k_rel, **kwargs)"
        )

    def prepare(self, batch: Outputs) -> None:
        """Ask for lists of k items, and for every tile."""
        super().prepare(batch)
        rankings_in(batch).visit(self.name, self._of_tile)

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor:
        """Measure the users of a batch, a tile at a time; nan for those without a relevant item."""
        return batch.of_valid(batch.visited(self.name).double().unsqueeze(1))

    def _of_tile(self, tile: Tile) -> Tensor:
        relevant = tile.block(MetricBlock.TOP_K_BINARY_RELEVANCE, self.k)
        told = taken(type(self).compute_scores, self._told_of(tile))
        values: Any = self.compute_scores(tile.preds, tile.target, relevant, **told)
        if not isinstance(values, Tensor) or values.shape != (len(tile.preds),):
            given = tuple(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise MetricInputError(
                f"{self.name}: compute_scores gives a tensor of one value per user, shape "
                f"({len(tile.preds)},); got {given}"
            )
        return values


class ListMetric(BaseMetric):
    """A metric whose value for a user is a formula over lists; all cut-offs are measured at once.

    A subclass gives `values`, or `values_in` where it wants more of the batch than its lists; its parameters
    but k say which formula it is. One that may go without a cut-off says `k: int | None = None` in its
    `__init__`: then the whole ranking is the list. Such a formula adds up over places where something is
    relevant, which are the only ones that `WholeLists` hold.
    """

    every_user: ClassVar[bool] = False
    """Whether users without a relevant item count too."""
    void: ClassVar[str] = "no user has a relevant item"
    """Why there is no value where no user has one."""
    of_lists: ClassVar[bool] = False
    """Whether the formula that a class gives reads lists and side data alone and refuses nothing of them, so
    that the lists of several batches may be measured together; it is not passed on to another formula."""

    def __init__(self, k: int | None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.k = None if k is None else _cutoff(self, k)

    def statistics(self) -> dict[str, Statistic]:
        """Keep the sum of the users' values, at this cut-off and at those of others with the same formula."""
        cutoffs, of_lists = (self.k or 0,), _of_lists(type(self))
        return means_of_users(self.output, self.formula, self.of_batch, cutoffs, of_lists=of_lists)

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
        """Measure each user at each k, with side data and whatever else the batch knows."""
        return self.values(cut)

    def of_batch(self, batch: RankingBatch, cutoffs: tuple[int, ...]) -> Tensor | tuple[Tensor, Tensor]:
        """Measure a batch at several cut-offs; users without a relevant item have no value, as a rule.

        Returns:
            (users, cut-offs) float64, nan for a user without a value; or a pair of these and their weights.
        """
        each = [self.values_in(batch, cut) for cut in batch.cuts(cutoffs)]
        values = each[0] if len(each) == 1 else torch.cat(each, dim=1)
        return values if self.every_user else batch.of_valid(values)


class WholeMetric(ListMetric):
    """A metric of the whole ranking, which has no k."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(None, **kwargs)


class RatingMetric(BaseMetric):
    """An error against ratings: the scores of relevant entries are taken for predicted ratings.

    A subclass gives `compute_errors(preds, target)`, elementwise.

    Args:
        average: `user`, the mean over users of each user's value, or `pooled`, that over all ratings.

    Shape: scores, target (users, items); the relevant entries of the target are the ratings.
    """

    def __init__(self, average: Literal["user", "pooled"] = "user", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.average = average

    def statistics(self) -> dict[str, Statistic]:
        """Keep the sum of errors, of users or of all ratings."""
        if self.average == "pooled":  # each rating counts, so that no value is a user's
            return {"errors": UserMeans(self.name, self.of_batch)}
        return means_of_users(self.output, self.name, self.of_batch)

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


def _cutoff(metric: Metric, k: int) -> int:
    """Return k if it is a cut-off."""
    if isinstance(k, bool) or not isinstance(k, int) or k < 1:
        raise MetricInputError(f"{type(metric).__name__}: k is a whole number from 1, got {k!r}")
    if k > _DEEPEST:
        raise MetricInputError(
            f"{type(metric).__name__}: k is at most {_DEEPEST}, as each list keeps k places, got {k}; "
            "without k the whole ranking counts"
        )
    return k


def _of_lists(cls: type[ListMetric]) -> bool:
    """Whether the class that gives the formula says that it reads lists alone."""
    giver = next(c for c in cls.__mro__ if {"values", "values_in", "of_batch"} & vars(c).keys())
    return bool(vars(giver).get("of_lists", False))


def mean_over_users(metric: Metric, k: int | None, void: str = "no user has a relevant item") -> Tensor:
    """The mean that a metric's `UserMeans` hold at a cut-off; nan with a reason where no user has a value."""
    mean = metric.statistic(UserMeans).mean(k)
    return metric.undefined(void) if math.isnan(mean) else mean
