"""Samplers and pruners that a sweep file names by a path: packages of OptunaHub, and searchers of Ray."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from forked import hpometrics
from sample_sweeps import SWEEP, changed, problems_of

from hpometrics.results.run_directory import RunDirectory

PACKAGES = (
    Path(__file__).parents[2] / "examples" / "near_best",
    Path(__file__).parents[1] / "samples" / "two_pruners",
)
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
    for package in PACKAGES:
        shutil.copytree(package, folder / "hub" / package.name)
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
    """With one trial at a time, and killed in the second."""
    (beside / "sweep.yaml").write_text(sweep(SAMPLERS[name], 5))
    (beside / "on_ray.yaml").write_text(sweep(SAMPLERS[name], 5) + on_ray(workers=1))
    run("run", "sweep.yaml")
    killed = hpometrics("run", "on_ray.yaml")
    assert killed.waits_for((beside / "runs/on_ray/trials/0001").exists)
    killed.killed()
    run("run", "on_ray.yaml")
    assert drawn(beside, "on_ray") == drawn(beside, "sweep")


CHECKED = {
    "sampler: optuna.pruners:MedianPruner": "is a pruner, not a sampler; did you mean search: {pruner: ",
    "pruner: optuna.samplers:TPESampler": "is a sampler, not a pruner; did you mean search: {sampler: ",
    "pruner: ray.tune.schedulers:ASHAScheduler": "is a scheduler, which stops trials on Ray; on Optuna, name",
    "pruner: {hyperband: {eta: 1}}": "eta of hyperband must be above 1, as 1/eta of the trials "
    "continue, got 1",
    "pruner: {hyperband: {min_epochs: 4}}": "must be at most the number of epochs per trial, 3, got 4",
    "pruner: {median: {warmup: -1}}": "warmup of median must be at least 0, got -1",
    "pruner: {median: {interval: 0}}": "interval of median must be at least 1, got 0",
    "pruner: {threshold: {}}": "threshold needs lower or upper; write {threshold: {upper: 10}}",
    "pruner: percentile": "percentile needs percentile; write {percentile: {percentile: 25}}",
    "pruner: {patient: {min_delta: 1.0}}": "patient needs patience; write {patient: {patience: 5}}",
    "sampler: 'ray.tune.search.zoopt:ZOOptSearch'": "not installed: pip install zoopt",
}
ON_RAY = {
    "pruner: {asha: {eta: 1}}": "eta of asha must be above 1, as 1/eta of the trials continue, got 1",
    "pruner: {asha: {min_epochs: 9}}": "must be at most the number of epochs per trial, 3, got 9",
    "pruner: {median: {warmup: -1}}": "warmup of median must be at least 0, got -1",
    "pruner: optuna.pruners:MedianPruner": "is a pruner, which stops trials on Optuna; on Ray, name",
}


def searched(search: str) -> str:
    """The sweep file with this setting of the search."""
    text = SWEEP.replace("sampler: random", search if "sampler" in search else f"sampler: random, {search}")
    return text.replace("search: {", "search:\n  {")


@pytest.mark.parametrize(("search", "problem"), CHECKED.items(), ids=CHECKED)
def test_a_check_refuses_what_no_trial_could_use(search, problem):
    """At its place in the file, before a trial is trained."""
    [text] = problems_of(searched(search))
    assert problem in text and "search." in text


@pytest.mark.parametrize(("search", "problem"), ON_RAY.items(), ids=ON_RAY)
def test_a_check_refuses_it_on_ray_in_the_same_words(search, problem):
    """Without loading Ray."""
    [text] = problems_of(f"{searched(search)}backend: {{ray: {{}}}}\n")
    assert problem in text


OWN = {
    "Plain": ("", "is a class whose objects are not samplers; derive it from optuna.samplers.BaseSampler"),
    "Broken(RandomSampler)": ("raise OSError('no model')", "own:Broken raises an error; correct the class"),
}


@pytest.mark.parametrize("name", OWN)
def test_a_class_that_is_no_sampler_or_fails_ends_the_run_with_a_line(name, folder, sweep):
    """Exit code 2, without a traceback."""
    body, problem = OWN[name]
    head = f"from optuna.samplers import RandomSampler\nclass {name}:\n"
    method = f"    def sample_independent(self, *args):\n        {body or 'pass'}\n"
    (folder / "own.py").write_text(head + method)
    result = sweep(searched(f"sampler: 'own:{name.partition('(')[0]}'"))
    assert result.exit_code == 2 and problem in result.stderr and "Traceback" not in result.stderr
    assert ("OSError: no model" in result.stderr) is bool(body)


def test_a_sampler_that_cannot_draw_the_space_ends_the_run_with_a_line(sweep):
    """As Optuna's brute force does for a float without a step."""
    result = sweep(searched("sampler: optuna.samplers:BruteForceSampler"))
    assert result.exit_code == 2 and "FloatDistribution.step must be given" in result.stderr
    assert "search.sampler: optuna.samplers:BruteForceSampler raises an error" in result.stderr


def test_a_searcher_that_cannot_be_created_is_refused_before_the_first_trial(folder, sweep):
    """Its package may be missing, which it says when it is created."""
    (folder / "lacking.py").write_text(
        "from ray.tune.search import Searcher\nclass Own(Searcher):\n"
        "    def __init__(self, points_to_evaluate=None):\n        assert False, 'pip install it'\n"
    )
    result = sweep(searched("sampler: 'lacking:Own'"))
    assert result.exit_code == 2 and "Own cannot be created: AssertionError: pip install it" in result.stderr
    assert not list(folder.glob("runs/*/trials/*/trial.json"))


def test_a_check_says_what_it_does_not_import(beside):
    """Nor is a sample of trials drawn by it."""
    (beside / "sweep.yaml").write_text(sweep("hub:hub/near_best"))
    text = run("check", "sweep.yaml", "--sample", "2")
    assert (
        "sampler hub:hub/near_best" in text and "#0 ...   hub:hub/near_best is imported only by run" in text
    )


def test_nsga3_and_the_wilcoxon_pruner_run_by_name(beside):
    """From a plain file."""
    (beside / "sweep.yaml").write_text(sweep("nsga3", 5, "wilcoxon"))
    run("run", "sweep.yaml")
    assert len(drawn(beside, "sweep")) == 5
    assert SWEEP.count("sampler: random") == 1
