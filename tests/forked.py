"""A function or a command in a process of its own, forked from one that has loaded what it needs.

To load it takes longer than most commands; a fork of it can be injured like any other process.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import pickle
import runpy
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import cache
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from subprocess import CompletedProcess

from loaded_python import loaded_python

LONG = 300.0
"""Seconds after which a process that should have ended has hung."""

_FORKS = multiprocessing.get_context("forkserver")


@cache
def _printed() -> str:
    """The folder of what processes of these tests print; gone with this process."""
    folder = tempfile.mkdtemp(prefix="forked-")
    atexit.register(shutil.rmtree, folder)
    return folder


class Forked:
    """A process at work, with the environment of this one.

    Args:
        folder: its current folder.
        call: what it does; `sys.exit` gives its exit code.
        arguments: of the call.
        prints: a folder to whose files `out` and `err` it adds what it prints; one of its own unless given.
        python: its `sys.executable`, with which Ray starts workers; that of the tests if None.
    """

    def __init__(
        self,
        folder: Path,
        call: Callable[..., None],
        *arguments: object,
        prints: Path | None = None,
        python: Path | None = None,
    ) -> None:
        self._prints = prints or Path(tempfile.mkdtemp(dir=_printed()))
        interpreter = str(python or sys.executable)
        # What is called is unpickled in its own environment: Ray reads that when its module is imported.
        called = ForkingPickler.dumps((call, arguments)).tobytes()
        facts = (str(folder), str(self._prints), dict(os.environ), interpreter, called)
        multiprocessing.set_executable(str(loaded_python()))
        self._process = _FORKS.Process(target=_called, args=facts)
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

    def stops(self) -> bool:
        """Wait until a signal has stopped it; False if the process ends before."""
        return self.waits_for(lambda: Path(f"/proc/{self.pid}/stat").read_text().split(") ")[1][0] == "T")

    def ended(self) -> int:
        """Wait for its end and return its exit code, negative for a signal; one that hangs is killed."""
        if self.lives(LONG):
            self._process.kill()
            self._process.join()
        code = self._process.exitcode
        assert code is not None
        return code

    def result(self) -> CompletedProcess[str]:
        """Wait for its end; its exit code and what it has printed."""
        code = self.ended()
        out, err = ((self._prints / name).read_text(encoding="utf8") for name in ("out", "err"))
        return CompletedProcess([], code, out, err)

    def killed_when(self, condition: Callable[[], bool]) -> bool:
        """Kill it at a moment when something is the case; False if it ends before."""
        while self.lives(0.01):
            self.send(signal.SIGSTOP)
            if self.stops() and condition():
                self.killed()
                return True
            self.send(signal.SIGCONT)
        return False

    def killed(self) -> int:
        """Kill it at once."""
        self.send(signal.SIGKILL)
        return self.ended()


def hpometrics(
    *arguments: object, folder: Path | None = None, prints: Path | None = None, python: Path | None = None
) -> Forked:
    """Start `hpometrics ...`, in the current folder unless another is given."""
    return Forked(folder or Path.cwd(), _command, *map(str, arguments), prints=prints, python=python)


def program(file: Path, *arguments: object, folder: Path | None = None, python: Path | None = None) -> Forked:
    """Start `python FILE ...`, in the current folder unless another is given."""
    return Forked(folder or Path.cwd(), _program, str(file), *map(str, arguments), python=python)


def _command(*arguments: str) -> None:
    from hpometrics.cli.main import main

    sys.argv = ["hpometrics", *arguments]
    main(prog_name="hpometrics")


def _program(file: str, *arguments: str) -> None:
    sys.argv = [file, *arguments]
    sys.path.insert(0, str(Path(file).parent))
    runpy.run_path(file, run_name="__main__")


def _called(
    folder: str,
    prints: str,
    environment: Mapping[str, str],
    interpreter: str,
    called: bytes,
) -> None:
    os.chdir(folder)
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # which the environment names
    sys.executable = interpreter
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as in a terminal, whatever started the tests
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor, name in ((1, "out"), (2, "err")):
        file = os.open(Path(prints, name), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(file, descriptor)
        os.close(file)
    sys.stdin = open(os.devnull)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", 1, closefd=False)
    call, arguments = pickle.loads(called)
    call(*arguments)
