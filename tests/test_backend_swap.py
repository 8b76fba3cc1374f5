"""Every shipped sweep goes to the other backend by `backend` and the pruner's name."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hpometrics.sweep.plan import read_plan

ROOT = Path(__file__).parents[1]
CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))
BACKENDS = ("optuna", "ray")
PRUNERS = {"optuna": "median", "ray": "asha"}


def swapped(path: Path, backend: str) -> list[str]:
    """The settings that take a sweep to a backend: it and, where something prunes, the pruner's name."""
    asked = yaml.safe_load(path.read_text(encoding="utf8"))
    settings = [f"backend={backend}"]
    if asked["search"].get("pruner") is not None:
        settings.append(f"search.pruner={PRUNERS[backend]}")
    return settings


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_a_shipped_sweep_is_right_on_either_backend(path, backend):
    """Nothing else of the file has to change."""
    plan = read_plan(path, swapped(path, backend))
    assert (plan.config.backend.name, plan.space) == (backend, read_plan(path).space)
