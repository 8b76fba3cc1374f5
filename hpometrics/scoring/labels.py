"""Labels: the classes of a file in words, and their numbers, which is what metrics read."""

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
"""What stands for no number where the other cells hold numbers; among labels in words only the first does."""


@dataclass(frozen=True)
class Labels:
    """The classes in the order of their numbers; no names where the file gives the numbers themselves.

    `ignored` is the number of rows that do not count, which rows without a label then have.
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
        """Give the numbers of a column of labels.

        Args:
            values: the cells.
            source: the file.
            column: its name.
            first: the row of the first cell.
            output: given of the right labels, of which some may be unknown; None of predictions.

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
            wanted = f"one of {', '.join(self.names)}" if self.names else "a class number from 0"
            hint = unlabeled_hint(output) if blank and output is not None else ""
            raise PredictionsError(f"{place}: column {column!r} {cell}; it should be {wanted}{hint}")
        indices: np.ndarray = np.array(numbers, dtype=np.int64)[where]
        return indices

    def _is_blank(self, word: str) -> bool:
        return not word if self.names else word in _BLANKS

    def _number_of(self, word: str, is_target: bool) -> int | None:
        """The number of a label; None of what is none."""
        if is_target and self.ignored is not None and (self._is_blank(word) or _number(word) == self.ignored):
            return self.ignored
        return self._numbers.get(word) if self.names else _class(word, self.ignored)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.names)}


def read_labels(source: Source, roles: Roles, output: OutputFeature) -> Labels:
    """Find out what the classes are called: as the columns of probabilities say, else what the cells hold.

    Columns numbered from 0 are in the order of the class numbers; those numbered from 1 are named by label.
    Cells that hold whole numbers from 0 are class numbers. Other labels are numbered in their sorted order.

    Raises:
        PredictionsError: the columns of probabilities and the labels in the cells cannot be put together.
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
        return _named(names, ignored, source)
    every = _words(source, roles)
    numbered = every - _BLANKS
    if (numbered or every <= {""}) and all(_class(word, ignored) is not None for word in numbered):
        if output.type == BINARY:
            _check_zero_or_one(source, roles, {int(float(word)) for word in numbered} - {ignored})
        return Labels(ignored=ignored)
    words = sorted(word for word in every if word and _not_ignored(word, ignored))
    shown = excerpt(", ".join(words[:6]), 200)
    numbers = [_number(word) for word in words]
    if None not in numbers and output.type == CATEGORY:
        raise PredictionsError(
            f"{source.path}: a class number is from 0, got {shown}; if one of them marks rows "
            f"that do not count, say so, as in --output 'category(ignore_index={words[0]})'"
        )
    if output.type == BINARY and len(words) > 2:
        raise PredictionsError(f"{source.path}: a binary output has two labels, got {len(words)}: {shown}")
    if suffixes and output.type == CATEGORY and len(suffixes) != len(words):
        raise PredictionsError(
            f"{source.path}: there are {len(suffixes)} columns of classes named by number and the labels "
            f"{shown}; name the columns by label, as in probability_{words[0]}"
        )
    _check_written_alike(source, words)
    return _named(tuple(words), ignored, source)


def _named(names: tuple[str, ...], ignored: int | None, source: Source) -> Labels:
    """Number labels in words, of which none may get the number of what does not count."""
    if ignored is not None and 0 <= ignored < len(names):
        raise PredictionsError(
            f"{source.path}: the label {names[ignored]!r} has the number {ignored}, which is that of rows "
            "that do not count; give those another one, such as ignore_index=-1"
        )
    return Labels(names, ignored)


def unlabeled_hint(output: OutputFeature) -> str:
    """Say what to do about a row without a label; empty where it may be."""
    if getattr(output, "ignore_index", 0) is not None:
        return ""
    ignoring = replace(output, ignore_index=-1)  # type: ignore[call-arg]  # it has one, which is None
    return f"; leave out what has no label, or let it count for nothing by --output '{ignoring}'"


def _check_written_alike(source: Source, words: Iterable[str]) -> None:
    """Refuse a number that is written in two ways: as labels they would be two classes."""
    written: dict[str, str] = {}
    for word in words:
        number = word.partition(".")[0].removeprefix("+") if _WHOLE.match(word) else word
        if written.setdefault(number, word) != word:
            raise PredictionsError(
                f"{source.path}: the labels {written[number]!r} and {word!r} are one number; beside labels "
                "in words or fractions, write each in one way"
            )


def _check_zero_or_one(source: Source, roles: Roles, numbers: set[int]) -> None:
    """Refuse two class numbers that are not 0 and 1: which of them is class 1 is not for us to guess.

    Where there are more, one that is neither has its row, which is found when it is read.
    """
    if len(numbers) > 2 or numbers <= {0, 1}:
        return
    words = [WORDS[keyword][0] for keyword in ("probabilities", "logits") if keyword in roles.given]
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
        if keyword in roles.given and roles.given[keyword].suffixes:
            return roles.given[keyword].suffixes
    return ()


def _numbered_from_zero(suffixes: tuple[str, ...]) -> bool:
    return all(suffix.isdecimal() for suffix in suffixes) and int(suffixes[0]) == 0


def _binary_order(
    source: Source, roles: Roles, suffixes: tuple[str, ...], ignored: int | None
) -> tuple[str, ...]:
    """Order the two labels of a binary output so that the label of the one column is class 1."""
    if len(suffixes) == 2:
        return tuple(sorted(suffixes))
    words = {word for word in _words(source, roles) if word and _not_ignored(word, ignored)} - set(suffixes)
    if len(suffixes) > 1 or len(words) > 1:
        raise PredictionsError(
            f"{source.path}: a binary output has two labels, got {', '.join(sorted({*words, *suffixes})[:6])}"
        )
    return (*words, *suffixes) if words else ("", *suffixes)


def _words(source: Source, roles: Roles) -> set[str]:
    """Read the labels of the whole file, in a pass of their own."""
    columns = [roles.target.columns[0]]
    if "predictions" in roles.given:
        columns.append(roles.given["predictions"].columns[0])
    words: set[str] = set()
    first = 0
    for chunk in source.chunks(columns, ()):
        for column, values in chunk.items():
            words.update(_labels_in(values, source, column, first)[0])
        first += len(chunk[columns[0]])
    return words


def _labels_in(values: np.ndarray, source: Source, column: str, first: int) -> tuple[list[str], np.ndarray]:
    """Give the distinct labels of a column; refuse lists and mappings, as a row has one label."""
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
    """Give the distinct labels as text and, for each row, which one it holds."""
    places: dict[Any, int] = {}
    where = np.fromiter((places.setdefault(value, len(places)) for value in values.tolist()), dtype=np.int64)
    return [_text(value) for value in places], where


def _text(value: Any) -> str:
    """Give a label as text, without blanks around it; 1, 1.0 and true are the class number 1."""
    if value is None or value != value:
        return ""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip()


def _number(word: str) -> int | None:
    """Give the whole number that a text is; None if it is none."""
    return int(float(word)) if _WHOLE.match(word) else None


def _not_ignored(word: str, ignored: int | None) -> bool:
    return ignored is None or _number(word) != ignored


def _class(word: str, ignored: int | None) -> int | None:
    """Give the class number that a text is; None if it is none."""
    number = _number(word)
    return number if number is not None and (number >= 0 or number == ignored) else None


def shown(names: Iterable[str]) -> str:
    """Print which number each label has."""
    return ", ".join(f"{name} = {number}" for number, name in enumerate(names))
