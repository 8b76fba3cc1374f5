"""The reporter of a run to an Optuna trial."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from typing import Any, cast

import optuna
from optuna.pruners import NopPruner
from optuna.trial import BaseTrial, FrozenTrial, Trial, TrialState

from ...direction import Direction
from ...exceptions import HpometricsError
from ...records.trial_record import EpochRecord, Reading, place_text, warn_of_other_rows
from ...selection.rules import judged_text
from ..live_table import SearchProgress
from ._internals import local_copy_of, log_without_traceback
from .pruners import Judge, judged_values, write_judged
from .storage import storage_error, storage_failures, storing
from .study import PANEL, PRUNED, RESULT, ROWS, check_direction, check_study, write_panel


class OptunaReporter:
    """Reports a run to an Optuna trial, one step per epoch counted from 0, and raises `TrialPruned`.

    In a run that counts steps an epoch is what lies between two reports, and Optuna counts these.

    Epochs that the trial already has (it was killed and is resumed, or it is retried) are not reported again;
    after the newest of them the pruner is asked again, and a trial that it had stopped stays stopped.

    Args:
        trial: a trial of `study.optimize`, `study.ask` or `claim`; a `FixedTrial` works too and never stops.
        keeps_panel: whether the values of the picked epoch become attributes of the trial; see `write_panel`.
        following: prints how far the trial is.
    """

    def __init__(
        self, trial: BaseTrial, keeps_panel: bool = True, following: SearchProgress | None = None
    ) -> None:
        self.trial, self._keeps_panel = trial, keeps_panel
        self._following = following or SearchProgress()
        self._number = trial.number  # which Optuna reads from its copy of the trial
        self.number: int | None = self._number
        self._following.reach(self._number)
        self.stops: tuple[type[BaseException], ...] = (optuna.TrialPruned,)
        local = local_copy_of(trial)
        self._reported: set[int] = set(getattr(local, "intermediate_values", ()))
        self._newest = max(self._reported, default=-1)
        self._pruned: int | None = local.user_attrs.get(PRUNED)
        pruner = getattr(getattr(trial, "study", None), "pruner", None)
        self._prunes = type(pruner) is not NopPruner  # which would read the trial and never stop it
        self._steps: dict[int, int] = {}  # done at the end of each epoch, where they are counted
        self._silent = False
        self._optimized: dict[str, Direction] = {}
        self._judge: Judge | None = None

    @property
    def params(self) -> Mapping[str, Any] | None:
        """The params that the trial has drawn so far, in their stored form."""
        return dict(self.trial.params)

    def check(self, optimized: Mapping[str, Direction]) -> None:
        """Refuse metrics that are not those of the trial's study; write them to one that has none.

        Raises:
            DirectionError: the directions differ; the message has both.
            RecordError: the study has trials of another metric.
        """
        self._silent = len(optimized) > 1  # Optuna takes no reports of several objectives
        self._optimized = dict(optimized)
        study = getattr(self.trial, "study", None)
        try:
            if study is not None and self._keeps_panel:
                with storing():
                    check_study(study, optimized)
            elif study is not None:
                check_direction(study, optimized)
        except HpometricsError as err:
            self.refuse(err)
            raise

    @staticmethod
    def refuse(error: Exception) -> None:
        """Keep the traceback of an error out of Optuna's log of the trial: Python prints it as well."""
        log_without_traceback(error)

    def judge_by(self, judged: Mapping[str, Direction]) -> None:
        """Prune by these values; a trial without a study is never stopped.

        Raises:
            ConfigError: the study has no pruner that judges by them.
        """
        if getattr(self.trial, "study", None) is None:
            return
        try:
            self._judge = Judge(cast(Trial, self.trial), judged)
        except HpometricsError as err:
            self.refuse(err)
            raise
        if self._silent:
            self._reported = set(judged_values(local_copy_of(self.trial)))
            self._newest = max(self._reported, default=-1)

    def at_epoch(self, epoch: int, step: int | None, picked: int | None) -> None:
        """Store the steps done at the end of an epoch, which messages and the panel name."""
        if step is not None:
            self._steps[epoch] = step

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Report the current value of an epoch and ask the pruner whether the trial stops.

        Optuna gets no report of several objectives, nor of an epoch in which the metric was not measured: a
        pruner would take nan for the worst value. With `prune_by` the judged values are written beside it.

        Raises:
            optuna.TrialPruned: the pruner stops the trial; never at the final epoch, whose run is complete.
            DiskError: the study cannot be written.
        """
        self._following.reach(self._number, self._steps.get(epoch, epoch + 1), value)
        unmeasured = math.isnan(value) and next(iter(self._optimized), "") not in values
        judge = self._judge
        judged = None if judge is None else judge.values_in(values)
        ignored = judged is None if self._silent else unmeasured
        if ignored or (epoch in self._reported and epoch < self._newest):
            return
        try:
            if epoch not in self._reported:
                if judged is not None:  # first: an epoch that was reported is not written again
                    write_judged(self.trial, epoch, judged)
                if not self._silent:
                    self.trial.report(value, epoch)
                self._reported.add(epoch)
                self._newest = max(self._newest, epoch)
            if final or not (self._pruned == epoch or (self._prunes and self._is_stopped(judged))):
                return
            self.trial.set_user_attr(PRUNED, epoch)  # asha stops a trial only once
        except storage_failures() as err:
            raise storage_error(err) from err
        why = f"at {value:g}" if judged is None else judged_text(judged)
        place = place_text(epoch, self._steps.get(epoch))
        raise optuna.TrialPruned(f"the pruner stopped trial {self.number} after {place} {why}")

    def _is_stopped(self, judged: Mapping[str, float] | None) -> bool:
        """Return whether the pruner stops the trial after an epoch with these judged values."""
        if self._judge is not None:
            return judged is not None and self._judge.stops()
        return self.trial.should_prune()

    def keep_picked(self, epoch: int, values: Mapping[str, Reading], rows: str | None) -> None:
        """Write the values of the picked epoch to the trial when its run ends.

        A study is warned of once where its trials were measured on different validation rows.

        Raises:
            DiskError: the study cannot be written.
        """
        if not self._keeps_panel:
            return
        study = getattr(self.trial, "study", None)
        with storing():
            picked = EpochRecord(epoch, values, step=self._steps.get(epoch))
            write_panel(self.trial, list(self._optimized), picked)
            if study is not None and rows is not None:
                _compare_rows(study, self.trial.number, rows)
        if study is not None and epoch < self._newest:
            warn_of_last_epochs(study, self._optimized)


def _compare_rows(study: optuna.Study, number: int, rows: str) -> None:
    """Write the rows of the first trial to its study; warn of the first trial that has others."""
    first = study.user_attrs.get(ROWS)
    if first is None:
        study.set_user_attr(ROWS, [rows, number])
    elif first[0] != rows and len(first) == 2:  # else it was warned of
        study.set_user_attr(ROWS, [*first, number])
        warn_of_other_rows(number, rows, first[1], first[0])


def warn_of_last_epochs(study: optuna.Study, optimized: Mapping[str, Direction]) -> None:
    """Warn of trials with the value of their last epoch, where ours have that of their best epoch.

    Python shows the same warning once.

    Args:
        study: the study.
        optimized: the direction of each metric that is optimized; of several no epoch is reported.
    """
    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    others = [trial for trial in finished if not {PANEL, RESULT} & trial.user_attrs.keys()]
    direction, *more = optimized.values()
    lower = 0 if more else sum(_ends_below_its_best(trial, direction) for trial in others)
    if lower:
        warnings.warn(
            f"of {len(others)} earlier trials of the study {study.study_name!r}, {lower} have the value of "
            "their last epoch, although an earlier epoch was better. A Run reports its best epoch, so the "
            "values are not comparable. Set at='last', or create another study",
            stacklevel=3,
        )


def _ends_below_its_best(trial: FrozenTrial, direction: Direction) -> bool:
    """Return whether the value of a trial is that of its last epoch, and an earlier one was better."""
    course, value = trial.intermediate_values, trial.value
    if trial.last_step is None or value is None or not math.isclose(value, course[trial.last_step]):
        return False
    return any(direction.better(one, course[trial.last_step]) for one in course.values())
