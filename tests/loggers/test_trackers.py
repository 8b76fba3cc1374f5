"""What MLflow and W&B hold of a run, read back from them; each is tried where its extra is installed."""

from __future__ import annotations

import json
import math
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hpometrics.backends.objective import ListObjective
from hpometrics.direction import MAXIMIZE
from hpometrics.exceptions import MissingExtraError
from hpometrics.loggers.mlflow import MlflowLogger
from hpometrics.loggers.registry import Standing, check_logger
from hpometrics.run import Reported, Run

F1 = Reported("a/f1", MAXIMIZE)
PARAMS = {"lr": 0.1, "layers": [8, 4]}
VALUES = [0.5, math.nan, 0.25, 0.75]


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep both from sending anything, which each does on its own account unless told."""
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    monkeypatch.setenv("WANDB_MODE", "offline")


def train(home: Path, logger: Mapping[str, Any], last: int | None = None) -> None:
    """Train four epochs, or die in one of them; a run that goes on begins with the epochs it has."""
    with Run(metric=F1, directory=home, params=PARAMS, loggers=[logger]) as run:
        run.restore()
        for epoch in run.epochs(4):
            run.log(**{"a/f1": VALUES[epoch], "train:loss(weighted)": epoch / 8})
            run.checkpoint()
            if epoch == last:
                raise KeyboardInterrupt


@pytest.mark.parametrize("name", ["mlflow", "wandb"])
def test_a_missing_tracker_is_named_with_its_extra(name, tmp_path, monkeypatch):
    """Before the first trial."""
    monkeypatch.setattr("hpometrics.loggers.registry.find_spec", lambda package: None)
    with pytest.raises(MissingExtraError, match=rf"pip install '{name}[\w-]*>="):
        check_logger(name, tmp_path)


@pytest.mark.filterwarnings("ignore")  # of MLflow's own making
def test_mlflow_holds_every_epoch_once(tmp_path):
    """Params, values by step, the picked one so far; the run that was killed is deleted."""
    mlflow = pytest.importorskip("mlflow")
    home, uri = tmp_path / "digits" / "trials" / "0003", f"sqlite:///{tmp_path}/m.db"
    logger = {"mlflow": {"uri": uri}}
    with pytest.raises(KeyboardInterrupt):
        train(home, logger, last=2)
    client = mlflow.MlflowClient(tracking_uri=uri)
    (number,) = (one.experiment_id for one in client.search_experiments() if one.name == "digits")
    (killed,) = client.search_runs([number])
    assert killed.info.status == "KILLED"
    train(home, logger)
    (run,) = client.search_runs([number])
    assert (run.info.status, run.info.run_name) == ("FINISHED", "digits/0003")
    assert run.info.run_id != killed.info.run_id
    assert run.data.params == {"lr": "0.1", "layers": "[8, 4]"}

    def steps(metric: str) -> dict[int, float]:
        return {point.step: point.value for point in client.get_metric_history(run.info.run_id, metric)}

    assert str(steps("a/f1/valid")) == str(dict(enumerate(VALUES)))
    assert steps("picked") == {0: 0.5, 1: 0.5, 2: 0.5, 3: 0.75}
    assert steps("loss_weighted_/train") == {0: 0.0, 1: 0.125, 2: 0.25, 3: 0.375}


@pytest.mark.filterwarnings("ignore")  # of MLflow's own making
def test_a_run_that_mlflow_has_lost_fails_no_trial(tmp_path, monkeypatch):
    """Another server does not have it either; a logger that could not begin has nothing to end."""
    mlflow = pytest.importorskip("mlflow")
    home = tmp_path / "digits" / "trials" / "0003"
    with pytest.raises(KeyboardInterrupt):
        train(home, {"mlflow": {"uri": f"sqlite:///{tmp_path}/m.db"}}, last=2)
    train(home, {"mlflow": {"uri": f"sqlite:///{tmp_path}/other.db"}})

    def fail(*args: object) -> None:
        raise ConnectionError

    monkeypatch.setattr(mlflow.MlflowClient, "get_experiment_by_name", fail)
    logger = MlflowLogger(home, uri=f"sqlite:///{tmp_path}/other.db")
    standing = Standing("a/f1", {}, home, [], [])
    with pytest.raises(ConnectionError):
        logger.begin(standing)
    logger.end(standing)


@pytest.mark.filterwarnings("ignore")  # of MLflow's own making
def test_mlflow_holds_repeats_in_the_experiment_of_their_sweep(tmp_path):
    """Each under the place of its directory."""
    mlflow = pytest.importorskip("mlflow")
    uri = f"sqlite:///{tmp_path}/m.db"

    def train(params: Mapping[str, Any], run: Run) -> None:
        for _ in run.epochs(1):
            run.log(**{"a/f1": 0.5})

    facts: dict[str, Any] = {"repeats": 2, "seed": 0, "loggers": [{"mlflow": {"uri": uri}}]}
    ListObjective(train, [{"x": 1.0}], metric=F1, directory=tmp_path / "digits", **facts).run()
    client = mlflow.MlflowClient(tracking_uri=uri)
    experiments = {one.name: one.experiment_id for one in client.search_experiments()}
    assert experiments.keys() == {"Default", "digits"}
    runs = client.search_runs([experiments["digits"]])
    assert {run.info.run_name for run in runs} == {"digits/0000", "digits/0000/repeats/1"}


@pytest.mark.filterwarnings("ignore")  # of W&B's own making
def test_wandb_holds_every_epoch_offline(tmp_path):
    """The file that `wandb sync` would send: params, a step per epoch, nan left out of its step."""
    pytest.importorskip("wandb")
    home = tmp_path / "digits" / "trials" / "0003"
    with pytest.raises(KeyboardInterrupt):
        train(home, {"wandb": {"mode": "offline"}}, last=2)
    train(home, {"wandb": {"mode": "offline", "project": "vision"}})
    found = {one["exit"]: one for one in ended(home)}
    killed, whole = found[1], found[0]
    assert (len(found), whole["name"]) == (2, "digits/0003")
    assert (killed["project"], whole["project"], whole["group"]) == ("digits", "vision", "digits")
    assert whole["config"] == {"lr": 0.1, "layers": [8, 4]}
    assert whole["steps"][1] == {"train:loss(weighted)": 0.125, "a/f1/picked": 0.5}
    assert [step["a/f1/picked"] for step in whole["steps"].values()] == [0.5, 0.5, 0.5, 0.75]
    assert list(whole["steps"]) == [0, 1, 2, 3]


def ended(home: Path) -> list[dict[str, Any]]:
    """What the files of W&B hold, which another process of its may end a little after its `finish`."""
    for _ in range(600):
        found = [held(file) for file in home.glob("wandb/offline-run-*/*.wandb")]
        if all("exit" in one for one in found):
            return found
        time.sleep(0.1)
    raise AssertionError(f"a run of W&B has not ended: {found}")


def held(file: Path) -> dict[str, Any]:
    """What is in a file of W&B."""
    from wandb.proto.wandb_internal_pb2 import Record

    told: dict[str, Any] = {"steps": {}, "config": {}}
    for data in records(file.read_bytes()):
        record = Record()
        record.ParseFromString(data)
        if record.HasField("run"):
            run = record.run
            told |= {"project": run.project, "name": run.display_name, "group": run.run_group}
            told["config"] |= {item.key: json.loads(item.value_json) for item in run.config.update}
        if record.HasField("history"):
            items = {i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in record.history.item}
            told["steps"][items.pop("_step")] = {k: v for k, v in items.items() if not k.startswith("_")}
        if record.HasField("exit"):
            told["exit"] = record.exit.exit_code
    told["config"].pop("_wandb", None)
    return told


def records(content: bytes) -> Iterator[bytes]:
    """Take a log in LevelDB's form apart: blocks of 32 KiB, whose pieces have checksum, length and kind."""
    at, parts = 7, []  # the head of the file is as long as that of a piece
    while at + 7 <= len(content):
        if 32768 - at % 32768 < 7:
            at += 32768 - at % 32768
        _, length, kind = struct.unpack_from("<IHB", content, at)
        parts.append(content[at + 7 : at + 7 + length])
        at += 7 + length
        if kind in (1, 4):  # whole, or the last of several
            yield b"".join(parts)
            parts = []
