"""The metrics that `as_metric` creates around a function or a torchmetrics.Metric."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities.data import dim_zero_cat

from .._text import NOTHING_MEASURED
from ..direction import MAXIMIZE, Direction
from ..exceptions import MetricInputError, StateError
from ._device import gather_from_ranks, world_size
from ._state import disable_sync, join_states, reductions_of, set_update_count
from .batch import as_tensor
from .features import InputType
from .metric import MeanMetric, Metric
from .registry.ludwig_names import LudwigObjectNames


class AdaptedMetric(LudwigObjectNames, Metric):
    """A metric whose facts belong to the object, not to its class."""

    direction: Direction | None  # type: ignore[misc]
    inputs: InputType  # type: ignore[misc]

    def __init__(
        self, *, direction: Direction | None, inputs: InputType, name: str, component: str | int | None
    ) -> None:
        super().__init__()
        self.direction, self.inputs, self.name, self.component = direction, inputs, name, component

    @classmethod
    def _write_facts(cls) -> None:
        """Do nothing, as the facts are those of the object."""

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """The direction in torchmetrics' words."""
        return None if self.direction is None else self.direction is MAXIMIZE

    def select_component(self, result: Any) -> Any:
        """Return the component of a result; without a component the result itself.

        Raises:
            MetricInputError: there is no such component; the message lists the components.
        """
        if self.component is None:
            return result
        try:
            return result[self.component]
        except (KeyError, IndexError, TypeError) as err:
            raise MetricInputError(
                f"{self.name} has no component {self.component!r}; its result is {_describe(result)}"
            ) from err

    def scalar(self, result: Any) -> Tensor:
        """Return the one number of a result; nan gets a reason.

        Raises:
            MetricInputError: the result has several numbers, or none; the message describes it.
        """
        part = self.select_component(result)
        number = _number(part)
        if number is None:
            first = next(iter(part), 0) if isinstance(part, Mapping) else 0
            several = hasattr(part, "__len__") and not isinstance(part, str)
            todo = f"choose its value, as in component={first!r}" if several else "a value must be one number"
            raise MetricInputError(f"{self.name} gives {_describe(part)}; {todo}")
        return self.undefined(f"the wrapped {self.name} returned nan") if number.isnan() else number


def _number(value: Any) -> Tensor | None:
    """Return the value as a 0-d tensor; None if it is not one number."""
    try:
        tensor = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        return None
    return tensor.detach().reshape(()) if tensor.numel() == 1 else None


def _describe(result: Any) -> str:
    """Describe the parts of a result."""
    if isinstance(result, Mapping):
        return f"a dict of {', '.join(map(str, result))}"
    if isinstance(result, list | tuple):
        return f"a {type(result).__name__} of {len(result)}"
    shape = getattr(result, "shape", None)
    return f"values of shape {tuple(shape)}" if shape else repr(result)


Function = Callable[..., Any]
Rows = Tensor | list[Any]
"""The rows of a batch; texts, and the references of a row, are a list."""


class FunctionMetric(AdaptedMetric):
    """A function of predictions and target, or of target and predictions, which then are arrays."""

    def __init__(self, function: Function, target_first: bool, **facts: Any) -> None:
        super().__init__(**facts)
        self.function, self.target_first = function, target_first

    def _call(self, preds: Rows, target: Rows) -> Any:
        if self.target_first:
            return self.function(_array(target), _array(preds))
        return self.function(preds, target)


