"""`search.prune_by` of a sweep file: what is checked, pruned, recorded, and resumed after a kill."""

from __future__ import annotations

import json
import signal
from collections import Counter
from pathlib import Path

import optuna
import pytest
from forked import hpometrics
from sample_sweeps import DOMINATED, PRUNED, SWEEP, problems_of

from hpometrics.backends.optuna.pruners import judged_values
from hpometrics.records.trial_record import TrialRecord, TrialState
from hpometrics.results.run_directory import RunDirectory

LEARN = """\
engine: {target: toy_engine:learn, output: binary}
space: {lr: {float: [1e-4, 1], log: true}}
metrics: {optimize: [roc_auc, brier]}
search:
  sampler: random
  pruner: {median: {min_trials: 1}}
  prune_by: dominance
  start: [{lr: 0.3}, {lr: 1e-4}]
budget: {trials: 5, epochs: 6}
"""
HOME = Path("runs/sweep")
RUNGS = PRUNED.replace("median: {min_trials: 2}", "asha: {min_epochs: 1, eta: 2}").replace(
    "  seed: 3\n", f"  start: [{', '.join(f'{{size: {size}}}' for size in (5, 6, 4, 7, 3, 8, 2, 9, 1))}]\n"
)
"""Each trial is the best so far or the worst, so that both backends keep the same ones."""


def outcomes(home: Path) -> list[tuple[TrialState, int, str | None]]:
    """The state, the number of epochs and the reason of each trial."""
    return [(one.state, len(one.epochs), one.reason) for one in RunDirectory(home).records()]


def rungs() -> list[dict[str, float]]:
    """What the study has stored at the rungs of each trial."""
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{HOME / 'study.db'}")
    return [{k: v for k, v in one.system_attrs.items() if "rung" in k} for one in study.trials]


@pytest.mark.parametrize("prune_by", ["roc_auc", "auroc", "accuracy", "cost"])
def test_a_sweep_is_pruned_by_a_metric(sweep, folder, prune_by):
    """An objective, also by another name of it, or a tracked metric; the record has the reason."""
    result = sweep(PRUNED.replace("prune_by: roc_auc", f"prune_by: {prune_by}"))
    assert result.exit_code == 0, result.stderr
    pruned = [one for one in outcomes(HOME) if one[0] is TrialState.PRUNED]
    name = "roc_auc" if prune_by == "auroc" else prune_by
    assert pruned and all(f"by {name} at" in str(reason) for *_, reason in pruned)
    front = json.loads(sweep(PRUNED, "--json").stdout)["front"] if prune_by == "roc_auc" else []
    numbers = {one.number for one in RunDirectory(HOME).records() if one.state is TrialState.PRUNED}
    assert not numbers & {one["trial"] for one in front}


def test_a_value_that_the_engine_reports_may_judge(sweep, folder):
    """It is tracked, with its direction; the one objective stays what the study has reports of."""
    text = PRUNED.replace(
        "[roc_auc, {metric: cost, direction: minimize}], track: [accuracy]",
        "roc_auc, track: [{metric: cost, direction: minimize}]",
    ).replace("by: roc_auc", "by: cost")
    assert sweep(text).exit_code == 0
    pruned = [one for one in RunDirectory(HOME).records() if one.state is TrialState.PRUNED]
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{HOME / 'study.db'}")
    assert pruned and "by cost at" in str(pruned[0].reason)
    reports = study.trials[pruned[0].number].intermediate_values
    assert reports == {one.epoch: one.number("roc_auc") for one in pruned[0].epochs}


def test_check_says_by_what(sweep, folder):
    """Beside the pruner."""
    checked = sweep(PRUNED.replace("by: roc_auc", "by: dominance"), command="check")
    assert "pruner median(min_trials=2) by dominance" in checked.stdout


