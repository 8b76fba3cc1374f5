from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from hpometrics.exceptions import RunError
from hpometrics.records.epoch_log import EPOCHS_FILE
from hpometrics.records.trial_record import EpochRecord
from hpometrics.run import Reported, Run, RunSpec
from hpometrics.run.reporter import ListReporter

LOSS = Reported("loss", "minimize")


def ran(epochs: int = 4, directory: Path | None = None, **facts) -> tuple[Run, ListReporter]:
    """A run whose loss falls from epoch to epoch, 0.4 in the first of four."""
    reporter = ListReporter()
    with Run(reporter, spec=RunSpec(LOSS, **facts), directory=directory) as run:
        model = torch.nn.Linear(1, 1)
        run.restore(model=model)
        for epoch in run.epochs(epochs):
            run.log(loss=(epochs - epoch) / 10)
            if directory is not None:
                run.checkpoint(model=model)
    return run, reporter


def test_the_time_of_a_trial_ends_it_with_its_epoch():
    """A nanosecond is up in the first epoch, whose value stands; the host is told that it is final."""
    run, reporter = ran(trial_time=1e-9)
    assert (len(run.history), run.value, run.ended_by) == (1, 0.4, "trial_time")
    assert [report.final for report in reporter.reports] == [True]


@pytest.mark.parametrize(
    ("facts", "ended_by"),
    [
        ({}, None),
        ({"trial_time": 1e9}, None),
        ({"target": 0.2}, "target"),
        ({"target": 0.1}, None),
        ({"patience": 2, "tol": 1.0}, "patience"),
    ],
)
def test_a_run_says_what_ended_it_before_its_last_epoch(facts, ended_by):
    """Target 0.1 is that of the last epoch, which would have been the end anyway."""
    assert ran(**facts)[0].ended_by == ended_by


def test_the_time_before_a_restart_counts(tmp_path):
    """Two epochs of 100 s each leave nothing of 150 s: no epoch is trained, and the value stands."""
    ran(2, tmp_path)
    path = tmp_path / EPOCHS_FILE
    epochs = [replace(EpochRecord.from_line(line), seconds=100.0) for line in path.read_text().splitlines()]
    path.write_text("".join(f"{epoch.to_line()}\n" for epoch in epochs))
    run, reporter = ran(4, tmp_path, trial_time=150)
    assert (len(run.history), run.value, run.ended_by) == (2, 0.1, "trial_time")
    assert [report.final for report in reporter.reports] == [False, True]
    assert ran(4, tmp_path, trial_time=1e6)[0].ended_by is None


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf")])
def test_a_time_is_a_number_above_zero(seconds):
    """Anything else is refused with what came."""
    with pytest.raises(RunError, match="trial_time must be a number of seconds above 0, got"):
        RunSpec(LOSS, trial_time=seconds)
