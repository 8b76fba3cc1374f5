"""The ownership of trials: which process works on which trial, by locks in a run directory or by leases.

Workers of one run directory use the locks in it. A worker elsewhere is visible only through the storage: it
writes heartbeats, and each observer measures their age by its own clock, so machines need not agree on the
time.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, Thread
from typing import Any
from uuid import uuid4

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial

from ..backends.optuna._internals import storage_of, study_id_of, trial_id_of
from ..backends.optuna.database import at_once, repeats_turn
from ..backends.optuna.fresh_study import send_rows
from ..backends.optuna.reporter import OptunaReporter
from ..backends.optuna.storage import exclusive_study, is_lockable, storing
from ..backends.optuna.study import BEAT, OWNER, EpochSender, is_result_of, tell
from ..backends.optuna.trial_queue import TrialFileLocks
from ..exceptions import DiskError
from ..records.epoch_log import EPOCHS_FILE
from ..records.trial_record import TrialRecord, TrialState
from ..results.run_directory import RunDirectory
from ..space.space import Space

_GRACE = 4  # heartbeats


class LocalOwnership(TrialFileLocks):
    """The ownership of trials among processes that share a run directory: a lock file per trial.

    Args:
        directory: the run directory.
        total: trials of this number and above are not taken; None takes any.
        fresh: whether they are the fresh runs of a confirmation, which have locks of their own.
    """

    def __init__(self, directory: RunDirectory, total: int | None, fresh: bool = False) -> None:
        super().__init__(directory.fresh_locks() if fresh else directory.locks, total)

    def bind(self, study: optuna.Study) -> None:
        """Set the study that the trials belong to; locks do not need it."""

    def take_stale(self, number: int) -> bool:
        """Become the owner of a running trial; return False while its worker, which has the lock, lives."""
        return super().take(number)

    def find_record(self, trial: Trial, space: Space) -> TrialRecord | None:
        """Return the record of a stale trial that has none in this run directory; None if it never ran."""
        return None

    def finish(
        self, study: optuna.Study, trial: Trial, record: TrialRecord, rows: Path | None = None
    ) -> bool:
        """Write the result of a trial to the study; return False if another process has taken the trial.

        Args:
            study: the study of the trial.
            trial: an owned trial.
            record: its record.
            rows: the directory whose row values other machines need; None if they need none.
        """
        tell(study, trial, record)
        return True

    def begin(self, trial: Trial) -> OptunaReporter:
        """Return the reporter for the run of an owned trial."""
        return OptunaReporter(trial, keeps_panel=False)  # the record has the values, and databases are slow

    def can_add_slots(self, study: optuna.Study) -> bool:
        """Return whether slots may be added one by one without exceeding the total."""
        return True

    def wait(self) -> bool:
        """Wait for a trial that a process elsewhere may give up; return False if there is no such process."""
        return False

    def close(self) -> None:
        """Stop the threads of this object, if it has any."""


@dataclass
class _Lease:
    """The claim on a trial that this process works on."""

    trial_id: int
    confirmed: float = field(default_factory=time.monotonic)
    beats: int = 0
    lost: bool = False


class LeasedOwnership(LocalOwnership):
    """The ownership of trials among processes that share a storage, but not necessarily a run directory.

    The owner of a trial is a process and its home, the run directory. A trial whose owner has this home is
    free as soon as its lock is free; a trial with an owner elsewhere, after four intervals without a
    heartbeat. A process that loses a trial this way, because it slept or was disconnected, notices before it
    writes the result. Of several processes that find a trial free at once one takes it, because the study is
    locked meanwhile. A study behind a proxy cannot be locked: two processes may train the trial, and one of
    them writes the result.

    Args:
        directory: the run directory.
        total: see `LocalOwnership`.
        interval: seconds between two heartbeats.
        fresh: see `LocalOwnership`.
    """

    def __init__(
        self, directory: RunDirectory, total: int | None, interval: float, fresh: bool = False
    ) -> None:
        super().__init__(directory, total, fresh)
        self._directory, self._interval = directory, interval
        self._me = [uuid4().hex[:8], directory.home_id()]
        self._leases: dict[int, _Lease] = {}
        self._heartbeats: dict[int, tuple[object, float]] = {}
        self._over = Event()
        self._thread: Thread | None = None

    def bind(self, study: optuna.Study) -> None:
        """Set the study that the trials belong to."""
        self._study = study

    @repeats_turn
    def take_stale(self, number: int) -> bool:
        """Become the owner of a running trial; return False while its worker lives."""
        if not self.take(number):  # a process of this home works on it; the storage is not needed
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

    def release(self, number: int) -> None:
        """Release a trial."""
        self._leases.pop(number, None)
        super().release(number)

    def find_record(self, trial: Trial, space: Space) -> TrialRecord | None:
        """Return the record of a stale trial that another run directory started; None if it never ran."""
        if not trial.params:
            return None
        return TrialRecord(trial.number, space.suggest(trial), TrialState.RUNNING)

    @repeats_turn
    def finish(
        self, study: optuna.Study, trial: Trial, record: TrialRecord, rows: Path | None = None
    ) -> bool:
        """Write the result of a trial to the study; return False if another process has taken the trial."""
        lease = self._leases[trial.number]
        with exclusive_study(study):
            self._confirm(lease)
            try:
                if rows is not None and not lease.lost:
                    send_rows(trial, rows)
                return not lease.lost and super().finish(study, trial, record)
            except UpdateFinishedTrialError:
                # by another process, behind a proxy; or by this one, which lost the lock just after it wrote
                return not lease.lost and is_result_of(self._attributes(lease.trial_id), record)

    def begin(self, trial: Trial) -> OptunaReporter:
        """Become the owner of a locked trial, and return the reporter for its run."""
        self.own(trial)
        return SharedReporter(trial, self.sender(trial, self._directory.trial(trial.number)), self)

    def sender(self, trial: Trial, home: Path) -> EpochSender:
        """Return what copies the epochs of an owned trial from its directory to the study."""
        return EpochSender(trial, home / EPOCHS_FILE, self._me[0])

    def own(self, trial: Trial) -> None:
        """Become the owner of a locked trial: other processes hear from it by its heartbeats."""
        lease = _Lease(trial_id_of(trial))
        try:
            trial.set_user_attr(OWNER, self._me)
        except UpdateFinishedTrialError:  # another process has taken and finished it before it had an owner
            lease.lost = True
        self._leases[trial.number] = lease  # from now on a heartbeat checks that this process is the owner
        if self._thread is None:
            self._thread = Thread(target=self._beat, daemon=True)
            self._thread.start()

    def can_add_slots(self, study: optuna.Study) -> bool:
        """Return whether the storage can be locked while a slot is added."""
        return is_lockable(study)

    def wait(self) -> bool:
        """Wait for a trial that a process elsewhere may give up, and return True."""
        self._over.wait(min(1.0, self._interval / 2))
        return True

    def close(self) -> None:
        """Stop the heartbeats."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()

    def is_lost(self, trial: Trial) -> bool:
        """Return whether another process has taken a trial that this process works on."""
        lease = self._leases[trial.number]
        if time.monotonic() - lease.confirmed > self._interval * _GRACE / 2:
            self._confirm(lease)
        return lease.lost

    def _is_free(self, number: int, trial_id: int) -> bool:
        """Return whether the owner of a locked trial has this home, or has no recent heartbeat."""
        attributes = self._attributes(trial_id)
        owner = attributes.get(OWNER)
        if owner is not None and owner[1] == self._me[1]:
            return True
        heartbeat = (owner, attributes.get(BEAT))
        previous, since = self._heartbeats.get(number, (None, 0.0))
        if previous != heartbeat:
            self._heartbeats[number] = (heartbeat, time.monotonic())
            return False
        return time.monotonic() - since >= _GRACE * self._interval

    def _own(self, trial_id: int) -> bool:
        """Become the owner of a free trial; return False if it has just ended."""
        try:
            storage_of(self._study).set_trial_user_attr(trial_id, OWNER, self._me)
        except UpdateFinishedTrialError:
            return False
        return True

    def _id_of(self, number: int) -> int:
        storage, study_id = storage_of(self._study), study_id_of(self._study)
        return storage.get_trial_id_from_study_id_trial_number(study_id, number)

    def _attributes(self, trial_id: int) -> Mapping[str, Any]:
        return storage_of(self._study).get_trial(trial_id).user_attrs

    def _confirm(self, lease: _Lease) -> None:
        """Check in the storage that this process is still the owner."""
        if self._attributes(lease.trial_id).get(OWNER) == self._me:
            lease.confirmed = time.monotonic()
        else:
            lease.lost = True

    def _beat(self) -> None:
        while not self._over.wait(self._interval):
            for lease in list(self._leases.values()):
                try:
                    with storing(), at_once():
                        self._beat_once(lease)
                except DiskError:
                    continue  # the run of the trial gets the same error and reports it
                except UpdateFinishedTrialError:
                    continue  # it has just ended

    def _beat_once(self, lease: _Lease) -> None:
        self._confirm(lease)
        if not lease.lost:
            lease.beats += 1
            storage_of(self._study).set_trial_user_attr(lease.trial_id, BEAT, lease.beats)


class SharedReporter(OptunaReporter):
    """A reporter to a trial in a shared storage, which also sends the whole record of each epoch.

    Args:
        trial: an owned trial.
        epochs: the sender of the record.
        ownership: the owner's lease on the trial.
    """

    def __init__(self, trial: Trial, epochs: EpochSender, ownership: LeasedOwnership) -> None:
        super().__init__(trial)
        self._leased_trial, self._epochs, self._ownership = trial, epochs, ownership

    def report(
        self, epoch: int, value: float, picked: float, values: Mapping[str, float], final: bool
    ) -> None:
        """Report an epoch; stop the run if another process has taken its trial.

        Raises:
            optuna.TrialPruned: the pruner stops the trial, or the trial is lost.
            DiskError: the study cannot be written.
        """
        with storing():
            if self._ownership.is_lost(self._leased_trial):
                raise self._make_lost_error()
        try:
            with storing():
                self._epochs.send()
            super().report(epoch, value, picked, values, final)
        except UpdateFinishedTrialError:
            raise self._make_lost_error() from None

    def _make_lost_error(self) -> optuna.TrialPruned:
        return optuna.TrialPruned(f"another worker has taken trial {self.number}")
