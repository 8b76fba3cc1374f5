"""The progress of a sweep on stderr: a line per finished trial, on a terminal a table and a live line."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
import textwrap
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from .._formatting import column, duration, number
from .._text import printable, printable_lines
from ..backends.trial_lines import WIDTH, TrialLines, short_reason, spread_of, word
from ..config.metric_section import suggest_value
from ..direction import ARROWS
from ..exceptions import HpometricsError
from ..records.trial_record import TrialRecord, TrialState, number_in
from ..results.leaderboard import params_line
from ..results.manifest import Resolved
from ..results.run_directory import RunDirectory
from ..selection.rules import Constraint
from ..selection.trial_attempts import Faults

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text


_MAX_NAMES = 20  # of values in one warning
_MOST_AT_WORK = 4  # trials in the live line
_PAUSE = 2.0  # seconds until the files of the trials at work are read again
_SHARE = 50  # a pause is so many times as long as the reading
_STYLES = {TrialState.PRUNED: "dim", TrialState.INFEASIBLE: "yellow", TrialState.FAILED: "red"}


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
        self._resolved, self._quiet = resolved, quiet
        self._finished = [record for record in earlier if record.state.finished]
        self._lines = TrialLines(
            resolved.optimized,
            resolved.beside,
            self._finished,
            params=partial(params_line, resolved=resolved),
            reasons=lambda record: [self._reason(record), *self._traceback(record)],
            retries=resolved.config["budget"].get("retries", 0),
        )
        self._console: Console | None = None
        self._at_work, self._look_again = "", 0.0
        self._over: set[int] = set()  # trials that have ended, also those of workers that joined
        self._has_head = False
        self._warned = False
        self._before, self._began = len(self._finished), time.monotonic()

    def say(self, text: str) -> None:
        """Print a line."""
        if not self._quiet:
            print(printable_lines(text), file=sys.stderr, flush=True)

    def complain(self, text: str) -> None:
        """Print an error, whether quiet or not, with its lines wrapped to the terminal."""
        width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
        lines = printable_lines(text).split("\n")
        print(
            "\n".join(part for line in lines for part in _wrapped(line, width)), file=sys.stderr, flush=True
        )

    def tell(self, record: TrialRecord) -> None:
        """Print the line of a finished trial."""
        if record.state.finished:
            self._finished.append(record)
        better = self._lines.add(record)
        if not self._quiet:
            if self._console is None:
                self.say(self._lines.line(record, better))
            else:
                self._print_row(self._console, record, better)
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
        """Show a live line at the bottom of a terminal; do nothing elsewhere."""
        if self._quiet or not sys.stderr.isatty():
            yield
            return
        from rich.console import Console  # only a terminal needs it

        self._console = Console(stderr=True)
        with self._console.status(_LiveLine(self._live_text)):
            yield
        self._console = None

    def _print_row(self, console: Console, record: TrialRecord, better: bool) -> None:
        """Print a row of the table of a terminal, cut to its width; a failure says why below its row."""
        values = {self._resolved.metric: self._resolved.direction, **self._resolved.beside}
        heads = [f"{printable(name)}{ARROWS[direction]}" for name, direction in values.items()]
        cells = [
            spread_of(record),
            *(column(record.picked_values.get(name)) for name in self._resolved.beside),
        ]
        head = ("trial", "state", *heads, f"{record.unit}s", "time")
        row = (
            str(record.number),
            word(record.state),
            *cells,
            str(record.extent),
            duration(record.seconds),
        )
        ended = f"({record.ended_by})  " if record.ended_by else ""
        params = f"{ended}{params_line(record.params, self._resolved)}{self._lines.retries(record)}"
        widths = [5, 11, *(max(len(name), WIDTH) for name in heads), 6, 6]
        lines = [] if self._has_head else [(head, "params", "bold")]
        self._has_head = True
        lines.append((row, params, "bold green" if better else _STYLES.get(record.state, "")))
        for texts, last, style in lines:
            text = "  ".join(f"{cell:>{width}}" for cell, width in zip(texts, widths, strict=True))
            whole = f"{text}  {last}"
            console.print(
                whole, style=style, markup=False, highlight=False, no_wrap=True, overflow="ellipsis"
            )
        if record.state is TrialState.FAILED:
            for text in (self._reason(record), *self._traceback(record)):
                self.say("\n".join(_wrapped(f"    {text}", console.width)))

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

    def _live_text(self) -> str:
        states = Counter(word(record.state) for record in self._finished)
        counts = "  ".join(f"{state} {count}" for state, count in sorted(states.items()))
        total = self._resolved.trials
        lines = self._lines
        best = "" if lines.best is None else f"  best {number(lines.best.value)} (#{lines.best.number})"
        best = f"  front {len(lines.front)}" if lines.front else best
        eta = self._seconds_to_go()
        remaining = "" if eta is None else f"  eta {duration(eta)}"
        done = f"{len(self._finished)}{f'/{total}' if total else ''}"
        return f"{done}{best}  {counts}{remaining}{self._trials_at_work()}"

    def _trials_at_work(self) -> str:
        """Return the trials at work with their epochs, read from their files every few seconds."""
        began = time.monotonic()
        if self._home is not None and began >= self._look_again:
            try:
                self._at_work = self._read_trials_at_work(self._home)
            except (OSError, HpometricsError):  # a file changes meanwhile, or is damaged
                self._at_work = ""
            now = time.monotonic()
            self._look_again = now + max(_PAUSE, _SHARE * (now - began))
        return self._at_work

    def _read_trials_at_work(self, home: RunDirectory) -> str:
        self._over.update(record.number for record in self._finished)
        found = [home.record(number) for number in home.numbers() if number not in self._over]
        records = [one for one in found if one is not None and one.state is TrialState.RUNNING]
        self._over.update(one.number for one in found if one is not None and one.state.finished)
        budget = self._resolved.config["budget"]
        most = budget.get("epochs") or budget.get("steps")
        texts = [f"#{one.number} {one.extent}{f'/{most}' if most else ''}" for one in records[:_MOST_AT_WORK]]
        more = f" and {len(records) - _MOST_AT_WORK} more" if len(records) > _MOST_AT_WORK else ""
        unit = "steps" if "steps" in budget else "ep"
        return f"  at work {', '.join(texts)} {unit}{more}" if texts else ""

    def _seconds_to_go(self) -> float | None:
        now, total = len(self._finished) - self._before, self._resolved.trials
        if now == 0 or total is None or len(self._finished) >= total:
            return None
        return (time.monotonic() - self._began) / now * (total - len(self._finished))


class _LiveLine:
    """The live line, whose text rich asks for at each refresh."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def __rich__(self) -> Text:
        from rich.text import Text  # only a terminal needs it

        return Text(self._text(), no_wrap=True, overflow="ellipsis")


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


def _wrapped(line: str, width: int | None) -> list[str]:
    """Wrap a line at spaces, its further lines as far indented as it; a path stays whole."""
    if width is None or len(line) <= width:
        return [line]
    indent = " " * (len(line) - len(line.lstrip()))
    return textwrap.wrap(
        line.lstrip(),
        width,
        initial_indent=indent,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _format_missing(constraint: str, name: str, record: TrialRecord) -> str:
    others = [other for other in record.picked_values if other != name]
    names = ", ".join(map(printable, others[:_MAX_NAMES])) + (" ..." if len(others) > _MAX_NAMES else "")
    why, hint = f"as all others will be that do not report {printable(name)}", suggest_value(name, others)
    if name in record.picked_values:
        reason = record.epochs[-1].reasons.get(name)
        because = f" ({printable(reason)})" if reason else ""
        why, hint = f"as {printable(name)} is undefined in each of its epochs{because}", ""
    return (
        f"warning: the constraint {printable(constraint)} has no value: "
        f"trial {record.number} is infeasible, {why}; there are {names}."
        f"{hint} Have the engine report it, or change the constraint; "
        "hpometrics check --probe finds this before a run"
    )
