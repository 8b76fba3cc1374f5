from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from hpometrics import engines, evaluation

LIGHT = [
    "EngineParams",
    "params_list",
    "Engine",
    "AverageMetric",
    "EvaluationInstance",
    "MetricEvaluatorResult",
]


def test_the_names_are_one_list():
    """What is promised, what is loaded lazily and what a type checker sees."""
    stub = ast.parse(Path(engines.__file__).with_suffix(".pyi").read_text(encoding="utf8"))
    seen = {alias.name: node.module for node in stub.body for alias in node.names}
    assert seen == engines._HOME_OF
    assert engines.__all__ == evaluation.__all__ == sorted(seen)
    assert all(getattr(evaluation, name) is getattr(engines, name) for name in seen)


@pytest.mark.parametrize("name", engines.__all__)
def test_every_name_is_there(name):
    """Also `registered`, which loads the registry."""
    assert getattr(engines, name) is not None


def test_an_unknown_name_is_an_attribute_error():
    """A misspelled name fails as in any module."""
    with pytest.raises(AttributeError, match="has no attribute 'AvergeMetric'"):
        _ = engines.AvergeMetric


def test_engine_params_and_their_results_load_no_torch():
    """Reading what an evaluation left is light."""
    code = f"import sys; from hpometrics.evaluation import {', '.join(LIGHT)}; print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
