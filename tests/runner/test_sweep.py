from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

import pytest
from sample_sweeps import SWEEP, changed

from hpometrics.config.document import read_document
from hpometrics.records.trial_record import TrialState
from hpometrics.results.run_directory import RunDirectory
from hpometrics.space.draws import derive_seed


def records(folder, name="sweep"):
    """The trials of the sweep in this folder."""
    return RunDirectory(folder / "runs" / name).records()


def test_a_sweep_runs_prints_and_leaves_a_directory(sweep, folder):
    """Results on stdout, a line per trial on stderr, everything else in the directory."""
    result = sweep(SWEEP)
    assert result.exit_code == 0, result.output
    assert "# engine params evaluated: 4  (ok 4)" in result.stdout
    assert "Optimal Engine Params: (trial" in result.stdout
    assert result.stdout.endswith("saved best.yaml, trials.csv, study.db in runs/sweep\n")
    lines = result.stderr.splitlines()
    assert lines[0] == "sweep  runs/sweep"
    assert [line.split()[:2] for line in lines[1:]] == [[f"#{n}", "ok"] for n in range(4)]
    home = folder / "runs" / "sweep"
    assert {path.name for path in home.iterdir() if path.name[0] != "."} == {
        "sweep.yaml", "sweep.resolved.yaml", "study.db", "study.db.lock", "trials", "trials.csv", "best.yaml",
        "verdict.json",
    }  # fmt: skip
    assert {path.name for path in (home / "trials" / "0003").iterdir()} == {
        ".trainstats", "epochs.jsonl", "statistics.jsonl", "trial.json",
    }  # fmt: skip


WANDER = """\
engine: {target: wanderer:wander}
space: {lr: {float: [1e-4, 1e-1], log: true}}
metrics: {optimize: roc_auc}
budget: {trials: 3, epochs: 3}
"""


@pytest.mark.parametrize("backend", ["{}", "{storage: journal}", "{workers: 2}"])
def test_an_engine_that_changes_the_current_folder_takes_no_file_along(sweep, folder, backend):
    """Import, output and training leave it: each trial begins in it, and no file of the sweep goes along."""
    (folder / "wanderer.py").write_text("from toy_engine import away, wander\n\naway()\n")
    result = sweep(f"{WANDER}backend: {{optuna: {backend}}}\n")
    assert result.exit_code == 0, result.output
    assert [len(record.epochs) for record in records(folder)] == [3, 3, 3]
    assert [path for path in folder.rglob("away/**/*") if path.name != "away"] == []
    assert Path.cwd() == folder and result.stdout.endswith(" in runs/sweep\n")


def test_run_prints_its_results_as_json(sweep, folder):
    """Nothing else is on stdout; the best is that of `best.yaml`, and there is none where all failed."""
    told = json.loads(sweep(SWEEP, "--json").stdout)
    assert (told["done"], told["states"]["complete"]) == (4, 4)
    assert told["best"] == read_document(folder / "runs" / "sweep" / "best.yaml").data
    text = changed("toy_engine:train", "toy_engine:always_fail")
    failed = sweep(text, "--json", "--fresh", "--set", "budget.failures=9")
    assert (failed.exit_code, json.loads(failed.stdout)["best"]) == (3, None)
    again = sweep(text, "--set", "budget.failures=9")
    assert "all 4 trials failed; run them again with --fresh" in again.stderr


@pytest.mark.parametrize(
    ("command", "arguments"), [("run", ["--json"]), ("check", ["--probe", "--json"]), ("run", ["-q"])]
)
def test_what_an_engine_prints_is_no_result(command, arguments, sweep, folder):
    """It goes to stderr, so that a script reads the results alone."""
    result = sweep(changed("toy_engine:train", "toy_engine:shout"), *arguments, command=command)
    assert result.exit_code == 0, result.output
    assert "training" in result.stderr and "training" not in result.stdout.replace("of training", "")
    assert "-q" in arguments or json.loads(result.stdout)


