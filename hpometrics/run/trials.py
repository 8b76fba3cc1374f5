"""Trials: what all trials of a search have in common; each backend runs its trials through it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..exceptions import RunError
from ..loggers.registry import LoggerLike, check_loggers
from ..metrics._device import process
from ..records.epoch_log import Fsync, read_epochs, read_trial
from ..records.trial_record import (
    CHECKPOINTS,
    EpochRecord,
    Exploit,
    TrialRecord,
    TrialState,
    warn_of_other_rows,
    write_trial,
)
from ..selection.trial_attempts import TrialAttempts
from ..space.draws import derive_seed
from ..space.space import Space
from .checkpoint import Checkpoints
from .distributed import Ranks
from .reporter import HoldsLast, ListReporter, Reporter
from .spec import RunSpec, Train, engine_facts
from .trial import attempt, earlier_trial

REPEATS = "repeats"


@dataclass(frozen=True)
class Trials:
    """The settings that all trials of a search share; each backend runs its trials through it.

    Args:
        train: `train(params, run)`.
        spec: what is measured.
        directory: the search's own; trial 7 gets `trials/0007` below it. None keeps nothing on disk.
        seed: trial n is seeded with `derive_seed(seed, n)`; None seeds nothing.
        fsync: see `EpochLog`.
        loggers: see `Run`; a trial without a directory has none.
        repeats: runs of each trial. Repeat r of trial n is seeded with `derive_seed(seed, n, r)`; the value
            of the trial is the mean. Only the epochs of the first repeat are reported to the host, so a
            pruner judges that one alone; a trial that it stops has no other.
        retries: how often, in all, a trial is tried again if a run of it fails. A retry has the same seed,
            and starts from its last checkpoint if `train` restores it.

    Raises:
        RunError: the number of repeats or retries is out of range.
    """

    train: Train
    spec: RunSpec
    directory: Path | None = None
    seed: int | None = None
    fsync: Fsync = "epoch"
    loggers: Sequence[LoggerLike] = ()
    repeats: int = 1
    retries: int = 0
    attempts: TrialAttempts = field(init=False, repr=False)
    _rows: dict[str, int] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self) -> None:
        attempts = TrialAttempts(self.repeats, self.retries, self.spec.bounds, self.spec.unit)
        object.__setattr__(self, "attempts", attempts)

    def directory_of(self, number: int) -> Path | None:
        """Return where a trial's record and checkpoints are."""
        return None if self.directory is None else self.directory / "trials" / f"{number:04d}"

    def epochs_written(self, number: int) -> int:
        """Return how many epochs a trial has on disk, see `epochs_in`."""
        home = self.directory_of(number)
        record = None if home is None else read_trial(home)
        return 0 if home is None or record is None else epochs_in(home, record)

    @property
    def facts(self) -> dict[str, str]:
        """Facts that all trials of a study share, beside its metrics and its space."""
        return {"constraints": self.spec.bounded, "seed": str(self.seed)}

    def seed_of(self, number: int, repeat: int = 0) -> int | None:
        """Return the seed of a repeat of a trial."""
        return None if self.seed is None else derive_seed(self.seed, number, repeat)

    def run(
        self, params: Mapping[str, Any], reporter: Reporter, keep: bool = True
    ) -> tuple[TrialRecord, BaseException | None]:
        """Run the trial that the reporter stands for; without a number, or unless `keep`, nothing is saved.

        An interrupted trial resumes with its current repeat, under the params in force.
        """
        home = self.directory_of(reporter.number) if keep and reporter.number is not None else None
        trial = None if home is None else Ranks().from_first(lambda: _resume_record(home, params))
        host = HoldsLast(reporter) if self.repeats > 1 else None
        spec = self.spec if keep else self.spec.without_checkpoints()
        while True:
            counted = _counted_epochs(home, trial)
            record, error = self._run_one(params, spec, host or reporter, trial, home)
            trial = self.attempts.after(trial, record, counted)
            if trial.repeats and home is not None and process() == 0:
                write_trial(home, trial)
            if trial.state is not TrialState.RUNNING:
                break
        if host is not None and trial.state.trained:
            host.release(trial, *self.spec.optimized, *self.spec.judged)
        self._compare_rows(trial)
        return trial, error

    def _compare_rows(self, trial: TrialRecord) -> None:
        """Warn, once, of a trial that was measured on other validation rows than one before it."""
        if trial.targets is None:
            return
        self._rows.setdefault(trial.targets, trial.number)
        if len(self._rows) != 2 or self._rows[trial.targets] != trial.number:
            return
        (rows, first), *_ = self._rows.items()
        warn_of_other_rows(trial.number, trial.targets, first, rows)

    def _run_one(
        self,
        params: Mapping[str, Any],
        spec: RunSpec,
        host: Reporter,
        trial: TrialRecord | None,
        home: Path | None,
    ) -> tuple[TrialRecord, BaseException | None]:
        """Run the repeat that is next, or the one that has failed; the first one in the trial's directory."""
        repeat = 0 if trial is None else len(trial.repeats)
        number = host.number or 0
        first = repeat == 0
        return attempt(
            self.train,
            params,
            spec,
            host if first else ListReporter(number, params),
            directory=home if first or home is None else home / REPEATS / str(repeat),
            seed=self.seed_of(number, repeat),
            fsync=self.fsync,
            loggers=() if home is None else self.loggers,
            trial=trial if first else None,
            record_after=partial(self.attempts.after, trial) if first else None,
            exploits=() if trial is None else trial.exploits,
        )

    def exploit(self, number: int, first_params: Mapping[str, Any], change: Exploit, donated: Path) -> None:
        """Resume a trial from the state of another, under other params; once for each change.

        Args:
            number: of the trial.
            first_params: the params that it began with.
            change: the exploit.
            donated: see `Checkpoints.adopt`.

        Raises:
            RunError: the search has no directory.
            RecordError: the trial has not begun, or there is no donated checkpoint.
        """
        home = self.directory_of(number)
        trial = None if home is None else earlier_trial(home, first_params)
        if home is None or trial is None:
            raise RunError(
                f"trial {number} has no record, so it cannot continue from another; set directory="
            )
        if any(one.epoch >= change.epoch for one in trial.exploits):
            return
        seed = self.seed_of(number)
        stream = None if seed is None else derive_seed(seed, number, name=f"exploit at {change.epoch}")
        Checkpoints(home / CHECKPOINTS).adopt(change.epoch - 1, donated, stream)
        changed = replace(
            trial, first_params=first_params, exploits=(*trial.exploits, change), params=change.params
        )
        write_trial(home, replace(changed, state=TrialState.INTERRUPTED, reason=None))

    def with_epochs(self, record: TrialRecord) -> TrialRecord:
        """Return a host's record completed by what the trial itself wrote on disk."""
        directory = self.directory_of(record.number)
        written = None if directory is None else read_trial(directory)
        if written is None:
            seed = self.seed_of(record.number) if record.seed is None else record.seed
            return replace(record, seed=seed, threads=record.threads or self.spec.threads)
        return replace(written, state=record.state, reason=record.reason or written.reason)


