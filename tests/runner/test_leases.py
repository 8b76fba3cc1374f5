from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace

import optuna
import pytest

from hpometrics.backends.optuna.storage import open_storage
from hpometrics.backends.optuna.study import BEAT, OWNER, REASON, open_study
from hpometrics.backends.optuna.trial_queue import claim, reserve
from hpometrics.direction import MINIMIZE
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState
from hpometrics.results.run_directory import RunDirectory
from hpometrics.runner.leases import LeasedOwnership


@pytest.fixture
def study():
    """A study of two slots."""
    study = open_study(open_storage("memory"), "s", {"loss": MINIMIZE})
    reserve(study, 2)
    return study


@pytest.fixture
def leases(tmp_path, study):
    """Makes the leases of a directory; nobody waits for a beat."""
    made = []

    def make(name, interval=0.0):
        (tmp_path / name).mkdir(exist_ok=True)
        one = LeasedOwnership(RunDirectory(tmp_path / name), 2, interval)
        one.bind(study)
        made.append(one)
        return one

    yield make
    for one in made:
        one.close()


def begun(study, one):
    """A trial that a worker has claimed and begun, and its reporter."""
    trial = claim(study, one.take)
    return trial, one.begin(trial)


def test_a_trial_is_free_when_nothing_was_heard_of_it(study, leases):
    """The first look only notes what there is; a beat in between begins the wait anew."""
    here, there = leases("here", 3600.0), leases("there")
    trial, _ = begun(study, here)
    assert not there.take_stale(0)
    trial.set_user_attr(BEAT, 1)
    assert not there.take_stale(0)
    assert there.take_stale(0)


def test_a_live_worker_is_waited_for(study, leases):
    """Until four beats are over."""
    here, there = leases("here", 3600.0), leases("there", 3600.0)
    begun(study, here)
    assert not there.take_stale(0) and not there.take_stale(0)


def test_workers_of_one_directory_have_its_locks(study, leases):
    """Whose process lives keeps its trial without a beat; whose has let go is free at once."""
    one, other = leases("here", 3600.0), leases("here", 3600.0)
    begun(study, one)
    assert not other.take_stale(0)
    one.release(0)
    assert other.take_stale(0)


def test_who_has_lost_a_trial_notices(study, leases):
    """It slept, another has begun the trial: its run is stopped at the next epoch, and nothing is told."""
    here = leases("here")
    trial, reporter = begun(study, here)
    assert not here.is_lost(trial)
    trial.set_user_attr(OWNER, ["another", "elsewhere"])
    assert here.is_lost(trial)
    with pytest.raises(optuna.TrialPruned, match="another worker has taken trial 0"):
        reporter.report(0, 0.5, 0.5, {"loss": 0.5}, final=True)
    assert study.trials[0].intermediate_values == {}


def test_a_worker_beats_while_it_holds_a_trial(study, leases):
    """From a thread of its own."""
    here = leases("here", 0.001)
    trial, _ = begun(study, here)
    while BEAT not in study.trials[0].user_attrs:
        here.wait()
    here.release(trial.number)


def test_a_beat_before_a_trial_has_its_owner_loses_nothing(study, leases, monkeypatch):
    """The thread that beats may look between the claim of a trial and the word of who owns it."""
    here = leases("here", 3600.0)
    trial = claim(study, here.take)
    write = study._storage.set_trial_user_attr

    def late(*arguments):
        for held in here._leases.values():
            here._confirm(held)
        write(*arguments)

    monkeypatch.setattr(study._storage, "set_trial_user_attr", late)
    here.begin(trial)
    assert not here._leases[0].lost


def test_a_trial_beyond_the_budget_is_left_alone(leases):
    """Slots that a proxy could not keep others from adding are nobody's."""
    assert not leases("here").take(2)


def test_of_two_who_see_that_a_trial_is_free_one_takes_it(study, leases):
    """Both have waited long enough; it is the first one's before its run has begun."""
    here, there, third = leases("here", 3600.0), leases("there"), leases("third")
    begun(study, here)
    assert not there.take_stale(0) and not third.take_stale(0)
    assert there.take_stale(0)
    assert not third.take_stale(0)


def test_who_takes_a_trial_has_the_study_for_itself(tmp_path, monkeypatch, leases):
    """What was seen before the study was locked is looked at again: another may have taken it since."""
    study = open_study(open_storage(tmp_path / "study.db"), "s", {"loss": MINIMIZE})
    reserve(study, 1)
    here, there = leases("here", 3600.0), leases("there")
    for one in (here, there):
        one.bind(study)
    trial, _ = begun(study, here)
    assert not there.take_stale(0)

    @contextmanager
    def late(study):
        trial.set_user_attr(OWNER, ["another", "elsewhere"])
        yield

    monkeypatch.setattr("hpometrics.runner.leases.exclusive_study", late)
    assert not there.take_stale(0)
    assert there.numbers == []


@pytest.mark.parametrize("ended", [False, True], ids=["at work", "ended"])
def test_what_a_trial_of_another_came_to_is_not_told(study, leases, ended):
    """However short it was, and whether the other is at work or has told already."""
    here = leases("here", 3600.0)
    trial, _ = begun(study, here)
    trial.set_user_attr(OWNER, ["another", "elsewhere"])
    if ended:
        study.tell(0, 0.25)
    record = TrialRecord(0, {}, TrialState.FAILED, reason="too late")
    assert not here.finish(study, trial, record)
    assert REASON not in study.trials[0].user_attrs
    assert study.trials[0].value == (0.25 if ended else None)


def test_a_result_that_is_written_again_is_accepted(study, leases):
    """A lock that is lost with its connection repeats the section, whose result may have been written."""
    here = leases("here", 3600.0)
    trial, _ = begun(study, here)
    record = TrialRecord(0, {}, TrialState.COMPLETE, 0.25, 0, (EpochRecord(0, {"loss": 0.25}),))
    assert here.finish(study, trial, record)
    assert here.finish(study, trial, record)
    assert not here.finish(study, trial, replace(record, value=0.5))


def test_a_trial_that_ended_meanwhile_is_no_error(tmp_path, study, leases):
    """Behind a proxy nothing is locked: its run is stopped, what it came to is not told, nobody takes it."""
    here, there = leases("here", 3600.0), leases("there")
    trial, reporter = begun(study, here)
    assert not there.take_stale(0)
    study.tell(0, 0.25)
    folder = tmp_path / "here/trials/0000"
    folder.mkdir(parents=True)
    (folder / "epochs.jsonl").touch()
    with pytest.raises(optuna.TrialPruned, match="another worker has taken trial 0"):
        reporter.report(0, 0.5, 0.5, {"loss": 0.5}, final=True)
    assert not here.finish(study, trial, TrialRecord(0, {}, TrialState.FAILED))
    assert not there.take_stale(0) and there.numbers == []
    assert here.begin(trial) is not reporter and here.is_lost(trial)