def test_the_best_is_the_best_of_the_record(swept, folder):
    """Metric, objective, value, epoch and trial agree with what was written epoch by epoch."""
    swept(SWEEP)
    told = read_document(folder / "runs" / "sweep" / "best.yaml").data
    values = {(r.number, e.epoch): e.values["roc_auc"] for r in records(folder) for e in r.epochs}
    assert told["value"] == values[told["trial"], told["epoch"]]
    assert all(not record.value > told["value"] for record in records(folder))
    assert told["params"] == records(folder)[told["trial"]].params


def test_a_curve_is_tracked(sweep, folder):
    """The table says how large it is, the record of each epoch holds it."""
    result = sweep(changed("[accuracy]", "[roc_curve, confusion_matrix]"))
    assert result.exit_code == 0, result.output
    assert "  confusion_matrix: 2 x 2\n" in result.stdout
    for record in records(folder):
        for epoch in record.epochs:
            assert len(epoch.values["roc_curve"]) == 3
            assert sum(map(sum, epoch.values["confusion_matrix"])) > 0


def test_running_twice_does_nothing_the_second_time(sweep, folder):
    """It says so, and prints the same results."""
    first = sweep(SWEEP)
    before = {path: path.stat().st_mtime_ns for path in (folder / "runs" / "sweep" / "trials").rglob("*")}
    second = sweep(SWEEP)
    assert second.exit_code == 0
    assert second.stdout == first.stdout
    assert second.stderr == "sweep  runs/sweep  all 4 trials are done; raise budget.trials for more\n"
    assert before == {
        path: path.stat().st_mtime_ns for path in (folder / "runs" / "sweep" / "trials").rglob("*")
    }


def test_a_budget_below_what_is_done_is_said_as_it_is(sweep, folder):
    """The trials that are there are counted, not those that the file asks for."""
    first = sweep(SWEEP)
    second = sweep(SWEEP, "--set", "budget.trials=2")
    assert (second.exit_code, second.stdout) == (0, first.stdout)
    told = "sweep  runs/sweep  4 trials are done, and budget.trials is 2; raise it above 4 for more\n"
    assert second.stderr == told


def test_trials_is_a_total(sweep, folder):
    """Raised, the sweep goes on from where it was."""
    sweep(SWEEP, "--set", "budget.trials=2")
    result = sweep(SWEEP)
    assert "resuming: 2 of 4 done" in result.stderr
    assert [record.number for record in records(folder)] == [0, 1, 2, 3]
    assert "engine params evaluated: 4" in result.stdout


def test_the_same_seed_gives_the_same_trials(sweep, folder):
    """Params, values and seeds, with the sampler that learns too, whether in one go or in two."""
    text = changed("sampler: random", "sampler: {tpe: {n_startup_trials: 2}}")
    sweep(text)
    first = records(folder)
    sweep(text, "--fresh", "--set", "budget.trials=3")
    sweep(text)
    second = records(folder)
    assert [(r.params, r.value, r.seed) for r in second] == [(r.params, r.value, r.seed) for r in first]
    assert [r.seed for r in first] == [derive_seed(3, number) for number in range(4)]


def test_a_failing_trial_is_a_record_with_its_reason(sweep, folder):
    """The sweep goes on; the traceback lies beside the record."""
    result = sweep(changed("toy_engine:train", "toy_engine:fail"))
    assert result.exit_code == 0
    failed = [record for record in records(folder) if record.state is TrialState.FAILED]
    assert 0 < len(failed) < 4
    assert failed[0].reason == "ValueError: this is\ntoo hot"
    traceback = folder / "runs" / "sweep" / "trials" / f"{failed[0].number:04d}" / "error.txt"
    assert 'raise ValueError("this is\\ntoo hot")' in traceback.read_text()
    assert f"failed {len(failed)}" in result.stdout


def test_no_complete_trial_is_exit_code_3(sweep, folder):
    """There is no best, and no `best.yaml` says otherwise."""
    result = sweep(changed("toy_engine:train", "toy_engine:always_fail"), "--set", "budget.failures=9")
    assert result.exit_code == 3
    assert "no trial is complete yet: 4 failed (trial 3: ValueError: never works)" in result.stderr
    assert result.stdout.startswith("# engine params evaluated: 4  (failed 4)")
    assert not (folder / "runs" / "sweep" / "best.yaml").exists()


