"""TrainerLoop: the epochs of a run inside a trainer that owns the loop."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from ..exceptions import RunError
from ..run.checkpoint import Stateful
from ..run.run import Run

Objects = Mapping[str, Stateful]
"""What a checkpoint holds, by name: `{"model": model, "optimizer": optimizer}`."""


class TrainerLoop:
    """Advances `run.epochs()` at the events of a trainer: `for epoch in run.epochs(n)`, step by step.

    It is what the callbacks of Lightning, Transformers and Ignite have in common, and all that one for
    another trainer needs. What a trainer measures outside of an epoch does not count for the run: a sanity
    check before the first, a test after the last.

    Args:
        run: what is updated, reported, pruned and picked.
        absent: the likely reason of a validation without outputs, for the error.

    >>> from hpometrics import Reported
    >>> run = Run(metric=Reported("loss", "minimize"), epochs=2)
    >>> loop = TrainerLoop(run)
    >>> loop.begin(10, {})  # of which none is done yet
    0
    >>> for count in range(1, 11):
    ...     loop.start_epoch()
    ...     loop.log({"loss": 0.3 / count})
    ...     loop.end_epoch(count, {})
    ...     if loop.over:  # two are all, the spec says
    ...         break
    >>> count, run.value
    (2, 0.15)
    """

    def __init__(self, run: Run, absent: str = "the validation step returned None") -> None:
        self._run, self._absent = run, absent
        self._passed_over = 0  # batches of this epoch without outputs
        self._outside: Run | None = None  # of a pass that belongs to no epoch
        self._epochs: Generator[int] | None = None
        self._done = 0
        self._epoch: int | None = None
        self._open = False
        self._logged: dict[str, Any] = {}  # in this epoch

    @property
    def over(self) -> bool:
        """Whether no epoch is left."""
        return self._epoch is None

    def begin(self, n: int | None, objects: Objects) -> int:
        """Restore the objects if the run was killed before, and see how many epochs are left.

        Args:
            n: how many epochs the trainer means to train; None if it does not know.
            objects: whose states a checkpoint has.

        Returns:
            The number of epochs already done.

        Raises:
            RunError: neither the trainer nor the spec says how many epochs there are, or the run has begun.
        """
        self._done = self._run.restore(**objects)
        self._epochs = self._run.epochs(n)
        self._epoch = next(self._epochs, None)
        return self._done

    def start_epoch(self) -> None:
        """Take what is measured and logged from here on."""
        self._open, self._passed_over, self._logged = not self.over, 0, {}

    def update(self, outputs: Any) -> None:
        """Give the run a batch, as a mapping with the keywords of `run.update`.

        None is ignored: the user may update the run elsewhere. A run that only logs its value ignores every
        batch. A batch outside of an epoch counts for `measure` alone.

        Raises:
            RunError: it is something else.
            MetricInputError: the batch is not what the metrics read.
        """
        if not self._run.spec.collections:
            return
        if outputs is None:
            self._passed_over += 1
            return
        if not isinstance(outputs, Mapping):
            raise RunError(
                "a run is updated by keywords, {'logits': logits, 'target': target}, got "
                f"{type(outputs).__name__}; return such a mapping, or say how to make one of it"
            )
        self._measuring.update(**outputs)

    def measure(self) -> dict[str, float]:
        """Return the values of this pass by name, for the trainer's own callbacks: those the run records.

        What was measured outside of an epoch is forgotten with the pass.
        """
        values = self._measuring.measure()
        self._outside = None
        return values

    @property
    def _measuring(self) -> Run:
        """The run in an epoch, else one that nobody reports."""
        if self._open:
            return self._run
        if self._outside is None:
            self._outside = Run(spec=self._run.spec)
        return self._outside

    def log(self, values: Mapping[str, Any]) -> None:
        """Take values of this epoch, which the run records; of a name that comes again the last one."""
        if self._open:
            self._logged |= values

    def end_epoch(self, count: int, objects: Objects) -> None:
        """Checkpoint the objects, measure and report the epoch.

        Args:
            count: the epoch as the trainer counts them, from 1, those already done included.
            objects: as in `begin`.

        Raises:
            RunError: the trainer is at another epoch than the run, its validation gave no outputs, or a
                value that it logged is no number or named as one the run measures itself.
            BaseException: the host's stop.
        """
        if (
            self._epochs is None or self._epoch is None or count == self._done
        ):  # after the last, or before the first
            return
        if count != self._epoch + 1:
            raise RunError(
                f"a run measures one validation per epoch; here one ends in epoch {count} of the trainer, "
                f"and the run is at epoch {self._epoch + 1}"
            )
        self._check_measured()
        self._run.log(**self._logged)
        if self._run.keeps_checkpoints:
            self._run.checkpoint(**objects)
        self._open, self._epoch = False, None  # and so they stay where the host stops the run
        self._epoch = next(self._epochs, None)

    def _check_measured(self) -> None:
        """Refuse an epoch whose validation gave the run nothing to measure, whatever a pruner makes of it."""
        batches, self._passed_over = self._passed_over, 0
        wanted = [asked.name for asked in self._run.spec.objectives if not asked.reported]
        if wanted and batches and not self._run.updated:
            raise RunError(
                f"{wanted[0]} cannot be measured in epoch {self._epoch}: {self._absent}; a validation gives "
                "the keywords of run.update, as in {'logits': logits, 'target': target}"
            )

    def leave(self) -> None:
        """End the loop where the trainer does, however it ends."""
        self._open, self._epoch = False, None
        if self._epochs is not None:
            self._epochs.close()
