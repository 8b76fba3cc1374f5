from __future__ import annotations

import pytest
import sqlalchemy
from optuna.trial import TrialState as OptunaState

from hpometrics.backends.optuna.samplers import make_sampler
from hpometrics.backends.optuna.storage import close_storage, open_storage
from hpometrics.backends.optuna.study import open_study, tell
from hpometrics.backends.optuna.trial_queue import OpenTrial, claim, open_trials, reserve
from hpometrics.direction import MINIMIZE
from hpometrics.records.trial_record import TrialRecord, TrialState


@pytest.fixture(params=("memory", "study.db", "study.journal"))
def study(request, tmp_path):
    """A study in a storage of each kind, with another of the same storage that has a slot."""
    storage = open_storage(request.param if request.param == "memory" else tmp_path / request.param)
    reserve(open_study(storage, "another", {"loss": MINIMIZE}), 1)
    yield open_study(storage, "s", {"loss": MINIMIZE})
    close_storage(storage)


def test_trials_that_have_ended_are_counted_and_left_out(study):
    """Of five one runs and two wait."""
    assert open_trials(study) == (0, [])
    reserve(study, 5)
    for state in (TrialState.COMPLETE, TrialState.FAILED):
        trial = claim(study)
        tell(study, trial, TrialRecord(trial.number, {}, state, 0.5, 1))
    claim(study)
    states = [OptunaState.RUNNING, OptunaState.WAITING, OptunaState.WAITING]
    left = zip(study.trials[2:], states, strict=True)
    assert open_trials(study) == (5, [OpenTrial(one.number, one._trial_id, state) for one, state in left])


def test_to_add_a_slot_no_trial_that_has_ended_is_read(tmp_path):
    """Of a database; Optuna would read all its epochs, and a sampler that wants them does so itself."""
    study = open_study(open_storage(tmp_path / "study.db"), "s", {"loss": MINIMIZE})
    trial = claim(study, total=1)
    trial.report(0.5, 0)
    tell(study, trial, TrialRecord(0, {}, TrialState.COMPLETE, 0.5, 0))
    statements = []
    sqlalchemy.event.listen(
        study._storage._backend.engine, "before_cursor_execute", lambda *told: statements.append(told[2])
    )
    claim(study, total=2)
    close_storage(study._storage)
    assert statements and not any("intermediate" in statement for statement in statements)


def test_a_slot_that_another_process_has_added_takes_params(tmp_path):
    """Though neither this one nor its sampler has read anything of it before."""
    first, second = (open_storage(tmp_path / "study.db") for _ in range(2))
    reserve(open_study(first, "s", {"loss": MINIMIZE}), 1)
    trial = claim(open_study(second, "s", {"loss": MINIMIZE}, make_sampler("random", 7)))
    drawn = trial.suggest_float("lr", 0.0, 1.0)
    assert open_study(first, "s", {"loss": MINIMIZE}).trials[0].params == {"lr": drawn}
    for storage in (first, second):
        close_storage(storage)
