from __future__ import annotations

import sys
from pathlib import Path

import optuna
import pytest

from hpometrics.backends.hub import find_hub, load_hub, with_folder
from hpometrics.backends.optuna.pruners import make_pruner
from hpometrics.backends.optuna.samplers import SeededSampler, make_sampler
from hpometrics.backends.registry import check_several, learns, searches_for_one
from hpometrics.exceptions import ConfigError

SAMPLES = Path(__file__).parents[1] / "samples"
EXAMPLES = Path(__file__).parents[2] / "examples"
OWN = f"hub:{EXAMPLES / 'near_best'}"


def package(folder: Path, text: str) -> str:
    """Write a package, and return its name as a sampler."""
    folder.mkdir()
    (folder / "__init__.py").write_text(text)
    return f"hub:{folder}"


def test_a_package_is_imported_once_with_its_own_files():
    """Its relative imports work, and no module of the path is hidden by it."""
    cls = load_hub("sampler", OWN)
    assert cls.__name__ == "NearBest" and load_hub("sampler", f"{OWN}:NearBest") is cls
    assert "near_best" not in sys.modules and cls.__module__.startswith("_hpometrics_hub_near_best_")


def test_two_packages_of_one_name_are_two(tmp_path):
    """Their folders tell them apart."""
    text = "import optuna\nclass {0}(optuna.samplers.RandomSampler): pass\n__all__ = ['{0}']\n"
    (tmp_path / "other").mkdir()
    names = [package(tmp_path / "x", text.format("A")), package(tmp_path / "other" / "x", text.format("B"))]
    assert [load_hub("sampler", name).__name__ for name in names] == ["A", "B"]


def test_a_sampler_of_a_package_gets_its_arguments_and_the_seed():
    """As one by name does."""
    sampler = make_sampler({OWN: {"spread": 0.3}}, 7)
    assert isinstance(sampler, SeededSampler) and sampler.example._spread == 0.3
    drawn = []
    for _ in range(2):
        study = optuna.create_study(sampler=make_sampler(OWN, 7))
        study.optimize(lambda trial: trial.suggest_float("x", 0, 1) ** 2, 6)
        drawn.append([trial.params for trial in study.trials])
    assert drawn[0] == drawn[1]


def test_a_pruner_of_a_package_is_chosen_by_its_class():
    """Where the package has two."""
    pruner = make_pruner({f"hub:{SAMPLES / 'two_pruners'}:MedianPruner": {"n_warmup_steps": 2}})
    assert isinstance(pruner, optuna.pruners.MedianPruner)


def test_a_relative_path_begins_in_the_given_folders_then_here(tmp_path, monkeypatch):
    """The folder of the sweep file comes first."""
    package(tmp_path / "own", "")
    monkeypatch.chdir(tmp_path)
    assert find_hub("sampler", "hub:own") == tmp_path / "own"
    assert find_hub("sampler", "hub:near_best", [EXAMPLES]) == EXAMPLES / "near_best"
    assert with_folder("sampler", {"hub:near_best:NearBest": {}}, [EXAMPLES]) == {f"{OWN}:NearBest": {}}
    assert with_folder("sampler", "tpe", [EXAMPLES]) == "tpe"


def test_a_sampler_of_a_package_may_learn_and_have_several_objectives():
    """Nothing is known of it that would speak against it; a class that is one of Optuna's is that one."""
    assert learns(OWN) and not searches_for_one(OWN)
    assert searches_for_one("hub:packages/x:CmaEsSampler") and not learns("hub:packages/x:RandomSampler")
    check_several(["a", "b"], OWN)


@pytest.mark.parametrize(
    ("text", "own", "problem"),
    [
        ("", "", "__all__ of the package must name one sampler, but it lists no sampler"),
        ("from optuna.samplers import RandomSampler", "", "lists no sampler"),
        (
            "from optuna.samplers import *\n__all__ = ['TPESampler', 'GPSampler']",
            "",
            "TPESampler, GPSampler; choose",
        ),
        (
            "from optuna.samplers import TPESampler\n__all__ = ['TPESampler']",
            ":Own",
            "TPESampler, but not 'Own'",
        ),
        (
            "import no_such_package_of_anyone",
            "",
            "needs the package 'no_such_package_of_anyone', .*README.md",
        ),
        ("from .missing import X", "", "cannot be imported: No module named"),
        ("raise OSError(5, 'broken')", "", r"cannot be imported: OSError: \[Errno 5\] broken"),
        ("import sys; sys.exit(3)", "", "cannot be imported: SystemExit: 3"),
    ],
)
def test_a_package_that_cannot_be_used_is_refused(text, own, problem, tmp_path):
    """By what is wrong with it; what cannot be imported does not stay in part."""
    name = package(tmp_path / "odd", text) + own
    with pytest.raises(ConfigError, match=problem):
        make_sampler(name, 7)
    if "cannot be imported" in problem:
        assert not [key for key in sys.modules if key.startswith("_hpometrics_hub_odd")]


@pytest.fixture(autouse=True)
def forgotten():
    """What a test imports is not there for the next one."""
    yield
    for key in [key for key in sys.modules if key.startswith("_hpometrics_hub_odd")]:
        del sys.modules[key]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("hub:no/such/folder", "does not exist: .*no/such/folder. hpometrics downloads nothing; clone"),
        ("hub:", "does not exist"),
        (f"hub:{SAMPLES}", "is not a package: .* has no __init__.py"),
    ],
)
def test_a_folder_that_is_not_there_is_refused(name, problem):
    """With the places that were searched."""
    with pytest.raises(ConfigError, match=problem):
        make_sampler(name, 7)


def test_a_scheduler_is_not_of_a_package():
    """OptunaHub has pruners of Optuna."""
    with pytest.raises(ConfigError, match="OptunaHub packages are samplers and pruners, not a scheduler"):
        load_hub("scheduler", OWN)
