"""A live line with the trials at work, the best so far and the time left, below a table of ended trials."""

from __future__ import annotations

import contextvars
import importlib
import math
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from .._formatting import column, duration, number, wrapped_lines
from .._imports import in_notebook
from .._text import printable, printable_lines
from ..direction import ARROWS
from ..records.trial_record import TrialRecord, TrialState
from .trial_lines import WIDTH, TrialLines, spread_of, word

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_MOST_AT_WORK = 4  # trials in the live line
_PERIOD = 0.5  # seconds between two updates of a notebook
_STYLES = {TrialState.PRUNED: "dim", TrialState.INFEASIBLE: "yellow", TrialState.FAILED: "red"}


class AtWork(NamedTuple):
    """A trial at work: its number, its epochs or steps so far, the seconds since it began, its last value."""

    number: int
    extent: int
    seconds: float
    value: float = math.nan


class LiveTable:
    """A table of the ended trials of a search and a live line below it, on a terminal or in a notebook.

    On a terminal each ended trial has a row. A notebook has the live line alone, which is updated in place.

    Args:
        lines: the best so far, and how params and reasons are printed.
        finished: the trials of earlier runs.
        total: the number of trials, if it is known.
        most: the epochs or steps of a trial, if they are known.
        unit: `ep` or `steps`.
        at_work: returns the trials at work.
    """

    def __init__(
        self,
        lines: TrialLines,
        finished: Iterable[TrialRecord],
        total: int | None,
        most: int | None,
        unit: str,
        at_work: Callable[[], Iterable[AtWork]],
    ) -> None:
        self._lines, self._total, self._most, self._unit = lines, total, most, unit
        self._read_at_work = at_work
        self._console: Console | None = None
        self._has_head = False
        self._seconds: dict[int, float] = {}
        self._states: dict[int, TrialState] = {}
        self._most_at_once = 1
        for record in finished:
            self.count(record)

    def count(self, record: TrialRecord) -> None:
        """Count a trial that has ended."""
        self._states[record.number] = record.state
        self._seconds[record.number] = record.seconds

    @contextmanager
    def live(self) -> Iterator[None]:
        """Show the live line at the bottom of a terminal or in a notebook; do nothing elsewhere."""
        if sys.stderr.isatty():
            self._console = make_console()
            try:
                with self._console.status(_LiveLine(self.text)):
                    yield
            finally:
                self._console = None
        elif (display := _notebook_display()) is not None:
            with _updated(display, self.text):
                yield
        else:
            yield

    def print_trial(self, record: TrialRecord, better: bool) -> None:
        """Print the line of an ended trial; on a terminal its row, cut to the width, and why it failed."""
        console, lines = self._console, self._lines
        if console is None:
            print_progress(lines.line(record, better))
            return
        heads = [f"{printable(name)}{ARROWS[direction]}" for name, direction in lines.directions.items()]
        beside = [*lines.directions][1:]
        cells = [spread_of(record), *(column(record.picked_values.get(name)) for name in beside)]
        head = ("trial", "state", *heads, f"{record.unit}s", "time")
        row = (str(record.number), word(record.state), *cells, str(record.extent), duration(record.seconds))
        ended = f"({record.ended_by})  " if record.ended_by else ""
        params = f"{ended}{lines.params(record.params)}{lines.retries(record)}"
        widths = [5, 11, *(max(len(name), WIDTH) for name in heads), 6, 6]
        rows = [] if self._has_head else [(head, "params", "bold")]
        self._has_head = True
        rows.append((row, params, "bold green" if better else _STYLES.get(record.state, "")))
        for texts, last, style in rows:
            text = "  ".join(f"{cell:>{width}}" for cell, width in zip(texts, widths, strict=True))
            whole = f"{text}  {last}"
            console.print(
                whole, style=style, markup=False, highlight=False, no_wrap=True, overflow="ellipsis"
            )
        if record.state is TrialState.FAILED:
            for text in lines.reasons(record):
                print_progress(wrapped_lines(f"    {text}", console.width))

    def text(self) -> str:
        """Return the live line."""
        at_work = [one for one in self._read_at_work() if one.number not in self._states]
        states = Counter(word(state) for state in list(self._states.values()))
        counts = "  ".join(f"{state} {count}" for state, count in sorted(states.items()))
        lines = self._lines
        best = "" if lines.best is None else f"  best {number(lines.best.value)} (#{lines.best.number})"
        best = f"  front {len(lines.front)}" if lines.front else best
        eta = self.seconds_left(at_work)
        remaining = "" if eta is None else f"  eta {duration(eta)}"
        done = f"{len(self._states)}{f'/{self._total}' if self._total else ''}"
        return f"{done}{best}  {counts}{remaining}{self._format_at_work(at_work)}"

    def _format_at_work(self, at_work: Sequence[AtWork]) -> str:
        most = f"/{self._most}" if self._most else ""
        texts = [
            f"#{one.number} {one.extent}{most}{'' if math.isnan(one.value) else f' ({one.value:.4g})'}"
            for one in at_work[:_MOST_AT_WORK]
        ]
        more = f" and {len(at_work) - _MOST_AT_WORK} more" if len(at_work) > _MOST_AT_WORK else ""
        return f"  at work {', '.join(texts)} {self._unit}{more}" if texts else ""

    def seconds_left(self, at_work: Sequence[AtWork]) -> float | None:
        """Return the seconds until the last trial ends; None if no trial has ended, or no total is known.

        Each trial takes as long as those that have ended on average, less what it has done already.
        """
        times = list(self._seconds.values())
        rest = 0 if self._total is None else self._total - len(times)
        if not times or rest <= 0:
            return None
        self._most_at_once = max(self._most_at_once, len(at_work))
        mean = sum(times) / len(times)
        done = sum(min(one.seconds, mean) for one in at_work[:rest])
        return (mean * rest - done) / min(self._most_at_once, rest)


