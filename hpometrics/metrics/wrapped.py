"""Wrapped: what `as_metric` makes of an object: a metric whose facts and name belong to the object."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from ..direction import MAXIMIZE, Objective
from ..exceptions import MetricInputError, StateError
from .features import InputType
from .metric import Metric


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
        """Which way is better; None if it was said to have no direction."""
        return self.objective

    def get_inputs(self) -> InputType:  # type: ignore[override]
        """Which model output it reads."""
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
    """The value as a 0-d tensor; None if it is not one number."""
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
