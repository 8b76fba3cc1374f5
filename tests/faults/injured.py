"""A sweep of hpometrics that a test injures."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from pathlib import Path

import optuna
from forked import Forked, hpometrics
from ledger_engine import cost_of
from loaded_python import loaded_python
from patient import EPOCHS, TRIALS
from studied import Studied

from hpometrics.backends.optuna.storage import close_storage, open_storage
from hpometrics.backends.optuna.study import study_records
from hpometrics.records.trial_record import TrialRecord, TrialState
from hpometrics.results.run_directory import RunDirectory

SWEEP = """\
engine: {{target: ledger_engine:train, output: binary}}
space: {{lr: {{float: [0.0, 1.0]}}, pause: 0.01}}
metrics: {{optimize: {{metric: cost, direction: minimize}}}}
search: {{sampler: random, seed: 3, pruner: {pruner}}}
budget: {{trials: {trials}, {length}, retries: {retries}}}
backend: {backend}
results: {{dir: runs/sweep, checkpoints: {checkpoints}}}
"""


class Injured(Studied):
    """A sweep from a file; see `Patient`."""

    host = "hpometrics"

    def __init__(
        self,
        folder: Path,
        trials: int = TRIALS,
        backend: str = "optuna",
        retries: int = 0,
        pruner: str = "none",
        checkpoints: str = "best",
        length: str = f"epochs: {EPOCHS}",
    ) -> None:
        super().__init__(folder, trials)
        self.home = RunDirectory(folder / "runs/sweep")
        self.study = self.home.study
        facts = {"backend": backend, "retries": retries, "pruner": pruner, "checkpoints": checkpoints}
        self._python = loaded_python() if "ray" in backend else None  # else each worker of Ray loads torch
        text = SWEEP.format(trials=trials, length=length, **facts)
        (folder / "sweep.yaml").write_text(text)
        shutil.copy(Path(__file__).with_name("ledger_engine.py"), folder)

    def start(self) -> Forked:
        """Start `hpometrics run sweep.yaml`."""
        return hpometrics("run", "sweep.yaml", folder=self.folder, prints=self.folder, python=self._python)

    def join(self) -> Forked:
        """Start `hpometrics worker runs/sweep`."""
        return hpometrics("worker", "runs/sweep", folder=self.folder, prints=self.folder)

    def records(self) -> list[TrialRecord]:
        """The record of every trial."""
        return self.home.records()

    def told(self) -> list[TrialRecord]:
        """What the study was told of every trial."""
        storage = open_storage(self.study)
        try:
            return study_records(optuna.load_study(study_name="sweep", storage=storage))
        finally:
            close_storage(storage)

    def finished(self) -> set[int]:
        """The trials whose record has an end."""
        return {record.number for record in self.records() if record.state.finished}

    def whole(self) -> set[int]:
        """The trials that are complete in record and study, each cost as it should be."""
        told = {record.number: record.value for record in self.told() if record.state is TrialState.COMPLETE}
        return {record.number for record in self.records() if _is_whole(record, told.get(record.number))}

    def written(self) -> Counter[tuple[int, int]]:
        """How often each trial and epoch has a line."""
        written: Counter[tuple[int, int]] = Counter()
        for path in self.home.trials.glob("*/epochs.jsonl"):
            lines = map(json.loads, path.read_text().splitlines())
            written.update((int(path.parent.name), line["epoch"]) for line in lines)
        return written


class InjuredInJournal(Injured):
    """The same with its study in a journal."""

    host = "hpometrics, journal"

    def __init__(self, folder: Path, trials: int = TRIALS) -> None:
        super().__init__(folder, trials, "{optuna: {storage: journal}}")
        self.study = self.home.journal

    def running(self) -> set[int]:
        """The trials that the study takes for running."""
        return {record.number for record in self.told() if record.state is TrialState.RUNNING}

    def begun(self) -> int:
        """How many trials the study has."""
        return len(self.told())


class InjuredOnRay(Injured):
    """The same on Ray."""

    host = "hpometrics on Ray"

    def __init__(self, folder: Path, trials: int = TRIALS, retries: int = 0) -> None:
        super().__init__(folder, trials, "{ray: {workers: 2}}", retries)


def _is_whole(record: TrialRecord, told: float | None) -> bool:
    costs = [cost_of(record.params["lr"], epoch) for epoch in range(EPOCHS)]
    measured = [epoch.number("cost") for epoch in record.epochs]
    return record.state is TrialState.COMPLETE and measured == costs and record.value == told == costs[-1]
