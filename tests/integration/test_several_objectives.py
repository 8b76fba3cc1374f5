"""Several objectives from Python: over Optuna, a list and Ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import optuna
import pytest
from matrix import EXHAUSTIVE
from ray import tune
from ray.tune.schedulers import ASHAScheduler, FIFOScheduler

from hpometrics.backends.objective import ListObjective
from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.backends.ray.objective import RayObjective
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError, DirectionError, NoFeasibleTrialError
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Reported
from hpometrics.run.run import Run
from hpometrics.space.dimensions import Float, Int
from hpometrics.space.space import Space

METRICS = [Reported("auc", "maximize"), Reported("cost", "minimize")]
SPACE = Space({"width": Int(0, 8), "noise": Float(0.0, 1.0)})
POINTS: list[dict[str, Any]] = [
    {"width": 8, "noise": 0.0},
    {"width": 2, "noise": 0.0},
    {"width": 2, "noise": 0.5},
    {"width": 0, "noise": 0.0},
    {"width": 2, "noise": 0.0},
    {"width": 5, "noise": 1.0},
]
FACTS: dict[str, Any] = {"metric": METRICS, "epochs": 3, "seed": 5}


def make_train() -> Any:
    """A model that is better and dearer the wider it is, best at its second epoch; one that diverges."""

    def train(params, run):
        for epoch in run.epochs():
            auc = 1 - 0.5 ** (params["width"] + 1) - params["noise"] / 8 - abs(epoch - 1) / 4
            run.log(auc=auc, cost=float("nan") if params["noise"] == 1 else params["width"] + epoch)

    return train


def optuna_objective(**facts: Any) -> tuple[OptunaObjective, optuna.Study]:
    """An objective and a study that has tried the points."""
    objective = OptunaObjective(make_train(), SPACE, **FACTS | facts)
    study = objective.create_study()
    for point in POINTS:
        study.enqueue_trial(SPACE.encode(point))
    study.optimize(objective, n_trials=len(POINTS))
    return objective, study


def test_directions_are_those_of_the_metrics_in_their_order():
    """The study has them; there is no one direction."""
    objective = OptunaObjective(make_train(), SPACE, metric=["roc_auc", "brier"], output="binary")
    assert objective.directions == [MAXIMIZE, MINIMIZE]
    assert [one.name for one in objective.create_study().directions] == ["MAXIMIZE", "MINIMIZE"]
    with pytest.raises(
        DirectionError, match="roc_auc must be maximized, brier must be minimized; use directions"
    ):
        _ = objective.direction
    with pytest.raises(
        DirectionError, match="brier must be minimized, but directions= is maximize, maximize"
    ):
        objective.create_study(directions=["maximize", "maximize"])
    with pytest.raises(DirectionError, match=r"set to minimize; create it with directions=\['maximize', 'mi"):
        optuna.create_study().optimize(objective, n_trials=1)


@pytest.mark.parametrize("directory", [False, True])
def test_all_values_of_a_trial_are_of_one_epoch(directory, tmp_path):
    """Epoch 1 is the best by the first metric, though epoch 0 costs less; with and without a record."""
    objective, study = optuna_objective(**({"directory": tmp_path} if directory else {}))
    assert study.trials[0].values == [1 - 0.5**9, 9.0]
    assert [dict(record.picked_values) for record in objective.records(study)[:1]] == [
        {"auc": 1 - 0.5**9, "cost": 9.0}
    ]
    assert [best.trial for best in objective.front(study)] == [0, 1, 4, 3]
    assert objective.best(study, pick="knee").scores == (0.875, 3.0)
    assert objective.best(study, pick=3).params == {"width": 0, "noise": 0.0}
    with pytest.raises(
        ConfigError, match=r"auc and cost have no single best trial; set knee, or the number of one of .*0 \("
    ):
        objective.best(study)


def test_the_front_is_that_of_the_study():
    """Optuna names the same trials, and one that diverged has failed in both."""
    objective, study = optuna_objective()
    assert sorted(best.trial for best in objective.front(study)) == [one.number for one in study.best_trials]
    failed = objective.records(study)[5]
    assert failed.state is TrialState.FAILED and "cost: none of 3 epochs has a finite value" in failed.reason
    assert study.trials[5].state.name == "FAIL"


def test_nothing_is_reported_to_optuna():
    """It takes no reports of several objectives."""
    _, study = optuna_objective()
    assert all(not trial.intermediate_values for trial in study.trials)


def test_a_list_has_the_front_of_the_study():
    """The same bests, epoch by epoch."""
    listed = ListObjective(make_train(), POINTS, **FACTS)
    records = listed.run()
    objective, study = optuna_objective()
    assert listed.front(records) == objective.front(study)


@EXHAUSTIVE  # a shipped sweep for a front finds the same on Ray in `test_backend_swap`
@pytest.mark.ray
def test_ray_has_the_front_of_the_list(ray_cluster, tmp_path):
    """The same params through Tune."""
    objective = RayObjective(make_train(), SPACE, **FACTS)
    config = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    tuner = objective.tuner(len(POINTS), points=POINTS, run_config=config, scheduler=FIFOScheduler())
    results = tuner.fit()
    listed = ListObjective(make_train(), POINTS, **FACTS)
    assert objective.front(results) == listed.front(listed.run())
    assert objective.study is not None and objective.study.trials[0].values == [1 - 0.5**9, 9.0]


@pytest.mark.parametrize("scheduler", ["asha", {"median": {}}, ASHAScheduler()])
def test_schedulers_are_refused_before_the_first_trial(scheduler):
    """By name; they judge one value."""
    with pytest.raises(
        ConfigError, match=r"the scheduler \w+ judges by one value; auc, cost are 2 objectives"
    ):
        RayObjective(make_train(), SPACE, **FACTS).tuner(2, scheduler=scheduler)


@pytest.mark.parametrize("pruner", ["median", {"asha": {}}, optuna.pruners.HyperbandPruner()])
def test_pruners_are_refused_before_the_first_trial(pruner):
    """By name, given here or in a study made elsewhere."""
    objective = OptunaObjective(make_train(), SPACE, **FACTS)
    with pytest.raises(ConfigError, match=r"the pruner \w+ judges by one value; auc, cost are 2 objectives"):
        objective.create_study(pruner=pruner)
    if not isinstance(pruner, (str, dict)):
        study = optuna.create_study(directions=["maximize", "minimize"], pruner=pruner)
        with pytest.raises(ConfigError, match="the pruner HyperbandPruner judges by one value"):
            study.optimize(objective, n_trials=1)


@pytest.mark.parametrize("sampler", ["cmaes", "optuna.samplers:CmaEsSampler", optuna.samplers.CmaEsSampler()])
def test_a_sampler_for_one_objective_is_refused(sampler):
    """And named, with those that know several."""
    objective = OptunaObjective(make_train(), SPACE, **FACTS)
    others = "Choose tpe, gp, botorch, nsga2 or nsga3"
    with pytest.raises(ConfigError, match=rf"the sampler \w+ supports one objective.*{others}"):
        objective.create_study(sampler=sampler)


@pytest.mark.parametrize("sampler", ["tpe", "random", "gp", "qmc", "nsga2"])
def test_samplers_search_for_several_objectives(sampler):
    """Beyond their startup trials."""
    objective = OptunaObjective(make_train(), SPACE, **FACTS)
    study = objective.create_study(sampler=sampler)
    study.optimize(objective, n_trials=14)
    assert len(objective.front(study)) >= 1


def test_the_best_is_feasible():
    """A bound leaves the dear ones out; where all break it there is no front."""
    objective, study = optuna_objective(constraints=["cost <= 4"])
    assert [best.trial for best in objective.front(study)] == [1, 4, 3]
    objective, study = optuna_objective(constraints=["cost <= -1"])
    with pytest.raises(NoFeasibleTrialError, match="no trial is feasible"):
        objective.front(study)


def test_repeats_are_means_of_each_objective(tmp_path):
    """A value that differs between repeats has their mean in the study, and beside it the other's."""

    def train(params, run):
        import random

        for _ in run.epochs():
            run.log(auc=random.random(), cost=random.random())

    objective = OptunaObjective(train, SPACE, directory=tmp_path, repeats=3, **FACTS)
    study = objective.create_study()
    study.optimize(objective, n_trials=2)
    for record, trial in zip(objective.records(study), study.trials, strict=True):
        values = [sum(repeat.values[name] for repeat in record.repeats) / 3 for name in ("auc", "cost")]
        assert trial.values == pytest.approx(values, abs=1e-15)


