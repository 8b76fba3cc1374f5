from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from intruders import EACH, ON_LINUX, SECRET, bounded, put
from matrix import EXHAUSTIVE

from hpometrics.cli.main import main

STATE = "experiment_state-2026-11-22_11-18-07.json"


def audit(path: Path, *arguments: object) -> Result:
    """Call `hpometrics audit` in this process."""
    return CliRunner().invoke(main, ["audit", str(path), *map(str, arguments)])


def found(path: Path, *arguments: object) -> dict[str, list[str]]:
    """The trials of what is found, by code."""
    (one,) = json.loads(audit(path, "--json", *arguments).stdout)
    return {finding["code"]: finding["trials"] for finding in one["findings"]}


def written(
    home: Path, name: str, lr: float, values: Iterable[float], iterations: Iterable[int] = ()
) -> Path:
    """The folder of a trial as Ray leaves it: params and a line of JSON per report."""
    folder = home / f"train_{name}_lr={lr}"
    folder.mkdir(parents=True)
    (folder / "params.json").write_text(json.dumps({"lr": lr, "opt": {"type": "sgd"}}, indent=2))
    at = list(iterations) or range(1, len(list(values)) + 1)
    rows = [
        {"accuracy": value, "training_iteration": step, "trial_id": name, "done": False, "pid": 1}
        for value, step in zip(values, at, strict=True)
    ]
    (folder / "result.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder


def state(home: Path, states: Mapping[str, str], name: str = STATE) -> Path:
    """The state of an experiment as Ray leaves it: JSON in JSON, and the metric of the tuner."""
    trials = [[json.dumps({"relative_logdir": name, "status": told}), "{}"] for name, told in states.items()]
    told: dict[str, Any] = {"trial_data": trials, "runner_data": {"_metric": "accuracy"}, "stats": {}}
    file = home / name
    file.write_text(json.dumps(told))
    return file


def test_two_experiments_of_one_folder_are_told_apart(tmp_path):
    """Fitted twice with one name: no trial repeats another; a restored one has two states and is one."""
    first = [written(tmp_path, name, lr, [0.5, 0.6]) for name, lr in (("a", 0.1), ("b", 0.2))]
    second = [written(tmp_path, name, lr, [0.5, 0.6]) for name, lr in (("c", 0.1), ("d", 0.2))]
    for folders, day in ((first, 1), (second, 2), (second[:1], 3)):
        ended = {folder.name: "TERMINATED" for folder in folders}
        state(tmp_path, ended, f"experiment_state-2026-11-0{day}_10-00-00.json")
    result = audit(tmp_path)
    assert "Ray Tune experiment of 2026-11-01_10-00-00" in result.stdout
    assert "Ray Tune experiment of 2026-11-02_10-00-00" in result.stdout
    assert "2026-11-03" not in result.stdout and "duplicates" not in result.stdout


def test_the_last_epoch_and_the_direction(tmp_path):
    """Ray's own best is that of the last report; which way it was told, only the user knows."""
    written(tmp_path, "a", 0.1, [0.2, 0.9, 0.3])
    written(tmp_path, "b", 0.2, [0.4, 0.5, 0.6])
    assert found(tmp_path, "--metric", "accuracy") == {"last-epoch": ["b", "a"]}
    both = found(tmp_path, "--metric", "accuracy", "--direction", "minimize", "--budget", 1)
    assert both == {"direction": ["a", "b"], "last-epoch": ["b", "a"], "overshot": ["b"]}
    plain = audit(tmp_path, "--metric", "accuracy").stdout
    assert "the best is trial b with 0.6, the value of its last epoch; trial a had 0.9 at epoch 1" in plain


def test_a_failed_trial_with_the_best_value(tmp_path):
    """And one that diverged; what was retried without a checkpoint has epochs twice."""
    written(tmp_path, "a", 0.1, [0.2, float("nan")])
    failed = written(tmp_path, "b", 0.2, [0.4, 0.8])
    (failed / "error.txt").write_text("ValueError: boom\n")
    written(tmp_path, "c", 0.3, [0.1, 0.2, 0.1, 0.2, 0.3], [1, 2, 1, 2, 3])
    assert found(tmp_path, "--metric", "accuracy") == {
        "not-finite": ["a"], "failed-best": ["b"], "repeated-epochs": ["c"],
    }  # fmt: skip


def test_the_state_of_the_experiment_is_read(tmp_path):
    """It names the metric and who is still running; of one report a scheduler judges nothing."""
    folders = [written(tmp_path, name, 0.1, [0.5]) for name in "abc"]
    file = state(
        tmp_path, {folders[0].name: "RUNNING", folders[1].name: "TERMINATED", folders[2].name: "TERMINATED"}
    )
    assert found(tmp_path) == {"unreported": [], "duplicates": ["b", "c"]}
    for path in (file, *tmp_path.glob("*/*")):
        os.utime(path, (time.time() - 90_000,) * 2)
    assert found(tmp_path)["left-running"] == ["a"]
    assert "metric accuracy (from the tuner): must be maximized\n" in audit(tmp_path).stdout


def test_the_metric_of_our_own_tuner_is_that_of_its_reports(tmp_path):
    """The tuner compares `picked`; the metric is the key that always has the current value."""
    for number, (values, picked) in enumerate((((0.5, 0.75), 0.5), ((0.25, 0.5), 0.25))):
        folder = tmp_path / f"train_{number}"
        folder.mkdir()
        config = {"number": number, "params": {"lr": 0.1}}
        (folder / "params.json").write_text(json.dumps(config))
        rows = [
            {"rmse": value, "mae": value / 2, "value": value, "picked": picked, "training_iteration": step}
            for step, value in enumerate(values, 1)
        ]
        (folder / "result.json").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    told = {"trial_data": [], "runner_data": {"_metric": "picked"}, "stats": {}}
    (tmp_path / STATE).write_text(json.dumps(told))
    assert "metric rmse (from its reports): must be minimized\n" in audit(tmp_path).stdout
    assert found(tmp_path).keys() == {"duplicates"}  # the picked value is of the best epoch, not of the last


def test_without_a_metric_the_rest_is_audited(tmp_path):
    """And the user is told how to say it."""
    written(tmp_path, "a", 0.1, [0.2, 0.9])
    written(tmp_path, "b", 0.1, [0.4, 0.5])
    result = audit(tmp_path)
    assert "metric unknown; name it with --metric NAME" in result.stdout
    assert "only 1 point in 2 trials: a = b" in result.stdout


def test_a_table_is_read_where_there_are_no_lines(tmp_path):
    """As Ray's CSV logger writes it, params not among it."""
    for name, values in (("a", [0.2, 0.9]), ("b", [0.4, 0.5])):
        folder = tmp_path / f"train_{name}"
        folder.mkdir()
        rows = [f"{value},{step},{name}" for step, value in enumerate(values, 1)]
        (folder / "progress.csv").write_text("\n".join(["val/acc,training_iteration,trial_id", *rows, ""]))
    assert found(tmp_path, "--metric", "val/acc", "--direction", "minimize") == {"direction": ["b", "a"]}


def test_a_damaged_file_is_named(tmp_path):
    """Exit code 2."""
    (written(tmp_path, "a", 0.1, [0.2]) / "result.json").write_text("{no\n")
    result = audit(tmp_path)
    assert result.exit_code == 2 and "result.json: is not JSON: " in result.stderr


@ON_LINUX
@pytest.mark.parametrize("intruder", EACH)
@pytest.mark.parametrize("file", ["a/params.json", "a/result.json", "a/progress.csv", "a", STATE])
def test_only_bounded_amounts_of_regular_files_are_read(file, intruder, tmp_path):
    """The error names the file; what is no folder of a trial is left aside."""
    home = tmp_path / "experiment"
    written(home, "b", 0.2, [0.4])
    written(home, "a", 0.1, [0.2]).rename(home / "a")
    state(home, {"a": "TERMINATED"})
    if file.endswith("csv"):
        (home / "a/result.json").unlink()
    put(intruder, home / file, tmp_path / "elsewhere")
    with bounded():
        result = audit(home, "--metric", "accuracy")
    assert isinstance(result.exception, SystemExit | None), result.exception
    assert SECRET not in result.output
    if file != "a":
        assert result.exit_code == 2 and f"{file}: " in result.stderr, result.output


@pytest.mark.ray
@EXHAUSTIVE
def test_what_ray_itself_leaves(tmp_path, ray_cluster):
    """A real experiment: its state, its trials, the one that failed."""
    from ray import tune
    from ray.tune.logger import JsonLoggerCallback

    def train(config: dict[str, float]) -> None:
        for epoch in range(3):
            if config["lr"] == 0.3 and epoch == 2:
                raise ValueError("boom")
            tune.report({"accuracy": config["lr"] + (0.5 if epoch == 1 else 0.0)})

    logger = JsonLoggerCallback()  # as Tune adds it where nobody has switched it off
    tune.Tuner(
        train,
        param_space={"lr": tune.grid_search([0.1, 0.2, 0.3])},
        tune_config=tune.TuneConfig(metric="accuracy", mode="max", reuse_actors=True),
        run_config=tune.RunConfig(name="exp", storage_path=str(tmp_path), verbose=0, callbacks=[logger]),
    ).fit()
    before = sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*"))
    assert found(tmp_path / "exp").keys() == {"last-epoch", "failed-best"}
    assert "3 trials: complete 2, failed 1" in audit(tmp_path / "exp").stdout
    assert sorted((path, path.stat().st_mtime_ns) for path in tmp_path.rglob("*")) == before
