"""The progress of a sweep on stderr: a line per finished trial, on a terminal a table and a live line."""

from __future__ import annotations

import math
import os
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from typing import NamedTuple

from .._formatting import terminal_width, wrapped_lines
from .._text import printable, printable_lines
from ..backends.live_table import AtWork, LiveTable, print_progress
from ..backends.trial_lines import TrialLines, short_reason
from ..config.metric_section import suggest_value
from ..exceptions import HpometricsError
from ..records.trial_record import TrialRecord, TrialState, number_in
from ..results.leaderboard import params_line
from ..results.manifest import Resolved
from ..results.run_directory import RunDirectory
from ..selection.rules import Constraint
from ..selection.trial_attempts import Faults

_MAX_NAMES = 20  # of values in one warning
_PAUSE = 0.5  # seconds until the files of the trials at work are read again
_SHARE = 50  # a pause is so many times as long as the reading


class Progress:
    """A printer of the progress of a sweep.

    Args:
        resolved: the sweep.
        earlier: the records of the trials of earlier runs.
        quiet: print nothing.
        home: the run directory, with the tracebacks of the trials.
        faults: of the first trials; an error that two of them share is printed once, at the end.
    """

    def __init__(
        self,
        resolved: Resolved,
        earlier: list[TrialRecord],
        quiet: bool,
        home: RunDirectory | None = None,
        faults: Faults | None = None,
    ) -> None:
        self._home, self._faults = home, faults
        self._quiet = quiet
        finished = [record for record in earlier if record.state.finished]
        self._lines = TrialLines(
            resolved.optimized,
            resolved.beside,
            finished,
            params=partial(params_line, resolved=resolved),
            reasons=lambda record: [self._reason(record), *self._traceback(record)],
            retries=resolved.config["budget"].get("retries", 0),
        )
        budget = resolved.config["budget"]
        self._table = LiveTable(
            self._lines,
            finished,
            resolved.trials,
            budget.get("epochs") or budget.get("steps"),
            "steps" if "steps" in budget else "ep",
            self._trials_at_work,
        )
        self._at_work: list[TrialRecord] = []
        self._look_again = 0.0
        self._over = {record.number for record in finished}  # also trials of workers that joined
        self._warned = False
        self._began = datetime.now(UTC)
        self._metric = resolved.metric

    def say(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            print_progress(text)

    def complain(self, text: str) -> None:
        """Print an error, whether quiet or not, with its lines wrapped to the terminal."""
        lines = wrapped_lines(printable_lines(text), terminal_width(sys.stderr))
        print(lines, file=sys.stderr, flush=True)

    def tell(self, record: TrialRecord) -> None:
        """Print the line of a finished trial."""
        if record.state.finished:
            self._over.add(record.number)
            self._table.count(record)
        better = self._lines.add(record)
        if not self._quiet:
            self._table.print_trial(record, better)
            self._warn_of_missing(record)

    def _warn_of_missing(self, record: TrialRecord) -> None:
        """Warn of values that constraints name and the first trial to reach its end does not have."""
        if self._warned or not record.state.trained:
            return
        self._warned = True
        for text in record.constraints:
            name = Constraint.parse(text).name
            if not any(math.isfinite(number_in(epoch.values, name)) for epoch in record.epochs):
                self.say(_format_missing(text, name, record))

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show a live line at the bottom of a terminal or in a notebook; do nothing elsewhere."""
        if self._quiet:
            yield
            return
        with self._table.live():
            yield

    def _reason(self, record: TrialRecord) -> str:
        """Return why a trial failed; of an error that may end the sweep, only where it was raised."""
        if self._faults is None or self._faults.settled or record.fault is None:
            return short_reason(record)
        place = place_of(record)
        error = short_reason(record).partition(":")[0]
        return f"{error}{'' if place is None else f' at {printable(str(place))}'}"

    def _traceback(self, record: TrialRecord) -> list[str]:
        """Return the file of a failed trial's traceback; a worker that died has left none."""
        file = None if self._home is None else self._home.trial(record.number) / "error.txt"
        if self._home is None or file is None or not file.is_file():
            return []
        return [printable(str(self._home.display_path(file)))]

    def _trials_at_work(self) -> list[AtWork]:
        """Return the trials at work, read from their files again after a pause."""
        began = time.monotonic()
        if self._home is not None and began >= self._look_again:
            with suppress(OSError, HpometricsError):  # a file changes meanwhile, or is damaged
                self._at_work = self._read_trials_at_work(self._home)
            end = time.monotonic()
            self._look_again = end + max(_PAUSE, _SHARE * (end - began))
        now = datetime.now(UTC)
        return [
            AtWork(one.number, one.extent, self._age(one, now), self._last_value(one))
            for one in self._at_work
        ]

    def _last_value(self, record: TrialRecord) -> float:
        """Return the value of the last epoch, nan before the first."""
        return record.epochs[-1].number(self._metric) if record.epochs else math.nan

    def _age(self, record: TrialRecord, now: datetime) -> float:
        """Return the seconds that a trial has been at work, in this run."""
        since = self._began if record.started is None else max(self._began, record.started)
        return max(0.0, (now - since).total_seconds())

    def _read_trials_at_work(self, home: RunDirectory) -> list[TrialRecord]:
        """Read the trials that have not ended; those that now have, in any process, are counted."""
        found = [home.record(number) for number in home.numbers() if number not in self._over]
        records = [one for one in found if one is not None]
        for one in records:
            if one.state.finished:
                self._over.add(one.number)
                self._table.count(one)
        return [one for one in records if one.state is TrialState.RUNNING]


class Place(NamedTuple):
    """A line of the engine; as text its file is relative to the current folder."""

    file: str
    line: int

    def __str__(self) -> str:
        try:
            path = os.path.relpath(self.file)
        except (ValueError, OSError):  # the current folder was deleted
            path = self.file
        return f"{min(path, self.file, key=len)}:{self.line}"


def place_of(record: TrialRecord) -> Place | None:
    """Return the line at which a trial failed, if its record names it."""
    match = re.fullmatch(r"\w+ at (.+):(\d+)", record.fault or "", re.DOTALL)
    return None if match is None else Place(match[1], int(match[2]))


def _format_missing(constraint: str, name: str, record: TrialRecord) -> str:
    others = [other for other in record.picked_values if other != name]
    names = ", ".join(map(printable, others[:_MAX_NAMES])) + (" ..." if len(others) > _MAX_NAMES else "")
    why, hint = (
        f"and so will be each trial that does not report {printable(name)}",
        suggest_value(name, others),
    )
    if name in record.picked_values:
        reason = record.epochs[-1].reasons.get(name)
        because = f" ({printable(reason)})" if reason else ""
        why, hint = f"because {printable(name)} is undefined in all of its epochs{because}", ""
    return (
        f"warning: the constraint {printable(constraint)} has no value: trial {record.number} is "
        f"infeasible, {why}; there are {names}.{hint} Report it in the engine, or change the constraint; "
        "hpometrics check --probe finds this before a run"
    )
