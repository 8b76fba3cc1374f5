"""Sweeps over normal dimensions, weighted choices, powers and steps of a logarithm, on every backend."""

from __future__ import annotations

import csv
import json
import signal
import sqlite3

import pytest
import yaml
from click.testing import CliRunner
from forked import hpometrics
from sample_sweeps import plan_of, problems_of

from hpometrics.cli.main import main
from hpometrics.records.trial_record import TrialState
from hpometrics.results.run_directory import RunDirectory

ENGINE = """\
import os
import signal


def train(params, run):
    assert type(params["batch"]) is type(params["patch"]) is type(params["units"]) is int
    for epoch in run.epochs(2):
        if params["units"] > 250 and epoch == 1 and "KILL" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
        width = {"small": 1, "large": 2}[params["size"]]
        run.log(cost=abs(params["momentum"] - 0.9) + params["lr"] + params["drop"] + width)
"""
SWEEP = """\
engine: {target: own_engine:train}
space:
  momentum: {normal: [0.9, 0.02]}
  lr: {normal: [-4, 1], log: true}
  drop: {float: [0.05, 0.5], log: true, step: 0.05}
  units: {normal: [200, 50], step: 8}
  patch: {int: [8, 64], log: true, step: 8}
  batch: {int: [1, 1024], power: 2}
  size: {choice: [small, large], weights: [3, 1]}
metrics: {optimize: {metric: cost, direction: minimize}}
search: {sampler: random, seed: 5, start: [{momentum: 0.91, lr: 0.02, batch: 256, size: large, units: 208}]}
budget: {trials: 8, epochs: 2}
"""


@pytest.fixture
def engine(folder):
    """The engine beside the sweep file."""
    (folder / "own_engine.py").write_text(ENGINE)


def records(folder, name="sweep"):
    """The trials of a sweep in this folder."""
    return RunDirectory(folder / "runs" / name).records()


@pytest.mark.usefixtures("engine")
def test_a_sweep_shows_values_everywhere(sweep, folder):
    """The start point to the last digit; table, best and CSV have values; another run goes on with them."""
    result = sweep(SWEEP)
    assert result.exit_code == 0, result.output
    found = records(folder)
    assert [record.state for record in found] == [TrialState.COMPLETE] * 8
    start = {name: found[0].params[name] for name in ("momentum", "lr", "batch", "size", "units")}
    assert start == {"momentum": 0.91, "lr": 0.02, "batch": 256, "size": "large", "units": 208}
    with (folder / "runs/sweep/trials.csv").open() as file:
        rows = list(csv.DictReader(file))
    for row, record in zip(rows, found, strict=True):
        for name in ("momentum", "lr", "drop", "units", "batch", "patch"):
            assert float(row[f"params.{name}"]) == record.params[name], name
        assert row["params.size"] == record.params["size"]
    best = yaml.safe_load((folder / "runs/sweep/best.yaml").read_text())
    assert best["params"] == found[best["trial"]].params
    assert f"batch={best['params']['batch']}" in result.stderr
    again = sweep(SWEEP, "--set", "budget.trials=9")
    assert again.exit_code == 0 and "made again" not in again.output
    assert [record.params for record in records(folder)[:8]] == [record.params for record in found]
    assert CliRunner().invoke(main, ["replay", "runs/sweep"]).exit_code == 0


@pytest.mark.usefixtures("engine")
def test_the_report_draws_them(sweep, folder):
    """Every figure, with values on its axes."""
    assert sweep(SWEEP.replace("trials: 8", "trials: 12")).exit_code == 0
    report = CliRunner().invoke(main, ["report", "runs/sweep"])
    assert report.exit_code == 0, report.output
    text = (folder / "runs/sweep/report.html").read_text()
    assert "momentum" in text and "0.999968" not in text.partition("<script")[0]


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("lost", [False, True])
def test_a_killed_sweep_goes_on_with_the_same_params(folder, monkeypatch, lost):
    """Killed in a trial; also when its study is lost and made again from the records."""
    (folder / "sweep.yaml").write_text(SWEEP)
    (folder / "whole.yaml").write_text(SWEEP)
    monkeypatch.setenv("KILL", "1")
    assert hpometrics("run", "sweep.yaml").result().returncode == -signal.SIGKILL
    monkeypatch.delenv("KILL")
    before = [(record.number, record.params) for record in records(folder)]
    if lost:
        (folder / "runs/sweep/study.db").write_bytes(b"damaged")
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    assert hpometrics("run", "whole.yaml").result().returncode == 0
    killed, whole = records(folder), records(folder, "whole")
    assert [(r.number, r.params) for r in killed[: len(before)]] == before
    assert [(r.params, r.value) for r in killed] == [(r.params, r.value) for r in whole]
    assert "made again" not in hpometrics("run", "sweep.yaml", "--set", "budget.trials=9").result().stderr


