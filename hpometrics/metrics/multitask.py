"""The metrics of one output feature, measured for each task and over all tasks, macro or micro."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from ..exceptions import MetricInputError, NonFiniteError
from ._derive import array_of_column
from ._device import gather_from_ranks, world_size
from ._validation import BatchValidator, NonFinite, batch_of
from .batch import Outputs
from .collection import MetricCollection, MetricLike, metric_of
from .features import OutputFeature, parse_feature
from .metric import Metric
from .registry.groups import expand
from .registry.names import MACRO, MICRO, OVER_TASKS, MetricName, parse_import_path
from .registry.scope import ALL_TASKS, check_task
from .retrieval.per_user import PerUser

Value = tuple[Tensor, str | None]
"""A value, and the reason if it is nan."""
Tensors = Mapping[str, Any]
"""The arguments of an update by name."""
Form = frozenset[tuple[str, Hashable]]
"""The names of the arguments of an update, with their types and widths."""
Unasked = MetricName | type[Metric]
"""An optional metric, which is measured if the batches of a task allow it."""

_NAN = torch.tensor(torch.nan, dtype=torch.float64)


class OverTasks:
    """The values over all tasks.

    Args:
        tasks: the collection that measured each task.
        values: the values of each task by metric.
    """

    def __init__(
        self, tasks: Mapping[str, MetricCollection], values: Mapping[str, Mapping[str, Tensor]]
    ) -> None:
        self._tasks, self._values = tasks, values
        self._whole: MetricCollection | None = None
        self._pooled: dict[str, Tensor] = {}

    def value(self, key: str, way: str | None) -> Value:
        """Return the value of a metric.

        Args:
            key: the name of the metric.
            way: `macro`, `micro`, or None for the usual way of the metric.
        """
        pooled = way == MICRO or (way is None and self._pools(key))
        return self._of_all_rows(key) if pooled else self._mean(key)

    def _pools(self, key: str) -> bool:
        """Return whether a metric is by its nature measured over the rows of all tasks."""
        having = next(task for task, values in self._values.items() if key in values)
        return self._tasks[having][key].pools_tasks or self._values[having][key].ndim > 0

    def _mean(self, key: str) -> Value:
        """Return the unweighted mean over the tasks that have the metric; nan if one of them is."""
        each = {task: values[key] for task, values in self._values.items() if key in values}
        if any(value.ndim for value in each.values()):
            return _NAN, f"{key} has several values, which have no mean over tasks; leave out tasks={MACRO}"
        for task in each:
            if (reason := self._tasks[task].reasons.get(key)) is not None:
                return _NAN, f"{task}/{key}: {reason}"
        return torch.stack(list(each.values())).mean(), None

    def _of_all_rows(self, key: str) -> Value:
        if self._whole is None:
            self._whole = self._merged()
            self._pooled = self._whole.compute(synchronize=False)
        if key not in self._pooled:
            return _NAN, f"{key} could be measured only in some of the tasks"
        return self._pooled[key], self._whole.reasons.get(key)

    def _merged(self) -> MetricCollection:
        """Return the rows of all tasks as those of one, measured by the metrics that all of them have."""
        first, *others = self._tasks.values()
        if not others:
            return first
        whole = first.fresh(names=[name for name in first if all(name in part for part in others)])
        for part in self._tasks.values():
            whole.merge_state(whole.part_of(part.state_dict()))
        return whole


def by_task(task: str | Sequence[str] | None, tensors: Tensors) -> list[tuple[str | None, Tensors]]:
    """Return each task with its rows, in the order of their first row.

    Args:
        task: the task of all rows, or one per row.
        tensors: the arguments of an update, each with a row per example.

    Raises:
        MetricNameError: the name of a task is invalid.
        MetricInputError: an argument has another number of rows than there are tasks.
    """
    if task is None or isinstance(task, str):
        return [(task if task is None else check_task(task), tensors)]
    places = _places(task)
    indices = [torch.tensor(rows) for rows in places.values()]
    rows_by_key = {key: _rows(key, value, indices, len(task)) for key, value in tensors.items()}
    return [
        (name, {key: rows[place] for key, rows in rows_by_key.items()}) for place, name in enumerate(places)
    ]


def form_of(tensors: Tensors) -> Form:
    """Return the form of a batch: the names of its arguments, with their types and widths."""
    return frozenset([(name, _kind(value)) for name, value in tensors.items() if value is not None])


def _kind(value: Any) -> Hashable:
    if isinstance(value, (torch.Tensor, np.ndarray)):
        return value.dtype, tuple(value.shape[1:])
    return type(value), type(value[0]) if isinstance(value, (list, tuple)) and value else None


def _places(task: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of the rows of each task; every name is checked once."""
    if not (hasattr(task, "__len__") and hasattr(task, "__iter__")):
        raise MetricInputError(
            f"task= must be the task of all rows, or a list with one task per row; got {type(task).__name__}"
        )
    names = list(task)
    for name in names if not {str}.issuperset(map(type, names)) else dict.fromkeys(names):
        check_task(name)
    places: dict[str, list[int]] = {name: [] for name in names}
    for row, name in enumerate(names):
        places[name].append(row)
    return places


