"""Several engines in one sweep, of which the param `engine` names the one that trains."""

from __future__ import annotations

import re
import signal

import pytest
import yaml
from click.testing import CliRunner
from forked import hpometrics
from sample_sweeps import plan_of, problems_of

from hpometrics import Float, Sweep
from hpometrics.cli.main import main
from hpometrics.results.run_directory import RunDirectory

TWO = """\
name: two
engine: {choice: {line: lines:fit, curve: curves:fit}}
space:
  slope: {float: [0, 1], when: {engine: line}}
  power: {int: [1, 4], when: {engine: curve}}
  shift: {float: [0, 1]}
metrics: {optimize: {metric: distance, direction: minimize}}
search: {sampler: random, seed: 1}
budget: {trials: 8, epochs: 2}
"""
ENGINE = """\
import os
from contextlib import suppress
from pathlib import Path

from hpometrics import engine


@engine(threads={threads})
def fit(params, run):
    assert "engine" not in params
    epoch = run.restore() and 0
    for epoch in run.epochs():
        if epoch == 1:
            with suppress(FileNotFoundError):  # one of several workers takes it
                os.rename("press", "pressed")
                os.kill(os.getpid(), int(Path("pressed").read_text()))
        run.log(distance=params[{name!r}] + params["shift"] + {more} - epoch / 10)
        run.checkpoint()
"""


@pytest.fixture
def engines(folder):
    """The files of two engines; the second is worse by 10."""
    (folder / "lines.py").write_text(ENGINE.format(name="slope", more=0, threads=1))
    (folder / "curves.py").write_text(ENGINE.format(name="power", more=10, threads=1))
    return folder


def check_two(records):
    """Each trial was trained by the engine that its params name, with the params of that engine alone."""
    for record in records:
        chosen = record.params["engine"]
        own, more = {"line": ("slope", 0), "curve": ("power", 10)}[chosen]
        assert record.params.keys() == {"engine", own, "shift"}
        assert record.value == record.params[own] + record.params["shift"] + more - 0.1, str(record)
    assert {record.params["engine"] for record in records} == {"line", "curve"}


def test_the_winner_is_that_of_all_engines(engines, sweep):
    """Its table has the engine first; a second run trains nothing, until the code of either has changed."""
    result = sweep(TWO)
    assert result.exit_code == 0, result.stderr
    check_two(RunDirectory(engines / "runs/two").records())
    best = yaml.safe_load((engines / "runs/two/best.yaml").read_text())
    assert (best["params"]["engine"], next(iter(best["params"]))) == ("line", "engine")
    again = sweep(TWO)
    assert (again.exit_code, again.stdout) == (0, result.stdout)
    with (engines / "curves.py").open("a") as file:
        file.write("# another line\n")
    changed = sweep(TWO.replace("trials: 8", "trials: 9"))
    assert "curves.py" in changed.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_a_sweep_that_was_ended_goes_on_with_its_engine(engines, number, code):
    """The trial at work keeps its engine and its epochs."""
    (engines / "sweep.yaml").write_text(TWO)
    (engines / "press").write_text(str(int(number)))
    assert hpometrics("run", "sweep.yaml").ended() == code
    assert hpometrics("run", "sweep.yaml").ended() == 0
    check_gone_on(RunDirectory(engines / "runs/two").records())


def check_gone_on(records):
    """All is trained, and one trial went on in its second epoch."""
    check_two(records)
    assert [epoch.attempt for record in records for epoch in record.epochs].count(2) == 1


@pytest.mark.ray
def test_a_worker_of_ray_that_is_killed_goes_on_with_its_engine(engines, on_ray):
    """Another worker takes up its trial."""
    (engines / "sweep.yaml").write_text(TWO + on_ray())
    (engines / "press").write_text(str(int(signal.SIGKILL)))
    assert hpometrics("run", "sweep.yaml").ended() == 0
    check_gone_on(RunDirectory(engines / "runs/two").records())


@pytest.mark.ray
def test_ray_draws_and_trains_the_same(engines, sweep, on_ray):
    """Each worker imports the engines."""
    assert sweep(TWO).exit_code == 0
    assert sweep(TWO.replace("name: two", "name: rays") + on_ray()).exit_code == 0
    one, other = (RunDirectory(engines / "runs" / name).records() for name in ("two", "rays"))
    assert [(record.params, record.value) for record in one] == [
        (record.params, record.value) for record in other
    ]


