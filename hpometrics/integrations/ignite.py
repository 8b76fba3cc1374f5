"""Ignite: a handler by which a trainer reports, prunes and picks as a loop over `run.epochs()` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..exceptions import missing_extra
from ..run.checkpoint import Stateful
from ..run.run import Run
from .trainer_loop import TrainerLoop

try:
    from ignite.engine import Engine, Events
except ImportError as err:
    raise missing_extra("hpometrics.integrations.ignite", "pytorch-ignite", "ignite") from err

__all__ = ["RunHandler"]


class RunHandler:
    """Measures what an evaluator gives: `RunHandler(run).attach(trainer, evaluator)`.

    The output of each iteration of the evaluator updates the run, and the end of its pass closes the epoch.
    The values of the pass are in `evaluator.state.metrics` under the names of the record, for handlers such
    as `EarlyStopping` and `Checkpoint`.
    The trainer runs it once per epoch, as in `@trainer.on(Events.EPOCH_COMPLETED)`; a pass before or after
    training counts for nothing. The host's stop leaves `trainer.run` as an exception; patience, the target
    and the spec's `epochs` terminate the trainer.

    Args:
        run: what is updated.
        output_transform: makes the keywords of `run.update` of the evaluator's output, as in
            `lambda output: {"logits": output[0], "target": output[1]}`; unless given the output is such a
            mapping.
        to_save: what a checkpoint of each epoch holds, where the run has a directory, and what is restored
            from the latest one when a run that was killed begins again: `{"model": model, "optimizer": ...}`.
            The trainer then begins with the next epoch, and its random streams go on.
    """

    def __init__(
        self,
        run: Run,
        output_transform: Callable[[Any], Any] | None = None,
        *,
        to_save: Mapping[str, Stateful] | None = None,
    ) -> None:
        self.run = run
        self._read = output_transform
        self._objects = dict(to_save or {})
        absent = f"{'the evaluator' if output_transform is None else 'output_transform'} returned None"
        self._loop = TrainerLoop(run, absent)

    def attach(self, trainer: Engine, evaluator: Engine) -> None:
        """Follow these two engines."""
        trainer.add_event_handler(Events.STARTED, self._begin)
        trainer.add_event_handler(Events.EPOCH_STARTED, self._start_epoch)
        evaluator.add_event_handler(Events.ITERATION_COMPLETED, self._update)
        evaluator.add_event_handler(Events.EPOCH_COMPLETED, self._show)
        evaluator.add_event_handler(Events.COMPLETED, self._end_epoch, trainer)
        trainer.add_event_handler(Events.COMPLETED | Events.TERMINATE, self._leave)

    def _begin(self, trainer: Engine) -> None:
        done = self._loop.begin(trainer.state.max_epochs, self._objects)
        if done:
            trainer.state.epoch, trainer.state.iteration = done, done * (trainer.state.epoch_length or 0)
        self._stop_after_the_last(trainer)

    def _start_epoch(self, trainer: Engine) -> None:
        self._loop.start_epoch()

    def _update(self, evaluator: Engine) -> None:
        output = evaluator.state.output
        self._loop.update(output if self._read is None else self._read(output))

    def _show(self, evaluator: Engine) -> None:
        evaluator.state.metrics.update(self._loop.measure())

    def _end_epoch(self, evaluator: Engine, trainer: Engine) -> None:
        self._loop.end_epoch(trainer.state.epoch, self._objects)
        self._stop_after_the_last(trainer)

    def _leave(self, trainer: Engine) -> None:
        self._loop.leave()

    def _stop_after_the_last(self, trainer: Engine) -> None:
        if self._loop.over:
            trainer.terminate()
