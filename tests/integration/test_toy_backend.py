"""A backend is an entry of the registry: a third one, of one file, is checked, run and reported."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hpometrics.results.run_directory import RunDirectory

MAIN = """
import sys
from hpometrics.backends.registry import BACKENDS, BackendEntry
BACKENDS["toy"] = BackendEntry({entry})
from hpometrics.cli.main import main
main(sys.argv[1:])
"""
ENTRY = '"Trials in rounds.", "toy_backend:ToyBackend", "toy_backend:run", needs_trials=True'
QUADRATIC = """\
from hpometrics import engine


@engine
def train(params, run):
    for _ in run.epochs():
        run.log(distance=(params["x"] - 3) ** 2)
"""
SWEEP = """\
engine: {target: quadratic:train}
space: {x: {int: [0, 6]}}
metrics: {optimize: {metric: distance, direction: minimize}}
search: {sampler: grid}
backend: {toy: {size: 3, trace: {file: rounds.txt}}}
budget: {epochs: 2}
"""


@pytest.fixture
def toy(tmp_path):
    """Write a sweep file and call a command of a package that has the toy backend too."""
    (tmp_path / "quadratic.py").write_text(QUADRATIC)
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2])])

    def call(text: str, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "sweep.yaml").write_text(text)
        return subprocess.run(
            [sys.executable, "-c", MAIN.format(entry=ENTRY), command, *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": path},
            capture_output=True,
            text=True,
            timeout=100,
        )

    return call


def test_a_sweep_on_a_third_backend_finds_its_optimum(toy, tmp_path):
    """It is planned, run in its own rounds, reported, and finished: a second run does nothing."""
    checked = toy(SWEEP, "check", "sweep.yaml")
    assert checked.returncode == 0, checked.stderr
    assert "backend    toy   rounds of 3\n" in checked.stdout
    ran = toy(SWEEP, "run", "sweep.yaml")
    assert ran.returncode == 0, ran.stderr
    assert (tmp_path / "rounds.txt").read_text() == "[0, 1, 2]\n[3, 4, 5]\n[6]\n"
    home = RunDirectory(tmp_path / "runs" / "sweep")
    assert sorted(record.params["x"] for record in home.records()) == [*range(7)]
    assert home.read().config["backend"] == {"toy": {"size": 3, "trace": {"file": "rounds.txt"}}}
    assert json.loads(toy(SWEEP, "best", "runs/sweep", "--json").stdout)["params"]["x"] == 3
    again = toy(SWEEP, "run", "sweep.yaml")
    assert again.returncode == 0 and len(home.records()) == 7 and "x: 3" in again.stdout


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("sampler: grid", "pruner: median", "median runs on optuna and ray only; on toy choose none"),
        ("sampler: grid", "pruner: pbt", "pbt runs on ray only; on toy choose none"),
        ("sampler: grid", "sampler: tpe", "Toy needs the number of trials in advance; set trials too"),
        ("size: 3", "size: 0", "backend.toy.size: must be at least 1, got 0"),
        ("size: 3", "sise: 3", "backend.toy: unknown key 'sise'; did you mean 'size'?"),
        ("file:", "fill:", "backend.toy.trace: unknown key 'fill'; did you mean 'file'?"),
        ("rounds.txt", "none/rounds.txt", "backend.toy.trace.file: none is not a folder"),
        ("toy: {size: 3, ", "tuy: {size: 3, ", "'tuy' is not a backend; did you mean 'toy'?"),
    ],
)
def test_a_third_backend_refuses_what_it_cannot_run(old, new, problem, toy):
    """In the words and with the places of the other two."""
    assert (
        problem
        in toy(
            SWEEP.replace(old, new).replace("epochs: 2", "epochs: 2, time: 1m"), "check", "sweep.yaml"
        ).stderr
    )


def test_a_third_backend_may_be_named_without_settings(toy):
    """By its name, or as a key without a value."""
    for text in ("toy", "{toy: }"):
        checked = toy(
            SWEEP.replace("{toy: {size: 3, trace: {file: rounds.txt}}}", text), "check", "sweep.yaml"
        )
        assert "backend    toy   rounds of 2\n" in checked.stdout, checked.stderr


def test_workers_are_refused_where_a_backend_has_none(toy):
    """`--workers` leads nowhere; the entry says so."""
    refused = toy(SWEEP, "run", "sweep.yaml", "--workers", "2")
    assert refused.returncode == 2 and "toy has no workers; leave --workers out" in refused.stderr


def test_a_third_backend_is_in_the_schema(toy):
    """With its keys and their descriptions."""
    schema = json.loads(toy(SWEEP, "schema").stdout)
    assert schema["properties"]["backend"]["description"].startswith(
        "The backend that runs the trials: `optuna`, `ray`, `toy`,"
    )
    assert schema["definitions"]["Backend"]["properties"]["toy"]["description"] == "Trials in rounds."
    assert "size" in schema["definitions"]["ToyBackend"]["properties"]
