"""A sweep that begins with what earlier ones have found: `search.from`, killed, resumed, on Ray too."""

from __future__ import annotations

import json
import shutil
import signal
import sys
from pathlib import Path

import optuna
import pytest
from click.testing import CliRunner
from forked import hpometrics
from sample_sweeps import problems_of

from hpometrics import Sweep
from hpometrics.cli.main import main
from hpometrics.records.trial_record import TrialRecord
from hpometrics.results.run_directory import RunDirectory

ENGINE = """\
import os
import signal
import time

SLOWLY = os.path.join(os.path.dirname(os.path.abspath(__file__)), "slowly")


def train(params, run):
    for _ in run.epochs(2):
        if params["x"] == float(os.environ.get("KILL_AT", -1)):
            os.kill(os.getpid(), signal.SIGKILL)
        if os.path.exists(SLOWLY):
            time.sleep(1)
        run.log(score=-((params["x"] - 3.0) ** 2), gap=abs(params["x"] - 3.0))


def other(params, run):
    train(params, run)
"""
OLD = """\
name: old
engine: {target: own_engine:train}
space: {x: {float: [0, 10]}}
metrics: {optimize: {metric: score, direction: maximize}, track: [{metric: gap, direction: minimize}]}
search: {start: [{x: 1}, {x: 2.5}, {x: 9}]}
budget: {trials: 15, epochs: 2}
"""
NEW = OLD.replace("name: old", "name: new").replace("trials: 15", "trials: 4")
NEW = NEW.replace("{start: [{x: 1}, {x: 2.5}, {x: 9}]}", "{from: runs/old}")


@pytest.fixture
def earlier(folder: Path) -> Path:
    """The folder with the directory of a sweep that has ended."""
    (folder / "own_engine.py").write_text(ENGINE)
    (folder / "old.yaml").write_text(OLD)
    ran = CliRunner().invoke(main, ["run", "old.yaml", "-q"])
    assert ran.exit_code == 0, ran.output
    del sys.modules["own_engine"]
    return folder


def records_of(folder: Path, name: str = "new") -> list[TrialRecord]:
    """The trials of a sweep."""
    return RunDirectory(folder / "runs" / name).records()


def drawn(records: list[TrialRecord]) -> list[float]:
    """The param of each trial."""
    return [record.params["x"] for record in records]


def best_of(folder: Path) -> TrialRecord:
    """The best trial of the earlier sweep."""
    return max(records_of(folder, "old"), key=lambda record: record.value)


def test_the_best_is_tried_first_and_the_sampler_learns(earlier, sweep):
    """The sampler draws other params than in a cold start. No trial of the old sweep counts."""
    best = best_of(earlier)
    result = sweep(NEW)
    assert result.exit_code == 0, result.output
    line = f"15 of 15 trials of runs/old; the sampler learns from 15; tried first: trial {best.number}"
    assert f"warm start  {line}\n" in result.stderr
    records = records_of(earlier)
    assert len(records) == 4 and records[0].params == best.params
    cold = sweep(NEW.replace("from: runs/old", "seed: 0").replace("name: new", "name: cold"))
    assert cold.exit_code == 0
    assert drawn(records)[1:] != drawn(records_of(earlier, "cold"))[1:]
    assert "# engine params evaluated: 4" in result.stdout
    assert "4 of 4 done   ok 4 " in CliRunner().invoke(main, ["status", "runs/new"]).stdout


def test_what_was_taken_is_recorded(earlier, sweep, monkeypatch):
    """Killed at its second trial, a sweep draws the same after the old one has grown or is gone."""
    assert sweep(NEW).exit_code == 0
    whole = drawn(records_of(earlier))
    shutil.move(earlier / "runs/new", earlier / "whole")
    (earlier / "sweep.yaml").write_text(NEW)
    monkeypatch.setenv("KILL_AT", repr(whole[1]))
    assert hpometrics("run", "sweep.yaml").result().returncode == -signal.SIGKILL
    monkeypatch.delenv("KILL_AT")
    shutil.rmtree(earlier / "runs/old")
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    assert drawn(records_of(earlier)) == whole
    assert "15 of 15 trials of runs/old" in ran.stderr
    again = hpometrics("run", "sweep.yaml", "--fresh").result()
    assert again.returncode == 2
    assert (
        "search.from: runs/old: is neither a run directory nor a study file such as study.db#name"
        in again.stderr
    )


