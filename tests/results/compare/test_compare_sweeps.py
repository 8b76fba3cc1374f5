"""`hpometrics compare DIR DIR ...`: sweeps that have optimized the same, side by side."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result
from sample_records import FOUR, trial, written
from sample_sweeps import SEVERAL, changed

from hpometrics._formatting import spread
from hpometrics.cli.main import main
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState
from hpometrics.selection.intervals import Interval, Significance, TrialInterval

LOSS = changed("optimize: roc_auc, track: [accuracy]", "optimize: log_loss")
ACCURACY = changed("optimize: roc_auc, track: [accuracy]", "optimize: accuracy, track: [roc_auc]")
BOUND = changed("track: [accuracy]", 'track: [accuracy], constraints: ["accuracy <= 0.1"]')


def compared(*arguments: object) -> Result:
    """Call `hpometrics compare ...` in this process."""
    return CliRunner().invoke(main, ["compare", *map(str, arguments)])


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """Two sweeps: of `a` trial 1 is the best, of `b` trial 4, which is better and has the other bundle."""
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "a", FOUR)
    written(tmp_path / "b", [trial(4, [0.6, 0.95], lr=0.25), trial(5, [0.5], lr=0.1)])
    return tmp_path


def rows(result: Result) -> dict[str, list[str]]:
    """The cells of the table by what stands before them."""
    lines = result.stdout.split("\n\n")[0].splitlines()
    starts = [0, *(lines[0].index(name) for name in lines[0].split())]
    ends = [*starts[1:], None]
    cells = [[line[start:end].strip() for start, end in zip(starts, ends, strict=True)] for line in lines]
    return {head: rest for head, *rest in cells}


def test_sweeps_stand_side_by_side_the_best_first(runs):
    """In whatever order they are named; the params of the picks are exact."""
    result = compared("a", "b")
    assert result.exit_code == 0, result.output
    told = rows(result)
    assert told[""] == ["b", "a"]
    assert told["trials"] == ["2 of 4 done   ok 2   12.0s of training", *told["trials"][1:]]
    assert "ok 2   pruned 1   failed 1" in told["trials"][1]
    assert told["roc_auc ^"] == ["0.950000", "0.800000"]
    assert told["accuracy ^"] == ["0.850000", "0.700000"]
    assert told["picked"] == ["trial 4, epoch 1", "trial 1, epoch 2"]
    assert told["lr"][0] == "0.25" and told["width"] == ["8", "32"]
    assert compared("b", "a").stdout == result.stdout


def test_what_differs_is_said_in_words(runs):
    """The gap in the metric's own direction, the params, and how to learn whether it is chance."""
    said = compared("a", "b").stdout.split("\n\n")[1].splitlines()
    assert said == [
        "b is better by 0.15 in roc_auc (maximize)",
        "the picked params differ in lr, depth, width",
        "add --interval 0.95 to test whether the difference is significant",
    ]


def test_what_is_minimized_has_its_smallest_value_first(tmp_path, monkeypatch):
    """The direction is that of the metric."""
    monkeypatch.chdir(tmp_path)
    for name, value in (("a", 0.75), ("b", 0.5), ("c", 0.25)):
        written(tmp_path / name, [loss(0, value)], LOSS)
    result = compared("a", "b", "c")
    assert rows(result)[""] == ["c", "b", "a"]
    assert "c is better by 0.25 in log_loss (minimize)" in result.stdout


def loss(number: int, value: float) -> TrialRecord:
    """A trial with one epoch of `log_loss`."""
    record = trial(number, [value])
    return replace(record, epochs=(EpochRecord(0, {"log_loss": value}),))


def test_the_same_as_json(runs):
    """Every number unrounded; the sweeps as `status --json` has them."""
    told = json.loads(compared("a", "b", "--json").stdout)
    assert (told["metric"], told["objective"]) == ("roc_auc", "maximize")
    assert [one["directory"] for one in told["sweeps"]] == ["b", "a"]
    assert [one["best"]["value"] for one in told["sweeps"]] == [0.95, 0.8]
    assert told["sweeps"][1]["states"]["pruned"] == 1
    assert told["params_differ"]["width"] == [8, 32]
    assert told["difference"] is None


@pytest.mark.parametrize("nested", [False, True])
def test_picks_that_read_other_secrets_differ(tmp_path, monkeypatch, nested):
    """The variables are told, as the files name them; what they hold is not known here."""
    monkeypatch.chdir(tmp_path)
    for name, variable in (("a", "HUB_TOKEN"), ("b", "OTHER_TOKEN"), ("c", "HUB_TOKEN")):
        record, secret = trial(1, [0.5]), {"secret": variable}
        params = {**record.params, "token": [1, secret] if nested else secret}
        written(tmp_path / name, [replace(record, params=params)])
    result = compared("a", "b")
    assert result.exit_code == 0, result.output
    cells = ["*** (HUB_TOKEN)", "*** (OTHER_TOKEN)"]
    assert rows(result)["token"] == ([f'[1, "{cell}"]' for cell in cells] if nested else cells)
    assert "the picked params differ in token\n" in result.stdout
    assert list(json.loads(compared("a", "b", "--json").stdout)["params_differ"]) == ["token"]
    assert "the picked params are the same" in compared("a", "c").stdout


