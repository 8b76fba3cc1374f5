"""RankState: all that one process has of an epoch, in the form in which the others are told."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ..metrics.report import Report
from .examples.finder import FoundExamples
from .logged import State as Logged
from .recorded import together
from .watched_ranks import Told as Watched

Additives = Mapping[str, Mapping[str, Report]]
"""Additive values by split and task."""


@dataclass(frozen=True)
class RankState:
    """What one process measured, counted, recorded, watched and logged, by split where there are several.

    `measured` is empty where there is no other process to be told.
    """

    measured: Mapping[str, Mapping[str, Any]]
    counted: Additives
    recorded: Additives
    watched: Watched
    logged: Logged
    examples: FoundExamples | None


def added_up(states: Iterable[Additives]) -> Additives:
    """Add up additive values of several processes."""
    return {split: together(parts) for split, parts in by_split(states).items()}


def by_split(states: Iterable[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The states of all processes that met a split, by split in one order."""
    states = list(states)
    splits = sorted({split for state in states for split in state})
    return {split: [state[split] for state in states if split in state] for split in splits}


def first_of(logged: Iterable[Logged]) -> tuple[dict[str, float], dict[str, str]]:
    """Logged numbers cannot be added: the first process that has one says it, so that all stop as one."""
    told = {name: value for each in reversed(list(logged)) for name, value in each.items()}
    reasons = {name: reason for name, (_, reason) in told.items() if reason is not None}
    return {name: value for name, (value, _) in told.items()}, reasons
