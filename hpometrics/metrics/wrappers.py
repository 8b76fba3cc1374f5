"""Wrapped metrics: a torchmetrics.Metric, whose parts are merged as torchmetrics would merge ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
import torchmetrics
from torch import Tensor

from ..exceptions import MetricInputError, StateError
from .metric import NOTHING_MEASURED, Metric
from .ranks import gathered, world_size
from .wrapped import Wrapped
from .wrapped_function import Rows

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
        """Everything measured here and merged in, a part for each."""
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
    """The metric and those inside it, by path."""
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
