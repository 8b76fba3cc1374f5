"""Refusal: the row of a file for which metrics refuse a batch."""

from __future__ import annotations

import re
from bisect import bisect_left

import numpy as np

from ..exceptions import MetricInputError
from ..metrics.collection import MetricCollection
from .batches import Batch
from .roles import WORDS
from .source import PredictionsError, Source

_KEYWORD = re.compile(rf"\b({'|'.join(WORDS)})=")


def refusal(source: Source, batch: Batch, task: str, empty: MetricCollection) -> PredictionsError | None:
    """Build the error that names the line or the row of the file; None if the rows alone are not refused.

    The rows are tried by halves: the first of which a batch that ends with it is refused, is the culprit.
    """
    rows = batch.rows_of(task)
    taken = bisect_left(range(1, len(rows) + 1), True, key=lambda n: bool(_complaint(batch, rows[:n], empty)))
    if taken == len(rows):
        return None
    why = _complaint(batch, rows[taken : taken + 1], empty) or _complaint(batch, rows[: taken + 1], empty)
    return PredictionsError(f"{source.place(batch.first + int(rows[taken]))}: {why}")


def in_columns(message: str) -> str:
    """Put what a metric says of the keywords of `update` in terms of the columns of a file."""
    return _KEYWORD.sub(lambda found: f"{WORDS[found[1]][0]} columns", message)


def _complaint(batch: Batch, rows: np.ndarray, empty: MetricCollection) -> str:
    try:
        empty.fresh().update(**batch.taken(rows))
    except MetricInputError as err:
        return in_columns(str(err))
    return ""
