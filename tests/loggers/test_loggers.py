from __future__ import annotations

import errno
import os

import pytest
import torch

from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import ConfigError, LoggerError, RunError
from hpometrics.loggers.registry import make_loggers
from hpometrics.records.epoch_log import read_epochs
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Reported, Run, RunSpec
from hpometrics.run.reporter import ListReporter
from hpometrics.run.trial import run_trial
from hpometrics.space.dimensions import Float

LOSS = Reported("loss", MINIMIZE)


class Notes:
    """A logger that notes what it is told."""

    def __init__(self):
        self.told = []

    def begin(self, run):
        self.told.append(("begin", [record.epoch for record in run.history], dict(run.params)))

    def epoch(self, run):
        self.told.append(("epoch", run.history[-1].values["loss"], run.picked, run.impatience))

    def end(self, run):
        self.told.append(("end", len(run.history), run.complete))


class Broken(Notes):
    """A logger that fails at the epoch it is given."""

    def __init__(self, at=1):
        super().__init__()
        self.at = at

    def epoch(self, run):
        super().epoch(run)
        if run.history[-1].epoch == self.at:
            raise OSError("the disk is full")

    def end(self, run):
        super().end(run)
        raise OSError("the disk is still full")


def train(params, run):
    """Three epochs of a model that can be restored."""
    model = torch.nn.Linear(1, 1)
    run.restore(model=model)
    for epoch in run.epochs(3):
        run.log(loss=[0.3, 0.1, 0.2][epoch])
        if run.keeps_checkpoints:
            run.checkpoint(model=model)


def test_a_logger_is_told_how_the_run_stands():
    """Its params, every epoch after it is closed, the picked one so far, and how it ended."""
    notes = Notes()
    with Run(metric=LOSS, params={"lr": 0.1}, loggers=[notes]) as run:
        train({}, run)
    assert notes.told == [
        ("begin", [], {"lr": 0.1}),
        ("epoch", 0.3, 0, 0),
        ("epoch", 0.1, 1, 0),
        ("epoch", 0.2, 1, 1),
        ("end", 3, True),
    ]


def test_a_logger_that_changes_params_changes_those_of_no_run(tmp_path):
    """The record and the training code have what was drawn, down to a list in it."""

    class Careless(Notes):
        def epoch(self, run):
            run.params["layers"].append(1)

    seen = []

    def watched(params, run):
        train(params, run)
        seen.append(run.params)

    params = {"layers": [8, 4]}
    record = run_trial(
        watched,
        params,
        RunSpec(metric=LOSS),
        ListReporter(0, params),
        directory=tmp_path,
        loggers=[Careless()],
    )
    assert params == record.params == seen[0] == {"layers": [8, 4]}


@pytest.mark.parametrize("own_params", [True, False])
def test_what_a_logger_does_to_params_no_other_sees(own_params):
    """Nor does itself in a later epoch; a run knows its params, or asks its host for what was drawn."""
    seen = []

    class Careless(Notes):
        def epoch(self, run):
            seen.append(run.params)
            changed = run.params
            changed["layers"].append(1)
            changed["lr"] = None

    params = {"layers": [8, 4], "lr": 0.1}
    given = {"params": params} if own_params else {}
    with Run(ListReporter(0, params), metric=LOSS, loggers=[Careless(), Careless()], **given) as run:
        train({}, run)
    assert seen == [{"layers": [8, 4], "lr": 0.1}] * 6
    assert run.params == params == seen[0]


def test_a_run_keeps_the_params_it_was_given():
    """What becomes of the caller's own afterwards is no matter of the run."""
    params = {"layers": [8, 4]}
    run = Run(metric=LOSS, params=params)
    params["layers"].append(1)
    assert run.params == {"layers": [8, 4]}


def test_a_restored_run_tells_what_it_has(tmp_path):
    """The epochs before the restart are the history with which it begins; they are not told again."""
    with pytest.raises(KeyboardInterrupt), Run(metric=LOSS, directory=tmp_path) as run:
        for epoch in run.epochs(3):
            run.log(loss=[0.3, 0.1, 0.2][epoch])
            run.checkpoint(model=torch.nn.Linear(1, 1))
            if epoch == 2:
                raise KeyboardInterrupt
    notes = Notes()
    with Run(metric=LOSS, directory=tmp_path, loggers=[notes]) as run:
        train({}, run)
    assert notes.told == [("begin", [0, 1], {}), ("epoch", 0.2, 1, 1), ("end", 3, True)]


def test_a_run_restored_at_its_end_is_logged_to_its_end(tmp_path):
    """Killed between its last epoch and its close, it has nothing to train and still has to end its logs."""
    with pytest.raises(KeyboardInterrupt), Run(metric=LOSS, directory=tmp_path) as run:
        train({}, run)
        raise KeyboardInterrupt
    notes = Notes()
    with Run(metric=LOSS, directory=tmp_path, loggers=[notes]) as run:
        train({}, run)
    assert notes.told == [("begin", [0, 1, 2], {}), ("end", 3, True)]


