"""A tiny model of Transformers, searched by Optuna: python examples/with_transformers.py."""

from __future__ import annotations

import tempfile
from typing import Any

import optuna
import transformers
from digits import digits
from torch import Tensor

from hpometrics import Category, Run
from hpometrics.integrations.transformers import RunCallback


def table(x: Tensor, y: Tensor) -> list[dict[str, Tensor]]:
    """Images of 8 x 8 pixels as the trainer wants them."""
    rows = zip(x.view(-1, 1, 8, 8), y, strict=True)
    return [{"pixel_values": image, "labels": label} for image, label in rows]


def objective(trial: optuna.Trial) -> float:
    """Train a model of random weights with the params of a trial; nothing is downloaded."""
    transformers.set_seed(trial.number)
    width = trial.suggest_int("width", 32, 64, step=16)
    sizes: dict[str, Any] = {"hidden_size": width, "intermediate_size": 2 * width, "num_hidden_layers": 1}
    images: dict[str, Any] = {"image_size": 8, "patch_size": 4, "num_channels": 1, "num_labels": 10}
    config = transformers.ViTConfig(**sizes, **images, num_attention_heads=2)
    x, y, x_valid, y_valid = digits()
    callback = RunCallback(Run(trial, metric="f1(average=macro)", output=Category(10)))
    with tempfile.TemporaryDirectory() as directory:
        arguments = transformers.TrainingArguments(
            directory,
            num_train_epochs=5,
            learning_rate=trial.suggest_float("lr", 3e-4, 3e-3, log=True),
            per_device_train_batch_size=32,
            per_device_eval_batch_size=180,
            eval_strategy="epoch",
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=True,
        )
        trainer = transformers.Trainer(
            transformers.ViTForImageClassification(config),
            arguments,
            train_dataset=table(x, y),
            eval_dataset=table(x_valid, y_valid),
            compute_metrics=callback.compute_metrics,
            callbacks=[callback],
        )
        trainer.remove_callback(transformers.PrinterCallback)
        trainer.train()
    return callback.run.value


def main(trials: int = 3) -> None:
    """Optimize it."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler, pruner = optuna.samplers.TPESampler(seed=7), optuna.pruners.MedianPruner(n_startup_trials=2)
    study = optuna.create_study(direction="maximize", sampler=sampler, pruner=pruner)
    study.optimize(objective, n_trials=trials)
    print(f"f1(average=macro) {study.best_value:.4f} with {study.best_params}")


if __name__ == "__main__":
    main()
