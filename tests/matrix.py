"""Matrices of tests: a few cases that bring everything once for `make test`, the rest for `make test-all`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from heapq import heapify, heappop, heappush
from itertools import combinations
from typing import Any

import pytest

from hpometrics.metrics.registry.index import MetricEntry, all_entries, observed_of

EXHAUSTIVE = pytest.mark.exhaustive

WRAPPED = "hpometrics.metrics.catalogue.torchmetrics"
"""The module of the classes of torchmetrics."""

SLOW = {"bleu_score", "modified_panoptic_quality", "ms_ssim", "panoptic_quality", "qnr", "scc", "sdr"}
"""Classes of torchmetrics that take seconds for what others take tenths of one."""

Concern = Callable[[Iterable[Any]], bool]
"""Whether the parameters of a test may concern the chosen metric."""

_chosen: tuple[MetricEntry, ...] = ()
_concern: Concern | None = None
_suites = {"short", "exhaustive"}


def entries() -> tuple[MetricEntry, ...]:
    """Return every entry of the registry, slow ones last, or those of the metric that `--metric` names."""
    return _chosen or tuple(sorted(all_entries(), key=lambda entry: entry.name in SLOW))


def choose(chosen: Iterable[MetricEntry], concern: Concern | None = None) -> None:
    """Have `entries` return these, or all of the registry again where there are none.

    Args:
        chosen: entries of one metric.
        concern: `covering` makes only the cases that may concern the metric; all cases if None, or if no
            case may, as pytest would report a test without cases as skipped.
    """
    global _chosen, _concern
    _chosen, _concern = tuple(chosen), concern


def collect(*suites: str) -> None:
    """Have `covering` make only the cases of these suites: pytest takes long to deselect the others."""
    _suites.clear()
    _suites.update(suites)


def check_cases(ids: Iterable[str]) -> None:
    """Refuse parametrized tests without a case, which pytest would skip.

    Raises:
        UsageError: a list of cases is empty, as when it is chosen by the name of a file that has moved.
    """
    if empty := [name for name in ids if name.endswith("[NOTSET]")]:
        raise pytest.UsageError(f"no case matches what chooses those of {', '.join(empty)}")


def traits(entry: MetricEntry) -> list[Hashable]:
    """Return the code that a built-in metric stands for, as kinds of `covering`.

    That is its module, the statistics that hold its state, its output feature with what is read of it, and
    the further arguments of its update, which all go one way to a class of torchmetrics.
    """
    seen = observed_of(entry)
    module = entry.path.partition(":")[0]
    return [
        ("module", module),
        ("statistics", seen and seen.statistics),
        ("output", entry.feature_type, entry.inputs),
        ("extras", bool(entry.extras) if module == WRAPPED else entry.extras),
    ]


def covering(
    cases: Iterable[Any],
    kinds: Callable[[Any], Iterable[Hashable]],
    ids: Callable[[Any], str] | None = None,
) -> list[Any]:
    """Return the cases as parameters, of which the short suite runs a few that have every kind between them.

    Args:
        cases: the values of each parametrized test; of a tuple one value a parameter.
        kinds: what a case stands for. The short suite takes the case with the most new kinds, the first of
            equals, until every kind is in it; all others are marked exhaustive. For a pairwise choice see
            `pairs`.
        ids: the id of a case, where pytest's own would not do.
    """
    cases = list(cases)
    if _concern is not None:
        cases = [case for case in cases if _concern(case if isinstance(case, tuple) else (case,))] or cases
    chosen = _cover([set(kinds(case)) for case in cases])
    parameters = []
    for number, case in enumerate(cases):
        if ("short" if number in chosen else "exhaustive") not in _suites:
            continue
        values = case if isinstance(case, tuple) else (case,)
        name = None if ids is None else ids(case)
        parameters.append(pytest.param(*values, id=name, marks=() if number in chosen else EXHAUSTIVE))
    return parameters


def _cover(sets: list[set[Hashable]]) -> set[int]:
    """Choose sets until they cover all, always the one that adds most; return their indices."""
    seen: set[Hashable] = set()
    chosen = set()
    left = [(-len(kinds), number) for number, kinds in enumerate(sets)]
    heapify(left)
    while left:
        promised, number = heappop(left)
        new = len(sets[number] - seen)
        if new == -promised and new:
            seen |= sets[number]
            chosen.add(number)
        elif new:
            heappush(left, (-new, number))
    return chosen


def pairs(*facets: Hashable) -> list[Hashable]:
    """Return every two of the facets of a case, with their places: kinds of a pairwise choice.

    >>> pairs("macro", 3)
    [((0, 'macro'), (1, 3))]
    """
    return list(combinations(enumerate(facets), 2))


def failures(cases: Iterable[Any], check: Callable[[Any], object]) -> list[str]:
    """Return what a check says of each case that it fails for: of many in one test, one hides no other."""
    messages = []
    for case in cases:
        try:
            check(case)
        except (Exception, pytest.fail.Exception) as err:
            name = getattr(case, "__name__", case)
            messages.append(f"{name}: {type(err).__name__}: {err}")
    return messages
