"""Convert chunks of a file to the keyword arguments of `update`, with the task of every row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._redaction import excerpt
from ..metrics.features import BINARY, CATEGORY, CLUSTERS, MASK, SEQUENCE, SET, TEXT, OutputFeature
from .labels import Labels, unlabeled_hint
from .roles import WIDE, WORDS, Role, Roles
from .source import Chunk, PredictionsError, Source

_WHOLE = (SET, MASK, CLUSTERS)


@dataclass(frozen=True)
class Batch:
    """Some rows: the arguments of `update`, each row's task (None without tasks), the first, the count."""

    tensors: dict[str, Any]
    tasks: np.ndarray | None
    first: int
    rows: int

    def of(self, task: str) -> dict[str, Any]:
        """Return the arguments for the rows of one task."""
        return self.tensors if self.tasks is None else self.select(self.rows_of(task))

    def rows_of(self, task: str) -> np.ndarray:
        """Return the indices of the rows of one task in the batch."""
        return np.arange(self.rows) if self.tasks is None else np.flatnonzero(self.tasks == task)

    def select(self, rows: np.ndarray) -> dict[str, Any]:
        """Return the arguments for some of the rows."""
        return {name: _select(values, rows) for name, values in self.tensors.items()}


def batches(source: Source, roles: Roles, labels: Labels, output: OutputFeature) -> Iterator[Batch]:
    """Read a file batch by batch.

    Raises:
        PredictionsError: a cell does not fit its column; the message names row and column.
    """
    reader = _Reader(source, roles, labels, output)
    reader.check_columns()
    first = 0
    for chunk in source.chunks(reader.texts, reader.numbers):
        rows = len(next(iter(chunk.values())))
        tensors = reader.tensors(chunk, first)
        tasks = None if roles.task is None else _words(chunk[roles.task])
        if rows:
            yield Batch(tensors, tasks, first, rows)
        first += rows


