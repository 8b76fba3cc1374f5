"""ranx as plain Python: compiling each of its metrics takes longer than all the tests that ask it."""

from __future__ import annotations

import numba

_held, numba.config.DISABLE_JIT = numba.config.DISABLE_JIT, True
try:
    from ranx import metrics
finally:
    numba.config.DISABLE_JIT = _held

__all__ = ["metrics"]