def test_equal_picks_are_said_to_be_equal(runs):
    """Whichever is named first stays first."""
    shutil.copytree(runs / "a", runs / "c")
    said = compared("c", "a").stdout
    assert "c and a are equal in roc_auc (maximize)\nthe picked params are the same\n" in said


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        (LOSS, "a has roc_auc (maximize), b has log_loss (minimize)"),
        (ACCURACY, "a has roc_auc (maximize), b has accuracy (maximize)"),
    ],
)
def test_other_metrics_are_not_compared(runs, text, fact):
    """Metric and direction of both are named."""
    written(runs / "b", [], text)
    result = compared("a", "b")
    assert result.exit_code == 2 and fact in result.stderr and not result.stdout


@pytest.mark.parametrize("options", [("--direction", "maximize"), ("--bh",), ("--raw",)])
def test_an_option_of_models_is_not_ignored(runs, options):
    """Models are compared row by row; here their rows are missing, and a metric has its own direction."""
    result = compared("a", "b", *options)
    assert result.exit_code == 2 and not result.stdout


def test_another_direction_is_not_compared(runs):
    """As where an engine reports a value that two files say different things of."""
    for name, direction in (("a", "minimize"), ("b", "maximize")):
        text = changed(
            "optimize: roc_auc, track: [accuracy]", f"optimize: {{metric: ms, direction: {direction}}}"
        )
        written(runs / name, [], text)
    assert "a has ms (minimize), b has ms (maximize)" in compared("a", "b").stderr


def test_fronts_are_not_compared(runs):
    """No trial of a front is the best; the command that names it is said."""
    written(runs / "b", [], SEVERAL)
    result = compared("a", "b")
    assert result.exit_code == 2
    assert "b optimized several objectives" in result.stderr
    assert "hpometrics best b" in result.stderr


def test_a_sweep_without_a_best_comes_last_with_its_reason(runs):
    """Its trials are counted all the same; where none has a best the exit code is 3."""
    infeasible = trial(0, [0.99], TrialState.INFEASIBLE, reason="accuracy 0.89 > 0.1")
    written(runs / "c", [infeasible], BOUND)
    result = compared("c", "a")
    assert result.exit_code == 0 and rows(result)[""] == ["a", "c"]
    assert rows(result)["roc_auc ^"] == ["0.800000", "-"]
    assert "c: no trial is feasible" in result.stdout
    assert rows(result)["constraints"] == ["-", "accuracy <= 0.1"]
    alone = compared("c", "c")
    assert alone.exit_code == 3 and "no trial is feasible" in alone.stdout
    assert json.loads(compared("c", "c", "--json").stdout)["sweeps"][0]["best"] is None


def test_a_directory_is_named_as_a_terminal_may_show_it(runs):
    """Whatever characters its name has."""
    (runs / "b").rename(runs / "\x1b[2Jb")
    result = compared("a", "\x1b[2Jb")
    assert result.exit_code == 0 and "\x1b" not in result.stdout and "[2Jb is better" in result.stdout


def test_kept_intervals_are_shown(runs):
    """Those of the sweep's end, of the picked trial."""
    side = TrialInterval(4, 1, 0.95, Interval(0.95, 0.9, 0.99))
    verdict = Significance("roc_auc", side, TrialInterval(5, 0, 0.5), kept="rows")
    (runs / "b" / "verdict.json").write_text(json.dumps(verdict.to_json()))
    assert rows(compared("a", "b"))["95% interval"] == ["0.900 .. 0.990", "-"]


def test_what_is_stored_tells_whether_it_is_a_coin_toss(sweep, folder):
    """As `best --interval` draws it; with rows of one target they are paired."""
    kept = f"{ACCURACY}results: {{statistics: all, dir: runs/%s}}\n"
    assert sweep(kept % "a").exit_code == 0
    assert sweep(kept % "b", "--set", "search.seed=5").exit_code == 0
    told = json.loads(compared("runs/a", "runs/b", "--interval", "0.9", "--json").stdout)["difference"]
    assert told["level"] == 0.9 and told["paired"] is True and told["coin_toss"] in (True, False)
    first, second = told["winner"]["value"], told["runner_up"]["value"]
    assert told["difference"]["value"] == pytest.approx(first - second)
    text = compared("runs/a", "runs/b", "--interval", "0.9").stdout
    assert "Verdict: 90% intervals for accuracy, over the same rows of both trials (paired)" in text
    for side, directory in zip(("winner", "runner_up"), told["between"], strict=True):
        assert f"  {directory}, trial {told[side]['trial']}: " in text