def test_workers_know_the_same(earlier, sweep):
    """Two processes draw what one draws, as far as they know the same trials: the first points."""
    text = f"{NEW}backend: {{optuna: {{workers: 2}}}}\n".replace(
        "from: runs/old", "from: {sweeps: [runs/old], enqueue: 4}"
    )
    (earlier / "sweep.yaml").write_text(text)
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    best = sorted(records_of(earlier, "old"), key=lambda record: -record.value)[:4]
    assert drawn(records_of(earlier)) == drawn(best)


def test_in_python(earlier):
    """The argument is the key of the file, as a path, a list of them or a mapping."""
    places = [earlier / "runs/old", ["runs/old"], {"sweeps": ["runs/old"], "enqueue": 1}]
    for number, place in enumerate(places):
        sweep = Sweep(
            "own_engine:train",
            {"x": {"float": [0, 10]}},
            metric={"metric": "score", "direction": "maximize"},
            trials=2,
            epochs=2,
            name=f"python-{number}",
            warm_start=place,
        )
        assert "from:" in sweep.to_yaml()
        assert sweep.run(progress=False).best.value >= best_of(earlier).value


def test_another_metric_rescores_the_earlier_trials(earlier, sweep):
    """The record has each metric of each epoch, so a tracked one can lead; one that it lacks is refused."""
    text = NEW.replace("[{metric: gap, direction: minimize}]", "[]")
    result = sweep(text.replace("{metric: score, direction: maximize}", "{metric: gap, direction: minimize}"))
    assert result.exit_code == 0, result.output
    stored = json.loads(RunDirectory(earlier / "runs/new").read().prior["runs/old"])
    gaps = [record.epochs[0].values["gap"] for record in records_of(earlier, "old")]
    assert [trial["values"] for trial in stored["trials"]] == [[gap] for gap in gaps]
    for metric, words in (
        ("{metric: eloss, direction: minimize}", "has no values of eloss to compare"),
        ("{metric: score, direction: minimize}", "score must be minimized, and was maximized there"),
    ):
        refused = sweep(text.replace("{metric: score, direction: maximize}", metric), "--fresh")
        assert refused.exit_code == 2 and words in refused.stderr


def test_differences_are_said(earlier, sweep):
    """Params outside of the space are left out and counted; with a new dimension a point is completed."""
    narrow = NEW.replace("float: [0, 10]", "float: [2, 4]")
    result = sweep(narrow)
    inside = sum(2 <= x <= 4 for x in drawn(records_of(earlier, "old")))
    out = f"{inside} of 15 trials of runs/old, {15 - inside} left out: x must lie in [2.0, 4.0]"
    assert f"{out}; the sampler learns from {inside}" in result.stderr
    assert "differs: space.x.float: [0.0, 10.0] -> [2.0, 4.0]" in result.stderr
    wide = sweep(narrow.replace("[2, 4]}", "[2, 4]}, y: {float: [0, 1]}"), "--fresh")
    assert f"learns from 0; {inside} do not have the params of this space; tried first" in wide.stderr
    first = records_of(earlier)[0]
    assert first.params["x"] == best_of(earlier).params["x"] and 0 <= first.params["y"] <= 1


def test_options_that_trials_lack_are_counted_together(earlier, sweep):
    """However many values they have."""
    result = sweep(NEW.replace("float: [0, 10]", "choice: [1.0, 2.0]"))
    assert "14 left out: x must be one of the options 1.0, 2.0; the sampler" in result.stderr


def test_the_same_seed_is_said(earlier, sweep):
    """Its draws would repeat those of the earlier sweep."""
    text = "both searches have seed 0, so random draws repeat: set another search.seed"
    assert text in sweep(NEW).stderr
    assert text not in sweep(NEW.replace("runs/old", "runs/old, seed: 1"), "--fresh").stderr


STEPS = """\
def train(params, run):
    for step in run.steps():
        if run.due:
            run.log(score=params["x"] * step, own=step)
"""


def test_the_values_are_those_at_the_steps_of_this_sweep(earlier, sweep):
    """An earlier sweep of more steps counts as far as this one goes, with every value that it logged."""
    (earlier / "by_steps.py").write_text(STEPS)
    old = OLD.replace("own_engine", "by_steps").replace("epochs: 2", "steps: 100, every: 20")
    old = old.replace(", track: [{metric: gap, direction: minimize}]", "")
    assert sweep(old.replace("name: old", "name: long")).exit_code == 0
    new = old.replace("name: old", "name: new").replace("15, steps: 100", "2, steps: 40")
    new = new.replace("{start: [{x: 1}, {x: 2.5}, {x: 9}]}", "{from: runs/long}")
    assert "differs: budget.steps: 100 -> 40" in sweep(new).stderr
    prior = json.loads(RunDirectory(earlier / "runs/new").read().prior["runs/long"])
    short = [record.epochs[1].values["score"] for record in records_of(earlier, "long")]
    assert [trial["values"] for trial in prior["trials"]] == [[value] for value in short]
    logged = new.replace("{metric: score, direction: maximize}", "{metric: own, direction: maximize}")
    assert "the sampler learns from 15" in sweep(logged, "--fresh").stderr


