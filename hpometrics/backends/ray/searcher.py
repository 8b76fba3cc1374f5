"""A searcher of Ray Tune over an Optuna study, whose samplers, conditions, points and storage it uses."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import optuna
from optuna.trial import Trial
from ray.tune.result import TIME_TOTAL_S
from ray.tune.search import Searcher

from ...direction import Direction
from ...records.epoch_log import read_trial
from ...records.recovery import Losses
from ...records.trial_record import (
    EpochRecord,
    TrialRecord,
    TrialState,
    number_in,
    numbers_of,
    place_text,
    write_trial,
)
from ...selection.limits import Limits
from ...selection.rules import SECONDS, At, Constraint, CostUnit, format_judgment, violation_of
from ...selection.selection import Picker
from ...selection.trial_attempts import apply_constraints
from ...space.space import Space
from ..live_table import SearchProgress
from ..optuna._internals import local_copy_of
from ..optuna.study import study_records, tell
from ..optuna.trial_queue import claim, reclaim_or_claim
from .reporter import checkpoint_of
from .session import EPOCHS, FINAL, FULL, GIVEN, NUMBER, PARAMS, PICKED, STEP, VALUE, VOID, measured


class StudySearcher(Searcher):
    """Searches with an Optuna study.

    The study gets the picked value of a run; a stopped trial is pruned, a failed one has failed with its
    reason.

    Args:
        study: a study with waiting trials (see `reserve`).
        space: the space of the trials' params.
        optimized: the direction of each metric that is optimized, by name.
        at: the epoch whose value counts for a run.
        directory_of: returns the directory with the record of a trial, if this process can see one.
        take: see `claim` and `reclaim`; with it, trials of dead workers are resumed first, and one whose
            worker ends without a result stays running, to be reclaimed.
        constraints: the constraints of a picked epoch.
        losses: has the reason why a trial failed that has lost its workers.
        unit: the unit of what a trial costs.
        limits: no trial starts after they are reached; those at work may bring a new best, and trials of
            dead workers resume.
        following: follows the trials.
        judged: the metrics by which the scheduler judges; by the first that is optimized if there are none.
    """

    def __init__(
        self,
        study: optuna.Study,
        space: Space,
        optimized: Mapping[str, Direction],
        at: At = At.BEST,
        directory_of: Callable[[int], Path | None] | None = None,
        take: Callable[[int], bool] | None = None,
        constraints: Sequence[Constraint] = (),
        losses: Losses | None = None,
        unit: CostUnit = SECONDS,
        limits: Limits | None = None,
        following: SearchProgress | None = None,
        judged: Iterable[str] = (),
    ) -> None:
        self.direction, *self._others = optimized.values()
        super().__init__(metric=PICKED, mode=self.direction.mode)
        self.study, self.space, self.optimized, self.at = study, space, optimized, at
        self._directory_of, self._take, self._constraints = directory_of, take, constraints
        self._reasons = {} if losses is None else losses.reasons
        self._unit, self._limits, self._judged = unit, limits, tuple(judged)
        self._following = following or SearchProgress()
        self._ended: dict[int, TrialRecord] = {}
        self._draws = True
        self._live: dict[str, _Live] = {}

    def suggest(self, trial_id: str) -> Any:
        """Claim the next trial and draw its params; `FINISHED` when there is none."""
        if not self._draws:
            return Searcher.FINISHED
        limits = self._limits
        starts = limits is None or not limits.reached(study_records(self.study, self._ended))
        if self._take is None:
            trial = claim(self.study) if starts else None
        else:
            take = self._take if starts else self._take_begun
            trial, _ = reclaim_or_claim(self.study, self._take_orphan, take)
        if trial is None:
            return Searcher.FINISHED if starts or not self._live else None  # None: Tune asks again
        params = self.space.suggest(trial)
        picker = Picker(self.direction, self.at, others=self._others)
        self._live[trial_id] = _Live(trial, params, picker, self._constraints, list(self.optimized))
        self._following.reach(trial.number)
        return {NUMBER: trial.number, PARAMS: params, **self._changed(trial.number)}

    def on_trial_result(self, trial_id: str, result: Mapping[str, Any]) -> None:
        """Record an epoch after which the trial continues."""
        live = self._live.get(trial_id)
        if live is not None:
            live.add(result)
            live.full = result.get(FULL)
            done = result.get(STEP) or result.get(EPOCHS, 0)
            self._following.reach(live.trial.number, done, result.get(VALUE, math.nan))

    def on_trial_complete(
        self, trial_id: str, result: Mapping[str, Any] | None = None, error: bool = False
    ) -> None:
        """Write the final state of a trial to the study.

        The epoch after which Tune stopped a trial arrives here for the first time; the last epoch of a trial
        that ended by itself arrives a second time.
        """
        live = self._live.pop(trial_id, None)
        if live is None:
            return
        self._following.leave(live.trial.number)
        live.full = (result or {}).get(FULL, live.full)
        if live.full is not None and self._take is not None:
            return  # not a failure of the trial: it stays open until the search is resumed
        again = bool(result) and not live.add(result or {})
        complete = again or bool(result and result.get(FINAL))
        if not (error and self._is_lost(live)):
            record = self._final_record(live, error, complete)
            tell(self.study, live.trial, record)
            self._following.end(record)

    def save(self, checkpoint_path: str) -> None:
        """Write the number in the study of each trial of Tune; all else is in the study."""
        numbers = {trial_id: live.trial.number for trial_id, live in self._live.items()}
        Path(checkpoint_path).write_text(json.dumps(numbers), encoding="utf8")

    def restore(self, checkpoint_path: str) -> None:
        """Restore nothing: the study has its trials, and a sweep that is resumed reclaims them."""

    def __getstate__(self) -> dict[str, Any]:
        # Live trials, locks, the objective and the study, whose URL may name a password, belong to this
        # process. A searcher that Tune reads from an experiment draws no more.
        own: dict[str, Any] = {"_live": {}, "_take": None, "study": None, "_following": SearchProgress()}
        return {**self.__dict__, **own, "_draws": False}

    def _written(self, number: int) -> tuple[Path | None, TrialRecord | None]:
        """Return the directory of a trial, and the record in it."""
        directory = self._directory_of(number) if self._directory_of else None
        return directory, None if directory is None else read_trial(directory)

    def _changed(self, number: int) -> dict[str, Any]:
        """Return the current params and the first ones of a resumed trial, if an exploit has changed them."""
        _, written = self._written(number)
        if written is None or not written.exploits:
            return {}
        return {PARAMS: dict(written.params_at(None)), GIVEN: dict(written.given)}

    def _take_orphan(self, number: int) -> bool:
        ours = any(live.trial.number == number for live in self._live.values())
        return not ours and self._take is not None and self._take(number)

    def _take_begun(self, number: int) -> bool:
        begun = self._written(number)[1] is not None
        return begun and self._take is not None and self._take(number)

    def _is_lost(self, live: _Live) -> bool:
        """Return whether the worker of a claimed trial has written no final state; one that raised has."""
        _, written = self._written(live.trial.number)
        return self._take is not None and (written is None or not written.state.finished)

    def _final_record(self, live: _Live, error: bool, complete: bool) -> TrialRecord:
        record = live.record()
        directory, written = self._written(live.trial.number)
        if written is not None:  # a worker that died has written its seed and start, not its final state
            record = (
                written
                if written.state.finished or not live.epochs
                else replace(
                    written,
                    value=record.value,
                    epoch=record.epoch,
                    epochs=record.epochs,
                    seconds=math.fsum(one.seconds for one in written.epochs) or record.seconds,
                    cost=self._unit.logged_in(record.epochs),
                    params=written.params_at(record.epoch),
                    checkpoint=checkpoint_of(directory, record.epoch),
                )
            )
        if record.ended is None:
            record = replace(record, ended=datetime.now(UTC))
        if error:
            died = "its process died or raised an error; see the error file of Ray's trial"
            reason = record.reason or live.full or self._reasons.get(record.number, died)
            record = replace(record, state=TrialState.FAILED, reason=reason)
        elif not complete and live.epochs:
            last = live.epochs[-1]
            value = last.number(next(iter(self.optimized)))
            why = format_judgment(numbers_of(last.values), self._judged, value)
            place = place_text(last.epoch, last.step)
            reason = f"Tune stopped trial {record.number} after {place} {why}"
            record = replace(record, state=TrialState.PRUNED, reason=record.reason or reason)
        elif record.value is None or not math.isfinite(record.value):
            reason = f"none of its {live.picker.count} epochs has a finite value to {self.direction.value}"
            record = replace(record, state=TrialState.FAILED, reason=record.reason or reason)
        else:
            record = apply_constraints(
                replace(record, state=TrialState.COMPLETE, reason=None), self._constraints
            )
        if directory is not None and written is not None and record.state is not written.state:
            write_trial(directory, record)
        return record


class _Live:
    """A trial of the study that Tune is running."""

    def __init__(
        self,
        trial: Trial,
        params: Mapping[str, Any],
        picker: Picker,
        constraints: Sequence[Constraint],
        optimized: Sequence[str],
    ) -> None:
        self.trial, self.params, self.picker, self._constraints = trial, params, picker, constraints
        self._optimized = optimized
        self.epochs: list[EpochRecord] = []
        self.seconds = 0.0
        self.full: str | None = None  # the reason if its process can write no more

    def add(self, result: Mapping[str, Any]) -> bool:
        """Add an epoch; return whether it was a new one. An epoch without a measurement is not reported."""
        epoch = result.get(EPOCHS, 0) - 1
        newest = self.epochs[-1].epoch if self.epochs else -1
        if epoch <= newest or FULL in result:
            return False
        values = measured(result)
        self.epochs.append(EpochRecord(epoch, values, step=result.get(STEP)))
        self.seconds = float(result.get(TIME_TOTAL_S, 0.0))  # the start of the process included
        value = math.nan if result.get(VOID) else result[VALUE]
        rest = [number_in(values, name) for name in self._optimized[1:]]
        self.picker.add(value, violation_of(self._constraints, values), rest)
        if not rest and epoch not in local_copy_of(self.trial).intermediate_values:
            self.trial.report(value, epoch)
        return True

    def record(self) -> TrialRecord:
        """Return the record of what it has reported."""
        index = self.picker.index
        return TrialRecord(
            number=self.trial.number,
            params=self.params,
            state=TrialState.RUNNING,
            value=None if index is None else self.picker.value,
            epoch=None if index is None else self.epochs[index].epoch,
            epochs=tuple(self.epochs),
            seconds=self.seconds,
        )
