"""Metric blocks: tensors of a batch of rankings that custom metrics request by name."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any, ClassVar, Protocol, Self

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..features import OutputFeature
from .lists import Lists
from .relevance import Relevance
from .side_data import SideData


class TiledBatch(Protocol):
    """The batch of rankings that a tile belongs to."""

    @property
    def feature(self) -> OutputFeature:
        """The output, with its side data."""

    @property
    def side(self) -> SideData:
        """The side data, each read when it is first used."""

    @property
    def relevance(self) -> Relevance:
        """The relevant items of each row."""

    @property
    def items(self) -> Tensor | None:
        """(rows, candidates) the item of each column; None where columns are items."""

    @property
    def users(self) -> Tensor | None:
        """(rows,) the number of each user, or None."""

    @property
    def weight(self) -> Tensor | None:
        """(rows,) the weight of each row, or None."""

    @property
    def extras(self) -> Mapping[str, Any]:
        """All other keyword arguments of the update."""


@dataclass(frozen=True, eq=False)
class Tile:
    """Some rows of a batch of rankings, dense, with their lists.

    Attributes:
        batch: the batch that the rows belong to.
        start: the first row.
        preds: (rows, columns) scores, -inf for items that are not ranked.
        lists: the lists of the rows.
        target: (rows, columns) float32 grades.
        cache: the blocks created so far.
    """

    batch: TiledBatch
    start: int
    preds: Tensor
    lists: Lists
    target: Tensor
    cache: dict[tuple[Block, int], Any] = field(default_factory=dict, repr=False)

    @property
    def rows(self) -> slice:
        """The rows of the batch that the tile holds."""
        return slice(self.start, self.start + len(self.preds))

    def block(self, block: Block, k: int) -> Any:
        """Return a block at a cut-off, created when it is first requested."""
        if (block, k) not in self.cache:
            self.cache[block, k] = block.make(self, k)
        return self.cache[block, k]


class Block(str):
    """A tensor that metrics share, created at most once for each tile and cut-off.

    As text it is its name with `k` for the cut-off, such as `top_k_values`.

    Args:
        name: the keyword under which a metric receives it; `{k}` in it is the cut-off.
        make: creates it from a tile and a cut-off.
    """

    name: str
    make: Callable[[Tile, int], Any]
    _home: tuple[type, str] | None = None

    def __new__(cls, name: str, make: Callable[[Tile, int], Any]) -> Self:
        """Create the text from the name, with `k` for any cut-off."""
        block = super().__new__(cls, name.replace("{k}", "k"))
        block.name, block.make = name, make
        return block

    @property
    def value(self) -> str:
        """The text with which a namespace returns this block, as in an enum."""
        return str(self)

    def __eq__(self, other: object) -> bool:
        """Compare as text, and with another block also by `make`."""
        return str.__eq__(self, other) is True and self.make is getattr(other, "make", self.make)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__

    def __repr__(self) -> str:
        return f"Block({self.name!r})"

    def __set_name__(self, owner: type, name: str) -> None:
        if self._home is None and isinstance(owner, _Namespace):
            self._home = owner, name

    def __reduce__(self) -> tuple[Any, ...]:
        if self._home is not None and _is_importable(self._home[0]):
            return getattr, self._home
        return type(self), (self.name, self.make)


def _is_importable(cls: type) -> bool:
    """Return whether another process can import a class by its name; not if a script defines it."""
    if cls.__module__ == "__main__":
        return False
    try:
        return attrgetter(cls.__qualname__)(sys.modules[cls.__module__]) is cls
    except (AttributeError, KeyError):
        return False


class _Namespace(type):
    """A metaclass of classes of blocks, which can be iterated, called by value and indexed by name."""

    @property
    def __members__(cls) -> dict[str, Block]:
        """The blocks by the names of their attributes."""
        facts = (fact for one in reversed(cls.__mro__) for fact in vars(one).items())
        return {name: block for name, block in facts if isinstance(block, Block)}

    def __iter__(cls) -> Iterator[Block]:
        return iter(cls.__members__.values())

    def __len__(cls) -> int:
        return len(cls.__members__)

    def __getitem__(cls, name: str) -> Block:
        """Return the block of this name, as `TOP_K_VALUES`.

        Raises:
            KeyError: there is none.
        """
        blocks = cls.__members__
        if name not in blocks:
            raise KeyError(f"{name!r} is not a block of {cls.__name__}; choose from {', '.join(blocks)}")
        return blocks[name]

    def __call__(cls, value: Block | str) -> Block:
        """Return the block of this value.

        Raises:
            MetricInputError: there is none.
        """
        for block in cls:
            if value in (block, block.name):
                return block
        raise MetricInputError(
            f"{value!r} is not a block of {cls.__name__}; choose from {', '.join(sorted(cls))}"
        )


class MetricBlock(metaclass=_Namespace):
    """The built-in blocks that a metric may request; subclasses add blocks of their own.

    Like WarpRec's enum, the class can be iterated, called by value and indexed by name.

    Shapes are those of a tile: rows of a batch, all columns, or the k places of the lists. `VALID_USERS` is
    a count; the flags are `VALID_USERS_MASK`.

    >>> class Blocks(MetricBlock):
    ...     SPREAD = Block("spread", lambda tile, k: tile.preds.amax(1) - tile.preds.amin(1))
    >>> str(Blocks.SPREAD), str(Blocks.TOP_K_INDICES)
    ('spread', 'top_k_indices')
    >>> Blocks("spread") is Blocks.SPREAD, "valid_users" in list(MetricBlock)
    (True, True)
    """

    BINARY_RELEVANCE: ClassVar[Block] = Block("binary_relevance", lambda tile, k: (tile.target > 0).float())
    DISCOUNTED_RELEVANCE: ClassVar[Block] = Block(
        "discounted_relevance",
        lambda tile, k: torch.where(tile.target > 0, torch.exp2(tile.target + 1) - 1, 0.0),
    )
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
    """Return the requested blocks, by keyword.

    Raises:
        MetricInputError: a name is not that of a block.
    """
    blocks = map(known_block, names)
    return {block.name.format(k=k): tile.block(block, k) for block in blocks}


def known_block(name: Block | str) -> Block:
    """Return a block, or the built-in one of this name.

    Raises:
        MetricInputError: there is none.
    """
    if isinstance(name, Block):
        return name
    for block in MetricBlock:
        if str(name).lower() in (block.value, block.name):
            return block
    raise MetricInputError(
        f"{name!r} is not a metric block; choose from {', '.join(sorted(MetricBlock))}, or pass a "
        "Block(name, make)"
    )
