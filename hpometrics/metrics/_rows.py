"""Predictions and targets that are lists with an entry per row: texts or mappings."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from .._redaction import excerpt
from ..exceptions import MetricInputError
from .features import BOXES, TEXT, OutputFeature

_ANY = "any"  # the output of a metric that was never registered


def records_in(feature: OutputFeature, **values: Any) -> dict[str, list[Any]]:
    """Return the values that are lists of texts or mappings, as lists; all others are tensors.

    Raises:
        MetricInputError: lists of different lengths.
    """
    if feature.type not in (TEXT, BOXES, _ANY):
        return {}
    for name, value in values.items():
        if isinstance(value, str) and feature.type == TEXT:
            start = excerpt(value, 30)
            raise MetricInputError(f"{name} are a list of texts, got one text; write [{start!r}]")
    columns = {name: _array_of_column(value) for name, value in values.items()}
    records_by_name = {
        name: list(value) for name, value in columns.items() if _is_list_of_records(value, feature)
    }
    if len({len(records) for records in records_by_name.values()}) > 1:
        lengths = ", ".join(f"{len(records)} {name}" for name, records in records_by_name.items())
        raise MetricInputError(f"a batch has as many predictions as targets, got {lengths}")
    return records_by_name


def texts_of(values: Any, name: str) -> list[str]:
    """Check that every entry is a text.

    Raises:
        MetricInputError: naming the first that is not a text.
    """
    if isinstance(values, str):
        raise MetricInputError(f"{name} are a list of texts, got one text; write [{excerpt(values, 30)!r}]")
    if _all_plain(values):
        return list(values)
    for row, value in enumerate(values):
        if not isinstance(value, str):
            raise MetricInputError(f"{name} are texts, got {type(value).__name__} in row {row}")
    return list(values)


def single_texts(values: Any) -> list[str] | None:
    """Return the right texts if each row has exactly one, given as a text; None if a row may have several."""
    return list(values) if not isinstance(values, str) and _all_plain(values) else None


def references_of(values: Any, name: str) -> list[tuple[str, ...]]:
    """Return the reference texts of each row, which has one or several that are equally right.

    Raises:
        MetricInputError: a row without a reference, or a reference that is not a text.
    """
    if isinstance(values, str):
        raise MetricInputError(f"{name} are a list of texts, got one text; write [{excerpt(values, 30)!r}]")
    rows = [
        tuple(row) if isinstance(row, Iterable) and not isinstance(row, str) else (row,) for row in values
    ]
    for number, row in enumerate(rows):
        if not row or not all(isinstance(text, str) for text in row):
            raise MetricInputError(
                f"{name} are a text or a list of at least one text for each row, got {values[number]!r} "
                f"in row {number}"
            )
    return rows


def _all_plain(values: Any) -> bool:
    """Return whether all values are plain strings; much faster than to look at one after the other."""
    return {*map(type, values)} <= {str}


def _array_of_column(values: Any) -> Any:
    """Return a column of a table, such as one of pandas, as an array; anything else unchanged."""
    is_column = hasattr(values, "__array__") and not isinstance(values, (np.ndarray, np.generic, Tensor))
    return np.asarray(values) if is_column else values


def _is_list_of_records(values: Any, feature: OutputFeature) -> bool:
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "UO"
    if isinstance(values, str) or not isinstance(values, Sequence):
        return False
    if not len(values):
        return feature.type != _ANY
    first = next((entry for entry in values if entry is not None), None)
    texts = isinstance(first, (list, tuple)) and any(isinstance(text, str) for text in first)
    return isinstance(first, (str, dict)) or texts or first == []
