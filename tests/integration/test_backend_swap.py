"""Every shipped sweep goes to the other backend by `backend` and the pruner's name, and finds the same."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import optuna
import pytest
import yaml
from forked import hpometrics
from matrix import EXHAUSTIVE
from shipped import CONFIGS, ROOT, changed, check_best, earlier, length, placed, run_here

from hpometrics.config.document import SweepFileError
from hpometrics.config.plan import read_plan
from hpometrics.metrics.registry.diagnostics import DIAGNOSTICS
from hpometrics.results.run_directory import RunDirectory

BACKENDS = ("optuna", "ray")
EPOCHS = 2
PRUNERS = {"optuna": "median", "ray": f"{{asha: {{min_epochs: {EPOCHS}}}}}"}
"""Neither stops anything in so few trials and epochs; which trials each would stop is its own matter."""

TWINS = {
    "quickstart_ray": "quickstart",
    "quickstart_pb2": "quickstart_pbt",
    "recommender_ray": "recommender",
}
"""Files that differ by what is swapped alone: once that is done they are the same sweep."""

ONE_BACKEND = {
    f"quickstart_{file}": ("optuna", f"search.pruner: {pruner} runs on ray only")
    for file, pruner in (("pbt", "pbt"), ("pb2", "pb2"), ("replay", "pbt_replay"))
}
"""Files that need the pruner's name changed: the backend that lacks it, and what is said there."""

GRID = "search.sampler=grid", "space.learning_rate={choice: [0.05, 0.2]}", "space.subsample=0.8"
SETTINGS = {
    "diabetes": [*GRID, "budget.trials=3"],
    "engine_params": ["engine.params={data_source.folds: 2}", "search.seed=2"],
    "digit_halves": ["search.sampler={tpe: {n_startup_trials: 1}}", "budget.trials=3"],
    "cheap_digits": ["metrics.pick=best"],
    "small_digits": ["search.sampler={nsga2: {population_size: 2}}", "budget.trials=3"],
}
"""What is changed beside the budget: a grid, samplers that have learned something by the third trial, and
stages of which two trials try both kinds and each is soon carried out. What is cheapest differs by the run.
"""

SHORT = ("small_digits",)
"""A front, drawn in order: most of what can go wrong on the way. The exhaustive suite runs the others.

They differ by their outputs, tasks, loggers, kept statistics and stages, which `test_vary_ray` has on Ray.
"""

NOT_ITSELF = ("quickstart_replay",)
"""Files that are other sweeps without their pruner."""

ONE_AT_A_TIME = ("breast_cancer_again", "digit_halves", "engine_params", "hub_digits", "small_digits")
"""Sweeps whose later params follow from the trials before, or whose data take each worker long to read."""

COSTS = {row.name for row in DIAGNOSTICS.values() if row.unit in ("1/s", "s", "MiB")}
OWN_TO_A_RUN = {"seconds", "started", "ended", "versions", "digest", "cost"}


def swapped(path: Path, backend: str) -> list[str]:
    """The settings that take a sweep to a backend: it and, where something prunes, the pruner's name."""
    asked = yaml.safe_load(path.read_text(encoding="utf8"))
    settings = [f"backend={backend}"]
    if asked["search"].get("pruner") is not None and "prune_by" not in asked["search"]:  # median on both
        settings.append(f"search.pruner={PRUNERS[backend]}")
    return settings


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_shipped_sweep_is_right_on_either_backend(path, backend):
    """Nothing else of the file has to change."""
    plan = read_plan(path, swapped(path, backend))
    assert (plan.config.backend.name, plan.space) == (backend, read_plan(path).space)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_pruner_of_one_backend_is_refused_on_the_other(path):
    """By name; all other files go over with the pruner they have."""
    lacking, told = ONE_BACKEND.get(path.stem, (None, ""))
    for backend in BACKENDS:
        refused = pytest.raises(SweepFileError, match=told) if backend == lacking else nullcontext()
        with refused:
            read_plan(path, [f"backend={backend}"])


