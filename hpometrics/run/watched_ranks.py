"""Watched ranks: what the watches of several processes come to, each value by the rule of its diagnostic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from ..metrics.registry.diagnostics import diagnostic

Numbers = Mapping[str, float]
Told = tuple[Numbers, Mapping[str, str]]
"""The values that one process tells, and why some are nan."""

_RULES: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum,
    "mean": fmean,
    "max": max,
    "min": min,
    "first": lambda values: values[0],
}


def over_ranks(told: Sequence[Told]) -> Told:
    """Put together the values of processes in the order of ranks; those that lack one do not count.

    A value that is nan on one rank is nan, with the rank in the reason.

    >>> over_ranks([({"gnorm": 1.0, "ups": 3.0}, {}), ({"gnorm": 2.0, "ups": 2.0}, {}), ({}, {})])
    ({'gnorm': 1.5, 'ups': 2.0}, {})
    """
    names = dict.fromkeys(name for values, _ in told for name in values)
    values = {name: _together(name, [own[name] for own, _ in told if name in own]) for name in names}
    reasons: dict[str, str] = {}
    for rank, (_, why) in enumerate(told):
        for name, reason in why.items():
            reasons.setdefault(name, f"rank {rank}: {reason}")
    return values, reasons


def _together(name: str, values: Sequence[float]) -> float:
    if any(map(math.isnan, values)):
        return math.nan
    known = diagnostic(name)
    return _RULES["first" if known is None else known.over_ranks](values)
