"""Run: one training run that takes updates and logged values, checkpoints, and reports each epoch."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Self

import torch

from ..exceptions import DiskError, LoggerError, MetricInputError, NoFiniteValueError
from ..loggers.registry import LoggerLike
from ..loggers.table import history_html
from ..metrics.additive import Additive
from ..metrics.registry.scope import VALIDATION
from ..metrics.reports import Metrics
from ..metrics.retrieval.per_user import PerUser
from ..records.epoch_log import Fsync
from ..records.trial_record import EpochRecord, Reading, number_in, numbers_of
from .checkpoint import Stateful
from .epoch_closer import End, EpochCloser, RunState
from .example_selection import Line
from .logged_values import why_no_value
from .reporter import checked_reporter, checked_spec
from .spec import RunSpec


class Run:
    """One training run with one set of params.

    Args:
        host: where the values go: an Optuna trial, `TuneReporter()`, any `Reporter`; None keeps them here.
            In a process group only the first rank has one; the others have none, `Run(None, ...)`. In Ray
            Train each rank passes a `TuneReporter()`: by it a rank knows that checkpoints are stored.
        spec: what is measured; or its facts, as in `Run(trial, metric="roc_auc", output=Binary())`.
        directory: where the first rank writes `epochs.jsonl`, `.trainstats` and checkpoints; None: nowhere.
        params: the params of the run, for `run.params`.
        seed: for `run.seed`; a search derives it and seeds Python, NumPy and torch; a run itself seeds none.
        fsync: see `EpochLog`.
        loggers: what follows the run beside its record: `table`, `tensorboard`, an `EpochLogger`.

    Attributes:
        spec: what is measured.
        seed: for what the engine seeds by itself, such as a split or a `random_state`. It depends on the
            search's seed, the trial's number, the repeat and the confirmation; None without that seed.

    Raises:
        DirectionError: the host searches in another direction than the metric's.
        ConfigError, MissingExtraError: a logger does not exist or its package is not installed, or the study
            has no pruner for `prune_by`.

    >>> from hpometrics import Reported
    >>> run = Run(metric=Reported("loss", "minimize"))
    >>> for epoch in run.epochs(3):
    ...     run.log(loss=[0.3, 0.1, 0.2][epoch])
    >>> run.value, run.best_epoch
    (0.1, 1)
    """

    def __init__(
        self,
        host: object = None,
        *,
        spec: RunSpec | None = None,
        directory: Path | str | None = None,
        params: Mapping[str, Any] | None = None,
        seed: int | None = None,
        fsync: Fsync = "epoch",
        loggers: Sequence[LoggerLike] = (),
        **facts: Any,
    ) -> None:
        self.spec, self.seed = checked_spec(host, spec, facts), seed
        reporter = checked_reporter(host, self.spec)
        self._closer = EpochCloser(self.spec, reporter, params, directory, fsync, loggers)
        self._meter, self._logged = self._closer.meter, self._closer.meter.logged
        self._progress, self._artifacts = self._closer.progress, self._closer.artifacts

    def __repr__(self) -> str:
        best = f", {self._progress.value:.6g} at epoch {self.best_epoch}" if self.values else ""
        return f"Run({self.spec.goal}, {len(self.history)} epochs{best})"

    def _repr_html_(self) -> str:
        return history_html(self.history, self.spec.directions, self.best_epoch, repr(self))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None:
            self.close()
            return
        try:
            self._closer.end_loggers(complete=self.ended and isinstance(error, self.stops))
        except (DiskError, LoggerError) as err:  # what ended the run comes first
            error.add_note(str(err))
        finally:
            self._closer.release()

    @property
    def params(self) -> dict[str, Any]:
        """A copy of the params that this run was given, or that its host has drawn so far."""
        return deepcopy(dict(self._closer.params))

    @property
    def directory(self) -> Path | None:
        """The trial's own directory; None where nothing is written, as on all ranks but the first."""
        return self._artifacts.directory

    @property
    def keeps_checkpoints(self) -> bool:
        """Whether what `checkpoint` copies is stored: in the directory, or by Ray Tune."""
        return self._closer.keeps_checkpoints

    @property
    def stops(self) -> tuple[type[BaseException], ...]:
        """The exceptions that mean the host has stopped this run; on every rank those of the first."""
        return self._closer.stops

    @property
    def stopped(self) -> BaseException | None:
        """The host's stop, had there been epochs left."""
        return self._closer.stopped

    @property
    def ended(self) -> bool:
        """Whether an epoch was reported as the final one."""
        return self._closer.state is RunState.ENDED

    @property
    def finished(self) -> bool:
        """Whether patience, the target or the time has ended the run."""
        return self._closer.finished

    @property
    def ended_by(self) -> End | None:
        """The setting that has ended the run before its last epoch; None while none has."""
        return None if self._closer.complete else self._progress.ended_by

    @property
    def seconds_left(self) -> float | None:
        """The rest of `trial_time`; None where there is none."""
        limit = self.spec.trial_time
        return None if limit is None else max(0.0, limit - self._closer.seconds)

    def end_late(self) -> None:
        """Record that time ran out within an epoch, for an engine that can be stopped in the midst of one."""
        self._progress.ended_by = End.TRIAL_TIME

    @property
    def history(self) -> tuple[EpochRecord, ...]:
        """Every closed epoch, in order, those before a restart included."""
        return tuple(self._progress.history)

    @property
    def value(self) -> float:
        """The metric's value at the picked epoch. Outside the loop an epoch still open is closed first.

        Of several metrics it is that of the first; `scores` has all. If the iterator of the loop has a name,
        as in `bar = tqdm(run.epochs(9))`, it outlives a break: then call `close` first.

        Raises:
            NoFiniteValueError: no epoch has a finite value (or, `at="last"`, the last has none).
        """
        if self._closer.state is RunState.OPEN and not self._closer.in_loop:
            self._closer.close_epoch(final=True)
        if not math.isfinite(self._progress.value):
            is_open = self._closer.state is RunState.OPEN
            raise NoFiniteValueError(why_no_value(self.spec, self._progress.history, is_open))
        return self._progress.value

    @property
    def scores(self) -> tuple[float, ...]:
        """The value of each optimized metric at the picked epoch, as Optuna takes them; raises as `value`."""
        return (self.value, *(number_in(self.values, name) for name in list(self.spec.optimized)[1:]))

    @property
    def best_epoch(self) -> int | None:
        """The picked epoch, counted from 0; None before there is one."""
        return self._progress.picked

    @property
    def values(self) -> Mapping[str, Reading]:
        """All values of the picked epoch, by name; that of a curve or a matrix is lists of numbers."""
        return {} if self._progress.picked is None else self._progress.history[self._progress.picked].values

    @property
    def per_user(self) -> PerUser | None:
        """The values of each user at the picked epoch; None unless the output is `Ranking(per_user=True)`."""
        return self._artifacts.users.table

    @property
    def examples(self) -> tuple[Line, ...]:
        """The worst and best examples of the picked epoch, a mapping each; none unless they are tracked."""
        return self._artifacts.examples.lines

    @property
    def best_checkpoint(self) -> Path | None:
        """The state at the end of the picked epoch, if one was kept."""
        return self._artifacts.checkpoint_of(self._progress.picked)

    def epochs(self, n: int | None = None) -> Generator[int]:
        """Count the epochs from 0, or from where a restored run resumes; measure and report the end of each.

        A trainer that owns its loop advances it by hand, see `integrations.trainer_loop`.

        Args:
            n: epochs in all; the spec's `epochs` caps it, and replaces a missing `n`.

        Raises:
            RunError: there is neither, it is not a whole number of at least 1, or the spec counts steps.
            BaseException: the host's stop, raised from the loop.
        """
        return self._closer.loop(self.spec.most_epochs(n))

    def steps(
        self, n: int | None = None, *, every: int | None = None, size: int = 1
    ) -> Generator[int, int | None]:
        """Count steps from 0, or from where a restored run resumes; measure and report after `every` of them.

        A step may be a batch, a row, an update of the model or a step of an environment. Patience, pruners
        and whatever else counts epochs count these reports; each has its number of steps.

        Args:
            n: steps in all; the spec's `steps` caps it, and replaces a missing `n`.
            every: steps between reports, the last of which follows the last step; the spec's has precedence.
            size: steps of one pass of the loop, such as the rows of its batch.

        Raises:
            RunError: a number is missing or out of range, or the spec counts epochs. See also `epochs`.

        >>> run = Run(metric="score", direction="maximize")
        >>> for step in run.steps(250, every=100):
        ...     if run.due:
        ...         run.log(score=step / 250)
        >>> [report.step for report in run.history]
        [100, 200, 250]
        """
        return self._closer.steps(*self.spec.most_steps(n, every, size))

    @property
    def due(self) -> bool:
        """Whether a report follows this step of `steps`, or this epoch: then it is time to validate."""
        return self._closer.due

    def update(
        self, *positional: Any, split: str = VALIDATION, examples: Any = None, by: Any = None, **tensors: Any
    ) -> None:
        """Add a batch of model outputs to this epoch: `run.update(logits=model(x), target=y)`.

        Args:
            positional: nothing; the keyword says which output a tensor is.
            split: `validation` steers the search, `train` and `test` are measured beside it.
            examples: a list with one entry per row, an id or a text, which is written with the row to
                `examples.jsonl`; not read unless examples are tracked.
            by: an id for each row, of the user, text or group that it belongs to. Rows with the same id are
                not independent, and count as one where a winner is confirmed.
            tensors: see `MetricCollection.update`; `feature="intent"` names the output of the batch, if there
                are several, `task="convai2"` its task, or one task per row.

        Raises:
            MetricInputError: the batch is not what the metrics read. An output that is not finite raises
                nothing: it makes this epoch nan, with the reason.
            RunError: the last epoch is over.
        """
        if positional:
            raise MetricInputError(
                "pass each output to run.update by keyword, as in run.update(logits=..., target=...); got "
                f"{len(positional)} without one"
            )
        self._closer.begin("update")
        self._meter.update(split, tensors, examples, by)

    @property
    def updated(self) -> bool:
        """Whether this process has added a batch of validation outputs to the open epoch."""
        return self._meter.updated

    @property
    def targets(self) -> str | None:
        """The number of rows of the first validation pass with a digest of their targets; None before one.

        It does not depend on the order of rows or their batches. Trials of a search that differ in it were
        measured on other rows.
        """
        return self._meter.targets

    def measure(self) -> dict[str, float]:
        """Return the values measured in the open epoch so far, by name, for callbacks that monitor them.

        They are computed once: the record of the epoch has the same numbers, unless another update follows.
        Curves and matrices are left out. In a process group every rank must call it.

        Raises:
            RankError: another rank has failed.

        >>> from hpometrics import Binary
        >>> run = Run(metric="accuracy", output=Binary(), defaults=False)
        >>> for epoch in run.epochs(1):
        ...     run.update(probabilities=[0.9, 0.2], target=[1, 1])
        ...     run.measure()
        {'accuracy': 0.5}
        >>> run.value
        0.5
        """
        return numbers_of(self._meter.measure())

    def log(self, **values: Any) -> None:
        """Record values of this epoch as they are, one per name.

        To average a value over batches, use `record_global` with an `AverageMetric`.
        In a process group the value is the first rank that has one.

        Raises:
            RunError: a value is not a number, the run measures or has already logged its name in this epoch,
                or the last epoch is over.
        """
        self._closer.check_not_over("log")
        self._meter.check_names(*values)
        self._logged.log(values)
        self._closer.state = RunState.OPEN

    def undefined(self, **reasons: str) -> None:
        """Record that values of this epoch are undefined and why: each is nan with its reason.

        `run.undefined(recall="no row is positive")` replaces `run.log(recall=...)`.

        Raises:
            RunError: a reason is not a text, the run measures or has already logged the name in this epoch,
                or the last epoch is over.
        """
        self._closer.check_not_over("undefined")
        self._meter.check_names(*reasons)
        self._logged.undefined(reasons)
        self._closer.state = RunState.OPEN

    @property
    def global_metrics(self) -> Metrics:
        """Takes additive values of the run that belong to no task: `.add("mine", AverageMetric(1, 2))`."""
        return self._logged.recorded(VALIDATION).global_metrics

    def record_local(
        self,
        name: str,
        values: Iterable[Additive],
        *,
        task: str | Sequence[str] | None = None,
        split: str = VALIDATION,
    ) -> None:
        """Record a value for each example of the last update, so that every task has its own.

        Args:
            name: its name in the record; the value of each task is `task/name`.
            values: one per row, as `AverageMetric.many(hits, tokens)` makes them.
            task: the task of all, or of each, if there was no update.
            split: the split of that update.

        Raises:
            RunError: there are more or fewer values than rows, or the name is taken.
            MetricInputError, MetricNameError, AdditionError: see `Metrics.add`.
        """
        self._meter.check_names(name)
        self._closer.begin("record_local")
        self._logged.record_local(split, name, values, task)

    def record_global(self, name: str, value: Additive, *, split: str = VALIDATION) -> None:
        """Record a value of the run that belongs to no task, as `run.global_metrics.add` does.

        Raises:
            RunError: the name is taken.
            MetricInputError, MetricNameError, AdditionError: see `Metrics.add`.
        """
        self._meter.check_names(name)
        self._closer.begin("record_global")
        self._logged.recorded(split).global_metrics.add(name, value)

    def teach(self, teacher: Any, *, task: str | None = None) -> None:
        """Register the teacher of one data set, which measures the answers to it.

        Args:
            teacher: an object or class with `custom_evaluation(teacher_action, labels, model_response)` that
                adds to `self.metrics` (see `Teacher`), or a function of these three and `metrics`.
            task: that of the data set; None if there is only one.

        Raises:
            RunError: the task has a teacher.
        """
        self._logged.teachers.add(teacher, task)

    def evaluate_response(
        self,
        teacher_action: Any,
        labels: Any,
        model_response: Any,
        *,
        task: str | None = None,
        split: str = VALIDATION,
    ) -> None:
        """Measure one answer by the teacher of its task.

        Args:
            teacher_action: what the model was shown.
            labels: the right answers, or None.
            model_response: what the model answered.
            task: the task of the teacher.
            split: the split of the question.

        Raises:
            RunError: the task has no teacher, or it records a name that is taken.
        """
        self._closer.begin("evaluate_response")
        metrics = self._logged.recorded(split).of(task)
        self._logged.teachers.evaluate(task, teacher_action, labels, model_response, metrics)

    def watch(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        max_norm: float | None = None,
        *,
        name: str | None = None,
        every: int = 8,
    ) -> None:
        """Record with every epoch how its updates went and what they took, without slowing them down.

        `gnorm lr ups step_time total_train_updates`, of the run `epoch_time peak_rss gpu_mem`, and rates of
        what `update` counts (`exps`, `tps` ...); `hpometrics metrics list` explains each.

        Args:
            model: whose gradients are measured.
            optimizer: whose steps are counted.
            max_norm: clip the gradients to this norm before each step, as `torch.nn.utils.clip_grad_norm_`
                does (do not call it too), and record `clip`; `gnorm` is the norm before clipping.
            name: the name of this watch, if it is not the only one: its values are `name.gnorm` ...
            every: measure gradients at one of so many steps; 1 sees each that is not finite, but takes
                several per cent of the shortest steps. If they are clipped, each step reads them anyway.

        Raises:
            RunError: a watch of that name exists already, or `max_norm` or `every` is out of range.
        """
        watch = self._meter.watch(model, optimizer, max_norm, name, every)
        if self._progress.history:
            watch.go_on_after(self._progress.history[-1].values)

    def checkpoint(self, **objects: Stateful) -> None:
        """Copy the state of each object now; it is written when the epoch closes.

        Without a directory nothing is copied, except on Ray, where Tune gets the state with the report of the
        epoch. A RuntimeWarning says so once per run or search, unless it has `checkpoints="none"`.

        Raises:
            RunError: an object has no `state_dict`, or one that cannot be stored safely.
        """
        if not self.keeps_checkpoints and self._closer.ranks.leads:
            self.spec.warn_of_unkept(stacklevel=3)
        self._closer.copy_states(objects)

    def restore(self, **objects: Stateful) -> int:
        """Resume from the latest checkpoint: states, random streams and history; epochs are reported anew.

        In a process group every rank calls it, and resumes from what the first has stored.

        Returns:
            The number of epochs already done; 0 for a fresh run, which does not change.

        Raises:
            RunError: an epoch has begun already, or the checkpoint lacks one of the objects.
        """
        return self._closer.resume(objects)

    def resume_record(self) -> int:
        """Resume after the last epoch on disk, for an engine that keeps its state itself; see `restore`.

        Returns:
            The number of epochs already done.

        Raises:
            RunError: an epoch has begun already.
        """
        return self._closer.resume({}, keeps_state=True)

    def export_per_user(self) -> None:
        """Write the values of each user at the picked epoch to `per_user.csv`; no directory, no file."""
        self._artifacts.users.export()

    def export_examples(self) -> None:
        """Write the examples of the picked epoch to `examples.jsonl`; no directory, no file."""
        self._artifacts.examples.export()

    def close(self) -> None:
        """End the run: an epoch that is still open is measured and reported as the last."""
        try:
            if self._closer.state is RunState.OPEN:
                self._closer.close_epoch(final=True)
            self._closer.end_loggers(complete=self.stopped is None)
        finally:
            self._closer.release()
