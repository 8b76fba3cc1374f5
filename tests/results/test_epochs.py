from __future__ import annotations

import math
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sample_sweeps import SWEEP, problems_of

from hpometrics.cli.main import main
from hpometrics.records.epoch_log import EpochLog
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState, write_trial

LOGGED = f"{SWEEP}results: {{loggers: [csv, table, tensorboard]}}\n"


@pytest.fixture
def ran(tmp_path) -> Path:
    """A run directory with a trial of three epochs, picked is the second, and one that has just begun."""
    home = tmp_path / "trials" / "0007"
    log = EpochLog(home)
    for epoch, loss in enumerate([0.5, 0.25, math.nan]):
        values = {"loss": loss, "a/loss": loss, "b/loss": 2.0, "train:loss": 0.125}
        log.append(EpochRecord(epoch, values, {"loss": "diverged"} if math.isnan(loss) else {}, seconds=2.0))
    log.close()
    write_trial(home, TrialRecord(7, {}, TrialState.COMPLETE, value=0.25, epoch=1))
    write_trial(tmp_path / "trials" / "0008", TrialRecord(8, {}, TrialState.RUNNING))
    return tmp_path


def call(*arguments: object) -> Result:
    """Call `hpometrics epochs` in this process."""
    return CliRunner().invoke(main, ["epochs", *map(str, arguments)])


def test_the_picked_epoch_is_shown(ran):
    """A row per task, a table per split."""
    assert call(ran, 7).stdout.splitlines() == [
        "trial 7  ok  3 epochs, picked is epoch 1",
        "epoch:1 time:4.0s",
        "validation:",
        "        loss",
        "   all .2500",
        "   a   .2500",
        "   b       2",
        "train:",
        "    loss",
        "   .1250",
    ]


def test_another_epoch_a_split_or_all_on_request(ran):
    """What is nan says why; a split alone needs no heading but its own."""
    told = call(ran, 7, "--epoch", 2, "--split", "validation").stdout
    assert "   all   nan\n" in told and "   loss is nan: diverged" in told and "train" not in told
    assert "validation:" not in told
    everything = call(ran, 7, "--all", "--split", "train").stdout.splitlines()
    assert [line for line in everything if line.startswith("epoch:")] == [
        "epoch:0 time:2.0s", "epoch:1 time:4.0s", "epoch:2 time:6.0s",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((9,), "has no trial 9; there are 7, 8"),
        ((8,), "trial 8 (running) has not completed an epoch yet"),
        ((7, "--epoch", 3), "trial 7 has no epoch 3; there are 0 to 2"),
        ((7, "--split", "test"), "trial 7 has no test values in epoch 1"),
    ],
)
def test_what_is_not_there_is_said(ran, arguments, text):
    """With what is."""
    result = call(ran, *arguments)
    assert result.exit_code == 2
    assert text in result.stderr


def test_a_trial_at_work_shows_its_last_epoch(ran):
    """Nothing is picked before it ends."""
    log = EpochLog(ran / "trials" / "0008")
    log.append(EpochRecord(0, {"loss": 0.5}))
    log.close()
    assert call(ran, 8).stdout.splitlines()[:2] == [
        "trial 8  running  1 epoch, none picked yet", "epoch:0 time:0.0s",
    ]  # fmt: skip


def test_a_sweep_logs_as_its_file_says(sweep, folder):
    """Events and tables of every trial; `check` names them."""
    assert "on disk after every epoch, loggers csv table tensorboard" in sweep(LOGGED, command="check").stdout
    assert sweep(LOGGED).exit_code == 0
    for trial in (folder / "runs" / "sweep" / "trials").iterdir():
        assert (trial / "report.txt").read_text().startswith("epoch:0 ")
        assert len(list(trial.glob("events.out.tfevents.*"))) == 1
        assert len((trial / "epochs.csv").read_text().splitlines()) == 4


def test_a_logger_without_its_package_is_a_problem_of_the_file(monkeypatch):
    """Found by `check`, at its place."""
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    [problem] = problems_of(LOGGED)
    assert "results.loggers[2]: the logger tensorboard needs tensorboardX" in problem
