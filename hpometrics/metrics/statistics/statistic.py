"""The base class of statistics: sums and rows that metrics keep over batches, share, and merge exactly."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from ...exceptions import MetricInputError, StateError
from .._derive import class_dim
from .._device import on_host
from ..batch import Outputs

N = TypeVar("N")
T = TypeVar("T")
Reduction = Literal["sum", "own"]  # own: merged by the subclass, which overrides add_state or merge_state
NamedTensors = dict[str, Tensor]


SUM = "sum "
"""The prefix of the names of tensors that are added up."""
_LOOSE = 512  # parts that are kept separate before they are joined into one


class Statistic:
    """Base class: named state tensors that merge by adding, unless the subclass merges in its own way.

    Two statistics of the same class and parameters are the same statistic: a collection keeps one and
    updates it once per batch. The tensors are created by the first update, when the device and the number of
    classes are known; an empty statistic holds none. Counts are int64, sums float64. A statistic never keeps
    the tensors that it is passed: its states are copies.

    A subclass defines `reductions` and `update`, and passes its parameters to `__init__`. It may set:

    - `weighted = True` if it honors `batch.weight`; other statistics never receive a `sample_weight`.
    - `pools_tasks = True` if its value depends on all rows together, such as on their order: the value of
      several tasks is then the value of all their rows, not the mean of the tasks' values.
    - `regroups = True` if its `check` reads shapes only: it then receives small batches joined and very large
      ones split, and `check` is called once for a run of similar batches.
    - `above = {"target": 0.0}` if it regroups and its `check` also refuses values that do not lie above these
      bounds: it is then called for every batch that has some.
    - `joins` if, of rankings, it reads lists, weights and side data alone and refuses none of these.
    """

    reductions: ClassVar[Mapping[str, Reduction]]
    optional: ClassVar[tuple[str, ...]] = ()
    """The names of further states, which it has only where they are needed."""
    weighted: ClassVar[bool] = False
    pools_tasks: ClassVar[bool] = False
    grows: ClassVar[bool] = False
    """Whether it keeps something of every row, so that its size grows with the number of rows."""
    jackknifes: ClassVar[bool] = True
    """Whether deleting rows in turn tells how it varies; not so of extremes, which depend on few rows."""
    regroups: bool = False
    above: Mapping[str, float] = {}

    def __init__(self, **params: Any) -> None:
        self.params = params
        self.reset()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in sorted(self.params.items()))})"

    @property
    def key(self) -> tuple[type[Statistic], tuple[tuple[str, Any], ...]]:
        """The identity by which a collection shares statistics: class and parameters, never values."""
        return type(self), tuple(sorted(self.params.items()))

    @property
    def label(self) -> str:
        """The text that names its state: two statistics with the same label can load each other's state."""
        return repr(self)

    @property
    def empty(self) -> bool:
        """True until the first row."""
        return not self._state

    @property
    def joins(self) -> bool:
        """Whether `update` may receive the lists of several batches of rankings as one batch."""
        return False

    def join(self, other: Self) -> None:
        """Adopt the requirements of another statistic of the same identity, such as its cut-offs."""

    def prepare(self, batch: Outputs) -> None:
        """Announce to the batch what will be read from it; called for all statistics before any `check`."""

    def check(self, batch: Outputs) -> None:
        """Refuse a batch that does not fit the state; called for all statistics before any is updated.

        Raises:
            MetricInputError: the batch does not fit.
        """

    def shows_finite(self, batch: Outputs) -> bool:
        """Return whether what `update` adds shows that all outputs and targets of a batch are finite.

        It is computed once for both. A batch of which nothing shows it is looked through before.
        """
        return False

    def update(self, batch: Outputs) -> None:
        """Add one validated batch."""
        raise NotImplementedError(f"{type(self).__name__} has no update")

    def fresh(self) -> Self:
        """Return an empty statistic of the same class and parameters."""
        empty = copy.copy(self)
        empty.reset()
        return empty

    def reset(self) -> None:
        """Forget every row; a subclass that keeps more than its state replaces that by new, empty objects."""
        self._state: dict[str, Tensor] = {}
        self._derived: dict[str, Any] = {}

    def add(self, **values: Tensor) -> None:
        """Add to the states of reduction `sum`; the first values become the states."""
        for name, value in values.items():
            current = self._state.get(name)
            if current is None:
                self._state[name] = value.clone()
            elif current.dtype == value.dtype:
                current += value
            else:  # counts become sums with the first weight
                self._state[name] = current + value
        self._derived = {}

    def derived(self, name: str, make: Callable[[Self], T]) -> T:
        """Return a value computed from the state, cached until the next update."""
        if name not in self._derived:
            self._derived[name] = make(self)
        return self._derived[name]  # type: ignore[no-any-return]  # the type of `make`

    def has(self, name: str) -> bool:
        """Return whether `derived` has cached this name since the last update."""
        return name in self._derived

    def merge(self, other: Statistic) -> None:
        """Merge the rows of another statistic of the same identity, which stays unchanged.

        Raises:
            StateError: the other statistic has another class, other parameters or other shapes.
        """
        self.merge_state(self.mergeable(other))

    def mergeable(self, other: Statistic) -> NamedTensors:
        """Return the state of another statistic if it can merge.

        Raises:
            StateError: as for `merge`.
        """
        if other.key != self.key:
            raise StateError(
                f"{self} cannot merge with {other}: only the same statistic with the same parameters can"
            )
        state = other.state()
        self.check_merge(state)
        return state

    def check_merge(self, state: Mapping[str, Tensor]) -> None:
        """Raise unless `merge_state` can merge a state.

        Raises:
            StateError: its names or shapes are others.
        """
        self._check_state(state)
        if state:
            self._check_shapes(state)

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Merge the `state()` of another statistic of the same identity."""
        self.check_merge(state)
        if state:
            device = next(iter(self._state.values())).device if self._state else None
            self.add_state({name: value.to(device or value.device) for name, value in state.items()})

    def add_state(self, state: Mapping[str, Tensor]) -> None:
        """Merge a checked, non-empty state on the same device; overridden where states are not sums."""
        self.add(**state)

    def state(self) -> dict[str, Tensor]:
        """Return a copy of the states by name; empty before the first row."""
        return {name: value.clone() for name, value in self._state.items()}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Replace the states by a copy of `state`.

        Raises:
            StateError: the names are not those of this statistic.
        """
        self._check_state(state)
        self.reset()
        self.merge_state(state)

    def to(self, device: torch.device | str) -> None:
        """Move the states to a device."""
        self._state = {name: value.to(device) for name, value in self._state.items()}
        self._derived = {}

    def _check_state(self, state: Mapping[str, Tensor]) -> None:
        if state and set(state) - set(self.optional) != set(self.reductions):
            raise StateError(
                f"{self} needs {', '.join(self.reductions)}; got a state of {', '.join(state) or 'nothing'}"
            )

    def _check_shapes(self, state: Mapping[str, Tensor]) -> None:
        for name, value in state.items():
            current = self._state.get(name)
            if current is not None and current.shape != value.shape:
                raise StateError(
                    f"{self}: {name} has shape {tuple(current.shape)}, but the other has {tuple(value.shape)}"
                )


