"""The laws that every metric keeps, each written once: for our own registry and for authors of metrics.

    class TestMyMetric(MetricLaws):
        metric = "my_metric"

A law draws its own data and raises `LawBroken` with the expected and the actual value.
"""

from ..metrics.sample_data import ORDINARY, OUTPUTS, Batch, Draw, cut, draw, ordinary, rows_of, size_of
from . import laws
from .contract import MetricLaws
from .laws import *  # noqa: F403  # laws.__all__, which stands there once
from .subjects import Subject, all_subjects, subjects_of
from .symmetry import exchanged, is_kept, renamed
from .waits import away, waits_of

__all__ = [
    "ORDINARY",
    "OUTPUTS",
    "Batch",
    "Draw",
    "MetricLaws",
    "Subject",
    "all_subjects",
    "away",
    "cut",
    "draw",
    "exchanged",
    "is_kept",
    "ordinary",
    "renamed",
    "rows_of",
    "size_of",
    "subjects_of",
    "waits_of",
]
__all__ += laws.__all__