class PooledFunction(FunctionMetric):
    """A function of all rows of the epoch, which are copied and stored by batch, texts as JSON lines."""

    preds: list[Tensor]
    target: list[Tensor]
    texts: list[Tensor]

    def __init__(self, function: Function, target_first: bool, **facts: Any) -> None:
        super().__init__(function, target_first, **facts)
        for name in ("preds", "target", "texts"):
            self.add_state(name, [], dist_reduce_fx="cat")

    def update(self, preds: Rows, target: Rows) -> None:
        """Store a copy of the rows.

        Raises:
            MetricInputError: the rows are neither tensors nor texts, or differ from the stored ones in form.
        """
        if isinstance(preds, Tensor) and isinstance(target, Tensor):
            rows = {"preds": preds.clone(), "target": target.clone()}
        else:
            line = f"{json.dumps([preds, target], default=self._refuse)}\n".encode()
            rows = {"texts": torch.tensor(np.frombuffer(line, dtype=np.uint8), device=self.device)}
        self._check_form({name: [part] for name, part in rows.items()}, MetricInputError)
        for name, part in rows.items():
            getattr(self, name).append(part)

    def _refuse(self, record: Any) -> None:
        raise MetricInputError(
            f"{self.name} pools tensors or texts, got rows with a {type(record).__name__}; return a value "
            "per row (per_row=True), or write a torchmetrics.Metric"
        )

    def _check_form(self, rows: Mapping[str, Any], error: type[MetricInputError | StateError]) -> None:
        """Raise unless further rows are texts or tensors like the stored ones, and of their width."""
        first, other = (
            {name: tuple(parts[0].shape[1:]) for name, parts in state.items() if len(parts)}
            for state in (self.metric_state, rows)
        )
        pools = f"{self.name} pools the rows of an epoch, which must"
        if first and other and first.keys() != other.keys():
            kinds = ["texts" if "texts" in form else "tensors" for form in (first, other)]
            raise error(f"{pools} all be of one kind: earlier rows were {kinds[0]}, but these are {kinds[1]}")
        for name in first.keys() & other.keys():
            if first[name] != other[name]:
                raise error(
                    f"{pools} have one shape: earlier rows had {first[name]}, but these have {other[name]}"
                )

    def compute(self) -> Tensor:
        """Call the function once, on all rows."""
        if len(self.texts) > 0:
            return self.scalar(self._call(*_parse_texts(dim_zero_cat(self.texts))))
        if len(self.preds) > 0:
            return self.scalar(self._call(dim_zero_cat(self.preds), dim_zero_cat(self.target)))
        return self.undefined(NOTHING_MEASURED)

    def merge_own(self, state: Mapping[str, Any], updates: int) -> None:
        """Append the rows of another metric.

        Raises:
            StateError: they do not have the form of the stored ones.
        """
        self._check_form(state, StateError)
        super().merge_own(state, updates)


class RowFunction(FunctionMetric, MeanMetric):
    """The mean of the values of a function, one per row."""

    def get_current_value(self, preds: Rows, target: Rows) -> Tensor:
        """Call the function on the rows of a batch.

        Raises:
            MetricInputError: it does not return one value per row.
        """
        value = as_tensor(self.select_component(self._call(preds, target)))
        if value.shape != (len(target),):
            raise MetricInputError(
                f"{self.name} with per_row=True must return one value for each of {len(target)} rows, got "
                f"shape {tuple(value.shape)}"
            )
        return value.to(target.device) if isinstance(target, Tensor) else value


def _parse_texts(lines: Tensor) -> tuple[list[Any], list[Any]]:
    """Return the predicted texts and the right ones, of all batches."""
    batches = [json.loads(line) for line in lines.cpu().numpy().tobytes().splitlines()]
    return [row for preds, _ in batches for row in preds], [row for _, target in batches for row in target]


def _array(rows: Rows) -> Any:
    if not isinstance(rows, Tensor):
        return rows
    return (rows.float() if rows.dtype is torch.bfloat16 else rows).cpu().numpy()


Part = dict[str, dict[str, Any]]

_REFUSALS = (ValueError, TypeError, RuntimeError, LookupError, AttributeError)
"""The errors that torchmetrics raises for a batch that it cannot measure."""


