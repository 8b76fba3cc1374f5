"""One small network, trained by a plain loop and by each trainer that there is a callback for."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import torch
from ignite.engine import Engine, Events, create_supervised_evaluator, create_supervised_trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from hpometrics.integrations.ignite import RunHandler
from hpometrics.integrations.lightning import RunCallback as LightningCallback
from hpometrics.integrations.transformers import RunCallback as TransformersCallback
from hpometrics.run import Run
from hpometrics.run.reporter import ListReporter

os.environ["HF_HUB_OFFLINE"] = "1"

import lightning.pytorch as pl
import transformers

BATCH, LR = 16, 0.5
LOSS = nn.functional.cross_entropy


def rows(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Rows of three classes that overlap."""
    x = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    return x, (x[:, 0] > 0).long() + (x[:, 1] + 0.5 * x[:, 2] > 0).long()


TRAIN, VALID = rows(60, 0), rows(41, 1)
"""Neither is a whole number of batches."""


def network() -> nn.Sequential:
    """The same weights each time."""
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))


def loader(data: tuple[Tensor, Tensor]) -> DataLoader[Any]:
    """The rows in their order."""
    return DataLoader(TensorDataset(*data), batch_size=BATCH)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    """Its momentum is a state of its own."""
    return torch.optim.SGD(model.parameters(), lr=LR, momentum=0.9)


def plain(run: Run, epochs: int) -> nn.Module:
    """The loop of the README."""
    model = network()
    optimizer = optimizer_of(model)
    run.restore(model=model, optimizer=optimizer)
    for _ in run.epochs(epochs):
        for x, y in loader(TRAIN):
            optimizer.zero_grad()
            LOSS(model(x), y).backward()
            optimizer.step()
        with torch.no_grad():
            for x, y in loader(VALID):
                run.update(logits=model(x), target=y)
        if run.keeps_checkpoints:
            run.checkpoint(model=model, optimizer=optimizer)
    return model


def plain_steps(run: Run, epochs: int, every: int) -> nn.Module:
    """The same by steps, with a report after so many batches."""
    model = network()
    optimizer = optimizer_of(model)
    run.restore(model=model, optimizer=optimizer)
    batches = list(loader(TRAIN))
    for step in run.steps(epochs * len(batches), every=every):
        x, y = batches[step % len(batches)]
        optimizer.zero_grad()
        LOSS(model(x), y).backward()
        optimizer.step()
        if run.due:
            with torch.no_grad():
                for x, y in loader(VALID):
                    run.update(logits=model(x), target=y)
    return model


class Module(pl.LightningModule):
    """The network as Lightning wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def training_step(self, batch: Any, index: int) -> Tensor:
        x, y = batch
        loss = LOSS(self.network(x), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, index: int) -> Any:
        x, y = batch
        logits = self.network(x)
        self.log("val_loss", LOSS(logits, y))
        return {"logits": logits, "target": y}

    def configure_optimizers(self) -> Any:
        return optimizer_of(self)

    def train_dataloader(self) -> DataLoader[Any]:
        return loader(TRAIN)

    def val_dataloader(self) -> DataLoader[Any]:
        return loader(VALID)


QUIET: dict[str, Any] = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


def lightning(run: Run, epochs: int, **settings: Any) -> nn.Module:
    """By a Lightning trainer, its sanity check and a validation after it included."""
    module = settings.pop("module", Module)()
    callbacks = [*settings.pop("callbacks", ()), LightningCallback(run)]
    trainer = pl.Trainer(callbacks=callbacks, max_epochs=epochs, **{**QUIET, **settings})
    trainer.fit(module)
    trainer.validate(module, verbose=False)
    return module.network


class Labeled(nn.Module):
    """The network as Transformers wants it."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.network(x)
        return {"loss": LOSS(logits, labels), "logits": logits}


def table(data: tuple[Tensor, Tensor]) -> list[dict[str, Tensor]]:
    """The rows as Transformers wants them."""
    return [{"x": x, "labels": y} for x, y in zip(*data, strict=True)]


def hf_trainer(
    callback: TransformersCallback, epochs: int, directory: Any, model: nn.Module | None, **settings: Any
) -> transformers.Trainer:
    """A trainer of Transformers that evaluates before the first epoch too, if `settings` do not say other."""
    made: Any = (None, None)  # by the trainer
    if model is not None:
        optimizer = optimizer_of(model)
        made = (optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0))
    evaluated = settings.pop("eval_dataset", table(VALID))
    callbacks = [*settings.pop("callbacks", ()), callback]
    compute = settings.pop("compute_metrics", callback.compute_metrics)
    model_init = settings.pop("model_init", None)
    arguments: dict[str, Any] = {
        "num_train_epochs": epochs,
        "per_device_train_batch_size": BATCH,
        "per_device_eval_batch_size": BATCH,
        "train_sampling_strategy": "sequential",
        "eval_strategy": "epoch",
        "eval_on_start": True,
        "max_grad_norm": 0.0,
        "use_cpu": True,
        "logging_strategy": "epoch",
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    trainer = transformers.Trainer(
        model,
        transformers.TrainingArguments(directory, **{**arguments, **settings}),
        train_dataset=table(TRAIN),
        eval_dataset=evaluated,
        compute_metrics=compute,
        model_init=model_init,
        callbacks=callbacks,
        optimizers=made,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def hugging_face(run: Run, epochs: int, directory: Any, **settings: Any) -> nn.Module:
    """By a trainer of Transformers, an evaluation before and after included."""
    model = Labeled()
    trainer = hf_trainer(TransformersCallback(run), epochs, directory, model, **settings)
    trainer.train()
    trainer.evaluate()
    return model.network


def engines(model: nn.Module, optimizer: torch.optim.Optimizer) -> tuple[Engine, Engine]:
    """A trainer of Ignite and its evaluator."""
    return create_supervised_trainer(model, optimizer, LOSS), create_supervised_evaluator(model)


def ignite(
    run: Run, epochs: int, passes: int = 1, read: Callable[[Any], Any] | None = None, callbacks: Any = ()
) -> nn.Module:
    """By two engines of Ignite, an evaluation before and after included; callbacks are given both engines."""
    model = network()
    optimizer = optimizer_of(model)
    trainer, evaluator = engines(model, optimizer)

    @trainer.on(Events.EPOCH_COMPLETED)
    def validate() -> None:
        for _ in range(passes):
            evaluator.run(loader(VALID))

    for callback in callbacks:
        callback(trainer, evaluator)
    handler = RunHandler(
        run,
        read or (lambda output: {"logits": output[0], "target": output[1]}),
        to_save={"model": model, "optimizer": optimizer},
    )
    handler.attach(trainer, evaluator)
    evaluator.run(loader(VALID))
    trainer.add_event_handler(Events.STARTED, lambda: evaluator.run(loader(VALID)))
    trainer.run(loader(TRAIN), max_epochs=epochs)
    evaluator.run(loader(VALID))
    return model


Fit = Callable[..., nn.Module]


class Killed(ListReporter):
    """A host whose process ends after the second report."""

    def report(self, epoch: int, *told: Any) -> None:
        super().report(epoch, *told)
        if epoch == 1:
            raise KeyError("killed")
