"""Begun trials: those that run from now on, of which all is known, so that they need not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from datetime import datetime
from typing import Any

import optuna
from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState

Draw = Callable[[Trial], object]
"""Draws the params of a trial from it; see `Space.suggest`."""

FIXED = "fixed_params"  # what Optuna calls the params of an enqueued trial
_NOWHERE = -1  # the id of a trial that no storage has


def as_begun(number: int, point: Mapping[str, Any] | None = None) -> FrozenTrial:
    """A trial that has just begun, as a storage will have it; with the params of a point if one is given."""
    return FrozenTrial(
        number=number,
        trial_id=_NOWHERE,
        state=TrialState.RUNNING,
        value=None,
        datetime_start=datetime.now(),
        datetime_complete=None,
        params={},
        distributions={},
        user_attrs={},
        system_attrs={} if point is None else {FIXED: dict(point)},
        intermediate_values={},
    )


def draw_first(study: optuna.Study, begun: FrozenTrial, draw: Draw) -> None:
    """Draw the params of a trial that its storage does not have yet: it is added with them, in one visit."""
    draw(Trial(_view(study, begun), _NOWHERE))


def add_begun(study: optuna.Study, begun: FrozenTrial) -> int:
    """Add it to the storage and return its id."""
    template = begun if begun.params or begun.system_attrs else None
    begun._trial_id = study._storage.create_new_trial(study._study_id, template)
    return begun._trial_id


def live(study: optuna.Study, begun: FrozenTrial) -> Trial:
    """The trial to work with, once the storage has it."""
    trial = Trial(_view(study, begun), begun._trial_id)
    trial.study, trial.storage = study, study._storage
    return trial


def _view(study: optuna.Study, known: FrozenTrial) -> Any:
    view: Any = copy(study)
    view._storage = _Knowing(study._storage, known)
    return view


class _Knowing:
    """A storage beside one trial of it that it is not asked for."""

    def __init__(self, storage: BaseStorage, known: FrozenTrial) -> None:
        self._storage, self._known = storage, known

    def get_trial(self, trial_id: int) -> FrozenTrial:
        return self._known if trial_id == self._known._trial_id else self._storage.get_trial(trial_id)

    def set_trial_param(self, trial_id: int, name: str, value: float, distribution: BaseDistribution) -> None:
        """Of a trial that is drawn first: its own copy is given the param."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)
