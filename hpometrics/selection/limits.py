"""The limits of a search by its trials: `stale`, `cost`, and the time that they took."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from ..direction import Direction, nowhere_worse
from ..records.trial_record import TrialRecord, TrialState
from .rules import SECONDS, CostUnit
from .selection import Picker, keys_of, value_of

FRUITLESS = 50
"""So many trials that count for no limit end a search that nothing else would end."""
_FRUITLESS_STATES = (TrialState.FAILED, TrialState.INFEASIBLE)


@dataclass(frozen=True)
class Limits:
    """When no further trial of a search starts.

    Args:
        optimized: the objectives by name.
        tol: see `trials_since_best`.
        unit: the unit of what a trial costs.
        stale: complete trials in a row without a new best; None is never reached.
        cost: what the trials that have ended may cost; None is never reached.
        is_open: whether nothing but these two limits ends the search. Then it ends as `fruitless`, too:
            after 50 trials in a row that failed or are infeasible, that cost nothing where the cost is the
            limit, or of which none has been complete yet.
    """

    optimized: Mapping[str, Direction]
    tol: float = 0.0
    unit: CostUnit = SECONDS
    stale: int | None = None
    cost: float | None = None
    is_open: bool = False

    def reached(self, records: Collection[TrialRecord]) -> Literal["cost", "stale", "fruitless"] | None:
        """Return the limit that trials have reached; None while further ones may start."""
        if self.cost is not None and self.unit.spent(records) >= self.cost:
            return "cost"
        if self.stale is not None and trials_since_best(records, self.optimized, self.tol) >= self.stale:
            return "stale"
        is_limited = self.cost is not None or self.stale is not None
        return "fruitless" if self.is_open and is_limited and self._is_fruitless(records) else None

    def _is_fruitless(self, records: Collection[TrialRecord]) -> bool:
        ended = sorted((record for record in records if record.state.finished), key=_end)
        if len(ended) < FRUITLESS:
            return False
        last = ended[-FRUITLESS:]
        if self.cost is not None and self.unit.spent(last) <= 0:
            return True
        none_counts = all(record.state in _FRUITLESS_STATES for record in last)
        return none_counts or (self.cost is None and TrialState.COMPLETE not in {one.state for one in ended})


def trials_since_best(
    records: Iterable[TrialRecord], optimized: Mapping[str, Direction], tol: float = 0.0
) -> int:
    """Return how many complete trials have ended after the last one that was a new best when it ended.

    Of several objectives a new best is a trial that enters the Pareto front: none that ended before it is at
    least as good in each of them. Trials that are not complete do not count.

    Args:
        records: in any order; what counts is when each has ended, and of two at the same time the number.
        optimized: the objectives by name.
        tol: the largest change that is not an improvement, of one objective.

    >>> values = enumerate([0.5, 0.8, 0.7, 0.8])
    >>> records = [TrialRecord(number, {}, TrialState.COMPLETE, value) for number, value in values]
    >>> trials_since_best(records, {"f1": Direction.MAXIMIZE})
    2
    """
    complete = sorted((r for r in records if r.state is TrialState.COMPLETE), key=_end)
    is_new = _front_follower(optimized) if len(optimized) > 1 else _best_follower(optimized, tol)
    since = 0
    for record in complete:
        since = 0 if is_new(record) else since + 1
    return since


def seconds_at_work(records: Iterable[TrialRecord]) -> float:
    """Return the seconds in which at least one trial ran; trials side by side take their time once.

    >>> noon = datetime(2030, 1, 1, 12, tzinfo=UTC)
    >>> ends = [noon + timedelta(seconds=end) for end in (30, 40, 100)]
    >>> seconds_at_work(TrialRecord(n, {}, ended=end, seconds=20.0) for n, end in enumerate(ends))
    50.0
    """
    ends = [(record.seconds, _end(record)[0]) for record in records]
    total, until = timedelta(), datetime.min.replace(tzinfo=UTC)
    for start, end in sorted((end - timedelta(seconds=seconds), end) for seconds, end in ends):
        if end > until:
            total += end - max(start, until)
            until = end
    return total.total_seconds()


def _end(record: TrialRecord) -> tuple[datetime, int]:
    """Return the key by which trials are in the order of their ends; earlier versions wrote the start."""
    started = record.started or datetime.min.replace(tzinfo=UTC)
    return record.ended or started + timedelta(seconds=record.seconds), record.number


def _best_follower(optimized: Mapping[str, Direction], tol: float) -> Callable[[TrialRecord], bool]:
    """Return a function that says of each next trial whether it is a new best."""
    (direction,) = optimized.values()
    picker = Picker(direction, tol=tol)
    return lambda record: picker.add(value_of(record))


def _front_follower(optimized: Mapping[str, Direction]) -> Callable[[TrialRecord], bool]:
    """Return a function that says of each next trial whether it enters the front of those before it."""
    directions, front = list(optimized.values()), list[tuple[float, ...]]()

    def enters(record: TrialRecord) -> bool:
        keys = keys_of(record.scores(optimized), directions)
        if not all(map(math.isfinite, keys)) or any(nowhere_worse(rival, keys) for rival in front):
            return False
        front[:] = [rival for rival in front if not nowhere_worse(keys, rival)]
        front.append(keys)
        return True

    return enters
