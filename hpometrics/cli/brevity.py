"""Brevity: what a command that ends at once leaves undone."""

from __future__ import annotations

import atexit
import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """Look for no garbage within, nor when the process ends.

    Nearly all that such a command makes are modules and models, which stay to its end: to look through them
    over and over is a tenth of its time, and frees nothing. Not for what runs a user's engine.
    """
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)  # what is frozen is not looked through at the end either
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
