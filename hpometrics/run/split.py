"""SplitMetrics measures the updates of one split, of every output and task."""

from __future__ import annotations

import math
import warnings
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from itertools import compress
from typing import Any, NamedTuple, Self

from .._formatting import shape_of
from ..exceptions import NonFiniteError, RunError
from ..metrics._validation import batch_of, counting_rows
from ..metrics.batch import Outputs
from ..metrics.multitask import TaskCollection, Tensors
from ..metrics.registry.diagnostics import diagnostic
from ..metrics.registry.names import SPLITS
from ..metrics.registry.scope import ALL_TASKS, TEST, VALIDATION
from ..metrics.retrieval.per_user import PerUser
from ..metrics.row_values.row_meter import (
    MetricRows,
    NoRowValuesError,
    RowMeter,
    RowMeterState,
    mean_over_tasks,
)
from ..records.trial_record import Reading
from ..selection.two_way import by_cluster, numbered
from .metric_spec import MetricSpec
from .spec import RunSpec
from .statistics_store import Measured, RowsDigest, StoredRows
from .throughput import KEYWORDS

Values = dict[str, Reading]
Reasons = dict[str, str]
NOT_MEASURED, NOT_LOGGED = "was not measured", "was not logged in this epoch"


class EpochValues:
    """The values of an epoch by name, and for each that is nan the reason.

    Args:
        spec: has the combinations and the steering values.
        tasks: the tasks of the epoch.
    """

    def __init__(self, spec: RunSpec, tasks: Iterable[str]) -> None:
        self._spec, self._met_tasks = spec, tasks
        self._taken: list[tuple[str, Mapping[str, Reading]]] = []
        self.values: Values = {}
        self.reasons: Reasons = {}

    @cached_property
    def _tasks(self) -> list[str]:
        optimized = {str(one.task) for one in self._spec.objectives if one.task not in (None, ALL_TASKS)}
        return sorted({*self._met_tasks, *optimized})

    def take(self, kind: str, values: Mapping[str, Reading], reasons: Mapping[str, str]) -> None:
        """Add values of one kind.

        Raises:
            RunError: a value of another kind has the name; `all/loss` is another name of `loss`.
        """
        if self._taken:
            kinds = {value_name(name): other for other, taken in self._taken for name in taken}
            if clash := kinds.keys() & set(map(value_name, values)):
                other = kinds[min(clash)]
                raise RunError(f"{', '.join(sorted(clash))}: both {other} and {kind}; use two names")
        self._taken.append((kind, values))
        self.values |= values
        self.reasons |= reasons

    def combine(self) -> None:
        """Add each combination: over all tasks, and for every task that has its terms."""
        combinations: Values = {}
        why: Reasons = {}
        for combined in self._spec.combined:
            for task in (None, *self._tasks) if combined.task is None else (None,):
                result = combined.value(self.values, task, self._tasks)
                if result is None:
                    continue
                name = combined.name if task is None else combined.at(task)
                combinations[name], reason = result
                if reason is not None:
                    why[name] = reason
        self.take("combined", combinations, why)

    def settle(self) -> None:
        """Add the reason of each optimized value that was not measured; replace non-finite values by nan.

        A missing value stays missing: a pruner must judge measured values alone.
        """
        for spec in self._spec.objectives:
            if spec.name not in self.values:
                self.reasons[spec.name] = self._why_missing(spec)
        self.check_finite()

    def check_finite(self) -> None:
        """Replace what is not finite, and an optimized value of many numbers, by nan with the reason."""
        for name, value in self.values.items():
            if isinstance(value, list) and name in self._spec.optimized:
                self.values[name] = math.nan
                self.reasons[name] = f"a search optimizes one number, but this is {shape_of(value)}"
            elif not isinstance(value, list) and not math.isfinite(value):
                self.values[name] = math.nan
                self.reasons.setdefault(name, f"the value is {value}")

    def _why_missing(self, spec: MetricSpec) -> str:
        front = f"{spec.task}/"
        if spec.task not in (None, ALL_TASKS) and not any(name.startswith(front) for name in self.values):
            return f"no update in this epoch names the task {spec.task!r}"
        if spec.combined is None:
            return _why_not_there(spec.name, spec.reported)
        term = spec.combined.lacking(self.values, self._tasks)
        if term is None:
            return "no task has its own value"
        return f"{term.name} {_why_not_there(str(term.name), term.placed is None)}"


