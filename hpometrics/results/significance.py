"""Verdicts of a run directory: drawn when a sweep ends, kept as `verdict.json`, read by everyone else."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..config.yaml_writer import write_text
from ..exceptions import MetricNameError, NewerFormatError, NotKeptError, RecordError, UnknownMetricError
from ..records._files import read_whole
from ..records._json import FORMAT, FORMAT_KEY, check_format, read_json
from ..records.trial_record import TrialRecord, TrialState
from ..selection.selection import ranked
from ..selection.significance import Side, Verdict
from .manifest import Resolved
from .run_directory import RunDirectory

if TYPE_CHECKING:
    from ..run.rescoring import Redrawn  # with torch, which whoever reads a verdict does not need
    from .rescoring import Asked

LEVEL = 0.95
_SHOWN = 6  # sets of rows, and trials of each
_SEEDS = (0, 1)  # of winner and runner-up; the first for both where their rows are the same
_NO_WINNER = "Verdict: none; on a front of several objectives no trial is the winner"
_NOT_DRAWN = "none was drawn of these picks; best --interval 0.95 draws one"


@dataclass(frozen=True)
class Source:
    """What the trials of a sweep have left, to be drawn again.

    Args:
        home: of the run.
        records: each at the epoch that counts.
        resolved: the sweep as if the metric had been optimized.
        asked: the metric, where it is not the one that the sweep has optimized.
    """

    home: RunDirectory
    records: Sequence[TrialRecord]
    resolved: Resolved
    asked: Asked | None = None


def verdict_lines(verdict: Verdict | None, records: Sequence[TrialRecord]) -> list[str]:
    """Say in words how sure a pick is, a line each; None is the verdict of several objectives."""
    return [*([_NO_WINNER] if verdict is None else verdict.lines()), *rows_lines(records)]


def rows_lines(records: Sequence[TrialRecord]) -> list[str]:
    """Return a line for each set of validation rows with its trials; none if all used the same rows."""
    groups: dict[str, list[int]] = {}
    for record in records:
        if record.targets is not None:
            groups.setdefault(record.targets, []).append(record.number)
    if len(groups) < 2:
        return []
    head = (
        "Rows: trials were measured on different validation rows, so that their values differ by more than "
        "their params; give every trial the same rows"
    )
    return [head, *(f"  {rows}: {_listed(numbers)}" for rows, numbers in [*groups.items()][:_SHOWN])] + (
        [f"  and {len(groups) - _SHOWN} others"] if len(groups) > _SHOWN else []
    )


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_SHOWN]))
    more = f" and {len(numbers) - _SHOWN} more" if len(numbers) > _SHOWN else ""
    return f"trial{'s' * (len(numbers) > 1)} {shown}{more}"


def kept_verdict(home: RunDirectory, records: Sequence[TrialRecord], resolved: Resolved) -> Verdict | None:
    """Give the verdict that was drawn of these picks; where there is none, one without intervals.

    Of several objectives there is no winner, and no verdict.

    Raises:
        RecordError: the file of it is damaged.
    """
    if resolved.others:
        return None
    now = _undrawn(records, resolved)
    return _stored(home, now) or replace(now, reason=_NOT_DRAWN)


def conclude(home: RunDirectory, records: Sequence[TrialRecord], resolved: Resolved) -> Verdict | None:
    """Give the verdict of a sweep that has ended; it is drawn and written unless that was done before."""
    if resolved.others:
        return None
    stored = _stored(home, _undrawn(records, resolved))
    if stored is not None:
        return stored
    verdict = draw_verdict(home, records, resolved)
    content = {FORMAT_KEY: FORMAT, **verdict.to_json()}
    write_text(home.verdict, json.dumps(content, indent=1, allow_nan=False) + "\n")
    return verdict


def draw_verdict(
    home: RunDirectory,
    records: Sequence[TrialRecord],
    resolved: Resolved,
    level: float = LEVEL,
    asked: Asked | None = None,
) -> Verdict:
    """Draw the intervals of the two trials that rank first, and that of their difference.

    Args:
        home: of the run.
        records: each at the epoch that counts; at least one is complete.
        resolved: the sweep as if the metric had been optimized.
        level: of the intervals.
        asked: the metric, where it is not the one that the sweep has optimized.
    """
    source = Source(home, records, resolved, asked)
    return draw_between(replace(_undrawn(records, resolved), level=level), source, source)


def draw_between(verdict: Verdict, first: Source, second: Source) -> Verdict:
    """Draw the intervals of a verdict: its winner is of the first source, the runner-up of the second."""
    try:
        return _drawn(verdict, first, second)
    except NotKeptError as err:
        return replace(verdict, reason=str(err))


def _drawn(verdict: Verdict, source: Source, other: Source) -> Verdict:
    from ..run.rescoring import span_of

    winner, runner_up, level = verdict.winner, verdict.runner_up, verdict.level
    first = _redrawn(source, winner)
    values = first.values(_SEEDS[0])
    winner = replace(winner, interval=span_of(winner.value, values, level))
    verdict = replace(verdict, winner=winner, drawn=first.what)
    if runner_up is None:
        return replace(verdict, reason="no other trial is complete")
    try:
        second = _redrawn(other, runner_up)
        if second.what != first.what:
            raise NotKeptError(f"it keeps its {second.what}, and trial {winner.trial} its {first.what}")
        paired = first.pairs_with(second)
        others = second.values(_SEEDS[0] if paired else _SEEDS[1])
        interval = span_of(runner_up.value, others, level)
        gap = span_of(winner.value - runner_up.value, values - others, level)
    except NotKeptError as err:
        return replace(verdict, reason=f"trial {runner_up.trial}: {err}")
    return replace(verdict, runner_up=replace(runner_up, interval=interval), difference=gap, paired=paired)


def _redrawn(source: Source, side: Side) -> Redrawn:
    """What was kept of the picked epoch of a trial, to be drawn again.

    Raises:
        NotKeptError: it cannot be.
    """
    from ..run.rescoring import Answers, Redrawn
    from .rescoring import outputs_in

    resolved, asked = source.resolved, source.asked
    record = next(record for record in source.records if record.number == side.trial)
    if record.repeats:
        seeds = len(record.repeats)
        raise NotKeptError(f"its value is a mean over {seeds} seeds; their deviation says how sure it is")
    picked = next(epoch for epoch in reversed(record.epochs) if epoch.epoch == side.epoch)
    metric, threshold = (resolved.metric, None) if asked is None else (asked.measured, asked.threshold)
    try:
        answers = Answers(metric, outputs_in(resolved), threshold)
    except (UnknownMetricError, MetricNameError) as err:  # of no output that the sweep says
        raise NotKeptError(f"{metric} is reported by the engine, and of no rows that are kept") from err
    return Redrawn(answers, answers.kept_of(source.home.trial(record.number), picked))


def _undrawn(records: Sequence[TrialRecord], resolved: Resolved) -> Verdict:
    """The two trials that rank first, without intervals."""
    complete = [record for record in records if record.state is TrialState.COMPLETE]
    sides = [
        Side(record.number, record.epoch, record.value)
        for record in ranked(complete, resolved.objective)[:2]
        if record.epoch is not None and record.value is not None
    ]
    return Verdict(resolved.metric, sides[0], sides[1] if len(sides) > 1 else None)


def read_verdict(home: RunDirectory) -> Verdict | None:
    """Read the verdict in a directory whose resolved sweep has been read; None where none was drawn.

    Raises:
        RecordError: the file is damaged. Its format is never newer than that of the resolved sweep.
    """
    if not os.path.lexists(home.verdict):
        return None
    try:
        content = read_json(read_whole(home.verdict))
        check_format(content, "the verdict")
        return Verdict.from_json(content)
    except NewerFormatError:
        name = home.resolved.name
        raise RecordError(f"{home.verdict}: is damaged: {name} beside it has no such format") from None
    except ValueError as err:
        raise RecordError(f"{home.verdict}: {err}") from err


def _stored(home: RunDirectory, now: Verdict) -> Verdict | None:
    """The verdict in the directory, if it is about the same picks."""
    stored = read_verdict(home)
    return stored if stored is not None and stored.of_same_picks(now) else None
