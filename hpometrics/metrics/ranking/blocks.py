"""MetricBlock: tensors of a batch of rankings that metrics of your own ask for by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .lists import Lists

if TYPE_CHECKING:
    from .batch import RankingBatch


@dataclass(frozen=True, eq=False)
class Tile:
    """Some rows of a batch of rankings, dense, with their lists.

    Attributes:
        batch: the batch that the rows belong to.
        start: the first row.
        preds: (rows, columns) scores, -inf for what is not ranked.
        lists: the lists of the rows.
        target: (rows, columns) float32 grades.
        made: the blocks made of it so far.
    """

    batch: RankingBatch
    start: int
    preds: Tensor
    lists: Lists
    target: Tensor
    made: dict[tuple[Block, int], Any] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> slice:
        """Its rows of the batch."""
        return slice(self.start, self.start + len(self.preds))

    def block(self, block: Block, k: int) -> Any:
        """Return a block at a cut-off, made the first time it is asked for."""
        if (block, k) not in self.made:
            self.made[block, k] = block.make(self, k)
        return self.made[block, k]


@dataclass(frozen=True)
class Block:
    """A tensor that metrics share: made from a tile and a cut-off, at most once for each.

    Attributes:
        name: the keyword under which a metric is given it; `{k}` in it is the cut-off.
        make: gives it, from a tile and a cut-off.
    """

    name: str
    make: Callable[[Tile, int], Any]

    def __str__(self) -> str:
        return self.name


def _binary(tile: Tile, k: int) -> Tensor:
    return (tile.target > 0).float()


def _discounted(tile: Tile, k: int) -> Tensor:
    return torch.where(tile.target > 0, torch.exp2(tile.target + 1) - 1, 0.0)


class MetricBlock:
    """The blocks a metric may ask for; a namespace, to which others add their own by inheriting from it.

    Shapes are those of a tile: rows of a batch, all columns, or the k places of the lists. `VALID_USERS` is
    a count; beside it stands `VALID_USERS_MASK`.

    >>> class Blocks(MetricBlock):
    ...     SPREAD = Block("spread", lambda tile, k: tile.preds.amax(1) - tile.preds.amin(1))
    >>> str(Blocks.SPREAD), str(Blocks.TOP_K_INDICES)
    ('spread', 'top_{k}_indices')
    """

    BINARY_RELEVANCE: ClassVar[Block] = Block("binary_relevance", _binary)
    DISCOUNTED_RELEVANCE: ClassVar[Block] = Block("discounted_relevance", _discounted)
    VALID_USERS: ClassVar[Block] = Block("valid_users", lambda tile, k: tile.lists.valid.sum())
    VALID_USERS_MASK: ClassVar[Block] = Block("valid_users_mask", lambda tile, k: tile.lists.valid)
    TOP_K_INDICES: ClassVar[Block] = Block("top_{k}_indices", lambda tile, k: tile.lists.columns[:, :k])
    TOP_K_VALUES: ClassVar[Block] = Block("top_{k}_values", lambda tile, k: tile.lists.values[:, :k])
    TOP_K_BINARY_RELEVANCE: ClassVar[Block] = Block(
        "top_{k}_binary_relevance", lambda tile, k: tile.lists.hits[:, :k].float()
    )
    TOP_K_DISCOUNTED_RELEVANCE: ClassVar[Block] = Block(
        "top_{k}_discounted_relevance",
        lambda tile, k: torch.where(tile.lists.hits, torch.exp2(tile.lists.grades + 1) - 1, 0.0)[:, :k],
    )


def blocks_of(names: Iterable[Block | str], tile: Tile, k: int) -> dict[str, Any]:
    """Give the blocks asked for, by keyword.

    Raises:
        MetricInputError: something that is no block is asked for.
    """
    asked = map(known_block, names)
    return {block.name.format(k=k): tile.block(block, k) for block in asked}


def known_block(name: Block | str) -> Block:
    """Return a block, or the built-in one of this name.

    Raises:
        MetricInputError: there is none.
    """
    if isinstance(name, Block):
        return name
    own = {str(block): block for block in vars(MetricBlock).values() if isinstance(block, Block)}
    plain = {key.replace("{k}", "k"): block for key, block in own.items()}
    for key, block in plain.items():
        if str(name).lower() in (key, str(block)):
            return block
    raise MetricInputError(
        f"{name!r} is no metric block; choose from {', '.join(sorted(plain))}, or give a Block(name, make)"
    )