@lru_cache(maxsize=4096)
def value_name(name: str) -> str:
    """Return the name of a value without the task `all`: `all/loss` is `loss`.

    >>> value_name("test:all/loss"), value_name("all/f1(tasks=micro)"), value_name("wall/loss")
    ('test:loss', 'f1(tasks=micro)', 'wall/loss')
    """
    split, colon, rest = name.rpartition(":") if "(" not in name else ("", "", name)
    return f"{split}{colon}{rest.removeprefix(f'{ALL_TASKS}/')}"


def _why_not_there(name: str, recorded: bool) -> str:
    if (entry := diagnostic(name)) is not None:
        return f"{NOT_MEASURED} in this epoch; {entry.comes_from} reports it"
    return NOT_LOGGED if recorded else NOT_MEASURED


class SplitMetrics:
    """The collections of one split. A value of another split than validation is called `test:accuracy`.

    Args:
        split: `train`, `validation` or `test`.
        prototypes: a collection for each output by name; None names the only one.

    Attributes:
        void: the reason for each output and task that had a batch which was not finite. Its values of this
            epoch do not count, nor do those over all tasks; None is the task of updates that name none.

    Raises:
        RunError: the split does not exist, or nothing is measured on it.
    """

    def __init__(self, split: str, prototypes: Mapping[str | None, TaskCollection] | None) -> None:
        check_split(split)
        if not prototypes:
            raise RunError("this run measures no metric, so there is nothing to update; use log() for values")
        self._split, self._prefix = split, name_in_record(split, "")
        self._live = {feature: prototype.fresh() for feature, prototype in prototypes.items()}
        self.void: dict[tuple[str | None, str | None], str] = {}
        self._computed: tuple[Values, Reasons] | None = None  # of the rows so far

    @property
    def names(self) -> set[str]:
        """The names of its values."""
        return {self.record_name(name) for live in self._live.values() for name in live.names}

    @property
    def tasks(self) -> set[str]:
        """The tasks met in this epoch."""
        void = {task for _, task in self.void if task is not None}
        return void.union(*(live.tasks for live in self._live.values()))

    def update(self, key: str | None, parts: Mapping[str | None, Tensors], whole: Tensors) -> None:
        """Add a batch of one output; rows that are not finite void the epoch of their task.

        Args:
            key: the output as `find` returns it.
            parts: the rows of each task.
            whole: all rows, maybe with counts of their tokens.

        Raises:
            MetricInputError: the batch is not what the metrics read; no task has taken any of it.
        """
        self._computed, live = None, self._live[key]
        if len(parts) > 1:
            _check(live, parts, {name: rows for name, rows in whole.items() if name not in KEYWORDS})
        for task, rows in parts.items():
            try:
                live.take(task, rows)
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
            computed = live.compute(synchronize=False)
            void = self._void_names(key)
            values |= {name: value.tolist() for name, value in computed.items()}
            values |= dict.fromkeys(void, math.nan)
            reasons |= {**live.reasons, **void}
        if not self._prefix:
            return values, reasons
        return (
            {self.record_name(name): value for name, value in values.items()},
            {self.record_name(name): reason for name, reason in reasons.items()},
        )

    def by_user(self) -> Iterator[PerUser]:
        """Yield the values by user of each output that keeps them."""
        for key, live in self._live.items():
            if (table := live.per_user()) is not None:
                yield table.without(self._void_names(key)).called(self.record_name)

    def _void_names(self, key: str | None) -> dict[str, str]:
        """Return the names of an output's values that do not count, each with the reason."""
        if not self.void:
            return {}
        void = {task: self.void[of, task] for of, task in sorted(self.void, key=str) if of == key}
        names: dict[str, str] = {}
        for task, reason in void.items():
            names |= dict.fromkeys(self._live[key].names_of(task), reason)
        over_all = [reason if task is None else f"task {task}: {reason}" for task, reason in void.items()]
        return {**names, **dict.fromkeys(self._live[key].names_of(None), over_all[0])} if void else {}

    def measures(self, output: str | None) -> bool:
        """Check whether anything is measured of an output."""
        return output in self._live

    def live(self, output: str | None) -> TaskCollection:
        """Return the collections of an output; see `find`."""
        return self.find(output)[1]

    def find(self, output: str | None) -> tuple[str | None, TaskCollection]:
        """Return the name of an output, None if it is the only one and has none, and its collections.

        Raises:
            RunError: the output does not exist, or is not named although there are several.
        """
        if output in self._live:
            return output, self._live[output]
        if output is None and len(self._live) == 1:
            return next(iter(self._live.items()))
        if None in self._live:
            raise RunError(f"this run has one output, without a name; leave feature={output!r} out")
        names = ", ".join(map(repr, self._live))
        raise RunError(f"feature= must name the output of the batch, one of {names}; got {output!r}")

    def measured(self) -> Iterator[Measured]:
        """Yield the collection of each task of each output, and why its values do not count."""
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
        """Return the state of all collections, and why the epoch is void."""
        return {
            "void": self.void,
            "outputs": {feature: live.state_dict() for feature, live in self._live.items()},
        }

    def over(self, states: list[dict[str, Any]]) -> Self:
        """Return the metrics of this split merged over several processes."""
        merged = type(self)(self._split, self._live)
        for state in states:
            merged.void = {**state["void"], **merged.void}
            for feature, outputs in state["outputs"].items():
                merged._live[feature].merge_state(outputs)
        return merged

    def record_name(self, name: str) -> str:
        """Return the name of a value of this split in a record."""
        return f"{self._prefix}{name}"


