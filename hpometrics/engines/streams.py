"""Random streams: those of Python, NumPy and torch, started from one seed; torch is not loaded for it."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import numpy as np


@contextmanager
def seeded_streams(seed: int | None) -> Iterator[None]:
    """Start every random stream from a seed, and restore it afterwards; torch's only if torch is loaded.

    Args:
        seed: None leaves the streams alone.

    Warns:
        RuntimeWarning: torch was loaded on the way, so that its stream could not be started.
    """
    if seed is None:
        yield
        return
    before, numpy_before = random.getstate(), np.random.get_state(legacy=True)
    torch = sys.modules.get("torch")
    random.seed(seed)
    np.random.seed(seed % 2**32)
    try:
        with nullcontext() if torch is None else _forked(torch):
            if torch is not None:
                torch.manual_seed(seed)
            yield
    finally:
        random.setstate(before)
        np.random.set_state(numpy_before)
    if torch is None and "torch" in sys.modules:
        warnings.warn(
            "a stage has loaded torch, whose random stream was not seeded for it; import torch at the top of "
            "the engine's module",
            RuntimeWarning,
            stacklevel=4,
        )


def _forked(torch: Any) -> AbstractContextManager[Any]:
    """Return a context that restores the streams of torch on the CPU and on each accelerator."""
    if not torch.accelerator.is_available():  # before torch 2.7 the current one is asked for in vain
        return torch.random.fork_rng(devices=[])  # type: ignore[no-any-return]
    device, devices = torch.accelerator.current_accelerator(), range(torch.accelerator.device_count())
    return torch.random.fork_rng(devices=devices, device_type=device.type)  # type: ignore[no-any-return]
