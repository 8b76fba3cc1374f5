"""Logs that Tune reads back when a search ends: `result.json` of each trial or member of a population."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ray.air.constants import EXPR_RESULT_FILE
from ray.tune.experiment import Trial
from ray.tune.logger import JsonLoggerCallback
from ray.tune.utils.util import SafeFallbackEncoder  # type: ignore[attr-defined]

from .ray_internals import epochs_of
from .ray_keys import EPOCH


class TrialLog(JsonLoggerCallback):
    """Tune's own log, with each epoch once: a trial that goes on after a loss reports some of them again."""

    def log_trial_result(self, iteration: int, trial: Trial, result: dict[str, Any]) -> None:
        """Write a report, unless it is of an epoch that the trial has had before."""
        if not 0 < result.get(EPOCH, 0) <= epochs_of(trial):
            super().log_trial_result(iteration, trial, result)


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
