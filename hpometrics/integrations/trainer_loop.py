"""Drive the epochs of a run from a trainer that owns the training loop."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from typing import Any

from ..exceptions import RunError
from ..metrics.features import PREDICTIONS, PROBABILITIES, Binary, Category
from ..run.checkpoint import Stateful, copy_states, put_states
from ..run.run import Run

Objects = Mapping[str, Stateful]
"""The contents of a checkpoint by name: `{"model": model, "optimizer": optimizer}`."""
Read = str | Callable[[Any, Any], Any]
"""Which output a model gives (`logits`, `probabilities`, `predictions`), or a function of the output and the
target that returns the keywords of `run.update`.
"""


class TrainerLoop:
    """Advances `run.epochs()` at the events of a trainer, as `for epoch in run.epochs(n)` does.

    The callbacks of all trainers are built on it, and one for another trainer needs nothing else.
    Measurements outside of an epoch, a sanity check before the first or a test after the last, do not count
    for the run. A trainer that evaluates after a number of steps counts steps in place of epochs. An epoch
    here is then the part of the training between two of its evaluations.

    Args:
        run: the run to update and report.
        absent: the likely reason of a validation without outputs, for the error message.

    Attributes:
        open: whether updates and values count at present.
        counts_steps: whether the trainer evaluates after a number of steps.
        first: how many epochs, or steps, were done before.
        values: those of the latest pass that was measured, by the names of the record.

    >>> from hpometrics import Reported
    >>> run = Run(metric=Reported("loss", "minimize"), epochs=2)
    >>> loop = TrainerLoop(run)
    >>> loop.begin(10, {})  # no epoch is done yet
    0
    >>> for count in range(1, 11):
    ...     loop.start_epoch()
    ...     loop.log({"loss": 0.3 / count})
    ...     loop.end_epoch(count, {})
    ...     if loop.over:  # the spec has two epochs
    ...         break
    >>> count, run.value
    (2, 0.15)
    """

    def __init__(self, run: Run, absent: str = "the validation step returned None") -> None:
        self._run, self._absent = run, absent
        self._skipped_batches = 0  # batches of this epoch without outputs
        self._outside_run: Run | None = None  # measures a pass outside of an epoch
        self._epochs: Generator[int, Any] | None = None
        self._most: int | None = None
        self._states: Mapping[str, Any] | None = None  # after the last epoch
        self._epoch: int | None = None
        self.open = self.counts_steps = False
        self.first = 0
        self.values: dict[str, float] = {}
        self._logged_values: dict[str, Any] = {}  # of this epoch

    @property
    def begun(self) -> bool:
        """Whether the epochs have started."""
        return self._epochs is not None

    @property
    def over(self) -> bool:
        """Whether all epochs are done."""
        return self._epoch is None

    def begin(self, n: float | None, objects: Objects | None, counts_steps: bool = False) -> int:
        """Restore the objects if the run was killed before, and start its epochs.

        Args:
            n: the number of epochs, or of steps, that the trainer will train; None, `math.inf` or
                `sys.maxsize` if it does not know.
            objects: the objects whose states a checkpoint holds; None if the trainer keeps its state itself.
            counts_steps: whether the trainer evaluates after a number of steps.

        Returns:
            The number of epochs, or of steps, already done.

        Raises:
            RunError: neither the trainer nor the spec has such a number, the spec counts the other, or the
                run has begun.
        """
        most = None if n is None or n >= sys.maxsize else int(n)
        self._most, self.counts_steps = most, counts_steps
        self.first = self._run.resume_record() if objects is None else self._run.restore(**objects)
        if counts_steps and self.first:
            self.first = self._run.history[-1].step or 0
        self._epochs = self._run.steps(most, every=most) if counts_steps else self._run.epochs(most)
        self._epoch = next(self._epochs, None)
        if self.over and objects is not None:
            self._states = copy_states(objects)
        return self.first

    def start_epoch(self) -> None:
        """Start an epoch: updates and values count from now on."""
        self.open, self._skipped_batches, self._logged_values = not self.over, 0, {}

    def start_unless_open(self) -> bool:
        """Start an epoch unless one is open or all are done; return whether it did.

        For a trainer whose evaluations after a number of steps may come in the midst of an epoch of its own.
        """
        if self.open or self.over:
            return False
        self.start_epoch()
        return True

    def update(self, outputs: Any) -> None:
        """Update the run with a batch, a mapping with the keywords of `run.update`.

        None is ignored: the user may update the run elsewhere. A run that only logs its value ignores every
        batch. A batch outside of an epoch counts for `measure` alone.

        Raises:
            RunError: the outputs are neither a mapping nor None.
            MetricInputError: the batch is not what the metrics read.
        """
        if not self._run.spec.collections:
            return
        if outputs is None:
            self._skipped_batches += 1
            return
        if not isinstance(outputs, Mapping):
            raise RunError(
                f"a run needs a mapping such as {{'logits': logits, 'target': target}}, got "
                f"{type(outputs).__name__}; return such a mapping, or pass a function that creates one"
            )
        self._current_run.update(**outputs)

    def measure(self) -> dict[str, float]:
        """Return the values of this pass by the names of the record, for the trainer's own callbacks.

        Measurements outside of an epoch end with the pass.
        """
        self.values = self._current_run.measure()
        self._outside_run = None
        return dict(self.values)

    @property
    def _current_run(self) -> Run:
        """The run within an epoch, else a run that is never reported."""
        if self.open:
            return self._run
        if self._outside_run is None:
            self._outside_run = Run(spec=self._run.spec)
        return self._outside_run

    def log(self, values: Mapping[str, Any]) -> None:
        """Record values with this epoch; a later value of a name replaces an earlier one."""
        if self.open:
            self._logged_values |= values

    def end_epoch(self, count: int, objects: Objects) -> None:
        """Checkpoint the objects, measure and report the epoch.

        Args:
            count: the trainer's count of epochs, from 1, or of steps, including those already done.
            objects: as in `begin`.

        Raises:
            RunError: the trainer is at another epoch or step than the run, its validation had no outputs, or
                it logged a value that is not a number or that the run measures.
            BaseException: the backend's stop.
        """
        # after the last epoch, or before the first
        if self._epochs is None or self._epoch is None or count == self.first:
            return
        self._check_count(count, self._epoch)
        self._check_measured()
        self._run.log(**self._logged_values)
        if objects and self._run.keeps_checkpoints:
            self._run.checkpoint(**objects)
        self.open, self._epoch = False, None  # stays so where the backend stops the run
        with suppress(StopIteration):
            self._epoch = self._epochs.send(count if self.counts_steps else None)

    def _check_count(self, count: int, epoch: int) -> None:
        """Check that the trainer evaluates where the run reports."""
        spec, history = self._run.spec, self._run.history
        if self.counts_steps and history and count <= history[-1].place:
            raise RunError(
                f"a run measures one validation per report, but another one ended after step {count}"
            )
        if not self.counts_steps and count != epoch + 1:
            raise RunError(
                f"a run measures one validation per epoch, but one ended in epoch {count} of the trainer "
                f"while the run is at epoch {epoch + 1}"
            )
        steps, every = spec.steps, spec.every
        if steps is None or every is None or count % every == 0:
            return
        if count < min(steps, self._most or steps):
            raise RunError(
                f"a report is due after every {every} steps, but the trainer evaluates after {count}; "
                f"evaluate after every {every}"
            )

    def _check_measured(self) -> None:
        """Check that the validation gave the run something to measure, before a pruner sees the epoch."""
        batches, self._skipped_batches = self._skipped_batches, 0
        names = [spec.name for spec in self._run.spec.objectives if not spec.reported]
        if names and batches and not self._run.updated:
            unit = "step" if self.counts_steps else "epoch"
            raise RunError(
                f"{names[0]} cannot be measured in {unit} {self._epoch}: {self._absent}; a validation must "
                f"return keywords of run.update, as in {{'logits': logits, 'target': target}}"
            )

    def put_back(self, objects: Objects) -> None:
        """Undo the step that a trainer takes before it checks whether it must stop, if no epoch was left."""
        if self._states is not None:
            put_states(objects, self._states)

    def leave(self) -> None:
        """End the loop when the trainer ends, for whatever reason."""
        self.open, self._epoch = False, None
        if self._epochs is not None:
            self._epochs.close()


def as_reader(read: Read) -> Callable[[Any, Any], Any]:
    """Return the function that makes the keywords of `run.update` from the outputs of a model and the target.

    >>> as_reader("logits")([0.5], [1])
    {'logits': [0.5], 'target': [1]}
    """
    if callable(read):
        return read

    def name_outputs(outputs: Any, target: Any) -> dict[str, Any]:
        if isinstance(outputs, tuple):
            raise RunError(
                f"the model returns {len(outputs)} outputs; pass as read= a function that names them, as in "
                "{'logits': outputs[0], 'target': target}"
            )
        return {read: outputs, "target": target}

    return name_outputs


def default_reader(run: Run, read: Read | None) -> Callable[[Any, Any], Any]:
    """Return the reader of `read`, by default of what a boosting library predicts.

    That is probabilities of classes, else predictions.
    """
    classes = isinstance(run.spec.output, (Binary, Category))
    return as_reader(read or (PROBABILITIES if classes else PREDICTIONS).value)


class SavedModel:
    """A model as an object with a state: the text or the bytes that its library saves.

    Args:
        save: returns them.
        load: loads them.
    """

    def __init__(self, save: Callable[[], Any], load: Callable[[Any], Any]) -> None:
        self._save, self._load = save, load

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        return {"saved": self._save()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load a state."""
        self._load(state["saved"])
