from __future__ import annotations

import errno
import os
import random
import signal
from pathlib import Path

import numpy as np
import optuna
import pytest
import torch
from forked import Forked

from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.backends.ray.reporter import HandedOn, TuneReporter
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import DiskError, RecordError, RunError
from hpometrics.metrics.collection import MetricCollection
from hpometrics.metrics.features import Category
from hpometrics.records.epoch_log import read_epochs, read_trial
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Reported, Run, RunSpec
from hpometrics.run.checkpoint import (
    Checkpoints,
    copy_states,
    load_checkpoint,
    put_states,
    random_states,
    seed_all,
    set_random_states,
)
from hpometrics.run.reporter import ListReporter
from hpometrics.run.trial import run_trial

LOSS = Reported("loss", MINIMIZE)


def engine(directory: Path, kill_in: int, counts_steps: bool = False) -> None:
    """Train a trial; the process dies at the end of the body of epoch `kill_in`."""

    def train(params, run):
        """Dropout, numpy and python draws in every epoch: any lost random state shows in the values."""
        model = torch.nn.Sequential(torch.nn.Linear(4, 16), torch.nn.Dropout(0.5), torch.nn.Linear(16, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
        schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
        (directory / "started").write_text(
            str(run.restore(model=model, optimizer=optimizer, schedule=schedule))
        )
        for _ in run.steps(18, every=3) if counts_steps else run.epochs(6):
            for _ in range(1 if counts_steps else 3):
                x = torch.randn(8, 4) + torch.from_numpy(np.random.rand(8, 4)).float()
                loss = (model(x) - x.sum(1, keepdim=True)).square().mean() * random.random()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if not run.due:
                continue
            schedule.step()
            run.log(loss=loss)
            run.checkpoint(model=model, optimizer=optimizer, schedule=schedule)
            if len(run.history) == kill_in:
                os.kill(os.getpid(), signal.SIGKILL)

    spec = RunSpec(LOSS, threads=1)
    record = run_trial(train, {"lr": 0.05}, spec, ListReporter(), directory=directory, seed=11)
    (directory / "ended").write_text(f"{record.state} {record.value}")


@pytest.mark.parametrize("counts_steps", [False, True])
def test_a_killed_trial_goes_on_to_the_very_values_of_an_uninterrupted_one(tmp_path, counts_steps):
    """Killed in epoch 3 (of 0 to 5) before it closed: goes on at 3, the same to the last digit.

    The other trial, which is not killed, counts epochs of three steps.
    """
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    undisturbed = Forked(tmp_path, engine, whole, -1)
    first = Forked(tmp_path, engine, killed, 3, counts_steps)
    assert (undisturbed.ended(), first.ended()) == (0, -signal.SIGKILL)
    assert len(read_epochs(killed)) == 3
    assert read_trial(killed).state is TrialState.RUNNING
    assert Forked(tmp_path, engine, killed, -1, counts_steps).ended() == 0
    assert [(home / "started").read_text() for home in (whole, killed)] == ["0", "3"]
    assert (killed / "ended").read_text() == (whole / "ended").read_text()
    want, got = read_epochs(whole), read_epochs(killed)
    assert [e.values for e in got] == [e.values for e in want]
    assert [e.attempt for e in got] == [1, 1, 1, 2, 2, 2]
    assert [e.step for e in got] == ([3, 6, 9, 12, 15, 18] if counts_steps else [None] * 6)


def losses(directory: Path, values: list[float], **facts) -> tuple[Run, ListReporter, int]:
    """A run in a directory that checkpoints a counter of its epochs."""
    reporter = ListReporter()
    run = Run(reporter, spec=RunSpec(LOSS, **facts), directory=directory)
    model = torch.nn.Linear(1, 1)
    done = run.restore(model=model)
    for epoch in run.epochs(len(values)):
        torch.nn.init.constant_(model.weight, float(epoch))
        run.log(loss=values[epoch])
        run.checkpoint(model=model)
        torch.nn.init.constant_(model.weight, -1.0)  # what is changed after the copy is not in it
    run.close()
    return run, reporter, done


def test_the_latest_and_the_picked_checkpoint_are_kept(tmp_path):
    """Epoch 1 is the best of four; its state and that of epoch 3 stay, the others go."""
    run, _, _ = losses(tmp_path, [0.4, 0.1, 0.3, 0.2])
    assert sorted(p.name for p in (tmp_path / "checkpoints").iterdir()) == ["epoch-0001.pt", "epoch-0003.pt"]
    content = load_checkpoint(run.best_checkpoint)
    assert (content["epoch"], content["states"]["model"]["weight"].item()) == (1, 1.0)


@pytest.mark.parametrize(
    ("keep", "kept", "done"),
    [("best", [1, 3], 4), ("last", [3], 4), ("all", [0, 1, 2, 3], 4), ("none", [], 0)],
)
def test_which_checkpoints_are_kept_is_a_choice(tmp_path, keep, kept, done):
    """Epoch 1 is the best of four; without a checkpoint a run that is made again begins again."""
    run, _, _ = losses(tmp_path, [0.4, 0.1, 0.3, 0.2], checkpoints=keep)
    names = sorted(path.name for path in tmp_path.glob("checkpoints/*"))
    assert names == [f"epoch-{epoch:04d}.pt" for epoch in kept]
    assert (run.best_checkpoint is not None) == (1 in kept)
    assert losses(tmp_path, [0.4, 0.1, 0.3, 0.2], checkpoints=keep)[2] == done


def keep_states(run: Run) -> None:
    """Train two epochs, a checkpoint in each."""
    for _ in run.epochs(2):
        run.log(loss=0.5)
        run.checkpoint(model=torch.nn.Linear(1, 1))


UNKEPT = "run.checkpoint saves nothing, because the run has no directory; pass directory="


@pytest.mark.parametrize("host", [None, optuna.trial.FixedTrial({})], ids=["none", "trial"])
def test_a_checkpoint_that_is_not_kept_is_told_once_for_each_run(host):
    """With what to do, and from the line that asks for it; every run tells it, not the first of a process."""
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match=UNKEPT) as told:
            keep_states(Run(host, metric=LOSS))
        assert [Path(one.filename).name for one in told] == ["test_checkpoint.py"]


def test_an_objective_without_a_directory_tells_that_no_checkpoint_is_kept(tmp_path):
    """Once for all its trials; one that has a directory, or wants no checkpoint, has nothing to tell."""
    for facts in ({"directory": tmp_path}, {"checkpoints": "none"}):
        objective = OptunaObjective(lambda params, run: keep_states(run), {}, metric=LOSS, **facts)
        objective.create_study().optimize(objective, n_trials=1)
    objective = OptunaObjective(lambda params, run: keep_states(run), {}, metric=LOSS)
    objective(optuna.trial.FixedTrial({}))  # a replay, of which nothing is saved in any case
    with pytest.warns(RuntimeWarning, match=UNKEPT) as told:
        objective.create_study().optimize(objective, n_trials=2)
    assert len(told) == 1


@pytest.mark.parametrize(
    ("host", "directory", "checkpoints", "kept"),
    [
        (None, False, "best", False),
        (None, True, "best", True),
        (None, True, "none", False),
        (TuneReporter(), False, "last", True),
        (TuneReporter(3), False, "best", True),
        (TuneReporter(3), False, "none", False),
        (TuneReporter(3, None, HandedOn(2, lambda epoch: None)), False, "best", False),
    ],
)
def test_a_run_knows_whether_it_keeps_checkpoints(tmp_path, host, directory, checkpoints, kept):
    """In its directory, or by Ray Tune; a member of a population has a directory."""
    home = tmp_path if directory else None
    run = Run(host, metric=LOSS, directory=home, checkpoints=checkpoints)
    assert run.keeps_checkpoints is kept
    run.close()


def test_no_such_choice_of_checkpoints():
    """Those there are are named."""
    with pytest.raises(RunError, match="checkpoints is best, last, all or none, got 'some'"):
        RunSpec(LOSS, checkpoints="some")


def test_a_run_that_begins_again_does_not_go_on_from_an_older_one(tmp_path):
    """It wrote two epochs without a checkpoint; one that an earlier attempt left is not its own."""
    losses(tmp_path, [0.4, 0.1, 0.2], checkpoints="all")
    with Run(spec=RunSpec(LOSS, checkpoints="all"), directory=tmp_path) as run:
        for _ in run.epochs(2):
            run.log(loss=0.9)
    assert losses(tmp_path, [0.4, 0.1, 0.2], checkpoints="all")[2] == 0


def test_a_restored_run_knows_its_past(tmp_path):
    """History, picked epoch and patience go on; the host is told all epochs again: it may have missed one."""
    losses(tmp_path, [0.4, 0.1])
    run, reporter, done = losses(tmp_path, [0.4, 0.1, 0.3, 0.2, 0.2, 0.2], patience=3)
    assert done == 2
    assert [r.epoch for r in reporter.reports] == [0, 1, 2, 3, 4]
    assert [r.picked for r in reporter.reports] == [0.4, 0.1, 0.1, 0.1, 0.1]
    assert (run.value, run.best_epoch, len(run.history)) == (0.1, 1, 5)


def test_a_run_that_is_done_trains_no_more(tmp_path):
    """Restored after its last epoch, the loop is empty and the value is there."""
    losses(tmp_path, [0.4, 0.1])
    run, _, done = losses(tmp_path, [0.4, 0.1])
    assert (done, run.value) == (2, 0.1)


def test_a_run_that_does_not_restore_starts_over(tmp_path):
    """The new epochs void the old ones, and so do the checkpoints."""
    losses(tmp_path, [0.4, 0.1, 0.2])
    with Run(spec=RunSpec(LOSS), directory=tmp_path) as run:
        for _ in run.epochs(1):
            run.log(loss=0.9)
            run.checkpoint(model=torch.nn.Linear(1, 1))
    assert [e.values["loss"] for e in read_epochs(tmp_path)] == [0.9]
    assert [p.name for p in (tmp_path / "checkpoints").iterdir()] == ["epoch-0000.pt"]


def test_a_checkpoint_beyond_the_record_is_not_trusted(tmp_path):
    """A record that lost its last lines wins: the run goes on after the newest checkpoint that it covers."""
    losses(tmp_path, [0.1, 0.2, 0.3])
    lines = (tmp_path / "epochs.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "epochs.jsonl").write_text("".join(lines[:2]))
    assert losses(tmp_path, [0.1, 0.2, 0.3])[2] == 1


def test_the_draft_of_a_process_that_was_killed_does_not_stay(tmp_path):
    """It has the size of a checkpoint, and no other process would delete it."""
    losses(tmp_path, [0.4])
    for name in (".epoch-0001.pt.1-0123abcd", ".epoch-0001.pt.4711-4567cdef"):
        (tmp_path / "checkpoints" / name).touch()
    losses(tmp_path, [0.4, 0.1])
    assert {path.name for path in tmp_path.glob("checkpoints/*")} == {"epoch-0001.pt"}


def test_the_value_is_that_of_the_checkpoint_kept(tmp_path):
    """The metric, measured again with the checkpoint of the picked epoch, is the value to the last digit."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(120, 5, generator=generator)
    y = (x[:, 0] * x[:, 1] > 0).long() + (x[:, 2] > 1).long()
    facts = {
        "metric": "f1(average=macro)",
        "output": Category(3),
        "track": ["log_loss", "roc_auc(average=macro)"],
        "defaults": False,
    }

    def train(params, run):
        model = torch.nn.Sequential(torch.nn.Linear(5, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
        optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
        for _ in run.epochs(8):
            loss = torch.nn.functional.cross_entropy(model(x[:80]), y[:80])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                for part in (slice(80, 103), slice(103, 120)):
                    run.update(logits=model(x[part]), target=y[part])
            run.checkpoint(model=model)

    record = run_trial(train, {"lr": 0.3}, RunSpec(**facts), ListReporter(), directory=tmp_path, seed=1)
    assert record.state is TrialState.COMPLETE
    model = torch.nn.Sequential(torch.nn.Linear(5, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    model.load_state_dict(load_checkpoint(record.checkpoint)["states"]["model"])
    panel = MetricCollection([facts["metric"], *facts["track"]], facts["output"])
    with torch.no_grad():
        for part in (slice(80, 103), slice(103, 120)):
            panel.update(logits=model(x[part]), target=y[part])
    measured = {name: value.item() for name, value in panel.compute().items()}
    assert measured == record.picked_values
    assert measured["f1(average=macro)"] == record.value


def test_random_streams_go_on_where_they_were():
    """Python, numpy and torch draw again what they drew after the state was taken."""
    seed_all(7)
    states = random_states()
    drawn = (random.random(), np.random.randn(), torch.rand(3).tolist())
    set_random_states(states)
    assert (random.random(), np.random.randn(), torch.rand(3).tolist()) == drawn
    seed_all(7)
    assert random.random() == drawn[0]


def test_a_seed_starts_the_stream_that_torch_starts():
    """Whatever devices torch was built for."""
    seed_all(7)
    drawn = torch.rand(3).tolist()
    torch.manual_seed(7)
    assert torch.rand(3).tolist() == drawn


def test_a_copied_state_is_no_view(tmp_path):
    """Training on does not change it; versions of modules and counters of schedules survive the file."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, [3, 3])
    states = copy_states({"model": model, "optimizer": optimizer, "schedule": schedule})
    before = states["model"]["0.weight"].clone()
    torch.nn.init.zeros_(model[0].weight)
    assert torch.equal(states["model"]["0.weight"], before)
    checkpoints = Checkpoints(tmp_path)
    checkpoints.save(4, states, [random_states()])
    stored = checkpoints.load(4)["states"]
    assert stored["model"]._metadata == model.state_dict()._metadata
    put_states({"model": model, "schedule": schedule}, stored)
    assert torch.equal(model[0].weight, before) and schedule.milestones == {3: 2}


class Odd:
    """Something whose state is no plain data."""

    def state_dict(self) -> dict[str, object]:
        """Hold a lambda."""
        return {"rule": lambda: 1}

    def load_state_dict(self, state_dict: object) -> None:
        """Take anything."""


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        (Odd(), r"checkpoint\(x=\.\.\.\): its state contains a function, which cannot be stored safely"),
        (3, r"checkpoint\(x=\.\.\.\) needs an object with state_dict, got int"),
    ],
)
def test_what_cannot_be_stored_is_refused_when_it_is_given(thing, text):
    """Not at the restore, when it is too late."""
    with pytest.raises(RunError, match=text):
        copy_states({"x": thing})


