"""Matrices of tests: a few cases that bring everything once for `make test`, the rest for `make test-all`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from itertools import combinations
from typing import Any

import pytest

EXHAUSTIVE = pytest.mark.exhaustive


def covering(
    cases: Iterable[Any],
    kinds: Callable[[Any], Iterable[Hashable]],
    ids: Callable[[Any], str] | None = None,
) -> list[Any]:
    """Return the cases as parameters, of which the short suite runs those that bring a kind of their own.

    Args:
        cases: the values of each parametrized test, in order; of a tuple one value a parameter.
        kinds: what a case stands for. A case that has a kind which no case before it had is in the short
            suite; all the others are marked exhaustive. For a pairwise choice see `pairs`.
        ids: the id of a case, where pytest's own would not do.
    """
    seen: set[Hashable] = set()
    parameters = []
    for case in cases:
        new = set(kinds(case)) - seen
        seen |= new
        values = case if isinstance(case, tuple) else (case,)
        name = None if ids is None else ids(case)
        parameters.append(pytest.param(*values, id=name, marks=() if new else EXHAUSTIVE))
    return parameters


def pairs(*facets: Hashable) -> list[Hashable]:
    """Return every two of the facets of a case, with their places: kinds of a pairwise choice.

    >>> pairs("macro", 3)
    [((0, 'macro'), (1, 3))]
    """
    return list(combinations(enumerate(facets), 2))
