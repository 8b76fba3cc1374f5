from __future__ import annotations

import re

import pytest
from bare_optuna import BareOptuna
from injured import Injured

from hpometrics.search.record import TrialState

REASONS = {
    "exception": "ValueError: harmed",
    "sys.exit": "SystemExit: 3",
    "out of memory": "MemoryError",
}


@pytest.mark.parametrize("kind", REASONS)
def test_one_bad_trial_fails_by_name_and_the_others_go_on(tmp_path, card, kind):
    """The sweep does all of its budget; run again, it does nothing."""
    injured = Injured(tmp_path)
    injured.harm(kind)
    assert injured.run() == 0, injured.err()
    record = injured.records()[2]
    assert record.state is TrialState.FAILED and re.fullmatch(REASONS[kind], record.reason), record.reason
    injured.note_finished()
    survived = injured.run() == 0 and injured.whole() == {0, 1, 3, 4, 5}
    card(injured.toll(f"a trial with {kind}", 1, survived))


@pytest.mark.parametrize("kind", ["nan", "no metric"])
def test_an_epoch_of_nan_or_without_the_metric_never_wins(tmp_path, card, kind):
    """What was good before it stands."""
    injured = Injured(tmp_path)
    injured.harm(kind, epoch=2)
    assert injured.run() == 0
    record = injured.records()[2]
    assert (record.state, record.epoch) == (TrialState.COMPLETE, 1)
    card(injured.toll(f"a trial with {kind}", 1, injured.whole() == {0, 1, 3, 4, 5}))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [*REASONS, "nan", "no metric"])
def test_a_bad_trial_of_bare_optuna(tmp_path, card, kind):
    """An exception ends the process; started again it goes on with the others."""
    bare = BareOptuna(tmp_path)
    bare.harm(kind, epoch=2)
    code = bare.run()
    bare.run()
    card(bare.toll(f"a trial with {kind}", 1, code == 0 and len(bare.whole()) >= bare.trials))
