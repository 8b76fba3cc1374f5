"""Fresh runs that a storage shares out: the decision of one process, each trained once."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import optuna
import pytest
from click.testing import CliRunner
from forked import Forked, hpometrics
from matrix import EXHAUSTIVE
from sample_sweeps import SWEEP, changed

from hpometrics.cli.main import main
from hpometrics.records.epoch_log import read_trial
from hpometrics.results.run_directory import RunDirectory

ENGINE = """\
import os
import signal
import time
from pathlib import Path

import toy_engine

from hpometrics import Binary, engine


@engine(output=Binary())
def train(params, run):
    if "confirm" in run.directory.parts and "PROCESSES" in os.environ:
        Path("began", str(os.getpid())).touch()
        while len(os.listdir("began")) < int(os.environ["PROCESSES"]):
            time.sleep(0.02)
        with open(os.environ["LEDGER"], "a") as ledger:
            ledger.write(f"{run.directory.parent.parent.name}/{run.directory.name}\\n")
        if "KILLED" in os.environ:
            os.kill(os.getpid(), signal.SIGKILL)
    toy_engine.train(params, run)
"""
SEARCH = changed("toy_engine:train", "own_engine:train", SWEEP)
CONFIRMED = f"{SEARCH}confirm: {{top: 3, repeats: 4, equivalence: 0}}\n"
HOME = Path("runs/sweep")


@pytest.fixture
def engine(folder, monkeypatch):
    """The engine beside the sweep file; a training of the confirmation waits for `PROCESSES` of them."""
    (folder / "own_engine.py").write_text(ENGINE)
    (folder / "began").mkdir()
    monkeypatch.setenv("LEDGER", "run.txt")


@pytest.fixture
def url(request, folder, new_database, monkeypatch):
    """A storage that processes share by its URL."""
    kind = getattr(request, "param", "postgresql")
    monkeypatch.setenv("STUDY_URL", new_database(kind))
    return "${STUDY_URL}"


def shared(url: str, settings: str = "") -> str:
    """The sweep with its study at a URL, under a name of its own."""
    backend = f'backend: {{optuna: {{storage: "{url}"{settings}}}}}\n'
    return f"name: s{os.getpid()}-{os.urandom(3).hex()}\n{CONFIRMED}{backend}results: {{dir: runs/sweep}}\n"


def decision(home: Path = HOME) -> dict:
    """What the confirmation came to, without the seconds that it took."""
    end = json.loads((home / "confirm.json").read_text())["end"]
    for standing in end["standings"]:
        standing["seconds"] = 0.0
    return end


def decision_alone(folder: Path) -> dict:
    """What one process decides on a study of its own."""
    (folder / "alone.yaml").write_text(CONFIRMED)
    assert CliRunner().invoke(main, ["run", "alone.yaml", "-q"]).exit_code == 0
    return decision(folder / "runs/alone")


def fresh_runs(home: Path) -> set[str]:
    """The trainings in a directory, by trial and number of the seed."""
    return {f"{path.parent.parent.name}/{path.name}" for path in home.glob("trials/*/confirm/*")}


def ledger(name: str) -> list[str]:
    """The trainings that a process has begun."""
    return Path(name).read_text().split()


def run_and_worker(url, monkeypatch, heartbeat="8s", **environment) -> tuple[Forked, Forked]:
    """Start a sweep and, with an environment of its own, a worker; both wait until both train contenders."""
    monkeypatch.setenv("PROCESSES", "2")
    Path("sweep.yaml").write_text(shared(url, f", heartbeat: {heartbeat}"))
    run = hpometrics("run", "sweep.yaml")
    assert run.waits_for((HOME / "sweep.resolved.yaml").exists)
    for name, value in {"LEDGER": "worker.txt", **environment}.items():
        monkeypatch.setenv(name, value)
    name = RunDirectory(HOME).read().name
    return run, hpometrics("worker", url, "--study", name, "--dir", "elsewhere", "--wait", "5m")


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("url", ["postgresql", pytest.param("mysql", marks=EXHAUSTIVE)], indirect=True)
def test_a_worker_at_the_url_trains_contenders_too(folder, url, monkeypatch):
    """Both train some, none twice; the run decides as one process does, and has every record."""
    alone = decision_alone(folder)
    run, worker = run_and_worker(url, monkeypatch)
    ran, joined = run.result(), worker.result()
    assert (ran.returncode, joined.returncode) == (0, 0), ran.stderr + joined.stderr
    assert decision() == alone
    ours, theirs = ledger("run.txt"), ledger("worker.txt")
    assert ours and theirs and sorted(ours + theirs) == sorted(fresh_runs(HOME))
    assert fresh_runs(folder / "elsewhere") == set(theirs)
    for name in theirs:
        trial, number = name.split("/")
        here, there = (
            read_trial(RunDirectory(home).fresh_run(int(trial), int(number)))
            for home in (HOME, folder / "elsewhere")
        )
        assert (here.value, here.epochs, here.seed) == (there.value, there.epochs, there.seed)
    assert "training the contenders of its confirmation" in joined.stderr
    lines = [line.split() for line in ran.stderr.splitlines() if " seed " in line]
    assert len(lines) == len(ours + theirs)


@EXHAUSTIVE
@pytest.mark.usefixtures("engine")
def test_the_run_trains_what_a_killed_worker_leaves(folder, url, monkeypatch):
    """After four heartbeats; the decision is that of one process."""
    alone = decision_alone(folder)
    run, worker = run_and_worker(url, monkeypatch, heartbeat="0.3s", KILLED="1")
    assert worker.result().returncode == -signal.SIGKILL
    ran = run.result()
    assert ran.returncode == 0, ran.stderr
    assert decision() == alone
    assert sorted(ledger("run.txt")) == sorted(fresh_runs(HOME))
    assert len(ledger("worker.txt")) == 1 and ledger("worker.txt")[0] in ledger("run.txt")


@EXHAUSTIVE
@pytest.mark.usefixtures("engine")
def test_a_worker_does_not_wait_for_a_run_that_is_gone(folder, url, monkeypatch):
    """After four heartbeats without a fresh run it ends; the next run goes on."""
    alone = decision_alone(folder)
    (folder / "sweep.yaml").write_text(shared(url, ", heartbeat: 0.2s"))
    monkeypatch.setenv("PROCESSES", "1")
    monkeypatch.setenv("KILLED", "1")
    assert hpometrics("run", "sweep.yaml").result().returncode == -signal.SIGKILL
    monkeypatch.delenv("KILLED")
    monkeypatch.setenv("LEDGER", "worker.txt")
    worker = hpometrics("worker", url, "--study", RunDirectory(HOME).read().name, "--dir", "elsewhere")
    joined = worker.result()
    assert joined.returncode == 0, joined.stderr
    assert "no run leads the confirmation; hpometrics run resumes it" in joined.stderr
    monkeypatch.setenv("LEDGER", "again.txt")
    again = hpometrics("run", "sweep.yaml").result()
    assert again.returncode == 0, again.stderr
    assert decision() == alone
    assert not {*ledger("worker.txt")} & {*ledger("again.txt")}


@pytest.mark.usefixtures("engine")
def test_the_fresh_runs_are_a_study_beside_that_of_the_search(folder):
    """With their params, epochs and values; what reads the file takes it for no search."""
    decided = decision_alone(folder)
    storage = f"sqlite:///{folder}/runs/alone/study.db"
    assert sorted(optuna.get_all_study_names(storage)) == ["alone", "alone:confirm"]
    study = optuna.load_study(study_name="alone:confirm", storage=storage)
    keys = [
        (one.user_attrs["hpometrics:confirms"], one.user_attrs["hpometrics:seed_number"])
        for one in study.trials
    ]
    home = RunDirectory(folder / "runs/alone")
    assert sorted(f"{trial:04d}/{number}" for trial, number in keys) == sorted(fresh_runs(home.path))
    assert len(keys) == decided["trainings"] == len(set(keys))
    for one, (trial, number) in zip(study.trials, keys, strict=True):
        record = read_trial(home.fresh_run(trial, number))
        assert one.value == record.value and one.params.keys() == {"lr", "size"}
        assert one.params["lr"] == record.params["lr"]
        assert list(one.intermediate_values) == [0, 1, 2]
    audited = CliRunner().invoke(main, ["audit", "runs/alone/study.db"])
    assert "alone" in audited.output and "alone:confirm" not in audited.output, audited.output
    again = CliRunner().invoke(main, ["run", "alone.yaml", "-q"])
    assert again.exit_code == 0
    assert len(optuna.load_study(study_name="alone:confirm", storage=storage).trials) == len(keys)
