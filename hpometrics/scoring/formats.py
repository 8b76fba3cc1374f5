"""Open a file by its format, and find the row that a metric refuses."""

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
_KEYWORD = re.compile(rf"\b({'|'.join(WORDS)})=")


def open_source(path: Path, memory: float = MEMORY) -> Source:
    """Open a file by its suffix.

    Args:
        path: the path of the file.
        memory: the limit in GiB for the columns that are read at once.

    Raises:
        PredictionsError: there is no reader for the suffix, or the content does not fit the suffix, or the
            file is not a regular one, such as a pipe or a device, which need not end.
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


def find_refusal(source: Source, batch: Batch, task: str, empty: MetricCollection) -> PredictionsError | None:
    """Return the error that names the line or the row of the file; None if the rows alone raise none.

    The rows are bisected: the culprit is the first row with which a batch that ends there raises.
    """
    rows = batch.rows_of(task)
    accepted = bisect_left(
        range(1, len(rows) + 1), True, key=lambda n: bool(_complaint(batch, rows[:n], empty))
    )
    if accepted == len(rows):
        return None
    why = _complaint(batch, rows[accepted : accepted + 1], empty) or _complaint(
        batch, rows[: accepted + 1], empty
    )
    return PredictionsError(f"{source.place(batch.first + int(rows[accepted]))}: {why}")


def format_in_columns(message: str) -> str:
    """Return a metric's message with the columns of the file in place of the keywords of `update`."""
    return _KEYWORD.sub(lambda match: f"{WORDS[match[1]][0]} columns", message)


def _complaint(batch: Batch, rows: np.ndarray, empty: MetricCollection) -> str:
    try:
        empty.fresh().update(**batch.select(rows))
    except MetricInputError as err:
        return format_in_columns(str(err))
    return ""
