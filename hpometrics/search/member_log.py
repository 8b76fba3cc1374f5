"""MemberLog: what Tune reads back of a population when it ends, `result.json` of each member."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ray.air.constants import EXPR_RESULT_FILE
from ray.tune.experiment import Trial
from ray.tune.logger import JsonLoggerCallback
from ray.tune.utils.util import SafeFallbackEncoder  # type: ignore[attr-defined]


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
