"""Several objectives from a sweep file: what is checked, run, printed and left."""

from __future__ import annotations

import json
import math
from pathlib import Path

import optuna
import pytest
import yaml
from click.testing import CliRunner, Result
from forked import hpometrics
from matrix import EXHAUSTIVE
from sample_sweeps import OBJECTIVES, SEVERAL as SWEEP, plan_of, problems_of

from hpometrics.cli.main import main
from hpometrics.results.run_directory import RunDirectory
from hpometrics.selection.selection import front_of

HOME = Path("runs/sweep")


def called(*arguments: str) -> Result:
    """Call the command in this process."""
    return CliRunner().invoke(main, list(arguments))


def front() -> list[int]:
    """The front of the records, counted here."""
    home = RunDirectory(HOME)
    records, optimized = home.records(), home.read().optimized
    points = [record.scores(optimized) for record in records]
    return [records[place].number for place in front_of(points, list(optimized.values()))]


def test_run_prints_the_front_first_and_marked(swept, folder):
    """Then its trials one by one with their engine params; best.yaml holds the knee and says so."""
    result = swept(SWEEP)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert lines[0].split() == [
        "front",
        "trial",
        "roc_auc",
        "^",
        "cost",
        "v",
        "accuracy",
        "^",
        *lines[0].split()[8:],
    ]
    marked = [int(line.split()[1]) for line in lines if line.strip().startswith("* ")]
    assert marked == front() and 1 < len(marked)
    assert any(line.startswith("# engine params evaluated: 9  (ok 9)") for line in lines)
    at = lines.index("Pareto front of roc_auc and cost:")
    listed = lines[at + 1 : at + 1 + len(marked)]
    assert [int(line.split()[1].rstrip(",")) for line in listed] == marked
    assert all("size=" in line for line in listed)
    best = yaml.safe_load((HOME / "best.yaml").read_text())
    [knee] = [line for line in listed if line.endswith("the knee")]
    assert best["pick"] == "knee" and f"trial {best['trial']}," in knee
    assert best["objectives"]["cost"] == {"objective": "minimize", "value": best["values"]["cost"]}
    assert best["verdict"] is None


def test_the_study_has_the_values_of_the_record(swept, folder):
    """In the order of the file; Optuna names the same front."""
    swept(SWEEP)
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{HOME / 'study.db'}")
    records = RunDirectory(HOME).records()
    assert [tuple(trial.values) for trial in study.trials] == [r.scores(["roc_auc", "cost"]) for r in records]
    assert sorted(front()) == [trial.number for trial in study.best_trials]


def test_best_names_the_front_or_what_is_picked(swept, folder):
    """In text, YAML and JSON; a trial that is not on the front is refused with those that are."""
    swept(SWEEP)
    home, trials = str(HOME), front()
    assert called("best", home).stdout.splitlines()[1] == "Pareto front of roc_auc and cost:"
    told = json.loads(called("best", home, "--json").stdout)
    assert [one["trial"] for one in told["front"]] == trials and told["knee"] in trials
    knee = yaml.safe_load(called("best", home, "--pick", "knee", "-f", "yaml").stdout)
    assert knee == yaml.safe_load((HOME / "best.yaml").read_text())
    text = called("best", home, "--pick", str(trials[-1])).stdout
    assert f"Optimal Engine Params: (trial {trials[-1]}, epoch 1, on the Pareto front):" in text
    assert "Verdict: none, because a front of several objectives has no winner" in text
    beaten = next(number for number in range(9) if number not in trials)
    result = called("best", home, "--pick", str(beaten))
    assert result.exit_code == 2 and f"trial {beaten} is not on the front; set knee" in result.stderr


def test_best_by_one_metric_of_several_objectives(swept, folder):
    """It picks by that alone, and does not call the front an optimum."""
    swept(SWEEP)
    records = RunDirectory(HOME).records()
    cheapest = min(records, key=lambda record: (record.scores(["roc_auc", "cost"])[1], record.number))
    result = called("best", str(HOME), "--metric", "cost")
    assert f"(trial {cheapest.number}, epoch 0)" in result.stdout
    assert "The sweep optimized roc_auc and cost" in result.stdout
    for arguments, said in (
        (("--metric", "cost", "--pick", "knee"), "--metric cost picks by another one"),
        (("--interval", "0.9"), "an interval needs one metric"),
        (
            ("--pick", "nee"),
            "pick must be best, one_se, cheapest_within_se, knee or the number of a trial, got",
        ),
    ):
        refused = called("best", str(HOME), *arguments)
        assert refused.exit_code == 2 and said in refused.stderr


