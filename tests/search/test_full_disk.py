from __future__ import annotations

import errno
import os
import resource
import sqlite3

import pytest

from hpometrics import ListObjective, Reported
from hpometrics.exceptions import DiskError
from hpometrics.search.atomic import atomic_write, check_room
from hpometrics.search.epoch_log import EpochLog, read_trial
from hpometrics.search.optuna_backend import storing
from hpometrics.search.record import EpochRecord, TrialState


def refuse(descriptor):
    """Be `os.fsync` of a disk that takes nothing more."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.fixture
def full(monkeypatch):
    """A disk that takes nothing more."""
    monkeypatch.setattr(os, "fsync", refuse)


TOLD = r"cannot be written: No space left on device; \d+ bytes are free there, what is recorded stands"


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