def test_a_failing_logger_fails_the_trial_and_loses_no_epoch(tmp_path):
    """The reason names the logger; the record and the other loggers have the epoch by then."""
    notes = Notes()
    record = run_trial(
        train, {}, RunSpec(LOSS), ListReporter(), directory=tmp_path, loggers=[Broken(), notes]
    )
    assert record.state is TrialState.FAILED
    assert record.reason == (
        "LoggerError: the logger Broken failed at epoch 1: OSError: the disk is full; "
        "the record has the epoch"
    )
    assert [epoch.values["loss"] for epoch in read_epochs(tmp_path)] == [0.3, 0.1]
    assert (record.value, record.epoch) == (0.1, 1)
    assert notes.told[2:] == [("epoch", 0.1, 1, 0), ("end", 2, False)]


def test_a_logger_that_cannot_end_fails_a_run_that_could():
    """Loudly, after the others have ended."""
    broken, notes = Broken(at=7), Notes()
    with pytest.raises(LoggerError, match="the logger Broken failed at epoch 2: OSError: the disk is still"):
        with Run(metric=LOSS, loggers=[broken, notes]) as run:
            train({}, run)
    assert notes.told[-1] == ("end", 3, True)


def test_what_ended_a_run_comes_before_a_logger_that_cannot_end():
    """Ctrl-C stays Ctrl-C; what the logger had to say is noted on it."""
    with pytest.raises(KeyboardInterrupt) as raised, Run(metric=LOSS, loggers=[Broken(at=7)]) as run:
        train({}, run)
        raise KeyboardInterrupt
    [note] = raised.value.__notes__
    assert "the logger Broken failed at epoch 2" in note


class Full(Notes):
    """A logger whose disk is full at the end."""

    def end(self, run):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_what_ended_a_run_comes_before_a_disk_that_is_full():
    """A trial that was stopped stays so; the optimizer that was watched has no hook any more."""
    model = torch.nn.Linear(1, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    host = StopsAtTheEnd(stops=(Stopped,))
    with pytest.raises(Stopped) as raised, Run(host, metric=LOSS, loggers=[Full()]) as run:
        run.watch(model, optimizer)
        train({}, run)
    [note] = raised.value.__notes__
    assert "the logger Full failed at epoch 2: OSError: " in note
    assert not optimizer._optimizer_step_pre_hooks and not optimizer._optimizer_step_post_hooks


class Stopped(Exception):
    """The stop of a host."""


class StopsAtTheEnd(ListReporter):
    """A host that stops a run at an epoch that was its last anyway."""

    def report(self, epoch, value, picked, values, final):
        super().report(epoch, value, picked, values, final)
        if final:
            raise Stopped


def test_a_stop_after_the_last_epoch_is_an_end_like_any_other():
    """Nothing was cut short, so the trial is complete, and so is its log."""
    notes, host = Notes(), StopsAtTheEnd(stops=(Stopped,))
    record = run_trial(train, {}, RunSpec(LOSS), host, loggers=[notes])
    assert (record.state, notes.told[-1]) == (TrialState.COMPLETE, ("end", 3, True))


def test_a_class_is_made_anew_for_each_run():
    """An object follows one run after the other, of a class each run has its own."""
    made = [make_loggers([Notes], None)[0] for _ in range(2)]
    assert made[0] is not made[1]
    notes = Notes()
    assert make_loggers([notes], None) == [notes]


@pytest.mark.parametrize(
    ("logger", "text"),
    [
        ("tensorbord", "'tensorbord' is not a logger; did you mean 'tensorboard'?"),
        ("xyz", "'xyz' is not a logger; choose from csv, table, tensorboard, mlflow, wandb, trainstats"),
        (3, "or have the methods begin, epoch, end, got 3"),
    ],
)
def test_what_is_no_logger_is_refused_before_the_first_trial(tmp_path, logger, text):
    """A typing error costs no epoch."""
    with pytest.raises(ConfigError, match=text.replace("?", r"\?")):
        OptunaObjective(train, {"lr": Float(0, 1)}, metric=LOSS, directory=tmp_path, loggers=[logger])


def test_two_loggers_of_one_name_are_refused(tmp_path):
    """The options of one of them would be lost."""
    for loggers in (["mlflow", {"mlflow": {"experiment": "x"}}], ["csv", "csv"]):
        with pytest.raises(ConfigError, match="is listed twice; leave one of the two out"):
            OptunaObjective(train, {"lr": Float(0, 1)}, metric=LOSS, directory=tmp_path, loggers=loggers)


def test_files_need_a_directory():
    """Nothing is written into the current folder."""
    with pytest.raises(
        RunError, match="the logger table writes into the directory of the run; set directory="
    ):
        OptunaObjective(train, {"lr": Float(0, 1)}, metric=LOSS, loggers=["table"])


def test_a_replay_is_not_logged(tmp_path):
    """A fixed trial keeps nothing, so that it overwrites nothing."""
    import optuna

    notes = Notes()
    objective = OptunaObjective(
        train, {"lr": Float(0, 1)}, metric=LOSS, directory=tmp_path, loggers=["table", notes]
    )
    assert objective(optuna.trial.FixedTrial({"lr": 0.5})) == 0.1
    assert (notes.told, list(tmp_path.iterdir())) == ([], [])
