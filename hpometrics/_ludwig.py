"""Ludwig's names for the direction of a metric, accepted wherever ours are."""

from __future__ import annotations

from .direction import Direction
from .exceptions import DirectionError

Objective = Direction
ObjectiveError = DirectionError
