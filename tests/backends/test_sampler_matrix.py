"""Every sampler x what a search may ask of it, beyond the startup trials, where samplers look at others."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest
from matrix import EXHAUSTIVE
from sample_searchers import NearBestSearcher

from hpometrics.backends.optuna.objective import OptunaObjective, finish
from hpometrics.backends.registry import SAMPLERS, searches_for_one
from hpometrics.direction import MINIMIZE
from hpometrics.run import Reported
from hpometrics.space.dimensions import Choice, Float, Int

SPACE = {"kind": Choice(["a", "b"]), "x": Float(0, 1), "y": Float(1e-3, 1, log=True), "size": Choice([8, 16])}
WHEN = {
    "kind": Choice(["a", "b"]),
    "x": Float(0, 1),
    "y": Float(1e-3, 1, log=True, when={"kind": "b"}),
    "layers": Int(1, 8, when={"kind": "a"}),
}
EARLY = {"n_startup_trials": 4}
SPECS: dict[str, Any] = {
    "tpe": {"tpe": EARLY},
    "tpe, multivariate": {"tpe": {**EARLY, "multivariate": True}},
    "tpe, not multivariate": {"tpe": {**EARLY, "multivariate": False}},
    "tpe, groups": {"tpe": {**EARLY, "multivariate": True, "group": True}},
    "gp": {"gp": EARLY},
    "gp, deterministic": {"gp": {**EARLY, "deterministic_objective": True}},
    "cmaes": {"cmaes": EARLY},
    "random": "random",
    "grid": "grid",
    "qmc": "qmc",
    "cmaes, with margin": {"cmaes": {**EARLY, "with_margin": True}},
    "nsga2": {"nsga2": {"population_size": 4}},
    "nsga3": {"nsga3": {"population_size": 4}},
    "botorch": {"botorch": EARLY},
    "a package of OptunaHub": f"hub:{Path(__file__).parents[2] / 'examples' / 'near_best'}",
    "an instance of a Ray": NearBestSearcher,
}
UNTRIED = {"bohb"}  # a package that it needs compiles C; its adapter is tried by a searcher that needs none
ASKED: dict[str, dict[str, Any]] = {
    "params of all trials": {},
    "params with when": {"space": WHEN},
    "a pruner": {"space": WHEN, "pruner": {"median": {"min_trials": 2}}},
    "a constraint": {"constraints": ["x <= 0.8"]},
    "several objectives": {"several": True},
    "several, constrained": {"several": True, "space": WHEN, "constraints": ["x <= 0.8"]},
}
CASES = [
    pytest.param(
        spec,
        asked,
        marks=() if spec == "tpe" or (asked == "params with when" and spec != "botorch") else EXHAUSTIVE,
    )
    for spec in SPECS
    for asked in ASKED
    if not ("several" in ASKED[asked] and searches_for_one(SPECS[spec]))
]
TRIALS = 9
FEWER = {"botorch": 6, "gp": 6, "gp, deterministic": 6}
"""Trials of samplers whose draws take seconds; two of these are drawn by their model."""


def train(params: dict[str, Any], run: Any) -> None:
    """Best at x 0.3 and a small y; one kind gets better with the epochs, the other worse."""
    for epoch in run.epochs():
        slope = 0.01 * epoch * (1 if params["kind"] == "a" else -1)
        run.log(loss=(params["x"] - 0.3) ** 2 + params.get("y", 0.1) / 10 + slope, x=params["x"])


def search(
    spec: str, trials: int, space: Any = SPACE, several: bool = False, pruner: Any = "none", **facts: Any
) -> tuple[OptunaObjective, optuna.Study]:
    """Run trials until there are so many."""
    storage = facts.pop("storage", None)
    loss = Reported("loss", MINIMIZE)
    metric = [loss, Reported("x", MINIMIZE)] if several else loss
    objective = OptunaObjective(train, space, metric=metric, epochs=3, seed=3, **facts)
    study = objective.create_study(
        sampler=SPECS[spec], pruner=pruner, storage=storage, study_name="own", load_if_exists=True
    )
    objective.optimize(study, n_trials=trials)
    return objective, study


@pytest.fixture
def logged() -> Iterator[list[str]]:
    """What Optuna logs meanwhile as a warning or worse."""
    lines: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("optuna")
    logger.addHandler(handler)
    yield lines
    logger.removeHandler(handler)


def test_every_sampler_is_tried():
    """With its defaults but for the startup trials."""
    assert SAMPLERS.keys() <= SPECS.keys() | UNTRIED


@pytest.mark.filterwarnings("ignore:Constraints have been set, but CmaEsSampler will not:UserWarning")
@pytest.mark.filterwarnings("ignore:All acquisition values for raw sampled points")  # BoTorch's, early on
@pytest.mark.parametrize(("spec", "asked"), CASES)
def test_a_search_that_goes_on_draws_what_one_run_draws(spec, asked, tmp_path: Path, logged):
    """From a storage, by another sampler of the same seed; and nothing is logged for each trial."""
    facts = ASKED[asked]
    trials = FEWER.get(spec, TRIALS)
    whole = search(spec, trials, **facts)[1]
    storage = f"sqlite:///{tmp_path / 'study.db'}"
    search(spec, trials - 3, storage=storage, **facts)
    objective, resumed = search(spec, trials, storage=storage, **facts)
    assert [trial.params for trial in resumed.trials] == [trial.params for trial in whole.trials]
    assert all(trial.values or trial.state.name == "PRUNED" for trial in resumed.trials)
    assert objective.front(resumed) if "several" in facts else objective.best(resumed)
    assert logged == []


@pytest.mark.parametrize(
    "spec", [pytest.param(spec, marks=() if spec in ("tpe", "gp") else EXHAUSTIVE) for spec in SPECS]
)
def test_a_sampler_draws_while_another_trial_is_at_work(spec, logged):
    """As those of other workers are; tpe and gp of Optuna 5 look at them."""
    objective, study = search(spec, 5)
    trial = study.ask()
    objective.space.suggest(trial)
    objective.optimize(study, n_trials=TRIALS)
    finish(study, trial, objective, (), ())
    assert len(study.trials) == TRIALS and all(one.state.is_finished() for one in study.trials)
    assert logged == []
