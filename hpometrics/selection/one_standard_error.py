"""The one-standard-error rule: the simplest of the trials within one standard error of the best."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..direction import Direction
from ..exceptions import NoFiniteValueError
from ..records.trial_record import TrialRecord, TrialState, mean


def standard_error(record: TrialRecord) -> float:
    """Return the standard error of a trial's value: the deviation over the root of the number of repeats.

    Raises:
        NoFiniteValueError: the trial has fewer than two repeats.
    """
    if record.deviation is None:
        raise NoFiniteValueError(
            f"trial {record.number} was trained once, so its value has no standard error; one_se wants "
            "repeats of at least 2"
        )
    return record.deviation / math.sqrt(len(record.repeats))


def simplest_within_error(
    best: TrialRecord, records: Sequence[TrialRecord], direction: Direction
) -> TrialRecord:
    """Return the simplest complete trial whose value is within one standard error of the best one's.

    A trial is simpler if its value took fewer epochs of training: the mean over its repeats of the picked
    epoch, counted from 1. Params do not tell how simple a model is. Of equally simple trials
    it is the better one, then the earliest.

    Args:
        best: the complete trial with the best value.
        records: all of them.
        direction: the metric's.

    Raises:
        NoFiniteValueError: the best trial has fewer than two repeats.

    Source: Breiman, Friedman, Olshen, Stone 1984, Classification and Regression Trees, section 3.4.3.
    """
    error = standard_error(best)
    within = [record for record in records if _reaches(record, best, error, direction)]
    return min(
        within,
        key=lambda record: (_training_epochs(record), direction.sort_key(_value(record)), record.number),
    )


def _reaches(record: TrialRecord, best: TrialRecord, error: float, direction: Direction) -> bool:
    complete = record.state is TrialState.COMPLETE and math.isfinite(_value(record))
    return complete and not direction.better(_value(best), _value(record), tol=error)


def _value(record: TrialRecord) -> float:
    return math.nan if record.value is None else record.value


def _training_epochs(record: TrialRecord) -> float:
    """Return the epochs of training behind the value."""
    picked = [repeat.epoch for repeat in record.repeats] or [record.epoch or 0]
    return 1 + mean(picked)
