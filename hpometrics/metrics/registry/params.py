"""The parameters of a metric, which its `__init__` declares and a name states."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from ..._text import did_you_mean
from ...exceptions import MetricNameError
from .names import Scalar

_KINDS: dict[Any, str] = {int: "int", float: "float", bool: "bool", str: "str"}


@dataclass(frozen=True)
class Param:
    """One parameter of a metric: `average` of `f1(average=macro)`, `k` of `hits@5`.

    `argument` is its name in `__init__` if Python reserves the word: `class` of `f1(class=3)` is the argument
    `class_`.
    """

    name: str
    kind: str = "str"
    default: Scalar | None = None
    required: bool = False
    choices: tuple[str, ...] = ()
    argument: str = ""

    @property
    def keyword(self) -> str:
        """The keyword of `__init__`, and the attribute that has the value."""
        return self.argument or self.name

    def check(self, value: Scalar, owner: str) -> Scalar:
        """Return `value` in the type of the parameter.

        Raises:
            MetricNameError: the value is of another type or not one of the choices.
        """
        if value is None and self.default is None and not self.required:
            return value
        if self.choices and str(value) not in self.choices:
            raise MetricNameError(
                f"{owner}: {self.name} is one of {', '.join(self.choices)}, got {value!r}"
                f"{did_you_mean(value, self.choices)}"
            )
        if self.kind == "float" and isinstance(value, int) and not isinstance(value, bool):
            return float(value)
        if self.kind in _KINDS.values() and _KINDS.get(type(value)) != self.kind:
            raise MetricNameError(f"{owner}: {self.name} is {self.kind}, got {value!r}")
        if self.name == "k" and isinstance(value, int) and value < 1:
            raise MetricNameError(f"{owner}: k is a whole number from 1, got {value}")
        return value

    @property
    def settings(self) -> tuple[Scalar, ...]:
        """Its choices in its type."""
        return tuple(int(choice) if self.kind == "int" else choice for choice in self.choices)

    @property
    def example(self) -> Scalar:
        """A value that can stand in an example."""
        if self.choices:
            return "macro" if "macro" in self.choices else self.settings[0]
        return _EXAMPLES.get(self.kind, "a")


_NOT_OF_A_NAME = ("output", "dist_sync_on_step")
"""Arguments of `__init__` that are not parameters: the output feature, and when torchmetrics synchronizes."""

_EXAMPLES: dict[str, Scalar] = {"int": 2, "float": 0.5, "bool": True}


def params_of(cls: type) -> tuple[Param, ...]:
    """Return the parameters of the `__init__` of a class, without a trailing underscore in their names."""
    init = cls.__init__  # type: ignore[misc]
    parameters = [
        p for p in list(inspect.signature(init).parameters.values())[1:]
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name not in _NOT_OF_A_NAME
    ]  # fmt: skip
    hints = get_type_hints(init) if parameters else {}
    return tuple(_param(p, hints.get(p.name)) for p in parameters)


def _param(parameter: inspect.Parameter, hint: Any) -> Param:
    types = _alternatives(hint)
    literals = [choice for one in types if get_origin(one) is Literal for choice in get_args(one)]
    choices = tuple(dict.fromkeys(str(choice) for choice in literals if choice is not None))
    required = parameter.default is parameter.empty
    name = parameter.name.rstrip("_")
    return Param(
        name,
        _kind([type(choice) for choice in literals if choice is not None] or types),
        None if required else parameter.default,
        required,
        choices,
        parameter.name if parameter.name != name else "",
    )


def _alternatives(hint: Any) -> Sequence[Any]:
    """Return the types of a union except None."""
    if get_origin(hint) in (Union, UnionType):
        return [one for one in get_args(hint) if one is not NoneType]
    return [hint]


def _kind(types: Sequence[Any]) -> str:
    kinds = {_KINDS.get(one, "any") for one in types}
    if kinds == {"int", "float"}:
        return "float"
    return kinds.pop() if len(kinds) == 1 else "any"
