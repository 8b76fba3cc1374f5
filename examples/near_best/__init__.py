"""A sampler in the form of OptunaHub: a folder, whose class is in `__all__`; see configs/hub_digits.yaml."""

from ._sampler import NearBest

__all__ = ["NearBest"]
