"""Shelf: outputs by prefix, each made by one thread while the others wait, kept as long as a keeper says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import Any

from .prefixes import Keeper, Prefix, Prefixes


class Shelf:
    """A store of outputs with a single flight per prefix.

    Whoever asks first makes the output. If that fails, all who wait see the error, nothing is kept, and who
    asks next tries again.
    """

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper
        self._lock = threading.Lock()
        self._flights: dict[Prefix, Future[Any]] = {}

    def __len__(self) -> int:
        return len(self._flights)

    def get(self, prefix: Prefix, make: Callable[[], Any]) -> Any:
        """Return an output that is here, that another thread is making, or that `make` returns."""
        flight: Future[Any] = Future()
        with self._lock:
            first = self._flights.setdefault(prefix, flight)
            self._keeper.touched(prefix)
        return self._made(prefix, flight, make) if first is flight else first.result()

    def leave(self, prefixes: Prefixes) -> bool:
        """Take note that a candidate is through; return whether it was the last to come for this."""
        with self._lock:
            gone = self._keeper.done(prefixes)
            self._drop(gone)
        return prefixes.serving in gone

    def _made(self, prefix: Prefix, flight: Future[Any], make: Callable[[], Any]) -> Any:
        try:
            made = make()
        except BaseException as err:
            with self._lock:
                self._drop([prefix])
            flight.set_exception(err)
            raise
        flight.set_result(made)
        with self._lock:
            self._drop(self._keeper.made(prefix))
        return made

    def _drop(self, prefixes: Iterable[Prefix]) -> None:
        for prefix in prefixes:
            self._flights.pop(prefix, None)
