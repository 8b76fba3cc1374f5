"""An Optuna objective of your own with a Run inside it: python examples/define_by_run.py."""

from __future__ import annotations

import optuna
import torch
from breast_cancer import tumours
from torch import nn

from hpometrics import Binary, Run


def objective(trial: optuna.Trial) -> float:
    """Train a network of as many layers as the trial says."""
    layers: list[nn.Module] = []
    size = 30
    for depth in range(trial.suggest_int("layers", 0, 2)):
        width = trial.suggest_int(f"width_{depth}", 4, 32)
        layers += [nn.Linear(size, width), nn.ReLU()]
        size = width
    torch.manual_seed(trial.number)
    model = nn.Sequential(*layers, nn.Linear(size, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=trial.suggest_float("lr", 1e-4, 1e-1, log=True))
    x, y, x_valid, y_valid = tumours()
    run = Run(trial, metric="roc_auc", output=Binary())
    for _ in run.epochs(8):
        loss = nn.functional.binary_cross_entropy_with_logits(model(x).squeeze(1), y.float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            run.update(logits=model(x_valid).squeeze(1), target=y_valid)
    return run.value


def main(trials: int = 10) -> None:
    """Optimize it."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler, pruner = optuna.samplers.TPESampler(seed=7), optuna.pruners.MedianPruner(n_startup_trials=3)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    study.optimize(objective, n_trials=trials)
    print(f"roc_auc {study.best_value:.4f} with {study.best_params}")


if __name__ == "__main__":
    main()
