"""SplitPanel: what is measured of the updates of one split, of every output and task."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Self

from ..exceptions import NonFiniteError, RunError
from ..metrics.collection import MetricCollection
from ..metrics.features import OutputFeature
from ..metrics.multitask import TaskCollection
from ..metrics.registry.names import SPLITS
from ..metrics.registry.scope import VALIDATION
from ..metrics.retrieval.per_user import PerUser
from ..metrics.task_rows import Tensors
from .epoch_values import Reasons, Values
from .statistics_store import Measured

Void = dict[tuple[str | None, str | None], str]


class SplitPanel:
    """The collections of one split. A value of another split than validation is called `test:accuracy`.

    Args:
        split: `train`, `validation` or `test`.
        prototypes: a collection for each output by name; None names the only one.

    Attributes:
        void: of each output and task that had a batch which was not finite, why. Its values of this epoch do
            not count, nor do those over all tasks; None is the task of updates that name none.

    Raises:
        RunError: there is no such split, or nothing is measured of it.
    """

    def __init__(self, split: str, prototypes: Mapping[str | None, TaskCollection] | None) -> None:
        check_split(split)
        if not prototypes:
            raise RunError("this run measures no metric, so there is nothing to update; log() takes values")
        self._split = split
        self._live = {feature: prototype.fresh() for feature, prototype in prototypes.items()}
        self.void: Void = {}
        self._computed: tuple[Values, Reasons] | None = None  # of the rows so far

    @property
    def names(self) -> set[str]:
        """What its values are called."""
        return {self.called(name) for live in self._live.values() for name in live.names}

    @property
    def tasks(self) -> set[str]:
        """The tasks met in this epoch."""
        void = {task for _, task in self.void if task is not None}
        return void.union(*(live.tasks for live in self._live.values()))

    def output_of(self, feature: str | None) -> OutputFeature:
        """What the output of this name predicts.

        Raises:
            RunError: there is no such output, or it is not said which.
        """
        return self._live[self._key(feature)].output

    def update(self, feature: str | None, parts: Mapping[str | None, Tensors], whole: Tensors) -> None:
        """Add a batch of one output; rows that are not finite void the epoch of their task.

        Args:
            feature: which output.
            parts: the rows of each task.
            whole: all rows.

        Raises:
            RunError: there is no such output, or it is not said which.
            MetricInputError: the batch is not what the metrics read; no task has taken any of it.
        """
        key = self._key(feature)
        self._computed = None
        if len(parts) > 1:
            _check(self._live[key], parts, whole)
        for task, rows in parts.items():
            try:
                self._live[key].take(task, rows)
            except NonFiniteError as err:
                self.void.setdefault((key, task), str(err))

    def compute(self) -> tuple[Values, Reasons]:
        """Return the values of this process's rows, computed once; nan with its reason if undefined."""
        if self._computed is None:
            self._computed = self._compute()
        return self._computed

    def _compute(self) -> tuple[Values, Reasons]:
        values: Values = {}
        reasons: Reasons = {}
        for key, live in self._live.items():
            for name, value in live.compute(synchronize=False).items():
                values[self.called(name)] = value.tolist()
            void = self._void_names(key)
            told = {self.called(name): reason for name, reason in {**live.reasons, **void}.items()}
            values.update(dict.fromkeys(map(self.called, void), math.nan))
            reasons.update(told)
        return values, reasons

    def by_user(self) -> PerUser | None:
        """The values by user; None unless an output keeps them."""
        tables = [
            table.without(self._void_names(key))
            for key, live in self._live.items()
            if (table := live.per_user()) is not None
        ]
        if not tables:
            return None
        return PerUser.joined(tables).called(self.called)

    def _void_names(self, key: str | None) -> dict[str, str]:
        """The values of an output that do not count, each with the reason."""
        void = {task: self.void[of, task] for of, task in sorted(self.void, key=str) if of == key}
        names: dict[str, str] = {}
        for task, reason in void.items():
            names |= dict.fromkeys(self._live[key].names_of(task), reason)
        over_all = [reason if task is None else f"task {task}: {reason}" for task, reason in void.items()]
        return {**names, **dict.fromkeys(self._live[key].names_of(None), over_all[0])} if void else {}

    def collection(self, feature: str | None, task: str | None) -> MetricCollection:
        """What measures one task of an output that has been updated in this epoch."""
        return self._live[self._key(feature)].of(task)

    def measures(self, output: str | None) -> bool:
        """Whether anything is measured of an output."""
        return output in self._live

    def live(self, output: str | None) -> TaskCollection:
        """What measures an output.

        Raises:
            RunError: there is no such output, or it is not said which.
        """
        return self._live[self._key(output)]

    def measured(self) -> Iterator[Measured]:
        """What measures each task of each output, and why its values do not count."""
        for output, live in self._live.items():
            refused = {task: None for of, task in self.void if of == output}
            for task, collection in {**refused, **live.measured}.items():
                yield Measured(self._split, output, task, self.void.get((output, task)), collection)

    def reset(self) -> None:
        """Begin the next epoch."""
        self.void, self._computed = {}, None
        for live in self._live.values():
            live.reset()

    def state_dict(self) -> dict[str, Any]:
        """Everything measured, and why the epoch is void."""
        return {
            "void": self.void,
            "outputs": {feature: live.state_dict() for feature, live in self._live.items()},
        }

    def over(self, states: list[dict[str, Any]]) -> Self:
        """Return a panel like this one of what several processes have measured."""
        merged = type(self)(self._split, self._live)
        for state in states:
            merged.void = {**state["void"], **merged.void}
            for feature, told in state["outputs"].items():
                merged._live[feature].merge_state(told)
        return merged

    def called(self, name: str) -> str:
        """What a record calls a value of this split."""
        return called_of(self._split, name)

    def _key(self, feature: str | None) -> str | None:
        """The name of the output that is meant."""
        if feature is None and len(self._live) == 1:
            return next(iter(self._live))
        if feature in self._live:
            return feature
        if None in self._live:
            raise RunError(f"this run has one output, without a name; leave feature={feature!r} out")
        known = ", ".join(map(repr, self._live))
        raise RunError(f"feature= says which output a batch is of, one of {known}; got {feature!r}")


def _check(live: TaskCollection, parts: Mapping[str | None, Tensors], whole: Tensors) -> None:
    """Refuse what a task would refuse, before any task has taken its rows."""
    try:
        live.check(**whole)
    except NonFiniteError:
        for rows in parts.values():
            with suppress(NonFiniteError):  # which of the tasks it voids shows when they take their rows
                live.check(**rows)


def check_split(split: str) -> None:
    """Refuse a split that there is not.

    Raises:
        RunError: naming those there are.
    """
    if split not in SPLITS:
        raise RunError(f"split is one of {', '.join(SPLITS)}, got {split!r}")


def called_of(split: str, name: str) -> str:
    """What a record calls a value of a split."""
    return name if split == VALIDATION else f"{split}:{name}"
