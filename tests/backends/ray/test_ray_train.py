"""A Run in the workers of Ray Train V2, whose trainer a trainable of Tune fits, as Ray documents it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import ray.train
from matrix import EXHAUSTIVE
from ray import tune
from ray.train.v2._internal.constants import is_v2_enabled

from hpometrics.backends.ray._internals import in_train_worker
from hpometrics.backends.ray.own_tuner import best_result, tune_config
from hpometrics.backends.ray.reporter import TuneReporter
from hpometrics.direction import MINIMIZE
from hpometrics.run import Reported, Run
from hpometrics.run.checkpoint import load_checkpoint

LOSS = Reported("loss", MINIMIZE)
EPOCHS = 4

pytestmark = pytest.mark.skipif(
    not is_v2_enabled(), reason="this Ray has Train V1 unless it is told otherwise"
)


def make_loop() -> Callable[[dict[str, Any]], None]:
    """The function of a worker, which travels by value, as that of a user's script does."""

    class Steps:
        """What the loop has learned: how many epochs it has trained."""

        def __init__(self) -> None:
            self.done = 0

        def state_dict(self):
            return {"done": self.done}

        def load_state_dict(self, state):
            self.done = state["done"]

    def loop(config: dict[str, Any]) -> None:
        """Train; without a checkpoint to go on from, all ranks fail in the third epoch."""
        rank, steps = ray.train.get_context().get_world_rank(), Steps()
        host = TuneReporter() if rank == 0 or config["everywhere"] else None
        run = Run(host, metric=Reported("loss", "minimize"), epochs=4)
        restored = run.restore(steps=steps)
        for epoch in run.epochs():
            with (Path(config["folder"]) / f"rank{rank}").open("a") as ledger:
                ledger.write(f"{epoch} ")
            if epoch == 2 and not restored:
                raise RuntimeError("out of luck")
            run.log(loss=config["level"] + abs(2 - steps.done) / 10)
            steps.done += 1
            if epoch == 1:
                run.checkpoint(steps=steps)

    return loop


def make_trainable(workers: int) -> Callable[[dict[str, Any]], None]:
    """The trainable of Tune, which fits a trainer."""
    loop = make_loop()

    def trainable(config: dict[str, Any]) -> None:
        from ray.train.torch import TorchTrainer
        from ray.tune.integration.ray_train import TuneReportCallback

        TorchTrainer(
            loop,
            train_loop_config=config,
            scaling_config=ray.train.ScalingConfig(num_workers=workers, resources_per_worker={"CPU": 0.5}),
            run_config=ray.train.RunConfig(
                name=tune.get_context().get_trial_id(),
                storage_path=config["folder"],
                callbacks=[TuneReportCallback()],
                failure_config=ray.train.FailureConfig(max_failures=1),
            ),
        ).fit()

    return trainable


@pytest.mark.ray
@pytest.mark.parametrize(
    ("workers", "everywhere"), [(2, True), pytest.param(2, False, marks=EXHAUSTIVE), (1, True)]
)
def test_the_ranks_of_a_trainer_report_to_tune(ray_cluster, tmp_path, workers, everywhere):
    """Each epoch once, with the value of the first rank; a group that fails goes on after its checkpoint."""
    results = tune.Tuner(
        tune.with_resources(make_trainable(workers), {"CPU": 0.5}),
        param_space={"level": 0.5, "folder": str(tmp_path), "everywhere": everywhere},
        tune_config=tune_config(LOSS, epochs=EPOCHS, num_samples=1),
        run_config=tune.RunConfig(name="own", storage_path=str(tmp_path / "tune"), verbose=0),
    ).fit()
    (result,) = results
    assert result.error is None
    history = result.metrics_dataframe
    assert list(history["epoch"]) == [0, 1, 2, 3]
    assert list(history["loss"]) == list(history["value"]) == [0.7, 0.6, 0.5, 0.6]
    best = best_result(results, LOSS)
    assert (best.value, best.epoch) == (0.5, 2)
    for rank in range(workers):
        assert (tmp_path / f"rank{rank}").read_text().split() == ["0", "1", "2", "2", "3"]
    (folder,) = history["checkpoint_path"].dropna()
    assert load_checkpoint(Path(folder) / "epoch-0001.pt")["states"]["steps"] == {"done": 2}


def test_elsewhere_reports_go_to_tune():
    """In the process of a user, and in a trainable of Tune."""
    assert not in_train_worker()
    assert TuneReporter().joint is None
