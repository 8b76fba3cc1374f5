"""EpochLogger, the protocol of a logger, and the state of a run that it receives."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ..records.trial_record import EpochRecord  # which `check` need not load


@dataclass(frozen=True)
class Standing:
    """The state of a run as its loggers see it. The sequences grow with the run; copy what you keep.

    Attributes:
        metric: the name of what is optimized.
        given: the params of the run itself; a logger reads `params`.
        directory: the trial's own; None if the run keeps nothing on disk.
        history: every closed epoch in order, those before a restart included.
        picks: for each of them, the epoch whose value counted by then; None where none had a finite value.
        impatience: epochs since the last improvement.
        complete: whether the run has come to its end; one that failed or was stopped has not.
    """

    metric: str
    given: Mapping[str, Any]
    directory: Path | None
    history: Sequence[EpochRecord]
    picks: Sequence[int | None]
    impatience: int = 0
    complete: bool = False

    @property
    def params(self) -> dict[str, Any]:
        """A copy of the params of the run: nobody else sees what a logger changes in it."""
        return deepcopy(dict(self.given))

    @property
    def picked(self) -> int | None:
        """The epoch whose value counts so far."""
        return self.picks[-1] if self.picks else None

    def value_at(self, index: int) -> float | None:
        """Return the value that counted when the epoch at this index of the history had closed."""
        pick = self.picks[index]
        value = math.nan if pick is None else self.history[pick].number(self.metric)
        return value if math.isfinite(value) else None


class EpochLogger(Protocol):
    """Follows runs. One object may follow several, one after the other; a class is made anew for each.

    On Ray each trial has a copy of its own, in the worker.

    What it raises ends the trial as failed, with the logger's name; the record and the other loggers
    already have the epoch.
    """

    def begin(self, run: Standing) -> None:
        """Begin before the first epoch is logged.

        For a run that resumes after a kill, `run.history` has the epochs already done. Whatever was logged of
        this run earlier is void: it may hold epochs that the run will repeat.
        """

    def epoch(self, run: Standing) -> None:
        """Log the epoch that has just closed, `run.history[-1]`."""

    def end(self, run: Standing) -> None:
        """Close what is open; `run.complete` says how the run ended."""
