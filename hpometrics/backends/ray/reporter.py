"""The reporter of a run to its session of Ray Tune or Ray Train, and the checkpoints that go with it."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

import ray.train
from ray import tune
from ray.air.constants import TRAINING_ITERATION
from ray.tune.result import TIME_TOTAL_S

from ...direction import MINIMIZE, Direction
from ...exceptions import DirectionError, RunError
from ...records.epoch_log import EPOCHS_FILE, read_epochs
from ...records.trial_record import EpochRecord, TrialRecord, place_text
from ...run.reporter import Pause
from ...selection.rules import format_judgment, judgeable
from ._internals import in_train_worker, metric_modes
from .session import (
    CHECKPOINT_SCORE,
    EPOCH,
    EPOCHS,
    FINAL,
    FULL,
    JUDGED,
    PICKED,
    PICKED_EPOCH,
    STEP,
    TAKEN,
    UNJUDGED,
    VALUE,
    VALUES,
    VOID,
    flat,
)

_WORST = 1e300  # far from the largest float, so that means of it stay finite
_TASK = re.compile(r"^(\w+:)?[^/()]+/")  # of the name of a value, behind its split


class CheckpointTransfer:
    """The checkpoint of the open epoch, until Tune has it, and the one that Tune has for a restored trial.

    Tune copies the folder of a checkpoint to its storage before a report returns. The folder has what the
    directory of a run would have: `epoch-0003.pt`, and the epochs so far, which a restored run follows.

    Args:
        latest: returns the checkpoint from which a restored trial continues.

    Attributes:
        done: the number of epochs up to the checkpoint of a restored trial; Tune has their reports.
        score: the score of the checkpoint of the open epoch, see `CHECKPOINT_SCORE`; None if it has none.
    """

    def __init__(self, latest: Callable[[], tune.Checkpoint | None] = tune.get_checkpoint) -> None:
        self._latest = latest
        self.done = 0
        self.score: int | None = None
        self._lines: list[str] = []
        self._folder: TemporaryDirectory[str] | None = None

    def append(self, record: EpochRecord) -> None:
        """Add an epoch that has closed."""
        self._lines.append(record.to_line())

    def folder(self, picked: bool) -> Path:
        """Return a new folder for the checkpoint of the last epoch.

        Args:
            picked: whether that is the picked epoch at present.
        """
        self._clear()
        self.score = len(self._lines) if picked else 0
        self._folder = TemporaryDirectory(prefix="hpometrics-")
        home = Path(self._folder.name)
        (home / EPOCHS_FILE).write_text("".join(f"{line}\n" for line in self._lines), encoding="utf8")
        return home

    @contextmanager
    def handed_over(self) -> Iterator[tune.Checkpoint | None]:
        """Yield the checkpoint for a report, None if the epoch has none; delete the copy afterwards."""
        try:
            folder = self._folder
            yield None if folder is None else tune.Checkpoint(folder.name)
        finally:
            self._clear()

    @contextmanager
    def received(self) -> Iterator[tuple[Path, tuple[EpochRecord, ...]] | None]:
        """Yield a folder with the checkpoint from which the trial continues, and the epochs up to it."""
        checkpoint = self._latest()
        if checkpoint is None:
            yield None
            return
        with checkpoint.as_directory() as folder:
            epochs = read_epochs(Path(folder))
            self.done, self._lines = len(epochs), [record.to_line() for record in epochs]
            yield Path(folder), epochs

    def _clear(self) -> None:
        self.score = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


class StoppedByTune(SystemExit):
    """Tune has stopped this trial: the scheduler's decision, or the end of the experiment."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = 0  # any other code is an error to Tune


class PausedByTune(Pause):
    """Tune has paused this trial, which continues in another process: neither process nor trial ends."""


@dataclass(frozen=True)
class HandedOn:
    """How a member of a population hands on its state: with the report of every so many epochs.

    Args:
        interval: the epochs between two reports with a state.
        checkpoint_of: returns the path of the state at the end of an epoch, if it was kept.
        reported: the number of epochs that were reported before the member was paused.

    Attributes:
        needs_all: whether Tune needs a report of an epoch in which the metric was not measured, too.
    """

    needs_all: ClassVar[bool] = True
    interval: int
    checkpoint_of: Callable[[int], Path | None]
    reported: int = 0

    @contextmanager
    def after(self, epoch: int) -> Iterator[Any]:
        """Yield the state at the end of an epoch as a checkpoint of Tune; None if none is handed on.

        Raises:
            RunError: the state is needed and was not kept.
        """
        if (epoch + 1) % self.interval:
            yield None
            return
        path = self.checkpoint_of(epoch)
        if path is None:
            raise RunError(
                f"a population passes its state on after every {self.interval} epochs, but epoch {epoch} "
                "saved none: call run.checkpoint(model=model, ...) in it, and run.restore before the loop"
            )
        with TemporaryDirectory() as folder:
            shutil.copy(path, folder)
            yield tune.Checkpoint.from_directory(folder)


