"""Installed: which metrics can be tried here, by the packages that they are built on."""

from __future__ import annotations

from importlib.util import find_spec

from hpometrics.metrics.registry import MetricEntry
from hpometrics.testing.exemptions import UNTRIED


def is_here(entry: MetricEntry) -> bool:
    """Whether everything is installed that a metric needs, and it downloads nothing."""
    if not entry.requires:
        return True
    return entry.name not in UNTRIED and all(find_spec(package) for package in entry.load().row.packages)