@pytest.mark.parametrize(("twin", "of"), TWINS.items())
def test_a_twin_is_the_same_sweep_once_it_is_swapped(twin, of):
    """So that what holds for the one holds for the other."""
    one, other = (ROOT / "configs" / f"{stem}.yaml" for stem in (twin, of))
    for backend in BACKENDS:
        texts = [read_plan(file, swapped(file, backend)).document.data for file in (one, other)]
        assert texts[0] == texts[1]


def _swappable() -> list[Any]:
    paths = [path for path in CONFIGS if path.stem not in (*TWINS, *NOT_ITSELF)]
    return [pytest.param(p, id=p.stem, marks=() if p.stem in SHORT else EXHAUSTIVE) for p in paths]


@pytest.mark.ray
@pytest.mark.parametrize("path", _swappable())
def test_a_shipped_sweep_finds_the_same_on_either_backend(path, ray_cluster, tmp_path, monkeypatch):
    """The same trials, their values to the last digit in every epoch, the same best and its verdict."""
    monkeypatch.chdir(ROOT)
    small = [length(path, EPOCHS), "budget.trials=2", *SETTINGS.get(path.stem, [])]
    small += earlier(path, tmp_path)
    homes = {backend: RunDirectory(tmp_path / backend) for backend in BACKENDS}
    at_once = 1 if path.stem in ONE_AT_A_TIME else 2
    place = {"ray": [f"backend={{ray: {{address: '{ray_cluster}', workers: {at_once}}}}}"], "optuna": []}
    settings = {
        backend: [*swapped(path, backend), *place[backend], *small, *placed(path, home.path)]
        for backend, home in homes.items()
    }
    on_ray = hpometrics("run", path, *changed(*settings["ray"]))
    ran = run_here(path, *settings["optuna"])
    assert ran.exit_code == 0, ran.stderr
    assert on_ray.result().returncode == 0, on_ray.result().stderr
    wanted, found = (what_is_kept(homes[backend]) for backend in BACKENDS)
    assert found == wanted
    plan = read_plan(path, settings["optuna"])
    assert len(found["trials"]) == plan.trials
    check_best(plan.document.data, homes["optuna"].path)


def what_is_kept(home: RunDirectory) -> dict[str, Any]:
    """All that a sweep leaves, but for when it was and what it took."""
    records = home.records()
    assert all(record.state == "complete" for record in records)
    trials = [home.trial(record.number) for record in records]
    study = optuna.load_study(study_name=home.read().name, storage=f"sqlite:///{home.study}")
    return {
        "best": without_costs(yaml.safe_load(home.best.read_text(encoding="utf8"))),
        "verdict": text_of(home.path / "verdict.json"),
        "trials": [without_costs(json.loads(text_of(trial / "trial.json"))) for trial in trials],
        "epochs": [[without_costs(json.loads(e.to_line())) for e in record.epochs] for record in records],
        "statistics": [text_of(trial / "statistics.jsonl") for trial in trials],
        "study": [(trial.params, trial.values, trial.intermediate_values) for trial in study.get_trials()],
    }


def text_of(path: Path) -> str:
    """What is in a file; nothing where there is none: a front has no verdict, stages keep no statistics."""
    return path.read_text(encoding="utf8") if path.exists() else ""


def without_costs(facts: dict[str, Any]) -> dict[str, Any]:
    """What is kept of something that was measured or found, but for when it was and what it took."""
    kept = {name: fact for name, fact in facts.items() if name not in OWN_TO_A_RUN}
    if "values" in kept:
        kept["values"] = {name: value for name, value in kept["values"].items() if name not in COSTS}
    if "repeats" in kept and isinstance(kept["repeats"], list):
        kept["repeats"] = [without_costs(repeat) for repeat in kept["repeats"]]
    return kept
