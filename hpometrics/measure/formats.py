"""Formats: which reader opens which file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from .array_files import Npz, Parquet
from .source import PredictionsError, Source
from .text_files import Delimited, JsonLines

_READERS: Mapping[str, type[Delimited] | type[JsonLines] | type[Parquet] | type[Npz]] = {
    ".csv": Delimited,
    ".tsv": Delimited,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".parquet": Parquet,
    ".npz": Npz,
}


def open_source(path: Path) -> Source:
    """Open a file by its suffix.

    Raises:
        PredictionsError: there is no reader for the suffix, or the file is not what the suffix says.
        OSError: it cannot be opened.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        raise PredictionsError(
            f"{path}: predictions are read from {', '.join(_READERS)}, got {path.suffix!r}"
        )
    with path.open("rb"):
        return reader(path)