def test_restore_says_what_is_missing(tmp_path):
    """An object that was never stored, and a restore in the middle of a run."""
    losses(tmp_path, [0.4])
    run = Run(spec=RunSpec(LOSS), directory=tmp_path)
    with pytest.raises(RunError, match=r"optimizer=\.\.\.: the checkpoint contains model"):
        run.restore(optimizer=torch.optim.SGD(torch.nn.Linear(1, 1).parameters(), lr=0.1))
    run.log(loss=1.0)
    with pytest.raises(RunError, match="call restore before the first epoch"):
        run.restore()
    run.close()


def test_a_damaged_or_foreign_file_is_refused(tmp_path):
    """Rubbish, another torch file, and a pickle that would run code: all are errors, none is run."""
    rubbish, other, evil = tmp_path / "a.pt", tmp_path / "b.pt", tmp_path / "c.pt"
    rubbish.write_bytes(b"rubbish")
    torch.save({"weight": torch.zeros(1)}, other)
    torch.save(Odd(), evil)
    for path in (rubbish, evil, tmp_path / "missing.pt"):
        with pytest.raises(RecordError, match=r"is not a checkpoint: "):
            load_checkpoint(path)
    with pytest.raises(RecordError, match="is not a checkpoint: it must contain epoch, random, states"):
        load_checkpoint(other)


