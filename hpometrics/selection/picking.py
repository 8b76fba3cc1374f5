"""Picking: the trial that a search ends with; of several objectives one of the front, if it is said how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..direction import Objective
from ..exceptions import ConfigError, NoFiniteValueError
from ..records.trial_record import TrialRecord
from .one_standard_error import simplest_within_error
from .pareto import front_trials, knee_of
from .rules import RULES, Pick
from .selection import Best, pick_trial, ranked

_MOST = 10


def read_pick(text: str) -> Pick:
    """Read `best`, `one_se`, `knee` or the number of a trial.

    Raises:
        ConfigError: it is something else.
    """
    if text.isascii() and text.isdigit():
        return int(text)
    if text in RULES:
        return text  # type: ignore[return-value]  # it is one of the three
    raise ConfigError(f"pick is best, one_se, knee or the number of a trial, got {text!r}")


def best_by(
    records: Sequence[TrialRecord], optimised: Mapping[str, Objective], pick: Pick | str = "best"
) -> Best:
    """Pick a trial and say all about it.

    Args:
        records: the trials.
        optimised: the objectives by name.
        pick: see `Pick`.

    Raises:
        NoFeasibleTrialError, NoFiniteValueError: as in `pick_trial`, `simplest_within_error`.
        ConfigError: there is no such way to pick, or none is said for several objectives; the message names
            the trials of the front.
    """
    return Best.of(picked_trial(records, optimised, pick), optimised)


def picked_trial(
    records: Sequence[TrialRecord], optimised: Mapping[str, Objective], pick: Pick | str
) -> TrialRecord:
    """Return the trial that a way to pick finds; see `best_by`."""
    if len(optimised) > 1:
        return _of_front(pareto_front(records, optimised), optimised, pick)
    objective = next(iter(optimised.values()))
    if pick not in ("best", "one_se"):
        raise ConfigError(
            f"pick is best or one_se, got {pick!r}; knee and the number of a trial are for several objectives"
        )
    best = pick_trial(records, objective)
    return best if pick == "best" else simplest_within_error(best, records, objective)


def pareto_front(records: Sequence[TrialRecord], optimised: Mapping[str, Objective]) -> list[TrialRecord]:
    """Return the feasible trials that no other one dominates, best first by the first objective.

    Of one objective these are the trials with the best value.

    Raises:
        NoFeasibleTrialError, NoFiniteValueError: there is none, as in `pick_trial`.
    """
    front = front_trials(records, optimised)
    if not front:
        pick_trial(records, next(iter(optimised.values())))
        raise NoFiniteValueError(f"no complete trial has a finite value of each of {', '.join(optimised)}")
    return front


def ranked_by(records: Sequence[TrialRecord], optimised: Mapping[str, Objective]) -> list[TrialRecord]:
    """Sort trials best first; of several objectives the front, then the others by the first objective."""
    order = ranked(records, next(iter(optimised.values())))
    if len(optimised) < 2:
        return order
    front = front_trials(records, optimised)
    there = {record.number for record in front}
    return [*front, *(record for record in order if record.number not in there)]


def _of_front(
    front: Sequence[TrialRecord], optimised: Mapping[str, Objective], pick: Pick | str
) -> TrialRecord:
    if pick == "knee":
        by_number = sorted(front, key=lambda record: record.number)
        points = [record.scores(optimised) for record in by_number]
        return by_number[knee_of(points, list(optimised.values()))]
    for record in front:
        if not isinstance(pick, bool) and record.number == pick:
            return record
    if pick == "best":
        head = f"{' and '.join(optimised)} have no one best trial"
    elif isinstance(pick, int) and not isinstance(pick, bool):
        head = f"trial {pick} is not on the front"
    else:
        head = f"of several objectives pick is knee or the number of a trial of the front, got {pick!r}"
    raise ConfigError(f"{head}; pick knee, or one of these by its number: {_listed(front, optimised)}")


def _listed(front: Sequence[TrialRecord], optimised: Mapping[str, Objective]) -> str:
    told = [f"{record.number} ({_shown(record, optimised)})" for record in front[:_MOST]]
    more = len(front) - len(told)
    return ", ".join(told) + (f" and {more} more" if more else "")


def _shown(record: TrialRecord, optimised: Mapping[str, Objective]) -> str:
    scores = zip(optimised, record.scores(optimised), strict=True)
    return ", ".join(f"{name} {value:.6g}" for name, value in scores)
