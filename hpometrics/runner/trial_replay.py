"""Replay of a sweep: a trial of a run directory trained again under recorded conditions and over seeds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .._formatting import first_of
from .._text import printable
from ..config.document import read_document
from ..exceptions import ConfigError, RecordError
from ..records._json import check_format
from ..records.epoch_log import read_trial
from ..records.reproduction import Replayed
from ..records.trial_record import Repeat, TrialRecord, TrialState, deviation, mean, number_in, to_json
from ..results.confirmation import stored_confirmation, sweep_best
from ..results.manifest import Resolved
from ..results.run_directory import RunDirectory
from ..run.checkpoint import Keep
from ..run.epoch_closer import End
from ..run.reporter import ListReporter, derive_seed
from ..run.spec import RunSpec
from ..run.trial import attempt
from ..selection.confirmation import CONFIRM
from ..selection.trial_attempts import TrialAttempts
from .context import spec_facts
from .imported_engine import import_engine, settle
from .worker import planned_again

Tell = Callable[[str], object]
TellFacts = Callable[[dict[str, Any]], object]


class TrialReplay:
    """A trial of a run directory that can be trained again, without a change of any file.

    Args:
        path: the directory, or the `best.yaml` in it that names the trial.
        trial: its number; default: the best.
        fresh_run: the number of a fresh run of its confirmation, to train that again instead.

    Raises:
        ConfigError: there is no such directory, trial or fresh run, or its end cannot be replayed; the engine
            cannot be imported or does not fit the recorded trial.
        RecordError: a file is damaged.
        NoFiniteValueError: no trial is complete.
    """

    def __init__(self, path: Path, trial: int | None = None, fresh_run: int | None = None) -> None:
        home = RunDirectory(path if path.is_dir() else path.parent)
        self.resolved = home.read()
        self.record = _record(home, self.resolved, _parse_trial(path) if trial is None else trial)
        self._name = f"trial {self.record.number}"
        if fresh_run is not None:
            self._name += f", seed {fresh_run} of its confirmation,"
            self.record = _fresh_run(home, self.record.number, fresh_run)
        plan = planned_again(home)
        self._engine = import_engine(plan)
        self._plan = settle(plan, self._engine)
        self._measured = {**spec_facts(self._plan, self._engine), "threads": self.record.threads}

    def __str__(self) -> str:
        record, target = self.record, self.resolved.engine
        conditions = f"seed {record.seed}, threads {record.threads}"
        return f"{self._name} of {self.resolved.name}: {target}, {conditions}"

    def seed(self, repeat: int) -> int | None:
        """Return the recorded seed of a repeat, or the seed that a repeat which never ran would have had."""
        if repeat < len(self.record.repeats):
            return self.record.repeats[repeat].seed
        if repeat == 0:
            return self.record.seed
        return derive_seed(self._plan.engine_seed, self.record.number, repeat)

    def run(self, repeat: int = 0) -> TrialRecord:
        """Train once; a run that its time limit ended is trained for the recorded number of epochs.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C.
        """
        params = self.record.params
        reporter = ListReporter(number=self.record.number, params=params)
        again, error = attempt(self._engine, params, self._spec(repeat), reporter, seed=self.seed(repeat))
        if error is not None and not isinstance(error, Exception):
            raise error
        return again

    def run_all(self) -> tuple[TrialRecord, list[TrialRecord]]:
        """Train every repeat of the trial, and return the combined record and the runs.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C.
        """
        failed = self.record.state is TrialState.FAILED
        repeats = self._plan.config.budget.repeats if failed else max(1, len(self.record.repeats))
        attempts, runs = TrialAttempts(repeats, bounds=self._spec(0).bounds), [self.run()]
        trial = attempts.after(None, runs[0])
        while trial.state is TrialState.RUNNING:
            runs.append(self.run(len(runs)))
            trial = attempts.after(trial, runs[-1])
        return trial, runs

    def _spec(self, repeat: int) -> RunSpec:
        earlier: TrialRecord | Repeat = self.record
        epochs = len(self.record.epochs)
        if repeat < len(self.record.repeats):
            earlier = self.record.repeats[repeat]
            epochs = earlier.epochs
        late = earlier.ended_by == End.TRIAL_TIME
        changed = {"trial_time": None, "checkpoints": Keep.NONE} | ({"reports": epochs} if late else {})
        return RunSpec(**self._measured | changed)

    def compare(self, again: TrialRecord) -> Replayed:
        """Return a comparison of the recorded values with the new ones."""
        versions = {**self.resolved.versions, **self.record.versions}
        failure = None if self.record.state is TrialState.FAILED else _failure(again)
        objectives = list(self.resolved.optimized)
        return Replayed(self._facts(self.record), self._facts(again), versions, failure, objectives)

    def _facts(self, record: TrialRecord) -> dict[str, Any]:
        """Return the value, its epoch and the tracked values there; of a failed trial the reason."""
        if record.state is TrialState.FAILED:
            return {"reason": printable(record.reason or "")}
        values = record.picked_values
        tracked = {name: to_json(values[name]) for name in self.resolved.beside if name in values}
        return {self.resolved.metric: record.value, "epoch": record.epoch, **tracked}


def replay_trial(
    path: Path,
    trial: int | None,
    seeds: int,
    tell: Tell,
    tell_facts: TellFacts | None = None,
    fresh_run: int | None = None,
) -> int:
    """Train a trial again, print whether its value is reproduced, and return the exit code.

    Args:
        path: see `TrialReplay`.
        trial: see `TrialReplay`.
        seeds: the number of seeds to train it with, the recorded ones first, to print mean and deviation; at
            least the seeds of its repeats.
        tell: called with every line.
        tell_facts: called once with the same as plain JSON.
        fresh_run: see `TrialReplay`.

    Raises:
        HpometricsError, KeyboardInterrupt: see `TrialReplay`.
    """
    replay = TrialReplay(path, trial, fresh_run)
    tell(f"replaying {replay}")
    again, every = replay.run_all()
    replayed = replay.compare(again)
    tell(str(replayed))
    if max(seeds, len(every)) > 1:
        for repeat in range(max(seeds, len(every))):
            if repeat == len(every):
                every.append(replay.run(repeat))
            failure = _failure(every[repeat])
            end = str(every[repeat].value) if failure is None else f"failed: {failure}"
            tell(f"  seed {replay.seed(repeat)}: {end}")
        for metric in replay.resolved.optimized:
            tell(_format_spread(metric, every))
    if tell_facts is not None:
        tell_facts(_result_facts(replay, replayed, every))
    return replayed.code


def _result_facts(replay: TrialReplay, replayed: Replayed, every: Sequence[TrialRecord]) -> dict[str, Any]:
    """Return the result, and for several seeds the result of each."""
    record, metrics = replay.record, list(replay.resolved.optimized)
    conditions = {"trial": record.number, "seed": record.seed, "threads": record.threads}
    facts = {"sweep": replay.resolved.name, **conditions, **replayed.to_json()}
    if len(every) < 2:
        return facts
    seeds = [
        {"seed": replay.seed(repeat), "values": _values(one, metrics), "failure": _failure(one)}
        for repeat, one in enumerate(every)
    ]
    return {**facts, "seeds": seeds, "spread": {metric: _spread_facts(metric, every) for metric in metrics}}


def _values(record: TrialRecord, metrics: Sequence[str]) -> dict[str, Any]:
    if record.state is TrialState.FAILED:
        return {}
    return {metric: to_json(number_in(record.picked_values, metric)) for metric in metrics}


def _failure(record: TrialRecord) -> str | None:
    return printable(record.reason or "") if record.state is TrialState.FAILED else None


def _spread_facts(metric: str, records: Sequence[TrialRecord]) -> dict[str, Any]:
    every = [record.picked_values for record in records if record.state is not TrialState.FAILED]
    values = [value for values in every if math.isfinite(value := number_in(values, metric))]
    several = len(values) > 1
    return {
        "mean": mean(values) if several else None,
        "deviation": deviation(values) if several else None,
        "failed": len(records) - len(values),
    }


def _record(home: RunDirectory, resolved: Resolved, number: int | None) -> TrialRecord:
    if number is None:
        records = home.records()
        number = sweep_best(home, stored_confirmation(home, records, resolved), records, resolved).trial
    record = home.trial_record(number)
    if record.exploits:
        last = record.exploits[-1]
        raise ConfigError(
            f"{home.path}: trial {number} went on from the state of trial {last.donor} at epoch {last.epoch} "
            "(pbt), so its params alone do not give its value; its checkpoint has the state"
        )
    if record.state is TrialState.PRUNED or not record.state.finished:
        raise ConfigError(
            f"{home.path}: trial {number} is {record.state.value}, and its end was not its own; a trial that "
            "came to its end can be replayed"
        )
    return record


def _fresh_run(home: RunDirectory, trial: int, number: int) -> TrialRecord:
    """Return the record of a training that confirmed a trial.

    Raises:
        ConfigError: there is none, or it has not ended.
    """
    record = read_trial(home.trial(trial) / CONFIRM / str(number))
    if record is None or not record.state.finished:
        numbers = sorted(int(path.name) for path in (home.trial(trial) / CONFIRM).glob("[0-9]*"))
        known = f"it has {first_of(numbers, 20)}" if numbers else "it was not trained again"
        raise ConfigError(f"{home.path}: trial {trial} has no fresh run {number} that has ended; {known}")
    return record


def _parse_trial(path: Path) -> int | None:
    """Return the trial that a `best.yaml` names; None for a directory."""
    if path.is_dir():
        return None
    content = read_document(path).data
    check_format(content, path)
    trial = content.get("trial")
    if not isinstance(trial, int):
        raise RecordError(f"{path}: is not a best.yaml, it names no trial")
    return trial


def _format_spread(metric: str, records: Sequence[TrialRecord]) -> str:
    facts = _spread_facts(metric, records)
    failed = facts["failed"]
    head = f"{metric} over {len(records)} seeds" + (f", {failed} of which failed" if failed else "")
    if facts["mean"] is None:
        return f"{head}: too few values for a deviation"
    return f"{head}: mean {facts['mean']}, deviation {facts['deviation']}"
