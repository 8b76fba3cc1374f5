"""What is secret is in no file of a sweep on Ray: neither the record nor Ray's own logs and pickles."""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from forked import hpometrics, program
from matrix import EXHAUSTIVE

pytestmark = pytest.mark.ray

TOKEN = 'hf-0123456789 \\ "7"\nGEHEIM-ß.secret'
"""A secret of two lines, with what is escaped."""
PASSWORD = "pw-0123456789"
ENGINE = """\
import os


def train(params, run):
    assert params["token"] == os.environ["HUB_TOKEN"]
    print("trained as", run.params["token"])
    for epoch in run.epochs(2):
        run.log(gap=params["lr"])
    if params["lr"] == 0.5:
        try:
            raise KeyError(params["token"])
        except KeyError as err:
            raise RuntimeError("401 Unauthorized for https://ada:PASSWORD@hub/x") from err
"""
SWEEP = """\
engine: {target: secretive:train, params: {token: {secret: HUB_TOKEN}}}
space: {lr: {choice: [0.5, 0.25]}}
metrics: {optimize: {metric: gap, direction: minimize}}
search: {sampler: grid}
budget: {epochs: 2}
backend: {ray: {workers: 1}}
"""
STUDY = """\
import optuna
from hpometrics import Float, RayObjective, Reported

def train(params, run):
    for epoch in run.epochs(1):
        run.log(gap=params["x"])

if __name__ == "__main__":
    study = optuna.create_study(storage="sqlite:///file:study.db?uri=true&password=PASSWORD", study_name="s")
    made = RayObjective(train, {"x": Float(0, 1)}, metric=Reported("gap", "minimize"), directory="run")
    made.tuner(1, study=study).fit()
    assert made.best().value <= 1
"""


@pytest.fixture
def session(monkeypatch) -> Iterator[Path]:
    """A folder of a short name for all temporary files."""
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="s") as short:
        monkeypatch.setenv("TMPDIR", short)
        yield Path(short)


def forms_of(secret: str) -> set[bytes]:
    """Each of its lines, as it is and as it is escaped."""
    forms = (
        form
        for line in secret.splitlines()
        for form in (line, repr(line)[1:-1], ascii(line)[1:-1], json.dumps(line)[1:-1])
    )
    return {form.encode() for form in forms}


def files_with(secret: str, *folders: Path) -> list[Path]:
    """The files that have it in their bytes, or a line of it, in any form."""
    files = [path for folder in folders for path in folder.rglob("*") if stat.S_ISREG(path.lstat().st_mode)]
    assert len(files) > 20
    forms = forms_of(secret)
    return [path for path in files if any(form in path.read_bytes() for form in forms)]


def test_a_secret_param_is_in_no_file_of_ray(folder, session, ray_launcher, monkeypatch):
    """The engine is told it, in a worker; its error, of which it is the cause, goes through Ray."""
    monkeypatch.setenv("HUB_TOKEN", TOKEN)
    (folder / "secretive.py").write_text(ENGINE.replace("PASSWORD", PASSWORD))
    (folder / "sweep.yaml").write_text(SWEEP)
    ran = hpometrics("run", "sweep.yaml", python=ray_launcher).result()
    said = ran.stdout + ran.stderr
    assert ran.returncode == 0, said
    assert "401 Unauthorized for https://***@hub/x" in said
    logs = [path.read_text() for path in session.rglob("worker-*.out")]
    assert any("trained as {'secret': 'HUB_TOKEN'}" in log for log in logs)
    assert not files_with(TOKEN, folder, session)
    assert not any(form in said.encode() for form in forms_of(TOKEN))
    assert not files_with(PASSWORD, folder / "runs", session) and PASSWORD not in said
    private = session / f"hpometrics-{os.getuid()}"
    assert [path for path in session.iterdir() if (path / "ray").exists()] == [private]
    assert stat.S_IMODE(private.stat().st_mode) == 0o700


@EXHAUSTIVE
def test_the_password_of_a_storage_is_in_no_file_of_ray(folder, session, ray_launcher):
    """Tune pickles its searcher, which has the study; what the study is opened with is left out."""
    (folder / "study_of_mine.py").write_text(STUDY.replace("PASSWORD", PASSWORD))
    ran = program(folder / "study_of_mine.py", python=ray_launcher).result()
    assert ran.returncode == 0, ran.stderr
    assert (folder / "study.db").exists()
    assert not files_with(PASSWORD, folder / "run", session)