class TaskRowsState(NamedTuple):
    """The rows of one task that one process has of an epoch, see `_TaskRows`."""

    meter: RowMeterState
    digest: str
    clusters: list[Hashable]
    has_unclustered: bool


RowsState = Mapping[str | None, TaskRowsState]
"""The rows of one process by task."""


class ObjectiveRows:
    """The row values of the optimized metric in an epoch, by which a winner is confirmed.

    Args:
        spec: optimizes one metric, which is measured on validation rows.
        split: the rows, those of validation or of test.
    """

    def __init__(self, spec: RunSpec, split: str = VALIDATION) -> None:
        self._spec, self._objective, self._split = spec, spec.objectives[0], split
        self._output = spec.collections[VALIDATION][self._objective.feature].output
        self._tasks: dict[str | None, _TaskRows] = {}
        self._without: int | None = None  # a rank that keeps no rows

    @classmethod
    def by_split(cls, spec: RunSpec) -> dict[str, Self]:
        """Return those of both splits; none unless it optimizes one metric, measured on validation rows."""
        one = spec.objectives[0]
        measured = not one.reported and one.combined is None and one.split == VALIDATION
        splits = (VALIDATION, TEST) if len(spec.objectives) == 1 and measured else ()
        return {split: cls(spec, split) for split in splits}

    def add(
        self,
        feature: str | None,
        parts: Mapping[str | None, Tensors],
        ids: Mapping[str | None, Sequence[Hashable] | None],
    ) -> None:
        """Add the rows of an update.

        Args:
            feature: the name of their output.
            parts: the rows of each task.
            ids: the id of what each row belongs to, by task.
        """
        if feature != self._objective.feature:
            return
        for task, rows in parts.items():
            if self._objective.task in (None, ALL_TASKS, task):
                key = None if self._spec.pools_tasks else task
                own = self._tasks.get(key) or self._tasks.setdefault(key, _TaskRows(self._spec))
                own.add(batch_of(self._output, **rows), rows, ids[task])

    def state(self) -> RowsState:
        """Return what this process has of the epoch, for the first one to merge, and begin the next."""
        tasks, self._tasks = self._tasks, {}
        return {task: one.state() for task, one in tasks.items()}

    def merge_state(self, states: Iterable[RowsState | None]) -> None:
        """Add what each process has of an epoch, in the order of ranks; one that kept nothing has None."""
        for rank, state in enumerate(states):
            if state is None:
                self._without = rank
            for task, part in (state or {}).items():
                own = self._tasks.get(task) or self._tasks.setdefault(task, _TaskRows(self._spec))
                own.merge_state(rank, part)

    def close(self, values: Mapping[str, Reading]) -> StoredRows | None:
        """Return the row values of the epoch, if there are any, and begin the next.

        A run whose spec asks for them warns, once, if its metric has none.
        """
        name = name_in_record(self._split, self._objective.name)
        tasks = dict(sorted(self._tasks.items(), key=str))
        self._tasks = {}
        value = values.get(name)
        if not isinstance(value, float) or not math.isfinite(value):
            return None
        try:
            if self._without is not None:
                raise NoRowValuesError(
                    f"rank {self._without} stores none; pass the same statistics= on all ranks"
                )
            if len(tasks) < 2:
                only = next(iter(tasks.values()), _TaskRows(self._spec))
                return only.stored(name, only.meter.close(value), value)
            whole = _TaskRows(self._spec)
            rows = [one.meter.close(self._value_of(task, values)) for task, one in tasks.items()]
            for task, one in tasks.items():
                whole.join(task, one)
            return whole.stored(name, mean_over_tasks(rows), value)
        except NoRowValuesError as err:
            self._warn(str(err))
            return None

    def _value_of(self, task: str | None, values: Mapping[str, Reading]) -> float:
        """Return the value of one task."""
        feature = f"{self._objective.feature}." if self._objective.feature else ""
        value = values.get(name_in_record(self._split, f"{task}/{feature}{self._objective.key}"))
        return value if isinstance(value, float) else math.nan

    def _warn(self, reason: str) -> None:
        if self._spec.statistics == "rows" and "rows" not in self._spec.warned:
            self._spec.warned.add("rows")
            warnings.warn(f"no row values are stored, so confirm compares seeds only: {reason}", stacklevel=2)


