from __future__ import annotations

import json
import math
import sqlite3
from dataclasses import replace

import pytest

from hpometrics import MAXIMIZE, Choice, Float, Space
from hpometrics.backends.optuna.restore import is_sound, restore
from hpometrics.backends.optuna.storage import close_storage, open_storage
from hpometrics.backends.optuna.study import open_study, study_records
from hpometrics.backends.optuna.trial_queue import claim
from hpometrics.records.epoch_log import EpochLog, read_trial
from hpometrics.records.recovery import StudyTrial, find_repair, quarantine_study
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState, write_trial

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


@pytest.mark.parametrize(
    ("reason", "reported"), [("nothing was measured", {0, 2}), ("no positives", {0, 1, 2})]
)
def test_an_epoch_without_a_batch_is_not_reported_to_a_restored_study(study, reason, reported):
    """No pruner judges it; an epoch whose value is undefined counts as it did in the search."""
    epochs = list(trial(0).epochs)
    epochs[1] = EpochRecord(1, {"auc": math.nan}, reasons={"auc": reason})
    restore(study, [replace(trial(0), value=0.7, epoch=2, epochs=tuple(epochs))], SPACE)
    assert study.trials[0].intermediate_values.keys() == reported


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
    aside = quarantine_study(path)
    assert aside.name == "study.db.damaged-1" and not list(tmp_path.glob("study.db-*"))


@pytest.fixture
def place(tmp_path):
    """The directory of trial 0."""
    return tmp_path / "0000"


def mended(place, known=None, params=None):
    """Mend a trial, of which the study has a record, and say what was done; None if nothing was damaged."""
    stored = None if known is None else StudyTrial(known, params or known.params)
    repair = find_repair(place, stored, "auc", SPACE)
    return None if repair is None else repair()


@pytest.mark.parametrize("state", [TrialState.COMPLETE, TrialState.RUNNING])
def test_what_is_sound_is_left_alone(place, state):
    """A torn last line of an open trial is what a killed process leaves."""
    path = written(place, trial(0, state))
    assert mended(place, trial(0, state)) is None
    if state is TrialState.RUNNING:
        path.write_text(path.read_text() + '{"epoch": 3')
        assert mended(place, trial(0, state)) is None


def test_an_open_trial_keeps_what_is_before_the_damage(place):
    """The rest is kept beside it under another name."""
    path = written(place, trial(0, TrialState.RUNNING))
    garble(path, 1)
    assert mended(place) == (
        f"{path}:2: not an epoch record: 'garbage': 1 epoch is left, kept is epochs.jsonl.damaged-1"
    )
    assert [epoch.epoch for epoch in read_trial(place).epochs] == [0]
    assert len((place / "epochs.jsonl.damaged-1").read_text().splitlines()) == 3


@pytest.mark.parametrize("known", [trial(0), None])
def test_a_finished_trial_has_the_damaged_epoch_from_the_study_or_from_its_value(place, known):
    """The picked epoch is never gone: its value stands in `trial.json` too."""
    garble(written(place, trial(0)), 1)
    mended(place, known)
    after = read_trial(place)
    assert [epoch.number("auc") for epoch in after.epochs] == [0.5, 0.9, 0.7]
    assert after.picked_values == {"auc": 0.9}


@pytest.mark.parametrize("lines", [0, 1, 2])
def test_a_finished_trial_whose_epochs_are_cut_or_lost_has_them_from_the_study(place, lines):
    """As of a first attempt; which of them have the metric alone is said."""
    path = written(place, trial(0))
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:lines]))
    numbers = ", ".join(map(str, range(lines, 3)))
    assert mended(place, trial(0)).endswith(f"; of {numbers} auc alone")
    epochs = read_trial(place).epochs
    assert [(epoch.number("auc"), epoch.attempt) for epoch in epochs] == [(0.5, 1), (0.9, 1), (0.7, 1)]
    assert mended(place, trial(0)) is None