def _rows(name: str, value: Any, places: list[torch.Tensor], total: int) -> list[Any]:
    """Return the rows of one argument for each task, in the type of the argument."""
    if value is None:
        return [None] * len(places)
    if not hasattr(value, "__len__") or len(value) != total:
        received = f"{len(value)} rows" if hasattr(value, "__len__") else type(value).__name__
        raise MetricInputError(
            f"there are tasks for {total} rows, but {name}= has {received}; update each task separately if "
            "its values do not go by row"
        )
    value = array_of_column(value)
    if isinstance(value, torch.Tensor):
        return [value.index_select(0, rows.to(value.device)) for rows in places]
    if isinstance(value, np.ndarray):
        return [value[rows.numpy()] for rows in places]
    return [[value[row] for row in rows.tolist()] for rows in places]


def _readable(metrics: Iterable[Metric], output: OutputFeature, rows: Tensors) -> list[Metric]:
    """Return those of some metrics that can add a batch to what they have measured.

    Raises:
        MetricInputError: the batch does not fit the output; rows that are not finite are ignored.
    """
    batch = batch_of(output, **rows)
    counting = BatchValidator("ignore").validate(batch)
    return [metric for metric in metrics if _reads(metric, batch, counting)]


def _reads(metric: Metric, batch: Outputs, counting: Outputs | None) -> bool:
    """Return whether a metric can add a batch, by its rows that count; by its form if no row counts."""
    try:
        metric.require(batch)
        if counting is not None:
            for statistic in metric.kept.values():
                statistic.prepare(counting)
                statistic.check(counting)
    except MetricInputError:
        return False
    return True