def test_values_of_another_engine_are_not_used(earlier, sweep):
    """Its best point is tried all the same, and `values: true` takes the values."""
    text = NEW.replace("own_engine:train", "own_engine:other")
    result = sweep(text)
    assert "its values are not used, because engine.target differs; tried first" in result.stderr
    assert records_of(earlier)[0].params == best_of(earlier).params
    assert json.loads(RunDirectory(earlier / "runs/new").read().prior["runs/old"])["trials"] == []
    taken = sweep(text.replace("from: runs/old", "from: {sweeps: [runs/old], values: true}"), "--fresh")
    assert "the sampler learns from 15" in taken.stderr
    assert "differs: engine.target: own_engine:train -> own_engine:other" in taken.stderr


def test_a_study_is_a_source(earlier, sweep):
    """Its file is not touched; values without the name of a metric are those of the one that is optimized."""
    study = optuna.create_study(
        storage=f"sqlite:///{earlier}/mine.db", study_name="mine", direction="maximize"
    )
    study.optimize(lambda trial: -abs(trial.suggest_float("x", 0, 10) - 3.0), n_trials=5)
    before = (earlier / "mine.db").read_bytes()
    result = sweep(NEW.replace("runs/old", "mine.db#mine"))
    assert "its values are not used, because a study does not name its engine; tried first" in result.stderr
    assert records_of(earlier)[0].params == study.best_params
    taken = NEW.replace("runs/old", "{sweeps: ['mine.db'], values: true}")
    assert "the sampler learns from 5" in sweep(taken, "--fresh").stderr
    assert (earlier / "mine.db").read_bytes() == before
    optuna.create_study(storage=f"sqlite:///{earlier}/mine.db", study_name="other way")
    refused = sweep(NEW.replace("runs/old", "'mine.db#other way'"), "--fresh").stderr
    assert "score must be maximized, but the study 'other way' is set to minimize; leave it out" in refused
    assert "there are mine, other way" in sweep(NEW.replace("runs/old", "mine.db#other"), "--fresh").stderr


def test_a_pruner_does_not_compare_with_earlier_trials(earlier, sweep):
    """A median of one earlier trial would stop the worst of the new ones at once."""
    text = NEW.replace(
        "from: runs/old", "from: runs/old, start: [{x: 10}], pruner: {median: {min_trials: 1}}"
    )
    assert sweep(text).exit_code == 0
    assert records_of(earlier)[0].state == "complete"


def test_refused_beforehand():
    """A list is tried as it is, and so is a grid; a URL may name a password."""
    found = problems_of(NEW.replace("runs/old", "['sqlite:///a.db']"))
    words = "sqlite:///a.db is a URL; name a run directory, or a file as in study.db#name"
    assert [text.partition(": ")[2] for text in found] == [f"search.from[0]: {words}"]
    grid = NEW.replace("from: runs/old", "from: runs/old, sampler: grid").replace("10]}", "10], step: 1}")
    assert "a grid visits all of its points" in "".join(problems_of(grid))
    listed = "".join(problems_of(f"{NEW}backend: {{list: [{{x: 1}}]}}\n"))
    assert "the list backend runs its list unchanged; leave from out" in listed
    learned = NEW.replace("runs/old", "{sweeps: [runs/old], values: true}, sampler: random")
    assert "random learns only from its own trials" in "".join(problems_of(learned))


@pytest.mark.ray
def test_on_ray_it_is_the_same(earlier, on_ray):
    """One worker draws what Optuna draws, also where it is killed and goes on without the earlier sweep."""
    (earlier / "sweep.yaml").write_text(NEW)
    assert hpometrics("run", "sweep.yaml").result().returncode == 0
    drawn_by_optuna = drawn(records_of(earlier))
    (earlier / "sweep.yaml").write_text(NEW.replace("name: new", "name: rays") + on_ray(workers=1))
    (earlier / "slowly").touch()
    running = hpometrics("run", "sweep.yaml")
    assert running.waits_for((earlier / "runs/rays/trials/0001/epochs.jsonl").exists)
    assert running.killed() == -signal.SIGKILL
    (earlier / "slowly").unlink()
    shutil.rmtree(earlier / "runs/old")
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    assert drawn(records_of(earlier, "rays")) == drawn_by_optuna
