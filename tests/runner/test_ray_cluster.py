"""Sweeps on a Ray cluster that somebody else has started."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from forked import hpometrics
from loaded_python import loaded_python
from matrix import EXHAUSTIVE
from sample_sweeps import SWEEP, changed, plan_of, problems_of

from hpometrics.exceptions import DiskError, RunError
from hpometrics.records.trial_record import TrialState
from hpometrics.results.run_directory import RunDirectory
from hpometrics.results.summary import overview
from hpometrics.runner import ray_sweep
from hpometrics.runner.ray_sweep import ClusterPool

LOOKS_OFTEN = json.dumps({"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000})
"""A head that finds within seconds that a node is gone."""


@pytest.fixture(scope="module")
def head() -> Iterator[str]:
    """The address of a cluster of two CPUs, a seat and a GPU that only it believes in; started elsewhere."""
    with pytest.MonkeyPatch.context() as environment, socket.socket() as free:
        environment.setenv("RAY_AUTH_MODE", "disabled")  # else a token would be left in the home directory
        folder = tempfile.mkdtemp(prefix="ray")  # its sockets have no room for the long name of a test
        environment.setenv("RAY_TMPDIR", folder)
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
        free.close()
        settings = ["--head", f"--port={port}", "--num-cpus=2", "--num-gpus=1", '--resources={"seat": 1}']
        settings += ["--include-dashboard=false", f"--system-config={LOOKS_OFTEN}"]
        with node(*settings):
            environment.undo()
            yield f"127.0.0.1:{port} {folder}"
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(head, monkeypatch):
    """The address of the cluster, which is that of this machine: `auto` finds it."""
    address, folder = head.split()
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_TMPDIR", folder)
    return address


@contextmanager
def node(*arguments: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A node of a cluster, in processes of its own; its workers are forks, with these variables."""
    program = (
        f"import sys; sys.executable = {str(loaded_python())!r}; from ray.scripts.scripts import main; main()"
    )
    command = [sys.executable, "-c", program, "start", "--block", "--disable-usage-stats"]
    command += [f"--object-store-memory={80 * 2**20}", *arguments]
    process = subprocess.Popen(
        command,
        cwd="/",
        env=os.environ | variables,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert any("--block" in line for line in process.stdout), "the node did not start"
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


def kill_raylet(process: subprocess.Popen[str]) -> None:
    """Kill the process that makes a node of a machine; its workers end when they miss it."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    [raylet] = [pid for pid in children if Path(f"/proc/{pid}/exe").resolve().name == "raylet"]
    os.kill(int(raylet), signal.SIGKILL)
    process.communicate(timeout=120)


@pytest.mark.ray
@EXHAUSTIVE
def test_a_sweep_runs_on_a_cluster_that_is_there(folder, cluster):
    """Half a GPU for each trial, Ray's files at a URI; the same trials as on Optuna, recorded here.

    Each trial has a process of its own for the sake of the GPU's memory, unless the file says otherwise.
    """
    text = changed("toy_engine:train", "toy_engine:place")
    (folder / "sweep.yaml").write_text(text)
    ray = (
        f"address: '{cluster}', workers: 2, resources: {{cpu: 1, gpu: 0.5}}, storage: 'file://{folder}/kept'"
    )
    (folder / "on_ray.yaml").write_text(f"{text}backend: {{ray: {{{ray}}}}}\n")
    (folder / "reused.yaml").write_text(f"{text}backend: {{ray: {{{ray}, reuse_actors: true}}}}\n")
    for file in ("sweep.yaml", "on_ray.yaml", "reused.yaml"):
        ran = hpometrics("run", file).result()
        assert ran.returncode == 0, ran.stderr
    mine, rays, again = (
        RunDirectory(folder / "runs" / name).records() for name in ("sweep", "on_ray", "reused")
    )
    assert [(one.params, one.value, one.seed) for one in mine] == [
        (one.params, one.value, one.seed) for one in rays
    ]
    assert {one.state for one in rays} == {TrialState.COMPLETE}
    assert [(one.params, one.value) for one in again] == [(one.params, one.value) for one in rays]
    places = [line.split(" ", 1) for line in (folder / "places").read_text().splitlines()]
    assert len(places) == 12
    assert {place for _, place in places[4:]} == {f"{folder} 0"}  # where Ray's workers were, and their GPU
    assert len({process for process, _ in places[4:8]}) == 4
    assert len({process for process, _ in places[8:]}) <= 2
    assert list((folder / "kept").rglob("tuner.pkl"))
    assert not (folder / "runs/on_ray/ray").exists()


def on_nodes(engine: str, address: str) -> str:
    """A sweep of two workers, each of whose trials takes the one seat of a node."""
    text = changed("toy_engine:train", f"toy_engine:{engine}")
    return (
        f"{text}backend: {{ray: {{address: '{address}', workers: 2, resources: {{custom: {{seat: 1}}}}}}}}\n"
    )


def check_sweep(folder: Path, ran: subprocess.CompletedProcess[str]) -> None:
    """Check that each trial and each epoch of the budget is there once, and that the best is printed."""
    assert ran.returncode == 0, ran.stderr
    records = RunDirectory(folder / "runs/sweep").records()
    assert [(one.number, one.state, [epoch.epoch for epoch in one.epochs]) for one in records] == [
        (number, TrialState.COMPLETE, [0, 1, 2]) for number in range(4)
    ]
    assert [len(record.failed_attempts) for record in records] == [0] * 4
    with closing(sqlite3.connect(folder / "runs/sweep/study.db")) as study:
        assert study.execute("SELECT number, state FROM trials ORDER BY number").fetchall() == [
            (number, "COMPLETE") for number in range(4)
        ]
    lines = [line.split()[:2] for line in ran.stderr.splitlines() if line.startswith(" #")]
    assert sorted(lines) == [[f"#{number}", "ok"] for number in range(4)]
    assert "# engine params evaluated: 4  (ok 4)" in ran.stdout
    [best] = re.findall(r"^Optimal Engine Params: \(trial (\d)", ran.stdout, re.MULTILINE)
    assert records[int(best)].value == max(record.value for record in records)


@pytest.mark.ray
@EXHAUSTIVE
@pytest.mark.parametrize(
    ("at", "others", "auto"),
    [("import", 0, False), ("0", 0, True), ("1", 0, False), ("2", 3, True)],
    ids=["import", "start", "trial", "end"],
)
def test_a_trial_whose_machine_is_gone_goes_on_on_another(folder, cluster, at, others, auto):
    """With no retry, while its engine is loaded, in its first or second epoch, or as the last of the sweep.

    The head trains nothing before the other machine lingers. One line says what was lost, in our words.
    """
    os.mkfifo("begun")
    (folder / "sweep.yaml").write_text(on_nodes("learn_beside", "auto" if auto else cluster))
    join = (f"--address={cluster}", "--num-cpus=1", '--resources={"seat": 1}')
    with node(*join, LINGER_AT=at) as second:
        run = hpometrics("run", "sweep.yaml")

        def comes() -> bool:
            over = [one.state.finished for one in RunDirectory(folder / "runs/sweep").records()]
            return sum(over) >= others

        assert run.waits_for((folder / "lingering").exists), run.result()
        pipe = os.open("begun", os.O_RDWR)
        assert run.waits_for(comes), run.result()
        kill_raylet(second)
        ran = run.result()
        os.close(pipe)
    check_sweep(folder, ran)
    [lost] = re.findall(
        r"^trial \d: its (.*); the trial continues in another process", ran.stderr, re.MULTILINE
    )
    assert lost == f"machine was lost in epoch {0 if at == 'import' else at}"
    # A raylet of Ray's that ends slowly has the tail of its own log printed, which is not ours to word.
    lines = [one for one in (ran.stderr + ran.stdout).splitlines() if "(raylet) " not in one]
    assert "actor" not in "\n".join(lines)


@pytest.mark.ray
@EXHAUSTIVE
@pytest.mark.parametrize("auto", [True, False])
def test_a_machine_that_joins_late_takes_trials(folder, cluster, auto):
    """The first trial waits on the head for one on the machine that joins once it has begun."""
    os.mkfifo("meeting")
    (folder / "sweep.yaml").write_text(on_nodes("meet_late", "auto" if auto else cluster))
    run = hpometrics("run", "sweep.yaml")
    assert run.waits_for((folder / "waits").exists), run.result()
    with node(f"--address={cluster}", "--num-cpus=1", '--resources={"seat": 1}', LATE="1"):
        ran = run.result()
    check_sweep(folder, ran)
    assert (folder / "met").exists()


CONFIRMS = """\
import os
import signal
from contextlib import suppress
from pathlib import Path

import toy_engine

from hpometrics import Binary, engine


@engine(output=Binary())
def train(params, run):
    if "confirm" in run.directory.parts:
        with open("fresh.txt", "a") as file:
            file.write(f"{os.getpid()} {os.environ.get('CUDA_VISIBLE_DEVICES')}\\n")
        with suppress(FileNotFoundError):  # one of the two workers takes it
            os.rename("kills", "killed")
            os.kill(os.getpid(), signal.SIGKILL)
    toy_engine.train(params, run)
"""


def decision(home: Path) -> dict[str, Any]:
    """Return how a confirmation ended, without the seconds that it took."""
    end: dict[str, Any] = json.loads((home / "confirm.json").read_text())["end"]
    for standing in end["standings"]:
        standing["seconds"] = 0.0
    return end


@pytest.mark.ray
@EXHAUSTIVE
def test_the_cluster_trains_the_contenders(folder, cluster):
    """Not the machine of the run, which may have no GPU; one whose worker dies is trained by another."""
    (folder / "own_engine.py").write_text(CONFIRMS)
    text = changed("toy_engine:train", "own_engine:train") + "confirm: {top: 3, repeats: 4, equivalence: 0}\n"
    (folder / "alone.yaml").write_text(text)
    ray = f"address: '{cluster}', workers: 2, resources: {{cpu: 1, gpu: 0.5}}"
    (folder / "sweep.yaml").write_text(f"{text}backend: {{ray: {{{ray}}}}}\n")
    assert hpometrics("run", "alone.yaml").result().returncode == 0
    trained = (folder / "fresh.txt").read_text().splitlines()
    (folder / "fresh.txt").unlink()
    (folder / "kills").touch()
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 0, ran.stderr
    assert decision(folder / "runs/sweep") == decision(folder / "runs/alone")
    fresh = [line.split() for line in (folder / "fresh.txt").read_text().splitlines()]
    assert {gpu for _, gpu in fresh} == {"0"}
    assert len(fresh) == len(trained) + 1
    assert "its worker died; another worker trains it" in ran.stderr


@pytest.fixture
def pool(monkeypatch):
    """A pool with one fresh run at work, whose end is the error that it is called with."""
    said: list[str] = []
    made = ClusterPool.__new__(ClusterPool)
    made._at_work, made._deaths, made._say = {}, Counter(), said.append

    def end(error: Exception) -> list[str]:
        def get(task: object) -> bool:
            raise error

        fake = SimpleNamespace(wait=lambda tasks, timeout: (tasks, []), get=get, exceptions=ray.exceptions)
        monkeypatch.setattr(ray_sweep, "ray", fake)
        made._at_work["task"] = (7, 2)
        made.wait(0.0)
        assert not made._at_work
        return said

    return end


def test_a_fresh_run_is_begun_again_until_three_workers_have_died_of_it(pool):
    """Each death has its line; the third ends the confirmation, which a further run continues."""
    died = ray.exceptions.WorkerCrashedError()
    for count in (1, 2):
        assert pool(died) == ["trial 7, seed 2: its worker died; another worker trains it"] * count
    with pytest.raises(RunError, match="trial 7, seed 2: 3 of its workers died: "):
        pool(died)


def test_an_error_that_a_worker_raises_is_no_death(pool):
    """A full disk is named as such, and at once."""
    full = DiskError("no space left")
    with pytest.raises(DiskError, match="no space left"):
        pool(ray.exceptions.RayTaskError("train_if_free", "traceback", full).as_instanceof_cause())


@pytest.mark.ray
def test_a_cluster_that_is_not_there_is_named(folder):
    """Instead of a wait; nothing was run."""
    (folder / "sweep.yaml").write_text(f"{SWEEP}backend: {{ray: {{address: '127.0.0.1:1'}}}}\n")
    ran = hpometrics("run", "sweep.yaml").result()
    assert ran.returncode == 2, ran.stderr
    assert "backend.ray.address: no Ray cluster answers at 127.0.0.1:1: " in ran.stderr


@pytest.mark.parametrize(
    ("address", "told"),
    [
        (
            "ray://host:10001",
            "on a machine of the cluster with address: auto, or submit it: ray job submit",
        ),
        ("host", "'host' is not an address of a Ray cluster; write auto, or host:6379"),
        (
            "ray://ada:pw@host:1",
            "ray://***@host:1: with the Ray client, the search would run on the head",
        ),
    ],
)
def test_an_address_that_cannot_work_is_refused_at_check(address, told):
    """Ray's client moves the whole search to the head node, where neither the study nor the directory is."""
    [found] = problems_of(f"{SWEEP}backend: {{ray: {{address: '{address}'}}}}\n")
    assert "backend.ray.address: " in found and told in found


@pytest.mark.parametrize("address", ["auto", "10.0.0.7:6379", "[::1]:6379", "head-node.local:6379"])
def test_addresses_of_clusters(address):
    """Of this machine, or of a head."""
    assert problems_of(f"{SWEEP}backend: {{ray: {{address: '{address}'}}}}\n") == []


def test_what_a_trial_needs_of_a_cluster():
    """Cores and GPUs beside what the cluster has names of its own for; amounts above zero."""
    backend = "backend: {{ray: {{resources: {{custom: {{{}}}}}}}}}\n"
    plan = plan_of(SWEEP + backend.format("TPU: 4, memory: 8e9"))
    assert plan.config.backend.ray.resources.of_trial(threads=2) == {
        "cpu": 2,
        "gpu": 0.0,
        "TPU": 4.0,
        "memory": 8e9,
    }
    assert "each with 1 cpu, 0 gpu, 4 TPU and 8e+09 memory" in dict(overview(plan))["backend"]
    [found] = problems_of(SWEEP + backend.format("GPU: 1"))
    assert "resources.custom: GPU is a standard resource; write gpu beside custom" in found
    [found] = problems_of(SWEEP + backend.format("TPU: 0"))
    assert "backend.ray.resources.custom.TPU: " in found
