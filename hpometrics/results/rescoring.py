"""Asking: a metric that is named after the fact, read of the record or of the statistics that were kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from .._text import one_line
from ..config.fields import Metric
from ..config.metric_section import read_measures
from ..config.outputs import types_of
from ..direction import Objective
from ..exceptions import ConfigError, HpometricsError, NotKeptError
from ..metrics.features import OutputFeature, parse_feature
from ..metrics.registry.names import MetricName, parse_import_path
from ..records.trial_record import TrialRecord, TrialState
from .manifest import Resolved
from .run_directory import RunDirectory

_THRESHOLD = "threshold"
_TRAINED = (TrialState.COMPLETE, TrialState.INFEASIBLE)


@dataclass(frozen=True)
class Asked:
    """A metric that somebody asks for.

    Args:
        name: what its values are called.
        objective: its direction.
        measured: its name without the threshold.
        threshold: another one than that of the output; None for the output's own.
    """

    name: str
    objective: Objective
    measured: str
    threshold: float | None = None


@dataclass(frozen=True)
class Answer:
    """Trials with the values of a metric.

    Args:
        asked: the metric.
        records: all trials, with its value at each epoch of those that have it.
        lacking: why a trial that was trained to its end has none, by number.
    """

    asked: Asked
    records: list[TrialRecord]
    lacking: Mapping[int, str]


def ask(home: RunDirectory, resolved: Resolved, records: Sequence[TrialRecord], metric: str) -> Answer:
    """Find the values of a metric for every epoch of a run directory.

    Raises:
        ConfigError: there is no such metric, it has no direction, or it cannot steer a search.
        NotKeptError: it needs more than any trial has kept.
        RecordError: what is kept is damaged.
    """
    asked = read_asked(resolved, metric)
    trained = [record for record in records if record.state in _TRAINED]
    if all(_has(record, asked.name) for record in trained):
        return Answer(asked, list(records), {})
    from ..run.rescoring import Answers  # with torch, which a metric of the record does not need

    answers = Answers(asked.measured, outputs_in(resolved), asked.threshold)
    found: dict[int, TrialRecord] = {}
    lacking: dict[int, str] = {}
    for record in trained:
        try:
            epochs = answers.answered(home.trial(record.number), record.epochs)
            found[record.number] = replace(record, epochs=epochs)
        except NotKeptError as err:
            lacking[record.number] = str(err)
    if lacking and not found:
        number, why = next(iter(lacking.items()))
        raise NotKeptError(f"{home.path}: trial {number}: {why}")
    return Answer(asked, [found.get(record.number, record) for record in records], lacking)


def read_asked(resolved: Resolved, metric: str) -> Asked:
    """Read the name of a metric that is to pick.

    Raises:
        ConfigError: there is no such metric, it has no direction, or it cannot steer a search.
    """
    known = {**resolved.optimized, **resolved.track}
    if metric in known:
        return Asked(metric, _direction(metric, known[metric]), metric)
    if parse_import_path(metric):
        raise ConfigError(f"{metric}: a metric that is asked for after the fact is one of the registry")
    try:
        name, threshold = _without_threshold(MetricName.parse(metric))
        measure = read_measures(Metric(name=str(name)), _types(resolved), steers=True)[0]
    except HpometricsError as err:
        raise ConfigError(f"--metric {metric}: {one_line(err)}") from err
    objective = _direction(metric, known.get(measure.name) or measure.objective)
    called = MetricName.parse(measure.name)
    if threshold is not None:
        called = replace(called, params=(*called.params, (_THRESHOLD, threshold)))
    return Asked(str(called), objective, measure.name, threshold)


def _direction(metric: str, objective: Objective | None) -> Objective:
    if objective is None:
        raise ConfigError(f"{metric} has no direction, so it picks nothing")
    return objective


def _without_threshold(name: MetricName) -> tuple[MetricName, float | None]:
    """Take the threshold out of a name: it is a fact of the output, which no metric takes as its own."""
    params = dict(name.params)
    threshold = params.pop(_THRESHOLD, None)
    if threshold is None:
        return name, None
    if isinstance(threshold, str) or not 0 < threshold < 1:
        raise ConfigError(f"a threshold is a probability between 0 and 1, got {threshold!r}")
    return replace(name, params=tuple(params.items())), float(threshold)


def outputs_in(resolved: Resolved) -> OutputFeature | dict[str, OutputFeature] | None:
    """What the engine predicts, as far as text says it."""
    if isinstance(resolved.output, Mapping):
        return {name: parse_feature(text) for name, text in resolved.output.items()}
    return None if resolved.output is None else parse_feature(resolved.output)


def _types(resolved: Resolved) -> Mapping[str | None, str | None]:
    return types_of(outputs_in(resolved), settled=True) or {}


def _has(record: TrialRecord, name: str) -> bool:
    return any(name in epoch.values for epoch in record.epochs)