class NumberStatistic(Statistic, ABC, Generic[N]):
    """A statistic that adds up plain numbers while it can, in a tenth of the time that tensors take."""

    _tensors: dict[str, Tensor]
    _numbers: N | None

    @abstractmethod
    def tensors_of(self, numbers: N) -> dict[str, Tensor]:
        """Return the state that plain numbers stand for."""

    @property
    def empty(self) -> bool:
        """True until the first row."""
        return self._numbers is None and not self._tensors

    @property
    def _state(self) -> dict[str, Tensor]:
        """The state as tensors; the caller may change them, so the plain numbers are dropped."""
        if self._numbers is not None:
            self._tensors, self._numbers = self.tensors_of(self._numbers), None
        return self._tensors

    @_state.setter
    def _state(self, state: dict[str, Tensor]) -> None:
        self._tensors, self._numbers = state, None


class Kept(Statistic):
    """Tensors that a function computes from each batch: those named `sum ...` are added, all others appended.

    Args:
        of: a name for what the tensors are; it distinguishes two of these statistics.
        take: computes the tensors of a batch, or refuses it.

    >>> from hpometrics.metrics.features import Number
    >>> store = Kept("targets", lambda batch: {"target": batch.target, "sum rows": torch.tensor(len(batch))})
    >>> store.update(Outputs(Number(), predictions=[1.0, 2.0], target=[1.0, 4.0]))
    >>> store.update(Outputs(Number(), predictions=[1.0], target=[5.0]))
    >>> {name: value.tolist() for name, value in store.state().items()}
    {'sum rows': 3, 'target': [1.0, 4.0, 5.0]}
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {}
    grows: ClassVar[bool] = True

    def __init__(self, of: str, take: Callable[[Outputs], NamedTensors]) -> None:
        super().__init__(of=of)
        self._block, self._extract = f"taken: {of}", take

    def reset(self) -> None:
        """Forget every batch."""
        super().reset()
        self._parts: list[NamedTensors] = []
        self._joined = 0

    @property
    def empty(self) -> bool:
        """True until the first batch."""
        return not (self._state or self._parts)

    @property
    def tensors(self) -> NamedTensors:
        """All stored tensors, by name."""
        return {**self._state, **self._rows()}

    def check(self, batch: Outputs) -> None:
        """Compute the tensors of the batch, which may be refused; nothing is stored yet.

        Raises:
            MetricInputError: the function refuses the batch, or its tensors do not fit the stored ones.
        """
        tensors = self._tensors_of(batch)
        if self.empty:
            return
        for name, current in {**self._state, **(self._parts[0] if self._parts else {})}.items():
            if name not in tensors:
                raise MetricInputError(
                    f"{self.params['of']}: earlier batches had {name}, but this one does not"
                )
            shape = tensors[name].shape if name.startswith(SUM) else tensors[name].shape[1:]
            expected = current.shape if name.startswith(SUM) else current.shape[1:]
            if shape != expected:
                raise MetricInputError(
                    f"{self.params['of']} must have one shape: earlier batches had {tuple(expected)} in "
                    f"{name}, but this one has {tuple(shape)}"
                )

    def update(self, batch: Outputs) -> None:
        """Store the tensors of the batch."""
        self._store(self._tensors_of(batch))

    def state(self) -> NamedTensors:
        """Return a copy of all stored tensors."""
        return {name: value.clone() for name, value in self.tensors.items()}

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Merge the `state()` of another statistic."""
        self.check_merge(state)
        if state:
            device = next((tensor.device for tensor in self.tensors.values()), None)
            self._store({name: value.clone().to(device or value.device) for name, value in state.items()})

    def to(self, device: torch.device | str) -> None:
        """Move the stored tensors to a device."""
        super().to(device)
        self._parts = [{name: value.to(device) for name, value in part.items()} for part in self._parts]

    def _check_state(self, state: Mapping[str, Tensor]) -> None:
        """Accept any names: they are compared with the stored ones."""

    def _check_shapes(self, state: Mapping[str, Tensor]) -> None:
        current = self.tensors
        if current and _row_shapes(current) != _row_shapes(state):
            raise StateError(
                f"{self}: only rows of {_row_shapes(current)} can merge, got {_row_shapes(state)}"
            )

    def _tensors_of(self, batch: Outputs) -> NamedTensors:
        return batch.block(self._block, self._extract)

    def _store(self, tensors: NamedTensors) -> None:
        self.add(**{name: value for name, value in tensors.items() if name.startswith(SUM)})
        rows = {name: value for name, value in tensors.items() if not name.startswith(SUM)}
        if rows:
            self._parts.append(rows)
        if len(self._parts) - self._joined > _LOOSE:
            self._parts[self._joined :] = [_join(self._parts[self._joined :])]
            self._joined = len(self._parts)

    def _rows(self) -> NamedTensors:
        if len(self._parts) > 1:
            self._parts = [_join(self._parts)]
            self._joined = 1
        return self._parts[0] if self._parts else {}


