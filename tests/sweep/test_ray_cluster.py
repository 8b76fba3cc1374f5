"""Sweeps on a Ray cluster that somebody else has started."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from forked import hpometrics
from matrix import EXHAUSTIVE
from sample_sweeps import SWEEP, changed, plan_of, problems_of

from hpometrics.search.record import TrialState
from hpometrics.sweep.directory import RunDirectory
from hpometrics.sweep.overview import overview

LOOKS_OFTEN = json.dumps({"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000})
"""A head that finds within seconds that a node is gone."""


@pytest.fixture
def cluster(monkeypatch):
    """The address of a cluster of two CPUs and a GPU that only it believes in; started in another folder."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else a token would be left in the home directory
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="ray")  # its sockets have no room for the long name of a test
    head = ["--head", f"--port={port}", f"--temp-dir={folder}", "--num-cpus=2", "--num-gpus=1"]
    head += ["--include-dashboard=false", f"--system-config={LOOKS_OFTEN}"]
    with node(*head):
        yield f"127.0.0.1:{port}"
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def node(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A node of a cluster, in processes of its own."""
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
    command += [f"--object-store-memory={80 * 2**20}", *arguments]
    process = subprocess.Popen(command, cwd="/", stdout=subprocess.PIPE, text=True, start_new_session=True)
    for line in process.stdout:
        if "--block" in line:
            break
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


def kill(process: subprocess.Popen[str]) -> None:
    """Take a node away, with all that it runs."""
    os.killpg(process.pid, signal.SIGKILL)
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


@pytest.mark.ray
@EXHAUSTIVE
def test_a_trial_whose_machine_is_gone_goes_on_on_another(folder, cluster):
    """With no retry; only nodes that join later have what it asks for, and its epochs are there once.

    One line says what was lost, in our words.
    """
    asked = f"address: '{cluster}', workers: 1, resources: {{custom: {{spare: 1}}}}"
    text = changed("toy_engine:train", "toy_engine:linger").replace("trials: 4", "trials: 2")
    (folder / "sweep.yaml").write_text(f"{text}backend: {{ray: {{{asked}}}}}\n")
    join = (f"--address={cluster}", "--num-cpus=1", '--resources={"spare": 1}')
    with node(*join) as first:
        run = hpometrics("run", "sweep.yaml")
        assert run.waits_for((folder / "lingering").exists), run.result()
        with node(*join):
            kill(first)
            ran = run.result()
    assert ran.returncode == 0, ran.stderr
    records = RunDirectory(folder / "runs/sweep").records()
    assert [record.state for record in records] == [TrialState.COMPLETE] * 2
    assert [len(record.failed_attempts) for record in records] == [0, 0]
    assert "trial 0: its machine was lost in epoch 0; the trial goes on in another\n" in ran.stderr
    assert "actor" not in ran.stderr + ran.stdout
    assert [[epoch.epoch for epoch in record.epochs] for record in records] == [[0, 1, 2]] * 2


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
        ("host", "'host' is no address of a Ray cluster; write auto, or host:6379"),
        (
            "ray://ada:pw@host:1",
            "ray://***@host:1: through Ray's client the search would run on the head",
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
    assert "backend.ray.resources.custom: GPU is none of the cluster's own; write gpu beside custom" in found
    [found] = problems_of(SWEEP + backend.format("TPU: 0"))
    assert "backend.ray.resources.custom.TPU: " in found
