"""Every example runs as its docstring says, in a process of its own."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
PRINTS = {
    "custom_metric.py": r"maximize padded_token_accuracy: (0\.\d+)",
    "define_by_run.py": r"roc_auc (0\.\d+)",
    "optuna_study.py": r"maximize f1\(average=macro\): (0\.\d+)",
    "ray_tuner.py": r"maximize f1\(average=macro\): (0\.\d+)",
}
A_WORKING_SEARCH = 0.85  # what each of them passes by far; a broken one stays near 0.5 or 0.1
ENGINES = {
    "breast_cancer.py", "diabetes.py", "digit_halves.py", "digit_traits.py", "digits.py", "forecast.py",
    "vowels.py",
}  # fmt: skip
"""Run by the sweeps of `configs/`."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=pytest.mark.ray) if n.startswith("ray") else n for n in PRINTS]
)
def test_an_example_runs(name, tmp_path):
    """It ends well and prints an optimum that a working search finds."""
    ran = subprocess.run(
        [sys.executable, EXAMPLES / name], cwd=tmp_path, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stderr
    printed = re.search(PRINTS[name], ran.stdout)
    assert printed and float(printed[1]) > A_WORKING_SEARCH, ran.stdout


def test_no_example_is_forgotten():
    """Each file is run here or is an engine of a shipped sweep."""
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*PRINTS, *ENGINES, "__init__.py"}
