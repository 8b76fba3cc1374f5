from __future__ import annotations

import signal

import pytest
from injured import Injured

from hpometrics.search.record import TrialState


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
    injured.harm("hang")
    process = injured.start()
    assert process.waits_for(lambda: injured.noted("began", 2, 1)), injured.err()
    process.send(number)
    assert process.ended() == code
    at_work = injured.records()[2]
    assert (at_work.state, at_work.reason) == (TrialState.INTERRUPTED, reason)
    assert "interrupted: 2 of 6 trials are done" in injured.err()
    injured.note_finished()
    injured.heal()
    survived = injured.run() == 0 and 2 in injured.whole()
    card(injured.toll(f"{number.name} to a run", 1, survived))


def test_a_second_ctrl_c_ends_what_the_first_has_not(injured: Injured, card):
    """The engine hangs again while it cleans up; the trial is interrupted all the same."""
    injured.harm("slow end")
    process = injured.start()
    assert process.waits_for(lambda: injured.noted("hanging", 2, 1)), injured.err()
    process.send(signal.SIGINT)
    assert process.waits_for(lambda: injured.noted("cleaning", 2, 1))
    process.send(signal.SIGINT)
    assert process.ended() == 130
    assert injured.records()[2].state is TrialState.INTERRUPTED
    injured.note_finished()
    injured.heal()
    survived = injured.run() == 0 and 2 in injured.whole()
    card(injured.toll("SIGINT twice to a run", 1, survived))
