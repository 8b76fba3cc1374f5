"""A Lightning module, searched by Optuna: python examples/with_lightning.py."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import lightning.pytorch as pl
import optuna
import torch
from digits import digits
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from hpometrics import Category, Run
from hpometrics.integrations.lightning import RunCallback


class Digits(pl.LightningModule):
    """A network of one hidden layer, with a rate that falls from epoch to epoch."""

    def __init__(self, width: int, lr: float) -> None:
        super().__init__()
        self.lr = lr
        self.network = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))

    def training_step(self, batch: Any, index: int) -> Tensor:
        """Learn from a batch."""
        x, y = batch
        loss = nn.functional.cross_entropy(self.network(x), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True)  # recorded beside what is measured
        return loss

    def validation_step(self, batch: Any, index: int) -> dict[str, Tensor]:
        """Return the logits and the targets of a batch."""
        x, y = batch
        return {"logits": self.network(x), "target": y}  # the keywords of run.update

    def configure_optimizers(self) -> Any:
        """Adam, a little slower with each epoch."""
        optimizer = torch.optim.Adam(self.parameters(), lr=self.lr)
        return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]


def objective(trial: optuna.Trial) -> float:
    """Fit the module with the params of a trial."""
    pl.seed_everything(trial.number, verbose=False)
    module = Digits(
        trial.suggest_int("width", 8, 64, log=True), trial.suggest_float("lr", 1e-4, 0.1, log=True)
    )
    x, y, x_valid, y_valid = digits()
    run = Run(trial, metric="f1(average=macro)", output=Category(10))
    trainer = pl.Trainer(
        max_epochs=5, callbacks=[RunCallback(run)], accelerator="cpu", logger=False,
        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
    )  # fmt: skip
    trainer.fit(
        module,
        DataLoader(TensorDataset(x, y), batch_size=64, shuffle=True),
        DataLoader(TensorDataset(x_valid, y_valid), batch_size=180),
    )
    return run.value


def main(trials: int = 5) -> None:
    """Optimize it."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    warnings.filterwarnings("ignore", ".*does not have many workers")
    sampler, pruner = optuna.samplers.TPESampler(seed=7), optuna.pruners.MedianPruner(n_startup_trials=2)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    study.optimize(objective, n_trials=trials)
    print(f"f1(average=macro) {study.best_value:.4f} with {study.best_params}")


if __name__ == "__main__":
    main()
