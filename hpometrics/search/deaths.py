"""Deaths: how often in a row the process of a trial has died, and the words for what it has lost."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

MOST_DEATHS = 3
"""Deaths at one epoch after which a trial has failed: as far as can be known its params end the process."""


class Loss(StrEnum):
    """The loss that ended the worker of a trial."""

    PROCESS = "process"
    MACHINE = "machine"


class Deaths(NamedTuple):
    """Deaths in a row without a further epoch in between.

    Attributes:
        times: how many there are.
        reached: the most epochs that the trial has had at one of them.
    """

    times: int = 0
    reached: int = -1

    def another(self, epochs: int) -> Deaths:
        """Return the count after a death in a trial that has had so many epochs."""
        return Deaths(self.times + 1 if epochs <= self.reached else 1, max(epochs, self.reached))


def format_deaths(times: int, epochs: int) -> str:
    """Return why a trial has failed whose process died too often."""
    often = "once" if times == 1 else f"{times} times"
    return f"its process died {often} in epoch {epochs}; did it have the memory that it needs?"


def format_loss(number: int, loss: Loss, epochs: int) -> str:
    """Return the line on a trial that goes on after a loss."""
    what = "process died" if loss is Loss.PROCESS else "machine was lost"
    return f"trial {number}: its {what} in epoch {epochs}; the trial goes on in another"
