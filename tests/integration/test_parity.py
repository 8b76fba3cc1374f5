"""The same params through a list, Optuna and Ray: the same values, the same best."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from ray import tune

from hpometrics.backends.objective import ListObjective
from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.backends.ray.objective import RayObjective
from hpometrics.metrics.features import Category, Ranking
from hpometrics.records.trial_record import TrialRecord, TrialState
from hpometrics.run import Reported, engine
from hpometrics.space.dimensions import Choice, Float, Int
from hpometrics.space.space import Space

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
        counts_steps = run.spec.steps is not None
        for _ in run.steps() if counts_steps else run.epochs():
            for i in torch.randperm(rows)[: 20 if counts_steps else rows].split(20):
                loss = torch.nn.functional.cross_entropy(
                    model(x[i] + params["noise"] * torch.randn(len(i), 4)), y[i]
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if run.due:
                with torch.no_grad():
                    run.update(logits=model(x[rows:]), target=y[rows:])
                run.log(loss=loss)

    return train


def by_list(**facts: Any) -> tuple[list[TrialRecord], Any]:
    """Train the list."""
    objective = ListObjective(make_train(), POINTS, space=SPACE, **FACTS, **facts)
    records = objective.run()
    return records, objective.best(records)


def by_optuna(**facts: Any) -> tuple[list[TrialRecord], Any]:
    """Enqueue the list in a study."""
    objective = OptunaObjective(make_train(), SPACE, **FACTS, **facts)
    study = objective.create_study()
    for point in POINTS:
        study.enqueue_trial(SPACE.encode(point))
    study.optimize(objective, n_trials=len(POINTS))
    return objective.records(study), objective.best(study)


def by_ray(directory: Path, **facts: Any) -> tuple[list[TrialRecord], Any]:
    """Give the list to a tuner as its first points."""
    objective = RayObjective(make_train(), SPACE, **FACTS, **facts)
    config = tune.RunConfig(storage_path=str(directory), verbose=0)
    results = objective.tuner(len(POINTS), points=POINTS, run_config=config).fit()
    return objective.records(results), objective.best(results)


@pytest.mark.ray
@pytest.mark.parametrize("facts", [{"epochs": 5}, {"steps": 15, "every": 4}], ids=["epochs", "steps"])
def test_the_same_params_give_the_same_values_and_the_same_best(ray_cluster, tmp_path, facts):
    """To the last digit: params, every epoch of the metric, the picked epoch, the best and its values."""
    listed, best = by_list(**facts)
    assert best.step == (None if "epochs" in facts else min(4 * (best.epoch + 1), 15))
    assert all(record.state is TrialState.COMPLETE for record in listed)
    assert len({record.value for record in listed}) == len(POINTS)
    assert [dict(record.params) for record in listed] == [{**point, "rows": 60} for point in POINTS]
    for records, other in (by_optuna(**facts), by_ray(tmp_path, **facts)):
        for want, got in zip(listed, records, strict=True):
            assert got.params == want.params
            assert (got.state, got.value, got.epoch) == (want.state, want.value, want.epoch)
            assert [e.values[best.metric] for e in got.epochs] == [e.values[best.metric] for e in want.epochs]
            assert got.picked_values == want.picked_values
            assert (got.seed, got.threads) == (want.seed, want.threads)
        assert other == best


SHIFTS = [{"shift": shift} for shift in (0.0, 0.5, 2.0)]
RANKED: dict[str, Any] = {
    "metric": "ndcg@10",
    "track": ["recall@20", "test:ndcg@10"],
    "epochs": 2,
    "defaults": False,
}


def make_recommender(calls: Path) -> Any:
    """An engine whose output is there once a function has read what users have seen; each call is a line."""

    def output():
        import os

        with calls.open("a") as file:
            file.write(f"{os.getpid()}\n")
        return Ranking(50, seen=(torch.arange(41), torch.arange(40)), item_popularity=torch.ones(50))

    @engine(output=output)
    def train(params, run):
        scores = torch.rand(40, 50, generator=torch.Generator().manual_seed(0))
        target = (scores + params["shift"] * torch.randn(40, 50).abs()) > 0.9
        for _ in run.epochs():
            run.update(scores=scores, target=target, users=torch.arange(40))
            run.update(scores=-scores, target=target, users=torch.arange(40), split="test")

    return train


@pytest.mark.ray
@pytest.mark.filterwarnings("ignore:trial . was measured on other validation rows")  # its target is drawn
def test_an_output_made_by_a_function_is_the_same_everywhere(ray_cluster, tmp_path):
    """It is called once per process that trains, Ray's workers included; `ndcg@10` keeps its name."""
    calls, space = tmp_path / "calls", {"shift": Float(0, 2)}
    train = make_recommender(calls)
    assert not calls.exists()  # to define an engine is not to call it
    listing = ListObjective(train, SHIFTS, **RANKED, seed=5)
    listed = listing.run()
    optuna = OptunaObjective(train, space, **RANKED, seed=5)
    study = optuna.create_study()
    for point in SHIFTS:
        study.enqueue_trial(point)
    study.optimize(optuna, n_trials=3)
    assert len(calls.read_text().split()) == 1
    ray = RayObjective(train, space, **RANKED, seed=5)
    config = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    results = ray.tuner(3, points=SHIFTS, run_config=config, scheduler=None, max_concurrent=1).fit()
    for records in (optuna.records(study), ray.records(results)):
        for want, got in zip(listed, records, strict=True):
            assert set(got.picked_values) == {"ndcg@10", "recall@20", "test:ndcg@10"}
            assert got.picked_values == want.picked_values
            assert [e.values["ndcg@10"] for e in got.epochs] == [e.values["ndcg@10"] for e in want.epochs]
    assert ray.best(results) == listing.best(listed)
    assert all("ndcg@10" in result.metrics for result in results)
    pids = calls.read_text().split()
    assert len(pids) == len(set(pids)) == 2  # one worker trains all


@pytest.mark.ray
def test_side_data_of_any_size_reach_a_worker(ray_cluster, tmp_path):
    """Given as an object they travel by the object store: a trainable is not allowed to be that large."""
    popularity = torch.ones(14_000_000, dtype=torch.float64)  # 112 MB, more than Ray lets a function be

    def train(params, run):
        for _ in run.epochs(1):
            run.log(items=len(run.spec.output.item_popularity), loss=0.0)

    objective = RayObjective(
        train, {"x": Float(0, 1)}, metric=Reported("loss", "minimize"),
        output=Ranking(len(popularity), item_popularity=popularity),
    )  # fmt: skip
    config = tune.RunConfig(storage_path=str(tmp_path), verbose=0)
    [record] = objective.records(objective.tuner(1, run_config=config).fit())
    assert (record.state, record.epochs[0].values["items"]) == (TrialState.COMPLETE, 14_000_000)
