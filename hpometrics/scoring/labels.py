"""The labels of a file in words, and their class numbers, which metrics read."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from .._redaction import excerpt
from ..metrics.features import BINARY, CATEGORY, OutputFeature
from .roles import WORDS, Roles
from .source import PredictionsError, Source

_WHOLE = re.compile(r"[+-]?[0-9]{1,15}(?:\.0*)?\Z")
_BLANKS = {"", "NA", "N/A", "n/a", "#N/A", "NULL", "null", "nan", "NaN"}
"""Cells without a number among cells with numbers; among labels in words only the first is blank."""


@dataclass(frozen=True)
class Labels:
    """The classes in the order of their numbers; no names if the file holds the numbers themselves.

    `ignored` is the class number of rows that do not count; rows without a label get it.
    """

    names: tuple[str, ...] = ()
    ignored: int | None = None

    def indices(
        self,
        values: np.ndarray,
        source: Source,
        column: str,
        first: int,
        *,
        output: OutputFeature | None = None,
    ) -> np.ndarray:
        """Return the class numbers of a column of labels.

        Args:
            values: the cells.
            source: the file.
            column: its name.
            first: the row of the first cell.
            output: the output for a column of targets, some of which may be unknown; None for predictions.

        Raises:
            PredictionsError: a cell is empty or holds another label; the message names its row.
        """
        words, where = _labels_in(values, source, column, first)
        numbers = [self._number_of(word, output is not None) for word in words]
        if None in numbers:
            index = numbers.index(None)
            place = source.place(first + int(np.flatnonzero(where == index)[0]))
            blank = self._is_blank(words[index])
            cell = f"holds {excerpt(words[index], 60)!r}" if words[index] else "is empty"
            expected = f"one of {', '.join(self.names)}" if self.names else "a class number from 0"
            hint = unlabeled_hint(output) if blank and output is not None else ""
            raise PredictionsError(f"{place}: column {column!r} {cell}; it should be {expected}{hint}")
        indices: np.ndarray = np.array(numbers, dtype=np.int64)[where]
        return indices

    def _is_blank(self, word: str) -> bool:
        return not word if self.names else word in _BLANKS

    def _number_of(self, word: str, is_target: bool) -> int | None:
        """Return the number of a label; None for any other text."""
        if is_target and self.ignored is not None and (self._is_blank(word) or _number(word) == self.ignored):
            return self.ignored
        return self._numbers.get(word) if self.names else _class_number(word, self.ignored)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}


def read_labels(source: Source, roles: Roles, output: OutputFeature) -> Labels:
    """Return the names of the classes: those of the columns of probabilities, else those in the cells.

    Columns numbered from 0 are in the order of the class numbers; those numbered from 1 are named by label.
    Cells that hold whole numbers from 0 are class numbers. Other labels are numbered in their sorted order.

    Raises:
        PredictionsError: the columns of probabilities and the labels in the cells do not fit.
    """
    if output.type not in (BINARY, CATEGORY):
        return Labels()
    suffixes, ignored = _suffixes(roles), getattr(output, "ignore_index", None)
    if suffixes == ("0",) and output.type == BINARY:
        raise PredictionsError(
            f"{source.path}: the one column of a binary output is that of class 1, such as probability_1; "
            "got that of class 0"
        )
    if suffixes and not _numbered_from_zero(suffixes) and not (output.type == BINARY and suffixes == ("1",)):
        names = _binary_order(source, roles, suffixes, ignored) if output.type == BINARY else suffixes
        return _number_labels(names, ignored, source)
    every = _read_words(source, roles)
    numbered = every - _BLANKS
    if (numbered or every <= {""}) and all(_class_number(word, ignored) is not None for word in numbered):
        if output.type == BINARY:
            _check_zero_or_one(source, roles, {int(float(word)) for word in numbered} - {ignored})
        return Labels(ignored=ignored)
    words = sorted(word for word in every if word and _not_ignored(word, ignored))
    examples = excerpt(", ".join(words[:6]), 200)
    numbers = [_number(word) for word in words]
    if None not in numbers and output.type == CATEGORY:
        raise PredictionsError(
            f"{source.path}: a class number is from 0, got {examples}; if one of them marks rows "
            f"that do not count, say so, as in --output 'category(ignore_index={words[0]})'"
        )
    if output.type == BINARY and len(words) > 2:
        raise PredictionsError(f"{source.path}: a binary output has two labels, got {len(words)}: {examples}")
    if suffixes and output.type == CATEGORY and len(suffixes) != len(words):
        raise PredictionsError(
            f"{source.path}: there are {len(suffixes)} columns of classes named by number and the labels "
            f"{examples}; name the columns by label, as in probability_{words[0]}"
        )
    _check_written_alike(source, words)
    return _number_labels(tuple(words), ignored, source)


def _number_labels(names: tuple[str, ...], ignored: int | None, source: Source) -> Labels:
    """Return numbered labels in words, none of which may get the number of rows that do not count."""
    if ignored is not None and 0 <= ignored < len(names):
        raise PredictionsError(
            f"{source.path}: the label {names[ignored]!r} has the number {ignored}, which is that of rows "
            "that do not count; give those another one, such as ignore_index=-1"
        )
    return Labels(names, ignored)


def unlabeled_hint(output: OutputFeature) -> str:
    """Return a remedy for a row without a label; empty if it is allowed."""
    if getattr(output, "ignore_index", 0) is not None:
        return ""
    ignoring = replace(output, ignore_index=-1)  # type: ignore[call-arg]  # it has one, which is None
    return f"; leave out what has no label, or let it count for nothing by --output '{ignoring}'"


def _check_written_alike(source: Source, words: Iterable[str]) -> None:
    """Raise if a number is written in two ways, which would be two classes."""
    written: dict[str, str] = {}
    for word in words:
        number = word.partition(".")[0].removeprefix("+") if _WHOLE.match(word) else word
        if written.setdefault(number, word) != word:
            raise PredictionsError(
                f"{source.path}: the labels {written[number]!r} and {word!r} are one number; beside labels "
                "in words or fractions, write each in one way"
            )


def _check_zero_or_one(source: Source, roles: Roles, numbers: set[int]) -> None:
    """Raise for two class numbers that are not 0 and 1: which of them is class 1 is never guessed.

    If there are more, the row of another number is found when it is read.
    """
    if len(numbers) > 2 or numbers <= {0, 1}:
        return
    words = [WORDS[keyword][0] for keyword in ("probabilities", "logits") if keyword in roles.model_outputs]
    columns = ""
    if numbers == {1, 2} and words:
        word = words[0]
        columns = f"give a column for each, {word}_1 and {word}_2 (which is then that of class 1), or "
    labels = ", ".join(map(str, sorted(numbers)))
    raise PredictionsError(
        f"{source.path}: a binary output has the class numbers 0 and 1, got the labels {labels}; "
        f"{columns}number them 0 and 1"
    )


def _suffixes(roles: Roles) -> tuple[str, ...]:
    for keyword in ("probabilities", "logits"):
        if keyword in roles.model_outputs and roles.model_outputs[keyword].suffixes:
            return roles.model_outputs[keyword].suffixes
    return ()


def _numbered_from_zero(suffixes: tuple[str, ...]) -> bool:
    return all(suffix.isdecimal() for suffix in suffixes) and int(suffixes[0]) == 0


def _binary_order(
    source: Source, roles: Roles, suffixes: tuple[str, ...], ignored: int | None
) -> tuple[str, ...]:
    """Return the two labels of a binary output in order: the label of the one column is class 1."""
    if len(suffixes) == 2:
        return tuple(sorted(suffixes))
    words = {word for word in _read_words(source, roles) if word and _not_ignored(word, ignored)} - set(
        suffixes
    )
    if len(suffixes) > 1 or len(words) > 1:
        raise PredictionsError(
            f"{source.path}: a binary output has two labels, got {', '.join(sorted({*words, *suffixes})[:6])}"
        )
    return (*words, *suffixes) if words else ("", *suffixes)


def _read_words(source: Source, roles: Roles) -> set[str]:
    """Read the labels of the whole file, in a separate pass."""
    columns = [roles.target.columns[0]]
    if "predictions" in roles.model_outputs:
        columns.append(roles.model_outputs["predictions"].columns[0])
    words: set[str] = set()
    first = 0
    for chunk in source.chunks(columns, ()):
        for column, values in chunk.items():
            words.update(_labels_in(values, source, column, first)[0])
        first += len(chunk[columns[0]])
    return words


def _labels_in(values: np.ndarray, source: Source, column: str, first: int) -> tuple[list[str], np.ndarray]:
    """Return the distinct labels of a column; raise for lists and mappings, as a row has one label."""
    try:
        return _distinct(values)
    except TypeError:  # they do not hash
        rows = values.tolist()
        odd = next(i for i, cell in enumerate(rows) if isinstance(cell, (list, dict)))
    raise PredictionsError(
        f"{source.place(first + odd)}: column {column!r} holds {excerpt(rows[odd], 40)}; "
        "a label is one text or number"
    )


def _distinct(values: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return the distinct labels as text and, for each row, the index of its label."""
    places: dict[Any, int] = {}
    where = np.fromiter((places.setdefault(value, len(places)) for value in values.tolist()), dtype=np.int64)
    return [_text(value) for value in places], where


def _text(value: Any) -> str:
    """Return a label as text, without blanks around it; 1, 1.0 and true are the class number 1."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _number(word: str) -> int | None:
    """Return a text as a whole number; None if it is not one."""
    return int(float(word)) if _WHOLE.match(word) else None


def _not_ignored(word: str, ignored: int | None) -> bool:
    return ignored is None or _number(word) != ignored


def _class_number(word: str, ignored: int | None) -> int | None:
    """Return a text as a class number; None if it is not one."""
    number = _number(word)
    return number if number is not None and (number >= 0 or number == ignored) else None


def format_labels(names: Iterable[str]) -> str:
    """Return each label with its number."""
    return ", ".join(f"{name} = {number}" for number, name in enumerate(names))
