"""The stored search of another tool in one form, and the findings of an audit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..direction import Direction
from ..records.trial_record import TrialState
from .terms import known_direction


@dataclass(frozen=True)
class ForeignTrial:
    """A trial as its tool stores it.

    Args:
        name: its number, or what the tool calls it.
        params: its params.
        state: its state.
        value: the value that the tool compares; None if it has none.
        epochs: the reported values of the metric, by epoch.
        repeated: epochs that were reported more than once.
        infeasible: whether it breaks a constraint, so that it cannot be the best.
        seconds: from its start to its end, or until now; None if the tool does not store it.
    """

    name: str
    params: Mapping[str, Any]
    state: TrialState
    value: float | None = None
    epochs: Mapping[int, float] = field(default_factory=dict)
    repeated: tuple[int, ...] = ()
    infeasible: bool = False
    seconds: float | None = None

    @property
    def score(self) -> float:
        """The value; nan where it has none."""
        return math.nan if self.value is None else self.value

    @property
    def last(self) -> float:
        """The value of the last epoch; nan where none was reported."""
        return self.epochs[max(self.epochs)] if self.epochs else math.nan

    def peak(self, direction: Direction) -> tuple[int, float]:
        """The best epoch, the earliest of equal ones, and its value; -1 and nan where none is finite."""
        finite = [(epoch, value) for epoch, value in sorted(self.epochs.items()) if math.isfinite(value)]
        return finite[direction.best_index(value for _, value in finite)] if finite else (-1, math.nan)


@dataclass(frozen=True)
class Search:
    """One search as its tool stores it.

    Args:
        tool: the tool in words, as in `Optuna study 'cnn'`.
        path: the path of its files.
        trials: its trials in order.
        metric: the optimized metric, if the tool or the user names it.
        metric_from: the source of that name.
        search_direction: the direction of the search, if it is stored.
        silence: seconds since anything was written.
        several: whether it has further objectives, so that there is no single best.
        judge: the part of the tool that stops trials early.
    """

    tool: str
    path: str
    trials: tuple[ForeignTrial, ...]
    metric: str | None = None
    metric_from: str = ""
    search_direction: Direction | None = None
    silence: float = 0.0
    several: bool = False
    judge: str = "a pruner"

    @property
    def registered(self) -> tuple[str, Direction] | None:
        """The registered metric that the name matches, with its direction."""
        return None if self.metric is None else known_direction(self.metric)

    @property
    def direction(self) -> Direction | None:
        """The direction to judge by: the metric's own, else that of the search."""
        return self.registered[1] if self.registered is not None else self.search_direction

    @property
    def complete(self) -> list[ForeignTrial]:
        """The trials that came to their end with a value."""
        return [one for one in self.trials if one.state is TrialState.COMPLETE and one.value is not None]


@dataclass(frozen=True)
class Finding:
    """Something that misleads.

    Args:
        code: one word for its kind, which `--ignore` takes.
        text: the fact.
        remedy: the action to take.
        trials: names of the trials concerned.
        place: `file:line:column`, if it is about a file.
    """

    code: str
    text: str
    remedy: str
    trials: tuple[str, ...] = ()
    place: str = ""


@dataclass(frozen=True)
class Audited:
    """The audit of one search: a description of it, and the findings."""

    what: str
    path: str
    about: tuple[str, ...]
    findings: tuple[Finding, ...]
