"""What the scores of a batch of rankings must be: numbers that can be ordered."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ...exceptions import NonFiniteError
from ..checks import Check, read, weight_checks
from .batch import RankingBatch


def ranking_checks(batch: RankingBatch) -> Iterator[Check]:
    """The questions about the values of one batch; -inf is an item that is no candidate."""
    rule = "scores are numbers, or -inf for an item that is no candidate; not nan or inf"

    def explain() -> str:
        bad = ~finite_rows(batch)
        if not bool(bad.any()):
            return f"{rule}; factors hold such values"
        first = int(bad.nonzero()[0])
        who = f"row {first}" if batch.users is None else f"user {int(batch.users[first])}"
        return f"{rule}; {int(bad.sum())} rows hold such values, the first is {who}"

    yield Check(read(~batch.ordered), rule, explain, NonFiniteError)
    yield from weight_checks(batch)


def finite_rows(batch: RankingBatch) -> Tensor:
    """Which rows hold scores that can be ordered, (rows,) bool; hidden ones must be sound as well."""
    parts = [scores.amax(1) < torch.inf for scores in batch.raw_tiles()] if batch.width else []
    return torch.cat(parts) if parts else torch.ones(len(batch), dtype=torch.bool, device=batch.target.device)
