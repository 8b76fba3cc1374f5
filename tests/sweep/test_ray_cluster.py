"""Sweeps on a Ray cluster that somebody else has started."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import pytest
from sample_sweeps import SWEEP, changed, hpometrics, problems_of

from hpometrics.search.record import TrialState
from hpometrics.sweep.directory import RunDirectory


@pytest.fixture
def cluster(monkeypatch):
    """The address of a cluster of two CPUs and a GPU that only it believes in; started in another folder."""
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # else a token would be left in the home directory
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="ray")  # its sockets have no room for the long name of a test
    command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", f"--port={port}"]
    command += ["--num-cpus=2", "--num-gpus=1", f"--object-store-memory={80 * 2**20}", f"--temp-dir={folder}"]
    command += ["--include-dashboard=false", "--disable-usage-stats"]
    head = subprocess.Popen(command, cwd="/", stdout=subprocess.PIPE, text=True, start_new_session=True)
    for line in head.stdout:
        if "--block" in line:
            break
    yield f"127.0.0.1:{port}"
    head.send_signal(signal.SIGTERM)
    head.communicate(timeout=120)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.ray
def test_a_sweep_runs_on_a_cluster_that_is_there(folder, cluster):
    """Half a GPU for each trial, Ray's files at a URI; the same trials as on Optuna, recorded here."""
    text = changed("toy_engine:train", "toy_engine:place")
    (folder / "sweep.yaml").write_text(text)
    ray = (
        f"address: '{cluster}', workers: 2, resources: {{cpu: 1, gpu: 0.5}}, storage: 'file://{folder}/kept'"
    )
    (folder / "on_ray.yaml").write_text(f"{text}backend: {{ray: {{{ray}}}}}\n")
    for file in ("sweep.yaml", "on_ray.yaml"):
        run = hpometrics("run", file)
        _, err = run.communicate(timeout=300)
        assert run.returncode == 0, err
    mine, rays = (RunDirectory(folder / "runs" / name).records() for name in ("sweep", "on_ray"))
    assert [(one.params, one.value, one.seed) for one in mine] == [
        (one.params, one.value, one.seed) for one in rays
    ]
    assert {one.state for one in rays} == {TrialState.COMPLETE}
    places = (folder / "places").read_text().splitlines()
    assert len(places) == 8 and places[4:] == [f"{folder} 0"] * 4  # where Ray's workers were, and their GPU
    assert list((folder / "kept").rglob("tuner.pkl"))
    assert not (folder / "runs/on_ray/ray").exists()


@pytest.mark.ray
def test_a_cluster_that_is_not_there_is_named(folder):
    """Instead of a wait; nothing was run."""
    (folder / "sweep.yaml").write_text(f"{SWEEP}backend: {{ray: {{address: '127.0.0.1:1'}}}}\n")
    run = hpometrics("run", "sweep.yaml")
    _, err = run.communicate(timeout=300)
    assert run.returncode == 2, err
    assert "backend.ray.address: no Ray cluster answers at 127.0.0.1:1: " in err


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
