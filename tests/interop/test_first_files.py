from __future__ import annotations

import json
from importlib.resources import files
from itertools import product

import pytest
from click.testing import CliRunner, Result
from forked import hpometrics
from matrix import EXHAUSTIVE, covering, traits

from hpometrics.cli.main import main
from hpometrics.config.plan import read_plan
from hpometrics.interop.first_files import write_starter
from hpometrics.metrics.features import BINARY
from hpometrics.metrics.registry.index import index
from hpometrics.results.run_directory import RunDirectory

STEERING = [
    entry
    for (_, feature), entry in index().items()
    if feature == BINARY and entry.direction is not None and not entry.needs
]


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
    assert ran.stdout.endswith("saved best.yaml, trials.csv, study.db, report.html in runs/first\n")
    assert len(RunDirectory(folder / "runs" / "first").records()) == 2


def test_two_starters_share_no_run_directory(folder):
    """Each is named after its folder; one of the same name with another engine is refused."""
    few = ("--set", "budget.trials=1", "--set", "budget.epochs=1")
    places = ("first", "second", "elsewhere/first")
    for place in places:
        assert call("init", place).exit_code == 0
    ran = [hpometrics("run", f"{place}/sweep.yaml", *few, folder=folder).result() for place in places]
    assert [one.returncode for one in ran] == [0, 0, 2], ran
    assert {path.name for path in (folder / "runs").iterdir()} == {"first", "second"}
    assert "engine.file: " in ran[2].stderr and "--extend resumes it, --fresh starts over" in ran[2].stderr


def test_editors_find_the_schema_beside_the_file(folder):
    """The first line names it."""
    call("init", "first")
    assert (folder / "first/sweep.yaml").read_text().splitlines()[0].endswith("$schema=./sweep.schema.json")
    assert json.loads((folder / "first/sweep.schema.json").read_text())["properties"]["engine"]


def test_what_is_there_is_not_touched(folder):
    """Refused before anything is written."""
    (folder / "training.py").write_text("mine")
    result = call("init")
    assert result.exit_code == 2 and "training.py already exists, so nothing was written" in result.stderr
    assert not (folder / "sweep.yaml").exists() and (folder / "training.py").read_text() == "mine"


@pytest.mark.parametrize(
    ("entry", "backend"),
    covering(
        product(STEERING, ["optuna", "ray"]),
        kinds=lambda case: [*traits(case[0]), case[0].direction, case[1]],
        ids=lambda case: f"{case[0]}-{case[1]}",
    ),
)
def test_whatever_metric_it_optimizes_the_starter_checks(entry, backend, tmp_path):
    """Each that steers and that its engine can feed, on either backend; it is not tracked besides."""
    write_starter(tmp_path, str(entry.example), backend)
    plan = read_plan(tmp_path / "sweep.yaml")
    assert plan.optimize.name == str(entry.example) and plan.optimize.direction is entry.direction
    names = [measure.name for measure in plan.track]
    assert set(names) >= {"roc_auc", "accuracy", "log_loss"} - {plan.optimize.name}
    assert plan.optimize.name not in names and plan.config.backend.name == backend
    assert f"# {entry.direction}d: the metric has its own direction" in (tmp_path / "sweep.yaml").read_text()


def test_a_starter_for_another_metric_runs(folder):
    """The study goes in its direction."""
    made = call("init", "first", "--metric", "brier")
    assert made.exit_code == 0, made.output
    assert call("check", "first/sweep.yaml").exit_code == 0
    ran = call("run", "first/sweep.yaml", "--set", "budget.trials=2", "--set", "budget.epochs=2")
    assert ran.exit_code == 0, ran.output
    resolved = RunDirectory(folder / "runs" / "first").read()
    assert (resolved.metric, resolved.direction) == ("brier", "minimize")


@pytest.mark.ray
@EXHAUSTIVE
def test_a_starter_on_ray_runs(folder):
    """Its pruner is one that Ray has too."""
    assert call("init", "first", "--backend", "ray", "--metric", "f1").exit_code == 0
    small = ("--set", "budget.trials=2", "--set", "budget.epochs=2", "--workers", "1")
    ran = hpometrics("run", "first/sweep.yaml", *small).result()
    assert ran.returncode == 0, ran.stderr
    home = RunDirectory(folder / "runs" / "first")
    assert home.read().metric == "f1" and len(home.records()) == 2


def test_unless_it_is_asked_otherwise_the_starter_is_the_shipped_one(folder):
    """To the letter; the defaults may be said too."""
    call("init", "first")
    call("init", "second", "--metric", "roc_auc", "--backend", "optuna")
    shipped = files("hpometrics.interop.starter").joinpath("sweep.yaml").read_text()
    for name in ("first", "second"):
        assert (folder / name / "sweep.yaml").read_text().replace(f"name: {name}\n\n", "") == shipped


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--metric", "f1_marco"), "no metric 'f1_marco' for a binary output. Did you mean 'f1_macro'?"),
        (("--metric", "ndcg@10"), "'ndcg' does not exist for a binary output; it is a metric of ranking"),
        (("--metric", "confusion_matrix"), "confusion_matrix has no direction"),
        (
            ("--metric", "fairness"),
            "fairness also needs groups=, which the starter's engine does not pass",
        ),
        (("--metric", "test:f1"), "test:f1: the starter has a single output; write only the metric, f1"),
        (("--metric", "default"), "'default' is a group of metrics"),
        (("--backend", "list"), "'list' is not one of"),
        (
            ("--from", "wandb.yaml", "--backend", "ray"),
            "--from uses the metric and the backend of the file; leave out --metric and --backend",
        ),
        (
            ("--from", "wandb.yaml", "--metric", "f1"),
            "--from uses the metric and the backend of the file; leave out --metric and --backend",
        ),
    ],
)
def test_what_a_starter_cannot_be_is_refused(folder, options, message):
    """Nothing is written."""
    before = set(folder.iterdir())
    result = call("init", "first", *options)
    assert result.exit_code == 2 and message in " ".join(result.stderr.split())
    assert set(folder.iterdir()) == before
