"""Deaths: how often in a row the process of a trial has died, and whether the trial goes on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

_log = logging.getLogger("hpometrics")

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


class Losses:
    """Decides, by the deaths of each trial, whether it goes on; a lost machine does not count.

    Args:
        epochs_written: returns how many epochs a trial has on disk, by its number.
        most: deaths in a row without a further epoch in between, after which a trial has failed.

    Attributes:
        reasons: why trials have failed, by number.
    """

    def __init__(self, epochs_written: Callable[[int], int], most: int = MOST_DEATHS) -> None:
        self._epochs_written, self._most = epochs_written, most
        self._deaths: dict[int, Deaths] = {}
        self.reasons: dict[int, str] = {}

    def reason_to_fail(self, number: int, reported: int, loss: Loss) -> str | None:
        """Count a loss; return why the trial has failed, None where it goes on.

        Args:
            number: of the trial.
            reported: the epochs that it has reported.
            loss: what ended its worker.
        """
        epochs = max(reported, self._epochs_written(number))
        if loss is Loss.PROCESS:
            self._deaths[number] = deaths = self._deaths.get(number, Deaths()).another(epochs)
            if deaths.times >= self._most:
                self.reasons[number] = format_deaths(deaths.times, epochs)
                return self.reasons[number]
        _log.warning("%s", format_loss(number, loss, epochs))
        return None
