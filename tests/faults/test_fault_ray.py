from __future__ import annotations

import os
import signal

import pytest
from bare_ray import BareRay
from injured import InjuredOnRay

from hpometrics.records.trial_record import TrialState

pytestmark = [pytest.mark.ray, pytest.mark.thorough]
TRIALS = 3
HOSTS = pytest.mark.parametrize("host", [InjuredOnRay, BareRay])

FAILING = (
    "exception", "sys.exit", "out of memory", "a BaseException", "an exception without text",
    "a text that no file takes",
)  # fmt: skip
DYING = ("os._exit", "SIGKILL")
WITHOUT_A_VALUE = ("nan", "no metric")
FAULTS = {
    "os._exit": "params that end the process",
    "SIGKILL": "params that are killed for their memory",
}


def fault_of(kind: str) -> str:
    """What a harm is called on the card."""
    return FAULTS.get(kind, f"a trial with {kind}")


def test_bad_trials_cost_only_themselves(tmp_path, card):
    """Also if they kill their worker, three times; an epoch of nan or without the metric never wins.

    A retry is for an exception: one that was raised is tried again, a death is no use of it.
    """
    kinds = (*FAILING, *DYING, *WITHOUT_A_VALUE)
    injured = InjuredOnRay(tmp_path, trials=len(kinds) + 1, retries=1)
    injured.harm_all([(number, 2, kind) for number, kind in enumerate(kinds, 1)])
    assert injured.run() == 0, injured.err()
    records = injured.records()
    failed = len(FAILING) + len(DYING)
    ends = [TrialState.FAILED] * failed + [TrialState.COMPLETE] * len(WITHOUT_A_VALUE)
    assert [record.state for record in records[1:]] == ends
    attempts = [1] * len(FAILING) + [0] * (len(DYING) + len(WITHOUT_A_VALUE))
    assert [len(record.failed_attempts) for record in records[1:]] == attempts
    trained = injured.trained()
    assert [trained[number, 2] for number in range(1, failed + 1)] == [2] * len(FAILING) + [3] * len(DYING)
    assert [record.epoch for record in records[-2:]] == [1, 1]
    injured.note_finished()
    survived = injured.run() == 0 and injured.whole() == {0}
    for number, kind in enumerate(kinds, 1):
        card(injured.toll(fault_of(kind), 1, survived, trials=[number]))


@pytest.mark.parametrize("kinds", [(*FAILING, *DYING, "nan"), ("no metric",)], ids=["together", "alone"])
def test_bad_trials_of_bare_ray(tmp_path, card, kinds):
    """One that tells no metric has to be tried alone: it ends all others."""
    bare = BareRay(tmp_path, trials=len(kinds) + 1)
    bare.harm_all([(number, 2, kind) for number, kind in enumerate(kinds, 1)])
    code = bare.run()
    bare.note_finished()
    survived = code == 0 and 0 in bare.whole()
    for number, kind in enumerate(kinds, 1):
        card(bare.toll(fault_of(kind), 1, survived, trials=[number]))


@HOSTS
def test_a_worker_of_a_trial_that_is_killed_is_replaced(tmp_path, card, host):
    """With no retry allowed its trial goes on, and is no failure; its open epoch alone is trained again."""
    patient = host(tmp_path, trials=TRIALS)
    patient.harm("hang", trial=1)
    driver = patient.start()
    assert driver.waits_for(lambda: patient.noted("began", 1, 1)), patient.err()
    patient.heal()
    os.kill(patient.worker_of(1), signal.SIGKILL)
    survived = driver.ended() == 0 and patient.whole() == set(range(TRIALS))
    if host is InjuredOnRay:
        again = {at: count for at, count in patient.trained().items() if count > 1}
        assert again == {(1, 1): 2}, patient.err()
        assert patient.err().count("trial 1: its process died once in epoch 1; the trial continues") == 1
    card(patient.toll("SIGKILL of the worker of a trial", 1, survived))


@HOSTS
@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
    ids=["SIGKILL", "SIGTERM", "SIGINT", "SIGHUP"],
)
def test_a_driver_that_a_signal_ends_goes_on(tmp_path, card, host, number, code):
    """A trial of it hangs; what has finished is not run again, the trial goes on where it was."""
    patient = host(tmp_path, trials=TRIALS)
    ended = patient.interrupted(number, trial=1)
    assert ended == code or host is BareRay
    survived = patient.run() == 0 and patient.whole() == set(range(TRIALS))
    card(patient.toll(f"{number.name} to a run", 1, survived))


@HOSTS
def test_a_driver_that_is_paused_goes_on(tmp_path, card, host):
    """Its workers wait for it."""
    patient = host(tmp_path, trials=TRIALS)
    driver = patient.start()
    assert driver.waits_for(lambda: patient.noted("began", 0, 0)), patient.err()
    driver.send(signal.SIGSTOP)
    driver.lives(5.0)
    driver.send(signal.SIGCONT)
    survived = driver.ended() == 0 and patient.whole() == set(range(TRIALS))
    card(patient.toll("SIGSTOP for 5 s, then SIGCONT", 1, survived))


@HOSTS
def test_a_disk_that_is_full_on_ray(small_disk, card, host):
    """No trial has failed for it; what was recorded is kept, and all goes on when there is room."""
    patient = host(small_disk, trials=TRIALS)
    patient.harm("full disk", trial=1)
    code = patient.run()
    assert code == 5 or host is BareRay, patient.err()
    patient.note_finished()
    patient.heal()
    (small_disk / "runs/filler").unlink()
    survived = patient.run() == 0 and patient.whole() == set(range(TRIALS))
    card(patient.toll("a disk that is full, then freed", 1, survived))


def test_a_worker_that_has_no_room_for_its_record(tmp_path, card):
    """The disk of its machine, say: the sweep stops; it is no fault of the trial and no reason to retry."""
    injured = InjuredOnRay(tmp_path, trials=TRIALS)
    injured.harm("full record", trial=1)
    assert injured.run() == 5, injured.err()
    assert "epochs.jsonl: cannot be written: No space left on device" in injured.err()
    record = injured.records()[1]
    assert (record.state, record.failed_attempts) == (TrialState.INTERRUPTED, ())
    injured.note_finished()
    injured.heal()
    survived = injured.run() == 0 and injured.whole() == set(range(TRIALS))
    card(injured.toll("a record that cannot be written", 1, survived))