class Sums(NumberStatistic[list[float]], Kept):
    """Kept tensors of which all are added up, on the CPU as plain numbers.

    Args:
        of: a name, as for `Kept`.
        take: computes the tensors of a batch, where `numbers` does not.
        numbers: computes the sums of a batch as plain numbers, or refuses the batch; None where it cannot.
        state: returns the tensors that plain numbers stand for.
    """

    def __init__(
        self,
        of: str,
        take: Callable[[Outputs], NamedTensors],
        numbers: Callable[[Outputs], list[float] | None],
        state: Callable[[list[float]], NamedTensors],
    ) -> None:
        super().__init__(of, take)
        self._add_up, self._as_tensors = numbers, state
        self._sums = f"sums: {of}"

    def __repr__(self) -> str:
        return super().__repr__().replace("Sums", "Kept", 1)  # the label of the states that `Kept` stored

    def tensors_of(self, numbers: list[float]) -> NamedTensors:
        """Return the state that plain numbers stand for."""
        return self._as_tensors(numbers)

    def check(self, batch: Outputs) -> None:
        """Add up the batch, which may be refused; nothing is stored yet.

        Raises:
            MetricInputError: it is refused, or its tensors do not fit the stored ones.
        """
        if batch.block(self._sums, self._add_up) is None:
            super().check(batch)

    def update(self, batch: Outputs) -> None:
        """Add the sums of the batch."""
        numbers = batch.block(self._sums, self._add_up)
        if numbers is None:
            super().update(batch)
        elif self._numbers is None and self._tensors:
            self.add(**self.tensors_of(numbers))
        else:
            current = self._numbers or [0.0] * len(numbers)
            self._numbers = [before + number for before, number in zip(current, numbers, strict=True)]
            self._derived = {}


