"""The course of a front's confirmation: which trials are trained again, and the front of their means."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from .._formatting import plural
from ..direction import Direction
from ..exceptions import NoFiniteValueError
from ..records.trial_record import TrialRecord, deviation, mean, number_in
from .confirm_settings import LEAST_SEEDS
from .confirmation import ConfirmationRecord, Contender
from .confirmation_plan import Next, broken_bounds, failure_of
from .front_confirmation import FrontConfirmation, FrontMember
from .selection import front_of, front_trials, knee_of, scaled_points
from .two_way import TwoWay

Values = Mapping[str, Sequence[float]]
"""The values of a member by objective, in the order of the seeds."""


def front_contenders(
    records: Sequence[TrialRecord], optimized: Mapping[str, Direction], top: int
) -> tuple[list[Contender], list[Contender]]:
    """Return the trials of a front that are trained again, and the others of it.

    If the front has more than `top`, they are the best trial in each objective, and then one after the other
    the trial farthest from those chosen, each objective scaled to 0 for its best and 1 for its worst value.

    Args:
        records: the trials of the search.
        optimized: the objectives by name.
        top: the most trials.
    """
    front = front_trials(records, optimized)
    if not front:
        return [], []
    points = [record.scores(optimized) for record in front]
    scores = scaled_points(points, list(optimized.values()))
    chosen = list(dict.fromkeys(column.index(0.0) for column in zip(*scores, strict=True)))[:top]
    while len(chosen) < min(top, len(front)):
        rest = [place for place in range(len(front)) if place not in chosen]
        chosen.append(
            max(rest, key=lambda place: min(math.dist(scores[place], scores[one]) for one in chosen))
        )
    both: tuple[list[Contender], list[Contender]] = [], []
    for place, record in enumerate(front):
        both[place not in chosen].append(Contender(record.number, points[place][0]))
    return both


def plan_front(record: ConfirmationRecord, optimized: Mapping[str, Direction]) -> Next[FrontConfirmation]:
    """Return the runs of a front that are missing, or how its confirmation ended.

    Args:
        record: all that decides; the plans look only once, after all of their seeds.
        optimized: the objectives by name.

    Raises:
        NoFiniteValueError: there are fewer than two contenders.
    """
    if len(record.contenders) < 2:
        raise NoFiniteValueError(
            f"confirm needs a front of at least two trials, got {plural(len(record.contenders), 'trial')}"
        )
    repeats = max(plan.settings.repeats for plan in record.plans)
    missing = tuple(
        (trial, seed)
        for seed in range(1, repeats + 1)
        for trial in record.contenders
        if (trial, seed) not in record.runs and failure_of(record, trial, repeats, [*optimized]) is None
    )
    if missing and not record.timed_out:
        return Next(missing)
    return Next(end=_FrontCourse(record, optimized).end(repeats, is_early=bool(missing)))


class _Look(NamedTuple):
    """A comparison of the members of a front."""

    seeds: int
    trials: frozenset[int]


class _FrontCourse:
    """The fresh runs of a front, and what they say."""

    def __init__(self, record: ConfirmationRecord, optimized: Mapping[str, Direction]) -> None:
        self._record, self._optimized = record, optimized

    def end(self, repeats: int, is_early: bool) -> FrontConfirmation:
        """Return how it ended: after as many seeds as each member that is compared has."""
        record, failures = self._record, {}
        for trial in record.contenders:
            if reason := failure_of(record, trial, repeats, [*self._optimized]):
                failures[trial] = reason
        counts = {one: record.seeds_of(one, repeats) for one in record.contenders if one not in failures}
        seeds = self._common_seeds(counts)
        compared: dict[int, Values] = {}
        for trial, count in counts.items():
            if (common := min(seeds, count)) < LEAST_SEEDS:
                failures[trial] = f"needs {LEAST_SEEDS} trainings to show how seeds vary, got {common}"
            elif broken := broken_bounds(record, trial, seeds):
                failures[trial] = broken
            else:
                compared[trial] = self._values(trial, seeds)
        members = list(self._members(compared, failures, seeds))
        looks = self._looks()
        return FrontConfirmation(
            objectives=self._optimized,
            members=tuple(members),
            knee=self._knee(compared, members),
            level=self._level,
            trainings=sum(member.seeds for member in members),
            planned=len(record.contenders) * repeats,
            others=len(record.others),
            seeds_matter=not compared or any(map(_varies, compared.values())),
            reason="the time is up" if is_early else None,
            extended=len(looks) - 1,
        )

    def _common_seeds(self, counts: Mapping[int, int]) -> int:
        """Return the number of seeds that all have, except members that joined later and have too few."""
        first = {one.trial for one in self._record.plans[0].contenders}
        compared = [count for one, count in counts.items() if one in first or count >= LEAST_SEEDS]
        return min(compared or counts.values(), default=0)

    def _looks(self) -> list[_Look]:
        """Return when members are compared: after the first plan, and after each that extends it."""
        looks: list[_Look] = []
        for plan in self._record.plans:
            trials = {one.trial for one in plan.contenders}
            earlier = looks[-1] if looks else _Look(0, frozenset())
            if plan.settings.repeats > earlier.seeds or not trials <= earlier.trials:
                looks.append(_Look(max(earlier.seeds, plan.settings.repeats), earlier.trials | trials))
        return looks

    @property
    def _level(self) -> float:
        return self._record.plans[0].settings.level

    def _values(self, trial: int, seeds: int) -> Values:
        runs = self._record.runs_of(trial, seeds)
        return {name: [number_in(run.values, name) for run in runs] for name in self._optimized}

    def _members(
        self, compared: Mapping[int, Values], failures: Mapping[int, str], seeds: int
    ) -> Iterator[FrontMember]:
        """Yield the new front, best first by the first objective, then the others."""
        trials = list(compared)
        points = [_means(compared[trial]) for trial in trials]
        front = [trials[place] for place in front_of(points, list(self._optimized.values()))]
        beaten = self._beaten(compared)
        for trial in [*front, *(one for one in self._record.contenders if one not in front)]:
            values = compared.get(trial, {})
            runs = self._record.runs_of(trial, seeds or 1)
            yield FrontMember(
                trial=trial,
                search_value=self._record.contenders[trial],
                values={name: TwoWay.of_seeds(each).interval(self._level) for name, each in values.items()},
                deviations={name: deviation(each) or 0.0 for name, each in values.items()},
                seeds=len(runs),
                seconds=mean(run.seconds for run in runs) if runs else 0.0,
                on_front=trial in front,
                beaten_by=None if trial in front else beaten.get(trial),
                reason=failures.get(trial),
            )

    def _beaten(self, compared: Mapping[int, Values]) -> dict[int, int]:
        """Return the members that another one beats in each objective, with the first that does.

        The first plan errs at its level, the first extension at half of it. A further one decides nothing:
        the verdicts after the first extension stand.
        """
        looks = self._looks()
        look, level = (looks[0], self._level) if len(looks) == 1 else (looks[1], self._level / 2)
        then = {
            trial: {name: each[: look.seeds] for name, each in values.items()}
            for trial, values in compared.items()
            if trial in look.trials
        }
        pairs = ((trial, self._better_one(trial, then, level)) for trial in then)
        return {trial: better for trial, better in pairs if better is not None}

    def _better_one(self, trial: int, compared: Mapping[int, Values], level: float) -> int | None:
        """Return the first member that is better in each objective at the level shared by the objectives."""
        for other in compared:
            gaps = (
                TwoWay.of_seeds(
                    [
                        direction.worse_by(value, better)
                        for value, better in zip(compared[trial][name], compared[other][name], strict=True)
                    ]
                )
                for name, direction in self._optimized.items()
            )
            share = level / len(self._optimized)
            if other != trial and all(gap.mean > gap.half_width(share) for gap in gaps):
                return other
        return None

    def _knee(self, compared: Mapping[int, Values], members: Sequence[FrontMember]) -> int | None:
        front = sorted(member.trial for member in members if member.on_front)
        if not front:
            return None
        points = [_means(compared[trial]) for trial in front]
        return front[knee_of(points, list(self._optimized.values()))]


def _means(values: Values) -> tuple[float, ...]:
    return tuple(mean(each) for each in values.values())


def _varies(values: Values) -> bool:
    return any(len(set(each)) > 1 for each in values.values())
