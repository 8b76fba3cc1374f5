from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import optuna
import pytest

from hpometrics.direction import MINIMIZE
from hpometrics.loggers.registry import Standing
from hpometrics.loggers.trainstats import TrainStats
from hpometrics.records.trial_record import EpochRecord
from hpometrics.run import Reported, Run

LOSS = Reported("loss", MINIMIZE)
PARLAI = {
    "parleys", "train_time", "train_steps", "total_epochs", "train_reports", "valid_reports", "best_valid",
    "impatience", "final_valid_report", "final_test_report", "final_extra_valid_report",
}  # fmt: skip


def stats_of(directory: Path) -> dict[str, Any]:
    """Read the file as strict JSON."""

    def refuse(constant: str) -> None:
        raise ValueError(f"{constant} is not valid JSON")

    return json.loads((directory / ".trainstats").read_text(), parse_constant=refuse)


def trained(directory: Path, losses: list[float], **values: float) -> dict[str, Any]:
    """The file of a run with these losses and, in each epoch, these values."""
    with Run(metric=LOSS, directory=directory) as run:
        for epoch in run.epochs(len(losses)):
            run.log(loss=losses[epoch], **values)
    return stats_of(directory)


def test_the_file_has_the_shape_of_parlai(tmp_path):
    """Its keys; a report per epoch and split, flat, with the totals by then; only `reasons` is ours."""
    told = trained(tmp_path, [0.3, 0.1, 0.2], **{"train:loss": 1.0, "a/loss": 2.0, "train:exs": 512.0})
    assert told.keys() == PARLAI | {"reasons"}
    totals = {"parleys", "train_time", "train_steps", "total_epochs", "total_exs"}
    assert [report.keys() - totals for report in told["valid_reports"]] == [{"loss", "a/loss"}] * 3
    assert [report["loss"] for report in told["valid_reports"]] == [0.3, 0.1, 0.2]
    assert [(r["loss"], r["exs"], r["total_exs"]) for r in told["train_reports"]] == [
        (1.0, 512, 512), (1.0, 512, 1024), (1.0, 512, 1536),
    ]  # fmt: skip
    assert [report["total_epochs"] for report in told["valid_reports"]] == [1, 2, 3]
    assert (told["total_epochs"], told["best_valid"], told["impatience"]) == (3, 0.1, 1)


def test_final_reports_are_those_of_the_picked_epoch(tmp_path):
    """The second of three; the test values are of the same epoch."""
    with Run(metric=LOSS, loggers=[TrainStats(tmp_path, every=0.0)]) as run:
        for epoch in run.epochs(3):
            assert epoch == 0 or stats_of(tmp_path)["final_valid_report"] is None
            run.log(loss=[0.3, 0.1, 0.2][epoch], **{"test:loss": float(epoch)})
    told = stats_of(tmp_path)
    assert told["final_valid_report"] == told["valid_reports"][1]
    assert told["final_test_report"]["loss"] == 1.0
    assert told["final_extra_valid_report"] is None


def test_what_is_not_known_is_null(tmp_path):
    """Without counts there are no examples and no steps; nothing was measured on train or test."""
    told = trained(tmp_path, [0.5])
    assert (told["parleys"], told["train_steps"], told["train_reports"]) == (None, None, [])
    assert (told["valid_reports"][0]["total_exs"], told["final_test_report"]) == (None, None)


def test_a_split_of_which_there_is_a_curve_alone_has_the_totals(tmp_path):
    """A curve is no number, so the report of its split holds nothing else."""
    log = TrainStats(tmp_path)
    record = EpochRecord(0, {"loss": 0.5, "test:roc_curve": [[0.0, 1.0], [0.0, 1.0]]}, seconds=2.0)
    log.end(Standing("loss", {}, tmp_path, [record], [0], complete=True))
    told = stats_of(tmp_path)
    assert told["final_test_report"] == {
        "parleys": None, "train_time": 2.0, "train_steps": None, "total_epochs": 1, "total_exs": None,
    }  # fmt: skip
    assert told["final_valid_report"] == {**told["final_test_report"], "loss": 0.5}


def test_a_nan_is_null_and_has_its_reason(tmp_path):
    """JSON has no nan; an epoch without a value is no improvement."""
    told = trained(tmp_path, [math.nan, 0.5, math.inf])
    assert [report["loss"] for report in told["valid_reports"]] == [None, 0.5, None]
    assert [(r["epoch"], r["name"], r["reason"]) for r in told["reasons"]] == [
        (0, "loss", "the value is nan"), (2, "loss", "the value is inf"),
    ]  # fmt: skip
    assert trained(tmp_path / "never", [math.nan])["best_valid"] is None


def test_steps_are_the_updates_that_were_counted(tmp_path):
    """ParlAI's name of the count."""
    assert trained(tmp_path, [0.5], total_train_updates=729.0)["train_steps"] == 729


def test_a_pruned_run_has_no_final_reports(tmp_path):
    """It did not come to its end; what it measured is there."""

    def objective(trial):
        with Run(trial, metric=LOSS, directory=tmp_path) as run:
            for _ in run.epochs(5):
                run.log(loss=0.5)
        return run.value

    study = optuna.create_study(pruner=optuna.pruners.ThresholdPruner(upper=0.1))
    study.optimize(objective, n_trials=1)
    told = stats_of(tmp_path)
    assert (len(told["valid_reports"]), told["final_valid_report"]) == (1, None)


@pytest.mark.parametrize("at", ["best", "last"])
def test_the_best_value_is_that_of_the_picked_epoch(tmp_path, at):
    """As the run counts; epochs without an improvement are counted alike."""
    with Run(metric=LOSS, directory=tmp_path, at=at) as run:
        for epoch in run.epochs(3):
            run.log(loss=[0.1, 0.3, 0.2][epoch])
    told = stats_of(tmp_path)
    assert (told["best_valid"], told["impatience"]) == (run.value, 2)
    assert told["final_valid_report"] == told["valid_reports"][run.best_epoch]


def test_the_file_is_written_when_it_is_time(tmp_path):
    """After each epoch if no seconds are to pass in between, else at the end, and then it has all."""
    held = []
    with Run(metric=LOSS, loggers=[TrainStats(tmp_path, every=0.0)]) as run:
        for epoch in run.epochs(5):
            held.append(len(stats_of(tmp_path)["valid_reports"]) if epoch else 0)
            run.log(loss=0.5)
    assert held == [0, 1, 2, 3, 4]
    with Run(metric=LOSS, loggers=[TrainStats(tmp_path, every=math.inf)]) as run:
        for _ in run.epochs(7):
            run.log(loss=0.5)
            assert len(stats_of(tmp_path)["valid_reports"]) == 5
    assert len(stats_of(tmp_path)["valid_reports"]) == 7


def test_a_run_that_fails_leaves_all_its_epochs(tmp_path):
    """The end is told to the logger, however the run ends, unless its process is killed."""
    with pytest.raises(ZeroDivisionError), Run(metric=LOSS, directory=tmp_path) as run:
        for epoch in run.epochs(9):
            run.log(loss=1 / (6 - epoch))
    told = stats_of(tmp_path)
    assert (len(told["valid_reports"]), told["final_valid_report"]) == (6, None)
