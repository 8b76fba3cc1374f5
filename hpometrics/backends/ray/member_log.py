"""Logs that Tune reads back when a search ends: `result.json` of each trial or member of a population."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ray.air.constants import EXPR_RESULT_FILE
from ray.tune.experiment import Trial
from ray.tune.logger import JsonLoggerCallback
from ray.tune.utils.util import SafeFallbackEncoder  # type: ignore[attr-defined]

from .ray_keys import EPOCH


class TrialLog(JsonLoggerCallback):
    """Tune's own log, with each epoch once: a trial that goes on after a loss reports some of them again.

    Tune puts a stored copy in the place of the file whenever a trial goes on, which has not all lines yet;
    here that is done only where the file is gone.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._written: dict[str, set[int]] = {}

    def log_trial_start(self, trial: Trial) -> None:
        """Open the file, and note which epochs it has."""
        super().log_trial_start(trial)
        self._written[trial.trial_id] = _epochs_in(Path(str(trial.local_path), EXPR_RESULT_FILE))

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Write a report, unless its epoch has a line."""
        if trial.trial_id not in self._written:
            self.log_trial_start(trial)
        epoch, written = result.get(EPOCH, 0), self._written[trial.trial_id]
        if epoch not in written:
            super().log_trial_result(iteration, trial, result)
        if epoch > 0:
            written.add(epoch)

    def _restore_from_remote(self, file_name: str, trial: Trial) -> None:
        if not Path(str(trial.local_path), file_name).exists():
            super()._restore_from_remote(file_name, trial)


def _epochs_in(file: Path) -> set[int]:
    """Return the epochs that a log has lines of; a last line that is cut off is none."""
    epochs = set()
    for line in file.read_text(encoding="utf8").splitlines():
        try:
            epochs.add(int(json.loads(line).get(EPOCH, 0)))
        except ValueError:
            continue
    return epochs - {0}


class MemberLog(JsonLoggerCallback):
    """Appends each report of a member to its file, and holds none of them open.

    Tune's own logger puts a stored copy in the place of the file whenever a member goes on, which has not all
    lines yet, and closes no file of a member that is paused.
    """

    def log_trial_start(self, trial: Trial) -> None:
        """Open nothing."""

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Append a report, as a line of JSON."""
        trial.init_local_path()  # type: ignore[no-untyped-call]
        with Path(str(trial.local_path), EXPR_RESULT_FILE).open("a", encoding="utf8") as file:
            file.write(json.dumps(result, cls=SafeFallbackEncoder) + "\n")
