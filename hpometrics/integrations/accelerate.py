"""Accelerate tracker that reports the epochs of a user's own loop to a run."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from torch import nn

from ..exceptions import RunError, missing_extra
from ..run.checkpoint import Stateful
from ..run.run import Run
from .trainer_loop import TrainerLoop

try:
    from accelerate import Accelerator, DistributedType
    from accelerate.tracking import GeneralTracker
except ImportError as err:
    raise missing_extra("hpometrics.integrations.accelerate", "accelerate", "accelerate") from err

__all__ = ["RunTracker"]

_PLACES = {"epoch", "step"}
"""Names that loops log beside their values to say where they are."""
_SHARDED = {DistributedType.DEEPSPEED, DistributedType.FSDP, DistributedType.MEGATRON_LM}


class RunTracker(GeneralTracker):  # type: ignore[misc]  # its types are not read
    """Reports the epochs of a loop: `for epoch in RunTracker(run, accelerator).epochs(9):`, on every process.

    In this loop, `accelerator.log({"val_accuracy": 0.9}, step=epoch)` records its numbers with the epoch, and
    they can be optimized: `Run(trial, metric=library_metric("val_accuracy"))`. Of several values with one
    name in an epoch, such as the loss of each batch, the last counts. Other trackers of the accelerator get
    the same values. `tracker.update(logits=network(x), target=y)` measures a batch of the validation.

    The first process alone has the trial: `Run(trial if accelerator.is_main_process else None, ...)`. The
    backend's stop leaves the loop as an exception, on all processes at the same epoch; patience, the target
    and the spec's `epochs` end it. Create the accelerator before the run.

    Args:
        run: the run to update, one on each process.
        accelerator: of the loop. While the loop runs, this is one of its trackers; it needs neither
            `log_with` nor `init_trackers`.
    """

    name = "hpometrics"
    requires_logging_directory = False

    def __init__(self, run: Run, accelerator: Accelerator) -> None:
        super().__init__()
        self.run, self._accelerator = run, accelerator
        self._loop = TrainerLoop(run, "tracker.update was not called")
        self._values: dict[str, Any] = {}  # of this epoch
        self._updated = False  # in this epoch, on whichever process

    @property
    def tracker(self) -> Run:
        """The run, as `accelerator.get_tracker("hpometrics", unwrap=True)` returns it within the loop."""
        return self.run

    def epochs(self, n: int | None = None, **objects: Stateful) -> Generator[int]:
        """Count the epochs from 0, or from where a killed run resumes; measure and report the end of each.

        Args:
            n: epochs in all; the spec's `epochs` caps it, and replaces a missing `n`.
            objects: the contents of a checkpoint, as in `epochs(9, model=network, optimizer=optimizer)`. If
                the run has a directory, it writes one each epoch. A killed run that starts again restores the
                latest one. A prepared model is stored without its wrapper.

        Raises:
            RunError: the model is in shards, which a checkpoint of a run cannot hold. See also `Run.epochs`.
            BaseException: the backend's stop.
        """
        accelerator, loop = self._accelerator, self._loop
        if objects and self.run.keeps_checkpoints and accelerator.distributed_type in _SHARDED:
            raise RunError(
                f"no checkpoint of a run holds a model in shards ({accelerator.distributed_type.value}); "
                "leave the objects of tracker.epochs(...) out, and call accelerator.save_state"
            )
        states = {name: self._unwrap(thing) for name, thing in objects.items()}
        epoch = loop.begin(n, states)
        if accelerator.is_main_process:  # `accelerator.log` does nothing on the others
            accelerator.trackers.append(self)
        try:
            while not loop.over:
                loop.start_epoch()
                self._values, self._updated = {}, False
                yield epoch
                epoch += 1
                if accelerator.is_main_process and not self.run.updated:
                    loop.update(None)
                loop.log(self._values)
                loop.end_epoch(epoch, states)
        except GeneratorExit:
            self._leave_open()
            raise
        finally:
            if self in accelerator.trackers:
                accelerator.trackers.remove(self)
            loop.leave()

    def update(self, **outputs: Any) -> None:
        """Update the run with a batch of the rows of all processes, on every process.

        Rows that Accelerate repeats to fill the last batch do not count. Tensors of several lengths need
        `accelerator.pad_across_processes` first.

        Args:
            outputs: as of `Run.update`: `logits=network(x), target=y`.
        """
        self._updated = True
        gathered = {
            name: one if isinstance(one, str) else self._accelerator.gather_for_metrics(one)
            for name, one in outputs.items()
        }
        if self._accelerator.is_main_process:
            self._loop.update(gathered)

    def measure(self) -> dict[str, float]:
        """Return the values measured in this epoch, as in `accelerator.log(tracker.measure(), step=epoch)`.

        Every process must call it.
        """
        return self._loop.measure()

    def log(self, values: Mapping[str, Any], step: int | None = None, **kwargs: Any) -> None:
        """Record the numbers that the accelerator logs; texts and groups of values are for other trackers."""
        skipped = _PLACES | self._loop.values.keys()
        self._values |= {
            name: value
            for name, value in values.items()
            if name not in skipped and not isinstance(value, (str, Mapping))
        }

    def _unwrap(self, thing: Stateful) -> Stateful:
        return self._accelerator.unwrap_model(thing) if isinstance(thing, nn.Module) else thing

    def _leave_open(self) -> None:
        """Log the values of an epoch that a break leaves open, which all processes then close, or none."""
        if self._updated or (self._values and self._accelerator.num_processes == 1):
            self.run.log(**self._values)
