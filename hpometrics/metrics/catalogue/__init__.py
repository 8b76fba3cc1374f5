"""The catalogue: the built-in metrics, a file per family. Importing it registers them all."""

from . import classification, probability, regression, sequence

__all__ = ["classification", "probability", "regression", "sequence"]
