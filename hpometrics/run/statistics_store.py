"""What is kept of an epoch: the statistics it was measured by, so that other metrics need no training."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from torch import Tensor

from .._redaction import excerpt
from ..exceptions import RecordError
from ..metrics.collection import MetricCollection
from ..metrics.statistics.statistic import Statistic
from .tensor_json import tensor_from_json, tensor_to_json

Keeping = Literal["small", "all", "none"]
"""`small` is what has a fixed size, up to `MOST_BYTES` an epoch; `all` also what grows with the rows."""

KEEPING: tuple[Keeping, ...] = ("small", "all", "none")
MOST_BYTES = 1 << 16

State = Mapping[str, Tensor]
GROWS = "it grows with the rows"


@dataclass(frozen=True)
class KeptPart:
    """What is kept of the rows of one task of one output on one split.

    Args:
        split: whose updates.
        output: the name of the output; None of the only one.
        task: None of updates that name none.
        rows: how many there were.
        void: why its values do not count, if they do not.
        statistics: the state of each by its label.
        left_out: why others are not kept, by label.
    """

    split: str
    output: str | None
    task: str | None
    rows: int = 0
    void: str | None = None
    statistics: Mapping[str, State] = field(default_factory=dict)
    left_out: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Write it as plain JSON."""
        states = {
            label: {name: tensor_to_json(tensor) for name, tensor in state.items()}
            for label, state in self.statistics.items()
        }
        told = {name: getattr(self, name) for name in ("split", "output", "task", "rows", "void")}
        return {**told, "statistics": states, "left_out": dict(self.left_out)}

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote.

        Raises:
            RecordError: it is something else.
        """
        try:
            states = {
                str(label): {str(name): tensor_from_json(tensor) for name, tensor in state.items()}
                for label, state in told["statistics"].items()
            }
            return cls(**{**told, "statistics": states, "left_out": dict(told["left_out"])})
        except (KeyError, TypeError, AttributeError, ValueError, RuntimeError) as err:
            raise RecordError(f"no kept statistics: {excerpt(told, 80)}") from err


@dataclass(frozen=True)
class Measured:
    """What measured one task of one output on one split, before it is reset; None where all was refused."""

    split: str
    output: str | None
    task: str | None
    void: str | None
    collection: MetricCollection | None


def kept_of(measured: Iterable[Measured], keeping: Keeping) -> tuple[KeptPart, ...]:
    """Copy the statistics of an epoch; of those that do not fit into `MOST_BYTES`, the smallest are kept."""
    parts = list(measured)
    room = MOST_BYTES
    chosen: dict[int, dict[str, State]] = {}
    refused: dict[int, dict[str, str]] = {}
    for size, index, label, state in sorted(_sized(parts, keeping), key=lambda one: one[:3]):
        if size <= room or keeping == "all":
            room -= size
            chosen.setdefault(index, {})[label] = state
        else:
            why = f"it has {size} bytes, and up to {MOST_BYTES} are kept of an epoch"
            refused.setdefault(index, {})[label] = why
    return tuple(
        _part(one, chosen.get(index, {}), {**_growing(one, keeping), **refused.get(index, {})})
        for index, one in enumerate(parts)
    )


def _sized(parts: Iterable[Measured], keeping: Keeping) -> Iterator[tuple[int, int, str, State]]:
    """Of each statistic that may be kept its size, the place of its part, its label and its state."""
    for index, part in enumerate(parts):
        for statistic in _held_by(part):
            if keeping == "all" or not statistic.grows:
                state = statistic.state()
                yield sum(held.nbytes for held in state.values()), index, statistic.label, state


def _growing(part: Measured, keeping: Keeping) -> dict[str, str]:
    return {one.label: GROWS for one in _held_by(part) if one.grows and keeping != "all"}


def _held_by(part: Measured) -> tuple[Statistic, ...]:
    return () if part.collection is None else part.collection.statistics


def _part(one: Measured, states: Mapping[str, State], left_out: Mapping[str, str]) -> KeptPart:
    live = one.collection
    void = one.void or (None if live is None else live.complaint)
    rows = 0 if live is None else live.rows
    return KeptPart(one.split, one.output, one.task, rows, void, states, left_out)