@pytest.mark.parametrize("storage", ["sqlite", "journal"])
def test_a_killed_sweep_is_pruned_as_if_nothing_had_happened(folder, monkeypatch, storage):
    """Killed in epoch 2 of the second trial, which is judged again; with two objectives, by both."""
    text = LEARN + f"backend: {{optuna: {{storage: {storage}}}}}\n"
    for name in ("sweep", "whole"):
        (folder / f"{name}.yaml").write_text(text.replace("min_trials: 1", "min_trials: 1, warmup: 3"))
    monkeypatch.setenv("KILL_AT", "2")
    assert hpometrics("run", "sweep.yaml").result().returncode == -signal.SIGKILL
    monkeypatch.delenv("KILL_AT")
    ran = [hpometrics("run", f"{name}.yaml").result() for name in ("sweep", "whole")]
    assert [one.returncode for one in ran] == [0, 0], ran[0].stderr
    assert outcomes(folder / "runs/sweep") == outcomes(folder / "runs/whole")
    states = Counter(state for state, *_ in outcomes(folder / "runs/sweep"))
    assert states[TrialState.PRUNED] > 0 and states[TrialState.COMPLETE] > 0


def test_a_killed_trial_is_compared_at_the_same_rungs(folder, monkeypatch):
    """Killed in the epoch before its first rung, it is compared there, after three epochs, and not later."""
    text = LEARN.replace(
        "{median: {min_trials: 1}}\n  prune_by: dominance", "{asha: {min_epochs: 3, eta: 2}}"
    )
    text = text.replace("[roc_auc, brier]", "roc_auc")
    for name in ("sweep", "whole"):
        (folder / f"{name}.yaml").write_text(text)
    monkeypatch.setenv("KILL_AT", "2")
    assert hpometrics("run", "sweep.yaml").result().returncode == -signal.SIGKILL
    monkeypatch.delenv("KILL_AT")
    ran = [hpometrics("run", f"{name}.yaml").result() for name in ("sweep", "whole")]
    assert [one.returncode for one in ran] == [0, 0], ran[0].stderr
    ended = outcomes(folder / "runs/sweep")
    assert ended == outcomes(folder / "runs/whole")
    assert {epochs for state, epochs, _ in ended if state is TrialState.PRUNED} == {3}


def test_a_lost_study_still_has_what_others_are_judged_by(sweep, folder):
    """It is made again from the records, with the judged values of every epoch."""
    sweep(PRUNED)
    (HOME / "study.db").unlink()
    result = sweep(PRUNED, "--set", "budget.trials=12")
    assert result.exit_code == 0 and "rebuilt from the trials" in result.stderr
    study = optuna.load_study(study_name="sweep", storage=f"sqlite:///{HOME / 'study.db'}")
    records: list[TrialRecord] = RunDirectory(HOME).records()
    for trial, record in zip(study.trials, records, strict=True):
        values = {epoch: dict(values) for epoch, values in judged_values(trial).items()}
        assert values == {one.epoch: {"roc_auc": one.number("roc_auc")} for one in record.epochs}


@pytest.mark.parametrize("prune_by", ["roc_auc", "cost", None])
def test_a_lost_study_still_has_its_rungs(sweep, folder, prune_by):
    """Optuna stores the value of a trial at each rung with the trial; it follows from the reports."""
    text = RUNGS.replace("by: roc_auc", f"by: {prune_by}")
    if prune_by is None:
        text = text.replace("  prune_by: None\n", "")
        text = text.replace("[roc_auc, {metric: cost, direction: minimize}]", "roc_auc")
    assert sweep(text).exit_code == 0
    before = rungs()
    (HOME / "study.db").unlink()
    assert sweep(text, "--set", "budget.trials=10").exit_code == 0
    assert rungs()[: len(before)] == before and {len(one) for one in before} == {1, 2}


def test_workers_judge_together(sweep, folder):
    """Two processes on one file: trials of one are pruned by those of the other, none twice."""
    text = PRUNED.replace("trials: 9", "trials: 16") + "backend: {optuna: {workers: 2}}\n"
    assert sweep(text).exit_code == 0
    states = Counter(one.state for one in RunDirectory(HOME).records())
    assert states.total() == 16 and states[TrialState.PRUNED] > 2


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (("by: roc_auc", "by: acuracy"), "prune_by: acuracy is neither optimized nor tracked; did you mean"),
        (("by: roc_auc", "by: log_loss"), "log_loss is neither optimized nor tracked, choose from roc_auc"),
        (("by: roc_auc", "by: dominanc"), "did you mean 'dominance'?"),
        (
            ("track: [accuracy]}\nsearch:", "track: [lr]}\nsearch:\n  prune_by: lr"),
            "lr has no direction",
        ),
        (
            ("pruner: {median: {min_trials: 2}}", "pruner: none"),
            "prune_by: roc_auc needs a pruner",
        ),
        (
            ("pruner: {median: {min_trials: 2}}", "start: []"),
            "prune_by: roc_auc needs a pruner",
        ),
        (
            ("{median: {min_trials: 2}}\n  prune_by: roc_auc", "asha\n  prune_by: dominance"),
            "as median or percentile does; asha does not",
        ),
        (
            ("{median: {min_trials: 2}}\n  prune_by: roc_auc", "percentile\n  prune_by: dominance"),
            "search.pruner: percentile needs the percentage",
        ),
        (
            ("min_trials: 2}}\n  prune_by: roc_auc", "min_trials: many}}\n  prune_by: dominance"),
            "search.pruner: min_trials of median expects a whole number, got 'many'",
        ),
    ],
)
def test_what_cannot_judge_is_a_problem(change, problem):
    """Found by check, at its place, one message each."""
    text = PRUNED.replace(*change)
    if "lr has" in problem:
        text = text.replace("  prune_by: roc_auc\n", "")
    found = problems_of(text)
    assert len(found) == 1 and problem in found[0]


