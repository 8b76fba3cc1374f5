"""EpochValues: what one epoch comes to: values of all kinds kept apart, combined, and nan with a reason."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from functools import cached_property, lru_cache

from ..exceptions import RunError
from ..metrics.registry.diagnostics import diagnostic
from ..metrics.registry.scope import ALL_TASKS
from ..records.readings import Reading, shape_of
from .metric_spec import Asked
from .spec import RunSpec

Values = dict[str, Reading]
Reasons = dict[str, str]


class EpochValues:
    """The values of an epoch by name, and for each that is nan the reason.

    Args:
        spec: says what is combined and what steers.
        tasks: those that were met.
    """

    def __init__(self, spec: RunSpec, tasks: Iterable[str]) -> None:
        self._spec, self._met_tasks = spec, tasks
        self._kinds: dict[str, str] = {}
        self.values: Values = {}
        self.reasons: Reasons = {}

    @cached_property
    def _tasks(self) -> list[str]:
        return sorted({*self._met_tasks, *_tasks_of(self._spec)})

    def take(self, kind: str, values: Mapping[str, Reading], reasons: Mapping[str, str]) -> None:
        """Take values of one kind.

        Raises:
            RunError: a name is that of a value of another kind; `all/loss` is another name of `loss`.
        """
        if not values:
            return
        kinds = {value_named(name): kind for name in values}
        if clash := kinds.keys() & self._kinds.keys():
            other = self._kinds[min(clash)]
            raise RunError(f"{', '.join(sorted(clash))}: both {other} and {kind}; name them apart")
        self._kinds |= kinds
        self.values |= values
        self.reasons |= reasons

    def combine(self) -> None:
        """Put each combination beside its terms: over all tasks, and of every task that has its terms."""
        found: Values = {}
        why: Reasons = {}
        for combined in self._spec.combined:
            for task in (None, *self._tasks) if combined.task is None else (None,):
                told = combined.value(self.values, task, self._tasks)
                if told is None:
                    continue
                name = combined.name if task is None else combined.at(task)
                found[name], reason = told
                if reason is not None:
                    why[name] = reason
        self.take("combined", found, why)

    def settle(self) -> None:
        """Add the reason of each optimized value that was not measured; replace non-finite values by nan.

        A missing value stays missing: a pruner must judge measured values alone.
        """
        for asked in self._spec.objectives:
            if asked.name not in self.values:
                self.reasons[asked.name] = self._why_missing(asked)
        self.check_finite()

    def check_finite(self) -> None:
        """Replace what is not finite, and an optimized value of many numbers, by nan with the reason."""
        for name, value in self.values.items():
            if isinstance(value, list) and name in self._spec.optimised:
                self.values[name] = math.nan
                self.reasons[name] = f"a search optimises one number, and this is {shape_of(value)}"
            elif not isinstance(value, list) and not math.isfinite(value):
                self.values[name] = math.nan
                self.reasons.setdefault(name, f"the value is {value}")

    def _why_missing(self, asked: Asked) -> str:
        if asked.task not in (None, ALL_TASKS) and not self._met(f"{asked.task}/"):
            return f"no update of this epoch names the task {asked.task!r}"
        if asked.combined is None:
            return _why_not_there(asked.name, asked.reported)
        term = asked.combined.lacking(self.values, self._tasks)
        if term is None:
            return "no task has a value of its own"
        return f"{term.name} {_why_not_there(str(term.name), term.placed is None)}"

    def _met(self, task: str) -> bool:
        return any(name.startswith(task) for name in self.values)


@lru_cache(maxsize=4096)
def value_named(name: str) -> str:
    """The name of a value; `all/loss` is that of `loss`.

    >>> value_named("test:all/loss"), value_named("all/f1(tasks=micro)"), value_named("wall/loss")
    ('test:loss', 'f1(tasks=micro)', 'wall/loss')
    """
    split, colon, rest = name.rpartition(":") if "(" not in name else ("", "", name)
    return f"{split}{colon}{rest.removeprefix(f'{ALL_TASKS}/')}"


def _why_not_there(name: str, recorded: bool) -> str:
    if (known := diagnostic(name)) is not None:
        return f"was not measured in this epoch; it comes from {known.comes_from}"
    return "was not logged in this epoch" if recorded else "was not measured"


def _tasks_of(spec: RunSpec) -> set[str]:
    """The tasks that are optimised."""
    tasks = {asked.task for asked in spec.objectives}
    return {str(task) for task in tasks if task not in (None, ALL_TASKS)}
