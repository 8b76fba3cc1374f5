from __future__ import annotations

import pytest
from sample_sweeps import SWEEP, changed, plan_of

from hpometrics.config.document import SweepFileError
from hpometrics.exceptions import RecordError
from hpometrics.results.manifest import Resolved, changes, read_resolved, resolve

BEFORE = resolve(plan_of(SWEEP))


def changed_keys(text: str) -> dict[str, bool]:
    """What differs from the sample sweep, and whether it is fatal."""
    return {change.key: change.fatal for change in changes(BEFORE, resolve(plan_of(text)))}


def test_it_reads_back_as_it_was(tmp_path):
    """Objectives, numbers and texts included."""
    path = tmp_path / "sweep.resolved.yaml"
    path.write_text(BEFORE.to_yaml())
    assert read_resolved(path) == BEFORE


def test_the_storage_is_that_of_this_environment(monkeypatch):
    """The record has the placeholder, whose value each machine reads itself."""
    monkeypatch.setenv("STUDIES", "sqlite")
    resolved = resolve(plan_of(SWEEP + "backend: {optuna: {storage: '${env:STUDIES}'}}\n"))
    assert "${env:STUDIES}" in resolved.to_yaml()
    assert (resolved.storage, resolved.is_shared) == ("sqlite", False)
    monkeypatch.setenv("STUDIES", "postgresql://db/studies")
    assert (resolved.storage, resolved.is_shared) == ("postgresql://db/studies", True)
    monkeypatch.delenv("STUDIES")
    with pytest.raises(SweepFileError, match=r"backend\.optuna\.storage: the environment variable STUDIES"):
        _ = resolved.storage


@pytest.mark.parametrize(
    "text", ["", "name: x", "- 1", "track: 3", BEFORE.to_yaml().replace("maximize", "up")]
)
def test_a_damaged_one_is_refused(text, tmp_path):
    """By its own error, which names the file."""
    path = tmp_path / "sweep.resolved.yaml"
    path.write_text(text)
    with pytest.raises(RecordError, match=r"sweep\.resolved\.yaml"):
        read_resolved(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("trials: 4", "trials: 40"),
        ("trials: 4", "time: 1h"),
        ("sampler: random", "pruner: median"),
        ("[accuracy]", "[f1]"),
    ],
)
def test_budget_search_and_tracked_metrics_may_change(old, new):
    """Earlier trials mean the same."""
    assert changed_keys(changed(old, new)) == {}


@pytest.mark.parametrize(
    ("old", "new", "keys"),
    [
        ("1e-1]", "1.0]", {"space.lr.float": False}),
        ("epochs: 3", "epochs: 5", {"budget.epochs": False}),
        ("toy_engine:train", "toy_engine:learn", {"engine.target": False}),
        ("output: binary", "output: binary, params: {a: 1}", {"engine.params.a": False}),
        ("seed: 3", "seed: 4", {"engine.seed": False}),
        ("[accuracy]", "[accuracy], at: last", {"at": True}),
        ("roc_auc", "log_loss", {"metric": True, "direction": True}),
        ("large: {depth: 3", "large: {depth: 4", {"space.size.choice.large.depth": True}),
        ("log: true", "log: false", {"space.lr.log": True}),
        ("{float: [1e-4, 1e-1], log: true}", "{int: [1, 2]}", {"space.lr.int": True}),
    ],
)
def test_what_changes_the_meaning_of_a_trial_is_found(old, new, keys):
    """Fatal is what Optuna cannot search on, or what makes values incomparable."""
    found = changed_keys(changed(old, new))
    assert keys.items() <= found.items()


def test_params_are_ordered_as_in_the_file():
    """Bundled ones where their bundle stands, fixed ones last; a bundle is known by what it set."""
    resolved: Resolved = resolve(plan_of(changed("output: binary", "params: {batch: 64}")))
    params = {"batch": 64, "width": 32, "depth": 3, "lr": 0.1}
    assert list(resolved.ordered(params)) == ["lr", "depth", "width", "batch"]
    assert resolved.bundle_of("width", params) == "size=large"
    assert resolved.bundle_of("lr", params) is None
