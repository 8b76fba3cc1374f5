"""Read Parquet and npz files; an error names the row."""

from __future__ import annotations

import math
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.lib import format as npy

from .._redaction import excerpt
from .source import MEMORY, ROWS, Chunk, PredictionsError, check_memory, check_names, objects


class Parquet:
    """A Parquet file; a column may hold lists, such as the probabilities of a row."""

    def __init__(self, path: Path, memory: float = MEMORY) -> None:
        self.path, self._memory = path, memory
        try:
            with parquet.ParquetFile(path) as file:
                self.columns = tuple(file.schema_arrow.names)
        except (pa.ArrowException, OSError) as err:
            raise PredictionsError(f"{path}: is not a Parquet file: {err}") from None
        check_names(self)

    def chunks(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Chunk]:
        """Read some thousand rows at a time."""
        with parquet.ParquetFile(self.path) as file:
            self._check_groups(file.metadata, {*texts, *numbers})
            row = 0
            for batch in self._batches(file, [*texts, *numbers]):
                chunk = {name: batch.column(name) for name in batch.schema.names}
                yield {
                    name: objects(column.to_pylist()) if name in texts else self._numbers(name, column, row)
                    for name, column in chunk.items()
                }
                row += batch.num_rows

    def _batches(self, file: Any, columns: list[str]) -> Iterator[Any]:
        try:
            yield from file.iter_batches(ROWS, columns=columns)
        except (pa.ArrowException, OSError) as err:
            raise PredictionsError(f"{self.path}: is damaged: {err}") from None

    def _check_groups(self, facts: Any, columns: Collection[str]) -> None:
        """Raise if a row group takes too much memory when unpacked."""
        for number in range(facts.num_row_groups):
            group = facts.row_group(number)
            parts = (group.column(index) for index in range(group.num_columns))
            size = sum(
                part.total_uncompressed_size for part in parts if part.path_in_schema.split(".")[0] in columns
            )
            check_memory(self.path, f"the columns of row group {number}", size, self._memory)

    def place(self, row: int) -> str:
        """Return the row, counted from 1."""
        return f"{self.path}: row {row + 1}"

    def _numbers(self, name: str, column: Any, first: int) -> np.ndarray:
        try:
            if pa.types.is_temporal(column.type):
                raise TypeError("a time has no single unit")
            if pa.types.is_nested(column.type):
                return np.array(column.to_pylist(), dtype=np.float64)
            return np.asarray(column.to_numpy(zero_copy_only=False), dtype=np.float64)
        except (TypeError, ValueError):
            raise PredictionsError(
                f"{self.place(first)} or after: column {name!r} of type {column.type} holds values "
                "that are not numbers, or lists of different lengths"
            ) from None


class Npz:
    """A NumPy archive, an array per column; only the requested arrays are read, each as a whole."""

    def __init__(self, path: Path, memory: float = MEMORY) -> None:
        self.path, self._memory = path, memory
        with _archive(path) as archive:
            entries = {entry.removesuffix(".npy"): entry for entry in archive.namelist()}
            self._heads = {name: _head(path, archive, entry) for name, entry in entries.items()}
        self.columns = tuple(self._heads)
        check_names(self)

    def chunks(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Chunk]:
        """Return all rows at once."""
        heads = {name: self._heads[name] for name in (*texts, *numbers)}
        single = next((name for name, head in heads.items() if not head.shape), None)
        if single is not None:
            raise PredictionsError(
                f"{self.path}: array {single!r} is one value, shape (); a column has an entry per row"
            )
        lengths = {name: head.shape[0] for name, head in heads.items()}
        if len(set(lengths.values())) > 1:
            lengths_text = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise PredictionsError(f"{self.path}: the arrays have different numbers of rows: {lengths_text}")
        shapes = ", ".join(f"{name} {head.shape} of {head.dtype}" for name, head in heads.items())
        size = sum(head.size for head in heads.values())
        check_memory(self.path, f"the arrays {excerpt(shapes, 200)}", size, self._memory)
        arrays = self._arrays(*heads)
        yield {
            name: array.astype(object) if name in texts else self._numbers(name, array)
            for name, array in arrays.items()
        }

    def read_fact(self, name: str) -> str | None:
        """Return a fact that the file states in an array of one text."""
        head = self._heads.get(name)
        if head is None or head.shape:
            return None
        check_memory(self.path, f"the array {name}", head.size, self._memory)
        return str(self._arrays(name)[name].item())

    def place(self, row: int) -> str:
        """Return the row, counted from 1."""
        return f"{self.path}: row {row + 1}"

    def _arrays(self, *names: str) -> dict[str, np.ndarray]:
        """Read arrays.

        Raises:
            PredictionsError: one is damaged.
        """
        with _archive(self.path) as archive:
            return {name: _array(archive, self._heads[name]) for name in names}

    def _numbers(self, name: str, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind not in "biuf":
            raise PredictionsError(
                f"{self.path}: array {name!r} of {array.dtype} holds values that are not numbers"
            )
        return array.astype(np.float64, copy=False)


class _Head(NamedTuple):
    """The header of an array in an archive: the name of its entry, shape and type."""

    entry: str
    shape: tuple[int, ...]
    dtype: np.dtype

    @property
    def size(self) -> int:
        """Its size in bytes, if numbers are float64."""
        return math.prod(self.shape) * max(self.dtype.itemsize, 8)


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    """Open an archive.

    Raises:
        PredictionsError: the file is not an archive, or is damaged.
    """
    if not zipfile.is_zipfile(path):
        raise PredictionsError(
            f"{path}: is not an npz archive; numpy.savez(path, target=..., ...) writes one"
        )
    try:
        with zipfile.ZipFile(path) as archive:
            yield archive
    except (EOFError, OSError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as err:
        raise PredictionsError(f"{path}: is damaged: {err}") from err


def _head(path: Path, archive: zipfile.ZipFile, entry: str) -> _Head:
    """Read the header of an array in an archive; its values, and pickles, are not read.

    Raises:
        PredictionsError: it is not a plain array.
    """
    plain = False
    with archive.open(entry) as file, suppress(ValueError):  # it has no head
        read_header = _HEADS.get(npy.read_magic(file))
        if read_header is not None:
            shape, _, dtype = read_header(file)
            plain = not dtype.hasobject and all(length >= 0 for length in shape)
    if not plain:
        name = entry.removesuffix(".npy")
        raise PredictionsError(f"{path}: {name!r} is not an array of plain numbers or texts; save it as one")
    return _Head(entry, shape, dtype)


_HEADS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def _array(archive: zipfile.ZipFile, head: _Head) -> np.ndarray:
    """Read an array to its end, where its checksum is verified."""
    with archive.open(head.entry) as file:
        try:
            array: np.ndarray = npy.read_array(file, allow_pickle=False)
        except ValueError as err:
            raise EOFError(f"{head.entry}: {err}") from err
        if file.read(1):
            raise EOFError(f"{head.entry} has more values than it says")
    return array
