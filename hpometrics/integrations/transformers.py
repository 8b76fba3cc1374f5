"""Transformers: a callback by which `train` reports, prunes and picks as a loop over `run.epochs()` does."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..exceptions import RunError, missing_extra
from ..metrics._device import process
from ..run.checkpoint import Stateful, copy_states, put_states
from ..run.run import Run
from .trainer_loop import TrainerLoop

try:
    from transformers import EvalPrediction, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.trainer_utils import IntervalStrategy
except ImportError as err:
    raise missing_extra("hpometrics.integrations.transformers", "transformers", "transformers") from err

__all__ = ["RunCallback"]

_ABSENT = "the trainer lacks compute_metrics=callback.compute_metrics or labels, or read returned None"


class RunCallback(TrainerCallback):
    """Measures the evaluation of each epoch; it comes with its own `compute_metrics`.

    `Trainer(callbacks=[callback], compute_metrics=callback.compute_metrics, ...)`, with arguments that say
    `eval_strategy="epoch"`. All predictions of a pass update the run at once, or batch by batch with
    `batch_eval_metrics=True`: the values are the same. What the trainer logs (`loss`, `eval_loss`) is
    recorded with the epoch and can be what is optimized:
    `Run(trial, metric=Reported("eval_loss", "minimize"))`. The trainer gets the values of the pass, so that
    `metric_for_best_model="accuracy"`, `EarlyStoppingCallback` and `hyperparameter_search` find them. The
    host's stop leaves `train` as an exception; patience, the target and the spec's `epochs` end it. An
    evaluation before or after training does not count for the run.

    Where the run has a directory, every epoch leaves a checkpoint of the model, the optimizer and the
    schedule, and a run that was killed goes on after its latest: `train` trains the epochs that are left.
    What else the trainer keeps does not come back: it counts steps and epochs from 0 and shuffles as in its
    first epochs. `resume_from_checkpoint` is refused: it would restore twice.

    Args:
        run: the run to update, or a function that creates one for each training, as
            `hyperparameter_search` needs.
        read: makes the keywords of `run.update` of an `EvalPrediction`; unless given its predictions are
            logits and its labels the target.
    """

    def __init__(
        self, run: Run | Callable[[], Run], read: Callable[[EvalPrediction], Any] | None = None
    ) -> None:
        self._make_run = None if isinstance(run, Run) else run
        self._read = read or _logits
        self._follow(run if isinstance(run, Run) else run())

    def _follow(self, run: Run) -> None:
        self.run = run
        self._loop = TrainerLoop(run, _ABSENT)
        self._begun = False
        self._done = 0
        self._updating = process() == 0
        self._passes = 0
        self._shown: dict[str, float] = {}
        self._states: Mapping[str, Any] | None = None

    def compute_metrics(self, prediction: EvalPrediction, compute_result: bool = True) -> dict[str, float]:
        """Update the run, and return the values of the pass, those that the run records.

        In a process group every process is given all rows, and the first one updates.

        Args:
            prediction: of the pass, or of a batch.
            compute_result: whether it is the last of the pass.
        """
        self._passes += 1
        if self._updating:
            self._loop.update(self._read(prediction))
        self._shown = self._loop.measure() if compute_result else {}
        return dict(self._shown)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Begin: go on after the latest checkpoint, if there is one.

        Raises:
            RunError: the trainer does not evaluate once per epoch, or has restored a checkpoint of its own.
        """
        if args.eval_strategy != IntervalStrategy.EPOCH:
            raise RunError(
                "a run measures one evaluation per epoch; give eval_strategy='epoch', not "
                f"{IntervalStrategy(args.eval_strategy).value!r}"
            )
        if state.global_step:
            raise RunError("a run goes on from its own checkpoint; leave resume_from_checkpoint= out")
        if self._begun and self._make_run is not None:
            self._follow(self._make_run())
        self._begun = True
        epochs = state.num_train_epochs
        self._updating = state.is_world_process_zero
        self._done = self._loop.begin(None if epochs == sys.maxsize else epochs, _objects(kwargs))
        self._states = copy_states(_objects(kwargs)) if self._loop.over else None
        self._stop_after_the_last(control)

    def on_epoch_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take what is measured from here on: `eval_on_start` is over."""
        self._loop.start_epoch()
        self._passes = 0

    def on_epoch_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Take back the step that a trainer makes before it asks whether it is to stop."""
        if self._states is not None:
            put_states(_objects(kwargs), self._states)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        """Record what the trainer logs."""
        shown = {"epoch", *(f"eval_{name}" for name in self._shown)}
        self._loop.log({name: value for name, value in (logs or {}).items() if name not in shown})

    def on_evaluate(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Close the epoch.

        Raises:
            RunError: the trainer gave nothing to measure.
            BaseException: the host's stop.
        """
        if self._updating and not self._passes:
            self._loop.update(None)
        self._loop.end_epoch(self._done + math.ceil(state.epoch or 0), _objects(kwargs))
        self._stop_after_the_last(control)

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """End the loop."""
        self._loop.leave()

    def _stop_after_the_last(self, control: TrainerControl) -> None:
        if self._loop.over:
            control.should_training_stop = True


def _logits(prediction: EvalPrediction) -> dict[str, Any]:
    if isinstance(prediction.predictions, tuple):
        raise RunError(
            f"the model gives {len(prediction.predictions)} outputs; say by read= which is what, as in "
            "lambda prediction: {'logits': prediction.predictions[0], 'target': prediction.label_ids}"
        )
    return {"logits": prediction.predictions, "target": prediction.label_ids}


def _objects(given: Mapping[str, Any]) -> dict[str, Stateful]:
    """What a checkpoint holds, of what the trainer hands to its callbacks."""
    return {
        "model": given["model"],
        "optimizer": given["optimizer"],
        "scheduler": given["lr_scheduler"],
    }
