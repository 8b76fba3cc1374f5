"""Array files: Parquet and npz, in which an error has a row."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from .source import ROWS, Chunk, PredictionsError, check_names, objects


class Parquet:
    """A Parquet file; a column may hold lists, such as the probabilities of a row."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self.columns = tuple(parquet.ParquetFile(path).schema_arrow.names)
        except pa.ArrowInvalid as err:
            raise PredictionsError(f"{path}: is no Parquet file: {err}") from None
        check_names(self)

    def chunks(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Chunk]:
        """Read some thousand rows at a time."""
        with parquet.ParquetFile(self.path) as file:
            row = 0
            for batch in file.iter_batches(ROWS, columns=[*texts, *numbers]):
                chunk = {name: batch.column(name) for name in batch.schema.names}
                yield {
                    name: objects(column.to_pylist()) if name in texts else self._numbers(name, column, row)
                    for name, column in chunk.items()
                }
                row += batch.num_rows

    def place(self, row: int) -> str:
        """Give the row, counted from 1."""
        return f"{self.path}: row {row + 1}"

    def _numbers(self, name: str, column: Any, first: int) -> np.ndarray:
        try:
            if pa.types.is_temporal(column.type):
                raise TypeError("a time is no number of any one unit")
            if pa.types.is_nested(column.type):
                return np.array(column.to_pylist(), dtype=np.float64)
            return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
        except (TypeError, ValueError):
            raise PredictionsError(
                f"{self.place(first)} or after: column {name!r} of type {column.type} holds what are no "
                "numbers, or lists of different lengths"
            ) from None


class Npz:
    """A NumPy archive, an array per column; it is read at once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._arrays = _arrays_in(path)
        self.columns = tuple(self._arrays)

    def chunks(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Chunk]:
        """Give all rows at once."""
        single = next((name for name in (*texts, *numbers) if not self._arrays[name].ndim), None)
        if single is not None:
            raise PredictionsError(
                f"{self.path}: array {single!r} is one value, shape (); a column has an entry per row"
            )
        lengths = {name: len(self._arrays[name]) for name in (*texts, *numbers)}
        if len(set(lengths.values())) > 1:
            told = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise PredictionsError(f"{self.path}: the arrays have different numbers of rows: {told}")
        yield {
            name: array.astype(object) if name in texts else self._numbers(name, array)
            for name in (*texts, *numbers)
            for array in (self._arrays[name],)
        }

    def told(self, name: str) -> str | None:
        """Give a fact that the file states of itself, as a text of its own."""
        return (
            str(self._arrays[name].item()) if name in self._arrays and not self._arrays[name].ndim else None
        )

    def place(self, row: int) -> str:
        """Give the row, counted from 1."""
        return f"{self.path}: row {row + 1}"

    def _numbers(self, name: str, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind not in "biuf":
            raise PredictionsError(f"{self.path}: array {name!r} of {array.dtype} holds what are no numbers")
        return array.astype(np.float64, copy=False)


def _arrays_in(path: Path) -> dict[str, np.ndarray]:
    """Read an archive; what it pickles is not read.

    Raises:
        PredictionsError: it is none, is damaged, or has what is no plain array.
    """
    if not zipfile.is_zipfile(path):
        raise PredictionsError(f"{path}: is no npz archive; numpy.savez(path, target=..., ...) writes one")
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: _plain(path, file, name) for name in file.files}
    except (EOFError, OSError, zipfile.BadZipFile, zlib.error) as err:
        raise PredictionsError(f"{path}: is damaged: {err}") from err


def _plain(path: Path, archive: Any, name: str) -> np.ndarray:
    try:
        array = archive[name]
    except ValueError:  # it is pickled
        array = None
    if not isinstance(array, np.ndarray):  # a file that is no array comes as bytes
        raise PredictionsError(f"{path}: {name!r} is no array of plain numbers or texts; save it as one")
    return array
