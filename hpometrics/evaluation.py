"""The public names of `hpometrics.engines`, under the name that users of PredictionIO look for."""

from __future__ import annotations

from typing import Any

from . import engines

__all__ = engines.__all__


def __getattr__(name: str) -> Any:
    return getattr(engines, name)