def test_the_file_picks(sweep, swept, folder):
    """The knee, or a trial by its number: one that is not on the front leaves no best.yaml."""
    swept(SWEEP)
    trials = front()
    picked = SWEEP.replace("track", f"pick: {trials[0]}, track")
    result = sweep(picked)
    assert result.exit_code == 0
    assert f"Optimal Engine Params: (trial {trials[0]}, epoch 1, on the Pareto front):" in result.stdout
    assert yaml.safe_load((HOME / "best.yaml").read_text())["pick"] == trials[0]
    assert "the knee of the Pareto front" in sweep(SWEEP.replace("track", "pick: knee, track")).stdout
    assert ", epoch 0):" in called("best", str(HOME), "--metric", "cost").stdout
    beaten = next(number for number in range(9) if number not in trials)
    refused = sweep(SWEEP.replace("track", f"pick: {beaten}, track"))
    assert refused.exit_code == 2 and f"trial {beaten} is not on the front" in refused.stderr
    assert not (HOME / "best.yaml").exists()


def test_status_trials_and_replay(swept, folder):
    """Each tells of the front; a replay of the knee has every objective to the last digit."""
    swept(SWEEP)
    trials = front()
    assert (
        f"front   {len(trials)} of 9 trials: {', '.join(map(str, trials))}"
        in called("status", str(HOME)).stdout
    )
    told = json.loads(called("status", str(HOME), "--json").stdout)
    assert [one["trial"] for one in told["front"]] == trials and told["best"]["trial"] == told["knee"]
    rows = json.loads(called("trials", str(HOME), "-f", "json").stdout)
    assert [row["number"] for row in rows if row["front"]] == sorted(trials)
    replayed = called("replay", str(HOME), "--seeds", "2")
    assert replayed.exit_code == 0
    assert "roc_auc matches the record, to the last digit\ncost matches the record" in replayed.stdout
    assert "cost over 2 seeds: mean" in replayed.stdout


def test_running_on_and_changing_what_is_optimized(sweep, swept, folder):
    """A second run does nothing; a larger budget goes on; other objectives are another sweep."""
    swept(SWEEP)
    assert "all 9 trials are done" in sweep(SWEEP).stderr
    assert len(json.loads(sweep(SWEEP, "--json", "--set", "budget.trials=11").stdout)["front"]) == len(
        front()
    )
    assert len(RunDirectory(HOME).records()) == 11
    other = sweep(SWEEP.replace(OBJECTIVES, "optimize: [roc_auc, {metric: cost, direction: maximize}]"))
    assert other.exit_code == 2
    assert "others: cost (minimize) -> cost (maximize)" in other.stderr


def test_a_lost_study_is_made_again(sweep, swept, folder):
    """From the records, with the values of every objective."""
    swept(SWEEP)
    before = front()
    (HOME / "study.db").unlink()
    result = sweep(SWEEP)
    assert result.exit_code == 0 and "rebuilt from the trials" in result.stderr
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{HOME / 'study.db'}")
    assert [trial.number for trial in study.best_trials] == sorted(before)


def test_no_feasible_trial_ends_as_with_one_objective(sweep, folder):
    """Exit code 3, the least violating trial named, no best.yaml."""
    result = sweep(SWEEP.replace("track", 'constraints: ["cost <= 0"], track'))
    assert result.exit_code == 3 and "no trial is feasible" in result.stderr
    assert not (HOME / "best.yaml").exists()


def test_repeats_have_means_of_each_objective(sweep, folder):
    """Table and best.yaml tell the mean over the seeds."""
    sweep(SWEEP.replace("epochs: 2", "epochs: 2, repeats: 2").replace("trials: 9", "trials: 3"))
    for record in RunDirectory(HOME).records():
        aucs = [repeat.values["roc_auc"] for repeat in record.repeats]
        assert len(aucs) == 2 and record.scores(["roc_auc", "cost"])[0] == math.fsum(aucs) / 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("sampler: nsga2", "sampler: nsga2, pruner: median"), "search.pruner: median judges by one value"),
        (
            ("sampler: nsga2, seed: 3}", "pruner: {pbt: {mutate: [size]}}}\nbackend: {ray: {}}"),
            "search.pruner: pbt judges by one value",
        ),
        (("sampler: nsga2", "sampler: cmaes"), "search.sampler: cmaes supports one objective"),
        (("epochs: 2", "epochs: 2, target: 0.9"), "budget.target: is in the unit of one metric"),
        (("epochs: 2", "epochs: 2, target: 0"), "budget.target: is in the unit of one metric"),
        (("track", "pick: one_se, track"), "metrics.pick: one_se works for one objective"),
        (
            ("track", "pick: -1, track"),
            "metrics.pick: expected best, one_se, cheapest_within_se, knee or the number of a trial, got -1",
        ),
        (
            ("track", "pick: true, track"),
            "metrics.pick: expected best, one_se, cheapest_within_se, knee or the number of a trial, got",
        ),
        (
            ("[roc_auc, {metric: cost", "[roc_auc, auroc, {metric: cost"),
            "roc_auc is already among the objectives",
        ),
        (("[roc_auc, {metric: cost", "[roc_auc, lr, {metric: cost"), "metrics.optimize[1]"),
        ((OBJECTIVES, "optimize: roc_auc, pick: knee"), "metrics.pick: knee picks from the front of several"),
    ],
)
def test_what_several_objectives_cannot_have_is_a_problem(change, problem):
    """Found by check, at its place, one message each."""
    found = problems_of(SWEEP.replace(*change))
    assert len(found) == 1 and problem in found[0]


