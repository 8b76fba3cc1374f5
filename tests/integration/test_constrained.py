"""A search under constraints: the same best of a list, of Optuna and of Ray."""

from __future__ import annotations

from typing import Any

import optuna
import pytest
import torch

from hpometrics.backends.objective import ListObjective
from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.backends.ray.objective import RayObjective
from hpometrics.direction import MINIMIZE
from hpometrics.exceptions import ConstraintError, NoFeasibleTrialError, RecordError
from hpometrics.metrics.features import Binary, Category
from hpometrics.records.trial_record import TrialState
from hpometrics.run import Reported, Run
from hpometrics.space.dimensions import Int

LOSS = Reported("loss", MINIMIZE)
SPACE = {"size": Int(1, 4)}
POINTS = [{"size": size} for size in (1, 2, 3, 4)]
FACTS: dict[str, Any] = {"metric": LOSS, "constraints": ["megabytes <= 5"]}


def make_train() -> Any:
    """Larger models lose less and take more; each grows with its epochs. It travels to Ray by value."""

    def train(params, run):
        for epoch in run.epochs(3):
            run.log(loss=1 / params["size"] - 0.01 * epoch, megabytes=2.0 * params["size"] + 0.6 * epoch)

    return train


def by_list() -> tuple[list[Any], Any]:
    """Train the list."""
    objective = ListObjective(make_train(), POINTS, **FACTS)
    records = objective.run()
    return records, objective.best(records)


def check(records: list[Any], best: Any) -> None:
    """Size 2 keeps to 5 MB until its second epoch; 3 and 4 never do."""
    states = [record.state for record in records]
    assert states == [TrialState.COMPLETE] * 2 + [TrialState.INFEASIBLE] * 2
    assert [record.epoch for record in records] == [2, 1, 0, 0]
    assert records[2].reason == "megabytes 6 > 5" and records[3].constraints == {"megabytes <= 5": 3.0}
    assert (best.trial, best.epoch, best.value) == (1, 1, 0.49)


def test_the_best_of_a_list_is_feasible():
    """By hand."""
    check(*by_list())


def test_optuna_finds_the_same_and_knows_the_constraint():
    """Its own best trial is ours; a sampler that heeds constraints sees them."""
    objective = OptunaObjective(make_train(), SPACE, **FACTS)
    study = objective.create_study(sampler="random")
    for point in POINTS:
        study.enqueue_trial(point)
    study.optimize(objective, n_trials=4)
    check(objective.records(study), objective.best(study))
    assert study.best_trial.number == 1
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 4


@pytest.mark.ray
def test_ray_finds_the_same(ray_cluster, tmp_path):
    """The searcher holds each picked epoch against the constraints, and tells the study."""
    objective = RayObjective(make_train(), SPACE, directory=tmp_path, **FACTS)
    results = objective.tuner(4, points=POINTS, sampler="random", max_concurrent=2).fit()
    check(sorted(objective.records(results), key=lambda record: record.number), objective.best(results))
    assert objective.study is not None and objective.study.best_trial.number == 1


def test_a_metric_is_measured_because_it_is_bounded():
    """Nobody tracks the area here; an alias bounds the metric that it means."""
    run = Run(metric="accuracy", output=Binary(), defaults=False, constraints=["auc >= 0.9"])
    for _ in run.epochs(1):
        run.update(probabilities=torch.tensor([0.9, 0.2, 0.6, 0.4]), target=torch.tensor([1, 0, 1, 1]))
    assert run.spec.constraints == ("roc_auc >= 0.9",)
    assert run.values["roc_auc"] == 1.0


def test_a_target_is_reached_within_the_constraints_only():
    """Loss 0.2 is reached at once, at a size that is too large until the third epoch."""
    run = Run(metric=LOSS, constraints=["megabytes <= 5"], target=0.3)
    seen = []
    for epoch in run.epochs(9):
        run.log(loss=0.2, megabytes=[9.0, 6.0, 5.0, 1.0][epoch])
        seen.append(epoch)
    assert seen == [0, 1, 2] and run.best_epoch == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("test:accuracy >= 0.9", "only validation values can steer a search"),
        (
            "test:megabytes <= 5",
            "only validation values can steer a search; test:megabytes can only be tracked",
        ),
        ("default >= 0.9", "default is a group of metrics; use a single metric in a constraint"),
        ("precision(average=none) >= 0.9", "has one value per class"),
        ("accuracy > 0.9", "as in 'ece <= 0.05'; got 'accuracy > 0.9'"),
    ],
)
def test_what_cannot_be_bounded_is_refused_before_the_first_trial(text, told):
    """By the constraint's own words."""
    with pytest.raises(ConstraintError, match=told):
        OptunaObjective(make_train(), SPACE, metric="accuracy", output=Category(3), constraints=[text])


def test_no_feasible_trial_is_no_best():
    """The message names the one that is nearest."""
    objective = ListObjective(make_train(), POINTS, metric=LOSS, constraints=["megabytes <= 1", "speed >= 3"])
    records = objective.run()
    with pytest.raises(NoFeasibleTrialError, match="speed has no finite value, but must be >= 3"):
        objective.best(records)


def test_a_study_of_other_constraints_is_refused():
    """What its trials picked was picked under other bounds."""
    objective = OptunaObjective(make_train(), SPACE, **FACTS)
    study = optuna.create_study(direction="minimize", study_name="sizes")
    study.optimize(objective, n_trials=1)
    other = OptunaObjective(make_train(), SPACE, metric=LOSS, constraints=["megabytes <= 7"])
    with pytest.raises(
        RecordError, match="created with constraints 'megabytes <= 5', but constraints is 'megabytes <= 7'"
    ):
        study.optimize(other, n_trials=1)
