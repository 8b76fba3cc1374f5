"""What the values of a batch of rankings must be: scores that can be ordered, candidates that differ."""

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
from .relevance import held, may_be_odd, odd_rows


def ranking_checks(batch: RankingBatch) -> Iterator[Check]:
    """The questions about the values of one batch; -inf is an item that is no candidate."""
    rule = "scores are numbers, or -inf for an item that is no candidate; not nan or inf"

    def explain() -> str:
        bad = ~_ordered_rows(batch)
        return _holders(rule, bad, batch) if bool(bad.any()) else f"{rule}; factors hold such values"

    yield Check(read(~batch.scoring.ordered), rule, explain, NonFiniteError)
    if batch.scoring.overflow is not None:
        yield _within(batch.scoring.overflow, batch)
    for known, stray in batch.strays:
        yield Check(read(stray), known, partial(str, known))
    if batch.items is not None:
        yield _each_once(batch.items, batch)
    if batch.relevance.odd is not None or may_be_odd(batch.target):
        yield _finite(batch)
    yield from weight_checks(batch)


def _within(overflow: Tensor, batch: RankingBatch) -> Check:
    rule = f"products of user_factors and item_factors are numbers that {batch.scoring.dtype} can hold"

    def explain() -> str:
        bad = ~_ordered_rows(batch)
        return (
            f"{rule}; {int(bad.sum())} rows have one that is too large, the first is {_first(bad, batch)}. "
            "Give smaller factors, or float64"
        )

    return Check(read(overflow), rule, explain, NonFiniteError)


def _finite(batch: RankingBatch) -> Check:
    rule = "grades of a target are finite numbers of float32, not nan or infinite"
    if batch.relevance.odd is None and on_host(batch.target):
        bad = ~held(*batch.target.aminmax())
    elif batch.weight is None:
        bad = _odd_rows(batch).any()
    else:  # on a device a row that was left out is there still, and weighs nothing
        bad = (_odd_rows(batch) & (batch.weight != 0)).any()
    return Check(read(bad), rule, lambda: _holders(rule, _odd_rows(batch), batch), NonFiniteError)


def _odd_rows(batch: RankingBatch) -> Tensor:
    """Which rows hold a grade that is not finite, (rows,) bool."""
    odd = batch.relevance.odd
    if odd is not None or not may_be_odd(batch.target):
        return torch.zeros(len(batch), dtype=torch.bool, device=batch.target.device) if odd is None else odd
    return odd_rows(batch.target)


def _each_once(items: Tensor, batch: RankingBatch) -> Check:
    rule = "items name each candidate of a row once, -1 where a place only fills up"
    again = _again(items)

    def explain() -> str:
        row, place = (int(number) for number in (again >= 0).nonzero()[0])
        whose = "" if batch.users is None else f", that of user {int(batch.users[row])},"
        return f"{rule}; row {row}{whose} has item {int(again[row, place])} twice, keep one of the two"

    return Check(read((again >= 0).any()), rule, explain)


def _again(items: Tensor) -> Tensor:
    """The items of each row that stand in it before, (rows, candidates - 1), -1 in the place of others."""
    ordered = torch.from_numpy(np.sort(items.numpy(), axis=1)) if on_host(items) else items.sort(dim=1).values
    return torch.where(ordered[:, 1:] == ordered[:, :-1], ordered[:, 1:], -1)


def _holders(rule: str, bad: Tensor, batch: RankingBatch) -> str:
    """Say which rows do not keep to a rule."""
    return f"{rule}; {int(bad.sum())} rows hold such values, the first is {_first(bad, batch)}"


def _first(bad: Tensor, batch: RankingBatch) -> str:
    """Name the first row where it is true, or its user."""
    first = int(bad.nonzero()[0])
    return f"row {first}" if batch.users is None else f"user {int(batch.users[first])}"


def finite_rows(batch: RankingBatch) -> Tensor:
    """Which rows hold scores that can be ordered, finite grades and a finite weight, (rows,) bool."""
    sound = _ordered_rows(batch) & ~_odd_rows(batch)
    return sound if batch.weight is None else sound & batch.weight.isfinite()


def _ordered_rows(batch: RankingBatch) -> Tensor:
    """Which rows hold scores that can be ordered, (rows,) bool; hidden scores count."""
    parts = [batch.scoring.sound(scores) for scores in batch.raw_tiles()] if batch.width else []
    everyone = torch.ones(len(batch), dtype=torch.bool, device=batch.target.device)
    return torch.cat(parts) if parts else everyone
