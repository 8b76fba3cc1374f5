"""The toll of a fault, and the scorecard that the tolls make."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

HOSTS = ("hpometrics", "hpometrics, journal", "hpometrics on Ray", "bare Optuna", "bare Ray")
COUNTS = ("tried", "survived", "again", "lost", "zombies", "over")


@dataclass(frozen=True)
class Toll:
    """What faults cost, as a line of the scorecard.

    Attributes:
        fault: what was done to whom.
        host: who was at work.
        tried: how often.
        survived: how often the trial at work came to its end afterwards, with nothing lost.
        again: finished trials that were run again.
        lost: epochs that had been reported and are not in the record.
        zombies: trials that stay running.
        over: trials beyond the budget.
    """

    fault: str
    host: str
    tried: int
    survived: int
    again: int = 0
    lost: int = 0
    zombies: int = 0
    over: int = 0

    @property
    def counts(self) -> dict[str, int]:
        """All that is counted."""
        return {name: getattr(self, name) for name in COUNTS}

    @property
    def nothing(self) -> bool:
        """Whether every fault was survived at no cost."""
        return self.survived == self.tried and not (self.again or self.lost or self.zombies or self.over)


def scorecard(tolls: Sequence[Toll]) -> str:
    """Print tolls as a table of Markdown: a row for each fault and host, its counts added up."""
    heads = ("fault", "host", "tried", "survived", "run again", "epochs lost", "left running", "over budget")
    counts: dict[tuple[str, str], Counter[str]] = {}
    order = list(dict.fromkeys(toll.fault for toll in tolls))
    for toll in sorted(tolls, key=lambda toll: (order.index(toll.fault), HOSTS.index(toll.host))):
        counts.setdefault((toll.fault, toll.host), Counter()).update(toll.counts)
    rows = [heads, *((*names, *(str(counted[key]) for key in COUNTS)) for names, counted in counts.items())]
    widths = [max(len(row[column]) for row in rows) for column in range(len(heads))]
    lines = [_line(row, widths) for row in rows]
    return "\n".join([lines[0], _line(["-" * width for width in widths], widths), *lines[1:]])


def not_run(tolls: Sequence[Toll]) -> list[str]:
    """Say of each host which of the faults were not tried on it."""
    faults = dict.fromkeys(toll.fault for toll in tolls)
    tried = {(toll.fault, toll.host) for toll in tolls}
    missing = {host: [fault for fault in faults if (fault, host) not in tried] for host in HOSTS}
    return [f"not run on {host}: {'; '.join(left)}" for host, left in missing.items() if left]


def _line(row: Sequence[str], widths: Sequence[int]) -> str:
    return "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |"