@dataclass(frozen=True)
class Resumable:
    """How a trial whose resources may change continues: from the checkpoint of its latest epoch.

    Args:
        checkpoint_of: see `HandedOn`.
        reported: the number of epochs that were surely reported before: all on disk but the last.
    """

    needs_all: ClassVar[bool] = False
    checkpoint_of: Callable[[int], Path | None]
    reported: int = 0

    @contextmanager
    def after(self, epoch: int) -> Iterator[None]:
        """Check that an epoch has a checkpoint; Tune, which may pause the trial now, gets none.

        Raises:
            RunError: it has none.
        """
        if self.checkpoint_of(epoch) is None:
            raise RunError(
                "a trial whose resources change continues from the state of its latest epoch, but epoch "
                f"{epoch} saved none: call run.checkpoint(model=model, ...) in every epoch, and "
                "run.restore before the loop"
            )
        yield None


class TrainReports:
    """The reports of a worker of Ray Train: all ranks make each at once, with the values of the first.

    Args:
        checkpoints: has the checkpoint of each report.
    """

    def __init__(self, checkpoints: CheckpointTransfer) -> None:
        self._checkpoints = checkpoints
        self._waiting: list[Mapping[str, Any]] = []

    def add(self, values: Mapping[str, Any]) -> None:
        """Add a report, which waits for the other ranks."""
        self._waiting.append(values)

    def counterpart(self) -> Callable[[], None] | None:
        """Return what each other rank calls while the first calls `send`; None if no report waits."""
        return partial(_report_nothing, len(self._waiting)) if self._waiting else None

    def send(self) -> None:
        """Make the reports that wait."""
        waiting, self._waiting = self._waiting, []
        for values in waiting:
            with self._checkpoints.handed_over() as state:
                ray.train.report(dict(values), checkpoint=state)


def _report_nothing(times: int) -> None:
    for _ in range(times):
        ray.train.report({})


def _lent_gpus() -> float | None:
    """Return the GPUs that Ray has assigned to this actor; None outside of one."""
    context = ray.get_runtime_context() if ray.is_initialized() else None
    if context is None or context.get_actor_id() is None:
        return None
    resources: dict[str, float] = context.get_assigned_resources()  # type: ignore[no-untyped-call]
    return resources.get("GPU", 0.0)


