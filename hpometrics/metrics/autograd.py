"""Autograd: metrics measure outside of it, in plain tensors that can be added to later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch


def without_autograd() -> AbstractContextManager[None]:
    """Leave inference mode and record nothing for gradients; where that is so already, nothing is done.

    >>> with without_autograd():
    ...     torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    (False, False)
    """
    within = torch.is_grad_enabled() or torch.is_inference_mode_enabled()
    return _left() if within else nullcontext()


@contextmanager
def _left() -> Iterator[None]:
    with torch.inference_mode(False), torch.no_grad():
        yield
