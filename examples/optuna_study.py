"""A study that takes direction, values and pruning from the metric: python examples/optuna_study.py."""

from __future__ import annotations

import optuna
from digits import train

from hpometrics import Choice, Float, Int, OptunaObjective

space = {
    "lr": Float(1e-4, 1e-1, log=True),
    "width": Int(16, 128, step=16),
    "dropout": Float(0.0, 0.5),
    "optimizer": Choice(["sgd", "adam"]),
}


def main(trials: int = 8, epochs: int = 5) -> None:
    """Optimize the macro F1 of the digits network."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    objective = OptunaObjective(
        train, space, metric="f1(average=macro)", epochs=epochs, checkpoints="none", seed=7
    )
    study = objective.create_study(pruner=optuna.pruners.MedianPruner(n_startup_trials=3))
    study.optimize(objective, n_trials=trials)
    best = objective.best(study)
    print(f"{best.direction} {best.metric}: {best.value:.4f} at epoch {best.epoch} of trial {best.trial}")
    print(f"optimal params: {best.params}")


if __name__ == "__main__":
    main()
