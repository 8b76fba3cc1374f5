from __future__ import annotations

import json
import sqlite3

import pytest

from hpometrics import MAXIMIZE, Choice, Float, Space
from hpometrics.search.epoch_log import EpochLog, read_trial
from hpometrics.search.mending import mend_trial
from hpometrics.search.optuna_backend import claim, close_storage, open_storage, open_study, study_records
from hpometrics.search.optuna_restore import is_sound, put_aside_study, restore
from hpometrics.search.record import EpochRecord, TrialRecord, TrialState, write_trial

SPACE = Space({"lr": Float(0, 1), "size": Choice({"small": {"width": 1}, "large": {"width": 9}})})


def trial(number, state=TrialState.COMPLETE, lr=0.25):
    """A trial of three epochs, best in the second."""
    epochs = tuple(EpochRecord(epoch, {"auc": value}) for epoch, value in enumerate([0.5, 0.9, 0.7]))
    value, epoch = (0.9, 1) if state is TrialState.COMPLETE else (None, None)
    return TrialRecord(number, {"lr": lr, "width": 9}, state, value, epoch, epochs)


@pytest.fixture
def study(tmp_path):
    """A new study on disk."""
    storage = open_storage(tmp_path / "study.db")
    yield open_study(storage, "sweep", {"auc": MAXIMIZE})
    close_storage(storage)


def written(directory, record):
    """Write a trial, and return the path of its epochs."""
    write_trial(directory, record)
    log = EpochLog(directory)
    for epoch in record.epochs:
        log.append(epoch)
    log.close()
    return log.path


def garble(path, line):
    """Overwrite a line."""
    lines = path.read_text().splitlines()
    lines[line] = "garbage"
    path.write_text("\n".join([*lines, ""]))


def test_a_study_is_restored_trial_by_trial(study):
    """Finished trials are as they were, an open one and one without a record wait, each under its number."""
    failed = TrialRecord(3, {"lr": 0.5, "width": 1}, TrialState.FAILED, reason="ValueError: no")
    restore(study, [trial(0), trial(2, TrialState.RUNNING, lr=0.75), failed], SPACE)
    first, unknown, waiting, last = study_records(study)
    assert (first.state, first.value, first.epoch, first.params) == (
        TrialState.COMPLETE,
        0.9,
        1,
        trial(0).params,
    )
    assert [epoch.number("auc") for epoch in first.epochs] == [0.5, 0.9, 0.7]
    assert (unknown.state, waiting.state) == (TrialState.WAITING, TrialState.WAITING)
    assert (last.state, last.reason) == (TrialState.FAILED, "ValueError: no")
    assert study.trials[0].params == {"lr": 0.25, "size": "large"}
    claimed = claim(study, (2).__eq__)
    assert SPACE.suggest(claimed) == {"lr": 0.75, "width": 9}


def test_a_trial_of_another_space_is_restored_without_params(study):
    """Its result counts; a sampler cannot learn from it."""
    restore(study, [trial(0, lr=7.0)], SPACE)
    assert study.trials[0].params == {}
    assert study_records(study)[0].params == {"lr": 7.0, "width": 9}


def test_a_study_is_sound_or_put_aside(tmp_path, study):
    """A page of zeros is found; what SQLite keeps beside the file goes with it."""
    path = tmp_path / "study.db"
    assert is_sound(path)
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(path.read_bytes())
    content[8192:16384] = bytes(8192)
    path.write_bytes(content)
    assert not is_sound(path)
    aside = put_aside_study(path)
    assert aside.name == "study.db.damaged-1" and not list(tmp_path.glob("study.db-*"))


def test_an_open_trial_keeps_what_is_before_the_damage(tmp_path):
    """The rest is kept beside it under another name."""
    path = written(tmp_path, trial(0, TrialState.RUNNING))
    garble(path, 1)
    assert mend_trial(tmp_path, None, "auc") == (
        f"{path}:2: no epoch record: 'garbage': 1 epochs are left, kept is epochs.jsonl.damaged-1"
    )
    assert [epoch.epoch for epoch in read_trial(tmp_path).epochs] == [0]
    assert len((tmp_path / "epochs.jsonl.damaged-1").read_text().splitlines()) == 3


@pytest.mark.parametrize("known", [trial(0), None])
def test_a_finished_trial_has_the_damaged_epoch_from_the_study_or_from_its_value(tmp_path, known):
    """The picked epoch is never gone: its value stands in `trial.json` too."""
    garble(written(tmp_path, trial(0)), 1)
    mend_trial(tmp_path, known, "auc")
    mended = read_trial(tmp_path)
    assert [epoch.number("auc") for epoch in mended.epochs] == [0.5, 0.9, 0.7]
    assert mended.picked_values == {"auc": 0.9}


def test_a_trial_none_of_whose_epochs_reads_has_them_from_the_study(tmp_path):
    """As of a first attempt."""
    path = written(tmp_path, trial(0))
    for line in range(3):
        garble(path, line)
    mend_trial(tmp_path, trial(0), "auc")
    epochs = read_trial(tmp_path).epochs
    assert [(epoch.number("auc"), epoch.attempt) for epoch in epochs] == [(0.5, 1), (0.9, 1), (0.7, 1)]


def test_a_finished_trial_has_its_facts_from_the_study(tmp_path):
    """The file that did not read is kept."""
    written(tmp_path, trial(0))
    (tmp_path / "trial.json").write_text("{")
    told = mend_trial(tmp_path, trial(0), "auc")
    assert told.endswith("trial.json is damaged, kept as trial.json.damaged-1")
    assert read_trial(tmp_path) == trial(0)


def test_a_trial_that_nobody_knows_begins_anew(tmp_path):
    """Its directory is put aside: the epochs are of params that are lost."""
    directory = tmp_path / "0002"
    written(directory, trial(2))
    (directory / "trial.json").write_text(json.dumps([]))
    assert "the trial begins anew, kept is 0002.damaged-1" in mend_trial(directory, None, "auc")
    assert [path.name for path in tmp_path.iterdir()] == ["0002.damaged-1"]
