"""Wrapped metrics: a torchmetrics.Metric, whose parts are merged as torchmetrics would merge ranks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_cat

from ..direction import MAXIMIZE, Objective
from ..exceptions import MetricInputError, StateError
from ._device import gathered, world_size
from .batch import as_tensor
from .features import InputType
from .metric import NOTHING_MEASURED, MeanMetric, Metric


class Wrapped(Metric):
    """A metric whose facts belong to the object, not to its class."""

    objective: Objective | None  # type: ignore[misc]
    inputs: InputType  # type: ignore[misc]

    def __init__(
        self, *, objective: Objective | None, inputs: InputType, name: str, component: str | int | None
    ) -> None:
        super().__init__()
        self.objective, self.inputs, self.name, self.component = objective, inputs, name, component

    @classmethod
    def _settle_facts(cls) -> None:
        """Leave the class alone."""

    def get_objective(self) -> Objective | None:  # type: ignore[override]
        """Return which way is better; None if it was said to have no direction."""
        return self.objective

    def get_inputs(self) -> InputType:  # type: ignore[override]
        """Return which model output it reads."""
        return self.inputs

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """The objective in torchmetrics' words."""
        return None if self.objective is None else self.objective is MAXIMIZE

    @property
    def source(self) -> Any:
        """What it wraps, as far as it tells whether two may merge."""
        return None

    def merge(self, other: Metric) -> None:
        """Take in what another one has measured; the other one stays as it is.

        Raises:
            StateError: the other one wraps something else.
        """
        if isinstance(other, Wrapped) and (self.name, self.source) != (other.name, other.source):
            raise StateError(f"{self.name} merges only with its own kind, got {other.name}")
        super().merge(other)

    def picked(self, result: Any) -> Any:
        """Take the component of a result, if one was named.

        Raises:
            MetricInputError: there is no such component; the message lists what there is.
        """
        if self.component is None:
            return result
        try:
            return result[self.component]
        except (KeyError, IndexError, TypeError) as err:
            raise MetricInputError(
                f"{self.name} has no component {self.component!r}; its result is {_listing(result)}"
            ) from err

    def scalar(self, result: Any) -> Tensor:
        """Take the one number of a result; nan gets a reason.

        Raises:
            MetricInputError: there are several numbers, or none; the message lists what there is.
        """
        picked = self.picked(result)
        number = _number(picked)
        if number is None:
            first = next(iter(picked), 0) if isinstance(picked, Mapping) else 0
            several = hasattr(picked, "__len__") and not isinstance(picked, str)
            todo = (
                f"say which is its value, as in component={first!r}" if several else "a value is one number"
            )
            raise MetricInputError(f"{self.name} gives {_listing(picked)}; {todo}")
        return self.undefined(f"the wrapped {self.name} gave nan") if number.isnan() else number


def _number(value: Any) -> Tensor | None:
    """Return the value as a 0-d tensor; None if it is not one number."""
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return None
    return tensor.detach().reshape(()) if tensor.numel() == 1 else None


def _listing(result: Any) -> str:
    """What a result consists of, in words."""
    if isinstance(result, Mapping):
        return f"a dict of {', '.join(map(str, result))}"
    if isinstance(result, list | tuple):
        return f"a {type(result).__name__} of {len(result)}"
    shape = getattr(result, "shape", None)
    return f"values of shape {tuple(shape)}" if shape else repr(result)


Function = Callable[..., Any]
Rows = Tensor | list[Any]
"""The rows of a batch; texts, and the references of a row, come as a list."""


