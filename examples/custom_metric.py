"""A metric of your own, from its definition to an objective: python examples/custom_metric.py.

Token accuracy averaged over sequences, as a class with one method; registering it makes it a name like
any other.
"""

from __future__ import annotations

import optuna
import torch
from torch import Tensor

from hpometrics import (
    MAXIMIZE,
    PREDICTIONS,
    SEQUENCE,
    TEXT,
    Float,
    MeanMetric,
    MetricCollection,
    OptunaObjective,
    Run,
    Sequence,
    register_metric,
)


@register_metric("padded_token_accuracy", [SEQUENCE, TEXT])
class PaddedTokenAccuracy(MeanMetric):
    """Share of tokens predicted right, padding included: each sequence counts the same."""

    direction = MAXIMIZE
    inputs = PREDICTIONS

    def get_current_value(self, preds: Tensor, target: Tensor) -> Tensor:
        """Return one value per sequence; the metric is their mean over the epoch."""
        return (preds == target).double().mean(dim=1)


def train(params: dict[str, float], run: Run) -> None:
    """Stand in for a model: the further `bias` is from 0.3, the more tokens it gets wrong."""
    generator = torch.Generator().manual_seed(0)
    target = torch.randint(50, (64, 12), generator=generator)
    for epoch in run.epochs(3):
        wrong = torch.rand(target.shape, generator=generator) < abs(params["bias"] - 0.3) + 0.1 / (epoch + 1)
        run.update(predictions=torch.where(wrong, (target + 1) % 50, target), target=target)


def main(trials: int = 20) -> None:
    """Measure it in a collection, then optimize it."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    panel = MetricCollection(["padded_token_accuracy", "token_accuracy"], output=Sequence())
    panel.update(predictions=torch.tensor([[1, 2, 3]]), target=torch.tensor([[1, 2, -100]]))
    print({name: round(value.item(), 4) for name, value in panel.compute().items()})
    objective = OptunaObjective(
        train, {"bias": Float(0.0, 1.0)}, metric="padded_token_accuracy", output=Sequence(), seed=7
    )
    study = objective.create_study()
    study.optimize(objective, n_trials=trials)
    best = objective.best(study)
    print(f"{best.direction} {best.metric}: {best.value:.4f} with {best.params}")


if __name__ == "__main__":
    main()
