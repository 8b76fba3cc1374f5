"""Source: a file of predictions as named columns, read a chunk at a time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from .._redaction import excerpt
from ..exceptions import HpometricsError
from ..metrics.registry.lookup import suggestion

ROWS = 1 << 12
"""The rows of a chunk: few, as a row may hold a thousand numbers."""

MEMORY = 4.0
"""GiB that the columns may take that are read at once, unless another limit is given."""

_LONGEST_NAME = 1000  # characters

Chunk = dict[str, np.ndarray]


class PredictionsError(HpometricsError, ValueError):
    """A file of predictions does not hold what is to be measured; the message names file, row and column."""


class Source(Protocol):
    """A file as columns. Text and numbers are told apart by what the reader asks for, not by their looks."""

    path: Path
    columns: tuple[str, ...]

    def chunks(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Chunk]:
        """Give these columns, some rows at a time: text as objects, numbers as float64 (nan where empty)."""

    def place(self, row: int) -> str:
        """Say where a row is, counted from 0 behind the head."""


_ELSEWHERE = {
    "target": {"y_true", "y", "label", "labels", "truth", "ground_truth", "actual", "gold", "true"},
    "prediction": {"y_pred", "pred", "preds", "predicted", "predict", "output"},
    "probability": {"y_score", "y_prob", "prob", "probs", "proba", "score", "scores", "confidence"},
}
"""What other tools call columns: told on a miss, never read as them."""


def _elsewhere(wanted: str, columns: Collection[str]) -> str:
    """Say which column another tool would call so; empty if there is none, or several."""
    own = next((word for word in _ELSEWHERE if wanted.startswith(word)), "")
    found = [name for name in columns if name.lower().strip() in _ELSEWHERE.get(own, ())]
    return f" If {found[0]!r} is that, call it {wanted!r}." if len(found) == 1 else ""


def missing_column(source: Source, wanted: str, reader: str = "") -> PredictionsError:
    """Build the sentence that names the column that is wanted and lists those there are."""
    hint = suggestion(wanted, source.columns) or _elsewhere(wanted, source.columns)
    why = f" ({reader})" if reader else ""
    there = ", ".join(source.columns)
    if len(source.columns) == 1 and (parts := there.replace("\t", ";").split(";"))[1:]:
        return PredictionsError(
            f"{source.path}: the head is one column, {excerpt(there, 200)!r}, which would be {len(parts)} "
            "were it written with commas; a .csv has commas and decimal points, a .tsv has tabs"
        )
    return PredictionsError(
        f"{source.path}: there is no column {wanted!r}{why}.{hint} Its columns are {excerpt(there, 500)}"
    )


def check_names(source: Source) -> None:
    """Refuse a file without a head, and one with a column twice.

    Raises:
        PredictionsError: naming it.
    """
    twice = sorted(name for name, times in Counter(source.columns).items() if times > 1)
    long = next((name for name in source.columns if len(name) > _LONGEST_NAME), None)
    if long is not None:
        raise PredictionsError(
            f"{source.path}: the name of a column has {len(long)} characters, up to {_LONGEST_NAME} are "
            f"read; it begins with {excerpt(long, 40)!r}. Is a quote not closed?"
        )
    if not source.columns:
        raise PredictionsError(f"{source.path}: is empty; its first row says what the columns are")
    if twice:
        raise PredictionsError(f"{source.path}: column {', '.join(twice)} stands twice in the head")


def check_memory(path: Path, what: str, size: int, memory: float) -> None:
    """Refuse columns that take too much memory at once, before any is taken.

    Args:
        path: of the file.
        what: the columns, as a sentence begins with them.
        size: how many bytes they take.
        memory: how many GiB they may take.

    Raises:
        PredictionsError: they take more; it says how to raise the limit.
    """
    if size > memory * 2**30:
        raise PredictionsError(
            f"{path}: {what} take {size / 2**30:.3g} GiB of memory, and {memory:g} are allowed; "
            f"if that is right, raise the limit: --memory {math.ceil(size / 2**30)}"
        )


def objects(values: list[Any]) -> np.ndarray:
    """Make an array of the values as they are: a list stays one value."""
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made
