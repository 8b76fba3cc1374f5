"""The same params through a list, Optuna and Ray: the same values, the same best."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ray import tune

from hpometrics.list_objective import ListObjective
from hpometrics.metrics.features import Category
from hpometrics.optuna_objective import OptunaObjective
from hpometrics.ray_objective import RayObjective
from hpometrics.search.record import TrialRecord, TrialState
from hpometrics.search.space import Choice, Float, Int, Space

SPACE = Space(
    {
        "lr": Float(1e-3, 1.0, log=True),
        "width": Int(4, 64, step=4),
        "optimizer": Choice(["sgd", "adam"]),
        "momentum": Float(0.0, 0.9, when={"optimizer": "sgd"}),
        "data": Choice({"plain": {"noise": 0.0}, "noisy": {"noise": 0.3, "layers": [8, 8]}}),
        "rows": 60,
    }
)
POINTS: list[dict[str, Any]] = [
    {"lr": 0.3, "width": 8, "optimizer": "sgd", "momentum": 0.9, "noise": 0.3, "layers": [8, 8]},
    {"lr": 0.05, "width": 64, "optimizer": "adam", "noise": 0.0},
    {"lr": 0.001, "width": 4, "optimizer": "adam", "noise": 0.0},
]
FACTS: dict[str, Any] = {
    "metric": "f1(average=macro)",
    "output": Category(3),
    "track": ["log_loss"],
    "epochs": 5,
    "threads": 1,
    "seed": 13,
}


def make_train() -> Any:
    """A small classifier on noise and shuffles of its own; it travels to Ray by value."""

    def train(params, run):
        import torch

        x = torch.randn(2 * params["rows"], 4, generator=torch.Generator().manual_seed(0))
        y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
        rows = params["rows"]
        model = torch.nn.Sequential(
            torch.nn.Linear(4, params["width"]), torch.nn.ReLU(), torch.nn.Linear(params["width"], 3)
        )
        if params["optimizer"] == "sgd":
            optimizer = torch.optim.SGD(model.parameters(), lr=params["lr"], momentum=params["momentum"])
        else:
            optimizer = torch.optim.Adam(model.parameters(), lr=params["lr"])
        for _ in run.epochs():
            for i in torch.randperm(rows).split(20):
                loss = torch.nn.functional.cross_entropy(
                    model(x[i] + params["noise"] * torch.randn(len(i), 4)), y[i]
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            with torch.no_grad():
                run.update(logits=model(x[rows:]), target=y[rows:])
            run.log(loss=loss)

    return train


def by_list() -> tuple[list[TrialRecord], Any]:
    """Train the list."""
    objective = ListObjective(make_train(), POINTS, space=SPACE, **FACTS)
    records = objective.run()
    return records, objective.best(records)


def by_optuna() -> tuple[list[TrialRecord], Any]:
    """Enqueue the list in a study."""
    objective = OptunaObjective(make_train(), SPACE, **FACTS)
    study = objective.create_study()
    for point in POINTS:
        study.enqueue_trial(SPACE.encode(point))
    study.optimize(objective, n_trials=len(POINTS))
    return objective.records(study), objective.best(study)


def by_ray(directory: Path) -> tuple[list[TrialRecord], Any]:
    """Give the list to a tuner as its first points."""
    objective = RayObjective(make_train(), SPACE, **FACTS)
    config = tune.RunConfig(storage_path=str(directory), verbose=0)
    results = objective.tuner(len(POINTS), points=POINTS, run_config=config).fit()
    return objective.records(results), objective.best(results)


@pytest.mark.ray
def test_the_same_params_give_the_same_values_and_the_same_best(ray_cluster, tmp_path):
    """To the last digit: params, every epoch of the metric, the picked epoch, the best and its values."""
    listed, best = by_list()
    assert all(record.state is TrialState.COMPLETE for record in listed)
    assert len({record.value for record in listed}) == len(POINTS)
    assert [dict(record.params) for record in listed] == [{**point, "rows": 60} for point in POINTS]
    for records, other in (by_optuna(), by_ray(tmp_path)):
        for want, got in zip(listed, records, strict=True):
            assert got.params == want.params
            assert (got.state, got.value, got.epoch) == (want.state, want.value, want.epoch)
            assert [e.values[best.metric] for e in got.epochs] == [e.values[best.metric] for e in want.epochs]
            assert got.picked_values == want.picked_values
            assert (got.seed, got.threads) == (want.seed, want.threads)
        assert other == best
