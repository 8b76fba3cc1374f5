from __future__ import annotations

import signal

import pytest
from bare_optuna import BareOptuna
from injured import Injured

from hpometrics.records.trial_record import TrialState


@pytest.mark.parametrize(
    ("number", "code", "reason"),
    [
        (signal.SIGINT, 130, "KeyboardInterrupt"),
        (signal.SIGTERM, 143, "Interrupt: SIGTERM"),
        (signal.SIGHUP, 129, "Interrupt: SIGHUP"),
    ],
)
def test_a_signal_interrupts_a_sweep_which_then_goes_on(injured: Injured, card, number, code, reason):
    """The exit code names the signal, the trial is interrupted and not failed, and run again it goes on."""
    assert injured.interrupted(number) == code
    at_work = injured.records()[2]
    assert (at_work.state, at_work.reason) == (TrialState.INTERRUPTED, reason)
    assert "interrupted: 2 of 6 trials are done" in injured.err()
    survived = injured.run() == 0 and 2 in injured.whole()
    card(injured.toll(f"{number.name} to a run", 1, survived))


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda one: one.name)
def test_a_signal_to_bare_optuna(tmp_path, card, number):
    """Ctrl-C fails the trial at work, the others leave it running."""
    bare = BareOptuna(tmp_path)
    bare.interrupted(number)
    survived = bare.run() == 0 and 2 in bare.whole()
    card(bare.toll(f"{number.name} to a run", 1, survived))


def test_a_run_that_is_killed_goes_on_with_its_trial(injured: Injured, card):
    """Nothing could be written any more; the trial goes on from its checkpoint."""
    assert injured.interrupted(signal.SIGKILL) == -9
    survived = injured.run() == 0 and injured.whole() == set(range(6))
    assert [epoch for what, trial, epoch, _ in injured.ledger() if (what, trial) == ("began", 2)] == [
        0,
        1,
        1,
        2,
    ]
    card(injured.toll("SIGKILL to a run", 1, survived))


@pytest.mark.thorough
def test_bare_optuna_that_is_killed(tmp_path, card):
    """Its trial stays running."""
    bare = BareOptuna(tmp_path)
    bare.interrupted(signal.SIGKILL)
    survived = bare.run() == 0 and 2 in bare.whole()
    card(bare.toll("SIGKILL to a run", 1, survived))


@pytest.mark.parametrize("host", [Injured, pytest.param(BareOptuna, marks=pytest.mark.thorough)])
def test_a_second_ctrl_c_ends_what_the_first_has_not(tmp_path, card, host):
    """The engine hangs again while it cleans up; the trial is interrupted all the same."""
    patient = host(tmp_path)
    patient.harm("slow end")
    process = patient.start()
    assert process.waits_for(lambda: patient.noted("hanging", 2, 1)), patient.err()
    process.send(signal.SIGINT)
    assert process.waits_for(lambda: patient.noted("cleaning", 2, 1))
    process.send(signal.SIGINT)
    code = process.ended()
    if host is Injured:
        assert (code, patient.records()[2].state) == (130, TrialState.INTERRUPTED)
    patient.note_finished()
    patient.heal()
    survived = patient.run() == 0 and 2 in patient.whole()
    card(patient.toll("SIGINT twice to a run", 1, survived))