def test_patience_ends_a_run_when_no_objective_improves():
    """The second metric improves until epoch 3, the first until 1; two epochs later the run ends."""
    run = Run(metric=METRICS, patience=2)
    with run:
        for epoch in run.epochs(20):
            run.log(auc=min(epoch, 1), cost=max(5 - epoch, 2))
    assert len(run.history) == 6
    assert run.scores == (1.0, 2.0)


def test_a_run_of_its_own_returns_its_scores():
    """Whoever writes the objective returns `run.scores`."""

    def objective(trial):
        with Run(trial, metric=METRICS) as run:
            for epoch in run.epochs(2):
                run.log(auc=trial.suggest_float("x", 0, 1), cost=epoch)
        return run.scores

    study = optuna.create_study(directions=["maximize", "minimize"])
    study.optimize(objective, n_trials=2)
    assert [trial.values for trial in study.trials] == [[t.params["x"], 0.0] for t in study.trials]


def test_a_stored_study_of_other_metrics_is_refused(tmp_path: Path):
    """What it is about is noted on it, in its order."""
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    OptunaObjective(make_train(), SPACE, **FACTS).create_study(storage=storage, study_name="s")
    other = [Reported("auc", "maximize"), Reported("seconds", "minimize")]
    objective = OptunaObjective(make_train(), SPACE, **FACTS | {"metric": other})
    study = optuna.load_study(storage=storage, study_name="s")
    with pytest.raises(
        Exception, match=r"created with metric \['auc', 'cost'\], but metric is \['auc', 'seconds'\] now"
    ):
        study.optimize(objective, n_trials=1)
    again = OptunaObjective(make_train(), SPACE, **FACTS)
    study.optimize(again, n_trials=1)
    assert len(again.front(study)) == 1
