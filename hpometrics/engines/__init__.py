"""Engine params: evaluate each of a list or a search on folds, shared stages once, and pick the optimum.

Names are loaded when they are first used: engine params are read and written without torch.
"""

from __future__ import annotations

from .._imports import lazy_names

__getattr__, _HOME_OF = lazy_names(__name__, __file__)
__all__ = sorted(_HOME_OF)
