"""Read CSV, TSV and JSON lines files; an error names the line."""

from __future__ import annotations

import csv
import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import count, islice
from pathlib import Path
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from .._redaction import excerpt
from .source import MEMORY, ROWS, Chunk, PredictionsError, check_names, objects

_BLOCK = 1 << 23  # bytes of a CSV block, and characters of a cell
_LINE = 1 << 26  # characters of a line


class Delimited:
    """A CSV or TSV file with a head line."""

    def __init__(self, path: Path, memory: float = MEMORY) -> None:
        self.path = path
        self._delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
        with self._lines() as rows:
            self.columns = tuple(next(rows, ()))
        check_names(self)

    def chunks(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Chunk]:
        """Read blocks of some megabytes; empty numbers are nan."""
        types = {**dict.fromkeys(texts, pa.string()), **dict.fromkeys(numbers, pa.float64())}
        try:
            with arrow_csv.open_csv(
                self.path,
                read_options=arrow_csv.ReadOptions(block_size=_BLOCK),
                parse_options=arrow_csv.ParseOptions(delimiter=self._delimiter, newlines_in_values=True),
                convert_options=arrow_csv.ConvertOptions(column_types=types, include_columns=list(types)),
            ) as blocks:
                yield from (_from_arrow(block, texts) for block in blocks)
        except pa.ArrowInvalid as err:
            raise self._culprit(numbers, err) from None

    def place(self, row: int) -> str:
        """Return the line on which a row ends; blank lines are not rows."""
        with self._rows() as rows:
            next(islice(filter(None, rows), row, row + 1), None)
            return f"{self.path}:{rows.line_num}"

    def _culprit(self, numbers: Collection[str], err: Exception) -> PredictionsError:
        """Return the error for the first cell that is not a number, or the first row of another length."""
        with self._rows() as rows:
            for row in rows:
                where = f"{self.path}:{rows.line_num}"
                if row and len(row) != len(self.columns):
                    return PredictionsError(
                        f"{where}: the head has {len(self.columns)} columns, the row {len(row)}"
                    )
                for name, cell in zip(self.columns, row, strict=False):
                    if name in numbers and not _is_number(cell):
                        return PredictionsError(
                            f"{where}: column {name!r} holds {excerpt(cell, 60)!r}, which is not a number"
                        )
        return PredictionsError(f"{self.path}: cannot be read: {err}")

    @contextmanager
    def _rows(self) -> Iterator[Any]:
        """Read the rows after the head."""
        with self._lines() as rows:
            next(rows, None)
            yield rows

    @contextmanager
    def _lines(self) -> Iterator[Any]:
        """Read rows cell by cell.

        Raises:
            PredictionsError: they are not UTF-8, or a line or a cell is too long.
        """
        with self.path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.reader(_lines_of(self.path, file), delimiter=self._delimiter)
            usual = csv.field_size_limit(_BLOCK)
            try:
                yield rows
            except csv.Error as err:
                place = f"{self.path}:{rows.line_num}"
                most = f"a cell has up to {_BLOCK} characters. Is a quote not closed?"
                raise PredictionsError(f"{place}: {err}; {most}") from None
            except UnicodeDecodeError as err:
                raise _not_utf8(self.path, err) from None
            finally:
                csv.field_size_limit(usual)


