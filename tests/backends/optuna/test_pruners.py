"""`prune_by`: what a pruner judges that Optuna takes no report of."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import optuna
import pytest
from forked import Forked

from hpometrics.backends.objective import ListObjective
from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.backends.optuna.pruners import DominancePruner, judged_values, make_pruner
from hpometrics.backends.optuna.reporter import OptunaReporter
from hpometrics.backends.optuna.storage import close_storage, open_storage
from hpometrics.backends.optuna.trial_queue import claim, reclaim, reserve
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import ConfigError, DirectionError, RunError
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Reported
from hpometrics.run.run import Run
from hpometrics.space.dimensions import Float

AUC, COST, LOSS = (
    Reported("auc", "maximize"),
    Reported("cost", "minimize"),
    Reported("loss", "minimize"),
)
SPACE = {"x": Float(0, 1), "y": Float(0, 1)}
QUARTER = {"percentile": {"percentile": 25}}
FACTS: dict[str, Any] = {"metric": [AUC, COST], "track": [LOSS], "epochs": 9, "seed": 3}


def train(params, run):
    """The larger x, the better from epoch to epoch; the larger y, the dearer."""
    for epoch in run.epochs():
        run.log(auc=params["x"] * (1 - 0.5 ** (epoch + 1)), cost=params["y"], loss=1 / (params["x"] + epoch))


def study_of(pruner: object, trials: int = 30, **facts: Any) -> tuple[OptunaObjective, optuna.Study]:
    """An objective and its study after so many trials."""
    objective = OptunaObjective(train, SPACE, **{**FACTS, **facts})
    study = objective.create_study(pruner=pruner, sampler="random", study_name="one name")
    objective.optimize(study, trials)
    return objective, study


def ends(study: optuna.Study) -> list[tuple[str, int]]:
    """The state and the number of judged epochs of each trial."""
    return [(one.state.name, len(judged_values(one))) for one in study.trials]


@pytest.mark.parametrize(
    "pruner",
    ["median", {"asha": {"eta": 3}}, "hyperband", {"percentile": {"percentile": 30, "warmup": 2}},
     {"patient": {"pruner": "median", "patience": 1}}, {"threshold": {"upper": 0.3, "warmup": 3}}],
    ids=lambda one: one if isinstance(one, str) else next(iter(one)),
)  # fmt: skip
def test_a_trial_stops_where_it_would_if_the_metric_were_optimized_alone(pruner):
    """Of the same params Optuna's pruner stops the same trials, each after the same epoch."""
    _, several = study_of(pruner, prune_by="loss")
    _, alone = study_of(pruner, metric=LOSS, track=())
    steps = [(one.state.name, len(one.intermediate_values)) for one in alone.trials]
    assert ends(several) == steps
    assert len({state for state, _ in steps}) == 2 or "patient" in pruner


def test_a_metric_is_judged_in_its_own_direction_with_one_objective():
    """The loss falls while the optimized auc grows; Optuna still has the reports of auc."""
    objective, study = study_of("median", metric=AUC, prune_by="loss")
    _, alone = study_of("median", metric=LOSS, track=())
    assert ends(study) == [(one.state.name, len(one.intermediate_values)) for one in alone.trials]
    pruned = next(one for one in objective.records(study) if one.state is TrialState.PRUNED)
    assert pruned.reason is not None
    assert f"stopped trial {pruned.number} after epoch 0 by loss at" in pruned.reason
    assert study.trials[0].intermediate_values[8] == study.trials[0].params["x"] * (1 - 0.5**9)


def test_a_pruned_trial_has_its_reason_and_is_not_on_the_front():
    """As with one objective; it has no values."""
    objective, study = study_of("median", prune_by="dominance")
    pruned = [one for one in objective.records(study) if one.state is TrialState.PRUNED]
    assert pruned and all("by dominance at auc" in str(one.reason) for one in pruned)
    assert all(study.trials[one.number].values is None for one in pruned)
    complete = {one.number for one in study.trials if one.state.name == "COMPLETE"}
    assert {one.trial for one in objective.front(study)} <= complete