def test_a_list_names_engines_by_their_targets(engines, sweep):
    """Which is what `when` names too; without a space the engines alone are compared."""
    listed = "[lines:fit, curves:fit]"
    text = TWO.replace("{line: lines:fit, curve: curves:fit}", listed)
    text = re.sub("engine: (line|curve)}", r"engine: \1s:fit}", text)
    assert sweep(text).exit_code == 0
    records = RunDirectory(engines / "runs/two").records()
    assert {record.params["engine"] for record in records} == {"lines:fit", "curves:fit"}
    alone = re.sub("(?s)space:.*metrics:", "metrics:", text).replace("random", "grid")
    assert plan_of(alone.replace(listed, f"{listed}, params: {{slope: 1, power: 2, shift: 0}}")).trials == 2


def test_a_list_chooses_engines_too(engines, sweep):
    """Without a space; each point has the params of its engine."""
    points = "backend: {list: [{engine: line, slope: 1, shift: 0}, {engine: curve, power: 2, shift: 0}]}\n"
    start, end = TWO.index("space:"), TWO.index("metrics:")
    text = TWO[:start] + points + TWO[end:].replace("search: {sampler: random, seed: 1}\n", "")
    assert sweep(text).exit_code == 0
    check_two(RunDirectory(engines / "runs/two").records())


def test_python_chooses_engines_too(engines):
    """By their targets."""
    space = {"slope": Float(0, 1), "power": 2, "shift": 0}
    choice = {"line": "lines:fit", "curve": "curves:fit"}
    metric = {"metric": "distance", "direction": "minimize"}
    result = Sweep(None, space, metric=metric, choice=choice, sampler="random", trials=6, epochs=2).run()
    assert result.best.params["engine"] == "line"


def test_engines_that_state_different_facts_are_refused(engines, sweep):
    """They are measured alike."""
    (engines / "curves.py").write_text(ENGINE.format(name="power", more=10, threads=2))
    result = sweep(TWO)
    assert result.exit_code == 2
    assert "engine.choice: lines:fit states threads 1, and curves:fit 2; " in result.stderr


PROBLEMS = {
    "one of them": ("{line: lines:fit, curve: curves:fit}", "{line: lines:fit}", "engine.choice: "),
    "listed twice": ("{line: lines:fit, curve: curves:fit}", "[lines:fit, lines:fit]", "is listed twice"),
    "no target": ("curves:fit", "curves.fit", "is not a target"),
    "both": (
        "{choice:",
        "{target: lines:fit, choice:",
        "an engine is one of target and choice, not several",
    ),
    "drawn": (
        "  shift:",
        "  engine: {choice: [1, 2]}\n  shift:",
        "space.engine: engine.choice already draws",
    ),
    "fixed": ("fit}}", "fit}, params: {engine: 1}}", "params.engine: engine.choice already draws this"),
    "unknown label": ("engine: curve}", "engine: curves}", "space.power.when"),
    "unknown in a list": (
        TWO[TWO.index("space:") : TWO.index("metrics:")],
        "backend: {list: [{engine: line, slope: 1}, {engine: lines, slope: 2}]}\n",
        "backend.list[1]: engine must be one of line, curve",
    ),
}


@pytest.mark.parametrize(("old", "new", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_a_choice_that_cannot_be_is_refused(old, new, problem):
    """At its place in the file."""
    assert TWO.count(old) == 1
    problems = problems_of(TWO.replace(old, new))
    assert any(problem in text for text in problems), problems


def test_a_class_of_stages_is_no_choice(engines, sweep):
    """Nor is a function of a notebook, which no process can import."""
    result = sweep(TWO.replace("curves:fit", "toy_stages:Toy"))
    assert result.exit_code == 2 and "toy_stages" in result.stderr
    result = sweep(TWO.replace("curves:fit", "__main__:fit"))
    assert result.exit_code == 2 and "__main__:fit" in result.stderr


def test_check_lists_the_engines(engines):
    """As a dimension, with the engines by name; a probe trains the first trial."""
    (engines / "sweep.yaml").write_text(TWO)
    result = CliRunner().invoke(main, ["check", "sweep.yaml", "--probe"])
    assert result.exit_code == 0, result.output
    lines = [line.split(maxsplit=1) for line in result.stdout.splitlines()]
    assert ["engine", "lines:fit or curves:fit   output as the engine states   seed 1"] in lines
    assert ["engine", "one of line, curve"] in lines
