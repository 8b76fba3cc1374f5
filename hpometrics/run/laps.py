"""Laps: how the seconds of an epoch fall to training, validation and test."""

from __future__ import annotations

import time


class Laps:
    """Wall seconds by split: the time up to a mark belongs to the split that is marked.

    Attributes:
        began: when the epoch began, in seconds since the epoch of the clock, which machines share.
        seconds: those of each split so far.
    """

    began: float
    seconds: dict[str, float]

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin an epoch."""
        self.began, self._last = time.time(), time.perf_counter()
        self.seconds = {}

    def mark(self, split: str) -> None:
        """Give the time since the last mark to a split."""
        now = time.perf_counter()
        self.seconds[split] = self.seconds.get(split, 0.0) + now - self._last
        self._last = now
