"""Task rows: a batch whose rows belong to several tasks, taken apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from ..exceptions import MetricInputError
from .registry.scope import check_task

Tensors = Mapping[str, Any]
Form = frozenset[tuple[str, Hashable]]


def by_task(task: str | Sequence[str] | None, tensors: Tensors) -> Iterator[tuple[str | None, Tensors]]:
    """Give the rows of each task, tasks in the order of their first row.

    Args:
        task: that of all rows, or one per row.
        tensors: what an update was given; each with a row per example.

    Raises:
        MetricNameError: what cannot be a task's name.
        MetricInputError: another number of rows than of tasks.
    """
    if task is None or isinstance(task, str):
        yield task if task is None else check_task(task), tensors
        return
    places = _places(task)
    indices = [torch.tensor(rows) for rows in places.values()]
    told = {key: _rows(key, value, indices, len(task)) for key, value in tensors.items()}
    for place, name in enumerate(places):
        yield name, {key: rows[place] for key, rows in told.items()}


def rows_of(tensors: Tensors) -> int:
    """How many rows a batch has: those of its target, or of what it has beside."""
    given = [tensors.get("target"), *tensors.values()]
    return next((len(value) for value in given if hasattr(value, "__len__") and _has_rows(value)), 0)


def _has_rows(value: Any) -> bool:
    return bool(getattr(value, "ndim", 1))


def form_of(tensors: Tensors) -> Form:
    """What kind of batch it is: which arguments it has, of which types and widths, whatever their values."""
    return frozenset((name, _kind(value)) for name, value in tensors.items() if value is not None)


def _kind(value: Any) -> Hashable:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value.dtype, tuple(value.shape[1:])
    return type(value), type(value[0]) if isinstance(value, (list, tuple)) and value else None


def _places(task: Sequence[str]) -> dict[str, list[int]]:
    """The rows of each task; every name is looked at once."""
    if not (hasattr(task, "__len__") and hasattr(task, "__iter__")):
        raise MetricInputError(
            f"task= is the task of all rows, or a list with that of each; got {type(task).__name__}"
        )
    names = list(task)
    for name in names if not {str}.issuperset(map(type, names)) else dict.fromkeys(names):
        check_task(name)
    places: dict[str, list[int]] = {name: [] for name in names}
    for row, name in enumerate(names):
        places[name].append(row)
    return places


def _rows(name: str, value: Any, places: list[torch.Tensor], total: int) -> list[Any]:
    """The rows of one argument for each task, of the kind that it came in."""
    if value is None:
        return [None] * len(places)
    if not hasattr(value, "__len__") or len(value) != total:
        told = f"{len(value)} rows" if hasattr(value, "__len__") else type(value).__name__
        raise MetricInputError(
            f"there is a task for each of {total} rows, and {name}= has {told}; give the batches of each "
            "task apart where they do not go by row"
        )
    if isinstance(value, torch.Tensor):
        return [value.index_select(0, rows.to(value.device)) for rows in places]
    if isinstance(value, np.ndarray):
        return [value[rows.numpy()] for rows in places]
    return [[value[row] for row in rows.tolist()] for rows in places]
