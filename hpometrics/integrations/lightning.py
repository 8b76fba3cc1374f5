"""Lightning callback that reports each validation of `fit` to a run, as a loop over its epochs does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

from ..exceptions import RunError, missing_extra
from ..records.trial_record import EpochRecord
from ..run.checkpoint import Stateful
from ..run.run import Run
from .directions import check_watcher, monitor_and_mode
from .trainer_loop import TrainerLoop

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
except ImportError as err:
    raise missing_extra("hpometrics.integrations.lightning", "lightning", "lightning") from err

__all__ = ["RunCallback"]


class RunCallback(Callback):
    """Measures each validation: `Trainer(callbacks=[RunCallback(run)], ...)`.

    `validation_step` must return the keywords of `run.update`, as in `{"logits": logits, "target": y}`. The
    values are in `trainer.callback_metrics` under the names of the record, where other callbacks find them:
    `EarlyStopping(**callback.monitor())`, `ModelCheckpoint(**callback.monitor("ece"))`. Values that
    `validation_step` or `training_step` log by `self.log` are recorded with the epoch and can be optimized:
    `Run(trial, metric=library_metric("val_loss"))`. An epoch closes at its end, after its validation
    and before the module's own `on_train_epoch_end`. The backend's stop leaves `fit` as an exception;
    patience, the target and the spec's `epochs` end it.

    With a `val_check_interval` or `check_val_every_n_epoch` other than one epoch, the run counts steps, as
    with `Run.steps`. A step is a training batch. Each validation is a report.

    If the run has a directory, every epoch writes a checkpoint of the module, the optimizers and the
    schedulers. A killed run continues after its latest one: `fit` starts with the next epoch. Other state of
    Lightning is not restored: `global_step`, the state of other callbacks and of a gradient scaler.

    Args:
        run: the run to update.
        read: converts the return value of `validation_step` to the keywords of `run.update`; by default it is
            the mapping itself. It may return None in a module that updates the run on its own; if nothing
            updates the run, the first validation raises an error.
    """

    def __init__(self, run: Run, read: Callable[[Any], Any] | None = None) -> None:
        self.run, self._read = run, read
        self._loop = TrainerLoop(run, f"{'validation_step' if read is None else 'read'} returned None")
        self._known: dict[str, Any] = {}  # values that `_close` must not log: earlier or measured ones

    def monitor(self, name: str | None = None) -> dict[str, str]:
        """Return `monitor` and `mode` of Lightning's callbacks for a value, by default the optimized one."""
        return monitor_and_mode(self.run.spec, name)

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the run, after the latest checkpoint if there is one.

        Raises:
            RunError: the fit has no validation.
            DirectionError: another callback or a scheduler watches a value in the wrong direction.
        """
        if not trainer.enable_validation:
            raise RunError("this fit has no validation to measure; set validation_step and val_dataloaders")
        for callback in trainer.callbacks:  # type: ignore[attr-defined]
            check_watcher(self.run.spec, callback)
        for config in trainer.lr_scheduler_configs:
            check_watcher(self.run.spec, config.scheduler, config.monitor)
        interval = trainer.val_check_interval
        by_epoch = trainer.check_val_every_n_epoch == 1 and interval == 1.0 and isinstance(interval, float)
        self._loop.begin(_most(trainer, by_epoch), _objects(trainer, pl_module), not by_epoch)
        if by_epoch and (epoch := self._loop.first):
            _step_on_plateau(trainer, pl_module, self.run.history[-1])
            counts = dict.fromkeys(("ready", "started", "processed", "completed"), epoch)
            trainer.fit_loop.epoch_progress.current.load_state_dict(counts)
        trainer.should_stop |= self._loop.over

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule, *_: Any, **__: Any) -> None:
        """Start an epoch, or what a report at a step covers; the sanity check before it does not count."""
        if self._loop.start_unless_open():
            self._known = dict(trainer.callback_metrics)

    on_train_batch_start = on_train_epoch_start

    def on_validation_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, *_: Any, **__: Any) -> None:
        """Update the run with the outputs of a batch."""
        self._loop.update(outputs if self._read is None else self._read(outputs))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Publish the values of the pass to the other callbacks."""
        values = {name: torch.tensor(one, dtype=torch.float64) for name, one in self._loop.measure().items()}
        self._known |= values
        trainer.callback_metrics.update(values)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Close what a report at a step covers."""
        if self._loop.counts_steps and not trainer.sanity_checking:
            self._close(trainer, pl_module, self._loop.first + trainer.fit_loop.total_batch_idx + 1)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Close the epoch."""
        if not self._loop.counts_steps:
            self._close(trainer, pl_module, trainer.current_epoch + 1)

    def _close(self, trainer: Trainer, pl_module: LightningModule, count: int) -> None:
        metrics = trainer.callback_metrics  # of all epochs
        self._loop.log({name: one for name, one in metrics.items() if one is not self._known.get(name)})
        self._loop.end_epoch(count, _objects(trainer, pl_module))
        trainer.should_stop |= self._loop.over

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """End the loop, for whatever reason the fit ended."""
        self._loop.leave()


def _most(trainer: Trainer, by_epoch: bool) -> float:
    """Return the most epochs, or batches, that a fit trains on; infinity if it has no end."""
    epochs, steps = (math.inf if n in (None, -1) else n for n in (trainer.max_epochs, trainer.max_steps))
    batches = min(epochs * trainer.num_training_batches, steps * trainer.accumulate_grad_batches)
    return epochs if by_epoch else batches


def _objects(trainer: Trainer, pl_module: LightningModule) -> dict[str, Stateful]:
    """Return the contents of a checkpoint; several optimizers are numbered."""
    schedulers: list[Any] = [config.scheduler for config in trainer.lr_scheduler_configs]
    objects: dict[str, Stateful] = {"model": pl_module}
    for name, things in (("optimizer", trainer.optimizers), ("scheduler", schedulers)):
        objects |= {name if len(things) == 1 else f"{name}_{i}": one for i, one in enumerate(things)}
    return objects


def _step_on_plateau(trainer: Trainer, pl_module: LightningModule, record: EpochRecord) -> None:
    """Step the schedulers that Lightning steps after the hook in which states were copied."""
    if not pl_module.automatic_optimization:
        return
    for config in trainer.lr_scheduler_configs:
        is_due = (record.epoch + 1) % config.frequency == 0
        if is_due and config.reduce_on_plateau and config.interval == "epoch":
            monitor = str(config.monitor)
            if monitor not in record.values:
                raise RunError(
                    f"a scheduler monitors {monitor!r}, which is missing from the record of epoch "
                    f"{record.epoch}, so it cannot continue; log it in validation_step"
                )
            pl_module.lr_scheduler_step(config.scheduler, record.values[monitor])
