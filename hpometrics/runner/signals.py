"""The signals that ask a sweep to stop, raised as interrupts, the exit code of each, and a sudden end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from types import FrameType

from ..exceptions import ConfigError, HpometricsError

CTRL_C = 130
_SECONDS = 0.5
"""The time between two checks for a stop request."""
_signals: list[int] = []
"""The signals that were raised: compiled code such as Ray's replaces an `Interrupt` by KeyboardInterrupt."""


_NOTICE = 'read -r end || printf "%s\n" "$0" >&2'
"""A command of a shell: its text is printed unless a line comes before the end of the input."""
_CURSOR = "\x1b[?25h\n"  # shown again: a live line hides it


class Interrupt(KeyboardInterrupt):
    """A signal that asks to stop like Ctrl-C: SIGTERM of a scheduler, SIGHUP of a closed terminal.

    Attributes:
        code: the exit code of a process that the signal ended, 128 plus its number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code of an interrupted command.

    >>> exit_code(KeyboardInterrupt()), exit_code(Interrupt(signal.SIGTERM))
    (130, 143)
    """
    if isinstance(interrupt, Interrupt):
        return interrupt.code
    return 128 + _signals[-1] if _signals else CTRL_C


def check_posix(command: str) -> None:
    """Raise on a system that lacks the process groups, signals and file locks that a sweep needs."""
    if not hasattr(os, "killpg"):
        raise ConfigError(
            f"{command} needs a POSIX system such as Linux, got {sys.platform}; use WSL or a container, or "
            "use an OptunaObjective in Python"
        )


@contextmanager
def before_first_trial() -> Iterator[None]:
    """Print a line for a Ctrl-C within the block, before it is raised.

    In the middle of an import a Ctrl-C may come out as any error, or be swallowed; it is raised all the same.
    """
    received: list[int] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    handles = threading.current_thread() is threading.main_thread() and before is signal.default_int_handler
    if handles:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except BaseException as err:
        if not received and not isinstance(err, KeyboardInterrupt):
            raise
        received.append(signal.SIGINT)
    finally:
        if handles:
            signal.signal(signal.SIGINT, before)
    if received:
        print("interrupted before the first trial; nothing was run", file=sys.stderr, flush=True)
        raise KeyboardInterrupt


@contextmanager
def raising_interrupts() -> Iterator[None]:
    """Raise `Interrupt` at each SIGTERM and SIGHUP; signals that `nohup` or others ignore stay ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may handle signals
        return
    numbers = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    _signals.clear()
    with ExitStack() as before:
        for number in numbers:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before.callback(signal.signal, number, signal.signal(number, _raise))
        yield


@contextmanager
def terminated_when(asked: Callable[[], bool]) -> Iterator[None]:
    """Send this process a SIGTERM once another one asks for it, if `raising_interrupts` catches that.

    Args:
        asked: called twice a second in a thread.
    """
    if signal.getsignal(signal.SIGTERM) is not _raise:
        yield
        return
    over = threading.Event()

    def watch() -> None:
        while not over.wait(_SECONDS):
            with suppress(HpometricsError, OSError):  # of a file that cannot be read now
                if asked():
                    os.kill(os.getpid(), signal.SIGTERM)
                    return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@contextmanager
def end_noticed(text: str) -> Iterator[None]:
    """Have a text printed to stderr if the process ends within the block, by its engine, a crash or a kill.

    A shell prints it, which waits for a line from the end of the block; without a shell nothing is printed.
    """
    cursor = _CURSOR if sys.stderr.isatty() else ""
    shell = None
    with suppress(OSError):
        shell = subprocess.Popen(
            ["sh", "-c", _NOTICE, f"{cursor}{text}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
    try:
        yield
    finally:
        if shell is not None:
            shell.communicate(b"\n")


def _raise(number: int, frame: FrameType | None) -> None:
    _signals.append(number)
    raise Interrupt(number)
