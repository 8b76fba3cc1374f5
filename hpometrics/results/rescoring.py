"""Compute a metric that is named after the run, from the record or from the stored statistics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from .._text import one_line
from ..config.metric_section import read_measure, types_of
from ..direction import Direction
from ..exceptions import ConfigError, HpometricsError, NotKeptError
from ..metrics.features import OutputFeature, parse_feature
from ..metrics.registry.names import THRESHOLD, MetricName, parse_import_path
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
    trained = [record for record in records if record.state.trained]
    if all(_has(record, request.name) for record in trained):
        return RescoredTrials(request, list(records), {})
    rescorer = make_rescorer(resolved, request.measured, request.threshold)
    rescored: dict[int, TrialRecord] = {}
    lacking: dict[int, str] = {}
    for record in trained:
        try:
            epochs = rescorer.rescore(home.trial(record.number), record.epochs)
            rescored[record.number] = replace(record, epochs=epochs)
        except NotKeptError as err:
            lacking[record.number] = str(err)
    if lacking and not rescored:
        number, why = next(iter(lacking.items()))
        raise NotKeptError(f"{home.path}: trial {number}: {why}")
    return RescoredTrials(request, [rescored.get(record.number, record) for record in records], lacking)


def parse_request(resolved: Resolved, metric: str) -> MetricRequest:
    """Parse the name of a metric that is to pick.

    Raises:
        ConfigError: there is no such metric, it has no direction, or it cannot steer a search.
    """
    directions = {**resolved.optimized, **resolved.track}
    if metric in directions:
        return MetricRequest(metric, _direction(metric, directions[metric]), metric)
    if parse_import_path(metric):
        raise ConfigError(f"{metric}: a metric that is asked for after the fact is one of the registry")
    try:
        name, threshold = _without_threshold(MetricName.parse(metric))
        types = types_of(outputs_in(resolved), settled=True) or {}
        measure = read_measure(str(name), types, steers=True)
    except HpometricsError as err:
        raise ConfigError(f"--metric {metric}: {one_line(err)}") from err
    direction = _direction(metric, directions.get(measure.name) or measure.direction)
    name_with_threshold = MetricName.parse(measure.name)
    if threshold is not None:
        name_with_threshold = replace(
            name_with_threshold, params=(*name_with_threshold.params, (THRESHOLD, threshold))
        )
    return MetricRequest(str(name_with_threshold), direction, measure.name, threshold)


def _direction(metric: str, direction: Direction | None) -> Direction:
    if direction is None:
        raise ConfigError(f"{metric} has no direction, so it picks nothing")
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
        HpometricsError: the metric does not exist, or it cannot steer a search.
    """
    from ..run.rescorer import Rescorer  # with torch, which values of the record do not need

    return Rescorer(metric, outputs_in(resolved), threshold)


def outputs_in(resolved: Resolved) -> OutputFeature | dict[str, OutputFeature] | None:
    """Return the outputs of the engine, as far as the sweep states them."""
    if isinstance(resolved.output, Mapping):
        return {name: parse_feature(text) for name, text in resolved.output.items()}
    return None if resolved.output is None else parse_feature(resolved.output)


def _has(record: TrialRecord, name: str) -> bool:
    return any(name in epoch.values for epoch in record.epochs)
