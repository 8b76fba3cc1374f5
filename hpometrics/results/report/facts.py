"""What a report says, whatever its form: read from a run directory, without engine, torch or search host."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from ..._formatting import column, duration, number
from ..._text import printable
from ...config.yaml_writer import dump_yaml
from ...direction import ARROWS
from ...exceptions import ConfigError, NoFiniteValueError
from ...records.trial_record import TrialRecord, TrialState
from ...selection.selection import Best, best_by, ranked_by
from ...selection.significance import Verdict
from ..best import MetricPick, picks, record_of
from ..leaderboard import optimal_params, optimal_values, ranked_rows, word
from ..manifest import Resolved
from ..run_directory import RunDirectory
from ..significance import kept_verdict, verdict_lines

_ORIGINS = {
    "registry": "The direction is the metric's own, as the registry has it.",
    "stated": "The direction is stated in the sweep file; the metric has none of its own.",
    "engine": "The direction is that of the engine's own metric.",
    "mixed": "Each term goes in the direction of its own metric, or in the one that the sweep file states.",
}
_MEANINGS = {
    TrialState.COMPLETE: "trained to its end; only these are ranked",
    TrialState.PRUNED: "stopped early, as it did worse than others at the same epoch",
    TrialState.FAILED: "ended by an error",
    TrialState.INFEASIBLE: "trained to its end, but a constraint is broken",
    TrialState.INTERRUPTED: "stopped with the sweep; goes on when it is run again",
    TrialState.RUNNING: "at work, or left by a process that died; goes on when the sweep is run again",
    TrialState.WAITING: "not begun",
}
_MOST_ROWS = 1000
_MOST_REASONS = 200
_NUMBERS = 20


@dataclass(frozen=True)
class State:
    """The trials of one state: how many, what the state means, and the reasons with their trials."""

    word: str
    meaning: str
    count: int
    reasons: Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Report:
    """The facts of a report.

    Args:
        directory: of the run.
        resolved: what the sweep is about.
        records: its trials, by number.
        best: the best of them; None where none is complete.
        no_best: why there is none.
        verdict: how sure it is that it is the best; None of several objectives.
    """

    directory: Path
    resolved: Resolved
    records: Sequence[TrialRecord]
    best: Best | None
    no_best: str = ""
    verdict: Verdict | None = None

    @classmethod
    def of(cls, directory: Path) -> Self:
        """Read a run directory.

        Raises:
            ConfigError: it is no run directory.
            RecordError: a file of it is damaged.
        """
        home = RunDirectory(directory)
        resolved, records = home.read(), home.records()
        try:
            best = best_by(records, resolved.optimized, resolved.pick)
        except (NoFiniteValueError, ConfigError) as err:
            return cls(directory, resolved, records, None, str(err))
        return cls(directory, resolved, records, best, verdict=kept_verdict(home, records, resolved))

    @property
    def summary(self) -> str:
        """How many trials there are, by state, and what they took."""
        told = ", ".join(f"{state.word} {state.count}" for state in self.states)
        seconds = sum(record.seconds for record in self.records)
        return (
            f"{len(self.records)} engine params evaluated ({told or 'none'}), {duration(seconds)} of training"
        )

    @property
    def direction(self) -> str:
        """Which way the metric goes, who says so, and which epoch's value counts."""
        sweep = self.resolved
        formula = f" = {sweep.formula}" if sweep.formula else ""
        epoch = f"The value of a trial is that of its {sweep.at} epoch; epochs count from 0."
        seeds = sweep.config["budget"].get("repeats", 1)
        mean = f" It is the mean over {seeds} seeds, +- their deviation." if seeds > 1 else ""
        if sweep.others:
            told = "; ".join(f"to {way}: {name}" for name, way in sweep.optimized.items())
            by = f" by {sweep.metric}" if sweep.at == "best" else ""
            epoch = f"The values of a trial are those of its {sweep.at} epoch{by}; epochs count from 0."
            return f"Several objectives, {told}. {epoch}{mean}"
        return (
            f"To {sweep.objective}: {sweep.metric}{formula}. {_ORIGINS[sweep.objective_from]} {epoch}{mean}"
        )

    @property
    def params(self) -> list[tuple[str, str, str]]:
        """The optimal engine params: name, value, where it comes from."""
        return [] if self.best is None else optimal_params(self.best, self.resolved)

    @property
    def values(self) -> list[tuple[str, str, str]]:
        """What the best trial has measured: name, value, direction."""
        return [] if self.best is None else optimal_values(self.best, self.resolved)

    @property
    def origin(self) -> str:
        """Which trial is the best, and where its model is."""
        if self.best is None:
            return self.no_best
        model, seed = self.best.checkpoint, record_of(self.best, self.records).seed
        kept = "" if model is None else f"; its model is {os.path.relpath(model, self.directory)}"
        rule = ", the knee of the Pareto front" if self.resolved.pick == "knee" else ""
        return f"trial {self.best.trial}, epoch {self.best.epoch}, seed {seed}{rule}{kept}"

    @property
    def sureness(self) -> list[str]:
        """How sure it is that this trial is the best, a line each."""
        return verdict_lines(self.verdict, self.records)

    @property
    def table(self) -> list[list[str]]:
        """A head and a row for each of the best trials, best first."""
        return ranked_rows(ranked_by(self.records, self.resolved.optimized)[:_MOST_ROWS], self.resolved)

    @property
    def picks(self) -> list[list[str]]:
        """A head and a row for each metric with a direction: what it would have picked; none of one alone."""
        if self.best is None:
            return []
        found = picks(self.records, self.resolved, self.best)
        head = ["picked by", "trial", "epoch", "its value", self.resolved.metric, "gives up"]
        return [head, *map(_picked, found)] if len(found) > 1 else []

    @property
    def extent(self) -> str:
        """A sentence on what the table leaves out; empty where it has every trial."""
        if len(self.records) <= _MOST_ROWS:
            return ""
        which = "first" if self.resolved.others else "best"
        return (
            f"The table shows the {which} {_MOST_ROWS:,} of {len(self.records):,} trials; trials.csv has all."
        )

    @property
    def states(self) -> list[State]:
        """How trials ended, and why."""
        found = {state: [r for r in self.records if r.state is state] for state in TrialState}
        return [
            State(word(state), _MEANINGS[state], len(records), _reasons(records))
            for state, records in found.items()
            if records
        ]

    @property
    def config(self) -> str:
        """The sweep file with every default spelled out."""
        return dump_yaml(self.resolved.config)

    @property
    def commands(self) -> list[tuple[str, str]]:
        """What gives these results again: a command and what it does."""
        pick = " --pick knee" if self.resolved.others else ""
        return [
            (f"hpometrics best {self.directory}{pick}", "the optimal engine params again"),
            (f"hpometrics replay {self.directory}", "train the best trial again: does its value come out?"),
        ]


def _picked(pick: MetricPick) -> list[str]:
    """A row for what a metric would have picked."""
    if pick.best is None:
        return [pick.metric, *["-"] * 5]
    best = pick.best
    return [
        f"{pick.metric}{ARROWS[pick.objective]}",
        str(best.trial),
        str(best.epoch),
        column(best.value),
        column(pick.optimized),
        number(pick.loss),
    ]


def _reasons(records: Sequence[TrialRecord]) -> list[tuple[str, str]]:
    """Give each reason with the trials that have it; of many the first."""
    found: dict[str, list[int]] = defaultdict(list)
    for record in records:
        if record.reason:
            found[printable(record.reason.partition("\n")[0])].append(record.number)
    return [(reason, _listed(numbers)) for reason, numbers in list(found.items())[:_MOST_REASONS]]


def _listed(numbers: Sequence[int]) -> str:
    more = len(numbers) - _NUMBERS
    return ", ".join(map(str, numbers[:_NUMBERS])) + (f" and {more} more" if more > 0 else "")