def test_dominance_stops_who_is_worse_in_all_objectives():
    """Worse than the median of those that came before it, in auc and in cost."""
    _, study = study_of({"median": {"min_trials": 8}}, prune_by="dominance")
    for trial in study.trials:
        before = sorted(one.params["x"] for one in study.trials[: trial.number])
        costs = sorted(one.params["y"] for one in study.trials[: trial.number])
        if len(before) < 8:
            assert trial.state.name == "COMPLETE"
        elif (
            trial.params["x"] < before[len(before) // 2] and trial.params["y"] > costs[(len(costs) - 1) // 2]
        ):
            assert trial.state.name == "PRUNED" and list(judged_values(trial)) == [0]
    assert Counter(one.state.name for one in study.trials)["PRUNED"] > 3


def test_a_pruner_of_two_studies_mixes_none_of_their_trials():
    """Trials of both have the same numbers and ids."""
    shared = DominancePruner(min_trials=8)
    study_of(shared, prune_by="dominance")
    _, second = study_of(shared, prune_by="dominance", seed=8)
    _, alone = study_of(DominancePruner(min_trials=8), prune_by="dominance", seed=8)
    assert ends(second) == ends(alone) and ("PRUNED", 1) in ends(alone)


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
@pytest.mark.parametrize(("prune_by", "pruner"), [("dominance", QUARTER), ("loss", "hyperband")])
def test_samplers_go_on_with_pruned_trials(sampler, prune_by, pruner):
    """Those that model several objectives draw every trial."""
    objective = OptunaObjective(train, SPACE, **FACTS, prune_by=prune_by)
    study = objective.create_study(pruner=pruner, sampler=sampler)
    objective.optimize(study, 25)
    assert {one.state.name for one in study.trials} == {"COMPLETE", "PRUNED"} and len(study.trials) == 25


def test_an_objective_of_your_own():
    """`Run(trial, metric=[...], prune_by=...)` in a study made by Optuna."""

    def own(trial):
        run = Run(trial, metric=[AUC, COST], prune_by="dominance", epochs=3)
        train({"x": trial.suggest_float("x", 0, 1), "y": trial.suggest_float("y", 0, 1)}, run)
        return run.scores

    sampler = optuna.samplers.RandomSampler(seed=1)
    study = optuna.create_study(
        directions=["maximize", "minimize"], sampler=sampler, pruner=DominancePruner(percentile=50)
    )
    study.optimize(own, n_trials=20)
    assert Counter(one.state.name for one in study.trials)["PRUNED"] > 0
    default = optuna.create_study(directions=["maximize", "minimize"])
    with pytest.raises(ConfigError, match="as median or percentile does; MedianPruner does not"):
        default.optimize(own, n_trials=1)


def reported(trial: optuna.Trial, epochs: dict[int, dict[str, float]], **facts: Any) -> OptunaReporter:
    """A reporter that has reported these epochs."""
    reporter = OptunaReporter(trial)
    reporter.check({"auc": MAXIMIZE, "cost": MINIMIZE})
    reporter.judge_by(facts.get("judged", {"auc": MAXIMIZE, "cost": MINIMIZE}))
    for epoch, values in epochs.items():
        reporter.report(epoch, values.get("auc", math.nan), math.nan, values, final=False)
    return reporter


@pytest.mark.parametrize("suffix", ["db", "journal"])
def test_a_trial_whose_worker_died_is_judged_again(tmp_path, suffix):
    """Its epochs count as they were written; after the newest one the pruner is asked again."""
    storage = open_storage(tmp_path / f"study.{suffix}")
    study = optuna.create_study(
        storage=storage, directions=["maximize", "minimize"], pruner=DominancePruner(min_trials=1)
    )
    reserve(study, 2)
    first = claim(study)
    assert first is not None
    reported(first, {epoch: {"auc": 0.9, "cost": 1.0} for epoch in range(3)})
    study.tell(first, [0.9, 1.0])
    second = claim(study)
    assert second is not None
    reported(second, {0: {"auc": 0.95, "cost": 2.0}})  # and dies in the second epoch
    again = reclaim(study, lambda number: True)
    assert again is not None and again.number == 1
    with pytest.raises(optuna.TrialPruned, match=r"trial 1 after epoch 1 by dominance at auc 0\.5, cost 2"):
        reported(again, {0: {"auc": 0.1, "cost": 3.0}, 1: {"auc": 0.5, "cost": 2.0}})
    stopped = reclaim(study, lambda number: True)
    assert stopped is not None and judged_values(study.trials[1])[0]["auc"] == 0.95
    with pytest.raises(optuna.TrialPruned, match="after epoch 1"):
        reported(stopped, {0: {"auc": 0.95, "cost": 2.0}, 1: {"auc": 0.5, "cost": 2.0}})
    close_storage(storage)


def test_an_epoch_without_a_judged_value_is_not_judged():
    """What was not measured is not nan; nan is the worst value."""
    study = optuna.create_study(directions=["maximize", "minimize"], pruner=DominancePruner(min_trials=1))
    reported(study.ask(), {0: {"auc": 0.9, "cost": 1.0}, 1: {"auc": 0.9, "cost": 1.0}})
    other = study.ask()
    reported(other, {0: {"auc": 0.1}})
    assert judged_values(study.trials[1]) == {}
    with pytest.raises(optuna.TrialPruned, match="epoch 1 by dominance at auc nan, cost 2"):
        reported(other, {1: {"auc": math.nan, "cost": 2.0}})


def work(path: str) -> None:
    """Run trials of a shared study, as one of several workers."""
    storage = open_storage(path)
    objective = OptunaObjective(train, SPACE, **{**FACTS, "seed": 5}, prune_by="loss")
    study = objective.create_study(
        storage=storage, study_name="shared", load_if_exists=True, pruner="asha", sampler="random"
    )
    objective.optimize(study, 16)
    close_storage(storage)


def test_workers_judge_by_the_trials_of_each_other(tmp_path):
    """Two processes on one SQLite file: rungs and values are those of the whole study."""
    path = f"sqlite:///{tmp_path / 'study.db'}"
    optuna.create_study(storage=path, study_name="shared", directions=["maximize", "minimize"])
    workers = [Forked(tmp_path, work, path) for _ in range(2)]
    ended = [worker.result() for worker in workers]
    assert [one.returncode for one in ended] == [0, 0], [one.stderr for one in ended]
    study = optuna.load_study(study_name="shared", storage=path)
    assert Counter(one.state.name for one in study.trials)["PRUNED"] > 3
    assert all("completed_rung_0" in one.system_attrs for one in study.trials)


def test_finished_trials_are_read_once(monkeypatch):
    """The cost of a report does not grow with the epochs of earlier trials."""
    read = Counter[int]()

    def counted(trial):
        read[trial.number] += 1
        return judged_values(trial)

    monkeypatch.setattr("hpometrics.backends.optuna.pruners.judged_values", counted)
    study_of({"threshold": {"upper": 9.0}}, trials=12, prune_by="loss")
    own = 9  # a threshold reads the trial alone, once per epoch
    assert read[0] <= own + 1
    read.clear()
    study_of({"median": {"min_trials": 1, "warmup": 8}}, trials=12, prune_by="dominance")
    assert read[0] <= own + 1


@pytest.mark.parametrize(
    ("prune_by", "pruner", "error", "text"),
    [
        (
            "los",
            "median",
            RunError,
            "los is neither optimized nor tracked; did you mean 'loss'.* choose",
        ),
        ("lr", "median", RunError, "lr is neither optimized nor tracked"),
        ("loss", None, ConfigError, "prune_by: loss needs a pruner that uses it"),
        ("dominance", "none", ConfigError, "needs a pruner that uses"),
        ("dominance", "asha", ConfigError, "as median or percentile does; asha does not"),
        ("dominance", "percentile", ConfigError, "needs the percentage that counts as better"),
        ("dominance", {"median": {"percentile": 3}}, ConfigError, "no argument 'percentile'"),
    ],
)
def test_what_cannot_judge_is_refused(prune_by, pruner, error, text):
    """With the choices, before the first trial."""
    with pytest.raises(error, match=text):
        OptunaObjective(train, SPACE, **FACTS, prune_by=prune_by).create_study(pruner=pruner)


def test_what_is_judged_has_a_direction_and_is_of_validation_data():
    """A metric without one, one of the test split, and one objective by dominance are refused."""
    with pytest.raises(DirectionError, match="lr has no direction"):
        OptunaObjective(train, SPACE, metric=[AUC, COST], track=["lr"], prune_by="lr")
    with pytest.raises(RunError, match="prune_by='test:accuracy': "):
        OptunaObjective(
            train, SPACE, metric="roc_auc", output="binary", track=["test:accuracy"], prune_by="test:accuracy"
        )
    with pytest.raises(RunError, match="dominance compares several objectives, but auc is only"):
        OptunaObjective(train, SPACE, metric=AUC, prune_by="dominance")
    with pytest.raises(ConfigError, match="a list is trained without pruning; leave prune_by out"):
        ListObjective(train, [{"x": 1, "y": 1}], metric=AUC, track=[LOSS], prune_by="loss")


def test_a_study_made_elsewhere_needs_a_pruner():
    """Optuna's default judges a metric, no pruner judges none."""
    objective = OptunaObjective(train, SPACE, **FACTS, prune_by="loss")
    study = optuna.create_study(directions=["maximize", "minimize"], pruner=make_pruner(None))
    with pytest.raises(ConfigError, match="prune_by: loss needs a pruner"):
        objective.optimize(study, 1)
    default = optuna.create_study(
        directions=["maximize", "minimize"], sampler=optuna.samplers.RandomSampler(1)
    )
    objective.optimize(default, 12)
    assert "PRUNED" in {one.state.name for one in default.trials}