def test_an_interrupted_trial_goes_on_under_its_own_number(sweep, folder):
    """Ctrl-C is exit code 130 with the line that goes on; the finished trials are not run again."""
    text = changed("toy_engine:train", "toy_engine:interrupt")
    first = sweep(text, "--set", "search.seed=5")
    assert first.exit_code == 130
    assert "interrupted: 2 of 4 trials are done. Resume with:" in first.stderr
    assert first.stderr.rstrip().endswith("hpometrics run sweep.yaml --set search.seed=5")
    assert records(folder)[2].state is TrialState.INTERRUPTED
    started = [record.started for record in records(folder)]
    second = sweep(text, "--set", "search.seed=5")
    assert second.exit_code == 0
    assert [r.state for r in records(folder)] == [TrialState.COMPLETE] * 4
    assert [r.started for r in records(folder)][:2] == started[:2]


def test_a_trial_that_ended_untold_is_told_and_not_run_again(sweep, swept, folder):
    """Its worker died between writing its end and telling the study: nothing stays running."""
    swept(SWEEP)
    with sqlite3.connect(folder / "runs" / "sweep" / "study.db") as study:
        study.execute("UPDATE trials SET state = 'RUNNING' WHERE number = 2")
    before = (folder / "runs" / "sweep" / "trials" / "0002" / "epochs.jsonl").read_text()
    assert sweep(SWEEP).exit_code == 0
    assert (folder / "runs" / "sweep" / "trials" / "0002" / "epochs.jsonl").read_text() == before
    with sqlite3.connect(folder / "runs" / "sweep" / "study.db") as study:
        assert study.execute("SELECT DISTINCT state FROM trials").fetchall() == [("COMPLETE",)]


def test_a_pruner_stops_what_is_worse(sweep, folder):
    """Pruned is a state of its own, with fewer epochs."""
    text = changed("sampler: random", "pruner: {median: {min_trials: 2}}").replace("trials: 4", "trials: 8")
    result = sweep(text)
    pruned = [record for record in records(folder) if record.state is TrialState.PRUNED]
    assert pruned
    assert all(len(record.epochs) < 3 for record in pruned)
    assert f"pruned {len(pruned)}" in result.stdout


def test_a_value_that_the_engine_reports_can_steer(sweep, folder):
    """With its direction stated; an epoch's count of the engine is taken without a budget."""
    text = changed("toy_engine:train", "toy_engine:report").replace(", epochs: 3", "")
    result = sweep(text.replace("roc_auc, track: [accuracy]", "{metric: latency_ms, direction: minimize}"))
    assert result.exit_code == 0, result.output
    values = [record.value for record in records(folder)]
    assert f"latency_ms: {sorted(values)[0]:.6g}" in result.stdout
    assert all(record.epoch == 0 for record in records(folder))


def test_start_points_grids_and_lists_are_tried_as_given(sweep, folder):
    """Each is a row of slots; the params that the engine gets are those of the file."""
    sweep(changed("seed: 3", "start: [{lr: 0.01, size: large}]"))
    assert records(folder)[0].params == {"lr": 0.01, "depth": 3, "width": 32}
    points = "[{lr: 0.01, depth: 1}, {lr: 0.05}]"
    sweep(
        "name: list\nengine: toy_engine:train\nmetrics: {optimize: roc_auc}\n"
        f"backend: {{list: {points}}}\nbudget: {{epochs: 2}}\n"
    )
    assert [r.params for r in records(folder, "list")] == [{"lr": 0.01, "depth": 1}, {"lr": 0.05}]
    grid = changed("{float: [1e-4, 1e-1], log: true}", "{choice: [0.1, 0.2]}").replace("random", "grid")
    sweep("name: grid\n" + grid)
    assert [r.params["lr"] for r in records(folder, "grid")] == [0.1, 0.1, 0.2, 0.2]


