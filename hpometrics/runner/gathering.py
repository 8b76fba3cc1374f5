"""Gathering: the records of trials that ended on other machines, from the storage into the run directory."""

from __future__ import annotations

import optuna
from optuna.trial import TrialState as OptunaState

from ..backends.optuna.shared_record import shared_record, write_shared
from ..records.epoch_log import read_trial
from ..records.recovery import put_aside
from .context import Job

_FINISHED = (OptunaState.COMPLETE, OptunaState.PRUNED, OptunaState.FAIL)


class Gathering:
    """Writes the trials of a study that the directory of a job does not have; one that leads tells of each.

    Args:
        job: of this process.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._here: set[int] = set()

    def gather(self, study: optuna.Study) -> None:
        """Take in what has ended since the last time.

        Raises:
            RecordError: the storage holds a record that does not read.
        """
        for trial in study.get_trials(deepcopy=False, states=_FINISHED):
            if trial.number not in self._here:
                self._here.add(trial.number)
                self._take_in(trial)

    def _take_in(self, trial: optuna.trial.FrozenTrial) -> None:
        directory = self._job.directory.trial(trial.number)
        known = read_trial(directory)
        record = shared_record(trial)
        if record is None or (known is not None and known.state.finished):
            return
        if known is not None:
            put_aside(directory, "lost")  # begun here, before another process took it
        write_shared(directory, record)
        if self._job.leads:
            self._job.note(record)
