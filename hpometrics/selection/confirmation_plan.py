"""The course of a confirmation: the runs that its next look waits for, or its end.

Decisions are a function of the record alone: no random number, no clock, no order in which runs end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import NormalDist
from typing import Generic, NamedTuple, TypeVar

import numpy as np

from ..direction import Direction
from ..exceptions import NoFiniteValueError
from ..records.trial_record import TrialRecord, TrialState, deviation, mean, number_in
from .confirm_settings import LEAST_SEEDS, LUCK, ConfirmSettings
from .confirmation import (
    UNCORRECTED,
    Confirmation,
    ConfirmationPlan,
    ConfirmationRecord,
    ConfirmationState,
    Contender,
    FreshRun,
    HonestValue,
    Look,
    Pair,
    Standing,
)
from .honest_value import Redraws, are_few, honest_value, with_held_out
from .intervals import Scale
from .selection import ranked
from .two_way import FEW_CLUSTERS, LEAST_CLUSTERS, TwoWay, unpaired

End = TypeVar("End")

_LEVELS = {
    0.005: (0.005, 0.0025, 0.0017),  # halves and thirds: Bonferroni
    0.01: (0.01, 0.0055, 0.0039),
    0.02: (0.02, 0.0114, 0.0081),
    0.025: (0.025, 0.0145, 0.0103),
    0.05: (0.05, 0.0294, 0.0220),
    0.10: (0.10, 0.0608, 0.0464),
    0.20: (0.20, 0.13, 0.102),
}
"""The level of each of one, two or three looks that together err in this share (Pocock 1977, Biometrika
64(2); checked for Student's t by simulation)."""
_ONE_SIDED = NormalDist().inv_cdf(0.95)
_LUCK_DEVIATIONS = NormalDist().inv_cdf(0.75) * math.sqrt(2)
"""A difference of so many deviations of a seed wins three of four pairs of single trainings (Bouthillier et
al. 2021, Accounting for variance in machine learning benchmarks)."""


class Next(NamedTuple, Generic[End]):
    """The runs that are missing before the next comparison, or the end."""

    missing: tuple[tuple[int, int], ...] = ()
    """The trial and the number of the seed of each run."""
    end: End | None = None


def failure_of(record: ConfirmationRecord, trial: int, seeds: int, names: Sequence[str] = ()) -> str | None:
    """Return why a contender cannot be compared after some seeds; None if it can.

    Args:
        record: the confirmation.
        trial: the contender.
        seeds: the number of seeds.
        names: further values that must be finite, of several objectives.
    """
    for number in range(1, seeds + 1):
        run = record.runs.get((trial, number))
        if run is None:
            continue
        if run.value is None or not math.isfinite(run.value):
            return f"failed at seed {number}: {run.reason or f'its value is {run.value}'}"
        for name in names:
            if not math.isfinite(value := number_in(run.values, name)):
                return f"failed at seed {number}: {name} is {value}"
    return None


def broken_bounds(record: ConfirmationRecord, trial: int, seeds: int) -> str | None:
    """Return the constraints that the means of a contender break; None if it keeps them."""
    runs = record.runs_of(trial, seeds)
    means = {bound.name: mean(number_in(run.values, bound.name) for run in runs) for bound in record.bounds}
    broken = [text for bound in record.bounds if (text := bound.broken_by(means)) is not None]
    return "; ".join(broken) or None


def contenders_of(records: Iterable[TrialRecord], direction: Direction) -> list[Contender]:
    """Return the complete trials with a finite value, best first; of equal ones the earliest."""
    complete = [record for record in records if record.state is TrialState.COMPLETE]
    return [
        Contender(record.number, record.value)
        for record in ranked(complete, direction)
        if record.value is not None and math.isfinite(record.value)
    ]


def plan_for(record: ConfirmationRecord, redraws: Redraws | None = None) -> Next[Confirmation]:
    """Return the runs that the next look waits for, or how the confirmation ended.

    Args:
        record: all that decides.
        redraws: those of an earlier record of this confirmation, which saves computing them again.

    Raises:
        NoFiniteValueError: there are fewer than two contenders.
    """
    if len(record.contenders) < 2:
        raise NoFiniteValueError(
            "confirm needs at least two complete trials with a finite value; this search has "
            f"{len(record.contenders)}"
        )
    course = _Course(record, redraws if redraws is not None and redraws.fits(record) else Redraws.of(record))
    for plan in record.plans:
        for moment in course.schedule(plan):
            is_over = False
            while not is_over:
                if missing := course.missing(moment.seeds):
                    if not record.timed_out:
                        return Next(missing)
                    course.replace_failed_leader(moment, plan.settings)
                    return Next(end=course.end(timed_out=True))
                is_over = course.look(moment, plan.settings)
            if course.settled:
                break
    return Next(end=course.end())


def has_looked(record: ConfirmationRecord) -> bool:
    """Check whether the contenders were compared under the last plan of a record."""
    earlier, every = (
        plan_for(replace(record, plans=plans, timed_out=True)).end if plans else None
        for plans in (record.plans[:-1], record.plans)
    )
    return every is not None and len(every.looks) > (0 if earlier is None else len(earlier.looks))


class _Moment(NamedTuple):
    """When a look is made, and at which levels."""

    seeds: int
    separation: float
    equivalence: float
    decides: bool


class _Course:
    """The looks of a record, made again from the first one."""

    def __init__(self, record: ConfirmationRecord, redraws: Redraws) -> None:
        self._record, self._redraws = record, redraws
        self._entered: list[int] = []
        self._alive: list[int] = []
        self._looks: list[Look] = []
        self._left_at: dict[int, int] = {}
        self._reasons: dict[int, str] = {}
        self._pairs: dict[int, Pair] = {}
        self._beaten_at: dict[int, _Moment] = {}
        self._failed: dict[int, str] = {}
        self._state: ConfirmationState | None = None
        self._plans_used = self._repeats = 0

    @property
    def settled(self) -> bool:
        """Whether a look has ended the current plan."""
        return self._state is not None

    def schedule(self, plan: ConfirmationPlan) -> list[_Moment]:
        """Add the contenders of a plan, and return its looks that are not over yet.

        The first plan errs at its level in all. The first extension adds half of that; a further one
        compares but decides nothing.
        """
        settings, made = plan.settings, self._looks[-1].seeds if self._looks else 0
        joined = [one.trial for one in plan.contenders if one.trial not in self._entered]
        self._entered += joined
        self._alive += joined
        seeds = [count for count in settings.looks() if count > made] or [made] * bool(joined)
        if not seeds or (made and len(self._alive) < 2):
            return []
        self._state, extension = None, self._plans_used
        self._plans_used += 1
        self._repeats = max(self._repeats, settings.repeats)
        share = settings.level if extension == 0 else settings.level / 2
        place = len(seeds) - 1
        levels = _LEVELS[share][place], _LEVELS[2 * share][place]
        return [_Moment(count, *levels, decides=extension < 2) for count in seeds]

    def missing(self, seeds: int) -> tuple[tuple[int, int], ...]:
        """Return the runs up to a seed that no look can do without, by seed, then in the search's order."""
        trials = [trial for trial in self._alive if not failure_of(self._record, trial, seeds)]
        every = ((trial, number) for number in range(1, seeds + 1) for trial in trials)
        return tuple(run for run in every if run not in self._record.runs)

    def look(self, moment: _Moment, settings: ConfirmSettings) -> bool:
        """Compare the contenders with the leader, and settle the plan if that decides it.

        A leader that would be alone is compared with those that left under another one. Who is not worse than
        it comes back; the look is then made again with the runs that are missing, and False is returned.
        """
        self._drop_failed(moment.seeds)
        if not self._alive:
            if self._beaten_at:
                self._readmit(list(self._beaten_at))
                return False
            self._state = ConfirmationState.UNCONFIRMED
            return True
        leader = self._leader(moment.seeds)
        seeds_matter = any(self._differs(trial, moment.seeds) for trial in self._alive)
        if not seeds_matter:
            moment = moment._replace(
                separation=_LEVELS[settings.level][0], equivalence=_LEVELS[2 * settings.level][0]
            )
        others = [trial for trial in self._alive if trial != leader]
        pairs = [self._pair(leader, trial, moment, seeds_matter) for trial in others]
        still_in = [pair for pair in pairs if not (pair.separated and moment.decides)]
        returning = [] if still_in else self._returning(leader, seeds_matter)
        if returning:
            self._readmit([pair.trial for pair in returning])
            if not (self._record.timed_out and self.missing(moment.seeds)):
                return False
        equivalence = self._equivalence(moment.seeds, settings)
        for pair in pairs:
            if pair not in still_in:
                self._leave(pair.trial, moment.seeds, f"worse than trial {leader}")
                self._beaten_at[pair.trial] = moment
        pairs, still_in = pairs + returning, still_in + returning
        self._pairs.update({pair.trial: pair for pair in pairs})
        may_lose = self._may_lose(leader, still_in, moment.seeds)
        failed, self._failed = self._failed, {}
        look = Look(moment.seeds, leader, tuple(pairs), equivalence, may_lose, failed, seeds_matter)
        self._looks.append(look)
        if moment.decides or not still_in:
            self._settle(look, bool(still_in))
        return not returning

    def _settle(self, look: Look, is_open: bool) -> None:
        if not is_open:
            self._state = ConfirmationState.DECIDED
        elif look.equivalence > 0 and look.may_lose <= look.equivalence:
            self._state = ConfirmationState.TIED
        elif not look.seeds_matter:
            self._state = ConfirmationState.SPENT

    def _returning(self, leader: int, seeds_matter: bool) -> list[Pair]:
        """Return the comparisons with a leader of those that left under another one and are not worse.

        Each is compared over the seeds that it has, at the level of the look at which it left.
        """
        returning = []
        for trial, moment in self._beaten_at.items():
            if self._pairs[trial].leader == leader:
                continue
            pair = self._pair(leader, trial, moment, seeds_matter)
            if pair.separated:
                self._pairs[trial], self._reasons[trial] = pair, f"worse than trial {leader}"
            else:
                returning.append(pair)
        return returning

    def _readmit(self, trials: Sequence[int]) -> None:
        for trial in trials:
            self._alive.append(trial)
            del self._beaten_at[trial], self._left_at[trial], self._reasons[trial]

    def replace_failed_leader(self, moment: _Moment, settings: ConfirmSettings) -> None:
        """Compare the others over the seeds that all have, if the leader of the last look failed since."""
        looks, most = len(self._looks), self._repeats
        leader = self._looks[-1].leader if looks else None
        if leader is None or (leader in self._alive and not failure_of(self._record, leader, most)):
            return
        self._alive = [trial for trial in self._alive if self._record.seeds_of(trial, most) >= LEAST_SEEDS]
        self._drop_failed(most)
        while len(self._looks) == looks and not self.settled:
            seeds = min((self._record.seeds_of(trial, most) for trial in self._alive), default=0)
            self.look(moment._replace(seeds=seeds, decides=False), settings)

    def end(self, timed_out: bool = False) -> Confirmation:
        """Return how it ended."""
        record, last = self._record, self._looks[-1] if self._looks else None
        if self._state is ConfirmationState.UNCONFIRMED:
            last = None
        winner = next(iter(record.contenders)) if last is None else last.leader
        seen = {trial: self._runs(trial, self._seeds_of(trial)) for trial in self._entered}
        standings = self._standings(winner, seen)
        unconfirmed = last is None and not timed_out
        reason = "every contender failed or broke a constraint" if unconfirmed else None
        return Confirmation(
            metric=record.metric,
            direction=record.direction,
            state=(self._state or ConfirmationState.SPENT) if last else ConfirmationState.UNCONFIRMED,
            winner=winner,
            may_lose=last.may_lose if last else None,
            equivalence=last.equivalence if last else None,
            level=self._level,
            standings=standings,
            looks=tuple(self._looks),
            honest=self._honest(winner) if last else None,
            trainings=sum(map(len, seen.values())),
            planned=len(self._entered) * self._repeats,
            others=len(record.others),
            near=self._near(standings) if last else (),
            extended=max(0, self._plans_used - 1),
            reason="the time is up" if timed_out else reason,
            clustered=record.clustered,
        )

    @property
    def _level(self) -> float:
        return self._record.plans[0].settings.level

    def _near(self, standings: Sequence[Standing]) -> tuple[int, ...]:
        """Return the other trials that a lucky seed may have kept from the contenders."""
        deviations = [one.deviation for one in standings if one.deviation is not None]
        reached, direction = standings[0].mean, self._record.direction
        if reached is None or not deviations:
            return ()
        luck = _ONE_SIDED * math.sqrt(2 * mean(deviation**2 for deviation in deviations))
        return tuple(
            trial for trial, value in self._record.others if direction.worse_by(value, reached) <= luck
        )

    def _runs(self, trial: int, seeds: int) -> list[FreshRun]:
        return self._record.runs_of(trial, seeds)

    def _seeds_of(self, trial: int) -> int:
        """Return the number of seeds that count of a contender."""
        return self._left_at.get(trial) or (self._looks[-1].seeds if self._looks else 0)

    def _values(self, trial: int, seeds: int) -> list[float]:
        return [math.nan if run.value is None else run.value for run in self._runs(trial, seeds)]

    def _drop_failed(self, seeds: int) -> None:
        """Remove the contenders that failed, or whose means break a constraint."""
        for trial in list(self._alive):
            reason = failure_of(self._record, trial, seeds) or broken_bounds(self._record, trial, seeds)
            if reason is not None:
                self._failed[trial] = reason
                self._leave(trial, seeds, reason)

    def _leave(self, trial: int, seeds: int, reason: str) -> None:
        self._alive.remove(trial)
        self._left_at[trial], self._reasons[trial] = seeds, reason

    def _leader(self, seeds: int) -> int:
        """Return the contender with the best mean; of equal ones the better in the search."""
        order = [trial for trial in self._entered if trial in self._alive]
        return order[self._record.direction.best_index(mean(self._values(trial, seeds)) for trial in order)]

    def _differs(self, trial: int, seeds: int) -> bool:
        """Check whether the runs of a contender depend on their seeds."""
        first, *others = self._runs(trial, seeds)
        return any(
            run.value != first.value
            or (run.rows is not None and first.rows is not None and not np.array_equal(run.rows, first.rows))
            for run in others
        )

    def _pair(self, leader: int, trial: int, moment: _Moment, seeds_matter: bool) -> Pair:
        table, paired = self._difference(leader, trial, moment.seeds)
        if not seeds_matter:
            table = table.of_one_seed
        half = table.half_width(moment.separation)
        is_open, rows_wanted = table.mean <= half, table.rows_wanted(moment.separation)
        return Pair(
            leader=leader,
            trial=trial,
            difference=table.mean,
            half=half,
            p_value=table.p_value,
            level=moment.separation,
            may_be_better=table.half_width(moment.equivalence) - table.mean,
            seeds_wanted=self._seeds_wanted(table, moment.seeds) if is_open else None,
            rows_wanted=rows_wanted if (rows_wanted or 0) > table.rows else None,
            paired=paired,
            seeds_alone=not table.rows and self._has_rows(leader, trial, seeds=moment.seeds),
        )

    def _seeds_wanted(self, table: TwoWay, made: int) -> int | None:
        """Return after how many seeds an extension would separate a pair, by the levels of its looks."""
        until = self._record.plans[-1].settings.until
        for most, level in enumerate(_LEVELS[self._level / 2], 1):
            wanted = table.seeds_wanted(level)
            if wanted is None:
                return None
            wanted = max(wanted, made + 1)
            ahead = ConfirmSettings(repeats=wanted, until=until).looks()
            if sum(seeds > made for seeds in ahead) <= most:
                return wanted
        return None

    def _difference(self, leader: int, trial: int, seeds: int) -> tuple[TwoWay, bool]:
        """Return by how much the leader is better than another contender, and whether their rows are paired.

        Where rows are missing, or differ between the seeds of a trial, seeds alone are paired.
        """
        ours, theirs = self._runs(leader, seeds), self._runs(trial, seeds)
        worse_by = self._record.direction.worse_by
        gaps = [
            worse_by(other, value)
            for value, other in zip(self._values(leader, seeds), self._values(trial, seeds), strict=True)
        ]
        tables = [_table(runs) for runs in (ours, theirs)]
        left, right = tables
        if left is None or right is None:
            return TwoWay.of_seeds(gaps), True
        student_below = FEW_CLUSTERS if self._record.clustered else 0
        if ours[0].rows_id == theirs[0].rows_id:
            return TwoWay.of(self._record.direction.sign * (left - right), student_below), True
        return unpaired(TwoWay.of(left, student_below), TwoWay.of(right, student_below), gaps), False

    def _has_rows(self, *trials: int, seeds: int) -> bool:
        return all(run.rows is not None for trial in trials for run in self._runs(trial, seeds))

    def _equivalence(self, seeds: int, settings: ConfirmSettings) -> float:
        if settings.equivalence != LUCK:
            return float(settings.equivalence)
        variances = [float(np.var(self._values(trial, seeds), ddof=1)) for trial in self._alive]
        return _LUCK_DEVIATIONS * math.sqrt(mean(variances))

    def _may_lose(self, leader: int, others: Sequence[Pair], seeds: int) -> float:
        if not others:
            return 0.0
        luck = self._redraws.luck(self._fresh(seeds)) if self._record.search is not None else None
        choice = 0.0 if luck is None else luck.of_choice(leader)
        return max(0.0, *(pair.may_be_better for pair in others)) + choice

    def _fresh(self, seeds: int) -> dict[int, list[FreshRun]]:
        """Return the runs of each contender that did not fail, up to a seed or that at which it left."""
        compared = [trial for trial in self._entered if trial in self._alive or trial in self._pairs]
        runs = {trial: self._runs(trial, self._left_at.get(trial, seeds)) for trial in compared}
        return {trial: each for trial, each in runs.items() if all(run.value is not None for run in each)}

    def _honest(self, winner: int) -> HonestValue:
        record = self._record
        runs = self._runs(winner, self._seeds_of(winner))
        luck = self._redraws.luck(self._fresh(self._seeds_of(winner)))
        limits = []
        if luck is None:
            limits.append(UNCORRECTED)
        elif record.search is None:
            limits.append("this leaves out the luck of choosing the contenders")
        if luck is not None and record.clustered and (count := len(runs[0].picked_rows)) < LEAST_CLUSTERS:
            limits.append(f"rows of {count} ids: intervals from fewer than {LEAST_CLUSTERS} are rough")
        elif luck is not None and record.scale is not Scale.LOGIT and are_few(runs[0].picked_rows):
            limits.append("few rows for this metric, so the interval may be too short")
        scale, clustered, level = record.scale, record.clustered, self._level
        honest = honest_value(
            record.direction, runs, luck, scale=scale, clustered=clustered, level=level, limits=limits
        )
        name = f"test:{record.metric}"
        return with_held_out(honest, runs, name, scale=scale, clustered=clustered, level=level)

    def _standings(self, winner: int, seen: Mapping[int, Sequence[FreshRun]]) -> tuple[Standing, ...]:
        """Return the contenders, the winner first, then the best mean."""
        standings = []
        for trial, runs in seen.items():
            values = [run.value for run in runs if run.value is not None]
            average = mean(values)
            standings.append(
                Standing(
                    trial=trial,
                    search_value=self._record.contenders[trial],
                    mean=average if math.isfinite(average) else None,
                    deviation=deviation(values) if math.isfinite(average) else None,
                    seeds=len(values),
                    seconds=mean(run.seconds for run in runs) if runs else 0.0,
                    left_at=self._left_at.get(trial),
                    reason=self._reasons.get(trial),
                    pair=None if trial == winner else self._pairs.get(trial),
                    values=tuple(filter(math.isfinite, values)),
                )
            )
        key = self._record.direction.sort_key
        return tuple(
            sorted(
                standings,
                key=lambda one: (one.trial != winner, key(math.nan if one.mean is None else one.mean)),
            )
        )


def _table(runs: Sequence[FreshRun]) -> np.ndarray | None:
    """Return the row values of the picked epochs, of shape (seeds, rows); None if seeds differ in rows."""
    if any(run.rows is None for run in runs) or len({run.rows_id for run in runs}) > 1:
        return None
    return np.stack([run.picked_rows for run in runs])