class TuneReporter:
    """Reports a run to the Ray Tune session it runs in, one report per epoch.

    A report has each measured value under its own name, such as `roc_auc`; `epoch`, from 0, and
    `picked_epoch`; and, for Tune, `picked`, the picked value so far, from which the searcher learns, `value`,
    the current one, which the scheduler judges, and `epochs`, how many are done, which it takes for the time.
    A run that counts steps adds `step`, how many are done. Schedulers cannot compare a nan: in a `void`
    epoch, which has no finite value, `value` is worse than all that can be measured. Tune works on each key
    of each report, so a key that would be false or empty is left out: `final`, true if no epoch follows, and
    `void`. A value whose name is one of these keys, or Tune's own, is in `values`.

    A run without a directory sends what `run.checkpoint` copied to Tune with the report of its epoch, and
    `run.restore` reads `tune.get_checkpoint()`. The results have the checkpoints; `Tuner.restore` continues
    after the last. Tune's `CheckpointConfig` decides which are kept; with `num_to_keep=1` and
    `checkpoint_score_attribute="checkpoint_score"` it keeps that of the picked epoch, beside the latest.

    In a worker of Ray Train V2 the reports go to `ray.train.report`, by all ranks at once, and the
    checkpoints come from `ray.train.get_checkpoint()`; a `TuneReportCallback()` of the trainer's `RunConfig`
    passes the values on to Tune. Tune stops such a trial from outside, and no direction is compared.

    Args:
        number: the number of the trial.
        params: its params.
        handed_on: for a member of a population, or a trial whose resources change; Tune pauses both.

    Attributes:
        stopped: whether Tune has stopped the trial; then nothing more is reported.
        gpus: the GPUs that Ray lends its process; None where they are not known.
        joint: in a worker of Ray Train, the reports that wait until all ranks make them; None elsewhere.
        carried: the checkpoints of a run without a directory, on their way to Tune and back to a restored
            trial; None for the member of a population.
    """

    def __init__(
        self,
        number: int | None = None,
        params: Mapping[str, Any] | None = None,
        handed_on: HandedOn | Resumable | None = None,
    ) -> None:
        self.number, self.params = number, params
        self._handed_on = handed_on
        in_train = number is None and in_train_worker()
        latest = ray.train.get_checkpoint if in_train else tune.get_checkpoint
        self.carried = CheckpointTransfer(latest) if handed_on is None else None
        self.joint = TrainReports(self.carried) if in_train and self.carried is not None else None
        self.stops: tuple[type[BaseException], ...] = (StoppedByTune,)
        self.stopped = False
        self.gpus = None if in_train else _lent_gpus()
        self._newest = -1 if handed_on is None else handed_on.reported - 1  # the last epoch that was reported
        self._metric = VALUE
        self._others: list[str] = []
        self._judged: Mapping[str, Direction] = {}
        self._worst = -_WORST
        self._step: int | None = None  # at the end of the epoch that is reported
        self._picked: int | None = None  # the picked epoch then

    def check(self, optimized: Mapping[str, Direction]) -> None:
        """Store the names of the metrics, and compare their directions with those of a Tuner of your own.

        Raises:
            RunError: a report cannot carry a value of that name.
            DirectionError: the `TuneConfig`, the scheduler or the searcher has the other mode.
        """
        for name in optimized:
            if name in TAKEN:
                raise RunError(f"Ray Tune reserves the name {name!r}; log the value under another name")
        self._metric, *self._others = optimized
        direction = optimized[self._metric]
        self._worst = _worst(direction)
        if self.number is None:
            first = self._metric
            keys = {**{name: name for name in optimized}, VALUE: first, PICKED: first}
            _check_modes(lambda key: keys.get(key), optimized)

    def judge_by(self, judged: Mapping[str, Direction]) -> None:
        """Report the value by which a scheduler judges."""
        self._judged = judged

    def at_epoch(self, epoch: int, step: int | None, picked: int | None) -> None:
        """Store the steps done at the end of the epoch whose report follows, and the picked epoch."""
        self._step, self._picked = step, picked

    def check_tracked(self, directions: Mapping[str, Direction]) -> None:
        """Compare the directions of values that are not optimized with those of a Tuner of your own.

        Raises:
            DirectionError: the `TuneConfig`, the scheduler or the searcher has the other mode.
        """
        if self.number is None:
            _check_modes(lambda key: _tracked_name(key, directions), directions)

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Report one epoch; one that was reported before a retry of the run is not reported again.

        An epoch in which the metric was not measured is not reported, and no scheduler judges it, unless it
        is the last one or that of a member of a population.

        Raises:
            StoppedByTune: Tune has stopped the trial.
            PausedByTune: Tune has paused it, a member of a population.
            RunError: such a member has no state to hand on.
        """
        if self.stopped:  # Tune no longer reads reports: another one would wait for ever
            raise self._stop(f"before {place_text(epoch, self._step)}")
        unmeasured = math.isnan(value) and self._metric not in values
        repeated = epoch <= self._newest or (self.carried is not None and epoch < self.carried.done)
        needed = final or (self._handed_on is not None and self._handed_on.needs_all)
        if repeated or (unmeasured and not needed):
            return
        self._newest = epoch
        void = not math.isfinite(value)
        report: dict[str, Any] = flat(values) | {PICKED: picked, **self._place(epoch)}
        report |= {name: values.get(name, math.nan) for name in self._others}
        report |= {self._metric: value, VALUE: self._worst if void else value}
        report |= {key: fact for key, fact in ((FINAL, final), (VOID, void)) if fact}
        report |= _judgment(values, self._judged)
        if self.carried is not None and self.carried.score is not None:
            report[CHECKPOINT_SCORE] = self.carried.score
        if self.joint is not None:
            self.joint.add(report)
            return
        try:
            with self._state_after(epoch, final) as state:
                tune.report(report, checkpoint=state)
        except SystemExit as stop:
            self.stopped = True
            why = format_judgment(values, self._judged, value)
            raise self._stop(f"after {place_text(epoch, self._step)} {why}", final) from stop

    def _place(self, epoch: int) -> dict[str, int]:
        """Return the keys of a report that say which epoch it is of, and how much is done."""
        place = {EPOCH: epoch, PICKED_EPOCH: self._picked, EPOCHS: epoch + 1, STEP: self._step}
        return {key: number for key, number in place.items() if number is not None}

    def _state_after(self, epoch: int, final: bool) -> AbstractContextManager[tune.Checkpoint | None]:
        """Return the checkpoint that Tune gets with the report of an epoch."""
        if self.carried is not None:
            return self.carried.handed_over()
        return nullcontext() if self._handed_on is None or final else self._handed_on.after(epoch)

    def _stop(self, when: str, final: bool = False) -> BaseException:
        if self._handed_on is not None and not final:
            return PausedByTune(f"Tune paused trial {self.number} {when}")
        return StoppedByTune(f"Tune stopped trial {self.number} {when}")

    def give_up(self, reason: str) -> None:
        """Report that this process can write no more records; the search then takes no further trial.

        Tune needs the keys that it judges by in every report; the epoch is one that it has already.
        """
        if self.stopped:
            return
        judged: dict[str, Any] = dict.fromkeys(self._others, math.nan) | _judgment({}, self._judged)
        judged |= {PICKED: self._worst, **self._place(self._newest), VOID: True}
        with suppress(SystemExit):  # a scheduler may stop the trial
            tune.report({self._metric: self._worst, VALUE: self._worst, **judged, FULL: reason})


RayReporter = TuneReporter


def earlier_reports(
    record: TrialRecord, metric: str, direction: Direction, judged: Mapping[str, Direction]
) -> list[dict[str, Any]]:
    """Return the reports by which a scheduler would have judged a trial that has ended; see `TuneReporter`.

    Args:
        record: the trial with its epochs.
        metric: the metric that is optimized, the first of several.
        direction: of it.
        judged: see `RunSpec`.
    """
    reports: list[dict[str, Any]] = []
    seconds = 0.0
    for one in record.epochs:
        seconds += one.seconds
        values, value = judgeable(one, (metric, *judged)), one.number(metric)
        judgment = _judgment(values, judged)
        if metric not in values or UNJUDGED in judgment:
            continue
        place = {EPOCH: one.epoch, EPOCHS: one.epoch + 1, TRAINING_ITERATION: len(reports) + 1}
        place |= {} if one.step is None else {STEP: one.step}
        value = value if math.isfinite(value) else _worst(direction)
        reports.append({**flat(values), **place, TIME_TOTAL_S: seconds, VALUE: value, **judgment})
    return reports


def _judgment(values: Mapping[str, float], judged: Mapping[str, Direction]) -> dict[str, Any]:
    """Return the keys of a report by which a scheduler judges."""
    report: dict[str, Any] = {} if judged.keys() <= values.keys() else {UNJUDGED: True}
    if len(judged) == 1:
        [(name, direction)] = judged.items()
        value = values.get(name, math.nan)
        report[JUDGED] = value if math.isfinite(value) else _worst(direction)
    return report


def _worst(direction: Direction) -> float:
    return _WORST if direction is MINIMIZE else -_WORST


def _tracked_name(key: str, directions: Mapping[str, Direction]) -> str | None:
    """Return the name of the value under a key such as `log_loss`, that of all tasks for one task."""
    name = key.removeprefix(f"{VALUES}/")
    if name in directions:
        return None if key in TAKEN else name
    of_all_tasks = _TASK.sub(r"\1", name)
    return of_all_tasks if of_all_tasks in directions else None


def _check_modes(name_of: Callable[[str], str | None], directions: Mapping[str, Direction]) -> None:
    """Compare the directions of metrics with the modes of the Tuner of this trial.

    Args:
        name_of: returns the name of the metric whose value a key of the reports is.
        directions: by name.

    Raises:
        DirectionError: they differ; the message has both.
    """
    for setting in metric_modes():
        name = None if setting.metric is None else name_of(setting.metric)
        if name is None or setting.mode is None:
            continue
        direction = directions[name]
        if Direction.parse(setting.mode) is not direction:
            raise DirectionError(
                f"{name} must be {direction.value}d, but the {setting.name} has mode={setting.mode!r} for "
                f"{setting.metric!r}; give mode={direction.mode!r}"
            )


def checkpoint_of(directory: Path | None, epoch: int | None) -> Path | None:
    """Return the checkpoint of a worker that Tune ended before it could write its record."""
    return None if directory is None else checkpoint_in(directory / "checkpoints", epoch)


def checkpoint_in(folder: Path, epoch: int | None) -> Path | None:
    """Return the checkpoint of an epoch in a folder, if there is one."""
    path = folder / f"epoch-{-1 if epoch is None else epoch:04d}.pt"
    return path if path.exists() else None
