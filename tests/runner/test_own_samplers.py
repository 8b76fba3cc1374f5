"""Samplers and pruners that a sweep file names by a path: packages of OptunaHub, and searchers of Ray."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from forked import hpometrics
from sample_sweeps import SWEEP, changed

from hpometrics.results.run_directory import RunDirectory

HUB = Path(__file__).parents[1] / "samples" / "hub"
SAMPLERS = {"a package of OptunaHub": "hub:hub/near_best", "a searcher": "sample_searchers:NearBestSearcher"}


def sweep(sampler: str, trials: int = 7, pruner: str = "none") -> str:
    """The sweep file of a sampler."""
    text = changed("{trials: 4, epochs: 3}", f"{{trials: {trials}, epochs: 3}}")
    return text.replace("sampler: random", f"sampler: '{sampler}', pruner: '{pruner}'")


def drawn(folder: Path, name: str) -> list[dict[str, object]]:
    """The params of the trials of a sweep."""
    return [record.params for record in RunDirectory(folder / "runs" / name).records()]


@pytest.fixture
def beside(folder):
    """A folder with packages beside the sweep file."""
    shutil.copytree(HUB, folder / "hub")
    return folder


def run(*arguments: str) -> str:
    """Run the command to its end, and return what it printed."""
    ran = hpometrics(*arguments).result()
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


@pytest.mark.parametrize("name", SAMPLERS)
def test_a_sweep_that_goes_on_draws_what_one_run_draws(name, beside):
    """The second run is another process, with another object of the class."""
    (beside / "whole.yaml").write_text(sweep(SAMPLERS[name], pruner="hub:hub/two_pruners:MedianPruner"))
    (beside / "parts.yaml").write_text(sweep(SAMPLERS[name], 4, "hub:hub/two_pruners:MedianPruner"))
    run("run", "whole.yaml")
    run("run", "parts.yaml")
    run("run", "parts.yaml", "--set", "budget.trials=7")
    assert drawn(beside, "parts") == drawn(beside, "whole") and len(drawn(beside, "whole")) == 7


@pytest.mark.parametrize("name", SAMPLERS)
def test_workers_draw_by_it_too(name, beside):
    """Each of them imports it from the resolved sweep, whatever its current folder."""
    (beside / "sweep.yaml").write_text(sweep(SAMPLERS[name]))
    run("run", "sweep.yaml", "--workers", "2")
    assert len(drawn(beside, "sweep")) == 7


@pytest.mark.ray
@pytest.mark.parametrize("name", SAMPLERS)
def test_ray_draws_what_optuna_draws(name, beside, on_ray):
    """With one trial at a time."""
    (beside / "sweep.yaml").write_text(sweep(SAMPLERS[name], 5))
    (beside / "on_ray.yaml").write_text(sweep(SAMPLERS[name], 5) + on_ray(workers=1))
    run("run", "sweep.yaml")
    run("run", "on_ray.yaml")
    assert drawn(beside, "on_ray") == drawn(beside, "sweep")


def test_a_check_says_what_it_does_not_import(beside):
    """Nor is a sample of trials drawn by it."""
    (beside / "sweep.yaml").write_text(sweep("hub:hub/near_best"))
    text = run("check", "sweep.yaml", "--sample", "2")
    assert (
        "sampler hub:hub/near_best" in text and "#0 ...   hub:hub/near_best is imported by run alone" in text
    )


def test_nsga3_and_the_wilcoxon_pruner_run_by_name(beside):
    """From a plain file."""
    (beside / "sweep.yaml").write_text(sweep("nsga3", 5, "wilcoxon"))
    run("run", "sweep.yaml")
    assert len(drawn(beside, "sweep")) == 5
    assert SWEEP.count("sampler: random") == 1
