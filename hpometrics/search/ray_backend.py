"""Ray Tune as a host: the session of a trial as a reporter, schedulers by name, a searcher over an Optuna study."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import ray
from optuna.trial import Trial
from ray import tune
from ray.tune.schedulers import TrialScheduler
from ray.tune.search import Searcher

from ..exceptions import ConfigError, ObjectiveError, RunError
from ..objective import Objective
from .epoch_log import read_trial
from .optuna_backend import claim, reclaim, tell
from .plugins import PlugIn, find_class, read_spec
from .record import EpochRecord, TrialRecord, TrialState, write_trial
from .selection import At, Picker
from .space import Space

# The keys of every report. Ray adds its own, training_iteration and done among them.
VALUE, PICKED, EPOCH, FINAL, VALUES = "value", "picked", "epoch", "final", "values"
_TAKEN = {
    VALUE,
    PICKED,
    EPOCH,
    FINAL,
    VALUES,
    "done",
    "config",
    "trial_id",
    "training_iteration",
    "timestamp",
}

_OURS = ("metric", "mode", "time_attr", "max_t")
_HALVING = {"min_epochs": "grace_period", "eta": "reduction_factor"}
_ASHA = "ray.tune.schedulers:AsyncHyperBandScheduler"

SCHEDULERS: Mapping[str, PlugIn] = {
    "none": PlugIn("ray.tune.schedulers:FIFOScheduler"),
    "asha": PlugIn(_ASHA, _HALVING, hidden=_OURS),
    "hyperband": PlugIn(_ASHA, _HALVING, hidden=_OURS),  # its brackets side by side; none has to wait
    "median": PlugIn(
        "ray.tune.schedulers:MedianStoppingRule",
        {"warmup": "grace_period", "min_trials": "min_samples_required"},
        hidden=_OURS,
    ),
}

_ENVIRONMENT = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_CHDIR_TO_TRIAL_DIR": "0",  # relative paths in train mean what they mean elsewhere
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # one JSON logger in place of three
}


class StoppedByTune(SystemExit):
    """Tune has stopped this trial: the scheduler's decision, or the end of the experiment."""


