from __future__ import annotations

import csv
import io
import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from sample_records import trial, written
from sample_sweeps import changed
from terminals import on_terminal

from hpometrics.cli.main import main
from hpometrics.cli.results import STATES
from hpometrics.records.trial_record import EpochRecord, TrialState


@pytest.fixture
def home(tmp_path) -> Path:
    """A run directory of four trials."""
    return written(tmp_path)


def trials(home: Path, *arguments: str) -> Result:
    """Call `hpometrics trials` in this process."""
    return CliRunner().invoke(main, ["trials", str(home), *arguments])


def numbers(home: Path, *arguments: str) -> list[int]:
    """The trials in the order they are listed."""
    return [row["number"] for row in json.loads(trials(home, "-f", "json", *arguments).stdout)]


def test_the_table_has_every_trial(home):
    """By number, with the values of the picked epoch, params and state."""
    lines = trials(home).stdout.splitlines()
    assert lines[0].split() == [
        "trial",
        "roc_auc",
        "^",
        "accuracy",
        "^",
        "epochs",
        "lr",
        "depth",
        "width",
        "state",
    ]
    assert [line.split()[0] for line in lines[2:]] == ["0", "1", "2", "3"]
    assert lines[-1].split()[-1] == "failed"


@pytest.mark.parametrize(
    ("column", "order"),
    [
        ("trial", [0, 1, 2, 3]),
        ("value", [1, 0, 2, 3]),
        ("roc_auc", [1, 0, 2, 3]),
        ("accuracy", [1, 0, 2, 3]),
        ("epochs", [3, 2, 0, 1]),
        ("epoch", [2, 0, 1, 3]),
        ("depth", [0, 2, 1, 3]),
        ("state", [0, 1, 3, 2]),
    ],
)
def test_a_metric_sorts_best_first_all_else_smallest_first(home, column, order):
    """What a trial does not have comes last; equals stay in order."""
    assert numbers(home, "--sort", column) == order


def test_an_undefined_value_comes_last(tmp_path):
    """Of a tracked value without a direction, too, whose smallest comes first."""
    records = [
        replace(trial(number, [0.5]), epochs=(EpochRecord(0, {"roc_auc": 0.5, "gnorm": gnorm}),))
        for number, gnorm in enumerate((3.0, math.nan, 1.0, 2.0))
    ]
    home = written(tmp_path, records, changed("track: [accuracy]", "track: [gnorm]"))
    assert numbers(home, "--sort", "gnorm") == [2, 3, 0, 1]


@pytest.mark.parametrize(("column", "cells"), [("epoch", "0 1 2 -"), ("seconds", None), ("cost", None)])
def test_what_sorts_the_table_is_a_column_of_it(home, column, cells):
    """Also where the table does not show it otherwise; here a cost is seconds."""
    head, _, *rows = trials(home, "--sort", column).stdout.splitlines()
    assert head.split()[-1] == column
    shown = [row.split("  ")[-1].strip() for row in rows]
    assert len(shown) == 4
    if cells is not None:
        assert sorted(shown) == sorted(cells.split())
    else:
        assert all(cell.endswith("s" if column == "seconds" else "seconds") for cell in shown)


def test_only_some_states(home):
    """Several may be asked for; every state has a word."""
    assert numbers(home, "--state", "pruned", "--state", "failed") == [2, 3]
    assert set(STATES) == {state.value for state in TrialState}


def test_json_and_csv_are_for_programs(home):
    """The whole record but for the epochs, with the values of the picked one; CSV as in `trials.csv`."""
    one = json.loads(trials(home, "-f", "json").stdout)[1]
    assert (one["state"], one["value"], one["epoch"]) == ("complete", 0.8, 2)
    assert one["values"] == {"accuracy": pytest.approx(0.7), "roc_auc": 0.8}
    rows = list(csv.DictReader(io.StringIO(trials(home, "-f", "csv", "--sort", "value").stdout)))
    assert [row["trial"] for row in rows] == ["1", "0", "2", "3"]


def test_an_unknown_column_is_refused(home):
    """With what is near and what there is."""
    result = trials(home, "--sort", "acuracy")
    assert result.exit_code == 2
    assert "no column 'acuracy' to sort by; did you mean 'accuracy'?; there are trial, state" in result.stderr


@pytest.mark.parametrize(
    ("width", "left_out", "heads"),
    [
        (80, "", "trial roc_auc ^ accuracy ^ epochs lr depth width state"),
        (60, "depth, width", "trial roc_auc ^ accuracy ^ epochs lr state"),
        (40, "accuracy ^, lr, depth, width", "trial roc_auc ^ epochs state"),
    ],
)
def test_a_terminal_has_the_columns_that_fit(home, width, left_out, heads):
    """Params are left out first, the state never; a line says so, and one what the marks mean."""
    code, text = on_terminal("trials", ".", folder=home, width=width)
    lines = text.splitlines()
    assert code == 0 and lines[0].split() == heads.split()
    assert max(map(len, lines)) <= width
    note = f"omitted at a width of {width} columns: {left_out}; -f csv has them"
    assert " ".join("\n".join(lines[6:-1]).split()) == (note if left_out else "")
    assert lines[-1] == " ^ higher is better, v lower is better"


def test_the_column_that_sorts_stays(home):
    """Also where other params are left out."""
    _, text = on_terminal("trials", ".", "--sort", "width", folder=home, width=60)
    assert text.splitlines()[0].split()[-2:] == ["width", "state"]
