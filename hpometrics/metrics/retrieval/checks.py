"""Checks of the values of a batch of rankings: scores that can be ordered, distinct candidates, grades."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import torch
from torch import Tensor

from ...exceptions import NonFiniteError
from .._checks import Check, read, weight_checks
from .._device import on_host
from .ranking_batch import RankingBatch
from .relevance import fits_float32, may_be_odd, odd_rows


def ranking_checks(batch: RankingBatch) -> Iterator[Check]:
    """Yield the checks of the values of one batch; a score of -inf is an item that is not a candidate."""
    rule = "scores are numbers, or -inf for an item that is not a candidate; not nan or inf"

    def explain() -> str:
        bad = ~_ordered_rows(batch)
        return _format_rows(rule, bad, batch) if bool(bad.any()) else f"{rule}; factors hold such values"

    yield Check(read(~batch.scoring.ordered), rule, explain, NonFiniteError)
    if batch.scoring.overflow is not None:
        yield _check_overflow(batch.scoring.overflow, batch)
    for id_rule, stray in batch.strays:
        yield Check(read(stray), id_rule, partial(str, id_rule))
    if batch.items is not None:
        yield _check_distinct(batch.items, batch)
    if batch.relevance.odd is not None or may_be_odd(batch.target):
        yield _check_grades(batch)
    yield from weight_checks(batch)


def _check_overflow(overflow: Tensor, batch: RankingBatch) -> Check:
    rule = f"products of user_factors and item_factors are numbers that {batch.scoring.dtype} can hold"

    def explain() -> str:
        bad = ~_ordered_rows(batch)
        return (
            f"{rule}; {int(bad.sum())} rows have one that is too large, the first is "
            f"{_format_first(bad, batch)}. Give smaller factors, or float64"
        )

    return Check(read(overflow), rule, explain, NonFiniteError)


def _check_grades(batch: RankingBatch) -> Check:
    rule = "grades of a target are finite numbers of float32, not nan or infinite"
    if batch.relevance.odd is None and on_host(batch.target):
        bad = ~fits_float32(*batch.target.aminmax())
    elif batch.weight is None:
        bad = _odd_rows(batch).any()
    else:  # on a device an excluded row remains, with weight 0
        bad = (_odd_rows(batch) & (batch.weight != 0)).any()
    return Check(read(bad), rule, lambda: _format_rows(rule, _odd_rows(batch), batch), NonFiniteError)


def _odd_rows(batch: RankingBatch) -> Tensor:
    """Return which rows have a grade that is not finite, (rows,) bool."""
    odd = batch.relevance.odd
    if odd is not None or not may_be_odd(batch.target):
        return torch.zeros(len(batch), dtype=torch.bool, device=batch.target.device) if odd is None else odd
    return odd_rows(batch.target)


def _check_distinct(items: Tensor, batch: RankingBatch) -> Check:
    rule = "items name each candidate of a row once, -1 where a place only fills up"
    repeats = _repeated_items(items)

    def explain() -> str:
        row, place = (int(number) for number in (repeats >= 0).nonzero()[0])
        whose = "" if batch.users is None else f", that of user {int(batch.users[row])},"
        return f"{rule}; row {row}{whose} has item {int(repeats[row, place])} twice, keep one of the two"

    return Check(read((repeats >= 0).any()), rule, explain)


def _repeated_items(items: Tensor) -> Tensor:
    """Return the items that occur again in their row, (rows, candidates - 1), -1 for others."""
    ordered = torch.from_numpy(np.sort(items.numpy(), axis=1)) if on_host(items) else items.sort(dim=1).values
    return torch.where(ordered[:, 1:] == ordered[:, :-1], ordered[:, 1:], -1)


def _format_rows(rule: str, bad: Tensor, batch: RankingBatch) -> str:
    """Format which rows break a rule."""
    return f"{rule}; {int(bad.sum())} rows hold such values, the first is {_format_first(bad, batch)}"


def _format_first(bad: Tensor, batch: RankingBatch) -> str:
    """Format the first row where it is true, or its user."""
    first = int(bad.nonzero()[0])
    return f"row {first}" if batch.users is None else f"user {int(batch.users[first])}"


def finite_rows(batch: RankingBatch) -> Tensor:
    """Return which rows have scores that can be ordered, finite grades and a finite weight, (rows,) bool."""
    sound = _ordered_rows(batch) & ~_odd_rows(batch)
    return sound if batch.weight is None else sound & batch.weight.isfinite()


def _ordered_rows(batch: RankingBatch) -> Tensor:
    """Return which rows have scores that can be ordered, including hidden ones, (rows,) bool."""
    parts = [batch.scoring.sound(scores) for scores in batch.raw_tiles()] if batch.width else []
    everyone = torch.ones(len(batch), dtype=torch.bool, device=batch.target.device)
    return torch.cat(parts) if parts else everyone
