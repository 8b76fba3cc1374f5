from __future__ import annotations

import errno
import os
import resource
import sqlite3

import pytest
import torch
from torch import nn

from hpometrics import Binary, ListObjective, Reported
from hpometrics.backends.optuna.storage import storing
from hpometrics.exceptions import DiskError
from hpometrics.records._files import atomic_write, check_room, draft_of
from hpometrics.records.epoch_log import EpochLog, read_trial
from hpometrics.records.trial_record import EpochRecord, TrialState


def refuse(descriptor):
    """Be `os.fsync` of a disk that takes nothing more."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def full(monkeypatch):
    """A disk that takes nothing more."""
    monkeypatch.setattr(os, "fsync", refuse)


TOLD = r"cannot be written: No space left on device; \d+ bytes are free there, earlier records are kept"


def test_a_file_that_cannot_be_written_is_named(tmp_path, full):
    """With what is free on its disk; the old file stands, no draft is left."""
    path = tmp_path / "best.yaml"
    path.write_text("old")
    with pytest.raises(DiskError, match=f"best.yaml: {TOLD}"), atomic_write(path) as file:
        file.write(b"new")
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("best.yaml", "old")]


def test_a_disk_with_no_room_for_a_file_is_noticed_before_a_trial(tmp_path):
    """Though it takes a few bytes; nothing is left there."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**15, hard))
    try:
        with pytest.raises(DiskError, match=r"\.room: cannot be written: File too large"):
            check_room(tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    check_room(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_epoch_that_cannot_be_written_is_an_error(tmp_path, full):
    """Of the disk and of nothing else."""
    log = EpochLog(tmp_path)
    with pytest.raises(DiskError, match=f"epochs.jsonl: {TOLD}"):
        log.append(EpochRecord(0, {"auc": 0.5}))
    with pytest.raises(DiskError, match=TOLD):
        log.close()
    log.close()


def test_a_study_that_cannot_be_written_is_an_error_of_the_disk():
    """The deepest cause is told."""
    with pytest.raises(DiskError, match="the study cannot be read or written: disk I/O error"), storing():
        raise sqlite3.OperationalError("disk I/O error")


class Telling:
    """A logger that writes to a disk or a server of its own, which ends with an error."""

    def __init__(self, error):
        self._error = error

    def begin(self, run):
        """Begin well."""

    def epoch(self, run):
        """Fail."""
        raise self._error

    def end(self, run):
        """End well."""


def learn(params, run):
    """Two epochs, of which all is kept that a run can keep; the second trial fails."""
    layer = nn.Linear(1, 1)
    run.restore(layer=layer)
    for _ in run.epochs(2):
        run.update(logits=torch.tensor([0.1, params["lr"]]), target=torch.tensor([0, 1]))
        run.checkpoint(layer=layer)
    if params["lr"] == 0:
        raise ValueError("nothing learned")


def search(directory, loggers=("csv", "table", "tensorboard")):
    """Two trials, the second of which fails."""
    facts = {"metric": "roc_auc", "output": Binary(), "directory": directory, "loggers": loggers}
    return ListObjective(learn, [{"lr": 0.5}, {"lr": 0}], **facts)


FILES = [
    "0000/trial.json", "0000/statistics.jsonl", "0000/.trainstats", "0000/epochs.csv",
    "0000/report.txt", "0000/checkpoints/epoch-0000.pt", "0001/error.txt",
]  # fmt: skip


@pytest.mark.parametrize("name", FILES)
def test_whatever_file_of_a_trial_has_no_room_no_trial_fails_for_it(tmp_path, name):
    """The search ends with the name of the file; with room again every trial comes to its own end."""
    file = tmp_path / "trials" / name
    file.parent.mkdir(parents=True)
    for path in (file, draft_of(file)):
        path.symlink_to("/dev/full")
    if file.name == "trial.json":
        file.unlink()  # it is read first
    with pytest.raises(DiskError, match=f"{file.name}: cannot be written: No space left on device"):
        search(tmp_path).run()
    records = [read_trial(path) for path in (tmp_path / "trials").iterdir()]
    assert not [one for one in records if one and one.state is TrialState.FAILED and one.params["lr"]]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ECONNREFUSED])
def test_a_logger_without_room_ends_the_search_and_one_without_a_server_fails_its_trial(tmp_path, number):
    """An own logger, as the file writer of TensorBoard, says it by the number of its error."""
    loggers = [Telling(OSError(number, os.strerror(number)))]
    if number == errno.ECONNREFUSED:
        assert search(tmp_path, loggers).run()[0].state is TrialState.FAILED
        return
    with pytest.raises(DiskError, match=f"the logger Telling .* {os.strerror(number)}"):
        search(tmp_path, loggers).run()
    assert read_trial(tmp_path / "trials/0000").state is TrialState.INTERRUPTED


def test_a_search_over_a_list_ends_when_its_disk_is_full(tmp_path, monkeypatch):
    """The trial has not failed: whoever goes on runs it again."""

    def train(params, run):
        for _ in run.epochs(1):
            run.log(cost=params["lr"])
            monkeypatch.setattr(os, "fsync", refuse)

    objective = ListObjective(train, [{"lr": 0.5}], metric=Reported("cost", "minimize"), directory=tmp_path)
    with pytest.raises(DiskError, match=TOLD):
        objective.run()
    assert read_trial(tmp_path / "trials/0000").state is TrialState.RUNNING
