"""Optuna's pruners by name, with rungs in epochs, and the values by which they judge."""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Mapping
from copy import copy
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import optuna
from optuna.pruners import (
    BasePruner,
    HyperbandPruner,
    MedianPruner,
    NopPruner,
    PatientPruner,
    SuccessiveHalvingPruner,
)
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.trial import BaseTrial, FrozenTrial, Trial, TrialState

from ...direction import Direction
from ...selection.rules import DOMINANCE, DominanceRule
from ..plug_in_checks import check_pruner_options
from ..registry import OPTUNA_PRUNERS, check_prune_by, dominance_rule, find_class, read_spec
from ._internals import storage_of, trial_id_of
from .samplers import create_plug_in

_JUDGED = "hpometrics:judged:"
_views: WeakKeyDictionary[optuna.Study, dict[str, optuna.Study]] = WeakKeyDictionary()
"""The views of each study, by metric; all trials share what was read of the finished ones."""
_Ended = dict[int, dict[int, dict[str, float]]]
_ended: WeakKeyDictionary[optuna.Study, _Ended] = WeakKeyDictionary()
"""The judged values of the finished trials of each study, by the trial's id and the epoch."""
_HAVE_RUNGS = (SuccessiveHalvingPruner, HyperbandPruner, PatientPruner)
"""The pruners that store the value of a trial at each rung; the last one may wrap such a pruner."""


def make_pruner(spec: object, epochs: int | None = None, prune_by: str | None = None) -> BasePruner:
    """Create a pruner: a name (see `OPTUNA_PRUNERS`), `{name: {argument: value}}`, a class or an object.

    A class is `module:Class`, or `hub:PATH` for a package of OptunaHub in a local folder.

    Args:
        spec: the pruner; None means no pruning.
        epochs: the most epochs a run can have; hyperband needs them to set up its brackets.
        prune_by: what it judges by, see `RunSpec`.

    Raises:
        ConfigError: there is no such pruner or argument, or it does not judge by that.
    """
    check_prune_by(prune_by, spec)
    if prune_by == DOMINANCE and not isinstance(spec, BasePruner):
        return DominancePruner(**asdict(dominance_rule(spec)))
    if spec is None:
        return NopPruner()
    if isinstance(spec, BasePruner):
        return spec
    name, options = read_spec("pruner", spec)
    pruner_class, arguments = find_class("pruner", spec, OPTUNA_PRUNERS)
    if name == "hyperband" and epochs is not None:
        arguments.setdefault("max_resource", epochs)
    if name == "asha":
        arguments.setdefault("min_resource", 1)
    if name == "wilcoxon" and isinstance(steps := arguments.get("n_startup_steps"), int) and steps >= 0:
        arguments["n_startup_steps"] = steps + 1  # Optuna counts the report that it judges, too
    if name == "patient":
        inner = arguments.get("wrapped_pruner")
        arguments["wrapped_pruner"] = None if inner is None else make_pruner(inner, epochs)
    make: Callable[..., BasePruner] = partial(pruner_class, **arguments)
    pruner = create_plug_in("pruner", spec, make)
    check_pruner_options(name, options, epochs if name == "hyperband" else None)
    return pruner


def own_pruner(study: optuna.Study) -> BasePruner | None:
    """Return the pruner that the user gave a study; None for the default of Optuna."""
    return None if type(study.pruner) is MedianPruner else study.pruner


def _in_epochs(trial: FrozenTrial) -> FrozenTrial:
    """Return a trial whose reports have the number of epochs done as their step, not the epoch from 0."""
    shown = copy(trial)
    shown.intermediate_values = {epoch + 1: value for epoch, value in trial.intermediate_values.items()}
    return shown


class EpochHalving(SuccessiveHalvingPruner):
    """Asynchronous successive halving by epochs: the first rung is after `min_resource` of them, as on Ray.

    Optuna compares the step of a report with it, and the step of the first epoch is 0.
    """

    kind = "asha"

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Return whether a trial is stopped after its newest epoch."""
        return super().prune(study, _in_epochs(trial))


class EpochHyperband(HyperbandPruner):
    """Hyperband by epochs; see `EpochHalving`."""

    kind = "hyperband"

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Return whether a trial is stopped after its newest epoch."""
        return super().prune(study, _in_epochs(trial))


def write_judged(trial: BaseTrial, epoch: int, values: Mapping[str, float]) -> None:
    """Write the judged values of an epoch to a running trial; null for one that is not finite."""
    numbers = {name: value if math.isfinite(value) else None for name, value in values.items()}
    trial.set_user_attr(f"{_JUDGED}{epoch}", numbers)


def judged_values(trial: FrozenTrial) -> dict[int, dict[str, float]]:
    """Return the judged values of each epoch of a trial, by name."""
    return {
        int(key.removeprefix(_JUDGED)): {name: math.nan if v is None else v for name, v in values.items()}
        for key, values in trial.user_attrs.items()
        if key.startswith(_JUDGED)
    }


