"""Run: the door between measuring and searching. One training run: epochs, updates, reports, checkpoints."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch

from ..exceptions import LoggerError, MetricInputError, NoFiniteValueError, RunError
from ..loggers.registry import LoggerLike
from ..metrics.registry.scope import VALIDATION
from ..metrics.retrieval.per_user import PerUser
from ..records.epoch_log import Fsync
from ..records.trial_record import EpochRecord, Reading, number_in, numbers_of
from .checkpoint import Stateful, put_states, set_random_states
from .epoch_closer import Closing
from .example_selection import Line
from .reporter import DirectedReporter, as_reporter
from .spec import RunSpec


class Run(Closing):
    """One training run with one set of params.

    Args:
        host: where the values go: an Optuna trial, `TuneReporter()`, any `Reporter`; None keeps them here.
            In a process group the first rank's is told; the others have none, `Run(None, ...)`.
        spec: what is measured; or its facts, as in `Run(trial, metric="roc_auc", output=Binary())`.
        directory: the trial's own: `epochs.jsonl` and checkpoints; None writes nothing. The first rank
            alone writes.
        params: what the run was given, for whoever asks `run.params`.
        fsync: see `EpochLog`.
        loggers: what follows the run beside its record: `table`, `tensorboard`, or an `EpochLogger`. With a
            directory, `.trainstats` is always written.

    Attributes:
        ended: whether an epoch was reported as the final one.
        stopped: the host's stop, had there been epochs left.

    Raises:
        ObjectiveError: the host searches in another direction than the metric's.
        ConfigError, MissingExtraError: a logger does not exist, or its package is not installed.

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
        fsync: Fsync = "epoch",
        loggers: Sequence[LoggerLike] = (),
        **facts: Any,
    ) -> None:
        if (spec is None) == (not facts):
            raise RunError("a run takes spec=, or the facts of one: metric=, output=, ...; one of the two")
        settled = spec or RunSpec(**facts)
        reporter = as_reporter(host)
        reporter.check(settled.optimized)
        if isinstance(reporter, DirectedReporter):
            reporter.check_tracked(settled.directions)
        home = None if directory is None else Path(directory)
        super().__init__(settled, reporter, params, home, fsync, loggers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if error is None:
            self.close()
            return
        try:
            self._end_loggers(complete=self.ended and isinstance(error, self.stops))
        except LoggerError as err:  # what ended the run comes first
            error.add_note(str(err))
        self._release()

    @property
    def history(self) -> tuple[EpochRecord, ...]:
        """Every closed epoch, in order, those before a restart included."""
        return tuple(self._progress.history)

    @property
    def value(self) -> float:
        """The metric's value at the picked epoch. Outside the loop an epoch still open is closed first.

        Of several metrics it is that of the first; `scores` has all.

        Raises:
            NoFiniteValueError: no epoch has a finite value (or, `at="last"`, the last one has none).
        """
        if self._open and not self._looping:
            self._close_epoch(final=True)
        if not math.isfinite(self._progress.value):
            raise NoFiniteValueError(self._progress.why_no_value())
        return self._progress.value

    @property
    def scores(self) -> tuple[float, ...]:
        """The value of each optimized metric at the picked epoch, as Optuna takes several objectives.

        Raises:
            NoFiniteValueError: see `value`.
        """
        others = list(self.spec.optimized)[1:]
        return (self.value, *(number_in(self.values, name) for name in others))

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
        return self._traces.users.table

    @property
    def examples(self) -> tuple[Line, ...]:
        """The worst and best examples of the picked epoch, a mapping each; none unless they are tracked."""
        return self._traces.examples.lines

    @property
    def best_checkpoint(self) -> Path | None:
        """The state at the end of the picked epoch, if one was kept."""
        return self._traces.checkpoint_of(self._progress.picked)

    def epochs(self, n: int | None = None) -> Generator[int]:
        """Count the epochs from 0, or from where a restored run goes on; measure and report the end of each.

        A trainer that owns its loop advances it by hand, see `integrations.trainer_loop`.

        Args:
            n: epochs in all; the spec's `epochs` caps it, and is taken where `n` is not given.

        Raises:
            RunError: there is neither, or it is no whole number of at least 1.
            BaseException: the host's stop, out of the loop.
        """
        if n is not None and (isinstance(n, bool) or not hasattr(n, "__index__") or n < 1):
            raise RunError(f"run.epochs(n) takes a whole number of at least 1, got {n!r}")
        given = [limit for limit in (n, self.spec.epochs) if limit is not None]
        if not given:
            raise RunError("how many epochs? run.epochs(n), or epochs= with the metric")
        return self._loop(min(given))

    def update(self, *positional: Any, split: str = VALIDATION, examples: Any = None, **tensors: Any) -> None:
        """Add a batch of model outputs to this epoch: `run.update(logits=model(x), target=y)`.

        Args:
            positional: nothing; which output a tensor is, is said by its keyword.
            split: `validation` steers the search, `train` and `test` are measured beside it.
            examples: a list with one entry per row, an id or a text, that stands beside the row in
                `examples.jsonl`; not read unless examples are tracked.
            tensors: see `MetricCollection.update`; `feature="intent"` says which of several outputs the batch
                is of, `task="convai2"` which task, or one task per row.

        Raises:
            MetricInputError: the batch is not what the metrics read. An output that is not finite raises
                nothing: it makes this epoch nan, with the reason.
            RunError: the last epoch is over.
        """
        if positional:
            raise MetricInputError(
                "a run reads an output by the keyword that says what it is, as in run.update(logits=..., "
                f"target=...); got {len(positional)} without one"
            )
        self._begin("update")
        self._panels.update(split, tensors, examples)

    @property
    def updated(self) -> bool:
        """Whether this process has added a batch of validation outputs to the open epoch."""
        return self._panels.updated

    @property
    def targets(self) -> str | None:
        """The number of rows of the first validation pass with a digest of their targets; None before one.

        It does not depend on the order of rows or their batches. Trials of a search that differ in it were
        measured on other rows.
        """
        return self._panels.targets

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
        return numbers_of(self._panels.measure())

    def log(self, **values: Any) -> None:
        """Record values of this epoch as they are, one per name.

        To average a value over batches, use `record_global` with an `AverageMetric`.
        In a process group the value is that of the first rank that has one.

        Raises:
            RunError: a value is not a number, its name was logged in this epoch already or is one the run
                measures itself, or the last epoch is over.
        """
        if not self._looping:
            self._check_not_over("log")
        self._panels.log(values)
        self._open = True

    def undefined(self, **reasons: str) -> None:
        """Record that values of this epoch are undefined and why: each is nan with its reason.

        `run.undefined(recall="no row is positive")` stands where `run.log(recall=...)` would.

        Raises:
            RunError: a reason is not a text, the name was logged in this epoch already or is one the run
                measures itself, or the last epoch is over.
        """
        if not self._looping:
            self._check_not_over("undefined")
        self._panels.undefined(reasons)
        self._open = True

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
        what `update` is told (`exps`, `tps` ...); `hpometrics metrics list` says what each is.

        Args:
            model: whose gradients are measured.
            optimizer: whose steps are counted.
            max_norm: clip the gradients to this norm before each step, as `torch.nn.utils.clip_grad_norm_`
                does (do not call it too), and record `clip`; `gnorm` is that from before.
            name: of this watch, if it is not the only one: its values are `name.gnorm` ...
            every: measure gradients at the first of so many steps; 1 measures each, and so sees each that is
                not finite. To read them at each step is several per cent of the shortest ones; where they
                are clipped, each step reads them anyway.

        Raises:
            RunError: a watch of that name is there already, or `max_norm` or `every` is out of range.
        """
        watch = self._panels.watches.add(model, optimizer, max_norm, name, every)
        if self._progress.history:
            watch.go_on_after(self._progress.history[-1].values)

    def checkpoint(self, **objects: Stateful) -> None:
        """Copy the state of each object now; it is written when the epoch closes.

        Without a directory nothing is copied, except on Ray, where Tune gets the state with the report of the
        epoch. A RuntimeWarning says so once for a run or a search, unless it has `checkpoints="none"`.

        Raises:
            RunError: an object has no `state_dict`, or one that cannot be stored safely.
        """
        if not self._keeps and self._ranks.leads and self.spec.warns_of_unkept():
            warnings.warn(
                "run.checkpoint keeps nothing: the run has no directory; give directory= to the run or its "
                'objective, or checkpoints="none" if nothing must be kept',
                RuntimeWarning,
                stacklevel=2,
            )
        self._traces.hold(objects)
        self._holding = self._keeps

    def restore(self, **objects: Stateful) -> int:
        """Go on after the latest checkpoint: states, random streams and history; epochs are reported anew.

        In a process group every rank calls it, and goes on from what the first has stored.

        Returns:
            The number of epochs already done; 0 on a fresh run, which is left as it is.

        Raises:
            RunError: an epoch has begun already, or the checkpoint lacks one of the objects.
        """
        if self._progress.history or self._open:
            raise RunError("restore comes before the first epoch")
        stored, decision = self._ranks.from_first(self._resume)
        if decision is None:
            return 0
        put_states(objects, stored.states, stored.adopted)
        if not self._ranks.leads:
            for record in stored.done:
                self._take_again(record)
        self._panels.watches.go_on_after(stored.done[-1].values)
        self._traces.go_on(self._progress.picked)
        random = self._ranks.own_of(stored.random)
        if random is not None:
            set_random_states(random)
        self._report_jointly(decision)
        self._obey(decision)
        return len(stored.done)

    def export_per_user(self) -> None:
        """Leave the values of each user at the picked epoch as `per_user.csv`; no directory, no file."""
        self._traces.users.export()

    def export_examples(self) -> None:
        """Leave the examples of the picked epoch as `examples.jsonl`; no directory, no file."""
        self._traces.examples.export()

    def close(self) -> None:
        """End the run: an epoch that is still open is measured and reported as the last."""
        try:
            if self._open:
                self._close_epoch(final=True)
            self._end_loggers(complete=self.stopped is None)
        finally:
            self._release()

    def _loop(self, total: int) -> Generator[int]:
        self._began = time.perf_counter()
        self._looped, self._total = True, total
        self._check_not_stopped()
        self._panels.watches.restart()
        self._over = len(self._progress.history) >= total or self.finished
        while not self._over:
            self._looping = True
            try:
                yield len(self._progress.history)
            except GeneratorExit:  # an error in the loop, or a break
                self._keep_picked()
                raise
            finally:  # a break ends the loop too; what it leaves open, `value` or `close` will close
                self._looping = False
            self._close_epoch(final=len(self._progress.history) + 1 >= total)
