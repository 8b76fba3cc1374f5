"""Ranks: the processes of a run, which exchange what each makes by one collective; if one fails, all fail."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from .._text import text_of
from ..exceptions import RankError, RunError
from ..metrics._device import process, world_size

T = TypeVar("T")

_FIRST = 0


class Ranks:
    """The default process group as it was when the run was created.

    Attributes:
        leads: whether this is the first rank, which alone writes files and has a host.
        alone: whether there is no other rank.
    """

    def __init__(self) -> None:
        self._count, self._own = world_size(), process()
        self.leads, self.alone = self._own == _FIRST, self._count == 1

    def own_of(self, each: Sequence[T]) -> T | None:
        """Return the item of this rank; None if there were fewer ranks then."""
        return each[self._own] if self._own < len(each) else None

    def gather(self, make: Callable[[], T]) -> list[T]:
        """Return what every rank makes, in the order of ranks, by one collective. If one fails, all fail.

        Raises:
            Exception: what `make` raised, on its own rank.
            RankError: it raised on another rank, or another rank is gone.
            RunError: the process group has changed since the run was created.
        """
        if self.alone and world_size() == 1:
            return [make()]
        self._check_group()
        value, failure = _try_make(make)
        answers: list[Any] = [None] * self._count
        self._collect(lambda: torch.distributed.all_gather_object(answers, (value, _format_failure(failure))))
        if failure is not None:
            raise failure
        for rank, (_, reason) in enumerate(answers):
            if reason is not None:
                raise RankError(f"rank {rank} failed: {reason}")
        return [each for each, _ in answers]

    def from_first(self, make: Callable[[], T]) -> T:
        """Return on every rank what the first rank makes, by one collective.

        Raises:
            Exception, RankError, RunError: as in `gather`.
        """
        if self.alone and world_size() == 1:
            return make()
        self._check_group()
        value, failure = _try_make(make) if self.leads else (None, None)
        message: list[Any] = [(value, _format_failure(failure))]
        self._collect(lambda: torch.distributed.broadcast_object_list(message, src=_FIRST))
        if failure is not None:
            raise failure
        result, reason = message[0]
        if reason is not None:
            raise RankError(f"rank {_FIRST} failed: {reason}")
        return result  # type: ignore[no-any-return]  # it comes as it was made

    def _check_group(self) -> None:
        if world_size() != self._count:
            raise RunError(
                f"the run was created in a group of {self._count} processes, but now there are "
                f"{world_size()}; create it after init_process_group and close it before "
                "destroy_process_group"
            )

    def _collect(self, collective: Callable[[], object]) -> None:
        try:
            collective()
        except RuntimeError as err:  # whatever the backend makes of a peer that does not answer
            raise RankError(f"rank {self._own} timed out while waiting for the other ranks: {err}") from err


def _try_make(make: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return make(), None
    except BaseException as err:  # the other ranks learn of it before it is raised
        return None, err


def _format_failure(failure: BaseException | None) -> str | None:
    return None if failure is None else f"{type(failure).__name__}: {failure}"


def sendable(stop: BaseException) -> BaseException:
    """Return a host's stop as every rank can raise it: as a `RankError` if it does not pickle."""
    try:
        pickle.loads(pickle.dumps(stop))
    except Exception as err:  # what a class of exceptions does when it is pickled is its own affair
        return RankError(f"{type(stop).__name__}: {text_of(stop)} (which cannot be sent: {err})")
    return stop
