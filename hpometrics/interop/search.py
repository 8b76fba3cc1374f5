"""Search: what a tool has left of a search, in one form whatever the tool, and what was found in it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..direction import Objective
from ..records.trial_record import TrialState
from .terms import known_direction


@dataclass(frozen=True)
class Tried:
    """A trial as its tool keeps it.

    Args:
        name: its number, or what the tool calls it.
        params: that it was given.
        state: how it ended.
        value: that the tool compares; None where there is none.
        epochs: the values of the metric that were reported, by epoch.
        repeated: epochs that were reported more than once.
        infeasible: it breaks a constraint, so that it cannot be the best.
        seconds: from its beginning to its end, or until now; None where its tool does not keep it.
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
    def last(self) -> float:
        """The value of the last epoch; nan where none was reported."""
        return self.epochs[max(self.epochs)] if self.epochs else math.nan

    def peak(self, objective: Objective) -> tuple[int, float]:
        """The best epoch, the earliest of equal ones, and its value; -1 and nan where none is finite."""
        finite = [(epoch, value) for epoch, value in sorted(self.epochs.items()) if math.isfinite(value)]
        return finite[objective.best_index(value for _, value in finite)] if finite else (-1, math.nan)


@dataclass(frozen=True)
class Search:
    """What a tool has left of one search.

    Args:
        tool: in words, as in `Optuna study 'cnn'`.
        path: where it is.
        trials: in order.
        metric: what is optimized, if the tool or the user says it.
        metric_from: who says it.
        stated: the direction that the tool searched in, if it is kept.
        silence: seconds since anything was written.
        several: it has further objectives, so that there is no single best.
        judge: what would have stopped trials.
    """

    tool: str
    path: str
    trials: tuple[Tried, ...]
    metric: str | None = None
    metric_from: str = ""
    stated: Objective | None = None
    silence: float = 0.0
    several: bool = False
    judge: str = "a pruner"

    @property
    def known(self) -> tuple[str, Objective] | None:
        """The registered metric that the name says, with its direction."""
        return None if self.metric is None else known_direction(self.metric)

    @property
    def objective(self) -> Objective | None:
        """The direction to judge by: the metric's own, else the stated one."""
        return self.known[1] if self.known is not None else self.stated

    @property
    def complete(self) -> list[Tried]:
        """The trials that came to their end with a value."""
        return [one for one in self.trials if one.state is TrialState.COMPLETE and one.value is not None]


@dataclass(frozen=True)
class Finding:
    """Something that misleads.

    Args:
        code: one word for its kind, which `--ignore` takes.
        text: what is so.
        remedy: what to do.
        trials: which are concerned, by name.
        place: `file:line:column`, where it is about a file.
    """

    code: str
    text: str
    remedy: str
    trials: tuple[str, ...] = ()
    place: str = ""


@dataclass(frozen=True)
class Audited:
    """What was looked through: in words, and what was found."""

    what: str
    path: str
    about: tuple[str, ...]
    findings: tuple[Finding, ...]
