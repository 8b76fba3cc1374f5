"""The same engine under Optuna alone, set up as its documentation says; for the scorecard."""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

from forked import Forked
from ledger_engine import come_to_harm, cost_of, note
from patient import EPOCHS, TRIALS
from studied import Studied


class BareOptuna(Studied):
    """A study in an SQLite file, optimized by any number of processes."""

    host = "bare Optuna"

    def __init__(self, folder: Path, trials: int = TRIALS) -> None:
        super().__init__(folder, trials)
        self.study = folder / "runs/study.db"
        self.study.parent.mkdir(parents=True, exist_ok=True)

    def start(self) -> Forked:
        """Optimize until the budget is used up."""
        return Forked(self.folder, optimize, str(self.study), self.trials, prints=self.folder)

    join = start

    def finished(self) -> set[int]:
        """The trials that are neither waiting nor running."""
        return self._numbers("state NOT IN ('WAITING', 'RUNNING')")

    def whole(self) -> set[int]:
        """The trials that are complete."""
        return self._numbers("state = 'COMPLETE'")

    def written(self) -> Counter[tuple[int, int]]:
        """Each trial and epoch that was reported."""
        joined = "trial_intermediate_values JOIN trials USING (trial_id)"
        return Counter((number, step) for number, step in self.ask(f"SELECT number, step FROM {joined}"))

    def ask(self, query: str) -> list[tuple[int, ...]]:
        """Ask the study; one that does not read, or is not there any more, knows nothing."""
        if not self.study.exists():
            return []
        with suppress(sqlite3.DatabaseError):
            return super().ask(query)
        return []

    def _numbers(self, condition: str) -> set[int]:
        return {number for (number,) in self.ask(f"SELECT number FROM trials WHERE {condition}")}


def optimize(path: str, trials: int) -> None:
    """Go on with a study until so many trials are complete, as `MaxTrialsCallback` counts them."""
    import optuna

    study = optuna.create_study(study_name="sweep", storage=f"sqlite:///{path}", load_if_exists=True)
    if len(study.get_trials(states=(optuna.trial.TrialState.COMPLETE,))) < trials:
        study.optimize(_objective, callbacks=[optuna.study.MaxTrialsCallback(trials)])


def _objective(trial):
    lr, cost = trial.suggest_float("lr", 0.0, 1.0), None
    for epoch in range(EPOCHS):
        note("began", trial.number, epoch)
        time.sleep(0.01)
        cost = come_to_harm(trial.number, epoch, cost_of(lr, epoch))
        if cost is not None:
            trial.report(cost, epoch)
            note("reported", trial.number, epoch)
    return cost