NOISY = """\
import torch


def train(params, run):
    target = torch.arange(100) % 2
    for epoch in run.epochs():
        noise = torch.rand(100, generator=torch.Generator().manual_seed(run.seed % 2**31 + epoch))
        run.update(probabilities=(target + params["noise"] * (noise - 0.5) * 4).sigmoid(), target=target)
"""
FRESH = """\
engine: {target: noisy_engine:train, output: binary}
space: {noise: {float: [0.3, 1.0]}}
metrics: {optimize: roc_auc}
search: {seed: SEED}
budget: {trials: 3, epochs: 2}
results: {statistics: rows, dir: runs/NAME}
confirm: {top: 2, repeats: 3, equivalence: 0}
"""


def test_confirmed_sweeps_are_compared_by_fresh_trainings(sweep, folder):
    """The means of the winners stand side by side; the difference is that of the two-way table."""
    (folder / "noisy_engine.py").write_text(NOISY)
    plain = FRESH.partition("confirm:")[0]
    for name, seed, text in (("a", "1", FRESH), ("b", "2", FRESH), ("plain", "1", plain)):
        ran = sweep(text.replace("NAME", name).replace("SEED", seed))
        assert ran.exit_code == 0, ran.output
    best = {name: yaml.safe_load(Path(f"runs/{name}/best.yaml").read_text()) for name in ("a", "b")}
    result = compared("runs/a", "runs/b", "--interval", "0.95")
    assert result.exit_code == 0, result.output
    told, order = rows(result), [place.rpartition("/")[2] for place in rows(result)[""]]
    means = [best[name]["confirmed"]["mean"] for name in order]
    cells = [spread(best[name]["confirmed"]["mean"], best[name]["deviation"], 3) for name in order]
    assert told["roc_auc ^"] == cells
    assert means == sorted(means, reverse=True)
    assert all("3 fresh trainings" in cell for cell in told["confirmed"])
    low = best[order[0]]["confirmed"]["honest"][1]
    assert f"({low:.3f} .." in told["on new rows"][0]
    words = f"value of runs/{order[0]} and runs/{order[1]} is the mean over fresh trainings of its winner"
    assert words in result.stdout and "over fresh trainings and the same rows of both" in result.stdout
    both = json.loads(compared("runs/a", "runs/b", "--interval", "0.95", "--json").stdout)
    difference = both["difference"]
    assert (difference["kept"], difference["paired"]) == ("fresh", True)
    assert both["notes"] == ["compared by 3 fresh trainings of each, under different seeds"]
    assert [difference[side]["value"] for side in ("winner", "runner_up")] == pytest.approx(means)
    picks = [f"runs/{name}" for name in order]
    (models,) = json.loads(compared(*picks, "--metric", "roc_auc", "--json").stdout)
    assert models["pairs"][0]["p_value"] == difference["p_value"] and models["seeds"] == 3
    assert models["notes"] == both["notes"] and f"\n{both['notes'][0]}\nVerdict" in result.stdout
    beside = compared("runs/a", "runs/plain").stdout
    assert "runs/plain is not confirmed: its value is the best of a search" in beside
    said = (
        "compared by the training of each trial in the search, with its luck, because runs/plain was not "
        "trained again"
    )
    half = compared("runs/a", "runs/plain", "--interval", "0.95")
    assert f"\n{said}\nVerdict: 95% intervals for roc_auc, over the same rows" in half.stdout
    told = json.loads(compared("runs/a", "runs/plain", "--interval", "0.95", "--json").stdout)
    assert told["notes"] == [said] and told["difference"]["kept"] == "rows"


def test_what_was_not_kept_has_its_reason(runs):
    """The verdict is open; the rest is told."""
    result = compared("a", "b", "--interval", "0.95")
    assert result.exit_code == 0, result.output
    assert "Verdict: no confidence interval; epoch 1 has no stored statistics" in result.stdout


def test_sweeps_are_compared_without_torch_or_a_host(runs):
    """Their records are enough, as for `best`."""
    code = (
        "import sys; from hpometrics.cli.main import main\n"
        "main(['compare', 'a', 'b'], standalone_mode=False)\n"
        "print(sorted({'torch', 'optuna', 'ray', 'pydantic', 'numpy', 'rich'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("a",), "needs two trials of a directory, or more files or directories"),
        (("a", "3"), "two trials, as in 3 7; write a directory named by a number as ./3"),
        (("a", "b", "3"), "write a directory named by a number as ./3"),
        (("a", "b", "--by", "group"), "--by groups the users of two trials"),
        (("a", "3", "7"), "a: has no trial 7; there are 0, 1, 2, 3"),
    ],
)
def test_a_wrong_use_is_said(runs, arguments, message):
    """With what goes together."""
    result = compared(*arguments)
    assert result.exit_code == 2 and message in " ".join(result.stderr.split())


def test_what_is_no_run_directory_is_named(runs):
    """Wherever it stands."""
    result = compared("a", "nowhere")
    assert result.exit_code == 2
    assert "nowhere is neither a file of predictions nor a run directory" in result.stderr
