"""Measure the metrics of predictions in a file, which is read in chunks, for `hpometrics measure`."""

from .measure import Measured, measure_file, report

__all__ = ["Measured", "measure_file", "report"]
