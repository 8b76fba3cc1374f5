"""What a run directory has lost or was given, beside a study that knows better: the run says it and mends it."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from reading_commands import HOME
from sample_sweeps import SWEEP, changed

from hpometrics.search.record import TrialRecord
from hpometrics.sweep.directory import RunDirectory

JOURNAL = f"{SWEEP}backend: {{optuna: {{storage: journal}}}}\n"
STORED = pytest.mark.parametrize("text", [SWEEP, JOURNAL], ids=["sqlite", "journal"])


def facts_of(records: list[TrialRecord]) -> list[tuple[object, ...]]:
    """What decides a sweep."""
    return [(one.number, one.state, one.value, one.epoch, dict(one.params)) for one in records]


def whole(trials: Path) -> None:
    """Lose the folder."""
    shutil.rmtree(trials)


def content(trials: Path) -> None:
    """Lose what is in it."""
    for path in trials.iterdir():
        shutil.rmtree(path)


def replaced(trials: Path) -> None:
    """Lose it to a file."""
    shutil.rmtree(trials)
    trials.touch()


@STORED
@pytest.mark.parametrize("lose", [whole, content, replaced])
def test_trials_that_are_all_lost_are_back_from_the_study(text, lose: Callable, swept, sweep):
    """In one line, once; none is run again, and a larger budget has its other trials."""
    swept(text)
    home = RunDirectory(Path(HOME).absolute())
    before = facts_of(home.records())
    lose(home.trials)
    result = sweep(text)
    assert result.exit_code == 0, result.output
    lines = [line for line in result.stderr.splitlines() if " lost" in line]
    assert lines == [
        f"{HOME}/trials has lost all 4 trials: they are written again as the study has them, "
        "of their epochs roc_auc alone"
    ]
    assert facts_of(home.records()) == before
    more = sweep(changed("trials: 4", "trials: 6", text))
    assert more.exit_code == 0 and " lost" not in more.stderr, more.output
    assert "# engine params evaluated: 6 " in more.stdout
    assert facts_of(home.records())[:4] == before