class PooledFunction(Wrapped):
    """A function of all rows of the epoch; they are copied batch by batch and kept, texts as JSON lines."""

    preds: list[Tensor]
    target: list[Tensor]
    texts: list[Tensor]

    def __init__(self, function: Function, target_first: bool, **facts: Any) -> None:
        super().__init__(**facts)
        self.function, self.target_first = function, target_first
        self.add_state("preds", [], dist_reduce_fx="cat")
        self.add_state("target", [], dist_reduce_fx="cat")
        self.add_state("texts", [], dist_reduce_fx="cat")

    def update(self, preds: Rows, target: Rows) -> None:
        """Keep a copy of the rows.

        Raises:
            MetricInputError: they are of another width than those kept, or neither tensors nor texts.
        """
        if isinstance(preds, Tensor) and isinstance(target, Tensor):
            self._keep(preds, target)
            return
        line = f"{json.dumps([preds, target], default=self._refuse)}\n".encode()
        self.texts.append(torch.tensor(np.frombuffer(line, dtype=np.uint8), device=self.device))

    def _refuse(self, record: Any) -> None:
        raise MetricInputError(
            f"{self.name} pools tensors or texts, got rows that hold a {type(record).__name__}; let it give "
            "a value per row (per_row=True), or write a torchmetrics.Metric"
        )

    def _keep(self, preds: Tensor, target: Tensor) -> None:
        for kept, rows in ((self.preds, preds), (self.target, target)):
            if kept and kept[0].shape[1:] != rows.shape[1:]:
                raise MetricInputError(
                    f"{self.name} pools the rows of an epoch, which have one shape: the rows before had "
                    f"{tuple(kept[0].shape[1:])}, these have {tuple(rows.shape[1:])}"
                )
        self.preds.append(preds.clone())
        self.target.append(target.clone())

    def compute(self) -> Tensor:
        """Call the function once, on all rows."""
        if len(self.texts) > 0:
            return self._value(*_read_texts(dim_zero_cat(self.texts)))
        if len(self.preds) > 0:
            return self._value(dim_zero_cat(self.preds), dim_zero_cat(self.target))
        return self.undefined(NOTHING_MEASURED)

    def _value(self, preds: Rows, target: Rows) -> Tensor:
        return self.scalar(_called(self.function, preds, target, self.target_first))

    def merge_own(self, state: Mapping[str, Any], updates: int) -> None:
        """Append the rows of another one."""
        for name in self._defaults:
            getattr(self, name).extend(rows.to(self.device) for rows in state[name])
        self.count_updates(updates)


class RowFunction(Wrapped, MeanMetric):
    """The mean of a function's values, one per row."""

    def __init__(self, function: Function, target_first: bool, **facts: Any) -> None:
        super().__init__(**facts)
        self.function, self.target_first = function, target_first

    def get_current_value(self, preds: Rows, target: Rows) -> Tensor:
        """Call the function on the rows of a batch.

        Raises:
            MetricInputError: it does not give one value per row.
        """
        value = as_tensor(self.picked(_called(self.function, preds, target, self.target_first)))
        if value.shape != (len(target),):
            raise MetricInputError(
                f"{self.name} with per_row=True gives one value for each of {len(target)} rows, "
                f"got shape {tuple(value.shape)}"
            )
        return value.to(target.device) if isinstance(target, Tensor) else value


def _read_texts(lines: Tensor) -> tuple[list[Any], list[Any]]:
    """Return the texts that were predicted and the right ones, of all batches."""
    batches = [json.loads(line) for line in lines.cpu().numpy().tobytes().splitlines()]
    return [row for preds, _ in batches for row in preds], [row for _, target in batches for row in target]


def _called(function: Function, preds: Rows, target: Rows, target_first: bool) -> Any:
    return function(_array(target), _array(preds)) if target_first else function(preds, target)


def _array(rows: Rows) -> Any:
    if not isinstance(rows, Tensor):
        return rows
    return (rows.float() if rows.dtype is torch.bfloat16 else rows).cpu().numpy()


Part = dict[str, dict[str, Any]]

_REFUSALS = (ValueError, TypeError, RuntimeError, LookupError, AttributeError)
"""What torchmetrics raises for a batch it cannot take."""


