"""Losses: whether a trial of a Tuner goes on whose worker is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from .deaths import MOST_DEATHS, Deaths, Loss, format_deaths, format_loss
from .ray_internals import epochs_of
from .ray_keys import NUMBER

_log = logging.getLogger("hpometrics")


class Losses:
    """Counts the deaths of each trial, as a sweep does; a lost machine does not count.

    Args:
        epochs_written: how many epochs a trial has on disk, by its number.
        most: deaths in a row without a further epoch in between, after which a trial has failed.

    Attributes:
        reasons: why trials have failed, by number.
    """

    def __init__(self, epochs_written: Callable[[int], int], most: int = MOST_DEATHS) -> None:
        self._epochs_written, self._most = epochs_written, most
        self._deaths: dict[int, Deaths] = {}
        self.reasons: dict[int, str] = {}

    def reason_to_fail(self, trial: Any, loss: Loss) -> str | None:
        """Count a loss of a trial of Tune; return why it has failed, None where it goes on."""
        number = trial.config[NUMBER]
        epochs = max(epochs_of(trial), self._epochs_written(number))
        if loss is Loss.PROCESS:
            self._deaths[number] = deaths = self._deaths.get(number, Deaths()).another(epochs)
            if deaths.times >= self._most:
                self.reasons[number] = format_deaths(deaths.times, epochs)
                return self.reasons[number]
        _log.warning("%s", format_loss(number, loss, epochs))
        return None
