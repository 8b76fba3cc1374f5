"""The public names of `hpometrics.engines`, under the name that users of PredictionIO look for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .engines import *  # noqa: F403
