"""What may lie in the place of a file of a record, and an end to whoever waits for it or swallows it."""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest
from matrix import EXHAUSTIVE

SECRET = "d41d8cd98f00b204"
"""What stands in a file that a link leads to."""
ON_LINUX = pytest.mark.skipif(
    not Path("/proc/self/statm").exists(), reason="the limit is set from what Linux says"
)


def _link_outside(path: Path, outside: Path) -> None:
    """Link to a file of the user, or for a directory to one with such files."""
    if path.is_dir():
        outside.mkdir()
        for name in ("trial.json", "epochs.jsonl", "result.json"):
            (outside / name).write_text(f"{SECRET}\n")
    else:
        outside.write_text(f"{SECRET}\n")
    put_away(path)
    path.symlink_to(outside)


def put_away(path: Path) -> None:
    """Take away what is there; a directory is left beside its place."""
    if path.is_file():
        path.unlink()
    elif path.is_dir():
        path.rename(path.with_name(f"{path.name}.there"))


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 << 30)


MADE: dict[str, Callable[[Path], None]] = {
    "a pipe": os.mkfifo,
    "a file of 8 GiB": _sparse,
    "a link to a device": lambda path: path.symlink_to("/dev/zero"),
    "a directory": Path.mkdir,
}
INTRUDERS = ("a pipe", "a link outside", "a file of 8 GiB", "a link to a device", "a directory")
EACH = [pytest.param(name, marks=EXHAUSTIVE if n > 2 else ()) for n, name in enumerate(INTRUDERS)]


@contextmanager
def bounded(seconds: float = 20, memory: int = 3 << 30) -> Iterator[None]:
    """Fail what waits, or takes memory without end, where it would otherwise hang the tests."""

    def refuse(*_: Any) -> NoReturn:
        raise AssertionError(f"it has not ended after {seconds} seconds")

    taken = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    limits = resource.getrlimit(resource.RLIMIT_AS)
    handler = signal.signal(signal.SIGALRM, refuse)
    resource.setrlimit(resource.RLIMIT_AS, (taken + memory, limits[1]))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_AS, limits)
        signal.signal(signal.SIGALRM, handler)


def put(intruder: str, path: Path, outside: Path) -> None:
    """Put something in the place of a file or a directory; a link leads outside."""
    if intruder == "a link outside":
        return _link_outside(path, outside)
    put_away(path)
    MADE[intruder](path)
