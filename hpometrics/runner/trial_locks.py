"""Locks on trials: who holds one works on it; when its process dies, the system frees it."""

from __future__ import annotations

import optuna
from optuna.trial import Trial

from ..backends.optuna.reporter import OptunaReporter
from ..backends.optuna.study import tell
from ..backends.optuna.trial_queue import HeldTrials
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
