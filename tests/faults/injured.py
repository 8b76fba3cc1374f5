"""A sweep that a test injures, and the count of what it lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import optuna
from forked import Forked
from ledger_engine import HARM, LEDGER, cost_of
from toll import Toll

from hpometrics.search.optuna_backend import close_storage, open_storage, study_records
from hpometrics.search.record import TrialRecord, TrialState
from hpometrics.sweep.directory import RunDirectory

EPOCHS = 3
SWEEP = """\
engine: {target: ledger_engine:train, output: binary}
space: {lr: {float: [0.0, 1.0]}, pause: 0.01}
metrics: {optimize: {metric: cost, direction: minimize}}
search: {sampler: random, seed: 3}
budget: {trials: 6, epochs: 3}
results: {dir: runs/sweep}
"""


@dataclass
class Injured:
    """A folder with a sweep file and the engine, its processes, and what the ledger of the engine says."""

    folder: Path
    text: str = SWEEP
    _finished: list[tuple[int, set[int]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "sweep.yaml").write_text(self.text)
        shutil.copy(Path(__file__).with_name("ledger_engine.py"), self.folder)
        self.home = RunDirectory(self.folder / "runs/sweep")

    def start(self, *arguments: str) -> Forked:
        """Start `hpometrics run sweep.yaml`, or another command."""
        return Forked(self.folder, hpometrics, *(arguments or ("run", "sweep.yaml")))

    def run(self, *arguments: str) -> int:
        """Start a command, wait for its end and return its exit code."""
        return self.start(*arguments).ended()

    def harm(self, kind: str | None, trial: int = 2, epoch: int = 1) -> None:
        """Let a trial come to harm in an epoch, see `ledger_engine`; None lets it go on."""
        file = self.folder / HARM
        if kind is None:
            file.unlink()
        else:
            file.write_text(json.dumps({"kind": kind, "trial": trial, "epoch": epoch}))

    def note_finished(self) -> None:
        """Take note of the trials that are finished by now: none of them is to begin an epoch any more."""
        told = len(self.ledger())
        self._finished.append((told, {r.number for r in self.home.records() if r.state.finished}))

    def ledger(self) -> list[tuple[str, int, int, int]]:
        """What the engine noted: what, trial, epoch, process."""
        path = self.folder / LEDGER
        return [tuple(json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []

    def noted(self, what: str, trial: int, epoch: int) -> bool:
        """Say whether the engine has come so far."""
        return any((noted, *at) == (what, trial, epoch) for noted, *at, _ in self.ledger())

    def err(self) -> str:
        """What the processes have said on stderr."""
        return (self.folder / "err").read_text()

    def records(self) -> list[TrialRecord]:
        """The record of every trial."""
        return self.home.records()

    def told(self) -> list[TrialRecord]:
        """What the study was told of every trial."""
        storage = open_storage(self.home.study)
        try:
            return study_records(optuna.load_study(study_name="sweep", storage=storage))
        finally:
            close_storage(storage)

    def complete(self, *trials: int) -> bool:
        """Say whether trials are complete, with all their epochs and the costs that these should have."""
        return all(_is_whole(record) for record in self.records() if record.number in trials)

    def toll(self, fault: str, tried: int, survived: int, taken: int = 0) -> Toll:
        """Count what faults cost, once the sweep has been run to its end.

        Args:
            fault: its name.
            tried: how often.
            survived: see `Toll`.
            taken: epochs that the fault itself erased from the record.
        """
        return Toll(
            fault,
            "hpometrics",
            tried,
            int(survived),
            again=self._run_again(),
            lost=lost(self.ledger(), self._written()) - taken,
            zombies=zombies(self.home.study),
            over=max(0, trials(self.home.study) - (budget_of(self.text))),
        )

    def _run_again(self) -> int:
        ledger = self.ledger()
        return len(
            {
                number
                for told, finished in self._finished
                for what, number, _, _ in ledger[told:]
                if number in finished
            }
        )

    def _written(self) -> Counter[tuple[int, int]]:
        written: Counter[tuple[int, int]] = Counter()
        for path in self.home.trials.glob("*/epochs.jsonl"):
            lines = map(json.loads, path.read_text().splitlines())
            written.update((int(path.parent.name), line["epoch"]) for line in lines)
        return written


def _is_whole(record: TrialRecord) -> bool:
    costs = [cost_of(record.params["lr"], epoch) for epoch in range(EPOCHS)]
    return record.state is TrialState.COMPLETE and [e.number("cost") for e in record.epochs] == costs


def hpometrics(*arguments: str) -> None:
    """The command, as a process calls it."""
    from hpometrics.cli import main

    main(list(arguments))


def budget_of(text: str) -> int:
    """The trials that a sweep file asks for."""
    return int(text.partition("trials: ")[2].partition(",")[0])


def lost(ledger: list[tuple[str, int, int, int]], written: Counter[tuple[int, int]]) -> int:
    """Count the epochs that the engine knows to be reported and that nobody has written."""
    reported = Counter((number, epoch) for what, number, epoch, _ in ledger if what == "reported")
    return (reported - written).total()


def zombies(study: Path) -> int:
    """Count the trials of a study that stay running."""
    return _count(study, "SELECT count(*) FROM trials WHERE state = 'RUNNING'")


def trials(study: Path) -> int:
    """Count the trials of a study."""
    return _count(study, "SELECT count(*) FROM trials")


def _count(study: Path, query: str) -> int:
    with closing(sqlite3.connect(study)) as connection:
        [(count,)] = connection.execute(query).fetchall()
    return int(count)