def _counted_epochs(home: Path | None, trial: TrialRecord | None) -> tuple[EpochRecord, ...]:
    """Return the epochs of the next repeat that an earlier run of it has added to the cost of the trial.

    A run whose process died has added none. The record of the trial itself has those of the first repeat.
    """
    if home is None or trial is None or not trial.repeats:
        return ()
    earlier = read_trial(home / REPEATS / str(len(trial.repeats)))
    return () if earlier is None or earlier.state is TrialState.RUNNING else earlier.epochs


def make_trials(
    train: Train,
    directory: Path | str | None,
    seed: int | None,
    fsync: Fsync,
    loggers: Sequence[LoggerLike],
    facts: Mapping[str, Any],
    params: Mapping[str, Sequence[Any]],
    repeats: int = 1,
    retries: int = 0,
) -> Trials:
    """Create the trials of a search from its arguments and from the facts that `@engine` put on the function.

    `params` are all params of a trial, each with the values it can have; a range has none.

    Raises:
        RunError: the metric is missing, or a number is out of range.
        ConfigError, MissingExtraError: a logger does not exist, or its package is not installed.
        HpometricsError: `train` itself refuses the search.
    """
    settings = {
        **engine_facts(train),
        **{name: fact for name, fact in facts.items() if fact is not None},
    }
    if "metric" not in settings:
        raise RunError("metric= is missing; pass a name, a Metric or Reported(name, direction)")
    home = None if directory is None else Path(directory).absolute()
    check_loggers(loggers, home)
    spec = RunSpec(**settings)
    check_search(train, spec, params)
    return Trials(train, spec, home, seed, fsync, tuple(loggers), repeats, retries)


def check_search(train: Train, spec: RunSpec, params: Mapping[str, Sequence[Any]]) -> None:
    """Call the check of a train function that knows its params, before the first trial.

    The function has a method of this name; a plain function has none.

    Raises:
        HpometricsError: the search would fail in every trial.
    """
    check = getattr(train, "check_search", None)
    if check is not None:
        check(spec, params)


def epochs_in(home: Path, record: TrialRecord) -> int:
    """Return how many epochs the directory of a trial has, those of its repeats included."""
    repeats = [read_epochs(home / REPEATS / str(number)) for number in range(1, len(record.repeats) + 1)]
    return len(record.epochs) + sum(map(len, repeats))


def as_space(space: Space | Mapping[str, Any]) -> Space:
    """Return a space for a space or the mapping that makes one."""
    return space if isinstance(space, Space) else Space(space)


def _resume_record(home: Path, params: Mapping[str, Any]) -> TrialRecord | None:
    """Return the record of a trial that resumes, marked as running."""
    earlier = earlier_trial(home, params)
    if earlier is None or earlier.state.finished:
        return None
    trial = replace(earlier, state=TrialState.RUNNING, reason=None)
    if trial.repeats:
        write_trial(home, trial)
    return trial
