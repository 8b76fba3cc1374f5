"""The front of a sweep for several objectives, as the terminal and scripts are told it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..records.trial_record import TrialRecord
from ..selection.picking import pareto_front, picked_trial
from .formatting import ARROWS, number
from .leaderboard import evaluated, params_line
from .manifest import Resolved

_HOW = "pick one: hpometrics best {directory} --pick knee|TRIAL"


def front_text(records: Sequence[TrialRecord], resolved: Resolved, directory: object) -> str:
    """Print how many engine params were evaluated, and those of each trial of the front with their values.

    Raises:
        NoFiniteValueError: no trial is complete.
    """
    front, knee = pareto_front(records, resolved.optimised), knee_number(records, resolved)
    lines = [evaluated(records), f"Pareto front of {' and '.join(resolved.optimised)}:"]
    for record in front:
        mark = "   the knee" if record.number == knee else ""
        lines.append(f"  {front_line(record, resolved)}   {params_line(record.params, resolved)}{mark}")
    return "\n".join([*lines, _HOW.format(directory=directory)])


def front_line(record: TrialRecord, resolved: Resolved) -> str:
    """Print a trial of the front on one line, without its params."""
    scores = zip(resolved.optimised.items(), record.scores(resolved.optimised), strict=True)
    told = "  ".join(f"{name} {number(value)}{ARROWS[objective]}" for (name, objective), value in scores)
    return f"trial {record.number}, epoch {record.epoch}: {told}"


def front_facts(records: Sequence[TrialRecord], resolved: Resolved) -> dict[str, Any]:
    """Give the front as plain JSON, best first by the first objective, and which trial is its knee.

    Raises:
        NoFiniteValueError: no trial is complete.
    """
    return {
        "objectives": {name: objective.value for name, objective in resolved.optimised.items()},
        "knee": knee_number(records, resolved),
        "front": [
            {
                "trial": record.number,
                "epoch": record.epoch,
                "values": dict(zip(resolved.optimised, record.scores(resolved.optimised), strict=True)),
                "params": resolved.ordered(record.params),
            }
            for record in pareto_front(records, resolved.optimised)
        ],
    }


def knee_number(records: Sequence[TrialRecord], resolved: Resolved) -> int:
    """The number of the trial at the knee."""
    return picked_trial(records, resolved.optimised, "knee").number
