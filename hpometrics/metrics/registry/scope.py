"""Resolve the outputs and tasks of a model that the name of a metric is about; torch is not loaded."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache

from ...direction import Direction
from ...exceptions import MetricNameError, UnknownMetricError
from ..features import check_feature_type
from .groups import group_named, members_of
from .lookup import FoundMetric, find_metric, is_registered
from .names import MAX_LENGTH, MetricName

ALL_TASKS = "all"
COMBINED = "combined"
VALIDATION = "validation"
TEST = "test"

Types = Mapping[str | None, str | None]
"""The type of each output by its name. The name None is the only output; the type None is unknown."""

_OUTPUT_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
_IN_TASK = "/exs"
"""The end of the shortest name of a value of a task."""


@dataclass(frozen=True)
class ScopedMetric:
    """A metric of the registry with its split, task and output.

    Args:
        name: its canonical name with split, task, feature and `tasks=`, which is the name of the value in a
            record.
        metric: the metric itself.
    """

    name: MetricName
    metric: FoundMetric

    @property
    def measured(self) -> MetricName:
        """The name that the collection of the output measures, with task and `tasks=`."""
        return replace(self.name, split=None, feature=None)


def resolve_in_scope(name: str | MetricName, types: Types | None) -> ScopedMetric:
    """Find the metric that a name means among several outputs.

    A name without an output means the only output, or the only one that has such a metric. If `types` is
    None the outputs are not known yet, and the name may have any.

    Raises:
        MetricNameError: several outputs have such a metric, there is no such output, or a name has both a
            task and `tasks=`.
        UnknownMetricError: no output has such a metric.
    """
    requested = MetricName.parse(name)
    if requested.over_tasks and requested.task not in (None, ALL_TASKS):
        raise MetricNameError(
            f"{requested}: tasks={requested.over_tasks} covers all tasks; leave out either it or the task "
            f"{requested.task}"
        )
    feature = requested.feature if types is None else _output_of(requested, types)
    match = find_metric(requested.bare, None if types is None else types[feature])
    split = None if requested.split == VALIDATION else requested.split
    return ScopedMetric(match.name.like(replace(requested, feature=feature, split=split)), match)


def group_of(metric: object, types: Types | None) -> MetricName | None:
    """Return the parsed name of a group; None for anything else, such as a metric of any of the outputs."""
    groups = [group_named(metric, type_) for type_ in ({None: None} if types is None else types).values()]
    return groups[0] if all(groups) else None


def members(group: MetricName, types: Types) -> Iterator[MetricName]:
    """Yield the names of the metrics of a group, for each output that it is about.

    Raises:
        MetricNameError: no output has such a group.
    """
    having = [key for key, type_ in types.items() if _has(group, type_)]
    for key in [group.feature] if group.feature is not None else having or list(types)[:1]:
        _check_output(group, key, types)
        for member in members_of(group.metric, types[key]):
            yield replace(member, split=group.split, task=group.task, feature=key)


def check_output_name(name: object) -> str:
    """Return the name of an output that can stand before the point of `intent.f1`.

    Raises:
        MetricNameError: it cannot.
    """
    if isinstance(name, str) and _OUTPUT_NAME.match(name) and name != COMBINED:
        return name
    raise MetricNameError(
        f"the name of an output must be letters, digits, - and _, and not {COMBINED!r}; got {name!r}"
    )


def check_task(task: object) -> str:
    """Return the name of a task that can stand in front of the name of a metric.

    Raises:
        MetricNameError: it cannot, or it is `all`, the name of all tasks together.
    """
    if isinstance(task, str) and _can_be_task(task):
        return task
    raise MetricNameError(
        "the name of a task must be text without '/', ':', '(', ')', '@' and spaces, of at most "
        f"{MAX_LENGTH - len(_IN_TASK)} characters, and not {ALL_TASKS!r}; got {task!r}"
    )


@lru_cache(maxsize=1024)
def _can_be_task(name: str) -> bool:
    try:
        return name != ALL_TASKS and MetricName.parse(f"{name}{_IN_TASK}") == MetricName("exs", task=name)
    except MetricNameError:
        return False


def _output_of(name: MetricName, types: Types) -> str | None:
    if name.feature is not None or len(types) == 1:
        key = next(iter(types)) if name.feature is None else name.feature
        _check_output(name, key, types)
        return key
    having = [key for key, type_ in types.items() if is_registered(name, type_)]
    if len(having) == 1:
        return having[0]
    if having:
        choices = ", ".join(str(replace(name, feature=key)) for key in having)
        raise MetricNameError(f"{name} is a metric of several outputs; choose one: {choices}")
    available = ", ".join(f"{key} ({type_})" for key, type_ in types.items())
    raise UnknownMetricError(f"no output has a metric {str(name)!r}; the metrics are {available}")


def _check_output(name: MetricName, key: str | None, types: Types) -> None:
    if key in types:
        return
    if None in types:
        bare = replace(name, feature=None)
        raise MetricNameError(
            f"{name}: the only output has no name; write {bare}, or name the output with output={{{key!r}: "
            "...}"
        )
    raise MetricNameError(f"{name}: there is no output {key!r}; the outputs are {', '.join(map(str, types))}")


def _has(group: MetricName, feature_type: str | None) -> bool:
    if feature_type is None or group_named(group.bare, feature_type) is None:
        return False
    try:
        return bool(members_of(group.metric, check_feature_type(feature_type)))
    except MetricNameError:
        return False


def steering_problem(name: object, split: str | None, per_class: bool) -> str | None:
    """Return why a search cannot optimize a value; None if it can.

    Args:
        name: the name of the value.
        split: the data that it is measured on; None is the validation data.
        per_class: whether it has one value per class.
    """
    if split not in (None, VALIDATION):
        return f"only validation values can steer a search; {name} can only be tracked"
    if per_class:
        return f"{per_class_problem(name, 'a search optimizes')}, and track this one"
    return None


def constraint_problem(name: MetricName, types: Types | None) -> str | None:
    """Return why a constraint cannot bound a value; None if it can."""
    if group_of(name, types) is not None:
        return f"{name} is a group of metrics; use a single metric in a constraint"
    problem = steering_problem(name, name.split, per_class=False)
    if problem is None and is_per_class(name):
        return (
            f"{name} has one value per class; use a single class in a constraint, as in "
            f"{name.metric}(class=0)"
        )
    return problem


def is_per_class(name: MetricName) -> bool:
    """Return whether a name means one value per class."""
    return dict(name.params).get("average") == "none"


def per_class_problem(name: object, purpose: str) -> str:
    """Return why a metric with one value per class does not serve a purpose, such as `a score is`."""
    return (
        f"{name} has one value per class, but {purpose} one number; choose average=micro, macro or weighted"
    )


def direction_problem(
    name: object, own: Direction | None, stated: Direction | None, where: str
) -> str | None:
    """Return how a stated direction contradicts the metric's own; None if it does not.

    Args:
        name: the name of the metric.
        own: its own direction.
        stated: the direction that the user states.
        where: the argument or key that states it.
    """
    if own is None or stated is None or own is stated:
        return None
    return f"{name} must be {own.value}d, but {where} {stated.value}s it"
