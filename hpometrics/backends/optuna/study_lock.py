"""The lock of a study: sections that one process at a time executes, repeated if the lock is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from threading import local
from typing import Any, ParamSpec, TypeVar

from optuna.exceptions import StorageInternalError
from optuna.storages import BaseStorage

P = ParamSpec("P")
T = TypeVar("T")


class TurnLostError(StorageInternalError):
    """The lock of a study was lost with its connection: what was done under it has to be done again."""


class Thread(local):
    """State of a thread that its storage calls share.

    Attributes:
        lock: the connection by which the thread has locked a study.
        locked: the engine of the database and the key of that study.
        calls: whether it is in a call that makes others.
        waits: whether its calls are repeated.
        making: the mark of the trial that it makes, once more for each time that it has tried.
    """

    def __init__(self) -> None:
        self.lock: Any = None
        self.locked: tuple[Any, Any] | None = None
        self.calls, self.waits = False, True
        self.making: list[str] = []


thread = Thread()


def repeats_turn(section: Callable[P, T]) -> Callable[P, T]:
    """Repeat a section that has lost its lock; each of its effects may happen twice.

    It comes to an end: whoever takes the lock waits for the database, and gives up after a while. A section
    within another has no lock of its own to take again, so the outer one is repeated.
    """

    @wraps(section)
    def again(*args: P.args, **kwargs: P.kwargs) -> T:
        while True:
            try:
                return section(*args, **kwargs)
            except TurnLostError:
                if thread.lock is not None:
                    raise

    return again


def repeated(storage: BaseStorage, call: Callable[[], T]) -> T:
    """Call a function that reads a storage directly; a `ReconnectingStorage` repeats it as its own calls."""
    repeat = getattr(storage, "repeated", None)
    return call() if repeat is None else repeat(call)


@contextmanager
def at_once() -> Iterator[None]:
    """Do not repeat calls of this thread, for callers that try again by themselves."""
    thread.waits = False
    try:
        yield
    finally:
        thread.waits = True