def rubbish(file: Path) -> None:
    """Write over the whole file."""
    file.write_bytes(b"rubbish")


def another(file: Path) -> None:
    """Put the checkpoint of another epoch in its place."""
    torch.save({**torch.load(file, weights_only=True), "epoch": 7}, file)


def flip(file: Path) -> None:
    """Flip one bit in the random state of torch, which reads as well."""
    content = torch.load(file, weights_only=True)
    raw, stored = file.read_bytes(), content["random"]["torch"].numpy().tobytes()
    place = raw.index(stored)
    file.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
    torch.load(file, weights_only=True)


@pytest.mark.parametrize("damage", [rubbish, another, flip])
@pytest.mark.parametrize("earlier", [True, False])
def test_a_damaged_checkpoint_costs_its_epochs_alone(tmp_path, damage, earlier):
    """It is put aside and named; the trial goes on after the one before it, or begins again."""
    losses(tmp_path, [0.4, 0.1, 0.3])
    damage(tmp_path / "checkpoints/epoch-0002.pt")
    if not earlier:
        (tmp_path / "checkpoints/epoch-0001.pt").unlink()
    start = "continues after epoch 1" if earlier else "begins again"
    text = rf"epoch-0002\.pt: is .*; kept as epoch-0002\.pt\.damaged-1, the trial {start}"
    with pytest.warns(UserWarning, match=text) as said:
        run, _, done = losses(tmp_path, [0.4, 0.1, 0.3, 0.2])
    assert done == (2 if earlier else 0) and [one.filename for one in said] == [__file__]
    assert [record.number("loss") for record in run.history] == [0.4, 0.1, 0.3, 0.2]
    assert (tmp_path / "checkpoints/epoch-0002.pt.damaged-1").exists()
    assert run.best_checkpoint is not None and load_checkpoint(run.best_checkpoint)["epoch"] == 1


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (MemoryError(), MemoryError),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried ..."), RuntimeError),
        (OSError(errno.ESTALE, "Stale file handle"), DiskError),
        (OSError(errno.EMFILE, "Too many open files"), DiskError),
    ],
    ids=lambda one: type(one).__name__ if isinstance(one, Exception) else "",
)
def test_a_checkpoint_that_cannot_be_read_now_is_not_damaged(tmp_path, monkeypatch, error, raised):
    """It stays where it is, and the next attempt continues from it."""
    losses(tmp_path, [0.4, 0.1])

    def fail(*args, **options):
        raise error

    with monkeypatch.context() as patch, pytest.raises(raised):
        patch.setattr(torch, "load", fail)
        losses(tmp_path, [0.4, 0.1, 0.3])
    assert losses(tmp_path, [0.4, 0.1, 0.3])[2] == 2


def test_a_directory_belongs_to_one_set_of_params(tmp_path):
    """Another trial's record is not continued by mistake."""
    spec = RunSpec(LOSS)
    run_trial(lambda p, run: run.log(loss=1.0), {"lr": 0.1}, spec, ListReporter(), directory=tmp_path)
    with pytest.raises(RecordError, match=r"is the trial with \{'lr': 0.1\}, not \{'lr': 0.2\}"):
        run_trial(lambda p, run: run.log(loss=1.0), {"lr": 0.2}, spec, ListReporter(), directory=tmp_path)
