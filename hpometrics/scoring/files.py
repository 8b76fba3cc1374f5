"""Read a file of predictions as a table, some rows at a time: CSV, TSV, JSON lines, Parquet or npz."""

from __future__ import annotations

import csv
import json
import math
import stat
import zipfile
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pyarrow.parquet as parquet
from numpy.lib import format as npy

from .._redaction import excerpt
from ..exceptions import HpometricsError

MEMORY = 4.0
"""The default limit in GiB for columns that are read at once: a row group of Parquet, arrays of an npz."""

ROWS = 1 << 12  # of a chunk: few, as a row may hold a thousand numbers
BLOCK = 1 << 23  # bytes of a block of CSV, and characters of a cell
_LINE = 1 << 26  # characters of a line
_LONGEST_NAME = 1000  # characters

Chunk = dict[str, np.ndarray]


class PredictionsError(HpometricsError, ValueError):
    """A file of predictions cannot be measured; the message names file, row and column."""


class Table(ABC):
    """A file as named columns. The caller decides which are texts and which numbers, not their content."""

    def __init__(self, path: Path, memory: float = MEMORY) -> None:
        self.path, self._memory = path, memory
        self.columns = tuple(self._read_head())

    def chunks(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Chunk]:
        """Read columns, some rows at a time: texts as objects, numbers as float64 (empty: nan)."""
        first = 0
        for columns in self._read(texts, numbers):
            chunk = {name: self._cells(columns[name], name) for name in texts}
            chunk |= {name: self._numbers(columns[name], name, first) for name in numbers}
            yield chunk
            first += len(next(iter(chunk.values())))

    def read_output(self) -> str | None:
        """Return the output of the model, if the file states it."""
        return None

    def place(self, row: int) -> str:
        """Return the place of a row, which is counted from 0 after the head."""
        return f"{self.path}: row {row + 1}"

    def error(self, problem: str, row: int | None = None) -> PredictionsError:
        """Return an error that names the file, or the place of a row in it."""
        return PredictionsError(f"{self.path if row is None else self.place(row)}: {problem}")

    @abstractmethod
    def _read_head(self) -> Iterable[str]:
        """Return the names of the columns."""

    @abstractmethod
    def _read(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Any]:
        """Read some rows at a time: by column an Arrow array, an array or a list."""

    def _check_memory(self, what: str, size: int) -> None:
        """Raise if columns of a size in bytes take too much memory."""
        if size > self._memory * 2**30:
            raise self.error(
                f"{what} need {size / 2**30:.3g} GiB of memory, but {self._memory:g} are allowed; raise "
                f"the limit if that is correct: --memory {math.ceil(size / 2**30)}"
            )

    def _cells(self, column: Any, name: str) -> np.ndarray:
        """Return cells as they are, except that bytes become text; raise if they are not UTF-8."""
        try:
            return _objects(column)
        except UnicodeDecodeError:
            raise self.error(f"column {name!r} holds bytes that are not UTF-8; save it as text") from None

    def _numbers(self, column: Any, name: str, first: int) -> np.ndarray:
        """Return cells as numbers, lists of them side by side; raise for the first that does not fit."""
        is_arrow = isinstance(column, pa.Array)
        if is_arrow and not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
            column = column.to_pylist()
        try:
            return np.asarray(column, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            shapes = [_shape(cell) for cell in column]
        row = next((i for i, shape in enumerate(shapes) if shape is None or shape != shapes[0]), 0)
        shape, width = shapes[row], math.prod(shapes[0] or ())
        if shape is None:
            problem = f"holds {excerpt(column[row], 60)!r}, which is not a number"
        else:
            problem = f"holds {math.prod(shape)} numbers, but the rows before hold {width}"
        raise self.error(f"column {name!r} {problem}", first + row)


class Delimited(Table):
    """A CSV or TSV file with a head line."""

    def place(self, row: int) -> str:
        """Return the line on which a row ends; blank lines are not rows."""
        line, _ = next(islice(self._rows(), row + 1, None))
        return f"{self.path}:{line}"

    @property
    def _delimiter(self) -> str:
        return "\t" if self.path.suffix.lower() == ".tsv" else ","

    def _read_head(self) -> Iterable[str]:
        return next(self._rows(), (1, []))[1]

    def _read(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Any]:
        """Read blocks of some megabytes."""
        types = {**dict.fromkeys(texts, pa.string()), **dict.fromkeys(numbers, pa.float64())}
        options = arrow_csv.ConvertOptions(column_types=types, include_columns=list(types))
        try:
            with arrow_csv.open_csv(
                self.path,
                read_options=arrow_csv.ReadOptions(block_size=BLOCK),
                parse_options=arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                convert_options=options,
            ) as blocks:
                yield from blocks
        except pa.ArrowInvalid as err:
            self._check_cells(numbers, options.null_values)
            raise self.error(f"cannot be read: {err}") from None

    def _check_cells(self, numbers: Collection[str], empty: Collection[str]) -> None:
        """Raise for the first row of another length than the head, or cell that is not a number."""
        for line, row in islice(self._rows(), 1, None):
            where = f"{self.path}:{line}"
            if len(row) != len(self.columns):
                raise PredictionsError(
                    f"{where}: the header has {len(self.columns)} columns, but the row has {len(row)}"
                )
            for name, cell in zip(self.columns, row, strict=True):
                if name in numbers and cell not in empty and _shape(cell) is None:
                    raise PredictionsError(
                        f"{where}: column {name!r} holds {excerpt(cell, 60)!r}, which is not a number"
                    )

    def _rows(self) -> Iterator[tuple[int, list[str]]]:
        """Read the head and the rows cell by cell, each with the line on which it ends."""
        rows = csv.reader(_lines(self.path), delimiter=self._delimiter)
        usual = csv.field_size_limit(BLOCK)
        try:
            yield from ((rows.line_num, row) for row in rows if row)
        except csv.Error as err:
            raise PredictionsError(
                f"{self.path}:{rows.line_num}: {err}; a cell can have at most {BLOCK} characters. Is a "
                "quote missing?"
            ) from None
        finally:
            csv.field_size_limit(usual)


class JsonLines(Table):
    """A file with a JSON object per line; a value may be a list, such as the probabilities of a row."""

    def place(self, row: int) -> str:
        """Return the line of a row; blank lines are not rows."""
        line, _ = next(islice(self._rows(), row, None))
        return f"{self.path}:{line}"

    def _read_head(self) -> Iterable[str]:
        return next(self._rows(), (1, {}))[1]

    def _read(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Any]:
        """Read some thousand lines at a time."""
        names, rows = dict.fromkeys((*texts, *numbers)), self._rows()
        while some := list(islice(rows, ROWS)):
            for line, row in some:
                if not row.keys() >= names.keys():
                    missing = next(name for name in names if name not in row)
                    keys = excerpt(", ".join(row), 500)
                    raise PredictionsError(
                        f"{self.path}:{line}: the row has no {missing!r}; its keys are {keys}"
                    )
            yield {name: [row[name] for _, row in some] for name in names}

    def _rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        for line, text in enumerate(_lines(self.path), 1):
            if not text.strip():
                continue
            try:
                row = json.loads(text)
            except (ValueError, RecursionError) as err:
                why = "it is nested too deep" if isinstance(err, RecursionError) else err
                raise PredictionsError(f"{self.path}:{line}: is not JSON: {why}") from None
            if not isinstance(row, dict):
                start = excerpt(text.strip(), 40)
                raise PredictionsError(f"{self.path}:{line}: a line must be an object {{...}}, got {start}")
            yield line, row


class Parquet(Table):
    """A Parquet file; a column may hold lists, such as the probabilities of a row."""

    def _read(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Any]:
        """Read some thousand rows at a time, of row groups that fit in memory when they are unpacked."""
        names = {*texts, *numbers}
        try:
            with parquet.ParquetFile(self.path) as file:
                for number in range(file.num_row_groups):
                    group = file.metadata.row_group(number)
                    parts = map(group.column, range(group.num_columns))
                    used = (part for part in parts if part.path_in_schema.split(".")[0] in names)
                    size = sum(part.total_uncompressed_size for part in used)
                    self._check_memory(f"the columns of row group {number}", size)
                yield from file.iter_batches(ROWS, columns=[*names])
        except (pa.ArrowException, OSError) as err:
            raise self.error(f"is damaged: {err}") from None

    def _read_head(self) -> Iterable[str]:
        try:
            return parquet.read_schema(self.path).names  # type: ignore[no-any-return]  # pyarrow has no types
        except (pa.ArrowException, OSError) as err:
            raise self.error(f"is not a Parquet file: {err}") from None


class Npz(Table):
    """A NumPy archive with an array per column; only the requested ones are read, each as a whole."""

    def _read(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Any]:
        """Read all rows at once."""
        shapes = {name: self._heads[name][0] for name in (*texts, *numbers)}
        if () in shapes.values():
            single = next(name for name, shape in shapes.items() if not shape)
            raise self.error(
                f"array {single!r} is a single value of shape (); a column needs one entry per row"
            )
        if len({shape[0] for shape in shapes.values()}) > 1:
            lengths = ", ".join(f"{name} {shape[0]}" for name, shape in shapes.items())
            raise self.error(f"the arrays have different numbers of rows: {lengths}")
        arrays = self._arrays(shapes)
        odd = next((name for name in numbers if arrays[name].dtype.kind not in "biuf"), None)
        if odd is not None:
            raise self.error(f"array {odd!r} of {arrays[odd].dtype} holds values that are not numbers")
        yield arrays

    def read_output(self) -> str | None:
        """Return the text in the array `output`, if there is one."""
        is_text = "output" in self._heads and self._heads["output"][0] == ()
        return str(self._arrays(["output"])["output"]) if is_text else None

    def _read_head(self) -> Iterable[str]:
        if not zipfile.is_zipfile(self.path):
            raise self.error("is not an npz archive; create one with numpy.savez(path, target=..., ...)")
        self._heads: dict[str, tuple[tuple[int, ...], np.dtype]] = {}
        with self._archive() as archive:
            for entry in archive.namelist():
                name = entry.removesuffix(".npy")
                with archive.open(entry) as file:
                    self._heads[name] = self._read_array_head(name, file)
        return self._heads

    def _read_array_head(self, name: str, file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype]:
        """Return the shape and type of an array; its values, and pickles, are not read."""
        try:
            is_first = npy.read_magic(file) == (1, 0)
            shape, _, dtype = (npy.read_array_header_1_0 if is_first else npy.read_array_header_2_0)(file)
        except ValueError:
            shape, dtype = (-1,), np.dtype(object)
        if dtype.hasobject or min(shape, default=0) < 0:
            raise self.error(f"{name!r} is not an array of plain numbers or texts; save it as such an array")
        return shape, dtype

    def _arrays(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Read arrays to their end, where checksums are verified, if their headers show that they fit."""
        heads = {name: self._heads[name] for name in names}
        shapes = ", ".join(f"{name} {shape} of {dtype}" for name, (shape, dtype) in heads.items())
        size = sum(math.prod(shape) * max(dtype.itemsize, 8) for shape, dtype in heads.values())
        self._check_memory(f"the arrays {excerpt(shapes, 200)}", size)
        arrays = {}
        with self._archive() as archive:
            for name in heads:
                with archive.open(f"{name}.npy") as file:
                    try:
                        arrays[name] = npy.read_array(file, allow_pickle=False)
                    except ValueError as err:
                        raise EOFError(f"{name}.npy: {err}") from err
                    if file.read(1):
                        raise EOFError(f"{name}.npy has more values than it says")
        return arrays

    @contextmanager
    def _archive(self) -> Iterator[zipfile.ZipFile]:
        """Open the archive; raise PredictionsError if it is damaged."""
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield archive
        except (EOFError, OSError, RuntimeError, zipfile.BadZipFile, zlib.error) as err:
            raise self.error(f"is damaged: {err}") from err


_TABLES: dict[str, type[Table]] = {
    ".csv": Delimited,
    ".tsv": Delimited,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".parquet": Parquet,
    ".npz": Npz,
}


def open_table(path: Path, memory: float = MEMORY) -> Table:
    """Open a file by its suffix.

    Raises:
        PredictionsError: the suffix, the content or the head does not fit, or the file is not a regular one,
            such as a pipe or a device, which need not end.
        OSError: it cannot be opened.
    """
    kind = _TABLES.get(path.suffix.lower())
    if kind is None:
        raise PredictionsError(
            f"{path}: predictions must be a file of type {', '.join(_TABLES)}, got {path.suffix!r}"
        )
    if not stat.S_ISREG(path.stat().st_mode):
        raise PredictionsError(f"{path}: is not a regular file; write the predictions to a regular file")
    with path.open("rb"):
        table = kind(path, memory)
    if not table.columns:
        raise table.error("is empty; the first row must contain the column names")
    long = max(table.columns, key=len)
    if len(long) > _LONGEST_NAME:
        raise table.error(
            f"the name of a column has {len(long)} characters, but at most {_LONGEST_NAME} are allowed; it "
            f"begins with {excerpt(long, 40)!r}. Is a quote missing?"
        )
    twice = sorted(name for name, times in Counter(table.columns).items() if times > 1)
    if twice:
        raise table.error(f"column {excerpt(', '.join(twice), 200)} appears twice in the header")
    return table


def _lines(path: Path) -> Iterator[str]:
    """Read a file line by line; raise PredictionsError if one is too long or not UTF-8."""
    with path.open(newline="", encoding="utf-8-sig", errors="surrogateescape") as file:
        for number, line in enumerate(iter(partial(file.readline, _LINE), ""), 1):
            if len(line) == _LINE:
                raise PredictionsError(
                    f"{path}:{number}: a line can have at most {_LINE} characters, but this one has more"
                )
            try:
                line.encode()
            except UnicodeEncodeError:
                raise PredictionsError(f"{path}:{number}: is not UTF-8; save the file as UTF-8") from None
            yield line


def _shape(cell: Any) -> tuple[int, ...] | None:
    """Return how many numbers a cell has in each dimension; None if it holds something else."""
    try:
        return np.asarray(cell, dtype=np.float64).shape
    except (TypeError, ValueError, OverflowError):
        return None


def _objects(column: Any) -> np.ndarray:
    """Return an array of the cells: a list stays one value, and bytes are the text that they encode."""
    if isinstance(column, np.ndarray):
        return (np.char.decode(column, "utf-8") if column.dtype.kind == "S" else column).astype(object)
    cells = column.to_pylist() if isinstance(column, pa.Array) else column
    array = np.empty(len(cells), dtype=object)
    array[:] = [cell.decode() if isinstance(cell, bytes) else cell for cell in cells]
    return array
