"""Measure the metrics of predictions in a file, read in chunks, for `hpometrics measure`."""

from .command import Request, measure_file
from .report import Measured, report

__all__ = ["Measured", "Request", "measure_file", "report"]
