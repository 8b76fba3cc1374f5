"""A file of predictions as named columns, read a chunk at a time."""

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
"""The default limit in GiB for the columns that are read at once."""

_LONGEST_NAME = 1000  # characters

Chunk = dict[str, np.ndarray]


class PredictionsError(HpometricsError, ValueError):
    """A file of predictions cannot be measured; the message names file, row and column."""


class Source(Protocol):
    """A file as columns. The reader decides which columns are text and which numbers, not their content."""

    path: Path
    columns: tuple[str, ...]

    def chunks(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Chunk]:
        """Return these columns, some rows at a time: text as objects, numbers as float64 (empty: nan)."""

    def place(self, row: int) -> str:
        """Return the place of a row, counted from 0 after the head."""


_ELSEWHERE = {
    "target": {"y_true", "y", "label", "labels", "truth", "ground_truth", "actual", "gold", "true"},
    "prediction": {"y_pred", "pred", "preds", "predicted", "predict", "output"},
    "probability": {"y_score", "y_prob", "prob", "probs", "proba", "score", "scores", "confidence"},
}
"""Names of columns in other tools: suggested if a column is missing, never read."""


def _other_name_hint(name: str, columns: Collection[str]) -> str:
    """Return a hint at the one column with another tool's name for this; empty for none or several."""
    own = next((word for word in _ELSEWHERE if name.startswith(word)), "")
    matches = [column for column in columns if column.lower().strip() in _ELSEWHERE.get(own, ())]
    return f" If {matches[0]!r} is that, call it {name!r}." if len(matches) == 1 else ""


def missing_column(source: Source, name: str, reader: str = "") -> PredictionsError:
    """Return the error that names the missing column and lists the columns of the file."""
    hint = suggestion(name, source.columns) or _other_name_hint(name, source.columns)
    why = f" ({reader})" if reader else ""
    columns = ", ".join(source.columns)
    if len(source.columns) == 1 and (parts := columns.replace("\t", ";").split(";"))[1:]:
        return PredictionsError(
            f"{source.path}: the head is one column, {excerpt(columns, 200)!r}, which would be {len(parts)} "
            "were it written with commas; a .csv has commas and decimal points, a .tsv has tabs"
        )
    return PredictionsError(
        f"{source.path}: there is no column {name!r}{why}.{hint} Its columns are {excerpt(columns, 500)}"
    )


def check_names(source: Source) -> None:
    """Check the head of a file.

    Raises:
        PredictionsError: the file has no head, a column twice, or too long a name.
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
    """Check that columns do not take too much memory, before they are read.

    Args:
        path: the path of the file.
        what: the columns, as the start of a sentence.
        size: their size in bytes.
        memory: the limit in GiB.

    Raises:
        PredictionsError: they take more; the message says how to raise the limit.
    """
    if size > memory * 2**30:
        raise PredictionsError(
            f"{path}: {what} take {size / 2**30:.3g} GiB of memory, and {memory:g} are allowed; "
            f"if that is right, raise the limit: --memory {math.ceil(size / 2**30)}"
        )


def objects(values: list[Any]) -> np.ndarray:
    """Return an array of the values as they are: a list stays one value."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array
