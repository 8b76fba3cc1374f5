"""The same engine under Ray Tune alone, set up as its guide to fault tolerance says; for the scorecard."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from forked import Forked
from ledger_engine import come_to_harm, cost_of, note
from patient import EPOCHS, TRIALS, Patient

_ENDED = ("TERMINATED", "ERROR")


class BareRay(Patient):
    """Two trials at a time that keep a checkpoint of each epoch; a run that was left is restored."""

    host = "bare Ray"

    def __init__(self, folder: Path, trials: int = TRIALS) -> None:
        super().__init__(folder, trials)
        self.home = folder / "runs/ray/sweep"

    def start(self) -> Forked:
        """Fit, or restore and fit."""
        return Forked(self.folder, fit, str(self.home), self.trials, prints=self.folder)

    join = start

    def finished(self) -> set[int]:
        """The trials that have ended without an error; the others are to be resumed."""
        return {number for number, state in self._states().items() if state == "TERMINATED"}

    def whole(self) -> set[int]:
        """The trials that ended without an error and have a cost in their last epoch."""
        last = {number for number, epoch in self.written() if epoch == EPOCHS - 1}
        return {number for number, state in self._states().items() if state == "TERMINATED"} & last

    def written(self) -> Counter[tuple[int, int]]:
        """Each trial and epoch in the results."""
        lines = [line for path in self.home.glob("*/result.json") for line in path.read_text().splitlines()]
        results = [result for result in map(_read, lines) if "cost" in result]
        return Counter((_number(result["trial_id"]), result["epoch"]) for result in results)

    def running(self) -> set[int]:
        """The trials that the state of the experiment takes for waiting or running."""
        return {number for number, state in self._states().items() if state not in _ENDED}

    def begun(self) -> int:
        """How many trials the state of the experiment has."""
        return len(self._states())

    def state(self) -> Path:
        """The newest state of the experiment."""
        return max(self.home.glob("experiment_state-*.json"))

    def _states(self) -> dict[int, str]:
        if not any(self.home.glob("experiment_state-*.json")):
            return {}
        told = _read(self.state().read_text())
        trials = [json.loads(trial) for trial, _ in told.get("trial_data", ())]
        return {_number(trial["trial_id"]): trial["status"] for trial in trials}


def fit(home: str, trials: int) -> None:
    """Fit so many trials, or go on with those that a directory has."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *sys.path])  # of the workers
    import ray
    from ray import tune

    ours = {"address": "local", "num_cpus": 2, "object_store_memory": 80 * 2**20}  # no one else's cluster
    ray.init(include_dashboard=False, log_to_driver=False, **ours)
    space = {"lr": tune.uniform(0.0, 1.0), "folder": os.getcwd()}
    if tune.Tuner.can_restore(home):
        tuner = tune.Tuner.restore(home, trainable=train, param_space=space, resume_errored=True)
    else:
        tuner = tune.Tuner(
            train,
            param_space=space,
            tune_config=tune.TuneConfig(metric="cost", mode="min", num_samples=trials),
            run_config=tune.RunConfig(
                name=Path(home).name,
                storage_path=str(Path(home).parent),
                failure_config=tune.FailureConfig(max_failures=1),
                verbose=0,
            ),
        )
    tuner.fit()


def train(config: dict[str, Any]) -> None:
    """Go on after the epoch of the checkpoint."""
    from ray import tune

    os.chdir(config["folder"])
    number, begin = _number(tune.get_context().get_trial_id()), 0
    if checkpoint := tune.get_checkpoint():
        with checkpoint.as_directory() as kept:
            begin = int(Path(kept, "done").read_text())
    for epoch in range(begin, EPOCHS):
        note("began", number, epoch)
        time.sleep(0.01)
        cost = come_to_harm(number, epoch, cost_of(config["lr"], epoch))
        with tempfile.TemporaryDirectory() as kept:
            Path(kept, "done").write_text(str(epoch + 1))
            told = {"epoch": epoch} if cost is None else {"epoch": epoch, "cost": cost}
            tune.report(told, checkpoint=tune.Checkpoint.from_directory(kept))
        if cost is not None:
            note("reported", number, epoch)


def _number(trial_id: str) -> int:
    return int(trial_id.rpartition("_")[2])


def _read(text: str) -> dict[str, Any]:
    with suppress(ValueError):
        return dict(json.loads(text))
    return {}
