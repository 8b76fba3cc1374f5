"""The best of a run directory, from its record: no engine, no search host; torch for what was kept alone."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..config.yaml_writer import dump_yaml
from ..exceptions import ConfigError, NoFeasibleTrialError
from ..records.trial_record import TrialRecord
from ..selection.picking import best_by
from ..selection.rules import Pick
from ..selection.selection import Best, least_violating
from ..selection.significance import Verdict
from .export import best_facts, best_yaml, least_facts
from .formatting import number
from .front import front_facts, front_text
from .leaderboard import optimal
from .leaders import arguments, leaders_arguments, leaders_facts, leaders_text
from .manifest import Resolved
from .picks import by_metric, optimised_at, repicked
from .run_directory import RunDirectory
from .significance import draw_verdict, kept_verdict, rows_lines, verdict_lines

if TYPE_CHECKING:
    from .rescoring import Asked

FORMS = ("text", "yaml", "json", "args")


@dataclass(frozen=True)
class Chosen:
    """The best trial by a metric, among the records that say so.

    Args:
        best: the trial and its epoch.
        records: all trials, each at the epoch that counts.
        resolved: the sweep as if that metric had been optimised.
        optimum: what the sweep itself has picked, where that was by another metric or rule.
        verdict: how sure the pick is.
        lacking: trials that have no value of the metric, with the reason.
    """

    best: Best
    records: Sequence[TrialRecord]
    resolved: Resolved
    verdict: Verdict | None
    optimum: Best | None = None
    lacking: Mapping[int, str] = field(default_factory=dict)


class NoneFeasible(NoFeasibleTrialError):
    """No trial of a run directory is feasible.

    Args:
        message: which one breaks the constraints least.
        facts: the same for a script.
    """

    def __init__(self, message: str, facts: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.facts)

    def written(self, form: str, listed: bool = False) -> str:
        """Give the facts as YAML or JSON; `listed` as the only ones of a list."""
        return _dumped([dict(self.facts)] if listed else dict(self.facts), form)


def best_text(
    directory: Path,
    form: str = "text",
    metric: str | None = None,
    at: str | None = None,
    level: float | None = None,
    pick: Pick | None = None,
    count: int | None = None,
) -> str:
    """Say what is best in a run directory: the block that `run` prints, or all facts as YAML or JSON.

    As `args` it is the params alone, on a line for a shell.

    Of several objectives it is the front, unless it is said how to pick.

    Args:
        directory: of the run.
        form: one of `FORMS`.
        metric: that picks, in the place of the optimised one: any that was measured, or that follows from the
            statistics which were kept of every epoch.
        at: which epoch counts, `best` or `last`; as the sweep says unless given.
        level: of intervals that are drawn of what was kept; unless given they are those of the sweep's end.
        pick: which trial; as the sweep says unless given.
        count: so many of the best trials, in the order of the table, instead of the one that is picked.

    Raises:
        ConfigError: it is no run directory, or the metric cannot pick, or there is no such way to.
        NotKeptError: the metric needs more than was kept.
        NoneFeasible: all that are complete break a constraint.
        NoFiniteValueError: none of its trials is complete.
    """
    home = RunDirectory(directory)
    resolved, records = home.read(), home.records()
    if pick is not None:
        if metric is not None:
            raise ConfigError(f"--pick {pick} is of what was optimised, and --metric {metric} picks itself")
        resolved = resolved.picked_by(pick)
    if resolved.others and level is not None and metric is None:
        raise ConfigError("intervals are of one metric, and several were optimised; name one by --metric")
    if resolved.others and count is not None and metric is None:
        raise ConfigError(
            f"trials of several objectives have no order; hpometrics best {directory} names their front, and "
            "-k with --metric ranks them by one"
        )
    if resolved.others and metric is None:
        return _of_several(home, records, resolved if at is None else replace(resolved, at=at), form, at)
    best = _best(records, resolved, "knee" if resolved.others else resolved.pick)
    if metric is None and at is None:
        chosen = Chosen(best, records, resolved, _verdict(home, records, resolved, level, None))
    else:
        chosen = _chosen(home, records, resolved, metric, at, level, best)
    if count is not None:
        return _many(chosen, resolved, directory, form, count)
    return _one(chosen, resolved, directory, form)


def _one(chosen: Chosen, resolved: Resolved, directory: Path, form: str) -> str:
    if form == "text":
        block = optimal(chosen.best, chosen.records, chosen.resolved)
        return "\n".join([block, *verdict_lines(chosen.verdict, chosen.records), *_beside(chosen, resolved)])
    return _written(_facts(chosen, resolved, directory), form)


def _many(chosen: Chosen, resolved: Resolved, directory: Path, form: str, count: int) -> str:
    if form == "text":
        table = leaders_text(chosen.best, chosen.records, chosen.resolved, count)
        return "\n".join([table, *rows_lines(chosen.records), *_beside(chosen, resolved)])
    if form == "args":
        return leaders_arguments(chosen.records, chosen.resolved, count)
    facts = leaders_facts(chosen.records, chosen.resolved, count, directory)
    return _dumped(facts, form)


def _dumped(facts: Any, form: str) -> str:
    return dump_yaml(facts).rstrip() if form == "yaml" else json.dumps(facts, indent=1, allow_nan=False)


def _of_several(
    home: RunDirectory, records: Sequence[TrialRecord], resolved: Resolved, form: str, at: str | None
) -> str:
    """Say which trials are on the front of several objectives, or all of the one that is picked there."""
    records = records if at is None else repicked(records, resolved)
    if resolved.is_picked:
        best = _best(records, resolved, resolved.pick)
        if form == "text":
            return "\n".join([optimal(best, records, resolved), *verdict_lines(None, records)])
        return _written(best_facts(best, record_of(best, records), resolved, home.path), form)
    _best(records, resolved, "knee")  # there is a front
    if form == "args":
        raise ConfigError("several objectives were optimised; --pick knee|TRIAL says whose params")
    if form != "text":
        return _written(front_facts(records, resolved), form)
    repeats = resolved.config["budget"].get("repeats", 1) if at is not None else 1
    told = [f"each trial is told by the first of its {repeats} repeats"] if repeats > 1 else []
    return "\n".join([front_text(records, resolved, home.path), *told])


def _written(facts: dict[str, Any], form: str) -> str:
    if form == "args":
        return arguments(facts["params"])
    return best_yaml(facts).rstrip() if form == "yaml" else json.dumps(facts, indent=1, allow_nan=False)


def _best(records: Sequence[TrialRecord], resolved: Resolved, pick: Pick | str = "best") -> Best:
    """Pick a trial as `best_by` does; where none is feasible, say for scripts which comes nearest.

    Raises:
        HpometricsError: see `best_by`.
    """
    try:
        return best_by(records, resolved.optimised, pick)
    except NoFeasibleTrialError as err:
        least = least_violating(records, resolved.objective)
        if least is None:
            raise
        raise NoneFeasible(str(err), least_facts(least, resolved, str(err))) from None


def record_of(best: Best, records: Sequence[TrialRecord]) -> TrialRecord:
    """Give the record of the best trial."""
    return next(record for record in records if record.number == best.trial)


def _chosen(
    home: RunDirectory,
    records: Sequence[TrialRecord],
    resolved: Resolved,
    metric: str | None,
    at: str | None,
    level: float | None,
    optimum: Best,
) -> Chosen:
    asked: Asked | None = None
    lacking: Mapping[int, str] = {}
    told = by_metric(resolved, resolved.metric, resolved.objective, at)
    if metric is not None:
        from .rescoring import ask  # with pydantic, which reading the record alone does not need

        answer = ask(home, resolved, records, metric)
        asked, records, lacking = answer.asked, answer.records, answer.lacking
        told = by_metric(resolved, asked.name, asked.objective, at)
    picked = repicked(records, told)
    best = _best(picked, told)
    return Chosen(best, picked, told, _verdict(home, picked, told, level, asked), optimum, lacking)


def _verdict(
    home: RunDirectory,
    records: Sequence[TrialRecord],
    resolved: Resolved,
    level: float | None,
    asked: Asked | None,
) -> Verdict | None:
    if level is None:
        return kept_verdict(home, records, resolved)
    return draw_verdict(home, records, resolved, level, asked)


def _beside(chosen: Chosen, resolved: Resolved) -> Iterator[str]:
    """Say what the sweep has picked itself, and what this pick gives up of it."""
    if chosen.optimum is None:
        return
    best, optimum = chosen.best, chosen.optimum
    if resolved.others:
        yield f"Optimized were {' and '.join(resolved.optimised)}; hpometrics best names their front"
        return
    value, loss = optimised_at(best, resolved, optimum)
    yield "Optimized was:"
    where = f"{number(optimum.value)} (trial {optimum.trial}, epoch {optimum.epoch})"
    same = (best.trial, best.epoch) == (optimum.trial, optimum.epoch)
    given_up = "the same pick" if same else f"here {number(value)}, which gives up {number(loss)}"
    yield f"  {resolved.metric} at {resolved.at}: {where}; {given_up}"
    if (repeats := resolved.config["budget"].get("repeats", 1)) > 1:
        yield f"each trial is told by the first of its {repeats} repeats"
    for trial, reason in chosen.lacking.items():
        yield f"left out: trial {trial}: {reason}"


def _facts(chosen: Chosen, resolved: Resolved, home: Path) -> dict[str, Any]:
    best, optimum = chosen.best, chosen.optimum
    facts = best_facts(best, record_of(best, chosen.records), chosen.resolved, home, chosen.verdict)
    if optimum is None or resolved.others:
        return facts
    value, loss = (None if x != x else x for x in optimised_at(best, resolved, optimum))
    optimised = {"metric": resolved.metric, "objective": resolved.objective.value, "at": resolved.at}
    there = {"trial": optimum.trial, "epoch": optimum.epoch, "value": optimum.value}
    return {
        **facts,
        "optimized": {**optimised, **there, "value_here": value, "loss": loss},
        "left_out": {str(trial): reason for trial, reason in chosen.lacking.items()},
    }
