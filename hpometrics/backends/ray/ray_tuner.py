"""Ray Tuners: settings from the metric, the best trial and epoch of results, the Tuner of an objective."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ray import tune

from ...exceptions import ObjectiveError, RunError
from ...records.readings import number_in
from ...records.trial_record import EpochRecord, TrialRecord, TrialState
from ...run.spec import RunSpec
from ...selection.picking import best_by
from ...selection.rules import At
from ...selection.selection import Best, Picker
from .cluster import fitting
from .ray_keys import EPOCH, NUMBER, PARAMS, PICKED, VALUES
from .reporter import checkpoint_in
from .schedulers import Settled, make_scheduler


class ObjectiveTuner(tune.Tuner):
    """The Tuner of a `RayObjective`: a fit leaves the environment and signal handlers as they were.

    Args:
        trainable, tune_config, run_config: see `tune.Tuner`.
        loggers: whether Tune adds its own loggers (JSON, CSV, TensorBoard) to the callbacks.
    """

    def __init__(
        self, trainable: Any, tune_config: tune.TuneConfig, run_config: tune.RunConfig, loggers: bool
    ) -> None:
        super().__init__(trainable, tune_config=tune_config, run_config=run_config)
        self._quiet, self._loggers = run_config.verbose == 0, loggers

    def fit(self) -> tune.ResultGrid:
        """Search, and return the results; see `tune.Tuner.fit`."""
        with fitting(self._quiet, self._loggers):
            return super().fit()

    @classmethod
    def adopt(cls, restored: tune.Tuner) -> ObjectiveTuner:
        """Return a Tuner of this class for one that `tune.Tuner.restore` returned."""
        tuner = cls.__new__(cls)
        vars(tuner).update(vars(restored))
        tuner._quiet = tuner._loggers = True
        return tuner


def tune_config(
    metric: Any, *, scheduler: object = None, epochs: int | None = None, output: Any = None, **settings: Any
) -> tune.TuneConfig:
    """Return the settings of a Tuner whose trainable reports by `Run(TuneReporter(), metric=metric, ...)`.

    The scheduler judges the current value, the searcher learns the picked one, each in the direction of the
    metric, and `get_best_result()` compares the picked values.

    Args:
        metric: see `RunSpec`; one alone.
        scheduler: see `make_scheduler`.
        epochs: the most epochs a run can have; halving needs them.
        output: the output feature, where the metric depends on it.
        settings: further arguments of `tune.TuneConfig`, as `num_samples` and `search_alg`.

    Raises:
        ObjectiveError: the settings have a metric or a mode, a scheduler has another one, or there are
            several metrics.
        ConfigError: no such scheduler or argument.
    """
    spec = RunSpec(metric=metric, output=output)
    if stated := sorted({"metric", "mode"} & settings.keys()):
        named = ", ".join(f"{name}={settings[name]!r}" for name in stated)
        raise ObjectiveError(f"{spec.name} must be {spec.objective.value}d; leave {named} out")
    if len(spec.optimised) > 1:
        raise ObjectiveError(f"a Tuner has one metric, got {', '.join(spec.optimised)}; name one of them")
    judge = Settled(make_scheduler(scheduler, spec.objective, epochs))
    return tune.TuneConfig(metric=PICKED, mode=spec.objective.mode, scheduler=judge, **settings)


def best_result(results: tune.ResultGrid, metric: Any, *, at: str = "best", output: Any = None) -> Best:
    """Return the best trial of a Tuner of your own, with the values and the checkpoint of its picked epoch.

    Every trial without an error counts, also one that a scheduler stopped; `trial` is its place in them.

    Args:
        results: of `fit()`.
        metric: that the trainable reported; see `RunSpec`.
        at: whose value counts, that of the `best` epoch or of the `last`.
        output: the output feature, where the metric depends on it.

    Raises:
        NoFiniteValueError: no trial has a finite value.
        RunError: the results hold no reports, since Tune's loggers are off.
    """
    spec = RunSpec(metric=metric, output=output, at=at)
    records = [
        _record(number, result, spec)
        for number, result in enumerate(map(results.__getitem__, range(len(results))))
    ]
    return best_by(records, spec.optimised)


def checkpoint_of(result: tune.Result, epoch: int | None) -> Path | None:
    """Return the state at the end of an epoch, if Tune kept it where this process can see it."""
    folders = [Path(checkpoint.path) for checkpoint, _ in result.best_checkpoints or ()]
    found = [path for folder in folders if (path := checkpoint_in(folder, epoch)) is not None]
    return found[-1] if found else None


def _record(number: int, result: tune.Result, spec: RunSpec) -> TrialRecord:
    """Return what the reports of a trial say."""
    table = result.metrics_dataframe
    if result.error is None and (table is None or table.empty):
        raise RunError(
            f"the results have no reports of trial {number}, only its last; keep Tune's JSON or CSV logger: "
            "give RunConfig(callbacks=[JsonLoggerCallback()]), or unset TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"
        )
    epochs = () if table is None else tuple(_epochs(table.to_dict("records"), spec.optimised))
    names = list(spec.optimised)
    picker = Picker(spec.objective, At(spec.at), others=list(spec.optimised.values())[1:])
    for record in epochs:
        picker.add(record.number(names[0]), rest=[number_in(record.values, name) for name in names[1:]])
    finite = picker.index is not None and math.isfinite(picker.value)
    complete = result.error is None and finite
    return TrialRecord(
        number=number,
        params=_params_of(result.config or {}),
        state=TrialState.COMPLETE if complete else TrialState.FAILED,
        value=picker.value if finite else None,
        epoch=picker.index,
        epochs=epochs,
        reason=None if result.error is None else f"{type(result.error).__name__}: {result.error}",
        checkpoint=checkpoint_of(result, picker.index),
    )


def _params_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return the params of a trial; those of a `RayObjective` stand beside its number."""
    return dict(config[PARAMS] if {NUMBER, PARAMS} <= config.keys() else config)


def _epochs(reports: Iterable[Mapping[str, Any]], names: Iterable[str]) -> Iterable[EpochRecord]:
    """Return the epochs of a trial in order; one that was reported again, after a restart, counts once."""
    front = f"{VALUES}/"
    found = {}
    for report in reports:
        values = {name: float(report[name]) for name in names}
        beside = {key.removeprefix(front): value for key, value in report.items() if key.startswith(front)}
        found[int(report[EPOCH]) - 1] = {**values, **beside}
    return (EpochRecord(epoch, found[epoch]) for epoch in sorted(found))
