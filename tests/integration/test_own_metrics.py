"""The package of docs/how-to/own-metrics.md, built and installed as its readers do it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from loaded_python import loaded_python
from matrix import EXHAUSTIVE

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/how-to/own-metrics.md").read_text(encoding="utf8")
FILES = dict(re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", PAGE, re.DOTALL))
BUILD = "import sys; from setuptools import build_meta; build_meta.build_wheel(sys.argv[1])"
ENGINE = """
import torch

def train(params, run):
    for _ in run.epochs(1):
        run.update(predictions=torch.tensor([params["shift"], 9.0]), target=torch.zeros(2))
"""
SWEEP = """
engine: {target: engine:train, output: number}
space: {shift: {choice: [0.0, 3.0]}}
metrics: {optimize: share_within, track: [share_within(tolerance=5)]}
search: {sampler: grid}
budget: {trials: 2}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """The folder into which the package is installed from its wheel, and nothing else."""
    source, site = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("site")
    assert FILES.keys() == {"pyproject.toml", "src/field_metrics/errors.py", "tests/test_errors.py"}
    for name, text in FILES.items():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text(text, encoding="utf8")
    run(source, "-c", BUILD, str(source))
    (wheel,) = source.glob("*.whl")
    pip = ["-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", str(site)]
    run(source, *pip, str(wheel))
    return site


def run(folder: Path, *arguments: str, site: Path | None = None, python: object = sys.executable) -> str:
    """Run Python in a folder, with hpometrics and what is installed at the site; return what it printed."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, filter(None, (site, ROOT))))}
    ran = subprocess.run(
        [str(python), *arguments], cwd=folder, env=env, capture_output=True, text=True, timeout=300
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_an_installed_package_is_known_to_every_command(installed, tmp_path):
    """Its metric has a page, a file may name it, a sweep is optimized by it, and results are read by it."""
    (tmp_path / "engine.py").write_text(ENGINE)
    (tmp_path / "sweep.yaml").write_text(SWEEP)

    def hpometrics(*arguments: str) -> str:
        return run(tmp_path, "-m", "hpometrics", *arguments, site=installed, python=loaded_python())

    assert "Share of predictions within a tolerance" in hpometrics("metrics", "show", "share_within")
    assert "share_within   maximize <- registry   reads predictions" in hpometrics("check", "sweep.yaml")
    assert "share_within: 0.5" in hpometrics("run", "sweep.yaml")
    other = "share_within(tolerance=5)"
    assert "share_within(tolerance=5.0): 0.5" in hpometrics("best", "runs/sweep", "--metric", other)


@EXHAUSTIVE
def test_the_tests_of_the_package_pass(installed, tmp_path):
    """Every law, the exemption, and the value by hand."""
    (tmp_path / "test_errors.py").write_text(FILES["tests/test_errors.py"])
    printed = run(tmp_path, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_errors.py", site=installed)
    assert re.search(r"\d\d passed", printed) and "failed" not in printed
