"""Metrics of modules that a sweep file names as plug-ins: who imports them, and what the others answer."""

from __future__ import annotations

import json
import sys

import pytest
from forked import hpometrics
from reading_commands import READERS
from sample_sweeps import changed

from hpometrics.results.run_directory import RunDirectory

PLUGIN = """
import os
from pathlib import Path
from hpometrics import BINARY, MAXIMIZE, MINIMIZE, NUMBER, PREDICTIONS, MeanMetric, register_metric

with (Path(__file__).parents[1] / "imports").open("a") as file:
    file.write(f"{os.getpid()} ")

@register_metric("agree", [BINARY])
class Agree(MeanMetric):
    direction, inputs = MAXIMIZE, PREDICTIONS

    def get_current_value(self, preds, target):
        return (preds == target).float()

@register_metric("differ", [BINARY])
class Differ(Agree):
    direction = MINIMIZE

    def get_current_value(self, preds, target):
        return (preds != target).float()

@register_metric("far", [NUMBER])
class Far(MeanMetric):
    direction, inputs = MINIMIZE, PREDICTIONS

    def get_current_value(self, preds, target):
        return (preds - target).abs()
"""
OWN = changed("optimize: roc_auc", "optimize: agree") + "plugins: [mypackage.metrics]\n"


@pytest.fixture
def told(folder):
    """Write the plug-in beside the engine, and call a command in a process that has imported neither."""
    (folder / "mypackage").mkdir()
    (folder / "mypackage" / "metrics.py").write_text(PLUGIN)

    def call(*arguments, text=OWN):
        (folder / "sweep.yaml").write_text(text)
        return hpometrics(*arguments, folder=folder).result()

    return call


def imports(folder) -> int:
    """The number of processes that have imported the plug-in."""
    file = folder / "imports"
    return len(set(file.read_text().split())) if file.exists() else 0


def test_run_imports_a_plug_in_and_no_reader_does(told, folder):
    """The record has the direction, so reading it needs no code of the sweep; replay trains, so it does."""
    assert told("check", "sweep.yaml").returncode == 0
    assert imports(folder) == 0
    ran = told("run", "sweep.yaml")
    assert ran.returncode == 0, ran.stderr
    assert imports(folder) == 1
    for reader in ("status", "report", "trials"):
        shown = told(*READERS[reader])
        assert shown.returncode == 0, shown.stderr
    best = json.loads(told("best", "runs/sweep", "-f", "json").stdout)
    assert (best["metric"], best["objective"]) == ("agree", "maximize")
    assert imports(folder) == 1
    assert told("replay", "runs/sweep").returncode == 0
    assert imports(folder) == 2


def test_check_says_what_a_plug_in_may_register(told):
    """It accepts a name that only the import can judge, with the nearest that exists; all else is judged."""
    text = OWN.replace("[accuracy]", "[acuracy]")
    checked = told("check", "sweep.yaml", text=text)
    assert checked.returncode == 0, checked.stderr
    (line,) = (line for line in checked.stdout.splitlines() if line.startswith("plugins"))
    assert line.endswith("imported by run alone; may register agree and acuracy (Did you mean 'accuracy'?)")
    for command in (("check", "sweep.yaml", "--probe"), ("run", "sweep.yaml")):
        refused = told(*command, text=text)
        assert refused.returncode == 2 and "metrics.track[0]: no metric 'acuracy'" in refused.stderr
    refused = told("check", "sweep.yaml", text=OWN.replace("[accuracy]", "[perplexity]"))
    assert refused.returncode == 2 and "'perplexity' does not exist for a binary output" in refused.stderr


