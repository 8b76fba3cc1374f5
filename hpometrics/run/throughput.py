"""Count the examples, tokens and truncated rows of a run, and the time that they take."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor

from ..exceptions import MetricInputError, RunError
from ..metrics._device import on_host
from ..metrics.additive import Additive, AverageMetric, GlobalAverageMetric, GlobalTimerMetric, SumMetric
from ..metrics.features import OutputFeature, Sequence, Text
from ..metrics.registry.scope import ALL_TASKS
from ..metrics.reports import Report

Count = int | Tensor
EXAMPLES = "exs"
NO_TASK = ""
"""The key of values that belong to no task."""
CONTEXT, LABELS, GENERATED = "context_tokens", "label_tokens", "generated_tokens"
CUT = {CONTEXT: "context_truncated", LABELS: "label_truncated"}
KEYWORDS = frozenset({CONTEXT, LABELS, GENERATED, *CUT.values()})
"""Keywords of an update that count tokens of its rows; none of them reaches the metrics."""
_BOTH = "context and label tokens"
_LETTERS = {CONTEXT: "c", LABELS: "l"}
_PER_BATCH = {"ctpb": CONTEXT, "ltpb": LABELS, "tpb": _BOTH}
_PER_SECOND = {"ctps": CONTEXT, "ltps": LABELS, "tps": _BOTH}
_NONE: Mapping[str, Count] = MappingProxyType({})
_WITH_ROWS = ("target", "predictions", "probabilities", "logits", "scores", "target_probabilities")


class Timer:
    """Wall seconds by split: the time up to a mark belongs to the split that is marked.

    Attributes:
        began: when the epoch began, in seconds of the system clock, which machines share.
        seconds: those of each split so far.
    """

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin an epoch."""
        self.began, self._last = time.time(), time.perf_counter()
        self.seconds: dict[str, float] = {}

    def mark(self, split: str) -> None:
        """Add the time since the last mark to a split."""
        now = time.perf_counter()
        self.seconds[split] = self.seconds.get(split, 0.0) + now - self._last
        self._last = now


class BatchCounts(NamedTuple):
    """The counts of one batch: its rows, the sum of each count, and the rows that were truncated."""

    rows: int
    totals: Mapping[str, Count] = _NONE
    shortened: Mapping[str, Count] = _NONE


@dataclass(slots=True)
class _Sums:
    """The totals of one task. `rows` are those that have the count."""

    examples: dict[str | None, int] = field(default_factory=dict)
    totals: dict[str, Count] = field(default_factory=dict)
    shortened: dict[str, Count] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)

    @property
    def exs(self) -> int:
        """Examples; those of a batch that is given feature by feature count once."""
        return max(self.examples.values())

    def add(self, counts: BatchCounts, feature: str | None) -> None:
        self.examples[feature] = self.examples.get(feature, 0) + counts.rows
        if not counts.totals:  # as in most updates
            return
        for name, total in counts.totals.items():
            self.totals[name] = self.totals.get(name, 0) + total
            self.rows[name] = self.rows.get(name, 0) + counts.rows
        for name, count in counts.shortened.items():
            self.shortened[name] = self.shortened.get(name, 0) + count

    def report(self) -> Report:
        """Return the values that exist for each task."""
        values: Report = {EXAMPLES: SumMetric(self.exs)}
        for tokens, cut in CUT.items():
            letter = _LETTERS[tokens]
            if tokens in self.rows:
                values[f"{letter}len"] = AverageMetric(
                    self.totals[tokens] + self.totals.get(cut, 0), self.rows[tokens]
                )
            if cut in self.rows:
                values[f"{letter}trunc"] = AverageMetric(self.shortened[cut], self.rows[cut])
                values[f"{letter}trunclen"] = AverageMetric(self.totals[cut], self.rows[cut])
        if GENERATED in self.rows:
            values["gen_n_toks"] = AverageMetric(self.totals[GENERATED], self.rows[GENERATED])
        return values


