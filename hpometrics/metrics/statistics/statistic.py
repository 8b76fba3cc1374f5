"""Statistic: what is kept over batches, shared by metrics, merged exactly however the data was split."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, Self, TypeVar

import torch
from torch import Tensor

from ...exceptions import MetricInputError, StateError
from .._derive import class_dim
from .._device import on_host
from ..batch import Outputs


def tally(codes: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Count numbers in [0, size): (size,) int64, or float64 where there are weights.

    On a device `bincount` would wait for the largest number; there the counts are added by index.
    """
    if on_host(codes):
        return torch.bincount(codes, weight, minlength=size)
    ones = torch.ones_like(codes) if weight is None else weight
    return torch.zeros(size, dtype=ones.dtype, device=codes.device).index_add_(0, codes, ones)


T = TypeVar("T")
Reduction = Literal["sum", "own"]  # own: merged by the subclass, which overrides merge_state


class Statistic:
    """Base class: named state tensors that merge by adding, unless the subclass merges in its own way.

    Two statistics of the same class and parameters are the same statistic: a collection keeps one and
    updates it once per batch. Tensors are made at the first update, when device and number
    of classes are known; an empty statistic holds none. Counts are int64, sums float64. Nothing that was
    handed in is kept: states are copies.

    A subclass gives `reductions` and `update`, and passes its parameters to `__init__`. One that honors
    `batch.weight` says `weighted = True`; the others are not given batches with `sample_weight`. One of what
    only all rows together show, such as their order, says `pools_tasks = True`: the value of several tasks is
    then that of all their rows, not the mean of the tasks' values. One whose
    `check` looks at shapes only may say `regroups = True`: it is then given small batches joined and very
    large ones cut, and is asked once for a run of batches of one kind whether they fit. One that reads of
    rankings their lists, weights and side data alone, and refuses none of these, may say that it `joins`.
    """

    reductions: ClassVar[Mapping[str, Reduction]]
    weighted: ClassVar[bool] = False
    pools_tasks: ClassVar[bool] = False
    grows: ClassVar[bool] = False
    """Whether it keeps something of every row, so that it is larger the more rows there are."""
    regroups: bool = False

    def __init__(self, **params: Any) -> None:
        self.params = params
        self._state: dict[str, Tensor] = {}
        self._derived: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in sorted(self.params.items()))})"

    @property
    def key(self) -> tuple[type[Statistic], tuple[tuple[str, Any], ...]]:
        """The identity by which a collection shares: class and parameters, never values."""
        return type(self), tuple(sorted(self.params.items()))

    @property
    def label(self) -> str:
        """What its state is the state of, in words: of two with one label, each can load the other's."""
        return repr(self)

    @property
    def empty(self) -> bool:
        """True until the first row."""
        return not self._state

    @property
    def joins(self) -> bool:
        """Whether it may be given the lists of several batches of rankings as one."""
        return False

    def join(self, other: Self) -> None:
        """Take over what another statistic of the same identity is wanted for, such as its cut-offs."""

    def prepare(self, batch: Outputs) -> None:
        """Tell the batch what will be asked of it; called for every statistic before any checks it."""

    def check(self, batch: Outputs) -> None:
        """Refuse a batch that does not fit what is kept; called for every statistic before any is updated.

        Raises:
            MetricInputError: the batch does not fit.
        """

    def update(self, batch: Outputs) -> None:
        """Add one batch that has passed the gate."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def fresh(self) -> Self:
        """Return an empty statistic of the same class and parameters."""
        return type(self)(**self.params)

    def reset(self) -> None:
        """Forget every row."""
        self._state = {}
        self._derived = {}

    def add(self, **values: Tensor) -> None:
        """Add to the states of reduction `sum`; the first time the values become the states."""
        for name, value in values.items():
            held = self._state.get(name)
            if held is None:
                self._state[name] = value.clone()
            elif held.dtype == value.dtype:
                held += value
            else:  # counts become sums with the first weight
                self._state[name] = held + value
        self._derived = {}

    def derived(self, name: str, make: Callable[[Self], T]) -> T:
        """Return what follows from the state, computed once until the next update."""
        if name not in self._derived:
            self._derived[name] = make(self)
        return self._derived[name]  # type: ignore[no-any-return]  # what make gave

    def has(self, name: str) -> bool:
        """Whether this was derived since the last update."""
        return name in self._derived

    def merge(self, other: Statistic) -> None:
        """Take in the rows of another statistic of the same identity, which stays as it is.

        Raises:
            StateError: the other one is of another class, has other parameters or other shapes.
        """
        if other.key != self.key:
            raise StateError(
                f"{self} cannot take in {other}: only the same statistic with the same parameters merges"
            )
        self.merge_state(other.state())

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Take in what `state()` of another statistic of the same identity gave."""
        self._check_state(state)
        if self._state:
            self._check_shapes(state)
            state = {name: value.to(self._state[name].device) for name, value in state.items()}
        self.add(**state)

    def state(self) -> dict[str, Tensor]:
        """A copy of the states by name; empty before the first row."""
        return {name: value.clone() for name, value in self._state.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Replace the states by a copy of those given.

        Raises:
            StateError: names that are not this statistic's.
        """
        self._check_state(state)
        self.reset()
        self._state = {name: value.clone() for name, value in state.items()}

    def to(self, device: torch.device | str) -> None:
        """Move the states to a device."""
        self._state = {name: value.to(device) for name, value in self._state.items()}
        self._derived = {}

    def _check_state(self, state: Mapping[str, Tensor]) -> None:
        if state and set(state) != set(self.reductions):
            raise StateError(
                f"{self} holds {', '.join(self.reductions)}; got a state of {', '.join(state) or 'nothing'}"
            )

    def _check_shapes(self, state: Mapping[str, Tensor]) -> None:
        for name, value in state.items():
            held = self._state[name]
            if held.shape != value.shape:
                raise StateError(
                    f"{self}: {name} has shape {tuple(held.shape)}, the other's {tuple(value.shape)}"
                )


def refuse_other_width(batch: Outputs, width: int | None) -> None:
    """Refuse a batch whose scores have another number of classes than those kept.

    Raises:
        MetricInputError: naming both numbers.
    """
    columns = (x.shape[class_dim(batch.feature)] for x in batch.given.values() if x.ndim > 1)
    given = batch.num_classes or next(columns, 1)
    if width not in (None, given):
        raise MetricInputError(f"earlier batches had scores of {width} classes, this one has {given}")


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
