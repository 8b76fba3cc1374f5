"""Random streams: those of Python, NumPy and torch, started from one seed; torch is not loaded for it."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def seeded_streams(seed: int | None) -> Iterator[None]:
    """Start every random stream from a seed, that of torch if it is loaded; None leaves them alone.

    Warns:
        RuntimeWarning: torch was loaded on the way, so that its stream could not be started.
    """
    if seed is None:
        yield
        return
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)
    yield
    if torch is None and "torch" in sys.modules:
        warnings.warn(
            "a stage has loaded torch, whose random stream was not seeded for it; import torch at the top of "
            "the engine's module",
            RuntimeWarning,
            stacklevel=4,
        )