@dataclass(frozen=True)
class _Reader:
    source: Source
    roles: Roles
    labels: Labels
    output: OutputFeature

    @property
    def texts(self) -> list[str]:
        """The columns to be read as they are."""
        roles = [role for role in self._all if self._is_text(role)]
        columns = [column for role in roles for column in role.columns]
        return columns if self.roles.task is None else [*columns, self.roles.task]

    @property
    def numbers(self) -> list[str]:
        """The columns to be read as numbers."""
        roles = [role for role in self._all if not self._is_text(role)]
        weight = () if self.roles.weight is None else (self.roles.weight,)
        return [*(column for role in roles for column in role.columns), *weight, *self.roles.extras]

    def check_columns(self) -> None:
        """Raise if a column is needed both as it is, as labels and tasks are, and as numbers."""
        both = sorted({*self.texts} & {*self.numbers})
        if both:
            raise PredictionsError(
                f"{self.source.path}: column {both[0]!r} cannot be read as labels and as numbers at once; "
                "name other columns by --weights and --by"
            )

    @property
    def _all(self) -> tuple[Role, ...]:
        return self.roles.target, *self.roles.model_outputs.values()

    def _is_text(self, role: Role) -> bool:
        """Return whether the columns are read as they are: labels, texts and lists of tokens."""
        decided = role.keyword not in ("probabilities", "logits")
        return decided and self.output.type in (BINARY, CATEGORY, TEXT, SEQUENCE)

    def tensors(self, chunk: Chunk, first: int) -> dict[str, Any]:
        """Return the arguments of `update`."""
        arguments = {role.keyword: self._values(role, chunk, first) for role in self._all}
        if self.roles.weight is not None:
            arguments["sample_weight"] = self._finite(self.roles.weight, chunk, first)
        arguments |= {name: self._finite(name, chunk, first) for name in self.roles.extras}
        if "references" in arguments:
            arguments["target"] = arguments.pop("references")
        return arguments

    def _values(self, role: Role, chunk: Chunk, first: int) -> Any:
        if not self._is_text(role):
            return self._numbers(role, chunk, first)
        columns = [chunk[column] for column in role.columns]
        if self.output.type == TEXT:
            return self._strings(role, columns, first)
        if self.output.type == SEQUENCE:
            self._check_lengths(chunk, first)
            return self._tokens(role, columns[0], first)
        output = self.output if role.keyword == "target" else None
        return self.labels.indices(columns[0], self.source, role.columns[0], first, output=output)

    def _numbers(self, role: Role, chunk: Chunk, first: int) -> np.ndarray:
        """Return the columns of a role side by side; a binary output has one, that of class 1."""
        columns = role.columns
        if self.output.type == BINARY and len(columns) == 2:
            columns = (columns[self._positive(role)],)
        chunk = self._with_unknown(role, columns, chunk)
        hint = unlabeled_hint(self.output) if role.keyword == "target" else ""
        arrays = [self._finite(column, chunk, first, hint) for column in columns]
        wide = len(arrays) > 1 or (role.suffixes and self.output.type != BINARY)
        values = np.stack(arrays, axis=1) if wide else arrays[0]
        self._check_wide(role, values)
        decided = role.keyword in ("target", "predictions") and self.output.type in _WHOLE
        return self._whole(values, role, first) if decided else values

    def _with_unknown(self, role: Role, columns: Iterable[str], chunk: Chunk) -> Chunk:
        """Fill the empty cells of a target with the ignored index, if the output has one."""
        ignored = getattr(self.output, "ignore_index", None)
        if role.keyword != "target" or ignored is None:
            return chunk
        return {name: np.where(np.isnan(chunk[name]), ignored, chunk[name]) for name in columns}

    def _check_wide(self, role: Role, values: np.ndarray) -> None:
        if self.output.type in WIDE and values.ndim == 1:
            word = WORDS[role.keyword][0]
            raise PredictionsError(
                f"{self.source.path}: a row of a {self.output.type} output is several numbers, in columns "
                f"{word}_0, {word}_1 ..., or a list in one column, as JSON lines, Parquet and npz have it; "
                f"got one number in column {role.columns[0]!r}"
            )

    def _whole(self, values: np.ndarray, role: Role, first: int) -> np.ndarray:
        whole = values.astype(np.int64)
        odd = (whole != values).reshape(len(values), -1).any(axis=1)
        if odd.any():
            place = self.source.place(first + int(np.flatnonzero(odd)[0]))
            raise PredictionsError(
                f"{place}: {', '.join(role.columns[:3])} of a {self.output.type} output hold whole numbers, "
                "got a fraction"
            )
        return whole

    def _positive(self, role: Role) -> int:
        """Return which of two columns is that of class 1: that of its label, else the second."""
        names = self.labels.names
        return role.suffixes.index(names[1]) if names and names[1] in role.suffixes else 1

    def _finite(self, column: str, chunk: Chunk, first: int, hint: str = "") -> np.ndarray:
        values = chunk[column]
        bad = ~np.isfinite(values)
        if bad.any():
            row = int(np.flatnonzero(bad.reshape(len(values), -1).any(axis=1))[0])
            cell = values[row].tolist() if values.ndim > 1 else values[row].item()
            problem = "is empty or nan" if cell != cell else f"holds {excerpt(cell, 60)}"
            raise PredictionsError(
                f"{self.source.place(first + row)}: column {column!r} {problem}; a value is a finite number"
                + (hint if cell != cell else "")
            )
        return values

    def _strings(self, role: Role, columns: list[np.ndarray], first: int) -> list[Any]:
        """Return a text per row, or the list of its references without the empty ones."""
        if len(columns) == 1 and not role.suffixes:
            return [self._string(value, role.columns[0], first + i) for i, value in enumerate(columns[0])]
        rows = [[value for value in row if value] for row in zip(*columns, strict=True)]
        if [] in rows:
            raise PredictionsError(
                f"{self.source.place(first + rows.index([]))}: none of {', '.join(role.columns)} holds a text"
            )
        return rows

    def _string(self, value: Any, column: str, row: int) -> Any:
        listed = isinstance(value, list) and value and all(isinstance(one, str) for one in value)
        if not (isinstance(value, str) or listed):
            text = excerpt(repr(value), 60)
            raise PredictionsError(
                f"{self.source.place(row)}: column {column!r} holds {text}, which is not text"
            )
        return value

    def _tokens(self, role: Role, values: np.ndarray, first: int) -> np.ndarray:
        """Return lists of tokens as an array, the shorter ones padded with the ignored index."""
        if values.ndim > 1:
            return values.astype(np.int64)
        self._check_tokens(role, values, first)
        ignored: int = self.output.ignore_index  # type: ignore[attr-defined]  # a sequence has one
        padded = np.full((len(values), max(map(len, values), default=0)), ignored, dtype=np.int64)
        for i, row in enumerate(values):
            padded[i, : len(row)] = row
        return padded if role.keyword == "target" else np.where(padded == ignored, 0, padded)

    def _check_lengths(self, chunk: Chunk, first: int) -> None:
        """Raise if a row has another number of predicted tokens than of target tokens."""
        names = [role.columns[0] for role in self._all if self._is_text(role)]
        for i, row in enumerate(zip(*(chunk[name] for name in names), strict=True)):
            if len({len(cell) for cell in row if hasattr(cell, "__len__")}) > 1:
                counts = ", ".join(f"{len(cell)} in {name!r}" for name, cell in zip(names, row, strict=True))
                raise PredictionsError(
                    f"{self.source.place(first + i)}: the numbers of tokens differ: {counts}"
                )

    def _check_tokens(self, role: Role, values: np.ndarray, first: int) -> None:
        for i, row in enumerate(values):
            if not (isinstance(row, list) and all(isinstance(token, int) for token in row)):
                raise PredictionsError(
                    f"{self.source.place(first + i)}: column {role.columns[0]!r} holds {excerpt(row, 40)}, "
                    "which is not a list of token numbers"
                )


def _words(values: np.ndarray) -> np.ndarray:
    words = ["" if value is None else str(value).strip() for value in values.tolist()]
    return np.array([word or "(none)" for word in words], dtype=object)


def _select(values: Any, chosen: np.ndarray) -> Any:
    return values[chosen] if isinstance(values, np.ndarray) else [values[i] for i in chosen]
