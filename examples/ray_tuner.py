"""The same training code on Ray Tune, stopped by ASHA: python examples/ray_tuner.py."""

from __future__ import annotations

from digits import train
from optuna_study import space

from hpometrics import RayObjective


def main(trials: int = 6, epochs: int = 6) -> None:
    """Optimize the macro F1 of the digits network with two workers."""
    objective = RayObjective(train, space, metric="f1(average=macro)", epochs=epochs, seed=7)
    results = objective.tuner(num_samples=trials, scheduler="asha").fit()
    best = objective.best(results)
    print(f"{best.direction} {best.metric}: {best.value:.4f} at epoch {best.epoch} of trial {best.trial}")
    print(f"optimal params: {best.params}")


if __name__ == "__main__":
    main()
