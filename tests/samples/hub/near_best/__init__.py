"""A sampler in the form of OptunaHub: a folder, whose class is in `__all__`."""

from ._sampler import NearBest

__all__ = ["NearBest"]
