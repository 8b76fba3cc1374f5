"""A Tuner of your own: its settings in the direction of the metric, and the best trial of its results."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ray import tune

from ..._text import did_you_mean
from ...exceptions import DirectionError, RecordError, RunError
from ...records.trial_record import EpochRecord, TrialRecord, TrialState, number_in
from ...run.spec import RunSpec
from ...selection.rules import At
from ...selection.selection import Best, Picker, best_by
from .reporter import checkpoint_in
from .schedulers import Settled, make_scheduler
from .session import EPOCHS, NUMBER, PARAMS, PICKED, STEP, measured


def tune_config(
    metric: Any, *, scheduler: object = None, epochs: int | None = None, output: Any = None, **settings: Any
) -> tune.TuneConfig:
    """Return the settings of a Tuner whose trainable reports by `Run(TuneReporter(), metric=metric, ...)`.

    The scheduler judges the current value, the searcher learns the picked one, each in the direction of the
    metric, and `get_best_result()` compares the picked values.

    Args:
        metric: see `RunSpec`; one metric alone.
        scheduler: see `make_scheduler`.
        epochs: the most epochs a run can have; halving needs them.
        output: the output feature, where the metric depends on it.
        settings: further arguments of `tune.TuneConfig`, as `num_samples` and `search_alg`.

    Raises:
        DirectionError: the settings have a metric or a mode, a scheduler has another one, or there are
            several metrics.
        ConfigError: there is no such scheduler or argument.
    """
    spec = RunSpec(metric=metric, output=output)
    direction, *others = spec.optimized.values()
    check_unsteered(spec, settings)
    if others:
        raise DirectionError(
            f"a Tuner needs exactly one metric, got {', '.join(spec.optimized)}; name one of them"
        )
    judge = Settled(make_scheduler(scheduler, direction, epochs))
    return tune.TuneConfig(metric=PICKED, mode=direction.mode, scheduler=judge, **settings)


def check_restorable(path: Path) -> None:
    """Refuse an experiment whose newest state is cut off: Tune would begin again, without its trials.

    Args:
        path: the folder of the experiment; nothing is checked of one in another storage.

    Raises:
        RecordError: Tune was killed while it wrote the state.
    """
    states = sorted(path.glob("experiment_state-*.json"))
    if not states:
        return
    try:
        json.loads(states[-1].read_bytes())
    except ValueError:
        first = len(states) == 1
        fix = "start the search again with a tuner" if first else "remove it to restore the state before it"
        raise RecordError(f"{states[-1]}: Tune was killed while it wrote this state; {fix}") from None


def check_unsteered(spec: RunSpec, settings: Mapping[str, Any]) -> None:
    """Refuse a metric or a mode: the scheduler gets another value than the searcher."""
    if names := sorted({"metric", "mode"} & settings.keys()):
        direction = spec.optimized[spec.name]
        arguments = ", ".join(f"{name}={settings[name]!r}" for name in names)
        raise DirectionError(
            f"{spec.name} must be {direction.value}d; leave {arguments} out: the scheduler reads the "
            "current value and the searcher the picked one"
        )


def best_result(results: tune.ResultGrid, metric: Any, *, at: str = "best", output: Any = None) -> Best:
    """Return the best trial of a Tuner of your own, with the values and the checkpoint of its picked epoch.

    Every trial without an error counts, also one that a scheduler stopped; `trial` is its index in them.

    Args:
        results: what `fit()` returned.
        metric: the metric that the trainable reported; see `RunSpec`.
        at: the epoch whose value counts: `best` or `last`.
        output: the output feature, where the metric depends on it.

    Raises:
        NoFiniteValueError: no trial has a finite value.
        RunError: the results hold no reports, since Tune's loggers are off, or none of this metric.
    """
    spec = RunSpec(metric=metric, output=output, at=at)
    records = [_record(number, results[number], spec) for number in range(len(results))]
    return best_by(records, spec.optimized)


def checkpoint_of(result: tune.Result, epoch: int | None) -> Path | None:
    """Return the path of the state at the end of an epoch, if Tune kept it where this process can read it."""
    folders = [Path(checkpoint.path) for checkpoint, _ in result.best_checkpoints or ()]
    paths = [path for folder in folders if (path := checkpoint_in(folder, epoch)) is not None]
    return paths[-1] if paths else None


def _record(number: int, result: tune.Result, spec: RunSpec) -> TrialRecord:
    """Return the record of a trial from its reports."""
    table = result.metrics_dataframe
    if result.error is None and (table is None or table.empty):
        raise RunError(
            f"the results hold only the last report of trial {number}; keep Tune's JSON or CSV logger: "
            "pass RunConfig(callbacks=[JsonLoggerCallback()]), or unset TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"
        )
    epochs = () if table is None else tuple(_epochs(table.to_dict("records"), spec.optimized))
    names, (direction, *others) = list(spec.optimized), spec.optimized.values()
    picker = Picker(direction, At(spec.at), others=others)
    for record in epochs:
        picker.add(record.number(names[0]), rest=[number_in(record.values, name) for name in names[1:]])
    picked = None if picker.index is None else epochs[picker.index].epoch
    finite = math.isfinite(picker.value)
    complete = result.error is None and finite
    return TrialRecord(
        number=number,
        params=_params_of(result.config or {}),
        state=TrialState.COMPLETE if complete else TrialState.FAILED,
        value=picker.value if finite else None,
        epoch=picked,
        epochs=epochs,
        reason=None if result.error is None else f"{type(result.error).__name__}: {result.error}",
        checkpoint=checkpoint_of(result, picked),
    )


def _params_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of a trial; those of a `RayObjective` are beside its number."""
    return dict(config[PARAMS] if {NUMBER, PARAMS} <= config.keys() else config)


def _epochs(reports: Iterable[Mapping[str, Any]], names: Iterable[str]) -> Iterable[EpochRecord]:
    """Return the epochs of a trial in order; one that was reported again, after a restart, counts once."""
    by_epoch = {}
    for report in reports:
        values = {name: float(value) for name, value in measured(report).items()}
        if missing := next((name for name in names if name not in values), None):
            raise RunError(
                f"the trials did not report {missing}; they reported {', '.join(values)}"
                f"{did_you_mean(missing, values)}"
            )
        epoch, step = int(report[EPOCHS]) - 1, report.get(STEP)
        by_epoch[epoch] = EpochRecord(epoch, values, step=step and int(step))
    return (by_epoch[epoch] for epoch in sorted(by_epoch))
