"""Read columns as the arguments of `update`: a column has a role by its name, a label has a number."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from .._formatting import listed
from .._redaction import excerpt
from ..metrics.features import (
    BINARY,
    BOXES,
    CATEGORY,
    CLUSTERS,
    MASK,
    SEQUENCE,
    SET,
    TEXT,
    TIMESERIES,
    VECTOR,
    Category,
    OutputFeature,
)
from ..metrics.registry.scope import ALL_TASKS
from ..metrics.registry.suggestions import suggestion
from .files import Chunk, PredictionsError, Table

WORDS = {
    "target": ("target", "targets"),
    "predictions": ("prediction", "predictions"),
    "probabilities": ("probability", "probabilities"),
    "logits": ("logit", "logits"),
    "references": ("reference", "references"),
}
_ELSEWHERE = {
    "target": {"y_true", "y", "label", "labels", "truth", "ground_truth", "actual", "gold", "true"},
    "prediction": {"y_pred", "pred", "preds", "predicted", "predict", "output"},
    "probability": {"y_score", "y_prob", "prob", "probs", "proba", "score", "scores", "confidence"},
}
"""Names of columns in other tools: suggested if a column is missing, never read."""

_WIDE = (SET, VECTOR, TIMESERIES)
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}(?:\.0*)?\Z")
_BLANKS = {"", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "nan", "NaN"}
"""Cells without a number among cells with numbers; among labels in words only the first is blank."""

Roles = dict[str, dict[str, str]]
"""The columns of each keyword of `update`, the target first, by suffix; that of a lone column is empty."""


@dataclass(frozen=True)
class Predictions:
    """A table whose columns have roles.

    Args:
        table: the file.
        output: the output of the model.
        roles: the columns of target and model outputs.
        task: the column of tasks.
        others: the column of each further keyword of `update`, such as `sample_weight`.
        labels: the classes in the order of their numbers; empty if the file holds the numbers themselves.
    """

    table: Table
    output: OutputFeature
    roles: Roles
    task: str | None = None
    others: dict[str, str] = field(default_factory=dict)
    labels: tuple[str, ...] = ()

    @property
    def ignored(self) -> int | None:
        """The class number of rows that do not count; rows without a label get it."""
        return getattr(self.output, "ignore_index", None)

    def batches(self) -> Iterator[tuple[int, dict[str, np.ndarray], dict[str, Any]]]:
        """Read the file: the first row of each batch, the rows of each task, the arguments of `update`.

        Raises:
            PredictionsError: a cell does not fit its column; the message names row and column.
        """
        texts: list[str] = []
        numbers = list(self.others.values())
        for keyword, columns in self.roles.items():
            (texts if self._is_text(keyword) else numbers).extend(columns.values())
        texts += [] if self.task is None else [self.task]
        both = sorted({*texts} & {*numbers})
        if both:
            raise self.table.error(
                f"column {both[0]!r} cannot be read both as labels and as numbers; choose other columns "
                "with --weights and --by"
            )
        first = 0
        for chunk in self.table.chunks(texts, numbers):
            tensors = {keyword: self._values(keyword, chunk, first) for keyword in self.roles}
            tensors |= {name: self._finite(column, chunk, first) for name, column in self.others.items()}
            rows = len(next(iter(chunk.values())))
            if rows:
                yield first, self._rows_of_tasks(chunk, rows), tensors
            first += rows

    def _rows_of_tasks(self, chunk: Chunk, rows: int) -> dict[str, np.ndarray]:
        if self.task is None:
            return {ALL_TASKS: np.arange(rows)}
        cells = chunk[self.task].tolist()
        words = [("" if cell is None else str(cell).strip()) or "(none)" for cell in cells]
        if ALL_TASKS in words:
            raise self.table.error(f"a task cannot be named {ALL_TASKS!r}, which stands for all tasks")
        tasks = np.array(words, dtype=object)
        return {task: np.flatnonzero(tasks == task) for task in sorted(set(words))}

    def _is_text(self, keyword: str) -> bool:
        """Return whether the cells are read as they are: labels, texts and lists of tokens."""
        worded = self.output.type in (BINARY, CATEGORY, TEXT, SEQUENCE)
        return worded and keyword not in ("probabilities", "logits")

    def _values(self, keyword: str, chunk: Chunk, first: int) -> Any:
        if not self._is_text(keyword):
            return self._numbers(keyword, chunk, first)
        read = {TEXT: self._strings, SEQUENCE: self._tokens}.get(self.output.type, self._class_numbers)
        return read(keyword, chunk, first)

    def _numbers(self, keyword: str, chunk: Chunk, first: int) -> np.ndarray:
        """Return the columns of a keyword side by side; a binary output has one, that of class 1."""
        kind, role, is_target = self.output.type, self.roles[keyword], keyword == "target"
        columns = list(role.values())
        if kind == BINARY and len(columns) == 2:
            columns = [role.get("".join(self.labels[1:2]), columns[1])]
        if is_target and self.ignored is not None:
            chunk = {name: np.where(np.isnan(chunk[name]), self.ignored, chunk[name]) for name in columns}
        hint = _unlabeled_hint(self.output) if is_target else ""
        arrays = [self._finite(column, chunk, first, hint) for column in columns]
        is_wide = len(arrays) > 1 or ("" not in role and kind != BINARY)
        values = np.stack(arrays, axis=1) if is_wide else arrays[0]
        if kind in _WIDE and values.ndim == 1:
            word = WORDS[keyword][0]
            raise self.table.error(
                f"a row of a {kind} output needs several numbers, in columns {word}_0, {word}_1 ..., or as "
                f"a list in one column (JSON lines, Parquet, npz); got one number in column {columns[0]!r}"
            )
        if kind not in (SET, MASK, CLUSTERS) or keyword not in ("target", "predictions"):
            return values
        whole = values.astype(np.int64)
        odd = _first_row(whole != values)
        if odd is not None:
            names = ", ".join(columns[:3])
            raise self.table.error(
                f"{names} of a {kind} output must be whole numbers, got a fraction", first + odd
            )
        return whole

    def _finite(self, column: str, chunk: Chunk, first: int, hint: str = "") -> np.ndarray:
        values = chunk[column]
        row = _first_row(~np.isfinite(values))
        if row is not None:
            is_empty = bool(np.isnan(values[row]).any())
            problem = "is empty or nan" if is_empty else f"holds {excerpt(values[row].tolist(), 60)}"
            raise self.table.error(
                f"column {column!r} {problem}; a value must be a finite number{hint if is_empty else ''}",
                first + row,
            )
        return values

    def _strings(self, keyword: str, chunk: Chunk, first: int) -> list[Any]:
        """Return a text per row, or the list of its references without the empty ones."""
        role = self.roles[keyword]
        cells: list[list[Any]] = [chunk[column].tolist() for column in role.values()]
        if "" not in role:
            rows = [[text for text in row if text] for row in zip(*cells, strict=True)]
            if [] in rows:
                raise self.table.error(
                    f"none of {', '.join(role.values())} contains text", first + rows.index([])
                )
            return rows
        for row, cell in enumerate(cells[0]):
            texts = cell if isinstance(cell, list) and cell else [cell]
            if not all(isinstance(text, str) for text in texts):
                problem = f"holds {excerpt(repr(cell), 60)}, which is not text"
                raise self.table.error(f"column {role['']!r} {problem}", first + row)
        return cells[0]

    def _tokens(self, keyword: str, chunk: Chunk, first: int) -> np.ndarray:
        """Return lists of tokens as an array, the shorter ones padded with the ignored index."""
        column, target = self.roles[keyword][""], self.roles["target"][""]
        values = chunk[column]
        if values.ndim > 1:  # an array of an npz file
            return values.astype(np.int64)
        for row, (tokens, targets) in enumerate(zip(values, chunk[target], strict=True)):
            if not (isinstance(tokens, list) and all(isinstance(token, int) for token in tokens)):
                problem = (
                    f"column {column!r} holds {excerpt(tokens, 40)}, which is not a list of token numbers"
                )
                raise self.table.error(problem, first + row)
            if len(tokens) != len(targets):
                counts = f"{len(targets)} in {target!r}, {len(tokens)} in {column!r}"
                raise self.table.error(f"the numbers of tokens differ: {counts}", first + row)
        padded = np.full((len(values), max(map(len, values), default=0)), self.ignored, dtype=np.int64)
        for row, tokens in enumerate(values):
            padded[row, : len(tokens)] = tokens
        return padded if keyword == "target" else np.where(padded == self.ignored, 0, padded)

    def _class_numbers(self, keyword: str, chunk: Chunk, first: int) -> np.ndarray:
        """Return the class number of each row; raise for a cell that is empty or holds another label."""
        column, is_target = next(iter(self.roles[keyword].values())), keyword == "target"
        words, where = self._distinct(column, chunk, first)
        by_name = {name: number for number, name in enumerate(self.labels)}
        numbers = []
        for index, word in enumerate(words):
            is_blank = word in ({""} if self.labels else _BLANKS)
            if is_target and self.ignored is not None and (is_blank or _number(word) == self.ignored):
                number: int | None = self.ignored
            else:
                number = by_name.get(word) if self.labels else _class_number(word, self.ignored)
            if number is None:
                cell = f"holds {excerpt(word, 60)!r}" if word else "is empty"
                expected = f"one of {', '.join(self.labels)}" if self.labels else "a class number from 0"
                hint = _unlabeled_hint(self.output) if is_blank and is_target else ""
                row = first + int(np.flatnonzero(where == index)[0])
                raise self.table.error(f"column {column!r} {cell}; it should be {expected}{hint}", row)
            numbers.append(number)
        indices: np.ndarray = np.array(numbers, dtype=np.int64)[where]
        return indices

    def _distinct(self, column: str, chunk: Chunk, first: int) -> tuple[list[str], np.ndarray]:
        """Return the distinct labels of a column as text and, for each row, the index of its label."""
        places: dict[Any, int] = {}
        cells = chunk[column].tolist()
        try:
            where = np.fromiter((places.setdefault(cell, len(places)) for cell in cells), dtype=np.int64)
        except TypeError:  # a list or a mapping does not hash
            row = next(i for i, cell in enumerate(cells) if isinstance(cell, (list, dict)))
            problem = f"column {column!r} holds {excerpt(cells[row], 40)}; a label must be one text or number"
            raise self.table.error(problem, first + row) from None
        return [text_of_label(cell) for cell in places], where

    def with_labels(self) -> Predictions:
        """Return the predictions with the names and the number of their classes.

        The names are those of columns, else those in the cells. Columns numbered from 0 are in the order of
        the class numbers; those numbered from 1 are named by label. Cells that hold whole numbers from 0 are
        class numbers. Other labels are numbered in their sorted order.

        Raises:
            PredictionsError: the columns of probabilities and the labels in the cells do not fit.
        """
        if self.output.type not in (BINARY, CATEGORY):
            return self
        labels = self._read_labels()
        if self.ignored is not None and 0 <= self.ignored < len(labels):
            raise self.table.error(
                f"the label {labels[self.ignored]!r} has the number {self.ignored}, which marks ignored "
                "rows; choose another mark, such as ignore_index=-1"
            )
        output = self.output
        if isinstance(output, Category) and output.num_classes is None and labels:
            output = replace(output, num_classes=len(labels))
        return replace(self, labels=labels, output=output)

    def _read_labels(self) -> tuple[str, ...]:
        is_binary = self.output.type == BINARY
        scores = self.roles.get("probabilities", {}) or self.roles.get("logits", {})
        suffixes = tuple(suffix for suffix in scores if suffix)
        if suffixes == ("0",) and is_binary:
            raise self.table.error(
                "a single column of a binary output must be the one of class 1, such as probability_1; got "
                "the one of class 0"
            )
        is_numbered = all(suffix.isdecimal() for suffix in suffixes) and int((*suffixes, "0")[0]) == 0
        if not is_numbered and (len(suffixes) > 1 or not is_binary):
            if is_binary:
                self._check_two(suffixes)
            return tuple(sorted(suffixes)) if is_binary else suffixes
        every = self._read_words()
        words = sorted(
            word for word in every if word and (self.ignored is None or _number(word) != self.ignored)
        )
        if not is_numbered and suffixes != ("1",):  # the one column of a binary output is that of class 1
            others = [word for word in words if word not in suffixes]
            self._check_two([*others, *suffixes])
            return (*(others or [""]), *suffixes)
        numbered = every - _BLANKS
        if (numbered or every <= {""}) and all(
            _class_number(word, self.ignored) is not None for word in numbered
        ):
            if is_binary:
                self._check_zero_or_one({int(float(word)) for word in numbered} - {self.ignored})
            return ()
        examples = excerpt(", ".join(words[:6]), 200)
        if is_binary:
            self._check_two(words)
            self._check_not_single(words)
        elif all(_number(word) is not None for word in words):
            raise self.table.error(
                f"class numbers start at 0, got {examples}; if one of them marks ignored rows, declare it, "
                f"as in --output 'category(ignore_index={words[0]})'"
            )
        elif suffixes and len(suffixes) != len(words):
            raise self.table.error(
                f"there are {len(suffixes)} columns named by class number, but the labels are {examples}; "
                f"name the columns by label, as in probability_{words[0]}"
            )
        self._check_written_alike(words)
        return tuple(words)

    def _read_words(self) -> set[str]:
        """Read the labels of the whole file, in a separate pass."""
        roles = [self.roles[keyword] for keyword in ("target", "predictions") if keyword in self.roles]
        columns = [next(iter(role.values())) for role in roles]
        words: set[str] = set()
        first = 0
        for chunk in self.table.chunks(columns, ()):
            for column in columns:
                words.update(self._distinct(column, chunk, first)[0])
            first += len(chunk[columns[0]])
        return words

    def _check_two(self, words: Sequence[str]) -> None:
        if len(words) > 2:
            examples = excerpt(", ".join(sorted(words)[:6]), 200)
            raise self.table.error(f"a binary output needs two labels, got {len(words)}: {examples}")

    def _check_not_single(self, words: Sequence[str]) -> None:
        """Raise for a lone label in words: without the other one, its number would be a guess."""
        if len(words) == 1:
            raise self.table.error(
                f"a binary output needs two labels, got only {words[0]!r}, which may be class 0 or class 1; "
                "number the labels 0 and 1"
            )

    def _check_zero_or_one(self, numbers: set[int]) -> None:
        """Raise for two class numbers that are not 0 and 1: which of them is class 1 is never guessed.

        If there are more, the row of another number is found when it is read.
        """
        if len(numbers) > 2 or numbers <= {0, 1}:
            return
        word = next((WORDS[key][0] for key in ("probabilities", "logits") if key in self.roles), None)
        columns = ""
        if numbers == {1, 2} and word is not None:
            columns = f"add a column for each, {word}_1 and {word}_2 (the second is class 1), or "
        raise self.table.error(
            "a binary output needs the class numbers 0 and 1, got the labels "
            f"{', '.join(map(str, sorted(numbers)))}; {columns}number them 0 and 1"
        )

    def _check_written_alike(self, words: list[str]) -> None:
        """Raise if a number is written in two ways, which would be two classes."""
        written: dict[str, str] = {}
        for word in words:
            number = word.partition(".")[0].removeprefix("+") if _WHOLE.match(word) else word
            if written.setdefault(number, word) != word:
                raise self.table.error(
                    f"the labels {written[number]!r} and {word!r} are the same number; if other labels are "
                    "words or fractions, write each label in only one way"
                )


def read_roles(table: Table, feature_type: str) -> Roles:
    """Return the columns of target and model outputs, by their names.

    Raises:
        PredictionsError: a column is missing, or columns do not fit those of the target.
    """
    if feature_type == BOXES:
        raise table.error("boxes cannot be read from a file; update a MetricCollection")
    roles = {keyword: columns for keyword in WORDS if (columns := _columns_of(table, keyword))}
    references = roles.pop("references", {})
    target = references if references and feature_type == TEXT else roles.pop("target", {})
    outputs = {keyword: role for keyword, role in roles.items() if keyword != "target"}
    if not target:
        raise missing_column(table, "target_0" if feature_type == SET else "target", "the correct values")
    if not outputs:
        raise missing_column(table, "prediction", "or probability_* or logit_*: the output of the model")
    for keyword, role in outputs.items():
        front = f"{next(iter(role.values()))} ..."
        if feature_type == SEQUENCE and "" not in role:
            raise table.error(
                f"a sequence must be a list of tokens in one column (JSON lines, npz), got {front}"
            )
        if feature_type in _WIDE and "" not in target and "" not in role:
            if odd := sorted(role.keys() ^ target.keys()):
                raise table.error(
                    f"the columns {next(iter(target.values()))} ... and {front} have different labels; "
                    f"only one of them has {', '.join(odd)}"
                )
            outputs[keyword] = {suffix: role[suffix] for suffix in target}  # in the order of the target's
    return {"target": target, **outputs}


def _columns_of(table: Table, keyword: str) -> dict[str, str]:
    """Return the columns of a keyword by their suffix; numbered ones in order, from 0 or 1 without a gap."""
    for column in (keyword, *WORDS[keyword]):
        if column in table.columns:
            return {"": column}
    front = f"{WORDS[keyword][0]}_"
    columns = {name.removeprefix(front): name for name in table.columns if name.startswith(front)}
    if not columns or not all(suffix.isdecimal() for suffix in columns):
        return columns
    ordered = sorted(columns, key=int)
    start = int(ordered[0])
    if start > 1 or [int(suffix) for suffix in ordered] != list(range(start, start + len(ordered))):
        names = ", ".join(f"{front}{suffix}" for suffix in ordered)
        raise table.error(f"columns numbered by class must run from {front}0 without a gap, got {names}")
    return {suffix: columns[suffix] for suffix in ordered}


def missing_column(table: Table, name: str, reader: str) -> PredictionsError:
    """Return the error that names the missing column, lists the columns and suggests one."""
    columns = ", ".join(table.columns)
    parts = columns.replace("\t", ";").split(";")
    if len(table.columns) == 1 and len(parts) > 1:
        return table.error(
            f"the header has one column, {excerpt(columns, 200)!r}, which would be {len(parts)} with "
            "commas; a .csv file needs commas and decimal points, a .tsv file needs tabs"
        )
    hint = suggestion(name, table.columns)
    usual = next((names for word, names in _ELSEWHERE.items() if name.startswith(word)), set())
    matches = [column for column in table.columns if column.lower().strip() in usual]
    if not hint and len(matches) == 1:
        hint = f" If {matches[0]!r} is that column, name it {name!r}."
    elif not hint and name in ("prediction", "probability"):
        hint = scores_hint(table)
    return table.error(
        f"there is no column {name!r} ({reader}).{hint} Its columns are {excerpt(columns, 500)}"
    )


def scores_hint(table: Table) -> str:
    """Return how to name columns that may hold probabilities; empty without one."""
    numbered = (re.sub(r"_[0-9]+\Z", "", column.lower().strip()) for column in table.columns)
    scores = [
        column
        for column, word in zip(table.columns, numbered, strict=True)
        if word in _ELSEWHERE["probability"]
    ]
    if not scores:
        return ""
    if len(scores) == 1:
        return f" If {scores[0]!r} holds probabilities, name it 'probability'."
    return f" If {listed(scores)} hold probabilities, name them probability_0, probability_1 ..."


def _unlabeled_hint(output: OutputFeature) -> str:
    """Return a remedy for a row without a label; empty if it is allowed."""
    if getattr(output, "ignore_index", 0) is not None:
        return ""
    ignoring = replace(output, ignore_index=-1)  # type: ignore[call-arg]  # it has one, which is None
    return f"; leave out rows without a label, or ignore them with --output '{ignoring}'"


def _first_row(odd: np.ndarray) -> int | None:
    """Return the index of the first row in which any entry is true."""
    return int(odd.reshape(len(odd), -1).any(axis=1).argmax()) if odd.any() else None


def text_of_label(cell: Any) -> str:
    """Return a label as text, without blanks around it; 1, 1.0 and true are the class number 1."""
    if cell is None or cell != cell:
        return ""
    if isinstance(cell, bool) or (isinstance(cell, float) and cell.is_integer()):
        return str(int(cell))
    return str(cell).strip()


def _number(word: str) -> int | None:
    """Return a text as a whole number; None if it is not one."""
    return int(float(word)) if _WHOLE.match(word) else None


def _class_number(word: str, ignored: int | None) -> int | None:
    """Return a text as a class number, which is from 0 or the ignored one; None if it is not one."""
    number = _number(word)
    return number if number is not None and (number >= 0 or number == ignored) else None
