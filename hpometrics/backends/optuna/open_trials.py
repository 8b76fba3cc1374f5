"""Open trials: those of a study that wait or run, looked for without reading the others."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import optuna
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from .study_lock import repeated


class OpenTrial(NamedTuple):
    """A trial that waits or runs."""

    number: int
    trial_id: int
    state: TrialState


def open_trials(study: optuna.Study) -> tuple[int, list[OpenTrial]]:
    """Count the trials of a study and give those that wait or run, by number.

    Of a database Optuna reads all that the trial that ended last has, in seven statements; here are two.
    """
    backend = getattr(study._storage, "_backend", None)
    if isinstance(backend, RDBStorage):
        return repeated(backend, partial(_in_database, backend, study._study_id))
    trials = study.get_trials(deepcopy=False)
    left = [one for one in trials if not one.state.is_finished()]
    return len(trials), [OpenTrial(one.number, one._trial_id, one.state) for one in left]


def _in_database(backend: RDBStorage, study_id: int) -> tuple[int, list[OpenTrial]]:
    import sqlalchemy  # a sweep in memory has no tables
    from optuna.storages._rdb.models import TrialModel as Model

    of_study = Model.study_id == study_id
    newest = sqlalchemy.select(Model.number).where(of_study).order_by(Model.trial_id.desc()).limit(1)
    found = (
        sqlalchemy.select(Model.number, Model.trial_id, Model.state)
        .where(of_study, Model.state.in_((TrialState.RUNNING, TrialState.WAITING)))
        .order_by(Model.number)
    )
    with backend.engine.connect() as connection:
        last = connection.execute(newest).scalar()  # numbers have no gap, and to count takes a scan
        return 0 if last is None else last + 1, [OpenTrial(*row) for row in connection.execute(found)]
