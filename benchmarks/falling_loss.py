"""The loss of the searches that are compared; it loads nothing, as Ray's workers load it to start."""

from __future__ import annotations


def value_at(epoch: int) -> float:
    """A loss that falls with the epochs, in every trial alike, so that a pruner looks and stops none."""
    return 1.0 / (epoch + 1)
