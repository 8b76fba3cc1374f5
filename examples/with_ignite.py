"""Two engines of Ignite, searched by Optuna: python examples/with_ignite.py."""

from __future__ import annotations

import logging

import optuna
import torch
from digits import digits
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from hpometrics import Category, Run
from hpometrics.integrations.ignite import RunHandler


def objective(trial: optuna.Trial) -> float:
    """Train with the params of a trial."""
    torch.manual_seed(trial.number)
    width = trial.suggest_int("width", 8, 64, log=True)
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=trial.suggest_float("lr", 1e-4, 0.1, log=True))
    x, y, x_valid, y_valid = digits()
    training = DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True)
    validation = DataLoader(TensorDataset(x_valid, y_valid), batch_size=180)

    trainer = create_supervised_trainer(model, optimizer, nn.functional.cross_entropy)
    evaluator = create_supervised_evaluator(model)
    trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run(validation))
    run = Run(trial, metric="f1(average=macro)", output=Category(10))
    handler = RunHandler(run, lambda output: {"logits": output[0], "target": output[1]})
    handler.attach(trainer, evaluator)
    trainer.run(training, max_epochs=5)
    return run.value


def main(trials: int = 5) -> None:
    """Optimize it."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("ignite").setLevel(logging.CRITICAL)  # it calls a pruned trial an error
    sampler, pruner = optuna.samplers.TPESampler(seed=7), optuna.pruners.MedianPruner(n_startup_trials=2)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    study.optimize(objective, n_trials=trials)
    print(f"f1(average=macro) {study.best_value:.4f} with {study.best_params}")


if __name__ == "__main__":
    main()
