from __future__ import annotations

import platform

import pytest
from filelock import FileLock
from sample_sweeps import SWEEP, changed, plan_of

from hpometrics.backends.optuna.study import study_records, tell
from hpometrics.backends.optuna.trial_queue import claim
from hpometrics.records.epoch_log import EpochLog
from hpometrics.records.recovery import MOST_DEATHS
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState, write_trial
from hpometrics.run.reporter import ListReporter
from hpometrics.run.trial import machine
from hpometrics.runner.context import make_context
from hpometrics.runner.leases import LocalOwnership
from hpometrics.runner.processes import run_in_process
from hpometrics.runner.reclaim import RecordCollector, claim_stale_or_next
from hpometrics.runner.study import opened_study, reserve_slots

needs_boot_id = pytest.mark.skipif(machine() is None, reason="the system does not identify its starts")


@pytest.fixture
def job(folder):
    """A sweep of four trials whose ends are collected in `told`."""
    job = make_context(plan_of(SWEEP))
    job.directory.trials.mkdir(parents=True)
    job.told = []
    job.tell = job.told.append
    return job


@pytest.fixture
def study(job):
    """Its study, with trial 0 claimed by a process that is gone."""
    locks = LocalOwnership(job.directory, 4)
    with opened_study(job, locks) as study:
        reserve_slots(study, job)
        claim(study, locks.take)
        locks.release(0)
        yield study


def record(job, state, epochs=0, **facts):
    """Write what the process has left of trial 0."""
    directory = job.directory.trial(0)
    write_trial(directory, TrialRecord(0, {"lr": 0.5}, state, value=0.5, epoch=0, **facts))
    log = EpochLog(directory)
    log.append(EpochRecord(epochs, {"roc_auc": 0.5}))
    log.close()


def taken(job, study):
    """Take up trial 0, and leave it again."""
    locks = LocalOwnership(job.directory, 1)  # which takes no other trial
    trial = claim_stale_or_next(study, job, locks, 0)
    for number in locks.numbers:
        locks.release(number)
    return trial


def test_a_trial_that_had_written_its_end_is_told_of_and_not_run_again(job, study):
    """Its process died before the study knew."""
    record(job, TrialState.COMPLETE)
    assert taken(job, study) is None
    assert study_records(study)[0].state is TrialState.COMPLETE
    assert [one.number for one in job.told] == [0]


def test_a_trial_fails_when_its_process_dies_too_often_at_one_epoch(job, study, capsys):
    """Record, study and listener say so, and the log each time before."""
    record(job, TrialState.RUNNING)
    assert [taken(job, study).number for _ in range(MOST_DEATHS - 1)] == [0, 0]
    continues = "in epoch 1; the trial continues in another process and fails after 3 deaths"
    expected = [f"trial 0: its process died {often} {continues}" for often in ("once", "2 times")]
    assert capsys.readouterr().out.splitlines() == expected
    assert taken(job, study) is None
    [told] = job.told
    assert told.reason == "its process died 3 times in epoch 1; did it have enough memory?"
    assert study_records(study)[0].state is job.directory.records()[0].state is TrialState.FAILED


def test_a_trial_that_ends_without_training_is_not_one_of_those_to_train(job, study):
    """A worker that trains one trial first notes the third death of another."""
    record(job, TrialState.RUNNING)
    for _ in range(MOST_DEATHS - 1):
        taken(job, study)
    assert run_in_process(job, most=1) == 1
    assert [one.state for one in job.directory.records()] == [TrialState.FAILED, TrialState.COMPLETE]


