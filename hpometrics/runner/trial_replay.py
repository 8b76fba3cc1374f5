"""Replay of a sweep: trials of a run directory trained again, here and on another backend."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from .._formatting import first_of, plural
from .._imports import version_changes
from .._text import one_line, printable
from ..backends.registry import BACKENDS
from ..config.document import parse_document, read_document
from ..config.metric_section import anything
from ..config.plan import make_plan
from ..config.yaml_text import dump_yaml
from ..exceptions import ConfigError, RecordError, RunError
from ..records._json import check_format
from ..records.epoch_log import read_trial
from ..records.reproduction import DIFFERENT, NO_VERSION, SAME, Replayed, value_text
from ..records.trial_record import Repeat, TrialRecord, TrialState, deviation, mean, number_in, to_json
from ..results.confirmation import stored_confirmation, sweep_best
from ..results.manifest import Resolved
from ..results.run_directory import RunDirectory
from ..run.checkpoint import Keep
from ..run.epoch_closer import End
from ..run.reporter import ListReporter
from ..run.spec import RunSpec
from ..run.trial import attempt
from ..selection.confirmation import CONFIRM
from ..selection.trial_attempts import TrialAttempts
from ..space.draws import derive_seed
from .context import spec_facts
from .imported_engine import import_engine, settle
from .planned_trials import asks_of, difference_of_draws, draw_again, planned_again, search_again
from .sweep import Options, run_command

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
        conditions = f"seed {self.record.seed}, threads {self.record.threads}"
        return f"{self._name} of {self.resolved.name}: {self.resolved.engine}, {conditions}"

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
            f"{home.path}: trial {number} continued from trial {last.donor} at epoch {last.epoch} "
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
    head = f"{metric} over {len(records)} seeds" + (f" ({failed} failed)" if failed else "")
    if facts["mean"] is None:
        return f"{head}: too few values for a deviation"
    return f"{head}: mean {facts['mean']}, deviation {facts['deviation']}"


@dataclass(frozen=True)
class Verification:
    """Trials that were trained again in one way.

    Args:
        how: where and by how many workers.
        problem: why the search ended early, if it did.
        differences: for each trial what differs from its record; nothing where all is as recorded.
        epochs: for each trial the number of epochs that were compared.
    """

    how: str
    problem: str | None = None
    differences: dict[int, list[str]] = field(default_factory=dict)
    epochs: dict[int, int] = field(default_factory=dict)

    def add(self, recorded: TrialRecord, again: TrialRecord | None) -> None:
        """Compare a trial with its record."""
        self.differences[recorded.number] = [*_differences(recorded, again)]
        self.epochs[recorded.number] = 0 if again is None else min(len(recorded.epochs), len(again.epochs))

    def lines(self) -> Iterator[str]:
        """Yield a line per trial."""
        yield f"{self.how}:" if self.problem is None else f"{self.how}, which ended early: {self.problem}"
        for number, differences in self.differences.items():
            same = f"{plural(self.epochs[number], 'epoch')} as recorded"
            yield f"  trial {number}: {'; '.join(differences) or same}"

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain JSON."""
        trials = [
            {"trial": number, "epochs": self.epochs[number], "differences": differences}
            for number, differences in self.differences.items()
        ]
        return {"how": self.how, "problem": self.problem, "trials": trials}


def verify_sweep(
    path: Path,
    count: int,
    backend: str | None,
    workers: int | None,
    tell: Tell,
    tell_facts: TellFacts | None = None,
) -> int:
    """Train trials of a sweep again, here and elsewhere, print what differs, and return the exit code.

    Here, a sample of the complete trials is trained one after another, the best first. Elsewhere, the first
    trials of the search are trained by another number of workers of another backend, without its pruner.
    Every value of every epoch is compared, to the last digit. A sampler that learns draws all its points
    again from the recorded results, see `draw_again`. Nothing is written into the directory.

    Args:
        path: the run directory.
        count: the number of trials each time.
        backend: that of the second search; unless given, `ray` for a sweep on Optuna, else `optuna`.
        workers: those of the second search; unless given, 2 for a sweep of one worker, else 1.
        tell: called with every line.
        tell_facts: called once with the same as plain JSON.

    Raises:
        HpometricsError, KeyboardInterrupt: see `TrialReplay`.
    """
    home = RunDirectory(path)
    resolved, records = home.read(), home.records()
    tell(f"verifying {resolved.name}: {resolved.engine}")
    here, elsewhere = Verification("here, one after another"), None
    for number in _sample(home, resolved, records, count):
        replay = TrialReplay(path, number)
        here.add(replay.record, replay.run_all()[0])
    tell("\n".join(here.lines()))
    asks = asks_of(home, records)
    redrawn = draw_again(home, records, asks)
    if redrawn is not None:
        tell("\n".join(redrawn.lines()))
    first = _first_trials(records, count)
    if BACKENDS[resolved.backend].has_points:
        tell("a list has no workers, so its trials were trained here only")
    elif not first:
        tell("trial 0 has not ended, or continued from the state of another, so there is no second search")
    else:
        added = {number for number, ask in asks.items() if ask.point}
        elsewhere = _verify_elsewhere(home, resolved, first, added, backend, workers)
        tell("\n".join(elsewhere.lines()))
    ways = [here] if elsewhere is None else [here, elsewhere]
    differ = sum(bool(differences) for way in ways for differences in way.differences.values())
    trained = sum(len(way.differences) for way in ways)
    changed = version_changes(dict(resolved.versions))
    is_redrawn = redrawn is None or not redrawn.differences
    if differ:
        tell(f"{differ} of {plural(trained, 'training')} did not come out as recorded")
    else:
        epochs = sum(sum(way.epochs.values()) for way in ways)
        tell(f"{plural(trained, 'training')} with {plural(epochs, 'epoch')} as recorded, to the last digit")
    if not is_redrawn:
        tell("a point of the sampler did not come out as recorded")
    is_same = is_redrawn and not differ
    if not is_same:
        tell(f"versions that differ: {', '.join(changed)}" if changed else NO_VERSION)
    if tell_facts is not None:
        facts = {"sweep": resolved.name, "reproduced": is_same, "versions_changed": changed}
        draws = {} if redrawn is None else {"draws": redrawn.to_json()}
        tell_facts({**facts, "trainings": [way.to_json() for way in ways], **draws})
    return SAME if is_same else DIFFERENT


