"""A trial is recorded with its conditions and its end, whatever train returns or raises."""

from __future__ import annotations

import math
import os
import stat
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import (
    SpaceError,
)
from hpometrics.records.epoch_log import read_epochs, read_trial
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Reported, RunSpec
from hpometrics.run.reporter import ListReporter
from hpometrics.run.trial import run_trial, versions

NAN = math.nan
LOSS = Reported("loss", MINIMIZE)


def test_a_trial_is_recorded_with_its_conditions(tmp_path):
    """Params as received, seed, threads, versions, values of every epoch: on disk and in the record."""
    received = {}

    def train(params, run):
        received.update(params)
        params["lr"] = "mine now"
        assert torch.get_num_threads() == 1
        for _ in run.epochs(2):
            run.log(loss=torch.rand(()), again=run.params["lr"])

    spec = RunSpec(LOSS, threads=1)
    reporter = ListReporter(number=3)
    record = run_trial(train, {"lr": 0.1, "layers": [1]}, spec, reporter, directory=tmp_path, seed=5)
    assert record.params == {"lr": 0.1, "layers": [1]} == received
    assert (record.state, record.number, record.seed, record.threads) == (TrialState.COMPLETE, 3, 5, 1)
    assert {"python", "torch"} <= set(record.versions)
    assert record.picked_values["again"] == 0.1
    assert read_trial(tmp_path) == record and read_epochs(tmp_path) == record.epochs
    again = run_trial(train, {"lr": 0.1, "layers": [1]}, spec, ListReporter(), seed=5)
    assert again.value == record.value


def test_the_version_of_a_host_is_recorded_from_when_it_is_loaded(monkeypatch):
    """In a notebook the first search may be over a list, and the next one on Ray."""
    versions(numbered=True)
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(__version__="9.9"))
    assert versions(numbered=True)["ray"] == "9.9"


def test_the_names_of_its_files_are_on_disk_with_the_first_epoch(tmp_path, monkeypatch):
    """A line of `epochs.jsonl` that is there by itself would be lost with the name of the file."""
    named, forced = [], os.fsync

    def note(descriptor):
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            named.append(set(os.listdir(descriptor)))
        forced(descriptor)

    def train(params, run):
        for epoch in run.epochs(3):
            assert named == [{"trial.json", "epochs.jsonl"}][:epoch]
            run.log(loss=1.0 - epoch)

    if os.name != "posix":
        pytest.skip("the system forces no directory to the disk")
    monkeypatch.setattr(os, "fsync", note)
    record = run_trial(train, {}, RunSpec(metric=LOSS), ListReporter(), directory=tmp_path / "0000")
    assert record.state is TrialState.COMPLETE
    assert len(named) == 2


@pytest.mark.parametrize(
    ("error", "state", "reason"),
    [
        (RuntimeError("shape mismatch"), TrialState.FAILED, "RuntimeError: shape mismatch"),
        (KeyboardInterrupt(), TrialState.INTERRUPTED, "KeyboardInterrupt"),
        (SystemExit(3), TrialState.FAILED, "SystemExit: 3"),
    ],
)
def test_how_a_trial_ended_is_recorded_with_the_reason(tmp_path, error, state, reason):
    """A failure is kept and swallowed, an interruption is kept and goes on; epochs before it stay."""

    def train(params, run):
        for epoch in run.epochs(3):
            if epoch == 1:
                raise error
            run.log(loss=0.5)

    if state is TrialState.INTERRUPTED:
        with pytest.raises(type(error)):
            run_trial(train, {}, RunSpec(LOSS), ListReporter(), directory=tmp_path)
    else:
        run_trial(train, {}, RunSpec(LOSS), ListReporter(), directory=tmp_path)
    record = read_trial(tmp_path)
    assert (record.state, record.reason, record.value, len(record.epochs)) == (state, reason, 0.5, 1)


def test_what_train_returns_is_no_report():
    """As an objective of Optuna would return its value: the reason says what to do instead."""
    record = run_trial(lambda params, run: 0.7, {}, RunSpec(LOSS), ListReporter())
    assert (record.state, record.reason) == (
        TrialState.FAILED,
        "RunError: train reported no epoch and returned 0.7, but no returned value is used; report loss by "
        "run.log(...), or call run.update(...), which measures it",
    )


def test_a_generator_trains_nothing():
    """It would wait for someone who asks it for its values; so would a coroutine."""

    def generator(params, run):
        run.log(loss=1.0)
        yield

    async def coroutine(params, run):
        run.log(loss=1.0)

    for train, what in ((generator, "a generator"), (coroutine, "a coroutine")):
        record = run_trial(train, {}, RunSpec(LOSS), ListReporter())
        assert record.reason == (
            f"RunError: train is {what}, so its body did not run; write train(params, run) without yield or "
            "async"
        )


def test_params_that_cannot_be_written_down_are_refused_before_training(tmp_path):
    """A tuple would come back as a list; where nothing is written, anything goes."""
    spec, odd = RunSpec(LOSS), {"layers": (8, 8)}
    with pytest.raises(SpaceError, match=r"\(8, 8\)"):
        run_trial(lambda _, run: run.log(loss=1.0), odd, spec, ListReporter(), directory=tmp_path)
    assert run_trial(lambda _, run: run.log(loss=1.0), odd, spec, ListReporter()).params == odd


def test_a_seed_that_torch_refuses_keeps_no_other_trial_from_its_conditions():
    """The next trial is again alone at work, so the current folder is restored after it."""
    with pytest.raises((ValueError, RuntimeError)):
        run_trial(lambda _, run: run.log(loss=1.0), {}, RunSpec(LOSS), ListReporter(), seed=2**70)
    folder = Path.cwd()

    def train(params, run):
        os.chdir("/")
        run.log(loss=1.0)

    run_trial(train, {}, RunSpec(LOSS), ListReporter())
    assert Path.cwd() == folder


def test_a_diverged_trial_has_failed():
    """A run without one finite epoch is no complete trial; the record says why."""
    record = run_trial(lambda _, run: run.log(loss=NAN), {}, RunSpec(LOSS), ListReporter())
    assert record.state is TrialState.FAILED
    assert record.reason == "NoFiniteValueError: loss: none of 1 epochs has a finite value: the value is nan"
