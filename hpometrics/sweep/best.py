"""The best of a run directory, from its record alone: no engine, no torch, no search host."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ..search.record import TrialRecord
from ..search.selection import Best, best_of
from .directory import RunDirectory
from .exports import best_facts, best_yaml
from .table import optimal

FORMS = ("text", "yaml", "json")


def best_text(directory: Path, form: str = "text") -> str:
    """Say what is best in a run directory: the block that `run` prints, or all facts as YAML or JSON.

    Raises:
        ConfigError: it is no run directory.
        NoFiniteValueError: none of its trials is complete.
    """
    home = RunDirectory(directory)
    resolved, records = home.read(), home.records()
    best = best_of(records, resolved.metric, resolved.objective, resolved.pick)
    if form == "text":
        return optimal(best, records, resolved)
    facts = best_facts(best, record_of(best, records), resolved, directory)
    return best_yaml(facts).rstrip() if form == "yaml" else json.dumps(facts, indent=1, allow_nan=False)


def record_of(best: Best, records: Sequence[TrialRecord]) -> TrialRecord:
    """Give the record of the best trial."""
    return next(record for record in records if record.number == best.trial)