def _sample(home: RunDirectory, resolved: Resolved, records: Sequence[TrialRecord], count: int) -> list[int]:
    """Return the best trial and others that are complete, evenly spread over the search."""
    best = sweep_best(home, stored_confirmation(home, records, resolved), records, resolved).trial
    own = (one.number for one in records if one.state is TrialState.COMPLETE and not one.exploits)
    others = [number for number in own if number != best]
    places = range(min(count - 1, len(others)))
    return [best, *(others[place * len(others) // len(places)] for place in places)]


def _first_trials(records: Sequence[TrialRecord], count: int) -> list[TrialRecord]:
    """Return the first trials of a search, up to one that is not over or went on from another's state."""
    first: list[TrialRecord] = []
    for record in records[:count]:
        if record.number != len(first) or not record.state.finished or record.exploits:
            break
        first.append(record)
    return first


def _verify_elsewhere(
    home: RunDirectory,
    resolved: Resolved,
    first: Sequence[TrialRecord],
    added: Collection[int],
    backend: str | None,
    workers: int | None,
) -> Verification:
    """Train the first trials by other workers of another backend."""
    before = resolved.config["backend"][resolved.backend]
    backend = backend or ("optuna" if resolved.backend == "ray" else "ray")
    workers = workers or (1 if (before.get("workers") or 1) > 1 else 2)
    numbers = "trial 0" if len(first) == 1 else f"trials 0 to {len(first) - 1}"
    problem = None
    with tempfile.TemporaryDirectory(prefix="hpometrics-verify-") as folder:
        config = search_again(planned_again(home), resolved, first, added)
        config["backend"] = {backend: _section_of(backend, workers, resolved)}
        config["results"] = {**config["results"], "dir": folder, "report": "none"}
        document = parse_document(dump_yaml(config), resolved.file or str(home.resolved))
        try:
            run_command(make_plan(document, registers=anything), Options(quiet=True, python=True))
        except RunError as err:  # of trials that fail, as they may have before
            problem = one_line(err)
        again = {record.number: record for record in RunDirectory(Path(folder)).records()}
    result = Verification(f"on {backend} with {plural(workers, 'worker')}, {numbers}", problem)
    for record in first:
        result.add(record, again.get(record.number))
    return result


def _section_of(backend: str, workers: int, resolved: Resolved) -> dict[str, Any]:
    """Return the settings of a backend, with its own study; on Ray each trial sees a GPU if there is one."""
    if backend == resolved.backend:
        before = {key: one for key, one in resolved.config["backend"][backend].items() if key != "storage"}
        return {**before, "workers": workers}
    gpus = torch.cuda.device_count() if backend == "ray" else 0
    section = {"workers": workers} if BACKENDS[backend].has_workers else {}
    return section | ({"resources": {"gpu": min(1.0, gpus / workers)}} if gpus else {})


def _differences(recorded: TrialRecord, again: TrialRecord | None) -> Iterator[str]:
    """Yield what differs between a record and the same trial of another run."""
    if again is None:
        yield "was not trained"
    elif difference := difference_of_draws(again.given, recorded.given):
        yield difference
    elif TrialState.FAILED in (recorded.state, again.state):
        ends = [_failure(one) or one.state.value for one in (again, recorded)]
        if ends[0] != ends[1]:
            yield f"{ends[0]}, recorded {ends[1]}"
    else:
        yield from _differing_values(recorded, again)


def _differing_values(recorded: TrialRecord, again: TrialRecord) -> Iterator[str]:
    is_cut = recorded.state is TrialState.PRUNED or recorded.ended_by == End.TRIAL_TIME
    trained, known = len(again.epochs), len(recorded.epochs)
    if trained < known or (trained > known and not is_cut):
        yield f"{plural(trained, 'epoch')}, recorded {known}"
    pairs = [
        (one, name, to_json(one.values[name]), to_json(two.values.get(name, math.nan)))
        for one, two in zip(recorded.epochs, again.epochs, strict=False)
        for name in one.values
    ]
    wrong = [pair for pair in pairs if repr(pair[2]) != repr(pair[3])]
    if wrong:
        epoch, name, old, new = wrong[0]
        values = f"{value_text(new)}, recorded {value_text(old)}"
        yield f"{name} at epoch {epoch.epoch} is {values} ({len(wrong)} of {len(pairs)} values differ)"
    if not is_cut and (repr(recorded.value), recorded.epoch) != (repr(again.value), again.epoch):
        before = f"{recorded.value} of epoch {recorded.epoch}"
        yield f"its value is {again.value} of epoch {again.epoch}, recorded {before}"
    repeats = [(one.value, two.value) for one, two in zip(recorded.repeats, again.repeats, strict=False)]
    for index, (old, new) in enumerate(repeats):
        if repr(old) != repr(new):
            yield f"repeat {index} is {new}, recorded {old}"
            return
