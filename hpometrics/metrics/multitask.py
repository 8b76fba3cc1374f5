"""TaskCollection: the metrics of one output, measured for each task and over all of them, macro or micro."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Self

from torch import Tensor

from ..exceptions import MetricInputError, NonFiniteError
from ._validation import NonFinite
from .collection import MetricCollection, Named, metric_of
from .features import OutputFeature, parse_feature
from .metric import Metric
from .over_tasks import OverTasks
from .ranks import gathered, world_size
from .registry.groups import expand
from .registry.names import OVER_TASKS, MetricName, parse_import_path
from .registry.scope import ALL_TASKS
from .retrieval.per_user import PerUser
from .task_rows import Form, by_task, form_of

Unasked = MetricName | type[Metric]


class TaskCollection:
    """Metrics of one output feature, measured for every task that updates name.

    The value of all tasks is the unweighted mean of the tasks' values (macro), as in ParlAI. A metric whose
    value is a curve or table, or follows from the order of all rows, such as `roc_auc`, is measured over all
    their rows (micro); `f1(average=macro, tasks=micro)` and `roc_auc(tasks=macro)` ask for the other. Updates
    that name no task are measured as they are, and no task has a value.

    Args:
        metrics: as of `MetricCollection`; names may say `tasks=`, and `all/accuracy` is called that as well.
        output: as of `MetricCollection`.
        unasked: names or classes of metrics to measure beside them for as far as the first batch of a task
            can be read by them.
        feature: the name of the output where there are several; values are then called `intent.accuracy`.
        non_finite: as of `MetricCollection`.

    >>> import torch
    >>> panel = TaskCollection(["accuracy", "accuracy(tasks=micro)"], output="category")
    >>> panel.update(task="a", predictions=torch.tensor([0]), target=torch.tensor([0]))
    >>> panel.update(task="b", predictions=torch.tensor([0, 1, 1]), target=torch.tensor([1, 1, 0]))
    >>> {name: round(value.item(), 4) for name, value in panel.compute().items()}
    {'a/accuracy': 1.0, 'b/accuracy': 0.3333, 'accuracy': 0.6667, 'accuracy(tasks=micro)': 0.5}
    """

    def __init__(
        self,
        metrics: Iterable[Named],
        output: OutputFeature | str | None = None,
        *,
        unasked: Sequence[Unasked] = (),
        feature: str | None = None,
        non_finite: NonFinite = "error",
    ) -> None:
        known = None if output is None else parse_feature(output)
        asked = [_read(metric) for metric in expand(metrics, known)]
        members = [metric_of(metric, known) for metric, _ in asked]
        self._prototype = MetricCollection(members, known, non_finite=non_finite)
        self._feature = feature
        self._ways: dict[str, dict[str, str | None]] = {}
        for member, (_, place) in zip(members, asked, strict=True):
            self._ways.setdefault(member.name, {}).update(self._way(member.name, place))
        self._unasked = tuple(unasked)
        self._by_form: dict[Form, MetricCollection] = {}
        self._trial: MetricCollection | None = None
        self._live: dict[str | None, MetricCollection] = {}
        self._spare: dict[tuple[str, ...], list[MetricCollection]] = {}  # a reset is faster than a new one
        self._nothing: tuple[Mapping[str, Tensor], Mapping[str, str]] | None = None  # what no update gives
        self.reasons: dict[str, str] = {}

    @property
    def output(self) -> OutputFeature:
        """What the model predicts."""
        return self._prototype.output

    @property
    def names(self) -> tuple[str, ...]:
        """What its values are called, those of the tasks met since the last reset included."""
        return tuple(name for task in (None, *self.tasks) for name in self.names_of(task))

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks met since the last reset, sorted."""
        return tuple(sorted(task for task in self._live if task is not None))

    def names_of(self, task: str | None) -> tuple[str, ...]:
        """What the values of one task are called, met or not; of None, those over all tasks."""
        if task is None:
            return tuple(name for key in self._keys for name in self._ways_of(key))
        measured = self._live.get(task, self._prototype)
        return tuple(self._called(task, key) for key in measured.names)

    def of(self, task: str | None) -> MetricCollection:
        """What measures one task that has been updated since the last reset."""
        return self._live[task]

    @property
    def measured(self) -> Mapping[str | None, MetricCollection]:
        """What measures each task that has been updated since the last reset."""
        return self._live

    @property
    def prototype(self) -> MetricCollection:
        """What is measured of each task, with nothing measured."""
        return self._prototype

    def update(self, *, task: str | Sequence[str] | None = None, **tensors: Any) -> None:
        """Add one batch.

        Args:
            task: that of all rows, one per row, or none.
            tensors: as of `MetricCollection.update`.

        Raises:
            MetricInputError: the batch is not what the metrics read, or other updates do name a task.
            MetricNameError: what cannot be a task's name.
        """
        parts = list(by_task(task, tensors))
        if len(parts) > 1:  # what may be refused is refused before any task has taken its rows
            self.check(**tensors)
        for name, rows in parts:
            self.take(name, rows)

    def check(self, **tensors: Any) -> None:
        """Measure a batch for nobody; one that is like the last of these is only glanced at.

        Raises:
            MetricInputError: it would be refused.
        """
        self._trial = self._trial or self._prototype.fresh()
        if not self._trial.would_take(**tensors):
            self._trial.reset()
            self._trial.update(**tensors)

    def take(self, task: str | None, rows: Mapping[str, Any]) -> None:
        """Add the rows of one task; what is measured unasked and cannot read them is measured no longer.

        Raises:
            MetricInputError: as of `update`.
        """
        live = self._collection(task, rows)
        try:
            live.update(**rows)
        except NonFiniteError:
            raise
        except MetricInputError:
            further = self._prototype.readable(self._unasked, **rows)
            narrow = self._narrowed(live, [metric.name for metric in further])
            if narrow is live:
                raise
            narrow.update(**rows)
            self._live[task] = narrow

    def compute(self, *, synchronize: bool = True) -> dict[str, Tensor]:
        """Measure: `task/name` of each task, `name` over all of them; `reasons` says why a value is nan.

        Args:
            synchronize: take in the rows of the other ranks of a process group, which all have to call this.
        """
        if synchronize and world_size() > 1:
            merged = self._over_all_ranks()
            told, self.reasons = merged.compute(synchronize=False), merged.reasons
            return told
        if not self._live:
            return self._of_nothing()
        measured = {task: self._live[task].compute(synchronize=False) for task in sorted(self._live, key=str)}
        values: dict[str, Tensor] = {}
        self.reasons = {}
        for task, found in measured.items():
            values.update({self._called(task, key): value for key, value in found.items()})
            why = self._live[task].reasons
            self.reasons.update({self._called(task, key): reason for key, reason in why.items()})
        return {**values, **self._over_all(measured)}

    def per_user(self) -> PerUser | None:
        """The value of each user by metric and task, of this process; None unless the output keeps them."""
        keeping = {task: live for task, live in self._live.items() if live.keeps_users}
        tables = [
            live.per_user(synchronize=False).met().called(partial(self._called, task))
            for task, live in keeping.items()
        ]
        return PerUser.joined(tables) if keeping else None

    def reset(self) -> None:
        """Forget everything measured, and every task."""
        for live in self._live.values():
            live.reset()
            self._spare.setdefault(live.names, []).append(live)
        self._live = {}
        self.reasons = {}

    def fresh(self) -> Self:
        """Return the same with nothing measured."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, _trial=None, _live={}, _spare={}, reasons={})
        return copy

    def state_dict(self) -> dict[str, Any]:
        """Everything measured, by task: what is measured beside the metrics asked for, and the states."""
        return {
            task or "": {"unasked": live.names[len(self._prototype.names) :], "state": live.state_dict()}
            for task, live in self._live.items()
        }

    def merge_state(self, state: Mapping[str, Any]) -> None:
        """Take in what `state_dict` of another one of the same metrics gave.

        Of a task, what is measured unasked is then what both could read.

        Raises:
            StateError: it has other metrics.
            MetricInputError: its updates name a task and those of this one do not, or the reverse.
        """
        classes = {one().name: one for one in self._unasked if isinstance(one, type)}
        for name, told in state.items():
            task = name or None
            if task not in self._live:
                self._check_named(task)
                further: list[Named] = [classes.get(key, key) for key in told["unasked"]]
                self._live[task] = self._prototype.fresh(further) if further else self._empty(self._prototype)
            live = self._live[task] = self._narrowed(self._live[task], told["unasked"])
            live.merge_state(live.part_of(told["state"]))

    def _narrowed(self, live: MetricCollection, unasked: Sequence[str]) -> MetricCollection:
        """Leave of what is measured unasked what is among these names."""
        own = live.names[len(self._prototype.names) :]
        shared = [name for name in own if name in unasked]
        if len(shared) == len(own):
            return live
        narrow = self._prototype.fresh(shared)
        narrow.merge_state(narrow.part_of(live.state_dict()))
        return narrow

    def _collection(self, task: str | None, rows: Mapping[str, Any]) -> MetricCollection:
        if task not in self._live:
            self._check_named(task)
            self._live[task] = self._empty(self._fitting(rows))
        return self._live[task]

    def _empty(self, like: MetricCollection) -> MetricCollection:
        """A collection of the same metrics with nothing measured."""
        spare = self._spare.get(like.names)
        return spare.pop() if spare else like.fresh()

    def _fitting(self, rows: Mapping[str, Any]) -> MetricCollection:
        """What measures batches of this form: the prototype, and what of the unasked can read them."""
        form = form_of(rows)
        if form not in self._by_form:
            further = self._prototype.readable(self._unasked, **rows) if self._unasked else ()
            self._by_form[form] = self._prototype.fresh(further)
        return self._by_form[form]

    def _check_named(self, task: str | None) -> None:
        if self._live and (task is None) != (None in self._live):
            raise MetricInputError(
                "some updates name a task and some do not; name one with each, as in task='convai2'"
            )

    def _of_nothing(self) -> dict[str, Tensor]:
        """The values of no update, which this one does not take for updates without a task."""
        if self._nothing is None:
            empty = self.fresh()
            empty._live[None] = self._prototype.fresh()
            self._nothing = empty.compute(synchronize=False), empty.reasons
        values, reasons = self._nothing
        self.reasons = dict(reasons)
        return dict(values)

    @property
    def _keys(self) -> tuple[str, ...]:
        """The names of the metrics, those that turned out to be readable included."""
        measured = (live.names for live in self._live.values())
        return tuple(dict.fromkeys([*self._prototype.names, *(name for names in measured for name in names)]))

    def _called(self, task: str | None, key: str) -> str:
        """What the value of a metric is called."""
        return f"{f'{task}/' if task else ''}{f'{self._feature}.' if self._feature else ''}{key}"

    def _ways_of(self, key: str) -> dict[str, str | None]:
        """What the values of all tasks are called, and how each comes from the tasks."""
        return self._ways.get(key, {self._called(None, key): None})

    def _way(self, key: str, place: MetricName | None) -> dict[str, str | None]:
        own: dict[str, str | None] = {self._called(None, key): None}
        if place is None or (place.task != ALL_TASKS and place.over_tasks is None):
            return own
        over, name = place.over_tasks, MetricName.parse(key)
        params = name.params if over is None else (*name.params, (OVER_TASKS, over))
        called = replace(name, params=params, task=place.task, feature=self._feature)
        return {str(called): over} if over else {**own, str(called): None}

    def _over_all_ranks(self) -> Self:
        merged = self.fresh()
        for state in gathered(self.state_dict()):
            merged.merge_state(state)
        return merged

    def _over_all(self, measured: Mapping[str | None, Mapping[str, Tensor]]) -> dict[str, Tensor]:
        """The values over all tasks; where updates name none, those that were measured."""
        named = {task: values for task, values in measured.items() if task is not None}
        over = OverTasks({task: self._live[task] for task in named}, named)
        found: dict[str, Tensor] = {}
        for key in self._keys:
            for name, way in self._ways_of(key).items():
                if named:
                    found[name], reason = over.value(key, way)
                else:
                    found[name], reason = measured[None][key], self._live[None].reasons.get(key)
                if reason is not None:
                    self.reasons[name] = reason
        return found


def _read(metric: Named) -> tuple[Named, MetricName | None]:
    """A metric without what is about tasks, and the name that says it."""
    if isinstance(metric, (Metric, type)) or (isinstance(metric, str) and parse_import_path(metric)):
        return metric, None
    name = MetricName.parse(metric)
    return replace(name, task=None, params=name.bare.params), name
