"""Lightning callback that reports each validation of `fit` to a run, as a loop over its epochs does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..direction import Direction
from ..exceptions import RunError, missing_extra
from ..run.checkpoint import Stateful
from ..run.run import Run
from .directions import check_monitor, monitor_of
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
        self.run = run
        self._read = read
        self._loop = TrainerLoop(run, f"{'validation_step' if read is None else 'read'} returned None")
        self._counts_steps = False
        self._done = 0  # epochs or steps before this fit
        self._earlier_metrics: dict[str, Any] = {}
        self._values: dict[str, torch.Tensor] = {}

    def monitor(self, name: str | None = None) -> dict[str, str]:
        """Return `monitor` and `mode` of Lightning's callbacks for a value, by default the optimized one."""
        name, direction = monitor_of(self.run.spec, name)
        return {"monitor": name, "mode": direction.mode}

    def on_fit_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Check that the fit validates, and count steps unless it does so once per epoch.

        Raises:
            RunError: it does not.
        """
        if not trainer.enable_validation:
            raise RunError(
                "a run measures the validation of each epoch, but this fit has no validation; set "
                "validation_step and val_dataloaders"
            )
        epochs, interval = trainer.check_val_every_n_epoch, trainer.val_check_interval
        is_by_epoch = epochs == 1 and interval == 1.0 and isinstance(interval, float)  # 1 is one batch
        self._counts_steps = not is_by_epoch

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start the run, after the latest checkpoint if there is one.

        Raises:
            DirectionError: another callback or a scheduler watches a value in the wrong direction.
        """
        schedulers = [(config.monitor, config.scheduler) for config in trainer.lr_scheduler_configs]
        callbacks = [(getattr(one, "monitor", None), one) for one in trainer.callbacks]  # type: ignore[attr-defined]
        for name, one in (*callbacks, *schedulers):
            if isinstance(name, str) and getattr(one, "mode", None) in ("min", "max"):
                where = f"{type(one).__name__}(mode={one.mode!r})"
                check_monitor(self.run.spec, name, Direction.parse(one.mode), where)
        objects = _objects(trainer, pl_module)
        if self._counts_steps:
            self._done = self._loop.begin(_most_batches(trainer), objects, counts_steps=True)
            self._stop_after_the_last(trainer)
            return
        limit = trainer.max_epochs
        epoch = self._loop.begin(None if limit in (None, -1) else limit, objects)
        if epoch:
            _step_on_plateau(trainer, pl_module, epoch, self.run.history[-1].values)
            counts = dict.fromkeys(("ready", "started", "processed", "completed"), epoch)
            trainer.fit_loop.epoch_progress.current.load_state_dict(counts)
        self._stop_after_the_last(trainer)

    def on_train_epoch_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Start an epoch; the sanity check before it does not count."""
        if not self._counts_steps:
            self._start_report(trainer)

    def on_train_batch_start(
        self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int
    ) -> None:
        """Start what a report at a step covers, unless it has begun."""
        if self._counts_steps and not self._loop.open:
            self._start_report(trainer)

    def _start_report(self, trainer: Trainer) -> None:
        self._loop.start_epoch()
        self._earlier_metrics = dict(trainer.callback_metrics)

    def on_validation_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Update the run with the outputs of a batch."""
        self._loop.update(outputs if self._read is None else self._read(outputs))

    def on_validation_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Publish the values of the pass to the other callbacks."""
        values = self._loop.measure()
        self._values = {name: torch.tensor(value, dtype=torch.float64) for name, value in values.items()}
        trainer.callback_metrics.update(self._values)

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Close what a report at a step covers.

        Raises:
            BaseException: the backend's stop.
        """
        if self._counts_steps and not trainer.sanity_checking:
            self._close_report(trainer, pl_module, self._done + trainer.fit_loop.total_batch_idx + 1)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Close the epoch.

        Raises:
            BaseException: the backend's stop.
        """
        if not self._counts_steps:
            self._close_report(trainer, pl_module, trainer.current_epoch + 1)

    def _close_report(self, trainer: Trainer, pl_module: LightningModule, count: int) -> None:
        earlier = (self._earlier_metrics, self._values)
        metrics = trainer.callback_metrics.items()  # of all epochs
        self._loop.log({n: value for n, value in metrics if all(value is not one.get(n) for one in earlier)})
        self._loop.end_epoch(count, _objects(trainer, pl_module))
        self._stop_after_the_last(trainer)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """End the loop, for whatever reason the fit ended."""
        self._loop.leave()

    def _stop_after_the_last(self, trainer: Trainer) -> None:
        if self._loop.over:
            trainer.should_stop = True


def _most_batches(trainer: Trainer) -> int | None:
    """Return the most batches that a fit trains on; None if it has no end."""
    limits: list[float] = []
    if trainer.max_epochs not in (None, -1):
        limits.append(trainer.max_epochs * trainer.num_training_batches)
    if trainer.max_steps != -1:
        limits.append(trainer.max_steps * trainer.accumulate_grad_batches)
    most = min(limits, default=math.inf)
    return int(most) if math.isfinite(most) else None


def _objects(trainer: Trainer, pl_module: LightningModule) -> dict[str, Stateful]:
    """Return the contents of a checkpoint; several optimizers are numbered."""
    schedulers = [config.scheduler for config in trainer.lr_scheduler_configs]
    return {
        "model": pl_module,
        **_number_names("optimizer", trainer.optimizers),
        **_number_names("scheduler", schedulers),
    }


def _step_on_plateau(
    trainer: Trainer, pl_module: LightningModule, epoch: int, values: Mapping[str, Any]
) -> None:
    """Step the schedulers that Lightning steps after the hook in which states were copied."""
    if not pl_module.automatic_optimization:
        return
    for config in trainer.lr_scheduler_configs:
        if config.reduce_on_plateau and config.interval == "epoch" and epoch % config.frequency == 0:
            monitor = str(config.monitor)
            if monitor not in values:
                raise RunError(
                    f"a scheduler monitors {monitor!r}, which is missing from the record of epoch "
                    f"{epoch - 1}, so it cannot continue; log it in validation_step"
                )
            pl_module.lr_scheduler_step(config.scheduler, values[monitor])


def _number_names(name: str, things: list[Any]) -> dict[str, Stateful]:
    return {name: things[0]} if len(things) == 1 else {f"{name}_{i}": thing for i, thing in enumerate(things)}
