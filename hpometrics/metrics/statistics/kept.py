"""Kept: named tensors made of each batch, added up or put behind one another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Self

import torch
from torch import Tensor

from ...exceptions import MetricInputError, StateError
from ..batch import Outputs
from .statistic import Reduction, Statistic

Taken = dict[str, Tensor]

SUM = "sum "
"""What the name of a tensor begins with that is added up."""

_LOOSE = 512  # parts that are held apart before they are joined into one


class Kept(Statistic):
    """What a function makes of each batch: tensors named `sum ...` are added, all others grow by their rows.

    Args:
        of: what is taken, in words; it tells two of these apart.
        take: makes the tensors of a batch, or refuses it.

    >>> from hpometrics.metrics.features import Number
    >>> kept = Kept("targets", lambda batch: {"target": batch.target, "sum rows": torch.tensor(len(batch))})
    >>> kept.update(Outputs(Number(), predictions=[1.0, 2.0], target=[1.0, 4.0]))
    >>> kept.update(Outputs(Number(), predictions=[1.0], target=[5.0]))
    >>> {name: value.tolist() for name, value in kept.state().items()}
    {'sum rows': 3, 'target': [1.0, 4.0, 5.0]}
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {}
    grows: ClassVar[bool] = True

    def __init__(self, of: str, take: Callable[[Outputs], Taken]) -> None:
        super().__init__(of=of)
        self._take = take
        self.reset()

    def fresh(self) -> Self:
        """Return an empty one that takes the same."""
        return type(self)(self.params["of"], self._take)

    def reset(self) -> None:
        """Forget every batch."""
        super().reset()
        self._parts: list[Taken] = []
        self._joined = 0

    @property
    def empty(self) -> bool:
        """True until the first batch."""
        return not (self._state or self._parts)

    @property
    def tensors(self) -> Taken:
        """All that is kept, by name."""
        return {**self._state, **self._rows()}

    def check(self, batch: Outputs) -> None:
        """Take what is wanted of the batch, which may be refused; nothing is kept yet.

        Raises:
            MetricInputError: the batch is refused, or does not fit what is kept.
        """
        taken = self._taken(batch)
        if self.empty:
            return
        for name, held in {**self._state, **(self._parts[0] if self._parts else {})}.items():
            if name not in taken:
                raise MetricInputError(f"{self.params['of']}: batches before had {name}, this one has not")
            here = taken[name].shape if name.startswith(SUM) else taken[name].shape[1:]
            before = held.shape if name.startswith(SUM) else held.shape[1:]
            if here != before:
                raise MetricInputError(
                    f"{self.params['of']} have one shape: the batches before had {tuple(before)} in {name}, "
                    f"this one has {tuple(here)}"
                )

    def update(self, batch: Outputs) -> None:
        """Keep what was taken."""
        self._keep(self._taken(batch))

    def state(self) -> Taken:
        """A copy of all that is kept."""
        return {name: value.clone() for name, value in self.tensors.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Replace what is kept by a copy of that of a state."""
        self.reset()
        self.merge_state(state)

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Take in what `state()` of another one gave.

        Raises:
            StateError: it is of something else.
        """
        if not state:
            return
        held = self.tensors
        fits = not held or (
            held.keys() == state.keys()
            and all(value.shape[1:] == held[name].shape[1:] for name, value in state.items())
        )
        if not fits:
            raise StateError(f"{self} holds {', '.join(held)}; got {', '.join(state)}, or of other shapes")
        device = next(iter(held.values())).device if held else None
        self._keep({name: value.clone().to(device or value.device) for name, value in state.items()})

    def to(self, device: torch.device | str) -> None:
        """Move what is kept to a device."""
        super().to(device)
        self._parts = [{name: value.to(device) for name, value in part.items()} for part in self._parts]

    def _taken(self, batch: Outputs) -> Taken:
        return batch.block(f"taken: {self.params['of']}", self._take)

    def _keep(self, taken: Taken) -> None:
        self.add(**{name: value for name, value in taken.items() if name.startswith(SUM)})
        rows = {name: value for name, value in taken.items() if not name.startswith(SUM)}
        if rows:
            self._parts.append(rows)
        if len(self._parts) - self._joined > _LOOSE:
            self._parts[self._joined :] = [_join(self._parts[self._joined :])]
            self._joined = len(self._parts)

    def _rows(self) -> Taken:
        if len(self._parts) > 1:
            self._parts = [_join(self._parts)]
            self._joined = 1
        return self._parts[0] if self._parts else {}


def _join(parts: list[Taken]) -> Taken:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
