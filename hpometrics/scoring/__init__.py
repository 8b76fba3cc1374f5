"""Measure: the metrics of predictions that were saved to a file, read in chunks, by `hpometrics measure`."""

from .command import Request, measure_file
from .report import Measured, report

__all__ = ["Measured", "Request", "measure_file", "report"]