class _TaskRows:
    """The rows of one task in an epoch, and what each of them belongs to."""

    def __init__(self, spec: RunSpec) -> None:
        objective = spec.objectives[0]
        self.meter = RowMeter(spec.collections[VALIDATION][objective.feature].prototype[objective.key])
        self._digest = RowsDigest()
        self._clusters: list[Hashable] = []
        self._has_unclustered = False

    def add(self, batch: Outputs, rows: Tensors, ids: Sequence[Hashable] | None) -> None:
        """Add the rows of a batch, and the ids of those that count."""
        self._digest.add(rows.get("target", rows.get("target_probabilities")))
        self.meter.add(batch)
        if ids is None:
            self._has_unclustered |= len(batch) > 0
            return
        counting = counting_rows(batch)
        self._clusters += ids if counting is None else compress(ids, counting.tolist())

    def state(self) -> TaskRowsState:
        """Return its rows and what they belong to, to be merged in another process."""
        return TaskRowsState(self.meter.state(), self._digest.text, self._clusters, self._has_unclustered)

    def merge_state(self, rank: int, state: TaskRowsState) -> None:
        """Add the rows of another process."""
        self.meter.merge_state(state.meter)
        self._extend(rank, state.digest, state.clusters, state.has_unclustered)

    def join(self, task: str | None, other: _TaskRows) -> None:
        """Add what the rows of another task are, and belong to."""
        self._extend(task, other._digest.text, other._clusters, other._has_unclustered)

    def _extend(
        self, origin: str | int | None, digest: str, clusters: list[Hashable], has_unclustered: bool
    ) -> None:
        self._digest.add([origin, digest])
        self._clusters += clusters
        self._has_unclustered |= has_unclustered

    def stored(self, name: str, rows: MetricRows, value: float) -> StoredRows:
        """Return the row values, summed by what rows belong to if `by=` says that.

        Raises:
            NoRowValuesError: not every row has a value and belongs to something.
        """
        if not self._clusters:
            return StoredRows(name, rows.method, self._digest.text, value, rows.values)
        if self._has_unclustered:
            raise NoRowValuesError("only some updates pass by=")
        if not rows.of_single_rows or len(rows.values) != len(self._clusters):
            raise NoRowValuesError(f"{name} has no value for a single row, so by= cannot add them up")
        numbers = numbered(self._clusters)
        self._digest.add(numbers)
        (sums,) = by_cluster(rows.values[None], numbers)
        return StoredRows(name, rows.method, self._digest.text, value, sums, clustered=True)


def _check(live: TaskCollection, parts: Mapping[str | None, Tensors], whole: Tensors) -> None:
    """Check the rows of every task before any task adds its rows."""
    try:
        live.check(**whole)
    except NonFiniteError:
        for rows in parts.values():
            with suppress(NonFiniteError):  # which of the tasks it voids shows when they take their rows
                live.check(**rows)


def check_split(split: str) -> None:
    """Check that a split exists.

    Raises:
        RunError: the split does not exist.
    """
    if split not in SPLITS:
        raise RunError(f"split must be one of {', '.join(SPLITS)}, got {split!r}")


def name_in_record(split: str, name: str) -> str:
    """Return the name of a value of a split in a record."""
    return name if split == VALIDATION else f"{split}:{name}"
