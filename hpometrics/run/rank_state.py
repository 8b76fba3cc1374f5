"""RankState: all that one process has of an epoch, or several of them, as the others are told it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..metrics.reports import Report
from .example_finder import FoundExamples
from .logged_values import together
from .watched_ranks import Told, over_ranks

Additives = Mapping[str, Mapping[str, Report]]
"""Additive values by split and task."""


@dataclass(frozen=True)
class RankState:
    """What one process or several counted, recorded, watched, logged and found, by split where there are any.

    `targets` are the sums of one process over the targets of its first pass; None in later epochs.
    `measured` is what one process measured; it is empty where there is no other to be told.
    """

    measured: Mapping[str, Mapping[str, Any]]
    counted: Additives
    recorded: Additives
    watched: Told
    logged: Told
    examples: Sequence[FoundExamples]
    targets: tuple[int, int] | None = None


def joined(states: Sequence[RankState]) -> RankState:
    """What processes have together, in the order of ranks, but for what they measured: panels merge that."""
    if len(states) == 1:
        return states[0]
    return RankState(
        {},
        _added_up(state.counted for state in states),
        _added_up(state.recorded for state in states),
        over_ranks([state.watched for state in states]),
        _first_of([state.logged for state in states]),
        [found for state in states for found in state.examples],
    )


def _added_up(states: Iterable[Additives]) -> Additives:
    """Add up additive values of several processes."""
    return {split: together(parts) for split, parts in by_split(states).items()}


def by_split(states: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The states of all processes that met a split, by split in one order."""
    states = list(states)
    splits = sorted({split for state in states for split in state})
    return {split: [state[split] for state in states if split in state] for split in splits}


def _first_of(logged: Sequence[Told]) -> Told:
    """Logged numbers cannot be added: the first process that has one says it, so that all stop as one."""
    values: dict[str, float] = {}
    reasons: dict[str, str] = {}
    for own, why in logged:
        reasons |= {name: reason for name, reason in why.items() if name not in values}
        values |= {name: value for name, value in own.items() if name not in values}
    return values, reasons
