"""A row of the table: one piece of work, done here and by a peer or the floor, in turns.

A row is a function that draws its data and returns two measures, ours and theirs, which take no arguments and
return the values that have to agree. `size` makes an amount as small as asked for, so that a test can run
every row in a second.
"""

from __future__ import annotations

import ctypes
import gc
import os
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

Values = float | Sequence[float] | np.ndarray
Measure = Callable[[], Values]
Size = Callable[[int], int]
Make = Callable[[Size], tuple[Measure, Measure]]

MIB = 1 << 20


@dataclass(frozen=True)
class Row:
    """A piece of work and what is expected of it.

    Args:
        name: Its name in the table and for `--only`.
        work: The work, with its sizes.
        peer: Who does the same; a package or the floor.
        wanted: The CPU time of ours in the peer's, at most; with `unit`, microseconds beside the peer's.
        metrics: The metrics that it measures.
        make: Draws the data and returns ours and theirs.
        tolerance: How far the values may be apart, relative.
        unit: How many pieces one measure does, if the figure is microseconds for each.
        memory: MiB beyond the data that ours may take at its peak.
        turns: How often both are measured.
        in_children: Whether the work is done by processes that both measures start.
    """

    name: str
    work: str
    peer: str
    wanted: float
    metrics: tuple[str, ...]
    make: Make
    tolerance: float = 1e-6
    unit: int | None = None
    memory: float | None = None
    turns: int = 5
    in_children: bool = False


@dataclass(frozen=True)
class Figure:
    """The result of a row."""

    row: Row
    ours: float
    theirs: float
    value: float
    """The median over turns of the ratio, or of the microseconds that ours takes beside."""
    memory: float | None = None
    """MiB of ours beyond the data, at the peak."""
    their_memory: float | None = None

    @property
    def missed(self) -> bool:
        """Whether the row takes more than is wanted."""
        too_much = self.row.memory is not None and self.memory is not None and self.memory > self.row.memory
        return self.value > self.row.wanted or too_much


ROWS: dict[str, Row] = {}


def row(
    name: str,
    work: str,
    *,
    peer: str,
    wanted: float,
    metrics: str = "",
    tolerance: float = 1e-6,
    unit: int | None = None,
    memory: float | None = None,
    turns: int = 5,
    in_children: bool = False,
) -> Callable[[Make], Make]:
    """Add a row to the table; the arguments are those of `Row`."""

    def add(make: Make) -> Make:
        if name in ROWS:
            raise ValueError(f"two rows have the name {name!r}")
        measured = tuple(metrics.split())
        ROWS[name] = Row(
            name, work, peer, wanted, measured, make, tolerance, unit, memory, turns, in_children
        )
        return make

    return add


def cpu_seconds() -> float:
    """Return the CPU seconds of this process and of the children that it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def seconds_of(measure: Measure, in_children: bool = False) -> float:
    """Return the CPU seconds of one measure, or of the processes that it starts."""
    clock = cpu_seconds if in_children else time.process_time
    start = clock()
    measure()
    return clock() - start


def check_values(row: Row, ours: Values, theirs: Values) -> None:
    """Check that both give the same values.

    Raises:
        SystemExit: They do not, so that their times cannot be compared.
    """
    left, right = (np.atleast_1d(np.asarray(values, dtype=float)) for values in (ours, theirs))
    if left.shape != right.shape or not np.allclose(left, right, row.tolerance, 1e-12, equal_nan=True):
        raise SystemExit(f"{row.name}: {left} here, {right} by {row.peer}")


def figure_of(row: Row, size: Size, turns: int | None = None, memory: bool = False) -> Figure:
    """Measure a row: values first, then both in turns, then the memory of each in a fork of its own.

    Raises:
        ImportError: The peer is not installed.
        SystemExit: The values differ.
    """
    ours, theirs = row.make(size)
    check_values(row, ours(), theirs())
    pairs = []
    for turn in range(turns or row.turns):
        gc.collect()
        if turn % 2:
            there = seconds_of(theirs, row.in_children)
            pairs.append((seconds_of(ours, row.in_children), there))
        else:
            here = seconds_of(ours, row.in_children)
            pairs.append((here, seconds_of(theirs, row.in_children)))
    here, there = (statistics.median(column) for column in zip(*pairs, strict=True))
    if row.unit is None:
        value = statistics.median(a / b for a, b in pairs)
    else:
        value = statistics.median(a - b for a, b in pairs) / row.unit * 1e6
    if not memory:
        return Figure(row, here, there, value)
    peaks = (None, None) if row.in_children else (peak(ours), peak(theirs))
    return Figure(row, here, there, value, *peaks)


def resident(mark: str) -> float:
    """Return the MiB that are resident now (`VmRSS`, of files `RssFile`) or were at most (`VmHWM`)."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{mark}:")[2].split()[0]) / 1024


def peak(measure: Measure) -> float | None:
    """Return the MiB beyond the data at the peak of one measure in a fork, None where a fork cannot tell.

    Pages of code, which a fork reads again, are subtracted.
    """
    if not sys.platform.startswith("linux"):
        return None
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        code = 1
        try:
            gc.collect()
            ctypes.CDLL("libc.so.6").malloc_trim(0)
            Path("/proc/self/clear_refs").write_text("5")
            before = resident("VmRSS") - resident("RssFile")
            measure()
            os.write(writer, f"{resident('VmHWM') - resident('RssFile') - before}".encode())
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        answer = pipe.read()
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
        raise SystemExit("a measure failed in its fork; its error stands above")
    return float(answer)


@contextmanager
def quiet() -> Iterator[None]:
    """One thread, and no warnings of peers about their data."""
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
