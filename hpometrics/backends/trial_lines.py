"""The lines of a search: one for each trial as it ends, with the best so far marked."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .._formatting import column, duration, spread
from .._redaction import excerpt, mask_secrets
from .._text import printable
from ..direction import Direction
from ..exceptions import NoFiniteValueError
from ..records.trial_record import TrialRecord, TrialState
from ..selection.selection import front_trials, pick_trial

WIDTH = 9  # of a value: 0.0912735
WORDS = {TrialState.COMPLETE: "ok", TrialState.INFEASIBLE: "infeas."}


def word(state: TrialState) -> str:
    """Return the short word for a state."""
    return WORDS.get(state, state.value)


def spread_of(record: TrialRecord) -> str:
    """Return the value of a trial as a table cell."""
    if record.deviation is None:
        return column(record.value)
    return spread(record.value, record.deviation, len(record.repeats))


def short_params(params: Mapping[str, Any]) -> str:
    """Return params on one line, numbers rounded and secrets as `***`.

    >>> short_params({"lr": 0.02345678, "optimizer": "adam"})
    'lr=0.0235 optimizer=adam'
    """
    return " ".join(f"{printable(name)}={_short(value)}" for name, value in params.items())


def _short(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}"
    return printable(value) if isinstance(value, str) else json.dumps(mask_secrets(value), default=str)


class TrialLines:
    """The lines of the trials of a search, and the best so far.

    Args:
        optimized: the direction of each metric that is optimized, by name.
        beside: the direction of each value that follows, by name; their values are of the picked epoch.
        earlier: the finished trials of earlier calls.
        params: returns the params of a trial on one line.
        reasons: returns why a trial failed, in the place of its values.
        retries: the most retries of a trial.

    Attributes:
        best: the best trial; None before there is one, and for several objectives.
        front: for several objectives, the trials of the front.
        directions: of each value of a line, by name.
        params, reasons: see above.
    """

    def __init__(
        self,
        optimized: Mapping[str, Direction],
        beside: Mapping[str, Direction | None] | None = None,
        earlier: Sequence[TrialRecord] = (),
        *,
        params: Callable[[Mapping[str, Any]], str] = short_params,
        reasons: Callable[[TrialRecord], list[str]] | None = None,
        retries: int = 0,
    ) -> None:
        self._optimized, self._beside = dict(optimized), dict(beside or {})
        self.params, self._most_retries = params, retries
        self.reasons = reasons or (lambda record: [short_reason(record)])
        self._name, *others = self._optimized
        self.directions = {self._name: self._optimized[self._name], **self._beside}
        self.best = None if others else self._pick(earlier)
        self.front = front_trials(earlier, self._optimized) if others else []

    def add(self, record: TrialRecord) -> bool:
        """Add a trial; return whether it is the best so far, or one of the front."""
        if record.state is not TrialState.COMPLETE or record.value is None:
            return False
        if len(self._optimized) > 1:
            self.front = front_trials([*self.front, record], self._optimized)
            return any(one.number == record.number for one in self.front)
        better = self._pick([record] if self.best is None else [self.best, record]) is record
        if better:
            self.best = record
        return better

    def line(self, record: TrialRecord, better: bool) -> str:
        """Return the line of a trial."""
        values = [f"{self._name} {spread_of(record):>{WIDTH}}"]
        values += [f"{name} {column(record.picked_values.get(name)):>{WIDTH}}" for name in self._beside]
        if record.state is TrialState.FAILED:
            values = self.reasons(record)
        epochs = f"{record.extent} {'ep' if record.unit == 'epoch' else 'steps'}"
        epochs += f" ({record.ended_by})" if record.ended_by else ""
        mark = "*" if better else " "
        head = f" #{record.number:<4} {word(record.state):<11} {mark} {'  '.join(values)}"
        params = self.params(record.params)
        return f"{head}{self.retries(record)}  {epochs}  {duration(record.seconds)}  {params}"

    def retries(self, record: TrialRecord) -> str:
        """Return the number of retries, and the allowed number."""
        count = len(record.failed_attempts)
        return f"  retry {count}/{self._most_retries}" if count else ""

    def _pick(self, records: Sequence[TrialRecord]) -> TrialRecord | None:
        """Return the trial that wins; of equal values that with the lower number, whenever it ended."""
        try:
            return pick_trial(records, self._optimized[self._name])
        except NoFiniteValueError:
            return None


def short_reason(record: TrialRecord) -> str:
    """Return the beginning of the reason why a trial failed."""
    return excerpt(printable((record.reason or "").partition("\n")[0]), 100)
