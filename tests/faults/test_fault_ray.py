from __future__ import annotations

import signal

import pytest
from injured import Injured

from hpometrics.search.record import TrialState

pytestmark = [pytest.mark.ray, pytest.mark.thorough]

RAY = "{ray: {workers: 2}}"


def test_bad_trials_and_a_worker_that_dies_cost_only_themselves(tmp_path, card):
    """An exception, an exit, a killed worker fail; an epoch of nan or without the metric never wins."""
    injured = Injured(tmp_path, trials=6, backend=RAY)
    kinds = ("os._exit", "exception", "sys.exit", "nan", "no metric")
    injured.harm_all([(number, 2, kind) for number, kind in enumerate(kinds, 1)])
    assert injured.run() == 0, injured.err()
    states = [record.state for record in injured.records()]
    assert states[1:6] == [TrialState.FAILED] * 3 + [TrialState.COMPLETE] * 2
    assert [record.epoch for record in injured.records()[4:6]] == [1, 1]
    injured.note_finished()
    survived = injured.run() == 0 and injured.whole() == {0}
    card(injured.toll("on Ray: 5 bad trials, one kills its worker", 5, 5 * survived))


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGKILL, -9), (signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
)
def test_a_driver_that_a_signal_ends_goes_on(tmp_path, card, number, code):
    """A trial of it hangs; what has finished is not run again, the trial goes on where it was."""
    injured = Injured(tmp_path, trials=3, backend=RAY)
    injured.harm("hang", trial=1)
    driver = injured.start()
    assert driver.waits_for(lambda: injured.noted("began", 1, 1)), injured.err()
    driver.send(number)
    assert driver.ended() == code
    injured.note_finished()
    injured.heal()
    survived = injured.run() == 0 and injured.whole() == {0, 1, 2}
    card(injured.toll(f"on Ray: {number.name} to the driver, a trial hangs", 1, survived))
