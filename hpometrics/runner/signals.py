"""Interrupts: the signals that ask a sweep to stop, raised where it works, and the exit code of each."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType

CTRL_C = 130
_heard: list[
    int
] = []  # signals that were raised; compiled code, as Ray's, raises a bare KeyboardInterrupt then


class Interrupt(KeyboardInterrupt):
    """A signal that asks to stop as Ctrl-C does: SIGTERM of a scheduler, SIGHUP of a terminal that closes.

    Attributes:
        code: what a shell calls a process that the signal ended: 128 and its number.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


def exit_code(interrupt: KeyboardInterrupt) -> int:
    """Return the exit code that tells what has interrupted a command.

    >>> exit_code(KeyboardInterrupt()), exit_code(Interrupt(signal.SIGTERM))
    (130, 143)
    """
    if isinstance(interrupt, Interrupt):
        return interrupt.code
    return 128 + _heard[-1] if _heard else CTRL_C


@contextmanager
def raising_interrupts() -> Iterator[None]:
    """Raise `Interrupt` at each SIGTERM and SIGHUP; what is ignored (as `nohup` has it) stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return
    asking = [signal.SIGTERM, *([signal.SIGHUP] if hasattr(signal, "SIGHUP") else [])]
    _heard.clear()
    with ExitStack() as before:
        for number in asking:
            if signal.getsignal(number) is not signal.SIG_IGN:
                before.callback(signal.signal, number, signal.signal(number, _raise))
        yield


def _raise(number: int, frame: FrameType | None) -> None:
    _heard.append(number)
    raise Interrupt(number)
