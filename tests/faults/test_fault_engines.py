from __future__ import annotations

import re

import pytest
from bare_optuna import BareOptuna
from injured import Injured

from hpometrics.records.trial_record import TrialState

REASONS = {
    "exception": "ValueError: harmed",
    "sys.exit": "SystemExit: 3",
    "out of memory": "MemoryError",
    "a canceled task": "CancelledError: harmed",
    "a BaseException": "Stop: harmed",
    "a group": r"BaseExceptionGroup: harmed \(1 sub-exception\)",
    "GeneratorExit": "GeneratorExit",
    "an exception without text": "Mute: its text cannot be read: ValueError: no text",
    "a text that no file takes": r"ValueError: \\ud800",
}


WITHOUT_A_VALUE = ("nan", "no metric")


def test_bad_trials_cost_only_themselves(tmp_path, card):
    """They fail by name, or keep what was good before an epoch without a value, which never wins.

    The sweep does all of its budget; run again, it does nothing.
    """
    kinds = (*REASONS, *WITHOUT_A_VALUE)
    injured = Injured(tmp_path, trials=len(kinds) + 3)
    injured.harm_all(
        [(number, 2 if kind in WITHOUT_A_VALUE else 1, kind) for number, kind in enumerate(kinds, 2)]
    )
    assert injured.run() == 0, injured.err()
    for kind, record in zip(kinds, injured.records()[2:-1], strict=True):
        if kind in WITHOUT_A_VALUE:
            assert (record.state, record.epoch) == (TrialState.COMPLETE, 1)
        else:
            assert record.state is TrialState.FAILED
            assert re.fullmatch(REASONS[kind], record.reason), record.reason
    injured.note_finished()
    survived = injured.run() == 0 and injured.whole() == {0, 1, injured.trials - 1}
    for number, kind in enumerate(kinds, 2):
        card(injured.toll(f"a trial with {kind}", 1, survived, trials=[number]))


@pytest.mark.thorough
@pytest.mark.parametrize("kind", [*REASONS, *WITHOUT_A_VALUE])
def test_a_bad_trial_of_bare_optuna(tmp_path, card, kind):
    """An exception ends the process; started again it goes on with the others."""
    bare = BareOptuna(tmp_path)
    bare.harm(kind, epoch=2)
    code = bare.run()
    bare.run()
    card(bare.toll(f"a trial with {kind}", 1, code == 0 and len(bare.whole()) >= bare.trials))