class TuneReporter:
    """Reports a run to the Ray Tune session it runs in, one report per epoch, always with the same keys.

    `value` is the current value (the scheduler's business), `picked` the picked one so far (the searcher's), `epoch`
    counts from 1, `final` says that no epoch follows, `values` holds all values by name, and under its own name the
    metric is there for a Tuner of your own.
    """

    def __init__(self, number: int | None = None, params: Mapping[str, Any] | None = None) -> None:
        self.number, self.params = number, params
        self.stops: tuple[type[BaseException], ...] = (StoppedByTune,)
        self._metric = VALUE

    def check(self, metric: str, objective: Objective) -> None:
        """Note the metric's name; Tune tells a trial no direction that could be checked.

        Raises:
            RunError: a report cannot carry a value of that name.
        """
        if metric in _TAKEN:
            raise RunError(f"Ray Tune keeps the name {metric!r} for itself; log the value under another")
        self._metric = metric

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Report one epoch.

        Raises:
            StoppedByTune: Tune has stopped the trial.
        """
        told = {VALUE: value, PICKED: picked, EPOCH: epoch + 1, FINAL: final, VALUES: dict(values)}
        try:
            tune.report({self._metric: value, **told})
        except SystemExit as stop:
            raise StoppedByTune(
                f"Tune stopped trial {self.number} after epoch {epoch} at {value:g}"
            ) from stop


RayReporter = TuneReporter


class StudySearcher(Searcher):
    """Searches with an Optuna study, so that samplers, conditions, start points and storage are the same as there.

    It is told the picked value of a run, a stopped trial is pruned, a failed one failed with its reason.

    Args:
        study: with waiting slots (see `reserve`).
        space: what a trial draws.
        objective: the metric's.
        at: whose value counts for a run.
        directory_of: where a trial keeps its record, if it keeps one that this process can see.
        take: see `claim` and `reclaim`; with it, trials of dead workers go on first.
    """

    def __init__(
        self,
        study: optuna.Study,
        space: Space,
        objective: Objective,
        at: At = At.BEST,
        directory_of: Callable[[int], Path | None] | None = None,
        take: Callable[[int], bool] | None = None,
    ) -> None:
        super().__init__(metric=PICKED, mode=objective.mode)
        self.study, self.space, self.objective, self.at = study, space, objective, at
        self._directory_of, self._take = directory_of, take
        self._live: dict[str, _Live] = {}

    def suggest(self, trial_id: str) -> dict[str, Any] | str:
        """Claim the next slot and draw its params; `FINISHED` when there is none."""
        orphan = None if self._take is None else reclaim(self.study, self._take)
        trial = orphan or claim(self.study, self._take)
        if trial is None:
            return str(Searcher.FINISHED)
        params = self.space.suggest(trial)
        self._live[trial_id] = _Live(trial, params, Picker(self.objective, self.at))
        return {"number": trial.number, "params": params}

    def on_trial_result(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """Note an epoch. Tune tells the last one again, as done, when a trial has ended by itself."""
        live = self._live.get(trial_id)
        if live is not None:
            live.add(result)
            live.ended = bool(result.get("done"))

    def on_trial_complete(
        self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False
    ) -> None:
        """Tell the study how a trial ended. The epoch at which it was stopped comes only here."""
        live = self._live.pop(trial_id, None)
        if live is None:
            return
        if result:
            live.add(result)
        record = self._ended(live, error, bool(result and result.get(FINAL)))
        tell(self.study, live.trial, record)

    def save(self, checkpoint_path: str) -> None:
        """Note which trial of Tune is which of the study; all else is in the study."""
        numbers = {trial_id: live.trial.number for trial_id, live in self._live.items()}
        Path(checkpoint_path).write_text(json.dumps(numbers), encoding="utf8")

    def restore(self, checkpoint_path: str) -> None:
        """Nothing to take back: the study knows its trials, and a sweep that goes on reclaims them."""

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_live": {}, "_take": None}  # live trials and locks belong to this process

    def _ended(self, live: _Live, error: bool, final: bool) -> TrialRecord:
        record = live.record()
        directory = self._directory_of(live.trial.number) if self._directory_of else None
        written = None if directory is None else read_trial(directory)
        if written is not None and written.state.finished:
            record = written
        if error or record.value is None or not math.isfinite(record.value):
            reason = record.reason or "its process died or raised; see the error file of Ray's trial"
            record = replace(record, state=TrialState.FAILED, reason=reason)
        elif final or live.ended:
            record = replace(record, state=TrialState.COMPLETE, reason=None)
        else:
            reason = f"Tune stopped trial {record.number} after epoch {live.picker.count - 1}"
            record = replace(record, state=TrialState.PRUNED, reason=record.reason or reason)
        if directory is not None and written is not None and record.state is not written.state:
            write_trial(directory, record)
        return record


class _Live:
    """A trial of the study that Tune is running."""

    def __init__(self, trial: Trial, params: Mapping[str, Any], picker: Picker) -> None:
        self.trial, self.params, self.picker = trial, params, picker
        self.epochs: list[EpochRecord] = []
        self.ended = False

    def add(self, result: Mapping[str, Any]) -> None:
        """Take an epoch in once, however often it is told."""
        epoch = result.get(EPOCH, 0) - 1
        if epoch != len(self.epochs):
            return
        front = f"{VALUES}/"
        values = {key.removeprefix(front): value for key, value in result.items() if key.startswith(front)}
        self.epochs.append(EpochRecord(epoch, values))
        self.picker.add(result[VALUE])
        if epoch not in self.trial._cached_frozen_trial.intermediate_values:
            self.trial.report(result[VALUE], epoch)

    def record(self) -> TrialRecord:
        """Say what is known of it here."""
        picked = self.picker.index
        return TrialRecord(
            number=self.trial.number,
            params=self.params,
            state=TrialState.RUNNING,
            value=None if picked is None else self.picker.value,
            epoch=picked,
            epochs=tuple(self.epochs),
        )


def make_scheduler(spec: object, objective: Objective, epochs: int | None = None) -> TrialScheduler:
    """Build a scheduler that judges the current value in the metric's direction; a fresh one for every fit.

    Args:
        spec: a name (see `SCHEDULERS`), `{name: {argument: value}}`, `module:Class`, an object (a copy is taken) or
            None for no scheduling.
        objective: the metric's.
        epochs: the most epochs a run can have; halving needs them.

    Raises:
        ObjectiveError: an object states another metric or mode.
        ConfigError: no such scheduler or argument, or halving without `epochs`.
    """
    if isinstance(spec, TrialScheduler):
        return _adopted(deepcopy(spec), objective)
    name, _ = read_spec("scheduler", "none" if spec is None else spec)
    found, arguments = find_class("scheduler", "none" if spec is None else spec, SCHEDULERS)
    if name in ("asha", "hyperband"):
        if epochs is None:
            raise ConfigError(f"{name} needs to know the most epochs a run can have: give epochs=")
        arguments = {
            "brackets": 3 if name == "hyperband" else 1,
            "max_t": epochs,
            "time_attr": EPOCH,
            **arguments,
        }
    if name == "median":
        grace = arguments.get("grace_period", 0) + 1  # our warm-up is epochs that are never stopped
        arguments = {"min_samples_required": 5, **arguments, "grace_period": grace, "time_attr": EPOCH}
    try:
        return _adopted(found(**arguments), objective)
    except (AssertionError, TypeError, ValueError) as err:
        raise ConfigError(f"scheduler {name!r}: {err}") from err


def start_ray(**arguments: Any) -> None:
    """Start or join Ray unless it runs, without dashboard and usage statistics; `arguments` are `ray.init`'s."""
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if not ray.is_initialized():
        ray.init(**{"include_dashboard": False, "log_to_driver": False, **arguments})


def check_resources(resources: Mapping[str, float]) -> None:
    """Refuse what one trial asks for if the whole cluster does not have it; Ray would wait for ever.

    Raises:
        ConfigError: it does not.
    """
    there = ray.cluster_resources()
    for name, amount in resources.items():
        have = there.get({"cpu": "CPU", "gpu": "GPU"}.get(name, name), 0)
        if amount > have:
            raise ConfigError(f"a trial asks for {name}: {amount:g}, but the Ray cluster has {have:g}")


def _adopted(scheduler: TrialScheduler, objective: Objective) -> TrialScheduler:
    metric, mode = getattr(scheduler, "_metric", None), getattr(scheduler, "_mode", None)
    kind = type(scheduler).__name__
    if mode is not None and Objective.parse(mode) is not objective:
        raise ObjectiveError(
            f"the metric is to {objective.value}, but the {kind} has mode={mode!r}; leave it out"
        )
    if metric not in (None, VALUE):
        raise ObjectiveError(
            f"the {kind} has metric={metric!r}; leave it out, it is given the metric's current value"
        )
    if metric is None:
        scheduler.set_search_properties(VALUE, None if mode else objective.mode)
    return scheduler
