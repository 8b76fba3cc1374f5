"""Resolve what a user names into what a run measures: each metric with its place and its direction."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..direction import MINIMIZE, Direction
from ..exceptions import ConstraintError, DirectionError, MetricNameError, RunError, UnknownMetricError
from ..metrics.combined import Combined, ResolvedCombined
from ..metrics.features import OutputFeature
from ..metrics.metric import Metric
from ..metrics.registry.diagnostics import diagnostic, direction_of
from ..metrics.registry.lookup import import_metric, measured_by
from ..metrics.registry.ludwig_names import ReadableObjective
from ..metrics.registry.names import MetricName, parse_import_path
from ..metrics.registry.scope import (
    COMBINED,
    VALIDATION,
    Types,
    constraint_problem,
    direction_problem,
    group_of,
    is_per_class,
    members,
    resolve_in_scope,
    steering_problem,
)
from ..selection.rules import DOMINANCE, Constraint, unjudged

Features = Mapping[str | None, OutputFeature | None]
"""The outputs of a model by name; None names the only one. A feature of None is known to the metrics."""


@dataclass(frozen=True)
class Reported(ReadableObjective):
    """A value that the engine reports itself, by `run.log(name=...)`, and its direction.

    The direction is None if the value is only tracked or bounded.
    """

    name: str
    direction: Direction | None

    def __post_init__(self) -> None:
        if self.direction is not None:
            object.__setattr__(self, "direction", Direction.parse(self.direction))


@dataclass(frozen=True)
class MetricSpec:
    """One requested value: a metric at its place with its direction.

    Args:
        name: what the record calls it.
        direction: its direction, None where it has none.
        measured: what is measured, a name without split and output, an import path or a metric; None of a
            value that the engine reports itself or that is combined of others.
        split: on whose updates.
        feature: of which output.
        task: of which task; `all` and None mean all of them.
        combined: how it is combined.
    """

    name: str
    direction: Direction | None
    measured: str | MetricName | Metric | None = None
    split: str = VALIDATION
    feature: str | None = None
    task: str | None = None
    combined: ResolvedCombined | None = None

    @property
    def reported(self) -> bool:
        """Whether the engine reports the value itself."""
        return self.measured is None and self.combined is None

    @property
    def key(self) -> str:
        """The name of the metric in the collection of its output; its own name if it is not measured."""
        if isinstance(self.measured, Metric):
            return self.measured.name
        return str(self.measured.bare) if isinstance(self.measured, MetricName) else self.name


def listed(setting: str, values: Iterable[Any]) -> tuple[Any, ...]:
    """Return the values of a setting that is a list.

    Raises:
        RunError: it is one text, whose letters would be the values.
    """
    if isinstance(values, str):
        raise RunError(f"{setting} must be a list, got {values!r}; write {setting}=[{values!r}]")
    return tuple(values)


def resolve_all(metric: Any, features: Features, direction: Direction | str | None) -> tuple[MetricSpec, ...]:
    """Resolve the metric that a search optimizes, or each metric of a list.

    Raises:
        DirectionError, UnknownMetricError, MetricNameError, RunError: see `RunSpec`.
    """
    if not isinstance(metric, (list, tuple)):
        return (resolve_metric(metric, features, direction),)
    if direction is not None and len(metric) > 1:
        raise DirectionError(
            f"direction= applies to one metric, got {len(metric)} metrics; state the direction with the "
            "metric that has none, as in Reported('latency_ms', 'minimize') or Reported('speed', "
            "'maximize')"
        )
    specs = tuple(resolve_metric(one, features, direction) for one in metric)
    if not specs:
        raise RunError("metric= is an empty list; name the metric to optimize")
    names = [spec.name for spec in specs]
    if twice := [name for name in names if names.count(name) > 1]:
        raise RunError(f"{twice[0]} is listed twice among the objectives, got {names}")
    return specs


def resolve_metric(metric: Any, features: Features, direction: Direction | str | None) -> MetricSpec:
    """Resolve one metric that a search optimizes.

    Raises:
        DirectionError, UnknownMetricError, MetricNameError, RunError: see `RunSpec`.
    """
    if isinstance(metric, Mapping):
        metric, direction = _read_mapping(metric, direction)
    requested = None if direction is None else Direction.parse(direction)
    if isinstance(metric, Reported):
        requested = _direction(metric.name, metric.direction, requested)
    spec = _resolve(metric, features, requested)
    if problem := steering_problem(spec.name, spec.split, _has_many_values(spec)):
        raise RunError(problem)
    entry = diagnostic(spec.name) if spec.measured is None else None
    if entry is not None:
        return replace(spec, direction=direction_of(spec.name, entry, requested))
    return replace(spec, direction=_direction(spec.name, spec.direction, requested))


def resolve_tracked(metrics: Iterable[Any], features: Features) -> Iterator[MetricSpec]:
    """Resolve tracked metrics: each member of a group, for each output that has the group."""
    types = types_of(features)
    for metric in metrics:
        group = group_of(metric, types)
        if isinstance(metric, Mapping):
            yield _resolve_mapping(metric, features)
        elif group is None:
            yield _resolve(metric, features, None)
        else:
            yield from (_of_name(member, types, None) for member in members(group, types))


def resolve_constraints(
    texts: Iterable[str], features: Features, reported: Collection[str] = ()
) -> Iterator[tuple[Constraint, MetricSpec]]:
    """Read constraints, each with the value that it bounds; one that is not measured is reported.

    Args:
        texts: such as `ece <= 0.05`.
        features: the outputs.
        reported: names that the engine reports, even if the registry has metrics of that name.

    Raises:
        ConstraintError: one is not well formed, or does not bound one value of validation data.
        MetricNameError: a metric does not fit the output.
    """
    types = types_of(features)
    for text in texts:
        constraint = Constraint.parse(text)
        name = MetricName.parse(constraint.name)
        if str(name) in reported:
            yield replace(constraint, name=str(name)), MetricSpec(str(name), None)
            continue
        if problem := constraint_problem(name, types):
            raise ConstraintError(f"{constraint}: {problem}")
        spec = _of_name(name, types, None, is_reported=True)
        yield replace(constraint, name=spec.name), spec


def resolve_judged(
    prune_by: str | None, objectives: Sequence[MetricSpec], tracked: Sequence[MetricSpec], features: Features
) -> dict[str, Direction]:
    """Return the direction of each value that a pruner judges; none if it is the optimized one.

    Raises:
        DirectionError: the metric has no direction.
        RunError: it is neither optimized nor tracked, has no single value of validation data, or one
            objective is to be compared by dominance.
    """
    if prune_by is None:
        return {}
    if prune_by == DOMINANCE:
        if len(objectives) < 2:
            one = objectives[0].name
            raise RunError(
                f"{DOMINANCE} compares several objectives, but {one} is only one; leave prune_by out"
            )
        return {one.name: one.direction for one in objectives if one.direction is not None}
    specs = {one.name: one for one in (*objectives, *tracked)}
    spec = specs.get(prune_by) or specs.get(_resolve(prune_by, features, MINIMIZE).name)
    if spec is None:
        raise RunError(unjudged(prune_by, specs))
    if problem := steering_problem(spec.name, spec.split, _has_many_values(spec)):
        raise RunError(f"prune_by={prune_by!r}: {problem}")
    direction = _direction(spec.name, spec.direction, None)
    return {} if [spec.name] == [one.name for one in objectives] else {spec.name: direction}


def types_of(features: Features) -> Types:
    """Return the type of each output by name."""
    return {name: None if feature is None else feature.type for name, feature in features.items()}


def _resolve_mapping(mapping: Mapping[str, Any], features: Features) -> MetricSpec:
    metric, direction = _read_mapping(mapping, None)
    requested = None if direction is None else Direction.parse(direction)
    spec = _resolve(metric, features, requested)
    return (
        spec
        if requested is None
        else replace(spec, direction=_direction(spec.name, spec.direction, requested))
    )


def _resolve(metric: Any, features: Features, direction: Direction | None) -> MetricSpec:
    types = types_of(features)
    if isinstance(metric, Reported):
        return MetricSpec(metric.name, metric.direction)
    if isinstance(metric, Combined):
        return _of_combined(metric, types)
    if isinstance(metric, str) and parse_import_path(metric):
        return _of_path(metric, features)
    if isinstance(metric, (str, MetricName)):
        return _of_name(MetricName.parse(metric), types, direction)
    return _of_object(metric, features)


def _of_name(
    name: MetricName, types: Types, direction: Direction | None, is_reported: bool = False
) -> MetricSpec:
    if (entry := diagnostic(name)) is not None:
        return MetricSpec(str(name), entry.direction)
    if name.feature == COMBINED:
        return _of_combined(Combined.of_all_outputs(name, types), types)
    try:
        placed = resolve_in_scope(name, types)
    except UnknownMetricError as err:
        if direction is not None or is_reported:
            return MetricSpec(str(name), direction)
        if (plain := measured_by(name)) is not None:
            return _of_name(plain, types, None)
        raise UnknownMetricError(
            f"{err}. If the engine reports it with run.log, state its direction: Reported({str(name)!r}, "
            f"'minimize') if lower is better, Reported({str(name)!r}, 'maximize') if higher is better"
        ) from None
    at, own = placed.name, placed.metric.direction
    return MetricSpec(str(at), own, placed.measured, at.split or VALIDATION, at.feature, at.task)


def _of_combined(combined: Combined, types: Types) -> MetricSpec:
    resolved = combined.settled(types)
    return MetricSpec(resolved.name, resolved.direction, task=resolved.task, combined=resolved)


def _of_path(path: str, features: Features) -> MetricSpec:
    entry, feature = import_metric(path), _only(features, path)
    return MetricSpec(str(replace(entry.name, feature=feature)), entry.direction, path, feature=feature)


def _of_object(metric: Any, features: Features) -> MetricSpec:
    instance = metric() if isinstance(metric, type) else metric
    if not isinstance(instance, Metric):
        raise RunError(f"a metric must be a name, a Metric or Reported(name, direction), got {metric!r}")
    feature = _only(features, instance.name)
    name = instance.name if feature is None else f"{feature}.{instance.name}"
    return MetricSpec(name, instance.direction, instance.alone(), feature=feature)


def _only(features: Features, metric: str) -> str | None:
    if len(features) > 1:
        raise MetricNameError(
            f"{metric} does not state which of several outputs it measures; register it and name it, as in "
            f"{next(iter(features))}.{metric}"
        )
    return next(iter(features))


def _has_many_values(spec: MetricSpec) -> bool:
    measured = spec.measured
    if isinstance(measured, MetricName):
        return is_per_class(measured)
    return getattr(measured, "average", None) == "none"


def _read_mapping(metric: Mapping[str, Any], direction: Any) -> tuple[Any, Any]:
    if "combine" in metric:
        return Combined.of_mapping(metric), direction
    parts = dict(metric)
    name, own = parts.get("metric"), parts.pop("direction", None)
    if name is None:
        raise RunError(f"a metric as a mapping needs the key 'metric', got {dict(metric)!r}")
    if own is not None and direction is not None and Direction.parse(own) is not Direction.parse(direction):
        raise DirectionError(f"{name}: its direction is {own}, but direction= is {direction}")
    if len(parts) > 1:
        name = MetricName.of_parts(parts)
    return name, own if own is not None else direction


def _direction(name: str, registered: Direction | None, requested: Direction | None) -> Direction:
    if registered is None and requested is None:
        raise DirectionError(f"{name} has no direction; state direction='minimize' or 'maximize'")
    if problem := direction_problem(name, registered, requested, "direction="):
        raise DirectionError(problem)
    return registered or requested  # type: ignore[return-value]  # one of the two is there
