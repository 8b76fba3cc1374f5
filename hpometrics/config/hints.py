"""Hints: which value was probably meant by a name that nothing has."""

from __future__ import annotations

from collections.abc import Iterable

from ..metrics.registry.index import metric_names
from ..metrics.registry.lookup import suggestion
from ..metrics.registry.names import MetricName


def value_meant(name: str, there: Iterable[str], feature_type: str | None = None) -> str:
    """Give ` Did you mean ...?` for the nearest of the values there, else of all metrics; empty if none is.

    Args:
        name: of a value that is missing.
        there: the values that are reported, or named in the sweep file.
        feature_type: of this output feature the metrics are.
    """
    word = name if ":" in name else MetricName.parse(name).metric  # package.module:Class is no name
    return suggestion(word, there) or suggestion(word, metric_names(feature_type))
