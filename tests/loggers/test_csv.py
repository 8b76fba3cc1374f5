from __future__ import annotations

import csv
import math

import pytest

from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import ConfigError
from hpometrics.loggers.registry import check_logger
from hpometrics.run import Reported, Run

LOSS = Reported("loss", MINIMIZE)


def rows(tmp_path) -> list[list[str]]:
    """The lines of the table, without the seconds."""
    with (tmp_path / "epochs.csv").open(newline="") as file:
        return [[cell for at, cell in enumerate(line) if at != 1] for line in csv.reader(file)]


def test_a_line_per_epoch(tmp_path):
    """A nan is written as nan; a value that appears later has a column from then on, empty before."""
    with Run(metric=LOSS, directory=tmp_path, loggers=["csv"]) as run:
        for epoch in run.epochs(3):
            run.log(loss=[0.5, math.nan, 0.25][epoch])
            if epoch == 2:
                run.log(extra=7)
    assert rows(tmp_path) == [
        ["epoch", "loss", "extra"],
        ["0", "0.5", ""],
        ["1", "nan", ""],
        ["2", "0.25", "7.0"],
    ]


def test_no_cell_is_a_formula(tmp_path):
    """Names come from the user's engine, and a spreadsheet would carry out `=...`."""
    names = ["=1+1", "+a", "-b", "@c"]
    with Run(metric=LOSS, directory=tmp_path, loggers=["csv"]) as run:
        for _ in run.epochs(1):
            run.log(loss=-0.5, **dict.fromkeys(names, 1.0))
    head, line = rows(tmp_path)
    assert sorted(head[1:]) == sorted(["loss", *(f"'{name}" for name in names)])
    assert "-0.5" in line  # a number is none


def test_a_run_that_goes_on_has_every_epoch_once(tmp_path):
    """The epochs before the kill come from the record."""

    def train(run, last):
        run.restore()
        for epoch in run.epochs(3):
            run.log(loss=epoch / 4)
            run.checkpoint()
            if epoch == last:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Run(metric=LOSS, directory=tmp_path, loggers=["csv"]) as run:
        train(run, 1)
    with Run(metric=LOSS, directory=tmp_path, loggers=["csv"]) as run:
        train(run, None)
    assert [line[0] for line in rows(tmp_path)] == ["epoch", "0", "1", "2"]


@pytest.mark.parametrize(
    ("logger", "message"),
    [
        ({"mlflow": {"url": "x"}}, "the logger mlflow has no option 'url'; did you mean 'uri'?"),
        ({"csv": {"file": "x"}}, "the logger csv has no option 'file'; it has no options"),
        ({"mlflow": {"uri": 3}}, "the logger mlflow: uri must be text, got 3"),
        ({"csv": {}, "table": {}}, "a logger with options must be {name: {option: value}}, got"),
        ({"cvs": {}}, "'cvs' is not a logger; did you mean 'csv'?"),
    ],
)
def test_options_of_loggers_are_checked_before_the_first_trial(logger, message, tmp_path):
    """By what the logger itself takes."""
    with pytest.raises(ConfigError) as refused:
        check_logger(logger, tmp_path)
    assert message in str(refused.value)