def test_a_value_that_contradicts_the_end_of_its_trial_is_not_kept(place):
    """That of the picked epoch decides the winner."""
    path = written(place, trial(0))
    epochs = [EpochRecord.from_line(line) for line in path.read_text().splitlines()]
    epochs[1] = epochs[1].with_numbers({"auc": 0.8})
    path.write_text("".join(f"{epoch.to_line()}\n" for epoch in epochs))
    assert "is damaged: 3 epochs are left" in mended(place)
    assert read_trial(place).picked_values == {"auc": 0.9}


@pytest.mark.parametrize("change", [("0.25", "0.75"), ('"number": 0', '"number": 1000000000'), ("{", "")])
def test_a_finished_trial_has_its_facts_from_the_study(place, change):
    """A digit that was turned and a number of another trial are damage too; what was there is kept."""
    written(place, trial(0))
    facts = place / "trial.json"
    facts.write_text(facts.read_text().replace(*change))
    text = f"{facts} is damaged, kept as trial.json.damaged-1: trial 0 is restored from the study"
    assert mended(place, trial(0)) == text
    assert read_trial(place) == trial(0) and mended(place, trial(0)) is None


def test_facts_that_have_lost_their_digest_and_another_field_are_damaged(place):
    """A file of a version that knew no digest has every field that it knew."""
    written(place, trial(0))
    facts = place / "trial.json"
    told = json.loads(facts.read_text())
    before = told.keys() - {"digest", "format", "machine", "targets", "fault", "ended", "gpus", "cost"}
    facts.write_text(json.dumps({name: told[name] for name in before}))
    assert mended(place, trial(0)) is None
    facts.write_text(json.dumps({name: told[name] for name in told.keys() - {"digest"}}))
    assert "is restored from the study" in mended(place, trial(0))
    for lost in before:
        facts.write_text(json.dumps({name: told[name] for name in before - {lost}}))
        assert "is restored from the study" in mended(place, trial(0)), lost
        assert read_trial(place) == trial(0)


def test_a_finished_trial_whose_directory_is_lost_is_back_from_the_study(place):
    """Its result counts; of its epochs the metric is left."""
    assert mended(place, trial(0)).startswith(f"{place} is lost: trial 0 is restored")
    assert read_trial(place) == trial(0)


def test_an_open_trial_that_is_to_have_other_params_begins_anew(place):
    """Its record is kept; so it is where the study is lost and the space has no such params."""
    for known, params in ((trial(0, TrialState.RUNNING), {"lr": 0.5, "width": 9}), (None, None)):
        lr = 0.25 if known else 7.0
        written(place, trial(0, TrialState.RUNNING, lr))
        assert "it restarts with other params" in mended(place, known, params)
        assert not place.exists()


def test_a_trial_that_nobody_knows_begins_anew(tmp_path):
    """Its directory is put aside: the epochs are of params that are lost."""
    directory = tmp_path / "0002"
    written(directory, trial(2))
    (directory / "trial.json").write_text(json.dumps([]))
    assert mended(directory).endswith("is damaged, kept as 0002.damaged-1: the trial restarts")
    assert [path.name for path in tmp_path.iterdir()] == ["0002.damaged-1"]


@pytest.mark.parametrize("known", [None, trial(2), trial(2, TrialState.RUNNING)])
def test_a_directory_that_holds_the_record_of_another_trial_is_put_aside(tmp_path, known):
    """Whole, with its epochs: what the study knows of the trial of its name stands instead."""
    directory = tmp_path / "0002"
    written(directory, trial(1, lr=0.75))
    text = mended(directory, known)
    assert text.startswith(f"{directory} holds the record of trial 1, kept as 0002.copy-1")
    assert read_trial(tmp_path / "0002.copy-1").params["lr"] == 0.75
    if known is not None and known.state.finished:
        assert "trial 2 is restored from the study" in text
        assert read_trial(directory) == known
    else:
        assert not directory.exists()
    assert mended(directory, known) is None