@pytest.mark.parametrize("sampler", ["tpe", "gp", "random", "grid", "qmc", "nsga2"])
def test_samplers_of_several_objectives(sampler):
    """All but cmaes."""
    plan = plan_of(SWEEP.replace("nsga2", sampler))
    assert [measure.name for measure in plan.objectives] == ["roc_auc", "cost"]


def test_check_says_what_is_searched(sweep, folder):
    """Both objectives with their directions, the epoch and the pick."""
    told = sweep(SWEEP, "--probe", command="check").stdout
    assert "objective   roc_auc   maximize <- registry" in told
    assert "objective   cost   minimize <- this file   reads what the engine reports" in told
    assert "at          the best epoch by roc_auc" in told
    assert (
        "pick        no single trial; the output shows the Pareto front, and best.yaml holds its knee" in told
    )
    facts = json.loads(sweep(SWEEP, "--json", command="check").stdout)
    assert [one["name"] for one in facts["plan"]["others"]] == ["cost"]


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_check_draws_the_params_that_run_draws(sweep, folder, sampler):
    """Of the first trials, at which no sampler looks at values."""
    text = SWEEP.replace("nsga2", sampler).replace("trials: 9", "trials: 4")
    drawn = json.loads(sweep(text, "--sample", "4", "--json", command="check").stdout)["sample"]["params"]
    sweep(text)
    assert drawn == [dict(record.params) for record in RunDirectory(HOME).records()]


def test_damage_leaves_the_front(sweep, swept, folder):
    """A trial whose epochs are damaged keeps the values that its study knows, all of its picked epoch."""
    swept(SWEEP)
    before = front()
    epochs = HOME / "trials" / f"{before[0]:04d}" / "epochs.jsonl"
    epochs.write_bytes(b"{}\n" * 2)
    result = sweep(SWEEP)
    assert result.exit_code == 0 and "not an epoch record" in result.stderr
    assert front() == before


@EXHAUSTIVE
def test_workers_share_the_front(sweep, folder):
    """Two processes on one study: every trial has all values in it."""
    result = sweep(SWEEP + "backend: {optuna: {workers: 2}}\n")
    assert result.exit_code == 0, result.stderr
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{HOME / 'study.db'}")
    assert len(study.trials) == 9 and all(len(trial.values) == 2 for trial in study.trials)
    assert sorted(front()) == [trial.number for trial in study.best_trials]


def test_an_evaluation_has_one_objective(sweep, folder):
    """Its best.json has one score; both commands refuse several."""
    result = sweep(SWEEP.replace("toy_engine:trade, output: binary", "toy_stages:Guesser"))
    assert result.exit_code == 2
    assert "an evaluation of engine params optimizes one metric, got 2" in result.stderr
    assert called("eval", "sweep.yaml").exit_code == 2


@pytest.mark.ray
@EXHAUSTIVE
def test_ray_has_the_front_of_optuna(folder, on_ray):
    """The same points through Tune: the same record, study and front."""
    grid = SWEEP.replace("nsga2", "grid").replace("trials: 9", "trials: 4")
    found = []
    for backend, place in (("optuna", "backend: optuna\n"), ("ray", on_ray())):
        (folder / "sweep.yaml").write_text(f"{grid}{place}results: {{dir: runs/{backend}}}\n")
        ran = hpometrics("run", "sweep.yaml").result()
        assert ran.returncode == 0, ran.stderr
        facts = json.loads(called("best", f"runs/{backend}", "--json").stdout)
        study = optuna.load_study(study_name="sweep", storage=f"sqlite:///runs/{backend}/study.db")
        found.append((facts, [trial.values for trial in study.trials]))
    assert found[0] == found[1]


def test_the_report_has_the_front(swept, folder):
    """Its figure first; the others are of the first objective, and the text says the same."""
    swept(SWEEP)
    assert called("report", str(HOME)).exit_code == 0
    page = (HOME / "report.html").read_text()
    assert page.index('<section id="front">') < page.index('<section id="history">')
    assert "Several objectives, to maximize: roc_auc; to minimize: cost." in page
    assert "the knee of the Pareto front" in page
    called("report", str(HOME), "-f", "md")
    assert "Verdict: none, because a front of several objectives" in (HOME / "report.md").read_text()