@pytest.mark.parametrize("budgets", [(2, 3, 4), (2, 4), (3, 2, 4), (1, 4)])
def test_each_point_of_a_grid_is_visited_once(sweep, folder, budgets):
    """Whatever budgets it is run with one after another, whose orders differ."""
    grid = changed("{float: [1e-4, 1e-1], log: true}", "{choice: [0.1, 0.2]}").replace("random", "grid")
    for trials in budgets:
        sweep(grid.replace("trials: 4", f"trials: {trials}"))
        points = [(record.params["lr"], record.params["depth"]) for record in records(folder)]
        assert len(set(points)) == len(points) >= trials
    assert len(points) == 4


def test_a_target_ends_the_sweep(sweep, folder):
    """No trial is started once one has reached it; time alone would do too."""
    result = sweep(changed("trials: 4", "target: 0.5"))
    assert result.exit_code == 0
    assert len(records(folder)) == 1


def test_a_reached_target_is_remembered(sweep, folder):
    """Run again, a sweep that has its target starts no further trial."""
    for _ in range(2):
        sweep(SWEEP, "--set", "budget.target=0.01")
        assert len(records(folder)) == 1


def test_finished_trials_are_not_run_again_when_the_storage_is_gone(sweep, swept, folder):
    """The storage is made again from the record, and the sweep has all its trials."""
    swept(SWEEP)
    for path in (folder / "runs" / "sweep").glob("study.db*"):
        path.unlink()
    before = records(folder)
    result = sweep(SWEEP)
    assert result.exit_code == 0
    assert "study.db was inconsistent with the trials, rebuilt from the trials\n" in result.stderr
    assert records(folder) == before


def test_a_storage_in_memory_remembers_nothing(sweep, folder):
    """It runs; a second time it is refused rather than mixed up."""
    text = SWEEP + "backend: {optuna: {storage: memory}}\n"
    assert sweep(text).exit_code == 0
    assert not (folder / "runs" / "sweep" / "study.db").exists()
    again = sweep(text)
    assert again.exit_code == 2
    assert "has trials that storage: memory has lost; --fresh starts over" in again.stderr


def test_extend_goes_on_in_a_wider_space(sweep, swept, folder):
    """A changed space is refused, accepted with the flag, and its trials stand beside the old ones."""
    swept(SWEEP)
    wider = changed("1e-1]", "1.0]").replace("trials: 4", "trials: 6")
    refused = sweep(wider)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "space.lr.float: [0.0001, 0.1] -> [0.0001, 1.0]" in refused.stderr
    assert sweep(wider, "--extend").exit_code == 0
    assert len(records(folder)) == 6


@pytest.mark.parametrize(
    "space",
    [
        "lr: {float: [1e-4, 1e-1], log: true}, more: {float: [0, 1]}",
        "lr: {float: [1e-4, 1.0], log: true}, fixed: 3",
    ],
)
def test_extend_goes_on_where_a_trial_is_open(sweep, folder, space):
    """A trial that lacks a param of the new space, or has one too many, begins anew, and the run says so."""
    text = changed("toy_engine:train", "toy_engine:interrupt")
    assert sweep(text).exit_code == 130
    before = records(folder)[:2]
    extended = text[: text.index("space:")] + f"space: {{{space}}}\n" + text[text.index("metrics:") :]
    assert sweep(extended).exit_code == 2
    result = sweep(extended, "--extend")
    assert result.exit_code == 0, result.output
    assert "trials/0002 is the trial with " in result.stderr and "kept as 0002.replaced-1" in result.stderr
    assert records(folder)[:2] == before
    assert [one.state for one in records(folder)] == [TrialState.COMPLETE] * 4


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("toy_engine:trian", "toy_engine has no 'trian'; did you mean 'train'?"),
        (
            "toy_engine:not_a_function",
            "toy_engine:not_a_function is an int, not a function train(params, run); toy_engine has",
        ),
        ("no_such_module:train", "importing no_such_module failed: ModuleNotFoundError: No module named"),
    ],
)
def test_an_engine_that_is_not_there_is_a_problem_of_the_file(target, problem, sweep, folder):
    """Found before anything is written; `check` imports nothing and accepts it."""
    result = sweep(changed("toy_engine:train", target))
    assert result.exit_code == 2
    assert f"sweep.yaml:1:10: engine.target: {problem}" in result.stderr
    assert not (folder / "runs").exists()
    assert sweep(changed("toy_engine:train", target), command="check").exit_code == 0


