"""`Run`, one training run: it measures epochs, stores them and reports them to the search."""

from __future__ import annotations

from .._imports import lazy_names

__getattr__, _HOME_OF = lazy_names(__name__, __file__)
__all__ = sorted(_HOME_OF)
