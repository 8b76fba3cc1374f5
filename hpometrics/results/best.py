"""The best trial of a run directory, from its record; torch is needed only for stored statistics."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from .._formatting import aligned, json_text, number
from ..config.yaml_text import dump_yaml
from ..direction import ARROWS, Direction
from ..exceptions import ConfigError, NoFeasibleTrialError, NoFiniteValueError
from ..metrics.registry.names import MetricName
from ..metrics.registry.scope import VALIDATION
from ..records.trial_record import TrialRecord, TrialState, number_in, place_text
from ..selection.front_confirmation import AnyConfirmation, FrontConfirmation
from ..selection.intervals import Significance
from ..selection.rules import At, Pick
from ..selection.selection import Best, best_by, least_violating, pareto_front, picked_trial
from ..selection.trial_attempts import repicked
from .annotation_file import annotated
from .confirmation import (
    best_of,
    confirmed_facts,
    confirmed_knee,
    front_end_facts,
    stored_confirmation,
    sweep_best,
)
from .export import best_facts, best_yaml, least_facts, step_fact
from .leaderboard import arguments, format_evaluated, leaders, optimal_block, params_line, ranked_rows, where
from .manifest import Resolved
from .rescoring import MetricRequest, rescore
from .run_directory import RunDirectory
from .verdict import draw_verdict, rows_lines, stored_verdict, verdict_lines, winner_lines

_HOW = "pick one: hpometrics best {directory} --pick knee|TRIAL"


def best_text(
    directory: Path,
    form: str = "text",
    metric: str | None = None,
    at: str | None = None,
    level: float | None = None,
    pick: Pick | None = None,
    count: int | None = None,
) -> str:
    """Return the best of a run directory: the block that `run` prints, or all facts as YAML or JSON.

    The form `args` is the params alone, on a line for a shell.

    For several objectives it is the front, unless a rule to pick is stated.

    Args:
        directory: the run directory.
        form: `text`, `yaml`, `json` or `args`.
        metric: the metric that picks instead of the optimized one: any that was measured, or that follows
            from the stored statistics of every epoch.
        at: the epoch that counts, `best` or `last`; by default, as the sweep says.
        level: the level of intervals to draw from the stored scores; by default, those of the sweep's end.
        pick: the rule or trial to pick; by default, as the sweep says.
        count: the number of best trials, in the order of the table, instead of the picked one.

    Raises:
        ConfigError: the directory is not a run directory, or the metric cannot pick, or the rule is unknown.
        NotKeptError: the metric needs more than was stored.
        NoneFeasible: all complete trials break a constraint.
        NoFiniteValueError: no trial is complete.
    """
    home = RunDirectory(directory)
    resolved, records = annotated(home), home.records()
    if pick is not None:
        if metric is not None:
            raise ConfigError(
                f"--pick {pick} uses the optimized metric, but --metric {metric} picks by another one"
            )
        resolved = resolved.picked_by(pick)
    if resolved.others and level is not None and metric is None:
        raise ConfigError(
            "an interval needs one metric, but the sweep optimized several; choose one with --metric"
        )
    if resolved.others and count is not None and metric is None:
        raise ConfigError(
            f"several objectives do not order trials; hpometrics best {directory} shows the front, and -k "
            "with --metric ranks by one metric"
        )
    if resolved.others and metric is None:
        return _several_objectives(
            home, records, resolved if at is None else replace(resolved, at=at), form, at
        )
    best = _best(records, resolved, "knee" if resolved.others else resolved.pick)
    confirmation = stored_confirmation(home, records, resolved)
    end = confirmation if pick is None else None
    if end is not None:
        best = sweep_best(home, end, records, resolved)
    if metric is None and at is None:
        if end is not None and level is not None:
            raise ConfigError(
                f"--interval compares two trainings of the search, but the confirmation of {directory} has "
                f"fresh ones; remove --interval, or add --metric {resolved.metric} for the search"
            )
        verdict = None if end is not None else _verdict(home, records, resolved, level, None)
        chosen = Chosen(best, records, resolved, verdict, confirmation=end)
    else:
        optimum = Best.of(record_of(best, records), resolved.optimized)  # in the search, as all that it picks
        chosen = _chosen(home, records, resolved, metric, at, level, optimum)
    chosen = replace(chosen, is_confirmed=confirmation is not None)
    if count is not None:
        return _many(chosen, resolved, directory, form, count)
    return _one(chosen, resolved, directory, form)


def _one(chosen: Chosen, resolved: Resolved, directory: Path, form: str) -> str:
    if form == "text":
        block = optimal_block(chosen.best, chosen.records, chosen.resolved)
        sure = _winner_lines(chosen, resolved, directory)
        return "\n".join([block, *sure, *_optimum_lines(chosen, resolved)])
    return _format_facts(_facts(chosen, resolved, directory), form)


def _winner_lines(chosen: Chosen, resolved: Resolved, directory: Path) -> list[str]:
    decided = chosen.is_confirmed or chosen.resolved.metric != resolved.metric
    if chosen.confirmation is None and decided:  # a confirmation decides by the optimized metric alone
        return verdict_lines(chosen.verdict, chosen.records)
    return winner_lines(
        chosen.confirmation, chosen.verdict, chosen.best, chosen.records, chosen.resolved, directory
    )


def _many(chosen: Chosen, resolved: Resolved, directory: Path, form: str, count: int) -> str:
    """Return the best trials; as facts, those that break a constraint have what they break."""
    records, resolved_by = chosen.records, chosen.resolved
    first = leaders(records, resolved_by, count)
    if form == "text":
        table = aligned(ranked_rows(first, resolved_by))
        lines = [format_evaluated(records), table, f"picked: {where(chosen.best, resolved_by)}"]
        return "\n".join([*lines, *rows_lines(records), *_optimum_lines(chosen, resolved)])
    if form == "args":
        feasible = [record for record in first if record.state is TrialState.COMPLETE]
        return "\n".join(arguments(resolved_by.ordered(record.params)) for record in feasible)
    facts = [
        best_facts(Best.of(record, resolved_by.optimized), record, resolved_by, directory)
        if record.state is TrialState.COMPLETE
        else least_facts(record, resolved_by, record.reason or "")
        for record in first
    ]
    return _format_document(facts, form)


def _several_objectives(
    home: RunDirectory, records: Sequence[TrialRecord], resolved: Resolved, form: str, at: str | None
) -> str:
    """Return the front of several objectives, or all facts of the trial that is picked there."""
    end = None if at is not None else stored_confirmation(home, records, resolved)
    records = records if at is None else repick_epochs(records, resolved)
    if resolved.is_picked:
        best = (
            _best(records, resolved, resolved.pick)
            if end is None
            else sweep_best(home, end, records, resolved)
        )
        return _one(Chosen(best, records, resolved, None, confirmation=end), resolved, home.path, form)
    _best(records, resolved, "knee")  # there is a front
    if form == "args":
        raise ConfigError("the sweep optimized several objectives; choose the trial with --pick knee|TRIAL")
    if form != "text":
        return _format_facts(front_facts(records, resolved, end), form)
    repeats = resolved.config["budget"].get("repeats", 1) if at is not None else 1
    remark = [f"for each trial the command uses the first of its {repeats} repeats"] if repeats > 1 else []
    return "\n".join([front_text(records, resolved, home.path, end), *remark])


@dataclass(frozen=True)
class Chosen:
    """The best trial by a metric, and the records it was chosen from.

    Args:
        best: the trial and its epoch.
        records: all trials, each at the epoch that counts.
        resolved: the sweep as if that metric had been optimized.
        optimum: the pick of the sweep itself, if that was by another metric or rule.
        verdict: the verdict on the pick.
        lacking: trials that have no value of the metric, with the reason.
        confirmation: how the pick was confirmed, if it was.
        is_confirmed: whether the sweep has a confirmation, of this pick or another one.
    """

    best: Best
    records: Sequence[TrialRecord]
    resolved: Resolved
    verdict: Significance | None
    optimum: Best | None = None
    lacking: Mapping[int, str] = field(default_factory=dict)
    confirmation: AnyConfirmation | None = None
    is_confirmed: bool = False


class NoneFeasible(NoFeasibleTrialError):
    """No trial of a run directory is feasible.

    Args:
        message: the trial that breaks the constraints least.
        facts: the same as plain JSON.
    """

    def __init__(self, message: str, facts: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.facts = facts

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.facts)

    def format_facts(self, form: str, listed: bool = False) -> str:
        """Return the facts as YAML or JSON; `listed` as the only item of a list."""
        return _format_document([dict(self.facts)] if listed else dict(self.facts), form)


def front_text(
    records: Sequence[TrialRecord],
    resolved: Resolved,
    directory: object,
    end: AnyConfirmation | None = None,
) -> str:
    """Return how many engine params were evaluated, and the trials of the front with params and values.

    Args:
        records: the trials.
        resolved: the sweep.
        directory: its run directory, as it is printed.
        end: how the front was confirmed, if it was.

    Raises:
        NoFiniteValueError: no trial is complete.
    """
    front, knee = pareto_front(records, resolved.optimized), knee_number(records, resolved, end)
    lines = [format_evaluated(records), f"Pareto front of {' and '.join(resolved.optimized)}:"]
    for record in front:
        mark = "   the knee" if record.number == knee else ""
        lines.append(f"  {front_line(record, resolved)}   {params_line(record.params, resolved)}{mark}")
    confirmed = end.lines() if isinstance(end, FrontConfirmation) else []
    return "\n".join([*lines, *confirmed, _HOW.format(directory=directory)])


def front_line(record: TrialRecord, resolved: Resolved) -> str:
    """Return a trial of the front on one line, without its params."""
    scores = zip(resolved.optimized.items(), record.scores(resolved.optimized), strict=True)
    scores_text = "  ".join(
        f"{name} {number(value)}{ARROWS[direction]}" for (name, direction), value in scores
    )
    return f"trial {record.number}, {place_text(record.epoch, record.step)}: {scores_text}"


def front_facts(
    records: Sequence[TrialRecord], resolved: Resolved, end: AnyConfirmation | None = None
) -> dict[str, Any]:
    """Return the front as plain JSON, best first by the first objective, and the number of its knee.

    Raises:
        NoFiniteValueError: no trial is complete.
    """
    return {
        "objectives": {name: direction.value for name, direction in resolved.optimized.items()},
        "knee": knee_number(records, resolved, end),
        "front": [
            {
                "trial": record.number,
                "epoch": record.epoch,
                **step_fact(record),
                "values": dict(zip(resolved.optimized, record.scores(resolved.optimized), strict=True)),
                "params": resolved.ordered(record.params),
            }
            for record in pareto_front(records, resolved.optimized)
        ],
        **({"confirmed": front_end_facts(end)} if isinstance(end, FrontConfirmation) else {}),
    }


def knee_number(
    records: Sequence[TrialRecord], resolved: Resolved, end: AnyConfirmation | None = None
) -> int:
    """Return the number of the trial at the knee: that of the means, if the front was confirmed."""
    knee = confirmed_knee(end)
    return picked_trial(records, resolved.optimized, "knee").number if knee is None else knee


@dataclass(frozen=True)
class MetricPick:
    """The trial that one metric would have picked.

    Attributes:
        metric: the metric that picks.
        direction: its direction.
        best: its trial and epoch, with all values there; None if it has no finite value.
        optimized: the value of the optimized metric there.
        loss: by how much that value is worse than the optimum.
    """

    metric: str
    direction: Direction
    best: Best | None
    optimized: float = math.nan
    loss: float = math.nan


def optimized_by(resolved: Resolved, metric: str, direction: Direction, at: str | None = None) -> Resolved:
    """Return the sweep as if this metric had been optimized, and its best trial picked.

    The metric that was optimized becomes a tracked one.
    """
    directions = {**resolved.optimized, **resolved.track}
    track = {name: other for name, other in directions.items() if name != metric}
    at = at or resolved.at
    resolved_by = replace(resolved, metric=metric, direction=direction, at=at, track=track, others={})
    return resolved_by.picked_by("best")


def repick_epochs(records: Sequence[TrialRecord], resolved: Resolved) -> list[TrialRecord]:
    """Pick the epoch of every trial again by the rules of the sweep.

    A checkpoint belongs to one epoch, so it is left out if another one is picked. A trial with several
    repeats is represented by its first.
    """
    bounds, at = resolved.bounds, At(resolved.at)
    return [repicked(record, resolved.optimized, at, bounds) for record in records]


def picks_by_metric(records: Sequence[TrialRecord], resolved: Resolved) -> list[MetricPick]:
    """Return the trial that the search picks by each metric with a direction, and what that pick gives up.

    For trials with several repeats, all values, the optimum too, are those of the first. Several objectives
    have no optimum that could be given up.
    """
    if resolved.others:
        return []
    optimum = best_by(_as_picked(records, resolved), resolved.optimized)
    return [_pick(records, resolved, optimum, name, direction) for name, direction in _pickers(resolved)]


def pick_of_sweep(records: Sequence[TrialRecord], resolved: Resolved, trial: int) -> MetricPick:
    """Return the trial that a confirmation or a rule chose, and what it gives up against the optimum."""
    records = _as_picked(records, resolved)
    optimum = best_by(records, resolved.optimized)
    best = best_of(trial, records, resolved)
    return MetricPick(resolved.metric, resolved.direction, best, *optimized_at(best, resolved, optimum))


def _as_picked(records: Sequence[TrialRecord], resolved: Resolved) -> Sequence[TrialRecord]:
    """Return the records by which metrics are compared: of several repeats, the first."""
    repeated = any(record.repeats for record in records)
    return repick_epochs(records, resolved) if repeated else records


def optimized_at(best: Best, resolved: Resolved, optimum: Best) -> tuple[float, float]:
    """Return the optimized metric's value at another metric's pick, and by how much it is worse there."""
    value = number_in(best.values, resolved.metric)
    return value, resolved.direction.worse_by(value, optimum.value)


def _pickers(resolved: Resolved) -> Iterator[tuple[str, Direction]]:
    """Return the metrics that may pick: those of validation data that have a direction."""
    for name, direction in {resolved.metric: resolved.direction, **resolved.track}.items():
        if direction is not None and MetricName.parse(name).split in (None, VALIDATION):
            yield name, direction


def _pick(
    records: Sequence[TrialRecord], resolved: Resolved, optimum: Best, name: str, direction: Direction
) -> MetricPick:
    if name == resolved.metric:
        return MetricPick(name, direction, optimum, optimum.value, 0.0)
    resolved_by = optimized_by(resolved, name, direction)
    try:
        best = best_by(repick_epochs(records, resolved_by), resolved_by.optimized)
    except NoFiniteValueError:
        return MetricPick(name, direction, None)
    return MetricPick(name, direction, best, *optimized_at(best, resolved, optimum))


def _format_document(facts: Any, form: str) -> str:
    return dump_yaml(facts).rstrip() if form == "yaml" else json_text(facts)


def _format_facts(facts: dict[str, Any], form: str) -> str:
    if form == "args":
        return arguments(facts["params"])
    return best_yaml(facts).rstrip() if form == "yaml" else json_text(facts)


def _best(records: Sequence[TrialRecord], resolved: Resolved, pick: Pick | str = "best") -> Best:
    """Pick a trial as `best_by` does; if none is feasible, the error holds the one that comes nearest."""
    try:
        return best_by(records, resolved.optimized, pick, resolved.unit)
    except NoFeasibleTrialError as err:
        least = least_violating(records, resolved.direction)
        if least is None:
            raise
        raise NoneFeasible(str(err), least_facts(least, resolved, str(err))) from None


def record_of(best: Best, records: Sequence[TrialRecord]) -> TrialRecord:
    """Return the record of the best trial."""
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
    request: MetricRequest | None = None
    lacking: Mapping[int, str] = {}
    resolved_by = optimized_by(resolved, resolved.metric, resolved.direction, at)
    if metric is not None:
        answer = rescore(home, resolved, records, metric)
        request, records, lacking = answer.request, answer.records, answer.lacking
        resolved_by = optimized_by(resolved, request.name, request.direction, at)
    picked = repick_epochs(records, resolved_by)
    best = _best(picked, resolved_by)
    return Chosen(
        best, picked, resolved_by, _verdict(home, picked, resolved_by, level, request), optimum, lacking
    )


def _verdict(
    home: RunDirectory,
    records: Sequence[TrialRecord],
    resolved: Resolved,
    level: float | None,
    request: MetricRequest | None,
) -> Significance | None:
    if level is None:
        return stored_verdict(home, records, resolved)
    return draw_verdict(home, records, resolved, level, request)


def _optimum_lines(chosen: Chosen, resolved: Resolved) -> Iterator[str]:
    """Return the pick of the sweep itself, and what this pick gives up against it."""
    if chosen.optimum is None:
        return
    best, optimum = chosen.best, chosen.optimum
    if resolved.others:
        yield f"The sweep optimized {' and '.join(resolved.optimized)}; hpometrics best shows their front"
        return
    value, loss = optimized_at(best, resolved, optimum)
    yield "The sweep optimized:"
    best_then = f"{number(optimum.value)} (trial {optimum.trial}, {place_text(optimum.epoch, optimum.step)})"
    same = (best.trial, best.epoch) == (optimum.trial, optimum.epoch)
    given_up = "the same pick" if same else f"here {number(value)}, at the cost of {number(loss)}"
    yield f"  {resolved.metric} at {resolved.at}: {best_then}; {given_up}"
    if (repeats := resolved.config["budget"].get("repeats", 1)) > 1:
        yield f"for each trial the command uses the first of its {repeats} repeats"
    for trial, reason in chosen.lacking.items():
        yield f"left out: trial {trial}: {reason}"


def _facts(chosen: Chosen, resolved: Resolved, home: Path) -> dict[str, Any]:
    best, optimum = chosen.best, chosen.optimum
    confirmed = confirmed_facts(RunDirectory(home), chosen.confirmation)
    record = record_of(best, chosen.records)
    facts = best_facts(best, record, chosen.resolved, home, chosen.verdict, confirmed)
    if optimum is None or resolved.others:
        return facts
    value, loss = (None if x != x else x for x in optimized_at(best, resolved, optimum))
    optimized = {"metric": resolved.metric, "objective": resolved.direction.value, "at": resolved.at}
    pick = {"trial": optimum.trial, "epoch": optimum.epoch, **step_fact(optimum), "value": optimum.value}
    return {
        **facts,
        "optimized": {**optimized, **pick, "value_here": value, "loss": loss},
        "left_out": {str(trial): reason for trial, reason in chosen.lacking.items()},
    }