class TaskCollection:
    """Metrics of one output feature, measured for every task that updates name.

    The value of all tasks is the unweighted mean of the tasks' values (macro), as in ParlAI. A metric whose
    value is a curve or table, or depends on the order of all rows, such as `roc_auc`, is measured over all
    their rows (micro); `f1(average=macro, tasks=micro)` and `roc_auc(tasks=macro)` request the other way.
    Updates without a task are measured as they are, and there is no value by task.

    Args:
        metrics: as for `MetricCollection`; names may have `tasks=`, and the value of `all/accuracy` has that
            name as well.
        output: as for `MetricCollection`.
        unasked: names or classes of optional metrics, each measured for a task if it can read its batches;
            the first batch of a form decides for the first batches of all tasks that have it.
        feature: the name of the output if there are several; names then begin with it, as `intent.accuracy`.
        non_finite: as for `MetricCollection`.

    Attributes:
        prototype: an empty collection with the metrics of each task.

    >>> import torch
    >>> panel = TaskCollection(["accuracy", "accuracy(tasks=micro)"], output="category")
    >>> panel.update(task="a", predictions=torch.tensor([0]), target=torch.tensor([0]))
    >>> panel.update(task="b", predictions=torch.tensor([0, 1, 1]), target=torch.tensor([1, 1, 0]))
    >>> {name: round(value.item(), 4) for name, value in panel.compute().items()}
    {'a/accuracy': 1.0, 'b/accuracy': 0.3333, 'accuracy': 0.6667, 'accuracy(tasks=micro)': 0.5}
    """

    def __init__(
        self,
        metrics: Iterable[MetricLike],
        output: OutputFeature | str | None = None,
        *,
        unasked: Sequence[Unasked] = (),
        feature: str | None = None,
        non_finite: NonFinite = "error",
    ) -> None:
        parsed = None if output is None else parse_feature(output)
        requested = [_split_name(metric) for metric in expand(metrics, parsed)]
        members = [metric_of(metric, parsed) for metric, _ in requested]
        self.prototype = MetricCollection(members, parsed, non_finite=non_finite)
        self.output = self.prototype.output
        self._feature = feature
        self._ways: dict[str, dict[str, str | None]] = {}
        for member, (_, place) in zip(members, requested, strict=True):
            self._ways.setdefault(member.name, {}).update(self._way(member.name, place))
        self._unasked = tuple(unasked)
        self._by_form: dict[Form, MetricCollection] = {}
        self._trial: MetricCollection | None = None
        self._live: dict[str | None, MetricCollection] = {}
        self._spare: dict[tuple[str, ...], list[MetricCollection]] = {}  # a reset is faster than a new one
        self._nothing: tuple[Mapping[str, Tensor], Mapping[str, str]] | None = None  # what no update gives
        self.reasons: dict[str, str] = {}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its values, including those of the tasks met since the last reset."""
        return tuple(name for task in (None, *self.tasks) for name in self.names_of(task))

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks met since the last reset, sorted."""
        return tuple(sorted(task for task in self._live if task is not None))

    def names_of(self, task: str | None) -> tuple[str, ...]:
        """Return the names of the values of one task, met or not; for None, of those over all tasks."""
        if task is None:
            return tuple(name for key in self._keys for name in self._ways_of(key))
        measured = self._live.get(task, self.prototype)
        return tuple(self._format_name(task, key) for key in measured.names)

    @property
    def measured(self) -> Mapping[str | None, MetricCollection]:
        """The collection of each task that was updated since the last reset."""
        return self._live

    def update(self, *, task: str | Sequence[str] | None = None, **tensors: Any) -> None:
        """Add one batch.

        Args:
            task: the task of all rows, one per row, or none.
            tensors: as for `MetricCollection.update`.

        Raises:
            MetricInputError: the metrics cannot read the batch, or some updates name a task and some do not.
            MetricNameError: the name of a task is invalid.
        """
        parts = by_task(task, tensors)
        if len(parts) > 1:  # what may be refused is refused before any task has taken its rows
            self.check(**tensors)
        for name, rows in parts:
            self.take(name, rows)

    def check(self, **tensors: Any) -> None:
        """Raise if a batch would be refused; one with the signature of the last one is not measured.

        Raises:
            MetricInputError: it would be refused.
        """
        self._trial = self._trial or self.prototype.fresh()
        if not self._trial.would_take(**tensors):
            self._trial.reset()
            self._trial.update(**tensors)

    def take(self, task: str | None, rows: Mapping[str, Any]) -> None:
        """Add the rows of one task, and drop the optional metrics that cannot read them.

        Raises:
            MetricInputError: as for `update`.
        """
        live = self._live.get(task)
        if live is None:
            self._check_task_or_none(task)
            live = self._empty(self._fitting(rows))
        try:
            live.add_batch(rows)
        except NonFiniteError:
            raise
        except MetricInputError:
            optional = [live[name] for name in live.names[len(self.prototype.names) :]]
            readable = _readable(optional, self.output, rows) if optional else []
            narrow = self._narrow(live, [metric.name for metric in readable])
            if narrow is live:
                raise
            narrow.add_batch(rows)
            live = narrow
        self._live[task] = live  # a refused first batch leaves no task

    def compute(self, *, synchronize: bool = True) -> dict[str, Tensor]:
        """Compute `task/name` of each task and `name` over all; `reasons` has the reason for each nan.

        Args:
            synchronize: include the rows of the other ranks of a process group, which all have to call this.
        """
        if synchronize and world_size() > 1:
            merged = self._over_all_ranks()
            merged_values, self.reasons = merged.compute(synchronize=False), merged.reasons
            return merged_values
        if not self._live:
            return self._of_nothing()
        if None in self._live:
            return self._without_tasks(self._live[None])
        measured = {task: self._live[task].compute(synchronize=False) for task in self.tasks}
        values: dict[str, Tensor] = {}
        self.reasons = {}
        for task, results in measured.items():
            values.update({self._format_name(task, key): value for key, value in results.items()})
            why = self._live[task].reasons
            self.reasons.update({self._format_name(task, key): reason for key, reason in why.items()})
        return {**values, **self._over_all(measured)}

    def _without_tasks(self, live: MetricCollection) -> dict[str, Tensor]:
        """Return the values of updates without a task, each also under the names of its values over all."""
        values = live.compute(synchronize=False)
        self.reasons = {name: reason for key, reason in live.reasons.items() for name in self._ways_of(key)}
        return {name: value for key, value in values.items() for name in self._ways_of(key)}

    def per_user(self) -> PerUser | None:
        """Return the values of users by metric and task, of this process; None if they are not stored."""
        keeping = {task: live for task, live in self._live.items() if live.keeps_users}
        tables = [
            live.per_user(synchronize=False).met().called(partial(self._format_name, task))
            for task, live in keeping.items()
        ]
        return PerUser.joined(tables) if keeping else None

    def reset(self) -> None:
        """Drop everything measured, and all tasks."""
        for live in self._live.values():
            live.reset()
            self._spare.setdefault(live.names, []).append(live)
        self._live = {}
        self.reasons = {}

    def fresh(self) -> Self:
        """Return an empty collection of the same metrics."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, _trial=None, _live={}, _spare={}, reasons={})
        return copy

    def state_dict(self) -> dict[str, Any]:
        """Return, for each task, the names of its optional metrics and the state of its collection."""
        return {
            task or "": {"unasked": live.names[len(self.prototype.names) :], "state": live.state_dict()}
            for task, live in self._live.items()
        }

    def merge_state(self, state: Mapping[str, Any]) -> None:
        """Merge the `state_dict` of another task collection of the same metrics.

        The optional metrics of a task are then those that both have.

        Raises:
            StateError: the state is of other metrics.
            MetricInputError: its updates name a task and those of this one do not, or the reverse.
        """
        classes = {one().name: one for one in self._unasked if isinstance(one, type)}
        for name, part in state.items():
            task = name or None
            if task not in self._live:
                self._check_task_or_none(task)
                further: list[MetricLike] = [classes.get(key, key) for key in part["unasked"]]
                self._live[task] = self.prototype.fresh(further) if further else self._empty(self.prototype)
            live = self._live[task] = self._narrow(self._live[task], part["unasked"])
            live.merge_state(live.part_of(part["state"]))

    def _narrow(self, live: MetricCollection, unasked: Sequence[str]) -> MetricCollection:
        """Return the collection with only those of its optional metrics that are among some names."""
        own = live.names[len(self.prototype.names) :]
        shared = [name for name in own if name in unasked]
        if len(shared) == len(own):
            return live
        narrow = live.fresh(names=[*self.prototype.names, *shared])
        narrow.merge_state(narrow.part_of(live.state_dict()))
        return narrow

    def _empty(self, like: MetricCollection) -> MetricCollection:
        """Return a collection of the same metrics with nothing measured."""
        if spare := self._spare.get(like.names):
            return spare.pop()
        empty = like.fresh()
        for other in self._live.values():
            if other.names == empty.names:
                empty.learn_from(other)
                break
        return empty

    def _fitting(self, rows: Mapping[str, Any]) -> MetricCollection:
        """Return an empty collection of the metrics and of the optional ones that can read these rows."""
        form = form_of(rows)
        if form not in self._by_form:
            optional = [metric_of(metric, self.output) for metric in self._unasked]
            self._by_form[form] = self.prototype.fresh(
                _readable(optional, self.output, rows) if optional else ()
            )
        return self._by_form[form]

    def _check_task_or_none(self, task: str | None) -> None:
        if self._live and (task is None) != (None in self._live):
            raise MetricInputError(
                "some updates name a task and some do not; pass one with each, as in task='convai2'"
            )

    def _of_nothing(self) -> dict[str, Tensor]:
        """Return the values before any update, which must not count as an update without a task."""
        if self._nothing is None:
            empty = self.fresh()
            empty._live[None] = self.prototype.fresh()
            self._nothing = empty.compute(synchronize=False), empty.reasons
        values, reasons = self._nothing
        self.reasons = dict(reasons)
        return dict(values)

    @property
    def _keys(self) -> tuple[str, ...]:
        """The names of the metrics, including the optional ones that are measured."""
        measured = (live.names for live in self._live.values())
        return tuple(dict.fromkeys([*self.prototype.names, *(name for names in measured for name in names)]))

    def _format_name(self, task: str | None, key: str) -> str:
        """Return the name of the value of a metric."""
        return f"{f'{task}/' if task else ''}{f'{self._feature}.' if self._feature else ''}{key}"

    def _ways_of(self, key: str) -> dict[str, str | None]:
        """Return the names of the values over all tasks, and the way of each: macro, micro or usual."""
        if key not in self._ways:
            self._ways[key] = {self._format_name(None, key): None}
        return self._ways[key]

    def _way(self, key: str, place: MetricName | None) -> dict[str, str | None]:
        own: dict[str, str | None] = {self._format_name(None, key): None}
        if place is None or (place.task != ALL_TASKS and place.over_tasks is None):
            return own
        over, name = place.over_tasks, MetricName.parse(key)
        params = name.params if over is None else (*name.params, (OVER_TASKS, over))
        called = replace(name, params=params, task=place.task, feature=self._feature)
        return {str(called): over} if over else {**own, str(called): None}

    def _over_all_ranks(self) -> Self:
        merged = self.fresh()
        for state in gather_from_ranks(self.state_dict()):
            merged.merge_state(state)
        return merged

    def _over_all(self, measured: Mapping[str, Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """Return the values over all tasks."""
        over = OverTasks({task: self._live[task] for task in measured}, measured)
        results: dict[str, Tensor] = {}
        for key in self._keys:
            for name, way in self._ways_of(key).items():
                results[name], reason = over.value(key, way)
                if reason is not None:
                    self.reasons[name] = reason
        return results


def _split_name(metric: MetricLike) -> tuple[MetricLike, MetricName | None]:
    """Return a metric without the task and `tasks=` of its name, and the whole name if it has one."""
    if isinstance(metric, (Metric, type)) or (isinstance(metric, str) and parse_import_path(metric)):
        return metric, None
    name = MetricName.parse(metric)
    return replace(name, task=None, params=name.bare.params), name
