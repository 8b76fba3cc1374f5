"""The trials of a run directory as a table, JSON or CSV, from its record alone."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from .._text import did_you_mean
from ..exceptions import ConfigError
from ..records.readings import to_json
from ..records.trial_record import TrialRecord
from ..selection.pareto import front_trials
from ..selection.picking import ranked_by
from .export import trials_csv
from .formatting import aligned
from .held_out import held_out
from .leaderboard import trial_rows
from .manifest import Resolved
from .run_directory import RunDirectory

FORMS = ("table", "json", "csv")
_FACTS: dict[str, Callable[[TrialRecord], Any]] = {
    "trial": lambda record: record.number,
    "state": lambda record: record.state.value,
    "epoch": lambda record: record.epoch,
    "epochs": lambda record: len(record.epochs),
    "seconds": lambda record: record.seconds,
}
BEST = "value"


def trials_text(
    directory: Path, form: str = "table", sort: str = "trial", states: Collection[str] = ()
) -> str:
    """List trials.

    Args:
        directory: of the run.
        form: one of `FORMS`.
        sort: `trial`, `state`, `epoch`, `epochs`, `seconds` or a param, smallest first; `value`, the metric
            that is optimised or one that is tracked, best first.
        states: only trials in one of these, as in `complete`; all, if there are none.

    Raises:
        ConfigError: it is no run directory, or there is nothing of that name to sort by.
        RecordError: a file of it is damaged.
    """
    home = RunDirectory(directory)
    resolved, records = home.read(), home.records()
    order = _sorted(records, resolved, sort)
    chosen = [record for record in order if not states or record.state.value in states]
    if form == "csv":
        return trials_csv(chosen, resolved).rstrip("\n")
    if form == "json":
        front = front_trials(records, resolved.optimised) if resolved.others else []
        there = {record.number for record in front}
        told = [_facts(record, directory, resolved, there) for record in chosen]
        return json.dumps(told, indent=1, allow_nan=False)
    return aligned(trial_rows(chosen, resolved))


def _sorted(records: Sequence[TrialRecord], resolved: Resolved, by: str) -> list[TrialRecord]:
    if by in (BEST, resolved.metric):
        return ranked_by(records, resolved.optimised)
    if by in resolved.beside:
        return sorted(records, key=lambda record: _goodness(record, by, resolved))
    if by in _FACTS:
        return _ascending(records, _FACTS[by])
    params = {name for record in records for name in record.params}
    if by in params:
        return _ascending(records, lambda record: record.params.get(by))
    known = [*_FACTS, BEST, resolved.metric, *resolved.beside, *sorted(params)]
    raise ConfigError(f"no column {by!r} to sort by{did_you_mean(by, known)}; there are {', '.join(known)}")


def _goodness(record: TrialRecord, name: str, resolved: Resolved) -> float:
    value, objective = record.picked_values.get(name), resolved.beside[name]
    if value is None or isinstance(value, list):
        return math.inf
    return value if objective is None else objective.sort_key(value)


def _ascending(records: Sequence[TrialRecord], fact: Callable[[TrialRecord], Any]) -> list[TrialRecord]:
    """Sort numbers before texts; what a trial does not have comes last."""

    def key(record: TrialRecord) -> tuple[int, float, str]:
        value = fact(record)
        if value is None:
            return 2, 0.0, ""
        if isinstance(value, (int, float)):
            return 0, value, ""
        return 1, 0.0, value if isinstance(value, str) else json.dumps(value)

    return sorted(records, key=key)


def _facts(
    record: TrialRecord, directory: Path, resolved: Resolved, front: Collection[int]
) -> dict[str, Any]:
    """Give a trial as strict JSON, with the values of its picked epoch."""
    values = {name: to_json(value) for name, value in record.picked_values.items()}
    tested = held_out(record.picked_values, resolved.metric, resolved.objective, record.value)
    return {
        **record.to_json(directory),
        "deviation": record.deviation,
        "test": None if tested is None else tested.to_json(),
        "params": resolved.ordered(record.params),
        "values": values,
        **({"front": record.number in front} if resolved.others else {}),
    }
