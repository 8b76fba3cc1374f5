"""Compute a metric that is named after the run, from the record or from the stored statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from .._imports import import_modules, split_target
from .._text import one_line
from ..config.document import engine_targets
from ..config.metric_section import read_measure, types_of
from ..direction import Direction
from ..exceptions import ConfigError, HpometricsError, MetricNameError, NotKeptError, UnknownMetricError
from ..metrics.features import OutputFeature, parse_feature
from ..metrics.registry.lookup import import_metric, is_registered
from ..metrics.registry.names import THRESHOLD, MetricName, parse_import_path
from ..metrics.registry.scope import is_per_class, steering_problem
from ..records.trial_record import TrialRecord
from .manifest import Resolved
from .run_directory import RunDirectory

if TYPE_CHECKING:
    from ..run.rescorer import Rescorer


@dataclass(frozen=True)
class MetricRequest:
    """A metric that is requested after the run.

    Args:
        name: the name of its values.
        direction: its direction.
        measured: its name without the threshold.
        threshold: a threshold that replaces that of the output; None for the output's own.
    """

    name: str
    direction: Direction
    measured: str
    threshold: float | None = None


@dataclass(frozen=True)
class RescoredTrials:
    """Trials with the values of a metric.

    Args:
        request: the metric.
        records: all trials, with its value at each epoch of those that have it.
        lacking: the reason why a trial that was trained to its end has none, by number.
    """

    request: MetricRequest
    records: list[TrialRecord]
    lacking: Mapping[int, str]


def rescore(
    home: RunDirectory, resolved: Resolved, records: Sequence[TrialRecord], metric: str
) -> RescoredTrials:
    """Return the values of a metric for every epoch of a run directory.

    Raises:
        ConfigError: there is no such metric, it has no direction, or it cannot steer a search.
        NotKeptError: it needs more than any trial has stored.
        RecordError: the stored statistics are damaged.
    """
    request = parse_request(resolved, metric)
    name = MetricName.parse(request.name)
    if problem := steering_problem(name, name.split, is_per_class(name)):  # a tracked one, too
        raise ConfigError(f"--metric {metric}: {problem}")
    trained = [record for record in records if record.state.trained]
    if all(_has(record, request.name) for record in trained):
        return RescoredTrials(request, list(records), {})
    rescorer = make_rescorer(resolved, request.measured, request.threshold)
    rescored: dict[int, TrialRecord] = {}
    lacking: dict[int, str] = {}
    for record in trained:
        if _has(record, request.name):
            continue
        try:
            epochs = rescorer.rescore(home.trial(record.number), record.epochs)
            rescored[record.number] = replace(record, epochs=epochs)
        except NotKeptError as err:
            lacking[record.number] = str(err)
    if len(lacking) == len(trained):
        number, why = next(iter(lacking.items()))
        raise NotKeptError(f"{home.path}: trial {number}: {why}")
    return RescoredTrials(request, [rescored.get(record.number, record) for record in records], lacking)


def parse_request(resolved: Resolved, metric: str) -> MetricRequest:
    """Parse the name of a metric that is to pick, or import the class at a path that the user names.

    Raises:
        ConfigError: there is no such metric, it has no direction, or it cannot steer a search.
    """
    directions = {**resolved.optimized, **resolved.track}
    if metric not in directions and parse_import_path(metric):
        metric = _import_metric(metric)
    if metric in directions:
        return MetricRequest(metric, _direction(metric, directions[metric]), metric)
    try:
        name, threshold = _without_threshold(MetricName.parse(metric))
        types = types_of(outputs_in(resolved), settled=True) or {}
        measure = read_measure(str(name), types, steers=True)
    except HpometricsError as err:
        hint = "" if isinstance(err, MetricNameError) else _hint_class(resolved, metric)
        raise ConfigError(f"--metric {metric}: {one_line(err)}{hint}") from err
    direction = _direction(metric, directions.get(measure.name) or measure.direction)
    name_with_threshold = MetricName.parse(measure.name)
    if threshold is not None:
        name_with_threshold = replace(
            name_with_threshold, params=(*name_with_threshold.params, (THRESHOLD, threshold))
        )
    return MetricRequest(str(name_with_threshold), direction, measure.name, threshold)


def _import_metric(path: str) -> str:
    """Import a registered class, from the current folder or an installed package, and return its name."""
    module, _ = split_target(path)
    try:
        import_modules([module], [str(Path.cwd())])
        return str(import_metric(path).name)
    except (ConfigError, MetricNameError) as err:
        raise ConfigError(f"--metric {path}: {one_line(err)}") from err


def _hint_class(resolved: Resolved, metric: str) -> str:
    """Return how to name a metric that code of the sweep, which readers do not import, may register."""
    modules = list(resolved.config.get("plugins", ()))
    if metric == resolved.metric and resolved.direction_from == "registry":
        targets = engine_targets(resolved.config["engine"])
        modules += dict.fromkeys(split_target(target)[0] for target in targets)
    if not modules or is_registered(MetricName.parse(metric)):
        return ""
    return f". Only run imports {' and '.join(modules)}; name the metric with its class: {modules[0]}:CLASS"


def _direction(metric: str, direction: Direction | None) -> Direction:
    if direction is None:
        raise ConfigError(f"{metric} has no direction, so it cannot pick a trial")
    return direction


def _without_threshold(name: MetricName) -> tuple[MetricName, float | None]:
    """Split a name into the name without its threshold, which belongs to the output, and the threshold."""
    params = dict(name.params)
    threshold = params.pop(THRESHOLD, None)
    if threshold is None:
        return name, None
    if isinstance(threshold, str) or not 0 < threshold < 1:
        raise ConfigError(f"a threshold is a probability between 0 and 1, got {threshold!r}")
    return replace(name, params=tuple(params.items())), float(threshold)


def make_rescorer(resolved: Resolved, metric: str, threshold: float | None = None) -> Rescorer:
    """Return the rescorer of a metric for the engine's outputs.

    Raises:
        NotKeptError: code of the sweep registers the metric, and was not imported.
        HpometricsError: the metric does not exist, or it cannot steer a search.
    """
    from ..run.rescorer import Rescorer  # with torch, which values of the record do not need

    try:
        return Rescorer(metric, outputs_in(resolved), threshold)
    except UnknownMetricError as err:
        if hint := _hint_class(resolved, metric):
            raise NotKeptError(f"{metric} is not registered{hint}") from err
        raise


def outputs_in(resolved: Resolved) -> OutputFeature | dict[str, OutputFeature] | None:
    """Return the outputs of the engine, as far as the sweep states them."""
    if isinstance(resolved.output, Mapping):
        return {name: parse_feature(text) for name, text in resolved.output.items()}
    return None if resolved.output is None else parse_feature(resolved.output)


def _has(record: TrialRecord, name: str) -> bool:
    return any(name in epoch.values for epoch in record.epochs)
