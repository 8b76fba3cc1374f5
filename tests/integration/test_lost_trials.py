"""What a run directory has lost or was given beside a study that knows better: a run says and mends it."""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from reading_commands import HOME
from sample_sweeps import SWEEP, changed

from hpometrics.records.trial_record import TrialRecord
from hpometrics.results.run_directory import RunDirectory

JOURNAL = f"{SWEEP}backend: {{optuna: {{storage: journal}}}}\n"
OTHER = "was inconsistent with the trials"
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
        f"{HOME}/trials has lost all 4 trials: they are restored from the study, which has only "
        "roc_auc of each epoch"
    ]
    assert facts_of(home.records()) == before
    more = sweep(changed("trials: 4", "trials: 6", text))
    assert more.exit_code == 0 and " lost" not in more.stderr, more.output
    assert "# engine params evaluated: 6 " in more.stdout
    assert facts_of(home.records())[:4] == before


TPE = changed("sampler: random", "sampler: tpe")
WRONG = {
    "no number": ("UPDATE trial_params SET param_value = 'nan'", "was damaged"),
    "no option": ("UPDATE trial_params SET param_value = 7", "was damaged"),
    "a number of another": ("UPDATE trial_params SET param_value = 0.01 WHERE param_name = 'lr'", OTHER),
    "none": ("DROP TABLE trial_params", OTHER),
    "one less": ("DELETE FROM trial_params WHERE param_name = 'size'", OTHER),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_study_with_params_that_its_trials_do_not_have_is_made_again(what, swept, sweep):
    """From the records, which is said once; the sampler then learns from what was trained."""
    swept(TPE)
    home = RunDirectory(Path(HOME).absolute())
    before = facts_of(home.records())
    script, why = WRONG[what]
    with closing(sqlite3.connect(home.study)) as connection:
        connection.executescript(script)
    text = changed("trials: 4", "trials: 6", TPE)
    result = sweep(text)
    assert result.exit_code == 0, (result.output, result.exception)
    assert f"{HOME}/study.db {why}, rebuilt from the trials; the old one is kept as study.db.damaged-1" in (
        result.stderr
    )
    assert "# engine params evaluated: 6 " in result.stdout
    assert facts_of(home.records())[:4] == before
    assert "made again" not in sweep(text).stderr


def test_a_journal_with_params_that_its_trials_do_not_have_is_made_again(swept, sweep):
    """As a study in SQLite."""
    text = changed("sampler: random", "sampler: tpe", JOURNAL)
    swept(text)
    home = RunDirectory(Path(HOME).absolute())
    drawn = re.compile(r'("param_name": ?"lr", ?"param_value_internal": ?)[^,]+')
    content, count = drawn.subn(r"\g<1>0.01", home.journal.read_text())
    assert count == 4
    home.journal.write_text(content)
    result = sweep(changed("trials: 4", "trials: 6", text))
    assert result.exit_code == 0, (result.output, result.exception)
    assert f"{HOME}/study.journal {OTHER}, rebuilt from the trials" in result.stderr
    assert "# engine params evaluated: 6 " in result.stdout


@STORED
def test_a_run_goes_on_beside_directories_in_the_place_of_its_locks(text, swept, sweep):
    """Each is put aside with a remark."""
    swept(text)
    home = Path(HOME)
    locks = [home / ".lock", home / ".locks/0001", *home.glob("study.*.lock")]
    assert len(locks) == 4 - (text == SWEEP)
    for path in locks:
        path.unlink(missing_ok=True)
        path.mkdir()
    result = sweep(changed("trials: 4", "trials: 5", text))
    assert result.exit_code == 0, (result.output, result.exception)
    assert all(f"{path}: is a directory, kept as {path.name}.damaged-1" in result.stderr for path in locks)
    assert "# engine params evaluated: 5 " in result.stdout


@STORED
def test_a_copy_of_a_trial_is_not_counted(text, swept, sweep):
    """Under a number that no trial has yet, and in the place of another trial."""
    swept(text)
    home = RunDirectory(Path(HOME).absolute())
    before = facts_of(home.records())
    shutil.rmtree(home.trial(2))
    for number in (2, 9):
        shutil.copytree(home.trial(1), home.trial(number))
    result = sweep(text)
    assert result.exit_code == 0, (result.output, result.exception)
    assert f"{HOME}/trials/0009 holds the record of trial 1, kept as 0009.copy-1" in result.stderr
    assert f"{HOME}/trials/0002 holds the record of trial 1, kept as 0002.copy-1" in result.stderr
    assert "made again" not in result.stderr
    assert "# engine params evaluated: 4 " in result.stdout
    assert facts_of(home.records()) == before
    assert "copy" not in sweep(text).stderr