class Throughput:
    """Counts the batches of a run by split and task, as they come, whatever metrics do with them.

    `read` reads the counts of an update and may refuse them; `add` counts them, once the metrics
    have accepted the batch or found it not to be finite.

    >>> throughput = Throughput()
    >>> tensors = {"target": torch.tensor([1, 0]), "context_tokens": [3, 5], "label_tokens": [1, 2]}
    >>> counts, rest = throughput.read(tensors)
    >>> list(rest)
    ['target']
    >>> throughput.add({None: counts}, "validation")
    >>> {name: value.value() for name, value in throughput.state()["validation"]["all"].items()}
    {'ctpb': 8.0, 'ltpb': 3.0, 'tpb': 11.0}
    """

    def __init__(self) -> None:
        self._splits: dict[str, dict[str | None, _Sums]] = {}
        self._batches: dict[str, Counter[str]] = {}  # of each split, those that have the count

    def read(
        self, keywords: Mapping[str, Any], output: OutputFeature | None = None
    ) -> tuple[BatchCounts, Mapping[str, Any]]:
        """Split the keywords of an update into counts and the rest.

        Args:
            keywords: the keywords of the update; of the counts `context_tokens`, `label_tokens` and
                `generated_tokens` (tokens left), `context_truncated` and `label_truncated` (tokens cut),
                each (N,) whole numbers. `label_tokens` of token ids is counted from the target if left out.
            output: the output feature that the batch is of.

        Returns:
            The counts of the batch, and the other keywords.

        Raises:
            MetricInputError: a count is not one whole number from 0 per row.
        """
        rows = _rows_of(keywords)
        if KEYWORDS.isdisjoint(keywords) and not isinstance(output, (Sequence, Text)):
            return BatchCounts(rows), keywords
        totals, shortened = {}, {}
        counts = KEYWORDS & keywords.keys()
        for name in counts:
            if keywords[name] is not None:
                totals[name], above_zero = _sum_of(name, keywords[name], rows)
                if name in CUT.values():
                    shortened[name] = above_zero
        if LABELS not in totals and (labels := _labels_in(keywords.get("target"), output)) is not None:
            totals[LABELS] = labels
        if CONTEXT in totals and LABELS in totals:
            totals[_BOTH] = totals[CONTEXT] + totals[LABELS]
        return BatchCounts(rows, totals, shortened), {k: v for k, v in keywords.items() if k not in counts}

    def add(self, parts: Mapping[str | None, BatchCounts], split: str, feature: str | None = None) -> None:
        """Count a batch.

        Args:
            parts: the counts of each task in it; None is the task of a batch that names none.
            split: of the batch.
            feature: the output that it is of.

        Raises:
            RunError: some batches of the split name their task and others do not.
        """
        tasks = self._splits.setdefault(split, {})
        names: set[str] = set()
        for task, counts in parts.items():
            sums = tasks.get(task)
            if sums is None:
                if tasks and (task is None) != (None in tasks):
                    raise RunError(f"either all {split} batches of an epoch must name their task, or none")
                sums = tasks[task] = _Sums()
            sums.add(counts, feature)
            names.update(counts.totals)
        if names:
            self._batches.setdefault(split, Counter()).update(names)

    def state(self, timer: Timer | None = None) -> dict[str, dict[str, Report]]:
        """Return this epoch's values by split and task, those of the run under `all`.

        Args:
            timer: how long each split took; without it there are no rates.
        """
        return {
            split: {
                **{task or NO_TASK: sums.report() for task, sums in tasks.items()},
                ALL_TASKS: _of_all(tasks.values(), self._batches.get(split, {}), split, timer),
            }
            for split, tasks in self._splits.items()
        }

    def reset(self) -> None:
        """Begin the next epoch."""
        self._splits, self._batches = {}, {}


class _PerBatch(GlobalAverageMetric):
    """A mean over batches. Those of several ranks are parts of one: as many as the rank with most has."""

    def plus(self, other: Self) -> Self:
        """Add the tokens of both, in as many batches as either has."""
        return self._with(numer=self.numer + other.numer, denom=max(self.denom, other.denom))


def _of_all(tasks: Iterable[_Sums], batches: Mapping[str, int], split: str, timer: Timer | None) -> Report:
    """Return the values that belong to the run and to no task."""
    tasks = list(tasks)
    values: dict[str, Additive] = {}
    for name, what in _PER_BATCH.items():
        if what in batches:
            values[name] = _PerBatch(_total(tasks, what), batches[what])
    if timer is None:
        return values
    span = timer.began, timer.began + timer.seconds.get(split, 0.0)
    values["exps"] = GlobalTimerMetric(sum(sums.exs for sums in tasks), *span)
    for name, what in _PER_SECOND.items():
        if what in batches:
            values[name] = GlobalTimerMetric(_total(tasks, what), *span)
    return values


def _total(tasks: Iterable[_Sums], what: str) -> Count:
    return sum((sums.totals[what] for sums in tasks if what in sums.totals), start=0)


def _rows_of(keywords: Mapping[str, Any]) -> int:
    for name in chain(_WITH_ROWS, keywords):
        value = keywords.get(name)
        shape = getattr(value, "shape", None)
        if shape:
            return int(shape[0])
        if isinstance(value, (list, tuple)):
            return len(value)
    return 0


def _sum_of(name: str, counts: Any, rows: int) -> tuple[Count, Count]:
    """Add up one count per row, and the rows above 0; on a device without waiting for it."""
    if isinstance(counts, Tensor) and not on_host(counts):
        whole = not counts.is_floating_point() and not counts.is_complex() and counts.dtype is not torch.bool
        _check_count(name, counts, rows, whole)
        return counts.sum(), counts.count_nonzero()
    array = counts.numpy() if isinstance(counts, Tensor) else np.asarray(counts)
    _check_count(name, array, rows, array.dtype.kind in "iu" or not array.size)
    if rows and array.min() < 0:
        raise MetricInputError(f"{name} are token counts from 0, got {array.min()}")
    return int(array.sum()), int(np.count_nonzero(array))


def _check_count(name: str, counts: Any, rows: int, whole: bool) -> None:
    if not whole or counts.ndim != 1 or len(counts) != rows:
        raise MetricInputError(
            f"{name} must be one whole number per row, shape ({rows},) here; got {counts.dtype} of shape "
            f"{tuple(counts.shape)}"
        )


def _labels_in(target: Any, output: OutputFeature | None) -> Count | None:
    """Count the token ids of a target that count for the metrics; None if there are no ids."""
    if not isinstance(output, (Sequence, Text)) or not isinstance(target, Tensor):
        return None
    if target.is_floating_point():
        return None
    if on_host(target):
        return int(np.count_nonzero(target.numpy() != output.ignore_index))
    return (target != output.ignore_index).sum()
