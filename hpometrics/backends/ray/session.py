"""The session of a Ray that is started here: its private directory, and what Ray changes in this process."""

from __future__ import annotations

import os
import signal
import stat
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ...exceptions import ConfigError
from ...records._files import make_private

VALUE = "value"
PICKED = "picked"
EPOCH = "epoch"
FINAL = "final"
VALUES = "values"
VOID = "void"
FULL = "full"
CHECKPOINT_SCORE = "checkpoint_score"
"""Beside a checkpoint: its epoch, from 1, if that is the picked one, else 0; so the picked epoch has the
greatest."""
TAKEN = frozenset(
    {
        *(VALUE, PICKED, EPOCH, FINAL, VALUES, VOID, FULL, CHECKPOINT_SCORE),
        *("done", "config", "trial_id", "training_iteration"),
    }
)

NUMBER, PARAMS = "number", "params"
GIVEN = "given"
"""The params that a trial began with, where those in force are others."""
DONOR, SINCE = "donor", "since"
"""Of a trial that has just exploited another: whose state it goes on from, and from which epoch on."""


_LEFT_BY_RAY = ("PYTHONBREAKPOINT", "TUNE_RESULT_BUFFER_LENGTH", "CRC32C_SW_MODE")
"""The environment variables that Ray, Tune or what they load set in this process.

`RAY_AUTH_MODE` stays as Ray sets it: by it child processes can join a Ray that asks for a token.
"""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGUSR1")
"""The signals for which Ray or Tune sets handlers of its own."""
_SHORT = 24  # characters of a folder below which Ray's sockets have names of at most 107


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables; afterwards they, and those that Ray sets, are what they were before."""
    before = {name: os.environ.get(name) for name in (*settings, *_LEFT_BY_RAY)}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextmanager
def signal_handlers() -> Iterator[None]:
    """Restore the signal handlers of this process afterwards; only the main thread can set any."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: it was not set by Python, which cannot set it again
                signal.signal(number, handler)


def session_arguments() -> dict[str, Any]:
    """What `ray.init` is told of a cluster that it starts; a place that `RAY_TMPDIR` names stands.

    Ray makes its own directory one that every user may write in, so it is put into a private one.

    Raises:
        ConfigError: Ray is told to ask nobody for a token, or the private directory is not private.
    """
    if os.environ.get("RAY_AUTH_MODE", "").lower() == "disabled":
        raise ConfigError(
            "RAY_AUTH_MODE=disabled lets whoever reaches this machine run code by Ray; unset it, then Ray "
            "asks for a token"
        )
    if os.name != "posix" or "RAY_TMPDIR" in os.environ:
        return {}
    folder = tempfile.gettempdir()
    home = Path(folder if len(folder) <= _SHORT else "/tmp") / f"hpometrics-{os.getuid()}"
    if not home.is_file():
        make_private(home)
    _check_private(home)
    return {"_temp_dir": str(home / "ray")}


def _check_private(home: Path) -> None:
    facts = home.lstat()
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise ConfigError(
            f"{home}: is not a directory of this user alone, as Ray's files want; remove it, or name another "
            "place by RAY_TMPDIR"
        )