@pytest.mark.ray
@pytest.mark.usefixtures("engine")
def test_ray_draws_the_same_values(folder, on_ray):
    """The same file but for the backend, and killed in its second trial: the same params and values."""
    (folder / "sweep.yaml").write_text(SWEEP)
    (folder / "on_ray.yaml").write_text(SWEEP + on_ray(workers=1))
    killed = hpometrics("run", "on_ray.yaml")
    assert killed.waits_for((folder / "runs/on_ray/trials/0001").exists)
    killed.killed()
    for file in ("sweep.yaml", "on_ray.yaml"):
        ran = hpometrics("run", file).result()
        assert ran.returncode == 0, ran.stderr
    mine, rays = records(folder), records(folder, "on_ray")
    assert [(r.params, r.value, r.seed) for r in mine] == [(r.params, r.value, r.seed) for r in rays]


@pytest.mark.usefixtures("engine")
def test_a_grid_over_them_is_resumed(sweep, folder):
    """Three powers, two options, five values of a step; each is tried once."""
    text = SWEEP.partition("space:")[0] + (
        "space: {batch: {int: [2, 8], power: 2}, size: {choice: [small, large], weights: [3, 1]}, "
        "momentum: {normal: [0, 0.1], step: 0.2}}\n"
        "metrics: {optimize: {metric: cost, direction: minimize}}\nsearch: {sampler: grid}\n"
    )
    text = text.replace("engine: {", "engine: {params: {lr: 0.1, drop: 0.1, units: 8, patch: 8}, ")
    assert sweep(f"{text}budget: {{trials: 11, epochs: 2}}\n").exit_code == 0
    assert sweep(f"{text}budget: {{trials: 30, epochs: 2}}\n").exit_code == 0
    points = {json.dumps(record.params) for record in records(folder)}
    assert len(points) == len(records(folder)) == 30


@pytest.mark.usefixtures("engine")
def test_what_a_draw_means_cannot_change(sweep, folder):
    """The study holds draws, so another mean, weight or power is refused, with --extend too."""
    assert sweep(SWEEP).exit_code == 0
    for old, new in (("[0.9, 0.02]", "[0.9, 0.03]"), ("[3, 1]", "[1, 1]"), ("power: 2", "power: 4")):
        refused = sweep(SWEEP.replace(old, new), "--extend")
        assert refused.exit_code == 2, old
        assert "space." in refused.output
    with sqlite3.connect(folder / "runs/sweep/study.db") as study:
        [(count,)] = study.execute("SELECT count(*) FROM trials").fetchall()
    assert count == 8


def test_check_describes_them(sweep):
    """Each in a line."""
    told = sweep(SWEEP, command="check").stdout
    for line in (
        "normal, mean 0.9, deviation 0.02",
        "exp of normal, mean -4, deviation 1",
        "float from 0.05 to 0.5 log step 0.05",
        "normal, mean 200, deviation 50 step 8",
        "int from 8 to 64 log step 8",
        "int from 1 to 1024 by powers of 2",
        "one of small (0.75), large (0.25)",
    ):
        assert line in told


@pytest.mark.parametrize(
    ("old", "new", "text"),
    [
        ("[0.9, 0.02]", "[0.9]", "space.momentum.normal"),
        ("[0.9, 0.02]", "[0.9, -1]", "space.momentum.normal: deviation must be above 0, got -1.0"),
        ("power: 2", "power: 2, log: true", "power 2 defines its own steps; leave log and step out"),
        ("power: 2", "power: 1", "power must be at least 2"),
        ("[3, 1]", "[3]", "space.size.choice: weights must be 2 numbers, one per option"),
        ("[3, 1]", "[3, 0]", "a weight must be above 0, got 0.0 (float); leave the option out"),
        ("momentum: 0.91", "momentum: 2", "must lie within four deviations"),
        ("batch: 256", "batch: 255", "batch: must be 1 times a power of 2, got 255"),
        ("{normal: [200, 50], step: 8}", "{normal: [200, 50], steps: 8}", "steps"),
        ("{normal: [200, 50], step: 8}", "{normal: [200, 50], float: [0, 1]}", "space.units"),
    ],
)
def test_what_is_wrong_is_said_where_it_is(old, new, text):
    """With the path of the key."""
    assert old in SWEEP
    [problem] = problems_of(SWEEP.replace(old, new))
    assert text in problem


def test_a_whole_step_makes_whole_values():
    """As in W&B and Python, 8 is whole and 8.0 is not."""
    for step, kind in (("8", int), ("8.0", float)):
        space = plan_of(SWEEP.replace("step: 8}\n  patch", f"step: {step}}}\n  patch")).space
        assert type(space.dimensions["units"].points()[0]) is kind
