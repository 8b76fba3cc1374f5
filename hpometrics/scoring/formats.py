"""Formats: which reader opens which file."""

from __future__ import annotations

import re
import stat
from bisect import bisect_left
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..exceptions import MetricInputError
from ..metrics.collection import MetricCollection
from .array_files import Npz, Parquet
from .batches import Batch
from .roles import WORDS
from .source import MEMORY, PredictionsError, Source
from .text_files import Delimited, JsonLines

_READERS: Mapping[str, type[Delimited] | type[JsonLines] | type[Parquet] | type[Npz]] = {
    ".csv": Delimited,
    ".tsv": Delimited,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".parquet": Parquet,
    ".npz": Npz,
}


def open_source(path: Path, memory: float = MEMORY) -> Source:
    """Open a file by its suffix.

    Args:
        path: of the file.
        memory: how many GiB the columns may take that are read at once.

    Raises:
        PredictionsError: there is no reader for the suffix, or the file is not what the suffix says, or not
            a regular file, such as a pipe or a device, which need not end.
        OSError: it cannot be opened.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise PredictionsError(
            f"{path}: predictions are read from {', '.join(_READERS)}, got {path.suffix!r}"
        )
    if not stat.S_ISREG(path.stat().st_mode):
        raise PredictionsError(f"{path}: is not a regular file; write the predictions to one, and name it")
    with path.open("rb"):
        return reader(path, memory)


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