class WrappedMetric(AdaptedMetric):
    """A torchmetrics.Metric; merged parts are stored apart until `compute` joins them like ranks."""

    _parts: list[Part]

    def __init__(self, inner: torchmetrics.Metric, **facts: Any) -> None:
        super().__init__(**facts)
        self.inner = inner.clone()
        self._reset_inner()
        for _, module in _metrics_in(self.inner):
            disable_sync(module)  # this metric gathers the parts of all ranks itself
            module.persistent(False)  # and saves them

    def update(self, preds: Rows, target: Rows, **extras: Any) -> None:
        """Update the wrapped metric with a batch, copied if the metric stores rows.

        Raises:
            MetricInputError: the wrapped metric refuses the batch.
        """
        if any(
            isinstance(state, list) for _, m in _metrics_in(self.inner) for state in m.metric_state.values()
        ):
            preds, target, extras = map_tensors(torch.clone, [preds, target, extras])
        try:
            self.inner.update(preds, target, **extras)
        except _REFUSALS as err:
            raise MetricInputError(f"{self.name} refused the batch: {err}") from err

    def compute(self) -> Tensor:
        """Compute the value of the wrapped metric over its own, merged and other ranks' parts."""
        parts = self._parts_of_all_ranks()
        if not parts:
            return self.undefined(NOTHING_MEASURED)
        if world_size() == 1 and not self._parts:
            return self.scalar(self.inner.compute())
        joined = self.inner.clone()
        _write(joined, _join_parts(joined, parts, self))
        return self.scalar(joined.compute())

    def merge(self, other: Metric) -> None:
        """Merge the state of another metric, which does not change.

        Raises:
            StateError: the other one wraps something else.
        """
        if isinstance(other, WrappedMetric) and type(self.inner) is not type(other.inner):
            raise StateError(f"{self.name} merges only with the same metric, got {other.name}")
        super().merge(other)

    @property
    def reader(self) -> Callable[..., Any]:
        """The wrapped `update`, whose signature names the extras that it reads."""
        return type(self.inner).update

    def own_state(self) -> dict[str, Any]:
        """Return all own and merged parts."""
        own = _parts_in(self.inner)
        is_updated = any(part["updates"] for part in own.values())  # a wrapper itself counts none
        return {"parts": [*self._parts, *([own] if is_updated else [])]}

    def merge_own(self, state: Mapping[str, Any], updates: int) -> None:
        """Store the parts of another metric beside the own ones."""
        self._parts = [*self._parts, *state["parts"]]
        self.count_updates(updates)

    def snapshot(self) -> dict[str, Any]:
        """Return the state for `restore`."""
        return {"parts": self._parts, "inner": _parts_in(self.inner)}

    def restore(self, snapshot: Mapping[str, Any]) -> None:
        """Set the state back to that of `snapshot`."""
        self._parts = snapshot["parts"]
        _write(self.inner, snapshot["inner"])

    def reset(self) -> None:
        """Drop everything measured."""
        super().reset()
        self._reset_inner()

    def get_extra_state(self) -> dict[str, Any]:
        """Return the part of `state_dict` beside the states of `add_state`: the parts as plain tensors."""
        return {**super().get_extra_state(), **self.own_state()}

    def set_extra_state(self, state: Any) -> None:
        """Load the result of `get_extra_state`."""
        super().set_extra_state(state)
        self._reset_inner()
        self._parts = list(state["parts"])

    def _reset_inner(self) -> None:
        self._parts = []
        with torch.inference_mode(False):
            self.inner.reset()
            for _, module in _metrics_in(self.inner):
                if module.update_called:  # a wrapper of torchmetrics 1.7 forgets nothing of what it wraps
                    module.reset()
        set_update_count(self.inner, 0)  # a sum of two metrics forgets only theirs

    def _parts_of_all_ranks(self) -> list[Part]:
        own: list[Part] = self.own_state()["parts"]
        return own if self.is_local else [part for parts in gather_from_ranks(own) for part in parts]


def _metrics_in(inner: torchmetrics.Metric) -> Iterator[tuple[str, torchmetrics.Metric]]:
    """Yield the metric and all metrics inside it, by path."""
    for path, module in inner.named_modules():
        if isinstance(module, torchmetrics.Metric):
            yield path, module


def _parts_in(inner: torchmetrics.Metric) -> Part:
    return {
        path: {"updates": m.update_count, "states": {k: _copy_state(s) for k, s in m.metric_state.items()}}
        for path, m in _metrics_in(inner)
    }


def _write(inner: torchmetrics.Metric, part: Part) -> None:
    for path, module in _metrics_in(inner):
        set_update_count(module, part[path]["updates"])
        for name, value in part[path]["states"].items():
            setattr(module, name, value)


def map_tensors(function: Callable[[Tensor], Tensor], value: Any) -> Any:
    """Return a value with each tensor replaced by a function of it, also those in lists and mappings."""
    if isinstance(value, Tensor):
        return function(value)
    if isinstance(value, Mapping):
        return {name: map_tensors(function, part) for name, part in value.items()}
    return [map_tensors(function, part) for part in value] if isinstance(value, list) else value


def _copy_state(state: Tensor | list[Tensor]) -> Tensor | list[Tensor]:
    return list(state) if isinstance(state, list) else state.clone()  # rows in a list are never written to


def _join_parts(inner: torchmetrics.Metric, parts: list[Part], owner: Metric) -> Part:
    """Join several parts to one, each state by its own reduction."""
    if len(parts) == 1:
        return parts[0]
    try:
        return {
            path: {
                "updates": sum(part[path]["updates"] for part in parts),
                "states": {
                    name: join_states([part[path]["states"][name] for part in parts], reduction, owner.device)
                    for name, reduction in reductions_of(module).items()
                },
            }
            for path, module in _metrics_in(inner)
        }
    except _REFUSALS as err:
        raise StateError(f"{owner.name}: the merged states do not match: {err}") from err