def test_an_output_that_nobody_states_is_a_problem_of_the_file(sweep, folder):
    """With the key that is missing; nothing was run."""
    text = changed("{target: toy_engine:train, output: binary}", "toy_engine:fail")
    result = sweep(text.replace("roc_auc", "accuracy"))
    assert result.exit_code == 2
    assert "sweep.yaml:5:11: metrics.optimize: accuracy means a different metric" in result.stderr
    assert "set engine.output, as in output: category" in result.stderr
    assert "nothing was run" in result.stderr
    assert not (folder / "runs").exists()


RECOMMEND = changed(
    "{target: toy_engine:train, output: binary}", "{target: toy_engine:recommend, output: ranking}"
)
RECOMMEND = RECOMMEND.replace("roc_auc, track: [accuracy]", "ndcg@1, track: [recall@2]")


def test_an_output_that_a_function_gives_is_asked_for_by_run_alone(sweep, folder):
    """Once, before the first trial; the file's word `ranking` agrees with it, and its side data are used."""
    (folder / "popularity").write_text("1 0 0 1")
    assert sweep(RECOMMEND, command="check").exit_code == 0
    assert not (folder / "calls").exists()
    result = sweep(RECOMMEND)
    assert result.exit_code == 0, result.output
    assert (folder / "calls").read_text() == "called\n"
    best = read_document(folder / "runs" / "sweep" / "best.yaml").data
    assert best["output"] == "ranking(num_items=4)"
    named = {name: best["values"][name] for name in ("ndcg@1", "recall@2")}
    assert named == {"ndcg@1": 1.0, "recall@2": 1.0}  # 0 if the seen items were ranked
    assert "mrr@10" in best["values"]  # of the default group


def test_an_output_that_cannot_be_had_is_a_problem_of_the_file(sweep, folder):
    """Its data are missing: said in one line, with the place of the engine; nothing was run."""
    result = sweep(RECOMMEND)
    assert result.exit_code == 2
    assert (
        "sweep.yaml:1:10: engine.target: the output of toy_engine:recommend cannot be read: FileNotFoundError"
        in result.stderr
    )
    assert not (folder / "runs").exists()


@pytest.mark.parametrize(
    ("package", "problem"),
    [
        (
            "sklearn.datasets",
            "needs scikit-learn (sklearn), which is not installed: pip install 'scikit-learn>=1.7'",
        ),
        ("no_such_package.part", "needs the package 'no_such_package', which is not installed"),
    ],
)
def test_a_package_that_the_engine_needs_is_named(package, problem, sweep, folder, monkeypatch):
    """With the line that installs it where it is one of ours."""
    monkeypatch.setitem(sys.modules, "sklearn", None)
    (folder / f"needs_{package[:2]}.py").write_text(f"import {package}\n")
    result = sweep(changed("toy_engine:train", f"needs_{package[:2]}:train"))
    assert result.exit_code == 2
    assert f"engine.target: needs_{package[:2]} {problem}" in result.stderr


def test_quiet_prints_the_results_only(sweep):
    """For scripts."""
    result = sweep(SWEEP, "-q")
    assert result.stderr == ""
    assert "Optimal Engine Params" in result.stdout


def test_a_dry_run_runs_nothing(sweep, folder):
    """It is `check`."""
    assert sweep(SWEEP, "--dry-run").stdout == sweep(SWEEP, command="check").stdout
    assert "toy_engine" not in sys.modules
    assert not (folder / "runs").exists()


def test_best_reads_the_record(sweep, folder):
    """The block of `run`, or all facts as YAML or JSON; a damaged `best.yaml` does not matter."""
    from click.testing import CliRunner

    from hpometrics.cli.main import main

    ran = sweep(SWEEP)
    (folder / "runs" / "sweep" / "best.yaml").write_text("nonsense")
    text, yaml, js = (
        CliRunner().invoke(main, ["best", "runs/sweep", "-f", f]).stdout for f in ("text", "yaml", "json")
    )
    assert text.strip() in ran.stdout
    assert json.loads(js)["value"] == max(record.value for record in records(folder))
    assert yaml.startswith("# The optimal engine params and where they come from")
