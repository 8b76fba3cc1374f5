"""The exchange between the processes of a run: gathered states and the decision of the first rank."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from .._text import text_of
from ..exceptions import RankError, RunError
from ..metrics._device import process, world_size
from ..metrics.reports import Report
from .example_finder import RankExamples
from .logged_values import together
from .monitor import RankValues, over_ranks

T = TypeVar("T")

_FIRST = 0

Additives = Mapping[str, Mapping[str, Report]]
"""Additive values by split and task."""


@dataclass(frozen=True)
class Decision:
    """The decision of the first rank at the end of an epoch, which all ranks carry out.

    Attributes:
        steering: the optimized value, and those that constraints bound, as the first rank has them.
        over: no epoch follows.
        final: the epoch was reported as the final one.
        stop: the host's stop.
        counterpart: what the other ranks call while the first one reports to a host that needs all ranks.
    """

    steering: Mapping[str, float]
    over: bool
    final: bool
    stop: BaseException | None = None
    counterpart: Callable[[], None] | None = None


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
        self._check_group()
        if self.alone:
            return [make()]
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
        self._check_group()
        if self.alone:
            return make()
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
                f"the run was created in a group of {self._count} processes, and now there are "
                f"{world_size()}; create it after init_process_group, close it before destroy_process_group"
            )

    def _collect(self, collective: Callable[[], object]) -> None:
        try:
            collective()
        except RuntimeError as err:  # whatever the backend makes of a peer that does not answer
            raise RankError(f"rank {self._own} waited in vain for the other ranks: {err}") from err


def sendable(stop: BaseException) -> BaseException:
    """Return a host's stop as every rank can raise it: as a `RankError` if it does not pickle."""
    try:
        pickle.loads(pickle.dumps(stop))
    except Exception as err:  # what a class of exceptions does when it is pickled is its own affair
        return RankError(f"{type(stop).__name__}: {text_of(stop)} (which cannot be sent: {err})")
    return stop


def _try_make(make: Callable[[], T]) -> tuple[T | None, BaseException | None]:
    try:
        return make(), None
    except BaseException as err:  # the other ranks learn of it before it is raised
        return None, err


def _format_failure(failure: BaseException | None) -> str | None:
    return None if failure is None else f"{type(failure).__name__}: {failure}"


@dataclass(frozen=True)
class RankState:
    """The counts, records, logs, watched values and examples of one or several processes, by split.

    `targets` are the sums of one process over the targets of its first pass; None in later epochs.
    `measured` is what one process measured; it is empty if there is no other process. `random` are the random
    states of one process; None unless the epoch is checkpointed.
    """

    measured: Mapping[str, Mapping[str, Any]]
    counts: Additives
    recorded: Additives
    watched: RankValues
    logged: RankValues
    examples: Sequence[RankExamples]
    targets: tuple[int, int] | None = None
    random: Any = None


def combine_states(states: Sequence[RankState]) -> RankState:
    """Combine the states of processes in the order of ranks, except `measured`, which the splits merge."""
    if len(states) == 1:
        return states[0]
    return RankState(
        {},
        _add_up(state.counts for state in states),
        _add_up(state.recorded for state in states),
        over_ranks([state.watched for state in states]),
        _first_values([state.logged for state in states]),
        [examples for state in states for examples in state.examples],
    )


def _add_up(states: Iterable[Additives]) -> Additives:
    """Add up additive values of several processes."""
    return {split: together(parts) for split, parts in by_split(states).items()}


def by_split(states: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return the states of all processes that met a split, by split, sorted."""
    states = list(states)
    splits = sorted({split for state in states for split in state})
    return {split: [state[split] for state in states if split in state] for split in splits}


def _first_values(logged: Sequence[RankValues]) -> RankValues:
    """Return the logged values of the first process that has each: they cannot be added."""
    values: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for own, why in logged:
        reasons |= {name: reason for name, reason in why.items() if name not in values}
        values |= {name: value for name, value in own.items() if name not in values}
    return values, reasons