def test_a_record_from_elsewhere_waits_for_the_process_that_has_lost_the_trial(job, study):
    """Which would move the good record aside in the place of its own."""
    record(job, TrialState.RUNNING)
    trial = claim(study, lambda number: True)
    tell(study, trial, TrialRecord(trial.number, {"lr": 0.5}, TrialState.FAILED, reason="no luck"))
    write_trial(job.directory.trial(1), TrialRecord(1, {"lr": 0.5}, TrialState.RUNNING))
    collector = RecordCollector(job, LocalOwnership(job.directory, 4))
    with FileLock(job.directory.locks / "0001"):
        collector.collect(study)
        assert job.directory.record(1).state is TrialState.RUNNING
    collector.collect(study)
    assert job.directory.record(1).state is TrialState.FAILED


def test_a_process_without_the_records_of_trials_keeps_their_points_of_a_grid(folder):
    """Another machine has trained them under a budget that left points out: no point comes twice."""
    grid = changed("{float: [1e-4, 1e-1], log: true}", "{choice: [0.1, 0.2]}").replace("random", "grid")
    cut, whole = make_context(plan_of(grid.replace("trials: 4", "trials: 2"))), make_context(plan_of(grid))
    cut.directory.trials.mkdir(parents=True)
    locks = LocalOwnership(cut.directory, 2)
    with opened_study(cut, locks) as study:
        claimed = [claim_stale_or_next(study, cut, locks, 2) for _ in range(2)]
    for trial in claimed:
        locks.release(trial.number)
    assert list(whole.plan.points[:2]) != [trial.params for trial in claimed]
    with opened_study(whole, locks):
        points = list(whole.plan.points)
    assert points[:2] == [trial.params for trial in claimed]
    assert len(set(map(str, points))) == 4


def test_deaths_do_not_add_up_while_a_trial_gets_further(job, study):
    """Each new epoch begins the count anew."""
    for epoch in range(2 * MOST_DEATHS):
        record(job, TrialState.RUNNING, epoch)
        assert taken(job, study).number == 0


def test_an_interrupted_trial_has_not_died(job, study):
    """However often it is interrupted, it goes on."""
    record(job, TrialState.INTERRUPTED)
    for _ in range(2 * MOST_DEATHS):
        assert taken(job, study).number == 0


@needs_boot_id
def test_a_restart_of_the_machine_is_no_death(job, study):
    """However often it is restarted, as by power cuts or by who lends it: the params have not failed."""
    for number in range(2 * MOST_DEATHS):
        record(job, TrialState.RUNNING, machine=f"{platform.node()} start-{number}")
        assert taken(job, study).number == 0


@needs_boot_id
@pytest.mark.parametrize("where", ["here", "elsewhere", "unknown"])
def test_a_process_that_dies_while_its_machine_stays_up_has_died(job, study, where):
    """Of another machine, and of one that an earlier version did not note, nobody knows: deaths they are."""
    places = {"here": machine(), "elsewhere": "another-machine start-1", "unknown": None}
    record(job, TrialState.RUNNING, machine=places[where])
    assert [taken(job, study).number for _ in range(MOST_DEATHS - 1)] == [0, 0]
    assert taken(job, study) is None


@needs_boot_id
def test_a_trial_notes_the_machine_that_it_runs_on(job):
    """With its first word, so that a killed process has left it."""
    job.trials.run({"lr": 0.5, "depth": 1, "width": 8}, ListReporter(0, {}))
    assert job.directory.records()[0].machine == machine()


def test_a_trial_that_was_left_comes_before_the_next_slot(job, study):
    """Mid-run too: whoever asks for the next trial gets it, and the next one after it."""
    record(job, TrialState.RUNNING)
    locks = LocalOwnership(job.directory, 4)
    assert [claim_stale_or_next(study, job, locks, 4).number for _ in range(2)] == [0, 1]
    locks.release(1)
    assert claim_stale_or_next(study, job, locks, 4).number == 1


def test_a_trial_that_had_written_its_end_gives_way_to_the_next_slot(job, study):
    """It is told of on the way."""
    record(job, TrialState.COMPLETE)
    assert claim_stale_or_next(study, job, LocalOwnership(job.directory, 4), 4).number == 1
    assert [one.number for one in job.told] == [0]
