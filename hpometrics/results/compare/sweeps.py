"""Compare sweeps that optimized the same metric, from their records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..._formatting import aligned, column, listed, number, plural, spread
from ..._redaction import is_secret, label_secrets
from ..._text import printable
from ...config.yaml_text import format_exact
from ...direction import ARROWS, Direction
from ...exceptions import ConfigError
from ...records.trial_record import TrialRecord
from ...selection.confirmation import Confirmation
from ...selection.intervals import Significance, TrialInterval
from ..best import record_of
from ..export import values_shown
from ..leaderboard import where
from ..manifest import Resolved
from ..rescoring import MetricRequest
from ..run_directory import RunDirectory
from ..status import Outcome, counts
from ..verdict import LEVEL, Source, draw_between

_HOW = "add --interval 0.95 to test whether the difference is significant"


@dataclass(frozen=True)
class SweepComparison:
    """Sweeps, best first; `difference` is between the picks of the first two, if it was drawn.

    `note` says by which trainings they are compared, if one of the two is confirmed.
    """

    order: Sequence[Outcome]
    difference: Significance | None = None
    note: str = ""

    @property
    def undecided(self) -> bool:
        """Whether none of them has a best."""
        return all(rival.best is None for rival in self.order)

    def text(self) -> str:
        """Return a table with a column for each sweep, and the differences in words."""
        rows = [["", *(rival.place for rival in self.order)], *self._rows()]
        return "\n".join([aligned(rows, "<"), "", *self._sentences()])

    def facts(self) -> dict[str, Any]:
        """Return the comparison as plain JSON."""
        first, difference = self.order[0].resolved, self.difference
        between = [str(rival.directory) for rival in self.order[:2]]
        return {
            "metric": first.metric,
            "objective": first.direction.value,
            "sweeps": [rival.facts() for rival in self.order],
            "params_differ": {
                name: [None if rival.best is None else rival.best.params.get(name) for rival in self.order]
                for name in self._differing()
            },
            "difference": None if difference is None else {"between": between, **difference.to_json()},
            "notes": [self.note] if self.note else [],
        }

    def _rows(self) -> Iterator[list[str]]:
        yield ["sweep", *(printable(rival.resolved.name) for rival in self.order)]
        yield ["trials", *(counts(rival.records, rival.resolved) for rival in self.order)]
        for name, setting in _SETTINGS.items():
            cells = [setting(rival.resolved) for rival in self.order]
            if len(set(cells)) > 1:
                yield [name, *cells]
        yield ["picked", *(where(rival.best, rival.resolved) if rival.best else "-" for rival in self.order)]
        yield from self._values()
        for name in self._params():
            yield [printable(name), *(_param(rival, name) for rival in self.order)]

    def _values(self) -> Iterator[list[str]]:
        directions: dict[str, Direction | None] = {}
        for rival in self.order:
            directions |= values_shown(_picked(rival), rival.resolved)
        for name, direction in directions.items():
            yield [f"{name}{ARROWS[direction]}", *(_value(rival, name) for rival in self.order)]
            if name != self.order[0].resolved.metric:
                continue
            intervals = [rival.interval for rival in self.order]
            if any(intervals):
                yield [f"{100 * LEVEL:g}% interval", *(one.bounds if one else "-" for one in intervals)]
            if any(_confirmation(rival) for rival in self.order):
                yield ["on new rows", *(_expected(rival) for rival in self.order)]
                yield ["confirmed", *(_state(rival) for rival in self.order)]

    def _params(self) -> list[str]:
        """Return the names of the params of all picks, in the order of the files."""
        picks = [rival.resolved.ordered(rival.best.params) for rival in self.order if rival.best]
        return list(dict.fromkeys(name for params in picks for name in params))

    def _differing(self) -> list[str]:
        """Return the names of the params that differ between the picks."""
        picked = [rival for rival in self.order if rival.best]
        return [name for name in self._params() if len({_param(rival, name) for rival in picked}) > 1]

    def _sentences(self) -> Iterator[str]:
        picked = [rival for rival in self.order if rival.best]
        if len(picked) > 1:
            yield _gap(*picked[:2])
            yield from _basis(picked[:2])
            differing = ", ".join(map(printable, self._differing()))
            yield f"the picked params {f'differ in {differing}' if differing else 'are the same'}"
            places = f"{picked[0].place}, ", f"{picked[1].place}, "
            yield from [self.note] if self.note else []
            yield from [_HOW] if self.difference is None else self.difference.lines(places)
            yield from _other_rows(*picked[:2])
        for rival in self.order:
            if rival.reason is not None:
                yield f"{rival.place}: {rival.reason}"


def compare_sweeps(directories: Sequence[Path], level: float | None = None) -> SweepComparison:
    """Read sweeps and order them by their best value, best first; those without a best come last.

    Args:
        directories: the run directories.
        level: the level of the intervals to draw for the first two picks and their difference, if any.

    Raises:
        ConfigError: one is not a run directory, or optimized another metric, or several objectives.
        RecordError: one of their files is damaged.
    """
    results = [_read(directory) for directory in directories]
    for rival in results[1:]:
        _check_same(results[0], rival)
    direction = results[0].resolved.direction
    order = sorted(results, key=lambda rival: direction.sort_key(rival.value))
    if level is None:
        return SweepComparison(order)
    return SweepComparison(order, *_draw_difference(order[0], order[1], level))


def _read(directory: Path) -> Outcome:
    result = Outcome.read(directory)
    if result.resolved.others:
        raise ConfigError(
            f"{directory} optimized several objectives, {' and '.join(result.resolved.optimized)}, so no "
            f"single trial is the best; hpometrics best {directory} prints the front"
        )
    return result


def _check_same(first: Outcome, other: Outcome) -> None:
    one, another = first.resolved, other.resolved
    if (one.metric, one.direction, one.formula) != (another.metric, another.direction, another.formula):
        objectives = f"{first.place} has {_optimized(one)}, {other.place} has {_optimized(another)}"
        raise ConfigError(f"the sweeps must have the same metric and direction: {objectives}")


def _optimized(resolved: Resolved) -> str:
    formula = f" = {resolved.formula}" if resolved.formula else ""
    return f"{resolved.metric}{formula} ({resolved.direction})"


def _draw_difference(first: Outcome, second: Outcome, level: float) -> tuple[Significance | None, str]:
    """Return the verdict on two picks, and a line on the trainings that it compares, see `fresh_models`."""
    records = [record for rival in (first, second) for record in _picked(rival)]
    sides = [
        TrialInterval(record.number, record.epoch, record.value)
        for record in records
        if record.value is not None and record.epoch is not None and record.epoch >= 0
    ]
    if len(sides) < 2:
        return None, ""
    verdict = Significance(first.resolved.metric, sides[0], sides[1], level=level)
    fresh, note = None, ""
    if any(_confirmation(rival) for rival in (first, second)):
        fresh, note = _of_fresh_trainings(verdict, first, second)
    return fresh or draw_between(verdict, _source(first), _source(second)), note


def _of_fresh_trainings(
    verdict: Significance, first: Outcome, second: Outcome
) -> tuple[Significance | None, str]:
    """Return the verdict on two winners by their fresh trainings, if both have rows of some, and the line."""
    from .stored_trial import (  # with torch, which values of the record do not need
        StoredTrial,
        fresh_models,
    )

    resolved = first.resolved
    request = MetricRequest(resolved.metric, resolved.direction, resolved.metric)
    trials = [StoredTrial.of(rival.place, rival) for rival in (first, second)]
    models, note = fresh_models(trials, request)
    if not models:
        return None, note
    level, scale = 1 - verdict.level, trials[0].scale(request)
    numbers = [(trial.record.number, trial.record.epoch or 0) for trial in trials]
    intervals = [model.interval(level, scale) for model in models]
    sides = [
        TrialInterval(trial, epoch, interval.value, interval)
        for (trial, epoch), interval in zip(numbers, intervals, strict=True)
    ]
    pair = models[0].difference(models[1], level)
    verdict = replace(
        verdict,
        winner=sides[0],
        runner_up=sides[1],
        difference=pair.interval,
        paired=pair.paired,
        p_value=pair.p_value,
        kept="fresh",
    )
    return verdict, note


def _source(rival: Outcome) -> Source:
    return Source(RunDirectory(rival.directory), rival.records, rival.resolved)


def _gap(first: Outcome, second: Outcome) -> str:
    metric, direction = first.resolved.metric, first.resolved.direction
    if not direction.better(first.value, second.value):
        return f"{first.place} and {second.place} are equal in {metric} ({direction})"
    gap = number(direction.worse_by(second.value, first.value))
    return f"{first.place} is better by {gap} in {metric} ({direction})"


def _basis(rivals: Sequence[Outcome]) -> Iterator[str]:
    """Yield what the values of confirmed sweeps are, and which sweep beside them is not confirmed."""
    confirmed = [rival for rival in rivals if _confirmation(rival)]
    if confirmed:
        places = listed(rival.place for rival in confirmed)
        yield f"the value of {places} is the mean over fresh trainings of its winner"
    for rival in rivals if confirmed else ():
        if rival not in confirmed:
            yield (
                f"{rival.place} is not confirmed: its value is the best of a search and includes luck; "
                f"run hpometrics confirm {rival.place}"
            )


def _confirmation(rival: Outcome) -> Confirmation | None:
    """Return how the winner was confirmed, if it was trained again."""
    end = rival.confirmation
    return end if isinstance(end, Confirmation) and end.honest is not None else None


def _expected(rival: Outcome) -> str:
    """Return the value of a winner on new rows with its interval, if that is known."""
    end = _confirmation(rival)
    if end is None or end.honest is None or not end.honest.is_corrected:
        return "-"
    interval = end.honest.interval
    return f"{interval.format(interval.value)} ({interval.bounds})"


def _state(rival: Outcome) -> str:
    end = _confirmation(rival)
    return "no" if end is None else f"{end.state.value}, {plural(end.standing.seeds, 'fresh training')}"


def _other_rows(first: Outcome, second: Outcome) -> Iterator[str]:
    """Yield a sentence if the picks of two sweeps were measured on different known rows."""
    sides = [(rival.place, record.targets) for rival in (first, second) for record in _picked(rival)]
    (one, rows), (other, others) = sides
    if rows is not None and others is not None and rows != others:
        yield (
            f"{one} was measured on {rows}, {other} on {others}: not only the params make the values differ"
        )


def _picked(rival: Outcome) -> list[TrialRecord]:
    return [record_of(rival.best, rival.records)] if rival.best else []


def _value(rival: Outcome, name: str) -> str:
    best = rival.best
    if best is None:
        return "-"
    if name != best.metric:
        return column(best.values.get(name))
    return column(best.value) if best.deviation is None else spread(best.value, best.deviation, best.repeats)


def _param(rival: Outcome, name: str) -> str:
    """Return a param so that equal texts mean equal values: a secret shows the variable it is read from."""
    params = rival.best.params if rival.best else {}
    if name not in params:
        return "-"
    value = label_secrets(params[name])
    return value if is_secret(params[name]) else format_exact(value)


_SETTINGS: dict[str, Callable[[Resolved], str]] = {
    "output": lambda resolved: format_exact(resolved.output),
    "at": lambda resolved: resolved.at,
    "constraints": lambda resolved: ", ".join(resolved.constraints) or "-",
}
"""Further settings that decide what a value means; shown if they differ between the sweeps."""
