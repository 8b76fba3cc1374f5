from __future__ import annotations

import math
from itertools import product

import optuna
import pytest
from optuna.distributions import FloatDistribution
from optuna.storages import JournalStorage
from optuna.trial import TrialState as OptunaState

from hpometrics.backends.optuna.pruners import make_pruner
from hpometrics.backends.optuna.samplers import make_sampler
from hpometrics.backends.optuna.storage import close_storage, open_storage
from hpometrics.backends.optuna.study import open_study, tell
from hpometrics.backends.optuna.trial_queue import (
    TrialFileLocks,
    claim,
    draw_first,
    new_trial,
    reclaim,
    reclaim_or_claim,
    reserve,
)
from hpometrics.direction import MINIMIZE
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState

LR = FloatDistribution(0.0, 1.0)
PLACES = ("memory", "study.db", "study.journal")


def always(number: int) -> bool:
    """Take any trial."""
    return True


@pytest.fixture(params=PLACES)
def storage(request, tmp_path):
    """An empty storage of each kind."""
    opened = open_storage(request.param if request.param == "memory" else tmp_path / request.param)
    yield opened
    close_storage(opened)


def facts(trial):
    """All that a trial has but for the moments of its start and its end."""
    return {name: value for name, value in vars(trial).items() if not name.startswith("_datetime")} | {
        "datetime_start": None,
        "datetime_complete": None,
    }


def test_what_a_worker_has_left_comes_before_a_slot(storage):
    """It is said which it is; one look serves both, and the total counts the one that was left."""
    study = open_study(storage, "s", {"loss": MINIMIZE})
    claim(study, total=1)
    again, died = reclaim_or_claim(study, always, always, total=2)
    assert (again.number, died) == (0, True)
    new, died = reclaim_or_claim(study, lambda number: False, always, total=2)
    assert (new.number, died) == (1, False)
    assert reclaim_or_claim(study, lambda number: False, always, total=2) == (None, False)
    assert len(study.trials) == 2


def draw(trial):
    """Two params, one of them of a few."""
    return {"lr": trial.suggest_float("lr", 0.0, 1.0), "size": trial.suggest_categorical("size", ["s", "l"])}


def test_a_trial_that_has_begun_is_as_its_storage_has_it(storage):
    """Though it is not read: neither its own copy nor what a sampler sees lacks anything."""
    for sampler, draws, point in product(("random", "tpe"), (None, draw), ({}, {"lr": 0.25})):
        case = f"{sampler}, {draws}, {point}"
        study = open_study(storage, case, {"loss": MINIMIZE}, make_sampler(sampler, 7))
        tell(study, claim(study, total=1), TrialRecord(0, {}, TrialState.FAILED, reason="RuntimeError"))
        trial = claim(study, total=2, points=[{}, point], draw=draws)
        stored = study._storage.get_trial(trial._trial_id)
        assert facts(trial._cached_frozen_trial) == facts(stored), case
        assert abs((trial.datetime_start - stored.datetime_start).total_seconds()) < 60, case
        seen = study._get_trials(deepcopy=False, use_cache=True)
        assert [facts(one) for one in seen] == [facts(one) for one in study.get_trials()], case


def test_a_trial_that_has_begun_is_of_its_study(storage):
    """What it draws, reports and notes is in the storage."""
    study = open_study(storage, "s", {"loss": MINIMIZE}, make_sampler("random", 7))
    trial = claim(study, total=1, points=[{"lr": 0.25}])
    assert (trial.study, trial.storage) == (study, study._storage)
    assert trial.suggest_float("lr", 0.0, 1.0) == 0.25
    drawn = trial.suggest_float("x", 0.0, 1.0)
    trial.report(0.5, 0)
    trial.set_user_attr("seen", True)
    [stored] = study.get_trials()
    assert stored.params == {"lr": 0.25, "x": drawn}
    assert (stored.intermediate_values, stored.user_attrs) == ({0: 0.5}, {"seen": True})


def test_params_are_the_same_whenever_they_are_drawn(storage):
    """Before the trial is added or after; where they are, they are in the study as soon as the trial is."""
    for sampler, pruner in product(("random", "tpe"), ("none", "hyperband")):
        drawn = []
        for name, draws in (("before", draw), ("after", None)):
            case = f"{name}, {sampler}, {pruner}"
            study = open_study(
                storage, case, {"loss": MINIMIZE}, make_sampler(sampler, 7), make_pruner(pruner, 9)
            )
            trials = [claim(study, total=3, points=[{"lr": 0.25}], draw=draws) for _ in range(3)]
            there = [trial.params for trial in study.trials]
            drawn.append([draw(trial) for trial in trials])
            assert [trial.params for trial in study.trials] == drawn[-1], case
            first = draws is not None and (sampler, pruner) == ("random", "none")
            assert there == (drawn[-1] if first else [{}] * 3), case
        assert drawn[0] == drawn[1], (sampler, pruner)
        assert drawn[0][0]["lr"] == 0.25, (sampler, pruner)


@pytest.mark.parametrize("sampler", ["random", "tpe"])
@pytest.mark.parametrize("pruner", ["none", "hyperband"])
def test_a_slot_that_is_added_draws_what_one_that_waits_draws(sampler, pruner):
    """After others have ended too; a sampler sees the same study."""

    def drawn(waiting: bool) -> list[float]:
        study = optuna.create_study(sampler=make_sampler(sampler, 7), pruner=make_pruner(pruner, 9))
        if waiting:
            reserve(study, 15)
        found = []
        while trial := claim(study, total=15):
            found.append(trial.suggest_float("lr", 0.0, 1.0))
            study.tell(trial, abs(found[-1] - 0.3))
        return found

    assert drawn(waiting=True) == drawn(waiting=False)


