"""The README is true: its code runs, its file is the shipped one, its table is the registry's."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from hpometrics.guide.markdown import with_table
from hpometrics.objective import MAXIMIZE, MINIMIZE
from hpometrics.search.pareto import front_of, knee_of

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
EXCERPTS = re.findall(r"```py\n# (\S+)\n(.*?)```", README, re.DOTALL)


@pytest.mark.ray
def test_the_code_runs(tmp_path):
    """Each block runs after those before it, as a reader would type them."""
    script = tmp_path / "readme.py"
    script.write_text("\n".join(BLOCKS), encoding="utf8")
    ran = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert "1.0" in ran.stdout.splitlines()


@pytest.mark.parametrize(("path", "excerpt"), EXCERPTS, ids=[path for path, _ in EXCERPTS])
def test_an_excerpt_is_of_its_file(path, excerpt):
    """It stands in the example that it names, but for what `...` leaves out; the tests run the example."""
    rest = "".join((ROOT / path).read_text(encoding="utf8").split())
    for piece in filter(None, "".join(excerpt.split()).split("...")):
        _, there, rest = rest.partition(piece)
        assert there, piece


def test_the_sweep_is_the_quickstart():
    """The file shown is `configs/quickstart.yaml`, but for its comments."""
    shown = re.search(r"```yaml\n(.*?)```", README, re.DOTALL)[1]
    shipped = (ROOT / "configs/quickstart.yaml").read_text(encoding="utf8")
    assert yaml.safe_load(shown) == yaml.safe_load(shipped)


def test_the_search_of_engine_params_is_the_shipped_one():
    """The second file shown is `configs/engine_params.yaml`."""
    shown = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)[1]
    shipped = (ROOT / "configs/engine_params.yaml").read_text(encoding="utf8")
    assert yaml.safe_load(shown) == yaml.safe_load(shipped)


def test_the_front_is_that_of_the_shipped_sweep(tmp_path):
    """It is a front with its knee; its first trials have the params and the sizes that the sweep draws."""
    row = r"  trial (\d+), .*: accuracy ([\d.]+) \^  params_k ([\d.]+) v   (lr=\S+ width=\S+ layers=\d)( .*)?"
    shown = re.findall(row, re.search(r"```text\n(Pareto front of.*?)```", README, re.DOTALL)[1])
    points, ways = [(float(accuracy), float(size)) for _, accuracy, size, *_ in shown], [MAXIMIZE, MINIMIZE]
    assert front_of(points, ways) == list(range(len(shown)))
    assert [bool(mark) for *_, mark in shown].index(True) == knee_of(points, ways)
    fewer = ["--set", "budget.trials=2", "--set", "budget.epochs=1", "--set", f"results.dir={tmp_path}"]
    command = [sys.executable, "-m", "hpometrics", "run", "configs/small_digits.yaml", *fewer]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr
    drawn = {int(number): (size, params) for number, _, size, params, _ in re.findall(row, ran.stdout)}
    assert len(drawn) == 2
    assert drawn.items() <= {int(number): (size, params) for number, _, size, params, _ in shown}.items()


def test_the_trials_that_are_compared_are_of_the_shipped_sweep(tmp_path):
    """The command that is printed finds values by user in the directory that the sweep leaves."""
    command, name, last = re.search(r"hpometrics (compare runs/(recommender) \d+ (\d+)) ", README).groups()
    fewer = [f"budget.trials={int(last) + 1}", "budget.epochs=1", f"results.dir={tmp_path}/runs/{name}"]
    settings = [part for setting in fewer for part in ("--set", setting)]
    for arguments, home in ((["run", f"configs/{name}.yaml", *settings], ROOT), (command.split(), tmp_path)):
        ran = subprocess.run(
            [sys.executable, "-m", "hpometrics", *arguments],
            cwd=home,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert ran.returncode == 0, ran.stderr
    assert re.search(r"ndcg@10: .*these 1000 users|ndcg@10: trial \d is better", ran.stdout)


def test_the_table_is_printed_from_the_registry():
    """`make index` has been run since the last change of a metric."""
    assert with_table(README) == README


def test_the_evaluation_prints_what_is_shown(tmp_path):
    """The lines of `hpometrics eval`, but for the id of the run."""
    shown = re.search(r"```text\n(Starting evaluation.*?)```", README, re.DOTALL)[1].splitlines()
    targets = [f"examples.engine_params:{name}" for name in ("PrecisionEvaluation", "LAMBDAS")]
    command = [sys.executable, "-m", "hpometrics", "eval", *targets]
    ran = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert [line.rstrip() for line in ran.stdout.splitlines()][1:] == shown[1:]
