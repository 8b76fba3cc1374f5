"""Ignite handler that reports the epochs of a trainer to a run, as a loop over `run.epochs()` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..exceptions import missing_extra
from ..run.checkpoint import Stateful
from ..run.run import Run
from .directions import monitor_of
from .trainer_loop import TrainerLoop

try:
    from ignite.engine import Engine, Events
except ImportError as err:
    raise missing_extra("hpometrics.integrations.ignite", "pytorch-ignite", "ignite") from err

__all__ = ["RunHandler"]


class RunHandler:
    """Measures the outputs of an evaluator: `RunHandler(run).attach(trainer, evaluator)`.

    The output of each iteration of the evaluator updates the run, and the end of its pass closes the epoch.
    The values of the pass are in `evaluator.state.metrics` under the names of the record, for handlers such
    as `EarlyStopping(3, handler.score_function(), trainer)` and `Checkpoint`. The trainer must run the
    evaluator once per epoch, as in `@trainer.on(Events.EPOCH_COMPLETED)`; a pass before or after training
    does not count. The backend's stop leaves `trainer.run` as an exception; patience, the target and the
    spec's `epochs` terminate the trainer.

    Args:
        run: the run to update.
        output_transform: converts the evaluator's output to the keywords of `run.update`, as in
            `lambda output: {"logits": output[0], "target": output[1]}`; by default the output is such a
            mapping.
        to_save: the contents of a checkpoint, as in `{"model": model, "optimizer": ...}`. If the run has a
            directory, it writes one each epoch. A killed run that starts again restores the latest one. The
            trainer then starts with the next epoch and continues its random streams.
    """

    def __init__(
        self,
        run: Run,
        output_transform: Callable[[Any], Any] | None = None,
        *,
        to_save: Mapping[str, Stateful] | None = None,
    ) -> None:
        self.run = run
        self._output_transform = output_transform
        self._objects = dict(to_save or {})
        absent = f"{'the evaluator' if output_transform is None else 'output_transform'} returned None"
        self._loop = TrainerLoop(run, absent)

    def attach(self, trainer: Engine, evaluator: Engine) -> None:
        """Attach the handlers to both engines."""
        trainer.add_event_handler(Events.STARTED, self._begin)
        trainer.add_event_handler(Events.EPOCH_STARTED, lambda _: self._loop.start_epoch())
        evaluator.add_event_handler(Events.ITERATION_COMPLETED, self._update)
        evaluator.add_event_handler(Events.EPOCH_COMPLETED, self._store_values)
        evaluator.add_event_handler(Events.COMPLETED, self._end_epoch, trainer)
        trainer.add_event_handler(Events.COMPLETED | Events.TERMINATE, lambda _: self._loop.leave())

    def score_function(self, name: str | None = None) -> Callable[[Engine], float]:
        """Return the score, greater is better, that Ignite's handlers read of an evaluator.

        Args:
            name: of the value; by default that of the optimized metric.

        Raises:
            DirectionError: neither the run nor the name shows its direction.
        """
        name, direction = monitor_of(self.run.spec, name)
        return lambda evaluator: direction.sign * evaluator.state.metrics[name]

    def _begin(self, trainer: Engine) -> None:
        epoch = self._loop.begin(trainer.state.max_epochs, self._objects)
        if epoch:
            trainer.state.epoch, trainer.state.iteration = epoch, epoch * (trainer.state.epoch_length or 0)
        self._stop_after_the_last(trainer)

    def _update(self, evaluator: Engine) -> None:
        output = evaluator.state.output
        self._loop.update(output if self._output_transform is None else self._output_transform(output))

    def _store_values(self, evaluator: Engine) -> None:
        evaluator.state.metrics.update(self._loop.measure())

    def _end_epoch(self, evaluator: Engine, trainer: Engine) -> None:
        self._loop.end_epoch(trainer.state.epoch, self._objects)
        self._stop_after_the_last(trainer)

    def _stop_after_the_last(self, trainer: Engine) -> None:
        if self._loop.over:
            trainer.terminate()
