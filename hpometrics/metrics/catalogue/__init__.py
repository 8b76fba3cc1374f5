"""The catalogue: the built-in metrics, a file per family. Importing it registers them all."""

from . import calibration, classification, probability, regression, sequence

__all__ = ["calibration", "classification", "probability", "regression", "sequence"]
