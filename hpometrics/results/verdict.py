"""The verdict on a sweep's pick: drawn when the sweep ends, stored as `verdict.json`, read by the reports."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple, Self

from .._formatting import first_of, json_text
from ..exceptions import (
    ConfigError,
    MetricNameError,
    NewerFormatError,
    NotKeptError,
    RecordError,
    UnknownMetricError,
)
from ..records._files import read_whole, write_text
from ..records._json import FORMAT, FORMAT_KEY, check_format, read_json
from ..records.trial_record import EpochRecord, TrialRecord, TrialState, numbers_of
from ..selection.front_confirmation import AnyConfirmation
from ..selection.intervals import Interval, Kept, Significance, TrialInterval
from ..selection.selection import Best, ranked
from .leaderboard import params_line
from .manifest import Resolved
from .rescoring import MetricRequest, make_rescorer
from .run_directory import RunDirectory

if TYPE_CHECKING:
    from ..run.rescorer import Rescorer  # with torch, which reading a verdict does not need
    from ..run.statistics_store import EpochStatistics
    from ..selection.model_rows import ModelRows

LEVEL = 0.95
LISTED = 10
"""The trials whose intervals are drawn when a sweep ends."""

_LISTED = 6  # sets of rows, and trials of each
_ACCURACY = "accuracy"
_LOGGED_ACCURACY = re.compile(r"(?:.*/)?(?:val|eval|valid|validation)[_/]acc(?:uracy)?")
_LABELS = ("winner", "runner-up")
_ARE: dict[Kept, str] = {"rows": "are", "matrix": "is"}
_NO_WINNER = "Verdict: none, because a front of several objectives has no winner"
_NOT_DRAWN = "not computed for these picks; run hpometrics best with --interval 0.95"


@dataclass(frozen=True)
class Source:
    """The stored scores of a sweep's trials, from which intervals are drawn.

    Args:
        home: the run directory.
        records: the trials, each at the epoch that counts.
        resolved: the sweep as if the metric had been optimized.
        request: the metric, if it is not the one that the sweep optimized.
    """

    home: RunDirectory
    records: Sequence[TrialRecord]
    resolved: Resolved
    request: MetricRequest | None = None


def verdict_lines(verdict: Significance | None, records: Sequence[TrialRecord]) -> list[str]:
    """Return in words how sure a pick is, a line each; None is the verdict of several objectives."""
    return [*([_NO_WINNER] if verdict is None else verdict.lines()), *rows_lines(records)]


def winner_lines(
    end: AnyConfirmation | None,
    verdict: Significance | None,
    best: Best,
    records: Sequence[TrialRecord],
    resolved: Resolved,
    place: object,
) -> list[str]:
    """Return how sure the winner of a sweep is, in words: its confirmation, or the verdict on the search.

    Args:
        end: the confirmation, if there was one.
        verdict: the verdict on the search; None for several objectives.
        best: the winner.
        records: the trials of the sweep.
        resolved: the sweep.
        place: its directory, as it is printed.
    """
    if end is None:
        lines = [] if verdict is None else _open_question(verdict, records, place)
        return [*verdict_lines(verdict, records), *lines]

    def more(repeats: int) -> str:
        return f"hpometrics confirm {place} --repeats {repeats}"

    return [*end.lines(params_line(best.params, resolved), more), *rows_lines(records)]


def _open_question(verdict: Significance, records: Sequence[TrialRecord], place: object) -> list[str]:
    """Return what a verdict on two trained models leaves open, and the command that answers it."""
    if verdict.runner_up is None or any(record.exploits for record in records):  # pbt cannot be confirmed
        return []
    command = f"hpometrics confirm {place} trains the best trials again"
    if verdict.difference is None:
        return [f"  another seed can reverse the order; {command}"]
    return [f"  it compares two trained models on other rows, but another seed can reverse it: {command}"]


def rows_lines(records: Sequence[TrialRecord]) -> list[str]:
    """Return what makes values hard to compare: other rows in some trials, and logged means of batches."""
    return [*_other_rows(records), *_logged_means(records)]


def _other_rows(records: Sequence[TrialRecord]) -> list[str]:
    """Return a line for each set of validation rows with its trials; none if all used the same rows."""
    groups: dict[str, list[int]] = {}
    for record in records:
        if record.targets is not None:
            groups.setdefault(record.targets, []).append(record.number)
    if len(groups) < 2:
        return []
    head = (
        "Rows: trials were measured on different validation rows, so their values differ for more reasons "
        "than their params; give every trial the same rows"
    )
    lines = [
        f"  {rows}: trial{'s' * (len(numbers) > 1)} {first_of(numbers, _LISTED)}"
        for rows, numbers in [*groups.items()][:_LISTED]
    ]
    more = [f"  and {len(groups) - _LISTED} others"] if len(groups) > _LISTED else []
    return [head, *lines, *more]


def _logged_means(records: Sequence[TrialRecord]) -> list[str]:
    """Return a line for each accuracy that was logged beside the measured one, and is not a share of rows.

    An accuracy over the rows is a whole number of them, whatever its threshold. A logged loss is not
    compared: weights, smoothing and penalties make it another loss.
    """
    found: dict[str, str] = {}
    for record in records:
        for epoch in record.epochs:
            for name, text in _no_shares(record, epoch):
                found.setdefault(name, text)
    return list(found.values())


def _no_shares(record: TrialRecord, epoch: EpochRecord) -> Iterator[tuple[str, str]]:
    """Yield each logged accuracy of an epoch that is not a share of its rows, with a line about it."""
    if _ACCURACY not in epoch.values:
        return
    logged = sorted(filter(_LOGGED_ACCURACY.fullmatch, epoch.values))
    if not logged:
        return
    values = numbers_of(epoch.values)
    measured = values.get(_ACCURACY, math.nan)
    counted = (record.targets or "").partition(" ")[0]
    rows = int(values.get("exs", counted if counted.isdecimal() else 0))
    if not rows or not _is_share(measured, rows):
        return
    for name in logged:
        if math.isfinite(values.get(name, math.nan)) and not _is_share(values[name], rows):
            yield (
                name,
                f"Logged: {name} {values[name]:g} (trial {record.number}, epoch {epoch.epoch}) is not a "
                f"share of {rows} rows, as accuracy {measured:g} is; it may be a mean over batches of "
                "unequal size, or over classes",
            )


def _is_share(value: float, rows: int) -> bool:
    """Return whether a value, or a percentage, can be a whole number of rows, as far as its digits show."""
    if not math.isfinite(value):
        return False
    percent = 100 if value > 1 else 1
    if (math.frexp(value)[0] * 2**11).is_integer():  # a number in half precision
        return True
    last_digit = Decimal(10) ** int(Decimal(repr(value)).as_tuple().exponent)
    count = value / percent * rows
    return abs(count - round(count)) <= rows * float(last_digit) / percent / 2 + count * 1e-6


def stored_verdict(
    home: RunDirectory, records: Sequence[TrialRecord], resolved: Resolved
) -> Significance | None:
    """Return the stored verdict on these picks; without intervals if none is stored.

    Several objectives have no winner, and no verdict.

    Raises:
        RecordError: its file is damaged.
    """
    if resolved.others:
        return None
    now = _ranked_sides(records, resolved)
    return _stored(home, now) or replace(now, reason=_NOT_DRAWN)


def conclude(home: RunDirectory, records: Sequence[TrialRecord], resolved: Resolved) -> Significance | None:
    """Return the verdict on a sweep that has ended; draw and write it unless it is stored."""
    if resolved.others:
        return None
    stored = _stored(home, _ranked_sides(records, resolved))
    if stored is not None:
        return stored
    verdict = draw_verdict(home, records, resolved)
    if verdict.kept is not None:  # else nothing is stored of the others either
        verdict = replace(verdict, others=_others(Source(home, records, resolved)))
    others = [asdict(side) for side in verdict.others]
    content = {FORMAT_KEY: FORMAT, **verdict.to_json(), "others": others}
    write_text(home.verdict, json_text(content) + "\n")
    return verdict


def draw_verdict(
    home: RunDirectory,
    records: Sequence[TrialRecord],
    resolved: Resolved,
    level: float = LEVEL,
    request: MetricRequest | None = None,
) -> Significance:
    """Draw the intervals of the two trials that rank first, and that of their difference.

    Args:
        home: the run directory.
        records: the trials, each at the epoch that counts; at least one is complete.
        resolved: the sweep as if the metric had been optimized.
        level: the level of the intervals.
        request: the metric, if it is not the one that the sweep optimized.
    """
    source = Source(home, records, resolved, request)
    return draw_between(replace(_ranked_sides(records, resolved), level=level), source, source)


def _others(source: Source) -> tuple[TrialInterval, ...]:
    """Return the trials that rank third to tenth, of which enough is stored, with their intervals."""
    sides = []
    for side in leading_sides(source.records, source.resolved, LISTED)[2:]:
        try:
            stored = _StoredModel.read(source, side, f"trial {side.trial}")
            interval = stored.rows()[0].interval(1 - LEVEL, stored.rescorer.scale)
            sides.append(_around(side, interval))
        except (NotKeptError, ConfigError):
            continue
    return tuple(sides)


def draw_between(verdict: Significance, first: Source, second: Source) -> Significance:
    """Add the intervals to a verdict: its winner is of the first source, the runner-up of the second."""
    try:
        return _with_intervals(verdict, first, second)
    except NotKeptError as err:
        return replace(verdict, reason=str(err))


def _with_intervals(verdict: Significance, source: Source, other: Source) -> Significance:
    winner, runner_up, level = verdict.winner, verdict.runner_up, 1 - verdict.level
    first = _StoredModel.read(source, winner, _LABELS[0])
    own, kept = first.rows()
    interval = _around(winner, own.interval(level, first.rescorer.scale))
    verdict = replace(verdict, winner=interval, kept=kept)
    if runner_up is None:
        return replace(verdict, reason="no other trial is complete")
    try:
        second = _StoredModel.read(other, runner_up, _LABELS[1])
        others, kept_of_other = second.rows()
        if kept_of_other != kept:
            raise NotKeptError(
                f"its {kept_of_other} {_ARE[kept_of_other]} stored, but for trial {winner.trial} the {kept}"
            )
        if own.method != others.method:  # the value of one is a mean over its rows by chance
            (own, _), (others, _) = (side.rows(own_rows=False) for side in (first, second))
        interval = _around(runner_up, others.interval(level, second.rescorer.scale))
        pair = own.difference(others, level)
    except (NotKeptError, ConfigError) as err:
        return replace(verdict, reason=f"trial {runner_up.trial}: {err}")
    return replace(
        verdict,
        runner_up=interval,
        difference=pair.interval,
        paired=pair.paired,
        p_value=pair.p_value,
    )


def _around(side: TrialInterval, interval: Interval) -> TrialInterval:
    """Return a trial with its interval.

    Raises:
        NotKeptError: nothing varies, so that it has no length.
    """
    if interval.low == interval.high:
        raise NotKeptError(
            f"all rows of trial {side.trial} have the same value, so they do not predict other rows"
        )
    return replace(side, interval=interval)


class _StoredModel(NamedTuple):
    """A trial at its picked epoch, of which something is stored."""

    label: str
    rescorer: Rescorer
    statistics: EpochStatistics

    @classmethod
    def read(cls, source: Source, side: TrialInterval, label: str) -> Self:
        """Read what is stored of a trial.

        Raises:
            NotKeptError: nothing is.
        """
        resolved, request = source.resolved, source.request
        record = next(record for record in source.records if record.number == side.trial)
        if record.repeats:
            seeds = len(record.repeats)
            raise NotKeptError(
                f"its value is a mean over {seeds} seeds; their deviation shows the uncertainty"
            )
        picked = next(epoch for epoch in reversed(record.epochs) if epoch.epoch == side.epoch)
        metric, threshold = (
            (resolved.metric, None) if request is None else (request.measured, request.threshold)
        )
        try:
            rescorer = make_rescorer(resolved, metric, threshold)
        except (UnknownMetricError, MetricNameError) as err:  # of no output that the sweep says
            raise NotKeptError(f"{metric} is reported by the engine and has no stored rows") from err
        return cls(label, rescorer, rescorer.statistics_of(source.home.trial(record.number), picked))

    def rows(self, own_rows: bool = True) -> tuple[ModelRows, Kept]:
        """Return its row values, and what they were computed from.

        Raises:
            NotKeptError: what is stored does not have them.
        """
        return self.rescorer.row_values(self.statistics, self.label, own_rows)


def _ranked_sides(records: Sequence[TrialRecord], resolved: Resolved) -> Significance:
    """Return the two trials that rank first, without intervals."""
    sides = leading_sides(records, resolved, 2)
    return Significance(resolved.metric, sides[0], sides[1] if len(sides) > 1 else None)


def leading_sides(records: Sequence[TrialRecord], resolved: Resolved, count: int) -> list[TrialInterval]:
    """Return the trials that rank first, without intervals."""
    complete = [record for record in records if record.state is TrialState.COMPLETE]
    return [
        TrialInterval(record.number, record.epoch, record.value)
        for record in ranked(complete, resolved.direction)[:count]
        if record.epoch is not None and record.value is not None
    ]


def read_verdict(home: RunDirectory) -> Significance | None:
    """Read the verdict in a directory whose resolved sweep has been read; None if none is stored.

    Raises:
        RecordError: the file is damaged. Its format is never newer than that of the resolved sweep.
    """
    if not os.path.lexists(home.verdict):
        return None
    try:
        content = read_json(read_whole(home.verdict))
        check_format(content, "the verdict")
        return Significance.from_json(content)
    except NewerFormatError:
        name = home.resolved.name
        raise RecordError(f"{home.verdict}: is damaged: {name} beside it does not have this format") from None
    except ValueError as err:
        raise RecordError(f"{home.verdict}: {err}") from err


def _stored(home: RunDirectory, now: Significance) -> Significance | None:
    """Return the verdict in the directory, if it is about the same picks."""
    stored = read_verdict(home)
    return stored if stored is not None and stored.of_same_picks(now) else None
