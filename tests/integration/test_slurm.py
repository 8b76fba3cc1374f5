"""The recipe for Slurm runs as Slurm would run it: a process for each task, `srun` in its place."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from loaded_python import loaded_python
from matrix import EXHAUSTIVE

from hpometrics.records.trial_record import TrialState
from hpometrics.results.run_directory import RunDirectory

RECIPE = Path(__file__).parents[2] / "examples/slurm.sh"
SWEEP = """\
engine: {target: toy_engine:learn, output: binary}
space: {lr: {float: [1e-4, 1e-1], log: true}}
metrics: {optimize: roc_auc}
search: {sampler: random, seed: 3}
backend: {optuna: {storage: journal}}
budget: {trials: 8, epochs: 3}
"""
SRUN = 'echo "$@" >> srun.txt\nexec "$@"\n'

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")


@pytest.fixture
def task(tmp_path, monkeypatch):
    """Start a task of the array by its number."""
    shutil.copy(Path(__file__).parents[1] / "samples" / "toy_engine.py", tmp_path)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    programs = {
        "srun": SRUN,
        "hpometrics": f'exec {shlex.quote(str(loaded_python()))} -m hpometrics "$@"\n',
    }
    for name, lines in programs.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(f"#!/usr/bin/env bash\n{lines}")
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
    begun = []

    def begin(number: int) -> subprocess.Popen[str]:
        begun.append(
            subprocess.Popen(
                ["bash", str(RECIPE), "sweep.yaml", "runs/sweep"],
                cwd=tmp_path,
                env={**os.environ, "PATH": path, "SLURM_ARRAY_TASK_ID": str(number)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
        return begun[-1]

    yield begin
    for one in begun:
        with one:
            one.kill()


def test_tasks_of_an_array_share_a_sweep(task, tmp_path):
    """The first runs it, the others wait until it is there and join; every trial is there once."""
    worker, first = task(1), task(0)
    printed = [one.communicate()[0] for one in (first, worker)]
    assert [one.returncode for one in (first, worker)] == [0, 0], printed
    assert "Optimal Engine Params" in printed[0]
    records = RunDirectory(tmp_path / "runs/sweep").records()
    assert [record.number for record in records] == list(range(8))
    assert {record.state for record in records} == {TrialState.COMPLETE}
    assert sorted((tmp_path / "srun.txt").read_text().splitlines()) == [
        "hpometrics run sweep.yaml",
        "hpometrics worker runs/sweep --wait 10m",
    ]


@EXHAUSTIVE
def test_an_array_whose_first_task_is_killed_goes_on(task, tmp_path):
    """Its worker ends the trials; submitted again the sweep prints what is best."""
    first, worker = task(0), task(1)
    home = RunDirectory(tmp_path / "runs/sweep")
    while not home.path.is_dir() or len(home.records()) < 2:
        assert first.poll() is None
        time.sleep(0.05)
    first.send_signal(signal.SIGKILL)
    assert worker.wait() == 0
    assert len(home.records()) == 8
    again = task(0)
    assert "Optimal Engine Params" in again.communicate()[0] and again.returncode == 0
    assert [record.number for record in home.records()] == list(range(8))


def test_the_recipe_asks_slurm_before_it_does_anything():
    """Slurm reads its options up to the first command; a GPU each, and a signal before the time is over."""
    lines = RECIPE.read_text().splitlines()
    options = [line.split()[1] for line in lines if line.startswith("#SBATCH")]
    assert {option.partition("=")[0] for option in options} >= {"--array", "--gpus-per-task", "--signal"}
    first = next(place for place, line in enumerate(lines) if line and not line.startswith("#"))
    assert not any(line.startswith("#SBATCH") for line in lines[first:])