@dataclass(frozen=True)
class DominancePruner(DominanceRule, BasePruner):
    """The pruner of a `Run` with `prune_by="dominance"`; see `DominanceRule` for its arguments."""

    def prune(self, study: optuna.Study, trial: FrozenTrial) -> bool:
        """Return whether a trial is stopped after its newest epoch."""
        own, ended = judged_values(trial), _ended.setdefault(study, {})
        epoch = max(own, default=-1)
        others = [
            tuple(values[epoch].values())
            for one in study.get_trials(deepcopy=False)
            if one.number != trial.number and one.state is not TrialState.FAIL
            if epoch in (values := _values_of(one, ended))
        ]
        directions = [Direction.parse(one.name) for one in study.directions]
        return epoch >= 0 and self.stops(epoch, tuple(own[epoch].values()), others, directions)


def _values_of(trial: FrozenTrial, ended: _Ended) -> dict[int, dict[str, float]]:
    """Return the judged values of a trial of a study; those of a finished one are read once."""
    values = ended.get(trial_id_of(trial)) or judged_values(trial)
    if trial.state.is_finished():
        ended[trial_id_of(trial)] = values
    return values


class Judge:
    """Asks the pruner of a study about the judged values of a running trial.

    Args:
        trial: the trial.
        judged: see `RunSpec`.

    Raises:
        ConfigError: the study has no pruner that judges by them.
    """

    def __init__(self, trial: Trial, judged: Mapping[str, Direction]) -> None:
        self._trial, self._names = trial, tuple(judged)
        self._study, self._pruner = trial.study, trial.study.pruner
        name, *others = judged
        check_prune_by(DOMINANCE if others else name, self._pruner)
        if not others:
            self._study = _view_of(trial.study, name, judged[name])

    def values_in(self, values: Mapping[str, float]) -> dict[str, float] | None:
        """Return those of the values of an epoch that are judged; None if one was not measured."""
        judged = {name: values[name] for name in self._names if name in values}
        return judged if len(judged) == len(self._names) else None

    def stops(self) -> bool:
        """Return whether the pruner stops the trial after the newest epoch that was written."""
        return self._pruner.prune(self._study, storage_of(self._study).get_trial(trial_id_of(self._trial)))


def write_rung(trial: Trial, judged: Mapping[str, Direction]) -> None:
    """Have the pruner of a study store the newest value of a running trial, if the trial is at a rung.

    Args:
        trial: a trial with its reports up to now.
        judged: see `RunSpec`.
    """
    study = trial.study
    if not isinstance(study.pruner, _HAVE_RUNGS):
        return
    if judged:
        Judge(trial, judged).stops()
    elif len(study.directions) == 1:
        trial.should_prune()


def _view_of(study: optuna.Study, name: str, direction: Direction) -> optuna.Study:
    """Return a study as it would be if it searched for one metric alone."""
    views = _views.setdefault(study, {})
    if name not in views:
        storage: Any = _MetricView(storage_of(study), name, StudyDirection[direction.name])
        views[name] = optuna.load_study(
            study_name=study.study_name, storage=storage, sampler=study.sampler, pruner=study.pruner
        )
    return views[name]


class _MetricView:
    """A storage whose trials have one judged metric as their reports; what a pruner writes, it passes on."""

    def __init__(self, storage: BaseStorage, name: str, direction: StudyDirection) -> None:
        self._inner, self._name, self._direction = storage, name, direction
        self._ended: dict[int, FrozenTrial] = {}

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        return [self._direction]

    def get_trial(self, trial_id: int) -> FrozenTrial:
        return self._shown(self._inner.get_trial(trial_id))

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        return [self._shown(trial) for trial in self._inner.get_all_trials(study_id, False, states)]

    def get_best_trial(self, study_id: int) -> FrozenTrial:
        complete = self.get_all_trials(study_id, states=(TrialState.COMPLETE,))
        valued = [(one, one.values[0]) for one in complete if one.values and math.isfinite(one.values[0])]
        if not valued:
            raise ValueError("No trials are completed yet.")  # as Optuna's storages do
        best = Direction.parse(self._direction.name).best_index(value for _, value in valued)
        return valued[best][0]

    def _shown(self, trial: FrozenTrial) -> FrozenTrial:
        shown = self._ended.get(trial_id_of(trial))
        if shown is not None:
            return shown
        shown, judged = copy(trial), judged_values(trial)
        shown.intermediate_values = {
            epoch: values[self._name] for epoch, values in judged.items() if self._name in values
        }
        last = shown.last_step
        shown.values = None if last is None or not trial.values else [shown.intermediate_values[last]]
        if trial.state.is_finished():
            self._ended[trial_id_of(trial)] = shown
        return shown

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)