class WrappedMetric(Wrapped):
    """A torchmetrics.Metric; what is merged in stays apart until `compute` joins it as if it were a rank."""

    _parts: list[Part]

    def __init__(self, inner: torchmetrics.Metric, **facts: Any) -> None:
        super().__init__(**facts)
        self.inner = inner.clone()
        self._forget()
        for _, module in _metrics_in(self.inner):
            module._to_sync = False  # this metric gathers the parts of all ranks itself
            module.persistent(False)  # and saves them

    def update(self, preds: Rows, target: Rows, **extras: Any) -> None:
        """Hand over a batch, copied if the wrapped metric keeps rows.

        Raises:
            MetricInputError: the wrapped metric refuses it; the state stays as it was.
        """
        if any(isinstance(state, list) for _, m in _metrics_in(self.inner) for state in m._defaults.values()):
            preds, target, extras = _owned(preds), _owned(target), _owned(extras)
        before = self.snapshot()
        try:
            self.inner.update(preds, target, **extras)
        except _REFUSALS as err:
            self.restore(before)
            raise MetricInputError(f"{self.name} refused the batch: {err}") from err

    def compute(self) -> Tensor:
        """Take the wrapped metric's value over everything measured here, merged in, and on other ranks."""
        parts = self._parts_of_all_ranks()
        if not parts:
            return self.undefined(NOTHING_MEASURED)
        if world_size() == 1 and not self._parts:
            return self.scalar(self.inner.compute())
        joined = self.inner.clone()
        _write(joined, _joined(joined, parts, self))
        return self.scalar(joined.compute())

    @property
    def source(self) -> type[torchmetrics.Metric]:
        """The class of the wrapped metric."""
        return type(self.inner)

    @property
    def reader(self) -> Callable[..., Any]:
        """The wrapped `update` says which extras it wants."""
        return type(self.inner).update

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add one batch and return the value of that batch alone."""
        alone = self.alone()
        alone._to_sync = self.dist_sync_on_step
        alone.update(*args, **kwargs)
        self.update(*args, **kwargs)
        return alone.compute()

    def own_state(self) -> dict[str, Any]:
        """Return everything measured here and merged in, a part for each."""
        own = _read(self.inner)
        is_updated = any(read["updates"] for read in own.values())  # a wrapper itself counts none
        return {"parts": [*self._parts, *([own] if is_updated else [])]}

    def merge_own(self, state: Mapping[str, Any], updates: int) -> None:
        """Keep the parts of another one beside what is measured here."""
        self._parts = [*self._parts, *state["parts"]]
        self.count_updates(updates)

    def snapshot(self) -> dict[str, Any]:
        """What `restore` takes back."""
        return {"parts": self._parts, "inner": _read(self.inner)}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Put back what `snapshot` gave."""
        self._parts = snapshot["parts"]
        _write(self.inner, snapshot["inner"])

    def reset(self) -> None:
        """Forget everything measured."""
        super().reset()
        self._forget()

    def get_extra_state(self) -> dict[str, Any]:
        """What `state_dict` holds: the parts, as plain tensors."""
        return {**super().get_extra_state(), **self.own_state()}

    def set_extra_state(self, state: Any) -> None:
        """Load what `get_extra_state` gave."""
        super().set_extra_state(state)
        self._forget()
        self._parts = list(state["parts"])

    def _forget(self) -> None:
        self._parts = []
        with torch.inference_mode(False):
            self.inner.reset()
            for _, module in _metrics_in(self.inner):
                if module.update_called:  # a wrapper of torchmetrics 1.7 forgets nothing of what it wraps
                    module.reset()
        self.inner._update_count = 0  # a sum of two metrics forgets only theirs

    def _parts_of_all_ranks(self) -> list[Part]:
        own: list[Part] = self.own_state()["parts"]
        if world_size() == 1 or not self._to_sync:
            return own
        return [part for parts in gathered(own) for part in parts]


def _metrics_in(inner: torchmetrics.Metric) -> Iterator[tuple[str, torchmetrics.Metric]]:
    """Yield the metric and those inside it, by path."""
    for path, module in inner.named_modules():
        if isinstance(module, torchmetrics.Metric):
            yield path, module


def _read(inner: torchmetrics.Metric) -> Part:
    return {
        path: {"updates": m._update_count, "states": {k: _copied(getattr(m, k)) for k in m._defaults}}
        for path, m in _metrics_in(inner)
    }


def _write(inner: torchmetrics.Metric, part: Part) -> None:
    for path, module in _metrics_in(inner):
        module._update_count = part[path]["updates"]
        module._computed = None
        for name, value in part[path]["states"].items():
            setattr(module, name, value)


def _owned(rows: Any) -> Any:
    """Copy the tensors of a batch, also those in lists and mappings."""
    if isinstance(rows, Tensor):
        return rows.clone()
    if isinstance(rows, Mapping):
        return {name: _owned(value) for name, value in rows.items()}
    return [_owned(value) for value in rows] if isinstance(rows, list) else rows


def _copied(state: Tensor | list[Tensor]) -> Tensor | list[Tensor]:
    return list(state) if isinstance(state, list) else state.clone()  # rows in a list are never written to


def _joined(inner: torchmetrics.Metric, parts: list[Part], owner: Metric) -> Part:
    """One part of several, each state joined by its own reduction."""
    if len(parts) == 1:
        return parts[0]
    try:
        return {
            path: {
                "updates": sum(part[path]["updates"] for part in parts),
                "states": {
                    name: _join([part[path]["states"][name] for part in parts], reduction, owner.device)
                    for name, reduction in module._reductions.items()
                },
            }
            for path, module in _metrics_in(inner)
        }
    except _REFUSALS as err:
        raise StateError(f"{owner.name}: what was merged in does not fit together: {err}") from err


def _join(states: list[Any], reduction: Any, device: torch.device) -> Any:
    if isinstance(states[0], list):
        return [rows.to(device) for state in states for rows in state]
    shape = max((state.shape for state in states), key=len)  # torchmetrics 1.7 has () beside (1,)
    stacked = torch.stack([state.to(device).reshape(shape) for state in states])
    return stacked if reduction is None else reduction(stacked)
