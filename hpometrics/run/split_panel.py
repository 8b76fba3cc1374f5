"""SplitPanel: what is measured of the updates of one split, of every output and task."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Self

from ..exceptions import NonFiniteError, RunError
from ..metrics.collection import MetricCollection
from ..metrics.features import OutputFeature
from ..metrics.names import SPLITS
from ..metrics.places import VALIDATION
from ..metrics.ranking.per_user import PerUser
from ..metrics.task_collections import TaskCollection
from ..search.readings import Reading

Values = dict[str, Reading]
Reasons = dict[str, str]


class SplitPanel:
    """The collections of one split. A value of another split than validation is called `test:accuracy`.

    Args:
        split: `train`, `validation` or `test`.
        prototypes: a collection for each output by name; None names the only one.

    Attributes:
        void: why the values of this epoch do not count; None as long as they do.

    Raises:
        RunError: there is no such split, or nothing is measured of it.
    """

    def __init__(self, split: str, prototypes: Mapping[str | None, TaskCollection] | None) -> None:
        check_split(split)
        if not prototypes:
            raise RunError("this run measures no metric, so there is nothing to update; log() takes values")
        self._split = split
        self._live = {feature: prototype.fresh() for feature, prototype in prototypes.items()}
        self.void: str | None = None

    @property
    def names(self) -> set[str]:
        """What its values are called."""
        return {self.called(name) for live in self._live.values() for name in live.names}

    @property
    def tasks(self) -> set[str]:
        """The tasks met in this epoch."""
        return {task for live in self._live.values() for task in live.tasks}

    def output_of(self, feature: str | None) -> OutputFeature:
        """What the output of this name predicts.

        Raises:
            RunError: there is no such output, or it is not said which.
        """
        return self._output(feature).output

    def update(self, feature: str | None, task: Any, tensors: Mapping[str, Any]) -> None:
        """Add a batch of one output; one that is not finite voids the epoch of the split.

        Raises:
            RunError: there is no such output, or it is not said which.
            MetricInputError: the batch is not what the metrics read.
        """
        live = self._output(feature)
        if self.void is not None:
            return
        try:
            live.update(task=task, **tensors)
        except NonFiniteError as err:
            self.void = str(err)

    def close(self) -> tuple[Values, Reasons]:
        """Give the values of the epoch, of this process; nan with its reason where there is none."""
        values: Values = {}
        reasons: Reasons = {}
        for live in self._live.values():
            for name, value in live.compute(synchronize=False).items():
                values[self.called(name)] = value.tolist() if self.void is None else math.nan
            reasons.update({self.called(name): reason for name, reason in live.reasons.items()})
        if self.void is not None:
            reasons = dict.fromkeys(values, self.void)
        return values, reasons

    def by_user(self) -> PerUser | None:
        """The values by user; None unless an output keeps them."""
        tables = [table for live in self._live.values() if (table := live.per_user()) is not None]
        if not tables:
            return None
        return PerUser({}) if self.void is not None else PerUser.joined(tables).called(self.called)

    def collection(self, feature: str | None, task: str | None) -> MetricCollection:
        """What measures one task of an output that has been updated in this epoch."""
        return self._output(feature).of(task)

    def reset(self) -> None:
        """Begin the next epoch."""
        self.void = None
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
            merged.void = merged.void or state["void"]
            for feature, told in state["outputs"].items():
                merged._live[feature].merge_state(told)
        return merged

    def called(self, name: str) -> str:
        """What a record calls a value of this split."""
        return called_of(self._split, name)

    def _output(self, feature: str | None) -> TaskCollection:
        if feature is None and len(self._live) == 1:
            return next(iter(self._live.values()))
        if feature in self._live:
            return self._live[feature]
        if None in self._live:
            raise RunError(f"this run has one output, without a name; leave feature={feature!r} out")
        known = ", ".join(map(repr, self._live))
        raise RunError(f"feature= says which output a batch is of, one of {known}; got {feature!r}")


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