RECORDS = [
    (TrialRecord(0, {}, TrialState.COMPLETE, 0.5, 1), {"values": 0.5}),
    (TrialRecord(0, {}, TrialState.COMPLETE, math.nan, 1), {"values": math.nan}),
    (TrialRecord(0, {}, TrialState.INFEASIBLE, 0.5, 1), {"values": 0.5}),
    (TrialRecord(0, {}, TrialState.PRUNED, 0.5, 1), {"state": OptunaState.PRUNED}),
    (TrialRecord(0, {}, TrialState.FAILED), {"state": OptunaState.FAIL}),
]


REPORTS = [[], [0.5, 0.25], [0.5, math.nan]]


@pytest.mark.filterwarnings("ignore:The value nan is not acceptable")
def test_a_trial_ends_as_study_tell_ends_it(storage):
    """State, values and all else, on every kind of storage."""
    for (record, told), reports in product(RECORDS, REPORTS):
        ended = []
        for name in ("tell", "study.tell"):
            case = f"{name}, {record.state}, {told}, {reports}"
            study = open_study(storage, case, {"loss": MINIMIZE}, make_sampler("random", 7))
            trial = claim(study, total=1)
            trial.suggest_float("lr", 0.0, 1.0)
            for epoch, value in enumerate(reports):
                trial.report(value, epoch)
            if name == "tell":
                tell(study, trial, record)
            else:
                study.tell(trial, **told)
            [stored] = study.get_trials()
            ended.append((stored.state, stored.values, stored.params, stored.datetime_complete is None))
            assert repr(stored.intermediate_values) == repr(dict(enumerate(reports))), case
        assert ended[0] == ended[1], case


def test_several_objectives_end_as_study_tell_ends_them(storage):
    """All values are told, and a stopped trial has none."""
    study = open_study(storage, "s", {"loss": MINIMIZE, "size": MINIMIZE})
    epochs = (EpochRecord(0, {"loss": 0.5, "size": 3.0}),)
    tell(study, claim(study, total=2), TrialRecord(0, {}, TrialState.COMPLETE, 0.5, 0, epochs))
    tell(study, claim(study, total=2), TrialRecord(1, {}, TrialState.PRUNED))
    assert [trial.values for trial in study.get_trials()] == [[0.5, 3.0], None]


def test_a_trial_that_has_ended_is_not_ended_again(storage):
    """Whoever took it over has told of it."""
    study = open_study(storage, "s", {"loss": MINIMIZE})
    trial = claim(study, total=1)
    study.tell(trial.number, 0.25)
    with pytest.raises(optuna.exceptions.UpdateFinishedTrialError):
        tell(study, trial, TrialRecord(0, {}, TrialState.COMPLETE, 0.5, 1))
    assert study.trials[0].values == [0.25]


class Looking(optuna.samplers.RandomSampler):
    """A sampler of a user's, which notes something with a trial and looks at it when the trial ends."""

    seen: str | None = None

    def sample_independent(self, study, trial, param_name, param_distribution):
        """Note it by the storage, as Optuna's own do."""
        study._storage.set_trial_system_attr(trial._trial_id, "noted", "here")
        return super().sample_independent(study, trial, param_name, param_distribution)

    def after_trial(self, study, trial, state, values):
        """Look."""
        self.seen = trial.system_attrs.get("noted")


def test_a_sampler_of_a_users_own_is_shown_the_trial_as_it_is_stored(storage):
    """What it noted itself included."""
    sampler = Looking(seed=7)
    study = open_study(storage, "s", {"loss": MINIMIZE}, sampler)
    trial = claim(study, total=1)
    trial.suggest_float("lr", 0.0, 1.0)
    tell(study, trial, TrialRecord(0, {}, TrialState.COMPLETE, 0.5, 1))
    assert sampler.seen == "here"


def test_trials_that_a_storage_has_are_themselves_while_the_next_is_drawn(storage):
    """Whatever their ids: a sampler may ask for any of them."""
    study = open_study(storage, "s", {"loss": MINIMIZE})
    for value in (0.5, 0.25, 0.75):
        study.add_trial(optuna.trial.create_trial(value=value))
    ids = [trial._trial_id for trial in study.trials]
    seen = []
    draw_first(study, new_trial(3), lambda trial: seen.extend(map(trial.study._storage.get_trial, ids)))
    assert [trial.value for trial in seen] == [0.5, 0.25, 0.75]


@pytest.mark.parametrize("function", [claim, reclaim, reclaim_or_claim], ids=lambda one: one.__name__)
def test_a_trial_that_cannot_be_claimed_is_held_by_nobody(storage, tmp_path, function):
    """Another worker claims, or ends, the trial between the look at the study and the lock."""
    if function is claim and optuna.__version__ < "4.5" and isinstance(storage, JournalStorage):
        pytest.skip("Optuna 4.4 lets a thread claim a trial twice that it has claimed")
    study = open_study(storage, "s", {"loss": MINIMIZE})
    reserve(study, 1)
    if function is not claim:
        claim(study)
    locks = TrialFileLocks(tmp_path / "locks")

    def take_late(number: int) -> bool:
        if function is claim:
            claim(study)
        else:
            study.tell(number, 0.5)
        return locks.take(number)

    takes = (take_late, take_late) if function is reclaim_or_claim else (take_late,)
    assert function(study, *takes, release=locks.release) in (None, (None, False))
    assert locks.numbers == []
