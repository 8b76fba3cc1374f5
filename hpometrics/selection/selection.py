"""Select the epoch that counts for a run, and the best trial: one rule for every backend and command."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any, Self

from .._formatting import html_table, number
from .._redaction import excerpt, mask_secrets
from ..direction import ARROWS, MINIMIZE, Direction, nowhere_worse
from ..exceptions import ConfigError, NoFeasibleTrialError, NoFiniteValueError
from ..metrics.registry.ludwig_names import ReadableObjective
from ..records.trial_record import (
    Reading,
    Repeat,
    TrialRecord,
    TrialState,
    deviation,
    mean,
    mean_values,
    number_in,
    place_text,
)
from ..space.values import is_whole
from .rules import CHEAPEST, SECONDS, WITHIN_ERROR, At, CostUnit, Pick, violation

Objectives = Sequence[Direction]
Point = Sequence[float]

_FLOORS = {TrialState.COMPLETE: 0, TrialState.INFEASIBLE: 1}
_MOST = 10


@dataclass(frozen=True, repr=False)
class Best(ReadableObjective):
    """The best trial: its params, its values and where its state is stored.

    `value` and `values` are those of `epoch`, counted from 0, or None if the trial does not have it.
    `checkpoint` is the state at its end, if kept. `step` has the steps done by then, if they are counted.
    `seed` is that of this training. With several repeats, values are means, `deviation` is that of the value,
    and `runs` has each repeat; epoch, seed and checkpoint are those of the first. A `confirmed` winner has
    the means of its fresh trainings, and the epoch, seed and checkpoint of the training with the median
    value. With several objectives, `metric`, `direction` and `value` are those of the first; `optimized` has
    the direction of each, `scores` the values in the same order.
    """

    params: Mapping[str, Any]
    value: float
    epoch: int | None
    checkpoint: Path | None
    trial: int
    metric: str
    direction: Direction
    values: Mapping[str, Reading]
    deviation: float | None = None
    repeats: int = 1
    optimized: Mapping[str, Direction] = field(default_factory=dict)
    step: int | None = None
    seed: int | None = None
    runs: tuple[Repeat, ...] = ()
    confirmed: bool = False

    @classmethod
    def of(cls, record: TrialRecord, optimized: Mapping[str, Direction]) -> Self:
        """Create the result for a selected trial, with the objectives by name."""
        value, epoch = record.value, record.epoch
        metric, direction = next(iter(optimized.items()))
        return cls(
            params=record.params,
            value=math.nan if value is None else value,
            epoch=None if epoch is None or epoch < 0 else epoch,
            checkpoint=record.checkpoint,
            trial=record.number,
            metric=metric,
            direction=direction,
            values=record.picked_values or ({} if value is None else {metric: value}),
            deviation=record.deviation,
            repeats=max(1, len(record.repeats)),
            optimized=dict(optimized),
            step=record.step,
            seed=record.seed,
            runs=record.repeats,
        )

    def trained_again(self, fresh: Sequence[TrialRecord]) -> Self:
        """Return it as a confirmed winner, with what its fresh trainings measured."""
        runs, median = tuple(record.as_repeat() for record in fresh), median_record(fresh, self.direction)
        values = [run.value for run in runs]
        return replace(
            self,
            value=mean(values),
            values={**median.picked_values, **mean_values(runs)},
            deviation=deviation(values),
            repeats=len(runs),
            epoch=None if median.epoch is None or median.epoch < 0 else median.epoch,
            step=median.step,
            seed=median.seed,
            checkpoint=median.checkpoint,
            runs=runs,
            confirmed=True,
        )

    def __repr__(self) -> str:
        values = [(self.metric, self.value), *zip(list(self.optimized)[1:], self.scores[1:], strict=True)]
        ways = {self.metric: self.direction, **self.optimized}
        shown = ", ".join(f"{name} {number(value)} ({ways[name]})" for name, value in values)
        params = " ".join(f"{name}={value}" for name, value in mask_secrets(self.params).items())
        return (
            f"Best(trial {self.trial}, {place_text(self.epoch, self.step)}: {shown}; {excerpt(params, 200)})"
        )

    def _repr_html_(self) -> str:
        ways = {name: ARROWS[self.optimized.get(name)] for name in self.values}
        rows = [(f"{name}{ways[name]}", number(value)) for name, value in self.values.items()]
        params = html_table([["param", "value"], *mask_secrets(self.params).items()])
        return (
            html_table(
                [["metric", "value"], *rows], f"trial {self.trial}, {place_text(self.epoch, self.step)}"
            )
            + params
        )

    @property
    def scores(self) -> tuple[float, ...]:
        """The value of each objective."""
        return (self.value, *(number_in(self.values, name) for name in list(self.optimized)[1:]))


class Picker:
    """Follows a run and knows its picked epoch at any time, in constant work per epoch.

    Epochs that violate constraints less come before better ones (Deb, An efficient constraint handling method
    for genetic algorithms, 2000). With several objectives, the first decides, then the next ones between
    equal values. An epoch that lacks a finite value of any objective counts as nan.

    Args:
        direction: of the metric.
        at: whose value counts.
        tol: the largest change that is not an improvement.
        others: the further objectives, in their order.

    >>> picker = Picker(Direction.MAXIMIZE)
    >>> [picker.add(value) for value in (0.1, 0.9, 0.2)], picker.index, picker.value
    ([True, True, False], 1, 0.9)
    """

    def __init__(
        self, direction: Direction, at: At = At.BEST, tol: float = 0.0, others: Sequence[Direction] = ()
    ) -> None:
        self.direction, self.at, self.tol, self._others = direction, at, tol, others
        self._rest: Sequence[float] = ()
        self.index: int | None = None
        self.value = math.nan
        self.violation = 0.0
        self.count = 0

    def add(self, value: float, violation: float = 0.0, rest: Sequence[float] = ()) -> bool:
        """Add the next epoch's value; return whether that epoch is now the picked one.

        Args:
            value: of the metric.
            violation: by how much the epoch exceeds the bounds of constraints.
            rest: the values of the further objectives.
        """
        if rest and not all(map(math.isfinite, rest)):
            value = math.nan
        picked = self.at is At.LAST or self._wins(value, violation, rest)
        if picked:
            self.index, self.value, self.violation, self._rest = self.count, value, violation, rest
        self.count += 1
        return picked

    def _wins(self, value: float, violation: float, rest: Sequence[float]) -> bool:
        if self.index is None or violation == self.violation:
            ties = bool(rest) and value == self.value
            return self._wins_tie(rest) if ties else self.direction.better(value, self.value, self.tol)
        closer = math.isinf(self.violation) or MINIMIZE.better(violation, self.violation)
        return closer and math.isfinite(value)

    def _wins_tie(self, rest: Sequence[float]) -> bool:
        """Compare values of equal rank by the first further objective in which they differ."""
        for direction, value, other in zip(self._others, rest, self._rest, strict=True):
            if value != other:
                return direction.better(value, other)
        return False


def ranked(records: Iterable[TrialRecord], direction: Direction) -> list[TrialRecord]:
    """Sort trials best first: the complete ones by value, the infeasible by violation, the rest by number."""

    def key(record: TrialRecord) -> tuple[int, float, float, int]:
        floor = _FLOORS.get(record.state, len(_FLOORS)) if record.value is not None else len(_FLOORS)
        value = value_of(record) if floor < len(_FLOORS) else math.nan
        infeasible = record.state is TrialState.INFEASIBLE
        exceeds = violation(record.constraints.values()) if infeasible else 0.0
        return floor, exceeds, direction.sort_key(value), record.number

    return sorted(records, key=key)


def median_record(records: Sequence[TrialRecord], direction: Direction) -> TrialRecord:
    """Return the trial whose value is the median, feasible or not; of two in the middle the worse."""
    order = sorted(records, key=lambda record: (direction.sort_key(value_of(record)), record.number))
    return order[len(order) // 2]


def pick_trial(records: Sequence[TrialRecord], direction: Direction) -> TrialRecord:
    """Return the complete trial with the best value; of equal ones the earliest.

    Raises:
        NoFeasibleTrialError: all complete trials break a constraint; the message names the one that breaks
            them least.
        NoFiniteValueError: no trial is complete; the message lists their states.
    """
    complete = sorted((r for r in records if r.state is TrialState.COMPLETE), key=lambda r: r.number)
    if not complete:
        _check_feasible(records, direction)
        states = Counter(record.state.value for record in records)
        counts = ", ".join(f"{count} {state}" for state, count in states.items()) or "none has started"
        raise NoFiniteValueError(f"no trial is complete yet: {counts}{_last_reason(records)}")
    return complete[direction.best_index(map(value_of, complete))]


def standard_error(record: TrialRecord) -> float:
    """Return the standard error of a trial's value: the deviation over the root of the number of repeats.

    Raises:
        NoFiniteValueError: the trial has fewer than two repeats.
    """
    if record.deviation is None:
        raise NoFiniteValueError(
            f"trial {record.number} was trained once, so its value has no standard error; "
            f"{' and '.join(WITHIN_ERROR)} need repeats of at least 2"
        )
    return record.deviation / math.sqrt(len(record.repeats))


def simplest_within_error(
    best: TrialRecord,
    records: Sequence[TrialRecord],
    direction: Direction,
    cost_of: Callable[[TrialRecord], float] | None = None,
) -> TrialRecord:
    """Return the simplest complete trial whose value is within one standard error of the best one's.

    A trial is simpler if its value took fewer epochs of training: the mean over its repeats of the picked
    epoch, counted from 1. Params do not tell how simple a model is. Of equally simple trials
    it is the better one, then the earliest.

    Args:
        best: the complete trial with the best value.
        records: all of them.
        direction: the metric's.
        cost_of: the cost of a trial, which then counts in place of its epochs; a nan is the highest.

    Raises:
        NoFiniteValueError: the best trial has fewer than two repeats.

    Source: Breiman, Friedman, Olshen, Stone 1984, Classification and Regression Trees, section 3.4.3.
    """
    error, complete = standard_error(best), [r for r in records if r.state is TrialState.COMPLETE]
    finite = [record for record in complete if math.isfinite(value_of(record))]
    within = [r for r in finite if not direction.better(value_of(best), value_of(r), tol=error)]
    measure = cost_of or _training_epochs
    return min(
        within,
        key=lambda record: (
            MINIMIZE.sort_key(measure(record)),
            direction.sort_key(value_of(record)),
            record.number,
        ),
    )


def value_of(record: TrialRecord) -> float:
    """Return the value of a trial; nan if it has none."""
    return math.nan if record.value is None else record.value


def _training_epochs(record: TrialRecord) -> float:
    """Return the epochs of training behind the value."""
    picked = [repeat.epoch for repeat in record.repeats] or [record.epoch or 0]
    return 1 + mean(picked)


def least_violating(records: Iterable[TrialRecord], direction: Direction) -> TrialRecord | None:
    """Return the infeasible trial that breaks its constraints least; None where there is none."""
    infeasible = [record for record in records if record.state is TrialState.INFEASIBLE]
    return ranked(infeasible, direction)[0] if infeasible else None


def _check_feasible(records: Sequence[TrialRecord], direction: Direction) -> None:
    least = least_violating(records, direction)
    if least is not None:
        infeasible = [record for record in records if record.state is TrialState.INFEASIBLE]
        raise NoFeasibleTrialError(
            f"no trial is feasible: all {len(infeasible)} complete trials break a constraint; "
            f"trial {least.number} comes closest ({least.reason})"
        )


def _last_reason(records: Sequence[TrialRecord]) -> str:
    reasons = [f" (trial {record.number}: {record.reason})" for record in records if record.reason]
    return reasons[-1] if reasons else ""


def best_by(
    records: Sequence[TrialRecord],
    optimized: Mapping[str, Direction],
    pick: Pick | str = "best",
    unit: CostUnit = SECONDS,
) -> Best:
    """Select a trial.

    Args:
        records: the trials.
        optimized: the objectives by name.
        pick: see `Pick`.
        unit: the unit of what a trial costs.

    Raises:
        NoFeasibleTrialError, NoFiniteValueError: as in `pick_trial`, `simplest_within_error`.
        ConfigError: the way to pick does not exist, or is missing for several objectives; the message names
            the trials of the front.
    """
    return Best.of(picked_trial(records, optimized, pick, unit), optimized)


def picked_trial(
    records: Sequence[TrialRecord],
    optimized: Mapping[str, Direction],
    pick: Pick | str,
    unit: CostUnit = SECONDS,
) -> TrialRecord:
    """Return the trial that a way to pick finds; see `best_by`."""
    if len(optimized) > 1:
        return _of_front(pareto_front(records, optimized), optimized, pick)
    direction = next(iter(optimized.values()))
    if pick not in ("best", *WITHIN_ERROR):
        raise ConfigError(
            f"pick must be one of best, {', '.join(WITHIN_ERROR)}, got {pick!r}; knee and the number of a "
            "trial need several objectives"
        )
    best = pick_trial(records, direction)
    if pick == "best":
        return best
    return simplest_within_error(best, records, direction, unit.cost_of if pick == CHEAPEST else None)


def front_of(points: Sequence[Point], objectives: Objectives) -> list[int]:
    """Return the places of the points that none dominates, by the first objective, then by the next ones.

    Equal points are all listed, the earliest first. A point with a value that is not finite never is.

    >>> front_of([(0.5, 2.0), (0.9, 4.0), (0.4, 3.0), (0.5, 2.0)], [Direction.MAXIMIZE, Direction.MINIMIZE])
    [1, 0, 3]
    """
    finite = [place for place, point in enumerate(points) if all(map(math.isfinite, point))]
    ordered = sorted((keys_of(points[place], objectives), place) for place in finite)
    front: list[int] = []
    rivals: list[tuple[float, ...]] = []  # who is dominated is so by a different point that comes before
    for keys, equal in groupby(ordered, key=itemgetter(0)):
        nearest = rivals[-1:] if len(objectives) < 3 else rivals  # of two, the last has the best second value
        if not any(nowhere_worse(rival, keys) for rival in nearest):
            rivals.append(keys)
            front += [place for _, place in equal]
    return front


def front_trials(records: Sequence[TrialRecord], optimized: Mapping[str, Direction]) -> list[TrialRecord]:
    """Return the complete trials that none dominates, in the order of `front_of`.

    Args:
        records: in any order.
        optimized: the objectives by name.
    """
    complete = sorted((r for r in records if r.state is TrialState.COMPLETE), key=lambda r: r.number)
    points = [record.scores(optimized) for record in complete]
    return [complete[place] for place in front_of(points, list(optimized.values()))]


def knee_of(front: Sequence[Point], objectives: Objectives) -> int:
    """Return the place of the knee of a front; of equal ones the earliest.

    Each objective is scaled to 0 for its best and 1 for its worst value on the front. The extremes of a front
    are then at the unit points. The knee is the point farthest from the plane through these, towards the best
    of all: that with the smallest sum. Where the front bulges the other way, it is an extreme.

    Args:
        front: in the order that decides between equal ones.
        objectives: of each value.

    Source: Das 1999, On characterizing the "knee" of the Pareto curve based on normal-boundary intersection,
        Structural Optimization 18(2/3).

    >>> knee_of([(0.9, 8.0), (0.8, 2.0), (0.4, 0.0)], [Direction.MAXIMIZE, Direction.MINIMIZE])
    1
    """
    return MINIMIZE.best_index(map(math.fsum, scaled_points(front, objectives)))


def scaled_points(front: Sequence[Point], objectives: Objectives) -> list[tuple[float, ...]]:
    """Scale each value of the points of a front to 0 at the best and 1 at the worst of its objective."""
    columns = [_scaled(values, one) for values, one in zip(zip(*front, strict=True), objectives, strict=True)]
    return list(zip(*columns, strict=True))


def _scaled(values: Sequence[float], direction: Direction) -> list[float]:
    """Scale values of a front to 0 at the best and 1 at the worst; values that are all the same are 0."""
    ordered = sorted(values, key=direction.sort_key)
    best, worst = ordered[0] / 2, ordered[-1] / 2  # halves, so that no difference overflows
    span = direction.worse_by(worst, best)
    return [direction.worse_by(value / 2, best) / span if span else 0.0 for value in values]


def keys_of(point: Point, objectives: Objectives) -> tuple[float, ...]:
    """Return the values of a point such that the smaller one is better in each."""
    return tuple(direction.sort_key(value) for value, direction in zip(point, objectives, strict=True))


def pareto_front(records: Sequence[TrialRecord], optimized: Mapping[str, Direction]) -> list[TrialRecord]:
    """Return the feasible trials that no other one dominates, best first by the first objective.

    Of one objective these are the trials with the best value.

    Raises:
        NoFeasibleTrialError, NoFiniteValueError: there is none, as in `pick_trial`.
    """
    front = front_trials(records, optimized)
    if not front:
        pick_trial(records, next(iter(optimized.values())))
        raise NoFiniteValueError(f"no complete trial has finite values of all of {', '.join(optimized)}")
    return front


def ranked_by(records: Sequence[TrialRecord], optimized: Mapping[str, Direction]) -> list[TrialRecord]:
    """Sort trials best first; of several objectives the front, then the others by the first objective."""
    order = ranked(records, next(iter(optimized.values())))
    if len(optimized) < 2:
        return order
    front = front_trials(records, optimized)
    numbers = {record.number for record in front}
    return [*front, *(record for record in order if record.number not in numbers)]


def _of_front(
    front: Sequence[TrialRecord], optimized: Mapping[str, Direction], pick: Pick | str
) -> TrialRecord:
    if pick == "knee":
        by_number = sorted(front, key=lambda record: record.number)
        points = [record.scores(optimized) for record in by_number]
        return by_number[knee_of(points, list(optimized.values()))]
    for record in front:
        if is_whole(pick) and record.number == pick:
            return record
    if pick == "best":
        head = f"{' and '.join(optimized)} have no single best trial"
    elif is_whole(pick):
        head = f"trial {pick} is not on the front"
    else:
        head = f"with several objectives, pick must be knee or a trial of the front, got {pick!r}"
    raise ConfigError(f"{head}; set knee, or the number of one of these: {_format_front(front, optimized)}")


def _format_front(front: Sequence[TrialRecord], optimized: Mapping[str, Direction]) -> str:
    parts = [f"{record.number} ({_format_scores(record, optimized)})" for record in front[:_MOST]]
    more = len(front) - len(parts)
    return ", ".join(parts) + (f" and {more} more" if more else "")


def _format_scores(record: TrialRecord, optimized: Mapping[str, Direction]) -> str:
    scores = zip(optimized, record.scores(optimized), strict=True)
    return ", ".join(f"{name} {value:.6g}" for name, value in scores)
