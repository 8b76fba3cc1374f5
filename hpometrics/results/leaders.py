"""Leaders: the best trials of a sweep in the order of its table, and params as another command takes them."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .._text import printable
from ..config.secrets import SECRET, is_secret
from ..exceptions import ConfigError
from ..records.trial_record import TrialRecord, TrialState
from ..selection.picking import ranked_by
from ..selection.selection import Best
from .export import best_facts, least_facts
from .formatting import aligned
from .leaderboard import evaluated, ranked_rows, where
from .manifest import Resolved


def leaders(records: Sequence[TrialRecord], resolved: Resolved, count: int) -> list[TrialRecord]:
    """Give so many of the best trials, the feasible ones first; fewer if no more ran to their end."""
    ended = (TrialState.COMPLETE, TrialState.INFEASIBLE)
    order = ranked_by(records, resolved.optimised)
    ranks = [r for r in order if r.state in ended and r.value is not None and math.isfinite(r.value)]
    return ranks[:count]


def leaders_text(best: Best, records: Sequence[TrialRecord], resolved: Resolved, count: int) -> str:
    """Print them as the table of results does, and which one is picked."""
    rows = aligned(ranked_rows(leaders(records, resolved, count), resolved))
    return "\n".join([evaluated(records), rows, f"picked: {where(best, resolved)}"])


def leaders_facts(
    records: Sequence[TrialRecord], resolved: Resolved, count: int, home: Path
) -> list[dict[str, Any]]:
    """Give each as plain JSON: all of a feasible one, and of others what they break."""
    return [
        best_facts(Best.of(record, resolved.optimised), record, resolved, home)
        if record.state is TrialState.COMPLETE
        else least_facts(record, resolved, record.reason or "")
        for record in leaders(records, resolved, count)
    ]


def leaders_arguments(records: Sequence[TrialRecord], resolved: Resolved, count: int) -> str:
    """Print the params of each feasible one on a line, see `arguments`.

    Raises:
        ConfigError: see `arguments`.
    """
    feasible = (r for r in leaders(records, resolved, count) if r.state is TrialState.COMPLETE)
    return "\n".join(arguments(resolved.ordered(record.params)) for record in feasible)


def arguments(params: Mapping[str, Any]) -> str:
    """Print params as a shell takes them behind a command: texts as they are, other values as JSON.

    A secret is left to the shell, which reads its variable.

    Raises:
        ConfigError: a value has characters that do not belong on a line.

    >>> print(arguments({"lr": 0.014, "layers": [64, 32], "shift": -1, "token": {"secret": "HUB_TOKEN"}}))
    --lr 0.014 --layers '[64, 32]' --shift=-1 --token "$HUB_TOKEN"
    """
    return " ".join(_argument(name, value) for name, value in params.items())


def _argument(name: str, value: Any) -> str:
    if is_secret(value):
        return f'{shlex.quote(f"--{name}")} "${value[SECRET]}"'
    text = value if isinstance(value, str) else json.dumps(value)
    if not (name + text).isprintable():
        raise ConfigError(f"{printable(name)}: cannot be printed on a line; --json has it")
    words = [f"--{name}={text}"] if text.startswith("-") else [f"--{name}", text]
    return shlex.join(words)
