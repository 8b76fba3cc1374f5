"""Source: a file of predictions as named columns, read a chunk at a time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ..exceptions import HpometricsError
from ..metrics.registry import suggestion

ROWS = 1 << 12
"""The rows of a chunk: few, as a row may hold a thousand numbers."""

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
            f"{source.path}: the head is one column, {there!r}, which would be {len(parts)} were it written "
            "with commas; a .csv has commas and decimal points, a .tsv has tabs"
        )
    return PredictionsError(
        f"{source.path}: there is no column {wanted!r}{why}.{hint} Its columns are {there}"
    )


def check_names(source: Source) -> None:
    """Refuse a file without a head, and one with a column twice.

    Raises:
        PredictionsError: naming it.
    """
    twice = sorted({name for name in source.columns if source.columns.count(name) > 1})
    if not source.columns:
        raise PredictionsError(f"{source.path}: is empty; its first row says what the columns are")
    if twice:
        raise PredictionsError(f"{source.path}: column {', '.join(twice)} stands twice in the head")


def objects(values: list[Any]) -> np.ndarray:
    """Make an array of the values as they are: a list stays one value."""
    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made
