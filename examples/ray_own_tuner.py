"""A Run inside a trainable of your own, for a Ray Tuner of your own: python examples/ray_own_tuner.py."""

from __future__ import annotations

import tempfile
from typing import Any

import ray
from digits import train
from ray import tune
from ray.tune.search.basic_variant import BasicVariantGenerator

from hpometrics import Category, Run, TuneReporter, best_result, tune_config

METRIC = "f1(average=macro)"
EPOCHS = 4


def trainable(config: dict[str, Any]) -> None:
    """Train; every epoch reports the metric under its own name."""
    run = Run(TuneReporter(), metric=METRIC, output=Category(10), epochs=EPOCHS)
    train(config, run)


def main(trials: int = 4) -> None:
    """Fit a Tuner, whose trials Tune draws and stops, and print the best."""
    ray.init("local", include_dashboard=False, log_to_driver=False)  # one of its own, whatever runs here
    space = {
        "lr": tune.loguniform(1e-3, 1e-1),
        "width": tune.choice([16, 32, 64]),
        "dropout": 0.1,
        "optimizer": "adam",
    }
    search = tune_config(
        METRIC,
        output=Category(10),
        scheduler="asha",
        epochs=EPOCHS,
        search_alg=BasicVariantGenerator(random_state=7),
        num_samples=trials,
    )
    with tempfile.TemporaryDirectory() as directory:
        results = tune.Tuner(
            trainable,
            param_space=space,
            tune_config=search,
            run_config=tune.RunConfig(storage_path=directory, verbose=0),
        ).fit()
        best = best_result(results, METRIC, output=Category(10))
    print(f"{METRIC} {best.value:.4f} at epoch {best.epoch} with {dict(best.params)}")


if __name__ == "__main__":
    main()
