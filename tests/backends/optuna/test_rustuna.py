"""Rustuna, Optuna in Rust, through its own converters: as the storage of a study, and as its sampler."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import pytest
import rustuna
from rustuna.converter import ToOptunaSampler, ToOptunaStorage

from hpometrics.backends.optuna.objective import OptunaObjective
from hpometrics.backends.optuna.samplers import SeededSampler
from hpometrics.direction import MINIMIZE
from hpometrics.run import Reported
from hpometrics.space.dimensions import Choice, Float

SPACE = {"kind": Choice(["a", "b"]), "x": Float(0, 1), "y": Float(1e-3, 1, log=True, when={"kind": "b"})}
LOSS, COST = Reported("loss", MINIMIZE), Reported("cost", MINIMIZE)
ASKED: dict[str, dict[str, Any]] = {
    "one objective": {"metric": LOSS},
    "constraint": {"metric": LOSS, "constraints": ["cost <= 0.8"]},
    "several objectives": {"metric": [LOSS, COST]},
}
STORAGES: dict[str, Callable[[Path], Any]] = {
    "memory": lambda folder: rustuna.storages.InMemoryStorage(),
    "journal": lambda folder: rustuna.storages.JournalFileStorage(str(folder / "study.log")),
    "sqlite": lambda folder: rustuna.storages.SQLite3Storage(str(folder / "study.db")),
}
TRIALS = 14


def train(params: dict[str, Any], run: Any) -> None:
    """Best at x 0.3 and a small y."""
    for epoch in run.epochs():
        run.log(loss=(params["x"] - 0.3) ** 2 + params.get("y", 0.1) / (10 + epoch), cost=params["x"])


def search(trials: int = TRIALS, **arguments: Any) -> tuple[OptunaObjective, optuna.Study]:
    """Run trials until there are so many."""
    settings = {name: arguments.pop(name) for name in ("sampler", "storage", "pruner") if name in arguments}
    objective = OptunaObjective(train, SPACE, epochs=3, seed=3, **arguments)
    study = objective.create_study(study_name="own", load_if_exists=True, **settings)
    objective.optimize(study, n_trials=trials)
    return objective, study


def outcome(objective: OptunaObjective, study: optuna.Study) -> list[Any]:
    """What is recorded of each trial."""
    return [(r.number, r.params, r.state, r.scores(objective.optimized)) for r in objective.records(study)]


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("kind", STORAGES)
def test_a_storage_of_rustuna_keeps_what_that_of_optuna_keeps(kind, asked, tmp_path):
    """The same params, states and values, and the same constraints; with a pruner, where one fits."""
    facts = {**ASKED[asked], "pruner": "none" if "several" in asked else {"median": {"min_trials": 3}}}
    objective, study = search(storage=ToOptunaStorage(STORAGES[kind](tmp_path)), **facts)
    expected = search(**facts)
    assert outcome(objective, study) == outcome(*expected)
    assert [one.constraints for one in study.trials] == [one.constraints for one in expected[1].trials]


@pytest.mark.parametrize("kind", ["journal", "sqlite"])
def test_a_study_in_a_storage_of_rustuna_goes_on(kind, tmp_path):
    """Another process reads it and draws what one run would have drawn."""
    for trials in (TRIALS - 4, TRIALS):
        objective, study = search(trials, metric=LOSS, storage=ToOptunaStorage(STORAGES[kind](tmp_path)))
    assert outcome(objective, study) == outcome(*search(metric=LOSS))


@pytest.mark.parametrize("asked", ASKED)
def test_a_sampler_of_rustuna_searches(asked, tmp_path):
    """With a seed for each trial, a search that goes on draws what one run draws."""

    def sampler() -> SeededSampler:
        return SeededSampler(lambda seed: ToOptunaSampler(rustuna.samplers.TPESampler(seed=seed)), 3)

    facts = ASKED[asked]
    whole = outcome(*search(sampler=sampler(), **facts))
    for trials in (TRIALS - 4, TRIALS):
        url = f"sqlite:///{tmp_path / 'study.db'}"
        objective, study = search(trials, sampler=sampler(), storage=url, **facts)
    assert outcome(objective, study) == whole
    assert objective.front(study) if "several" in asked else objective.best(study)
