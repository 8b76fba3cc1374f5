from __future__ import annotations

import sqlite3

import pytest
from sample_sweeps import changed, hpometrics

from hpometrics.search.record import TrialState
from hpometrics.sweep.directory import RunDirectory

pytestmark = pytest.mark.ray

LEARN = changed("toy_engine:train", "toy_engine:learn")


def ended(*arguments: str) -> tuple[int, str, str]:
    """Run the command to its end: exit code, stdout, stderr."""
    process = hpometrics(*arguments)
    out, err = process.communicate(timeout=300)
    return process.returncode, out, err


def test_ray_and_optuna_agree(folder):
    """The same file but for the backend: the same params, seeds, values and best; again, it does nothing."""
    (folder / "sweep.yaml").write_text(LEARN)
    (folder / "on_ray.yaml").write_text(LEARN + "backend: {ray: {workers: 1}}\n")
    assert ended("run", "sweep.yaml")[0] == 0
    code, out, err = ended("run", "on_ray.yaml")
    assert code == 0, err
    assert len(err.splitlines()) == 5, err
    mine, rays = (RunDirectory(folder / "runs" / name).records() for name in ("sweep", "on_ray"))
    assert [(r.params, r.value, r.epoch, r.seed) for r in mine] == [
        (r.params, r.value, r.epoch, r.seed) for r in rays
    ]
    assert {r.state for r in rays} == {TrialState.COMPLETE}
    assert out.splitlines()[-1] == "saved best.yaml, trials.csv, study.db in runs/on_ray"
    again = ended("run", "on_ray.yaml")
    assert again[:2] == (0, out)
    assert "all 4 trials are done" in again[2]
    with sqlite3.connect(folder / "runs" / "on_ray" / "study.db") as study:
        assert study.execute("SELECT DISTINCT state FROM trials").fetchall() == [("COMPLETE",)]