class SearchProgress:
    """Follows the trials of an objective and prints nothing."""

    def reach(self, number: int, extent: int = 0, value: float = math.nan) -> None:
        """Note how many epochs or steps a trial has done, and the value of the last one."""

    def end(self, record: TrialRecord) -> None:
        """Note that a trial has ended."""

    def leave(self, number: int) -> None:
        """Note that a trial is no longer at work here, however it ended."""

    @contextmanager
    def live(self, total: int | None) -> Iterator[None]:
        """Follow a search of so many trials, if the number is known."""
        yield


class PrintedProgress(SearchProgress):
    """Prints the trials of an objective to stderr: a line each, on a terminal a table and a live line.

    Args:
        lines: how trials are printed, and the best so far.
        earlier: the trials before.
        most: the epochs or steps of a trial, if they are known.
        unit: `ep` or `steps`.
    """

    def __init__(
        self, lines: TrialLines, earlier: Iterable[TrialRecord], most: int | None, unit: str
    ) -> None:
        self._lines, self._earlier, self._most, self._unit = lines, list(earlier), most, unit
        self._reached: dict[int, tuple[int, float]] = {}
        self._began: dict[int, float] = {}
        self._table = self._make_table(None)

    def reach(self, number: int, extent: int = 0, value: float = math.nan) -> None:
        """See `SearchProgress`."""
        self._began.setdefault(number, time.monotonic())
        self._reached[number] = extent, value

    def end(self, record: TrialRecord) -> None:
        """Print a trial that has ended."""
        self.leave(record.number)
        if not record.state.finished:
            return
        better = self._lines.add(record)
        self._table.count(record)
        self._table.print_trial(record, better)

    def leave(self, number: int) -> None:
        """See `SearchProgress`."""
        self._reached.pop(number, None)
        self._began.pop(number, None)

    @contextmanager
    def live(self, total: int | None) -> Iterator[None]:
        """Show the live line of a search of so many trials."""
        self._table = self._make_table(total)
        with self._table.live():
            yield

    def _make_table(self, total: int | None) -> LiveTable:
        return LiveTable(self._lines, self._earlier, total, self._most, self._unit, self._at_work)

    def _at_work(self) -> list[AtWork]:
        now, began = time.monotonic(), dict(self._began)
        reached = dict(self._reached)
        at_work = []
        for trial, start in began.items():
            extent, value = reached.get(trial, (0, math.nan))
            at_work.append(AtWork(trial, extent, now - start, value))
        return at_work


class _LiveLine:
    """The live line, whose text rich asks for at each refresh."""

    def __init__(self, text: Callable[[], str]) -> None:
        self._text = text

    def __rich__(self) -> Text:
        from rich.text import Text  # only a terminal needs it

        return Text(self._text(), no_wrap=True, overflow="ellipsis")


def make_console() -> Console:
    """Create the console of stderr; with NO_COLOR it has no styles either, bold and dim included."""
    from rich.console import Console  # only a terminal needs it

    return Console(stderr=True, color_system=None if os.environ.get("NO_COLOR") else "auto")


def _notebook_display() -> Callable[..., Any] | None:
    """Return the function that shows an output in the notebook of this process, if it has one."""
    if not in_notebook():
        return None
    display: Callable[..., Any] = importlib.import_module("IPython.display").display
    return display


@contextmanager
def _updated(display: Callable[..., Any], text: Callable[[], str]) -> Iterator[None]:
    """Show a text in a notebook and update it in place, until its last state at the end of the block."""

    def bundle() -> Mapping[str, str]:
        return {"text/plain": printable_lines(text())}

    handle, over = display(bundle(), raw=True, display_id=True), threading.Event()

    def update() -> None:
        while not over.wait(_PERIOD):
            handle.update(bundle(), raw=True)

    # a copy of the context, by which the kernel knows the cell that an output belongs to
    thread = threading.Thread(target=contextvars.copy_context().run, args=(update,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        handle.update(bundle(), raw=True)


def print_progress(text: str) -> None:
    """Print lines to stderr; in a notebook to stdout, as it shows stderr in red."""
    print(printable_lines(text), file=sys.stdout if in_notebook() else sys.stderr, flush=True)
