"""A function in a process of its own, forked from one that has loaded what the functions need.

To load it takes longer than most faults; a fork of it can be injured like any other process.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

LONG = 300.0
"""Seconds after which a process that should have ended has hung."""

_LOADED = [
    "hpometrics.cli",
    "hpometrics.sweep.worker",
    "hpometrics.sweep.studies",
    "optuna.storages._rdb.storage",
    "optuna.storages._rdb.models",
    "alembic.command",
    "alembic.migration",
    "alembic.script",
    "sqlalchemy.dialects.sqlite",
]
_FORKS = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(_LOADED)


def load_ray_too() -> None:
    """Have Ray loaded as well, before the first process is made."""
    _FORKS.set_forkserver_preload([*_LOADED, "hpometrics.sweep.on_ray"])


class Forked:
    """A process at work.

    Args:
        folder: its current folder; what it prints is added to the files `out` and `err` there.
        call: what it does; `sys.exit` gives its exit code.
        arguments: of the call.
    """

    def __init__(self, folder: Path, call: Callable[..., None], *arguments: object) -> None:
        self._process = _FORKS.Process(target=_called, args=(str(folder), call, arguments))
        self._process.start()
        self.pid = self._process.pid or 0

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it is still there."""
        if self._process.exitcode is None:
            os.kill(self.pid, number)

    def lives(self, seconds: float) -> bool:
        """Wait so long for its end; say whether it is still there."""
        self._process.join(seconds)
        return self._process.exitcode is None

    def waits_for(self, condition: Callable[[], bool]) -> bool:
        """Wait until something is the case; False if the process ends before."""
        while not condition():
            if not self.lives(0.01):
                return condition()
        return True

    def ended(self) -> int:
        """Wait for its end and return its exit code, negative for a signal; one that hangs is killed."""
        if self.lives(LONG):
            self._process.kill()
            self._process.join()
        code = self._process.exitcode
        assert code is not None
        return code

    def kill_child(self, pid: int) -> None:
        """Kill a process that it has started."""
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()
        assert str(pid) in children
        os.kill(pid, signal.SIGKILL)

    def killed(self) -> int:
        """Kill it at once."""
        self.send(signal.SIGKILL)
        return self.ended()


def _called(folder: str, call: Callable[..., None], arguments: tuple[object, ...]) -> None:
    os.chdir(folder)
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as in a terminal, whatever started the tests
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor, name in ((1, "out"), (2, "err")):
        file = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    sys.stdin = open(os.devnull)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", 1, closefd=False)
    call(*arguments)