@pytest.mark.parametrize(
    ("plugins", "command", "problem"),
    [
        ("[nowhere.metrics]", "run", "plugins[0]: importing nowhere.metrics failed: ModuleNotFoundError"),
        ("[toy_engine, toy_engine.nothing]", "run", "plugins[1]: importing toy_engine.nothing failed"),
        ("['mypackage.metrics:Agree']", "check", "plugins[0]: 'mypackage.metrics:Agree' is not a module"),
        ("mypackage.metrics", "check", "plugins: expected a list"),
    ],
)
def test_a_plug_in_that_cannot_be_imported_has_its_place_in_the_file(told, plugins, command, problem):
    """It is the one problem: names that it may have registered are none."""
    refused = told(command, "sweep.yaml", text=OWN.replace("[mypackage.metrics]", plugins))
    assert refused.returncode == 2 and problem in refused.stderr
    assert "1 error" in refused.stderr


def test_each_worker_imports_it(told, folder):
    """Two processes of one run, and one that joins."""
    ran = told("run", "sweep.yaml", text=f"{OWN}backend: {{optuna: {{workers: 2}}}}\n")
    assert ran.returncode == 0, ran.stderr
    assert imports(folder) == 2
    more = told("worker", "runs/sweep")
    assert more.returncode == 0, more.stderr
    assert imports(folder) == 3


@pytest.mark.ray
def test_each_worker_of_ray_imports_it(told, folder, on_ray):
    """The engine takes its plug-ins along."""
    ran = told("run", "sweep.yaml", text=OWN + on_ray(workers=1))
    assert ran.returncode == 0, ran.stderr
    assert all("agree" in record.picked_values for record in RunDirectory(folder / "runs/sweep").records())
    assert imports(folder) == 2


def test_another_metric_of_a_plug_in_is_named_by_its_class(told, folder):
    """Readers import what the user calls by name, and say how to call it."""
    text = f"{OWN}results: {{statistics: all}}\n"
    assert told("run", "sweep.yaml", text=text).returncode == 0
    unknown = told("best", "runs/sweep", "--metric", "differ")
    assert unknown.returncode == 2 and "its class: mypackage.metrics:CLASS" in unknown.stderr
    unknown = told("compare", "runs/sweep", "0", "1")
    assert unknown.returncode == 2 and "its class: mypackage.metrics:CLASS" in unknown.stderr
    assert imports(folder) == 1
    named = told("best", "runs/sweep", "--metric", "mypackage.metrics:Differ", "-f", "json")
    assert named.returncode == 0, named.stderr
    best, records = json.loads(named.stdout), RunDirectory(folder / "runs/sweep").records()
    agree = max(epoch.values["agree"] for record in records for epoch in record.epochs)
    assert best["values"]["differ"] == pytest.approx(1 - agree)
    assert told("compare", "runs/sweep", "0", "1", "--metric", "mypackage.metrics:Agree").returncode in (0, 1)


STAGED = """
engine: {target: toy_stages:Guesser, output: number}
plugins: [mypackage.metrics]
space: {algorithms: {choice: [once]}, algorithms.once.guess: {choice: [1.0, 2.0]}}
metrics: {optimize: far}
search: {sampler: grid}
budget: {trials: 2}
"""


def test_an_engine_of_stages_is_measured_by_a_plug_in(told):
    """Its best.json names the plug-in, so that the evaluation can be replayed."""
    ran = told("run", "sweep.yaml", text=STAGED)
    assert ran.returncode == 0 and "far: " in ran.stdout, ran.stderr
    again = told("replay", "runs/sweep/best.json")
    assert again.returncode == 0, again.stdout + again.stderr


def test_the_direction_of_a_programs_value_comes_from_a_plug_in(told, folder):
    """The program reports the value by its name."""
    (folder / "program.py").write_text("print('{\"agree\": 0.5}')")
    command = f"command: [{sys.executable}, program.py, '{{args}}']"
    text = OWN.replace("target: toy_engine:train, output: binary", command).replace("[accuracy]", "[]")
    ran = told("run", "sweep.yaml", text=text)
    assert ran.returncode == 0, ran.stderr
    assert "agree: 0.5  (maximize)" in ran.stdout
