"""The progress and the results of a sweep and the epochs of a trial, from their record, without torch."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

from .._formatting import duration, first_of, json_text, plural, spread, terminal_width, wrapped_lines
from .._text import printable, printable_lines
from ..backends.trial_lines import word
from ..exceptions import ConfigError, NoFiniteValueError
from ..loggers.table import epoch_text, split_name
from ..records.epoch_log import EPOCHS_FILE
from ..records.trial_record import TRIAL_FILE, EpochRecord, TrialRecord, TrialState, place_text
from ..selection.confirmation import Confirmation
from ..selection.front_confirmation import AnyConfirmation
from ..selection.intervals import Interval, Significance
from ..selection.limits import FRUITLESS
from ..selection.selection import Best, front_trials
from .annotation_file import annotated
from .best import front_facts, front_line, front_text, record_of
from .confirmation import confirmed_facts, stored_confirmation, sweep_best
from .control import Control
from .export import best_facts
from .leaderboard import optimal_block, params_line, result_table, where
from .manifest import Resolved
from .run_directory import RunDirectory
from .verdict import rows_lines, stored_verdict, winner_lines

_NUMBERS = 20
_NARROWEST = 20  # characters of a text beside its head


@dataclass(frozen=True)
class Outcome:
    """The trials of a sweep, and the best of them.

    Args:
        directory: its run directory.
        resolved: the resolved sweep.
        records: its trials.
        best: its pick, if there is one.
        reason: the reason why there is none.
        verdict: the stored verdict on its own pick; None for several objectives.
        confirmation: how its winner was confirmed, if it was.
    """

    directory: Path
    resolved: Resolved
    records: Sequence[TrialRecord]
    best: Best | None
    reason: str | None = None
    verdict: Significance | None = None
    confirmation: AnyConfirmation | None = None

    @classmethod
    def read(cls, directory: Path | str) -> Self:
        """Read a run directory.

        Raises:
            ConfigError: the directory is not a run directory.
            RecordError: one of its files is damaged.
        """
        home = RunDirectory(Path(directory))
        return cls.of(home, annotated(home), home.records())

    @classmethod
    def of(cls, home: RunDirectory, resolved: Resolved, records: Sequence[TrialRecord]) -> Self:
        """Pick the best of records that were read.

        Raises:
            RecordError: the file of the verdict is damaged.
        """
        try:
            end = stored_confirmation(home, records, resolved)
            best = sweep_best(home, end, records, resolved)
        except (NoFiniteValueError, ConfigError) as err:
            return cls(home.label, resolved, records, None, str(err))
        verdict = None if end is not None else stored_verdict(home, records, resolved)
        return cls(home.label, resolved, records, best, verdict=verdict, confirmation=end)

    @property
    def sureness(self) -> list[str]:
        """How sure it is that the best trial is the best, a line each."""
        if self.best is None:
            return []
        return winner_lines(
            self.confirmation, self.verdict, self.best, self.records, self.resolved, self.directory
        )

    @property
    def remarks(self) -> list[str]:
        """The lines of `sureness` below the headline."""
        return self.sureness[0 if self.confirmation is None else 1 :]

    @property
    def headline(self) -> str:
        """The best trial and how sure that is, in a sentence or two; without one, the reason."""
        best, pick = self.best, self.resolved.pick
        if best is None:
            return str(self.reason)
        if self.confirmation is not None:
            return self.confirmation.lines()[0]
        if self.verdict is None:
            front = plural(len(front_trials(self.records, self.resolved.optimized)), "trial")
            part = "the knee" if pick == "knee" else "picked"
            return f"Trial {best.trial} is {part} of a Pareto front with {front}."
        side, rival, text = self.interval, self.verdict.runner_up, f"{best.metric} {best.value:.4g}"
        span = ""
        if side is not None:
            text = f"{best.metric} {side.format(best.value)}"
            ends = f"{side.format(side.low)} to {side.format(side.high)}"
            span = f" ({100 * self.verdict.level:g}% {ends})"
        head = f"Trial {best.trial} is {'best' if pick == 'best' else f'the pick by {pick}'}: {text}{span}."
        if side is None or rival is None or self.verdict.coin_toss is None:
            return head
        sure = "Not distinguishable from" if self.verdict.coin_toss else "Better than"
        return f"{head} {sure} trial {rival.trial}."

    @property
    def place(self) -> str:
        """Its path, as it may be printed."""
        return printable(str(self.directory))

    @property
    def value(self) -> float:
        """Its best value; nan if there is no best."""
        return math.nan if self.best is None else self.best.value

    @property
    def interval(self) -> Interval | None:
        """The interval of its pick, if it was drawn and the pick is the winner."""
        side = None if self.verdict is None else self.verdict.winner
        same = side and self.best and (side.trial, side.epoch) == (self.best.trial, self.best.epoch)
        return side.interval if side is not None and same else None

    def facts(self) -> dict[str, Any]:
        """Return the counts of the trials and the best as plain JSON; `best` is as in `best.yaml`."""
        states = [record.state for record in self.records]
        facts = {
            "name": self.resolved.name,
            "directory": str(self.directory),
            **self.resolved.annotation.facts(),
            "trials": self.resolved.trials,
            "done": sum(state.finished for state in states),
            "states": {state.value: states.count(state) for state in TrialState},
            "seconds": sum(record.seconds for record in self.records),
        }
        if self.resolved.stale is not None:
            facts["since_best"] = self.resolved.since_best(self.records)
        if self.resolved.weighs_cost:
            facts["cost"] = self.resolved.unit.spent(self.records)
        if self.best is None:
            return {**facts, "best": None, "reason": self.reason}
        record = record_of(self.best, self.records)
        confirmed = confirmed_facts(RunDirectory(self.directory), self.confirmation)
        best = best_facts(self.best, record, self.resolved, self.directory, self.verdict, confirmed)
        return {**facts, "best": best}


def status_text(
    home: RunDirectory, resolved: Resolved, records: Sequence[TrialRecord], width: int | None = None
) -> str:
    """Return the progress, the best so far and the open trials; on a terminal of this width, wrapped."""
    lines = [
        ("sweep", f"{resolved.name}   in {home.label}"),
        *_annotations(resolved),
        ("trials", counts(records, resolved)),
        *([("paused", f"hpometrics resume {home.label} goes on")] if Control.read(home).paused else []),
        *_limits(records, resolved),
        *_front(records, resolved),
        ("best", _best(home, records, resolved)),
        *_winner(home, records, resolved),
        *_open_trials(home, records, resolved),
    ]
    indent = max(len(head) for head, _ in lines) + 2
    room = None if width is None else max(width - indent, _NARROWEST)
    texts = (wrapped_lines(text, room).replace("\n", "\n" + " " * indent) for _, text in lines)
    return "\n".join(f"{head:<{indent}}{text}" for (head, _), text in zip(lines, texts, strict=True))


def _annotations(resolved: Resolved) -> Iterator[tuple[str, str]]:
    """Return the tags and the note of a sweep, and the trials that have each tag."""
    if resolved.annotation.tags:
        yield "tags", ", ".join(resolved.annotation.tags)
    if resolved.annotation.note:
        yield "note", printable(resolved.annotation.note)
    for tag, numbers in resolved.annotations.numbers_by_tag().items():
        yield f"  {tag}", f"trial {first_of(numbers, _NUMBERS)}"


def status_facts(home: RunDirectory, resolved: Resolved, records: Sequence[TrialRecord]) -> dict[str, Any]:
    """Return the status as plain JSON; `best` as in `best.yaml`, None with a `reason` if there is none.

    Raises:
        RecordError: the file of the verdict is damaged.
    """
    result = Outcome.of(home, resolved, records)
    open_now = [
        {
            "trial": record.number,
            "state": record.state.value,
            "epochs": len(record.epochs),
            "silent": _silence(home.trial(record.number)),
            "params": dict(record.params),
        }
        for record in records
        if not record.state.finished
    ]
    facts = {**result.facts(), "open": open_now}
    if resolved.others and front_trials(records, resolved.optimized):
        facts |= front_facts(records, resolved, result.confirmation)
    return facts


def title(name: str, home: RunDirectory) -> str:
    """Return the name of a sweep and its directory."""
    return f"{name}  {home.label}"


def opening(home: RunDirectory, resolved: Resolved, records: Sequence[TrialRecord]) -> str:
    """Return the name of a sweep that `run` opens, and its progress."""
    finished, total = sum(record.state.finished for record in records), resolved.trials
    head = title(resolved.name, home)
    if total is not None and finished > total:
        return (
            f"{head}  {finished} trials are done, and budget.trials is {total}; "
            f"raise it above {finished} for more"
        )
    if total is not None and finished == total:
        if all(record.state is TrialState.FAILED for record in records):
            return f"{head}  all {total} trials failed; run them again with --fresh"
        return f"{head}  all {total} trials are done; raise budget.trials for more"
    if resolved.is_used_up(records):
        return f"{head}  {finished} trials are done, {format_end(records, resolved)}"
    return f"{head}  resuming: {finished} of {total or 'any number'} done" if records else head


def results_text(
    home: RunDirectory, resolved: Resolved, records: Sequence[TrialRecord], width: int | None = None
) -> str:
    """Return the results of an ended sweep: the best trials, the best of them or the front, the files.

    On a terminal, the table and the lines below it fit into this width.

    Raises:
        NoFiniteValueError: no trial is complete, or the one that the sweep picks is not on the front.
    """
    if resolved.is_picked:
        result = Outcome.of(home, resolved, records)
        if result.best is None:
            raise NoFiniteValueError(str(result.reason))
        block = "\n".join([optimal_block(result.best, records, resolved), *result.sureness])
    else:
        end = stored_confirmation(home, records, resolved)
        block = "\n".join([front_text(records, resolved, home.label, end), *rows_lines(records)])
    if resolved.is_used_up(records):
        block += f"\nthe search has ended: {format_end(records, resolved)}"
    files = (home.best, home.engine_params, home.table, home.study, home.journal)
    report = home.report(resolved.config["results"]["report"])
    saved = ", ".join(path.name for path in (*files, report) if path.exists())
    block = wrapped_lines(f"{block}\nsaved {saved} in {home.label}", width)
    return f"{result_table(records, resolved, width=width)}\n\n{block}"


def status_json(home: RunDirectory, resolved: Resolved, records: Sequence[TrialRecord]) -> str:
    """Return the status as JSON text."""
    return json_text(status_facts(home, resolved, records))


def print_results(
    home: RunDirectory, resolved: Resolved, records: Sequence[TrialRecord], as_json: bool
) -> None:
    """Print the results of a sweep as `run` prints them at its end, or its status as JSON."""
    if as_json:
        text = status_json(home, resolved, records)
    else:
        text = results_text(home, resolved, records, terminal_width())
    print(printable_lines(text), flush=True)


def counts(records: Sequence[TrialRecord], resolved: Resolved) -> str:
    """Return the counts of the trials by state, on one line."""
    finished = sum(record.state.finished for record in records)
    states = {state: sum(record.state is state for record in records) for state in TrialState}
    states_text = "".join(f"   {word(state)} {count}" for state, count in states.items() if count)
    seconds = duration(sum(record.seconds for record in records))
    total = "" if resolved.trials and finished > resolved.trials else f" of {resolved.trials or 'any number'}"
    return f"{finished}{total} done{states_text}   {seconds} of training"


def format_end(records: Sequence[TrialRecord], resolved: Resolved) -> str:
    """Return why a search has ended whose trials bring no new best, or have cost what they may."""
    limit = resolved.limits.reached(records)
    if limit == "cost":
        return f"its trials cost {_format_cost(records, resolved)}; raise budget.cost for more"
    if limit == "fruitless":
        what = f"none of its last {FRUITLESS} trials counts toward {' or '.join(_open_limits(resolved))}"
        return f"{what}; set budget.trials or time for more"
    return f"no new best in {plural(resolved.stale or 0, 'trial')}; raise budget.stale for more"


def _open_limits(resolved: Resolved) -> Iterator[str]:
    limits = {"budget.stale": resolved.stale, "budget.cost": resolved.most_cost}
    return (name for name, value in limits.items() if value is not None)


def _format_cost(records: Sequence[TrialRecord], resolved: Resolved) -> str:
    """Return what the trials have cost of what they may."""
    unit, most = resolved.unit, resolved.most_cost
    spent = unit.spent(records)
    return unit.format(spent) if most is None else f"{spent:.4g} of {unit.format(most)}"


def _limits(records: Sequence[TrialRecord], resolved: Resolved) -> Iterator[tuple[str, str]]:
    """Return how many trials have brought no new best, if their number is limited, and what they cost."""
    if resolved.is_used_up(records):
        yield "ended", format_end(records, resolved)
        return
    if resolved.weighs_cost:
        yield "cost", _format_cost(records, resolved)
    if resolved.stale is not None:
        since = resolved.since_best(records)
        yield "stale", f"{since} of {plural(resolved.stale, 'trial')} without a new best"


def _winner(
    home: RunDirectory, records: Sequence[TrialRecord], resolved: Resolved
) -> Iterator[tuple[str, str]]:
    """Return how the best trial was confirmed, and its value on new rows; nothing if it was not."""
    end = stored_confirmation(home, records, resolved)
    if isinstance(end, Confirmation):
        head, value, *_ = end.lines()
        yield "winner", head.removeprefix("Winner: ")
        yield "", value.lstrip()


def _best(home: RunDirectory, records: Sequence[TrialRecord], resolved: Resolved) -> str:
    try:
        end = stored_confirmation(home, records, resolved)
        best = sweep_best(home, end, records, resolved)
    except (NoFiniteValueError, ConfigError) as err:
        return str(err)
    if resolved.others:
        rule = ", the knee" if resolved.pick == "knee" else ""
        line = front_line(record_of(best, records), resolved)
        return f"{line}{rule}   {params_line(best.params, resolved)}"
    value = spread(best.value, best.deviation, best.repeats)
    value = f"{resolved.metric} {value}   ({resolved.direction})"
    return f"{value}   {where(best, resolved)}   {params_line(best.params, resolved)}"


def _front(records: Sequence[TrialRecord], resolved: Resolved) -> Iterator[tuple[str, str]]:
    """Return the trials of the front of several objectives, if there is one."""
    front = front_trials(records, resolved.optimized) if resolved.others else []
    if front:
        yield "front", f"{len(front)} of {len(records)} trials: {', '.join(str(r.number) for r in front)}"


def _open_trials(
    home: RunDirectory, records: Sequence[TrialRecord], resolved: Resolved
) -> Iterator[tuple[str, str]]:
    """Return a line for each trial that has not ended; a long silence means that its process died."""
    for record in records:
        if not record.state.finished:
            epochs = plural(record.extent, record.unit)
            if record.repeats:
                epochs = f"{len(record.repeats)} of {resolved.config['budget']['repeats']} repeats"
            heard = f"last update {duration(_silence(home.trial(record.number)))} ago"
            text = f"{word(record.state)}   {epochs}, {heard}   {params_line(record.params, resolved)}"
            yield f"  #{record.number}", text


def _silence(trial: Path) -> float:
    """Return the seconds since a trial last wrote to its record."""
    homes = (trial, *trial.glob("repeats/*"))
    files = [file for home in homes for name in (TRIAL_FILE, EPOCHS_FILE) if (file := home / name).exists()]
    return max(0.0, time.time() - max(file.stat().st_mtime for file in files))


def epochs_text(
    directory: Path,
    trial: int,
    epoch: int | None = None,
    *,
    every: bool = False,
    split: str | None = None,
    width: int | None = None,
) -> str:
    """Return the values of a trial: the table of its picked epoch, of another one, or of all.

    Args:
        directory: the run directory.
        trial: the number of the trial.
        epoch: the epoch, counted from 0, or the step of a report; by default, the picked one, or the last
            while none is picked.
        every: whether to show all epochs.
        split: the only split to show.
        width: see `nice_report`.

    Raises:
        ConfigError: there is no such trial, no such epoch, or no value of that split.
        RecordError: one of the trial's files is damaged.
    """
    record, where = RunDirectory(directory).trial_record(trial), f"{directory}: trial {trial}"
    if not record.epochs:
        raise ConfigError(f"{where} ({record.state.value}) has not completed an epoch yet")
    chosen = None if every else _chosen(record, epoch, where)
    lines = [f"trial {trial}  {word(record.state)}  {_picked(record)}"]
    seconds = accumulate(one.seconds for one in record.epochs)
    for one, so_far in zip(record.epochs, seconds, strict=True):
        epoch_record = _of_split(one, split)
        if epoch_record.values and chosen in (None, one.place):
            lines += [epoch_text(epoch_record, so_far, width), *_reasons(epoch_record)]
    if len(lines) == 1:
        raise ConfigError(f"{where} has no {split} values{'' if every else f' in {record.unit} {chosen}'}")
    return "\n".join(lines)


def _chosen(record: TrialRecord, epoch: int | None, where: str) -> int:
    first, last = record.epochs[0].place, record.epochs[-1].place
    if epoch is None:
        return last if record.place is None else record.place
    if epoch not in [one.place for one in record.epochs]:
        raise ConfigError(f"{where} has no {record.unit} {epoch}; there are {first} to {last}")
    return epoch


def _of_split(record: EpochRecord, split: str | None) -> EpochRecord:
    values = {name: value for name, value in record.values.items() if split in (None, split_name(name)[0])}
    return replace(record, values=values)


def _picked(record: TrialRecord) -> str:
    picked = (
        "none picked yet" if record.epoch is None else f"picked is {place_text(record.epoch, record.step)}"
    )
    return f"{plural(record.extent, record.unit)}, {picked}"


def _reasons(record: EpochRecord) -> Iterator[str]:
    """Return the reasons of nan values."""
    for name, reason in record.reasons.items():
        if name in record.values:
            yield printable(f"   {name} is nan: {reason}")
