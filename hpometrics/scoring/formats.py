"""Formats: which reader opens which file."""

from __future__ import annotations

import stat
from collections.abc import Mapping
from pathlib import Path

from .array_files import Npz, Parquet
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
