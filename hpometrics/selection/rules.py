"""The rules of a selection, as a sweep file has them: which epoch and which trial count, and constraints."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, TypeAlias

from ..exceptions import ConfigError, ConstraintError

if TYPE_CHECKING:  # reading a sweep file needs no records
    from ..records.trial_record import Reading

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_FORM = re.compile(rf"\s*(?P<name>.*?)\s*(?P<sign><=|>=)\s*(?P<bound>{_NUMBER})\s*\Z", re.DOTALL)
_BROKEN = {"<=": ">", ">=": "<"}


class At(StrEnum):
    """Which epoch's value counts for a run: its best one or its last one."""

    BEST = "best"
    LAST = "last"


Pick: TypeAlias = Literal["best", "one_se", "knee"] | int
"""The best trial, or the simplest within one standard error of it; of several objectives the knee of the
front (see `knee_of`), or a trial of the front by its number."""

RULES = ("best", "one_se", "knee")


def read_pick(text: str) -> Pick:
    """Read `best`, `one_se`, `knee` or the number of a trial.

    Raises:
        ConfigError: it is something else.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    if text in RULES:
        return text  # type: ignore[return-value]  # it is one of the three
    raise ConfigError(f"pick is best, one_se, knee or the number of a trial, got {text!r}")


@dataclass(frozen=True)
class Constraint:
    """A bound on one value.

    Args:
        name: of the value.
        sign: `<=` or `>=`.
        bound: in the value's own unit; it is kept where the value equals it.

    >>> constraint = Constraint.parse("ece <= 0.05")
    >>> constraint.excess({"ece": 0.25}), constraint.excess({"ece": 0.05}), constraint.excess({})
    (0.2, 0.0, inf)
    >>> constraint.broken_by({"ece": 0.25})
    'ece 0.25 > 0.05'
    """

    name: str
    sign: str
    bound: float

    @classmethod
    def parse(cls, text: str) -> Constraint:
        """Read `name <= number` or `name >= number`.

        Raises:
            ConstraintError: it is something else.
        """
        match = _FORM.match(text) if isinstance(text, str) else None
        if match is None or not match["name"] or not math.isfinite(float(match["bound"])):
            raise ConstraintError(
                f"a constraint is a value's name, <= or >=, and a number, as in 'ece <= 0.05'; got {text!r}"
            )
        return cls(match["name"], match["sign"], float(match["bound"]))

    def __str__(self) -> str:
        return f"{self.name} {self.limit}"

    @property
    def limit(self) -> str:
        """The bound without the name: `<= 0.05`."""
        return f"{self.sign} {_format_bound(self.bound)}"

    def excess(self, values: Mapping[str, Reading]) -> float:
        """Return by how much the bound is exceeded: 0 or less if it is kept, inf if no value is finite."""
        value = values.get(self.name, math.nan)
        if isinstance(value, list) or not math.isfinite(value):
            return math.inf
        return value - self.bound if self.sign == "<=" else self.bound - value

    def broken_by(self, values: Mapping[str, Reading]) -> str | None:
        """Return how values break the bound; None if they keep it."""
        if self.excess(values) <= 0:
            return None
        value = values.get(self.name)
        if isinstance(value, float | int) and math.isfinite(value):
            return f"{self.name} {value:.6g} {_BROKEN[self.sign]} {_format_bound(self.bound)}"
        return f"{self.name} has no value to be {self.limit}"


def violation(excesses: Iterable[float]) -> float:
    """Return by how much bounds are exceeded in all: 0 if all are kept.

    >>> violation([0.25, -3.0, 0.5])
    0.75
    """
    return sum((max(0.0, excess) for excess in excesses), start=0.0)


def violation_of(constraints: Iterable[Constraint], values: Mapping[str, Reading]) -> float:
    """Return by how much values exceed all bounds."""
    return violation(constraint.excess(values) for constraint in constraints)


def _format_bound(bound: float) -> str:
    return repr(bound).removesuffix(".0")
