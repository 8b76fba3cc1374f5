"""Every example runs as its docstring says, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PRINTS = {
    "custom_metric.py": "maximize padded_token_accuracy: 0.9",
    "define_by_run.py": "roc_auc 0.9",
    "optuna_study.py": "maximize f1(average=macro): 0.9",
    "ray_tuner.py": "maximize f1(average=macro): 0.9",
}
ENGINES = {"breast_cancer.py", "diabetes.py", "digits.py"}  # run by the sweeps of `configs/`


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.ray) if n.startswith("ray") else n for n in PRINTS]
)
def test_an_example_runs(name, tmp_path):
    """It ends well and prints an optimum that a working search finds."""
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    assert PRINTS[name] in ran.stdout


def test_no_example_is_forgotten():
    """Each file is run here or is an engine of a shipped sweep."""
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*PRINTS, *ENGINES, "__init__.py"}
