"""Leases on trials: what says in a shared storage who works on which trial, and that it lives.

Workers of one run directory have its locks. Of one elsewhere only the storage tells: its beats go on or do
not, by the clock of whoever looks, so that no two machines need the same time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial

from ..backends.optuna.database import at_once, repeats_turn
from ..backends.optuna.reporter import OptunaReporter
from ..backends.optuna.storage import exclusive_study, storing
from ..backends.optuna.study import (
    BEAT,
    OWNER,
    EpochSender,
    find_trial_id,
    read_user_attributes,
    storage_id,
    tell,
    write_user_attribute,
)
from ..backends.optuna.trial_queue import HeldTrials
from ..exceptions import DiskError
from ..records.epoch_log import EPOCHS_FILE
from ..records.trial_record import TrialRecord
from ..results.run_directory import RunDirectory


class TrialLocks(HeldTrials):
    """The trials of a run directory that this process works on, beside others that see the directory.

    Args:
        directory: of the run.
        total: trials of a higher number are left alone; None takes any.
    """

    shared = False
    """Whether others who do not see the directory work on the same trials."""

    def __init__(self, directory: RunDirectory, total: int | None) -> None:
        super().__init__(directory.locks, total)

    def attend(self, study: optuna.Study) -> None:
        """Take note of the study that the trials are of."""

    def take_orphan(self, number: int) -> bool:
        """Lock a trial that is at work as far as the study knows; False while its worker lives."""
        return self.take(number)

    def begin(self, trial: Trial) -> OptunaReporter:
        """Give the host that the run of a taken trial reports to."""
        return OptunaReporter(trial, keeps_panel=False)  # the record has it, and a database takes its time

    def is_lost(self, trial: Trial) -> bool:
        """Say whether somebody else has taken a trial that this process works on."""
        return False

    def tell(self, study: optuna.Study, trial: Trial, record: TrialRecord) -> bool:
        """Tell the study how a trial ended; False, and nothing is told, if somebody else has taken it."""
        tell(study, trial, record)
        return True

    def pause(self) -> None:
        """Wait before asking again whether a trial has become free; where nobody else is, none will."""

    def close(self) -> None:
        """Stop what goes on beside the trials."""


_GRACE = 4  # beats


@dataclass
class _Held:
    """A trial that this process works on."""

    trial_id: int
    heard: float = field(default_factory=time.monotonic)
    beats: int = 0
    lost: bool = False


class TrialLeases(TrialLocks):
    """Locks on trials that others may work on who see the storage and not this directory.

    A trial has an owner: a process and its home, the run directory. One whose owner is of this home is free
    as soon as its lock is; of another home, when its owner was not heard of for four beats. Who has lost a
    trial in that way, as it slept or was cut off, notices before it tells how the trial ended. Of several who
    see at once that a trial is free one takes it: the study is locked meanwhile. Behind a proxy, which cannot
    be locked, two may train it; one of them tells.

    Args:
        directory: of the run.
        total: see `TrialLocks`.
        interval: seconds between two beats.
    """

    shared = True

    def __init__(self, directory: RunDirectory, total: int | None, interval: float) -> None:
        super().__init__(directory, total)
        self._directory, self._interval = directory, interval
        self._me = [uuid4().hex[:8], directory.home_id()]
        self._leases: dict[int, _Held] = {}
        self._seen: dict[int, tuple[object, float]] = {}
        self._over = Event()
        self._pulse: Thread | None = None

    def attend(self, study: optuna.Study) -> None:
        """Take note of the study that the trials are of."""
        self._study = study

    @repeats_turn
    def take_orphan(self, number: int) -> bool:
        """Lock a trial that is at work as far as the study knows; False while its worker lives."""
        if not self.take(number):  # its process is of this home; the storage need not be asked
            return False
        owned = False
        try:
            with exclusive_study(self._study):
                trial_id = self._id_of(number)
                owned = self._is_free(number, trial_id) and self._own(trial_id)
        finally:
            if not owned:
                self.release(number)
        return owned

    def begin(self, trial: Trial) -> OptunaReporter:
        """Become the owner of a taken trial, and give the host that its run reports to."""
        held = _Held(storage_id(trial))
        try:
            trial.set_user_attr(OWNER, self._me)
        except UpdateFinishedTrialError:  # taken, and ended, before it had an owner
            held.lost = True
        self._leases[trial.number] = held  # from now on a beat takes a trial without this owner for lost
        if self._pulse is None:
            self._pulse = Thread(target=self._beat, daemon=True)
            self._pulse.start()
        path = self._directory.trial(trial.number) / EPOCHS_FILE
        return SharedReporter(trial, EpochSender(trial, path, self._me[0]), self)

    def is_lost(self, trial: Trial) -> bool:
        """Say whether somebody else has taken a trial that this process works on."""
        held = self._leases[trial.number]
        if time.monotonic() - held.heard > self._interval * _GRACE / 2:
            self._look(held)
        return held.lost

    @repeats_turn
    def tell(self, study: optuna.Study, trial: Trial, record: TrialRecord) -> bool:
        """Tell the study how a trial ended; False, and nothing is told, if somebody else has taken it."""
        held = self._leases[trial.number]
        with exclusive_study(study):
            self._look(held)
            try:
                return not held.lost and super().tell(study, trial, record)
            except UpdateFinishedTrialError:  # behind a proxy, between the look and the word
                return False

    def release(self, number: int) -> None:
        """Give a trial up."""
        self._leases.pop(number, None)
        super().release(number)

    def close(self) -> None:
        """Stop the beats."""
        self._over.set()
        if self._pulse is not None:
            self._pulse.join()

    def pause(self) -> None:
        """Wait before asking again whether a trial has become free."""
        self._over.wait(min(1.0, self._interval / 2))

    def _is_free(self, number: int, trial_id: int) -> bool:
        """Say whether the owner of a trial is of this home, which has its lock, or was long not heard of."""
        attributes = self._attributes(trial_id)
        owner = attributes.get(OWNER)
        if owner is not None and owner[1] == self._me[1]:
            return True
        sign = (owner, attributes.get(BEAT))
        known, since = self._seen.get(number, (None, 0.0))
        if known != sign:
            self._seen[number] = (sign, time.monotonic())
            return False
        return time.monotonic() - since >= _GRACE * self._interval

    def _own(self, trial_id: int) -> bool:
        """Become the owner of a trial that was free; False if it has just ended."""
        try:
            write_user_attribute(self._study, trial_id, OWNER, self._me)
        except UpdateFinishedTrialError:
            return False
        return True

    def _id_of(self, number: int) -> int:
        return find_trial_id(self._study, number)

    def _attributes(self, trial_id: int) -> Mapping[str, Any]:
        return read_user_attributes(self._study, trial_id)

    def _look(self, held: _Held) -> None:
        if self._attributes(held.trial_id).get(OWNER) == self._me:
            held.heard = time.monotonic()
        else:
            held.lost = True

    def _beat(self) -> None:
        while not self._over.wait(self._interval):
            for held in list(self._leases.values()):
                try:
                    with storing(), at_once():
                        self._beat_once(held)
                except DiskError:
                    continue  # the run of the trial meets the same, and says it
                except UpdateFinishedTrialError:
                    continue  # it has just ended

    def _beat_once(self, held: _Held) -> None:
        self._look(held)
        if not held.lost:
            held.beats += 1
            write_user_attribute(self._study, held.trial_id, BEAT, held.beats)


class SharedReporter(OptunaReporter):
    """Reports a run to a trial in a storage that others share, with the whole record of each epoch.

    Args:
        trial: a taken one.
        epochs: sends the record.
        leases: on the trial.
    """

    def __init__(self, trial: Trial, epochs: EpochSender, leases: TrialLeases) -> None:
        super().__init__(trial)
        self._lease_of, self._epochs, self._leases = trial, epochs, leases

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Report an epoch; a run whose trial is another's by now is stopped.

        Raises:
            optuna.TrialPruned: the pruner says so, or the trial is lost.
            DiskError: the study cannot be written.
        """
        with storing():
            if self._leases.is_lost(self._lease_of):
                raise self._taken()
        try:
            with storing():
                self._epochs.send()
            super().report(epoch, value, picked, values, final)
        except UpdateFinishedTrialError:
            raise self._taken() from None

    def _taken(self) -> optuna.TrialPruned:
        return optuna.TrialPruned(f"another worker has taken trial {self.number}")