def block(compute: Callable[[Outputs], T]) -> Callable[[Outputs], T]:
    """Compute what a function derives from a batch at most once for each batch."""

    @wraps(compute)
    def cached(batch: Outputs) -> T:
        return batch.block(compute, compute)

    return cached


def tally(codes: Tensor, weight: Tensor | None, size: int) -> Tensor:
    """Count numbers in [0, size): (size,) int64, or float64 with weights.

    NumPy counts few numbers several times faster. On a device `bincount` would synchronize to read the
    largest number, so counts are added by index there.
    """
    if on_host(codes):
        return torch.from_numpy(
            np.bincount(codes.numpy(), None if weight is None else weight.numpy(), minlength=size)
        )
    ones = torch.ones_like(codes) if weight is None else weight
    return torch.zeros(size, dtype=ones.dtype, device=codes.device).index_add_(0, codes, ones)


def tallies(codes: Tensor, weights: Sequence[Tensor | None], size: int) -> Tensor:
    """Sum several weights of the same numbers in [0, size), each as `tally` does: (W, size) float64."""
    if not on_host(codes):
        wide = (None if weight is None else weight.double() for weight in weights)
        return torch.stack([tally(codes, weight, size).double() for weight in wide])
    numbers, sums = codes.numpy(), np.empty((len(weights), size))
    for row, weight in zip(sums, weights, strict=True):
        row[:] = np.bincount(numbers, None if weight is None else weight.numpy(), size)
    return torch.from_numpy(sums)


def refuse_other_width(batch: Outputs, width: int | None) -> None:
    """Refuse a batch whose scores have another number of classes than those of earlier batches.

    Raises:
        MetricInputError: naming both numbers.
    """
    columns = (x.shape[class_dim(batch.feature)] for x in batch.given.values() if x.ndim > 1)
    classes = batch.num_classes or next(columns, 1)
    if width not in (None, classes):
        raise MetricInputError(f"earlier batches had scores of {width} classes, but this one has {classes}")


def _join(parts: list[NamedTensors]) -> NamedTensors:
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def _row_shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    """Return the shape of a row of each tensor."""
    return {name: tuple(value.shape[1:]) for name, value in sorted(tensors.items())}
