"""A Run inside a trainable of your own, for a Ray Tuner of your own: python examples/ray_own_tuner.py."""

from __future__ import annotations

import tempfile
from typing import Any

import ray
from digits import train
from ray import tune
from ray.tune.schedulers import AsyncHyperBandScheduler

from hpometrics import Category, Run, TuneReporter


def trainable(config: dict[str, Any]) -> None:
    """Train; every epoch reports the metric under its own name."""
    run = Run(TuneReporter(), metric="f1(average=macro)", output=Category(10), epochs=4)
    train(config, run)


def main(trials: int = 3) -> None:
    """Let Tune draw, stop and choose."""
    ray.init("local", include_dashboard=False, log_to_driver=False)  # one of its own, whatever runs here
    space = {
        "lr": tune.loguniform(1e-3, 1e-1),
        "width": tune.choice([16, 32, 64]),
        "dropout": 0.1,
        "optimizer": "adam",
    }
    search = tune.TuneConfig(
        metric="f1(average=macro)",
        mode="max",
        num_samples=trials,
        scheduler=AsyncHyperBandScheduler(time_attr="epoch", max_t=4),
    )
    with tempfile.TemporaryDirectory() as directory:
        results = tune.Tuner(
            trainable,
            param_space=space,
            tune_config=search,
            run_config=tune.RunConfig(storage_path=directory, verbose=0),
        ).fit()
        best = results.get_best_result()
    print(f"f1(average=macro) {best.metrics['picked']:.4f} with {best.config}")


if __name__ == "__main__":
    main()
