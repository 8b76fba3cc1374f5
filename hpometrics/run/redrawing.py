"""Redrawing: what a metric might have been on other rows of the same kind, by drawing what was kept again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from ..exceptions import NotKeptError
from ..metrics.features import BINARY, CATEGORY, OutputFeature
from ..metrics.statistics.confusion import Confusion
from ..metrics.statistics.pooled import Pooled
from ..metrics.statistics.scores import Scores
from ..selection.significance import Span
from .kept_rows import keeper_of
from .rescoring import Answers
from .statistics_log import KeptEpoch
from .statistics_store import KeptPart, State

Values = npt.NDArray[np.float64]
What = Literal["rows", "matrix"]

DRAWS = 1000
MOST_VALUES = 1 << 18
"""Of more scores than these no rows are drawn: a thousand times so many take minutes."""

_MATRIX, _ROWS = Confusion().label, (Scores().label, Pooled().label)
_ROWWISE = (BINARY, CATEGORY)  # whose matrix counts rows, not words of one text or labels of one row
_DEFINED = 0.95  # of the draws at least so many must have a value


class Redrawn:
    """One epoch of a trial, drawn again.

    Rows that were kept are drawn with replacement. Where a metric is a function of the confusion matrix
    alone, a multinomial draw of its cells is the same as drawing rows: which row fell into a cell does not
    matter to it. A task of several is drawn by itself, so that each keeps its number of rows.

    Args:
        answers: measures the metric.
        kept: what was kept of the epoch.

    Raises:
        NotKeptError: what was kept says nothing of single rows.

    Source: Efron 1979, Annals of Statistics 7(1); Efron & Tibshirani 1993, An Introduction to the Bootstrap,
        chapters 6 and 13 (percentile intervals).
    """

    def __init__(self, answers: Answers, kept: KeptEpoch) -> None:
        self._answers = answers
        parts = [part for part in kept.parts if answers.reads(part)]
        if not parts:
            raise NotKeptError(f"{answers.name} is not measured of rows that are kept")
        self.what: What = "rows" if all(_rows_in(part) for part in parts) else "matrix"
        if self.what == "matrix":
            for part in parts:
                _check_matrix(answers, part)
        self._kept = replace(kept, parts=tuple(map(self._alone, parts)))

    def values(self, seed: int) -> Values:
        """The metric of every draw, (DRAWS,); the same seed draws the same rows of two epochs of one size.

        Raises:
            NotKeptError: every draw has the same value, as where all rows are right: an interval of no width
                would promise what a bootstrap cannot know.
        """
        random = np.random.default_rng(seed)
        drawn = (tuple(_drawn(part, random) for part in self._kept.parts) for _ in range(DRAWS))
        values = np.array([self._answers.value(replace(self._kept, parts=parts)) for parts in drawn])
        if (values == values[0]).all():
            raise NotKeptError(f"every draw gives {values[0]:g}, which says nothing of other rows")
        return values

    def pairs_with(self, other: Redrawn) -> bool:
        """Whether the rows of both are the same: as many of each task, in one order, with equal targets."""
        if self.what != "rows" or other.what != "rows":
            return False
        own, others = (_targets(each._kept) for each in (self, other))
        return own.keys() == others.keys() and all(torch.equal(own[key], others[key]) for key in own)

    def _alone(self, part: KeptPart) -> KeptPart:
        """The part with nothing but what is drawn."""
        labels = _ROWS if self.what == "rows" else (_MATRIX,)
        return replace(part, statistics={k: state for k, state in part.statistics.items() if k in labels})


def span_of(value: float, draws: Values, level: float) -> Span:
    """Give the percentile interval of draws.

    Raises:
        NotKeptError: the metric is undefined in too many of them.

    >>> span_of(0.5, np.linspace(0, 1, 101), 0.5)
    Span(value=0.5, low=0.25, high=0.75)
    """
    finite = draws[np.isfinite(draws)]
    if len(finite) < _DEFINED * len(draws):
        raise NotKeptError(f"the metric is undefined in {len(draws) - len(finite)} of {len(draws)} draws")
    low, high = np.quantile(finite, [(1 - level) / 2, (1 + level) / 2])
    return Span(value, float(low), float(high))


def _rows_in(part: KeptPart) -> bool:
    """Whether the rows of a part were kept and are not too many."""
    states = [part.statistics[label] for label in _ROWS if part.statistics.get(label)]
    return bool(states) and all(tensor.numel() <= MOST_VALUES for tensor in states[0].values())


def _check_matrix(answers: Answers, part: KeptPart) -> None:
    """Refuse what a draw of the cells does not stand for.

    Raises:
        NotKeptError: saying why.
    """
    state, large = part.statistics.get(_MATRIX), any(part.statistics.get(label) for label in _ROWS)
    if state is None or answers.needs(part) != {_MATRIX} or answers.output_of(part).type not in _ROWWISE:
        rows = f"the trial has more than {MOST_VALUES} scores" if large else _unkept(answers.output_of(part))
        raise NotKeptError(f"{answers.name} is no function of a confusion matrix, and {rows}")
    if state and state["matrix"].is_floating_point():
        raise NotKeptError("a confusion matrix of weighted rows does not say how many rows there were")


def _unkept(output: OutputFeature) -> str:
    """Say of an output whose rows are not there what would keep them, if anything does."""
    if keeper_of(output):
        return "the trial keeps no rows; results: {statistics: all} keeps them"
    return f"the rows of {output} are never kept"


def _drawn(part: KeptPart, random: np.random.Generator) -> KeptPart:
    return replace(part, statistics={label: _drawn_state(s, random) for label, s in part.statistics.items()})


def _drawn_state(state: State, random: np.random.Generator) -> State:
    if "matrix" in state:
        return {"matrix": _drawn_matrix(state["matrix"], random)}
    rows = len(state.get("scores", state.get("values", ())))
    chosen = torch.from_numpy(random.integers(rows, size=rows)) if rows else None
    return state if chosen is None else _chosen(state, chosen)


def _drawn_matrix(matrix: Tensor, random: np.random.Generator) -> Tensor:
    counts = matrix.numpy().ravel()
    total = int(counts.sum())
    return torch.from_numpy(random.multinomial(total, counts / max(1, total))).reshape(matrix.shape)


def _chosen(state: State, rows: Tensor) -> dict[str, Tensor]:
    """The state of these rows; a fact of all rows, such as that they are logits, stays."""
    whole = {name for name, tensor in state.items() if name == "are_logits" or not len(tensor)}
    return {name: tensor if name in whole else tensor[rows] for name, tensor in state.items()}


def _targets(kept: KeptEpoch) -> Mapping[tuple[str | None, str | None], Tensor]:
    """What was right in each row, by output and task."""
    found = {}
    for part in kept.parts:
        for state in part.statistics.values():
            target = state["target"] if "target" in state else state["values"][:, 1]
            found[part.output, part.task] = target
    return found
