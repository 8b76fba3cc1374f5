"""Transformers callback that reports each evaluation of `train` to a run, as a loop over its epochs does."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from ..direction import MAXIMIZE
from ..exceptions import RunError, missing_extra
from ..metrics._device import process
from ..run.run import Run
from .directions import check_watcher, monitor_of
from .trainer_loop import Objects, TrainerLoop, as_reader

try:
    from transformers import EvalPrediction, TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.trainer_utils import IntervalStrategy
except ImportError as err:
    raise missing_extra("hpometrics.integrations.transformers", "transformers", "transformers") from err

__all__ = ["RunCallback"]


class RunCallback(TrainerCallback):
    """Measures each evaluation through its own `compute_metrics`.

    Use it as `Trainer(callbacks=[callback], compute_metrics=callback.compute_metrics, ...)`, with
    `eval_strategy="epoch"` in the arguments, or `"steps"`. With `"steps"`, the run counts the trainer's
    steps, as with `Run.steps`, and each evaluation is a report. All predictions of a pass update the run at
    once, or batch by batch with `batch_eval_metrics=True`: the values are the same. Values that the trainer
    logs (`loss`, `eval_loss`) are recorded with the epoch and can be optimized:
    `Run(trial, metric=library_metric("eval_loss"))`. The trainer receives the values of the pass, so that
    `TrainingArguments(**callback.monitor())`, `EarlyStoppingCallback` and
    `hyperparameter_search(**callback.search())` find them. The backend's stop leaves `train` as an exception;
    patience, the target and the spec's `epochs` or `steps` end it. Evaluations outside of it do not count.

    If the run has a directory, every epoch writes a checkpoint of the model, the optimizer and the schedule.
    A killed run continues after its latest one: `train` trains the remaining epochs. Other state of the
    trainer is not restored: it counts steps and epochs from 0, and shuffles as in its first epochs.
    `resume_from_checkpoint` is rejected, because it would restore twice.

    Args:
        run: the run to update, or a function that creates one for each training, as
            `hyperparameter_search` needs.
        read: converts an `EvalPrediction` to the keywords of `run.update`; by default its predictions are
            logits and its labels the target.
    """

    def __init__(
        self, run: Run | Callable[[], Run], read: Callable[[EvalPrediction], Any] | None = None
    ) -> None:
        self._make_run = None if isinstance(run, Run) else run
        self._read = read or (lambda one: as_reader("logits")(one.predictions, one.label_ids))
        self._start_run(run if isinstance(run, Run) else run())

    def _start_run(self, run: Run) -> None:
        absent = "the trainer lacks compute_metrics=callback.compute_metrics or labels, or read returned None"
        self.run, self._loop = run, TrainerLoop(run, absent)
        self._control: TrainerControl | None = None  # at the latest evaluation
        self._at_last_step = False

    def compute_metrics(self, prediction: EvalPrediction, compute_result: bool = True) -> dict[str, float]:
        """Update the run, and return the values of the pass, as the run records them.

        In a process group every process receives all rows, and the first one updates the run.

        Args:
            prediction: the prediction of the pass, or of a batch.
            compute_result: whether it is the last one of the pass.
        """
        if process() == 0:
            self._loop.update(self._read(prediction))
        return self._loop.measure() if compute_result else {}

    def monitor(self, name: str | None = None) -> dict[str, Any]:
        """Return the training arguments that name the best model by a value, by default the optimized one."""
        name, direction = monitor_of(self.run.spec, name)
        return {"metric_for_best_model": name, "greater_is_better": direction is MAXIMIZE}

    def search(self) -> dict[str, Any]:
        """Return `direction` and `compute_objective` of `hyperparameter_search`.

        Each evaluation reports the current value, the last one of a training the picked one.
        """
        directions = [direction.value for direction in self.run.spec.optimized.values()]
        direction = directions if len(directions) > 1 else directions[0]
        return {"direction": direction, "compute_objective": self._objective}

    def _objective(self, metrics: Mapping[str, float]) -> Any:
        names = (name if name in metrics else f"eval_{name}" for name in self.run.spec.optimized)
        stops = self._control is not None and self._control.should_training_stop  # whoever has set it
        is_last = self._loop.over or stops or self._at_last_step
        scores = list(self.run.scores) if is_last else [metrics[name] for name in names]
        return scores if len(scores) > 1 else scores[0]

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Start the run, after the latest checkpoint if there is one.

        Raises:
            RunError: the trainer never evaluates, or has restored a checkpoint of its own.
            DirectionError: the trainer picks its best model in the wrong direction.
        """
        check_watcher(self.run.spec, args, (args.metric_for_best_model or "").removeprefix("eval_"))
        if args.eval_strategy == IntervalStrategy.NO:
            raise RunError("a run needs evaluations; set eval_strategy to 'epoch' or 'steps', not 'no'")
        if state.global_step:
            raise RunError("a run resumes from its own checkpoint; leave resume_from_checkpoint= out")
        if self._make_run is not None and self._loop.begun:
            self._start_run(self._make_run())
        counts_steps = args.eval_strategy == IntervalStrategy.STEPS
        most = state.max_steps if counts_steps else state.num_train_epochs
        self._loop.begin(most, _objects(kwargs), counts_steps)
        control.should_training_stop |= self._loop.over

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        """Start an epoch, or what a report at a step covers; `eval_on_start` before it does not count."""
        self._loop.start_unless_open()

    def on_epoch_end(self, *_: Any, **kwargs: Any) -> None:
        """Undo the step that a trainer takes before it checks whether it must stop."""
        self._loop.put_back(_objects(kwargs))

    def on_log(self, *_: Any, logs: Mapping[str, Any] | None = None, **__: Any) -> None:
        """Record the values that the trainer logs."""
        measured = {"epoch", *(f"eval_{name}" for name in self._loop.values)}
        self._loop.log({name: value for name, value in (logs or {}).items() if name not in measured})

    def on_evaluate(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Close the epoch, or what a report at a step covers."""
        self._control = control
        next_step = state.global_step + state.eval_steps if self._loop.counts_steps else 0
        self._at_last_step = next_step > state.max_steps  # where no evaluation follows the last step
        if process() == 0 and not self.run.updated:
            self._loop.update(None)
        count = state.global_step if self._loop.counts_steps else math.ceil(state.epoch or 0)
        self._loop.end_epoch(self._loop.first + count, _objects(kwargs))
        control.should_training_stop |= self._loop.over

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """End the loop."""
        self._loop.leave()


def _objects(kwargs: Mapping[str, Any]) -> Objects:
    """Return the contents of a checkpoint from the arguments of a callback."""
    return {"model": kwargs["model"], "optimizer": kwargs["optimizer"], "scheduler": kwargs["lr_scheduler"]}