class JsonLines:
    """A file with a JSON object per line; a value may be a list, such as the probabilities of a row."""

    def __init__(self, path: Path, memory: float = MEMORY) -> None:
        self.path = path
        _, first = next(self._rows(), (0, {}))
        self.columns = tuple(first)
        check_names(self)

    def chunks(self, texts: Collection[str], numbers: Collection[str]) -> Iterator[Chunk]:
        """Read some thousand lines at a time."""
        rows = self._rows()
        while rows_of_chunk := list(islice(rows, ROWS)):
            yield {
                **{
                    name: objects([self._cell(row, name, line) for line, row in rows_of_chunk])
                    for name in texts
                },
                **{name: self._numbers(name, rows_of_chunk) for name in numbers},
            }

    def place(self, row: int) -> str:
        """Return the line of a row; blank lines are not rows."""
        line, _ = next(islice(self._rows(), row, row + 1), (row + 1, {}))
        return f"{self.path}:{line}"

    def _cell(self, row: Mapping[str, Any], name: str, line: int) -> Any:
        if name not in row:
            keys = excerpt(", ".join(row), 500)
            raise PredictionsError(f"{self.path}:{line}: the row has no {name!r}; it has {keys}")
        return row[name]

    def _numbers(self, name: str, rows: list[tuple[int, dict[str, Any]]]) -> np.ndarray:
        cells = [self._cell(row, name, line) for line, row in rows]
        try:
            return np.array([np.nan if cell is None else cell for cell in cells], dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            width = _shape(cells[0])
        for (line, _), cell in zip(rows, cells, strict=True):
            if not _holds_numbers(cell) or _shape(cell) is None:
                raise PredictionsError(
                    f"{self.path}:{line}: column {name!r} holds {excerpt(cell, 60)!r}, which is not a number"
                ) from None
            if _shape(cell) != width:
                raise PredictionsError(
                    f"{self.path}:{line}: column {name!r} holds {np.size(cell)} numbers, the rows before "
                    f"{int(np.prod(width or ()))}"
                ) from None
        raise PredictionsError(f"{self.path}: column {name!r} holds values that are not numbers")

    def _rows(self) -> Iterator[tuple[int, dict[str, Any]]]:
        try:
            with self.path.open(encoding="utf-8-sig") as file:
                for line, text in enumerate(_lines_of(self.path, file), 1):
                    if text.strip():
                        yield line, self._object(line, text)
        except UnicodeDecodeError as err:
            raise _not_utf8(self.path, err) from None

    def _object(self, line: int, text: str) -> dict[str, Any]:
        try:
            row = json.loads(text)
        except ValueError as err:
            raise PredictionsError(f"{self.path}:{line}: is not JSON: {err}") from None
        except RecursionError:
            raise PredictionsError(f"{self.path}:{line}: is not JSON: it is nested too deep") from None
        if not isinstance(row, dict):
            raise PredictionsError(
                f"{self.path}:{line}: a line is an object {{...}}, got {excerpt(text.strip(), 40)}"
            )
        return row


def _lines_of(path: Path, file: IO[str]) -> Iterator[str]:
    """Read a file line by line.

    Raises:
        PredictionsError: a line is too long.
    """
    for line in count(1):
        text = file.readline(_LINE)
        if len(text) == _LINE:
            raise PredictionsError(f"{path}:{line}: a line has up to {_LINE} characters; this one has more")
        if not text:
            return
        yield text


def _not_utf8(path: Path, err: UnicodeDecodeError) -> PredictionsError:
    with path.open("rb") as file:
        lines = iter(partial(file.readline, _LINE), b"")
        line = next((i for i, raw in enumerate(lines, 1) if not _is_utf8(raw)), 1)
    return PredictionsError(f"{path}:{line}: is not UTF-8 ({err.reason}); save the file as UTF-8")


def _is_utf8(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True


def _from_arrow(block: Any, texts: Collection[str]) -> Chunk:
    return {
        name: objects(column.to_pylist()) if name in texts else column.to_numpy(zero_copy_only=False)
        for name, column in zip(block.schema.names, block.columns, strict=True)
    }


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return cell in ("NA", "N/A", "NULL", "null", "n/a", "#N/A")
    return True


def _shape(cell: Any) -> tuple[int, ...] | None:
    """Return how many numbers a cell has in each dimension; None if its lists differ in length."""
    try:
        return tuple(np.shape(cell))
    except ValueError:
        return None


def _holds_numbers(cell: Any) -> bool:
    cells = cell if isinstance(cell, list) else [cell]
    return all(one is None or isinstance(one, (int, float, list)) for one in cells)
