"""Run, the door between measuring and searching: what one training run measures, stores and reports."""

from __future__ import annotations

from .._imports import lazy_names

__getattr__, _HOME_OF = lazy_names(__name__, __file__)
__all__ = sorted(_HOME_OF)