def test_one_objective_and_a_list_have_no_dominance():
    """Each with what to do; a list is not pruned at all."""
    one = SWEEP.replace("sampler: random", "sampler: random, pruner: median, prune_by: dominance")
    [problem] = problems_of(one)
    assert "search.prune_by: dominance compares several objectives, but there is only one" in problem
    listed = SWEEP.replace("search: {sampler: random, seed: 3}", "search: {prune_by: accuracy}")
    [problem] = problems_of(listed + "backend: {list: [{lr: 0.1, size: small}]}\n")
    assert "search.prune_by: the list backend runs its list without pruning; leave prune_by out" in problem


def test_pruners_of_a_backend_alone_are_for_dominance_on_both():
    """Ray has no percentile of its own."""
    on_ray = PRUNED.replace("{median: {min_trials: 2}}", "{percentile: {percentile: 25}}")
    on_ray += "backend: ray\n"
    assert problems_of(on_ray.replace("by: roc_auc", "by: dominance")) == []
    [problem] = problems_of(on_ray.replace("percentile: {percentile: 25}", "pbt: {mutate: [size]}"))
    assert "search.prune_by: pbt never stops a trial" in problem
    assert "percentile runs on optuna only" in problems_of(on_ray)[0]


@pytest.mark.ray
def test_a_killed_sweep_on_ray_goes_on_with_the_trials_on_disk(folder, on_ray):
    """One worker: by dominance it ends as a sweep on Optuna that nothing has disturbed."""
    (folder / "whole.yaml").write_text(DOMINATED)
    (folder / "sweep.yaml").write_text(DOMINATED + on_ray(1))
    assert hpometrics("run", "whole.yaml").result().returncode == 0
    killed = hpometrics("run", "sweep.yaml")
    assert killed.waits_for((folder / "runs/sweep/trials/0003").exists)
    killed.killed()
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    ended, whole = outcomes(folder / "runs/sweep"), outcomes(folder / "runs/whole")
    assert [one[:2] for one in ended] == [one[:2] for one in whole]
    reasons = [reason for state, _, reason in ended if state is TrialState.PRUNED]
    assert reasons and all("by dominance at roc_auc" in str(reason) for reason in reasons)


@pytest.mark.ray
@pytest.mark.parametrize("pruner", ["asha: {min_epochs: 1, eta: 2}", "median: {min_trials: 2}"])
def test_a_killed_sweep_on_ray_stops_trials_by_those_before(folder, on_ray, pruner):
    """A scheduler that judges by a metric gets their reports again; by asha it ends as a sweep on Optuna."""
    text = RUNGS.replace("asha: {min_epochs: 1, eta: 2}", pruner)
    (folder / "whole.yaml").write_text(text + ("" if "asha" in pruner else on_ray(1)))
    (folder / "sweep.yaml").write_text(text + on_ray(1))
    assert hpometrics("run", "whole.yaml").result().returncode == 0
    killed = hpometrics("run", "sweep.yaml")
    assert killed.waits_for((folder / "runs/sweep/trials/0004").exists)
    killed.killed()
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    ended, whole = outcomes(folder / "runs/sweep"), outcomes(folder / "runs/whole")
    assert [one[:2] for one in ended] == [one[:2] for one in whole]
    assert [state for state, *_ in ended[5:]].count(TrialState.PRUNED) == 2
