from __future__ import annotations

import json

from click.testing import CliRunner, Result

from hpometrics.cli import main
from hpometrics.sweep.directory import RunDirectory


def call(*arguments: object) -> Result:
    """Call the command in this process."""
    return CliRunner().invoke(main, [*map(str, arguments)])


def test_check_and_run_take_the_starter_as_it_is(folder):
    """The sweep ends well with the files untouched, but for fewer trials."""
    made = call("init", "first")
    assert made.exit_code == 0, made.output
    assert made.stdout.endswith("next: hpometrics run first/sweep.yaml\n")
    checked = call("check", "first/sweep.yaml")
    assert checked.exit_code == 0 and "roc_auc   maximize <- registry" in checked.stdout
    ran = call("run", "first/sweep.yaml", "--set", "budget.trials=2", "--set", "budget.epochs=2")
    assert ran.exit_code == 0, ran.output
    assert ran.stdout.endswith("saved best.yaml, trials.csv, study.db, report.md in runs/sweep\n")
    assert len(RunDirectory(folder / "runs" / "sweep").records()) == 2


def test_editors_find_the_schema_beside_the_file(folder):
    """The first line names it."""
    call("init", "first")
    assert (folder / "first/sweep.yaml").read_text().splitlines()[0].endswith("$schema=./sweep.schema.json")
    assert json.loads((folder / "first/sweep.schema.json").read_text())["properties"]["engine"]


def test_what_is_there_is_not_touched(folder):
    """Refused before anything is written."""
    (folder / "training.py").write_text("mine")
    result = call("init")
    assert result.exit_code == 2 and "training.py: is there already, nothing was written" in result.stderr
    assert not (folder / "sweep.yaml").exists() and (folder / "training.py").read_text() == "mine"
