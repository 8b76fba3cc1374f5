"""The list of the run directories below a folder: how each stands, its best, and when it last changed."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._formatting import aligned, duration, json_text, number
from .._imports import own_folders
from .._text import printable
from ..direction import ARROWS
from ..exceptions import HpometricsError
from ..records.trial_record import TRIAL_FILE
from .control import Control
from .run_directory import RunDirectory
from .status import Outcome

_HEAD = ("directory", "sweep", "state", "trials", "metric", "best", "trial", "age")


@dataclass(frozen=True)
class RunLine:
    """A run directory in the list.

    Args:
        directory: its path.
        age: the seconds since its last trial began or ended.
        state: `running`, `paused`, `finished`, `damaged`, or `open`: no process works on the trials left.
        outcome: its trials and the best of them; None if it is damaged.
        reason: what is damaged.
    """

    directory: Path
    age: float
    state: str
    outcome: Outcome | None = None
    reason: str | None = None

    @classmethod
    def of(cls, home: RunDirectory) -> RunLine:
        """Read a run directory."""
        files = [home.resolved, *home.path.glob(f"trials/*/{TRIAL_FILE}")]
        age = max(0.0, time.time() - max(os.lstat(file).st_mtime for file in files))
        try:
            outcome = Outcome.read(home.path)
            paused, at_work = Control.read(home).paused, home.is_at_work
        except (HpometricsError, OSError) as err:
            return cls(home.path, age, "damaged", reason=str(err))
        if outcome.resolved.is_complete(outcome.records) and not at_work:
            return cls(home.path, age, "finished", outcome)
        state = "paused" if paused else "running" if at_work else "open"
        return cls(home.path, age, state, outcome)

    def facts(self) -> dict[str, Any]:
        """Return the line as plain JSON; `best` as in `best.yaml`."""
        facts = {"directory": str(self.directory), "state": self.state, "age": round(self.age, 1)}
        return facts | ({"reason": self.reason} if self.outcome is None else self.outcome.facts())

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags of the sweep."""
        return () if self.outcome is None else self.outcome.resolved.annotation.tags

    def cells(self) -> tuple[str, ...]:
        """Return the line as cells of the table."""
        place, age = printable(str(self.directory)), f"{duration(self.age)} ago"
        if self.outcome is None:
            return place, "-", self.state, "-", "-", "-", "-", age
        resolved, records, best = self.outcome.resolved, self.outcome.records, self.outcome.best
        done = sum(record.state.finished for record in records)
        trials = f"{done}/{resolved.trials}" if resolved.trials else str(done)
        value = "-" if best is None else f"{number(best.value)} {ARROWS[best.direction]}"
        which = "-" if best is None else str(best.trial)
        return (
            place,
            printable(resolved.name),
            self.state,
            trials,
            printable(resolved.metric),
            value,
            which,
            age,
        )


def list_runs(folder: Path, tags: Collection[str] = ()) -> list[RunLine]:
    """Return a line for each run directory at or below a folder, the one that changed last first.

    Hidden folders, links and what lies in a run directory are left out.

    Args:
        folder: the folder.
        tags: only sweeps that have all of these tags.
    """
    wanted, lines = set(tags), map(RunLine.of, _run_directories(folder))
    return sorted((line for line in lines if wanted <= set(line.tags)), key=lambda line: line.age)


def runs_text(lines: list[RunLine], folder: Path, tags: Collection[str] = ()) -> str:
    """Return the list as a table; below it, what is damaged."""
    if not lines:
        wanted = f" with tag {' and '.join(tags)}" if tags else ""
        return f"no run directory{wanted} at or below {folder}"
    damaged = [f"{line.directory}: {line.reason}" for line in lines if line.outcome is None]
    table = [_HEAD, *(line.cells() for line in lines)]
    if any(line.tags for line in lines):
        column = ("tags", *(" ".join(line.tags) for line in lines))
        table = [(*cells, text) for cells, text in zip(table, column, strict=True)]
    return "\n".join([aligned(table, "<"), *damaged])


def runs_json(lines: list[RunLine]) -> str:
    """Return the list as JSON text."""
    return json_text([line.facts() for line in lines])


def _run_directories(folder: Path) -> Iterator[RunDirectory]:
    for path, folders, files in os.walk(folder):
        home = RunDirectory(Path(path))
        if home.resolved.name in files:
            yield home
            folders.clear()
        folders[:] = own_folders(folders)
