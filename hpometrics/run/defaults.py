"""Defaults: what a run measures of an output without being asked."""

from __future__ import annotations

from ..metrics.features import OutputFeature
from ..metrics.registry.groups import DEFAULT, WORDS
from ..metrics.registry.index import observed_of
from ..metrics.registry.lookup import find_metric
from ..metrics.registry.names import MetricName

_FIXED = "a fixed size"


def defaults_of(output: OutputFeature) -> tuple[MetricName, ...]:
    """The metrics of the default group that keep no more the longer an epoch is.

    A text is measured as token ids or as words, whichever its updates are. A ranking that keeps the values of
    every user keeps those of the metrics asked for alone.
    """
    if getattr(output, "per_user", False):
        return ()
    groups = (DEFAULT.get(output.type, ""), WORDS.get(output.type, ""))
    names = dict.fromkeys(MetricName.parse(name) for group in groups for name in group.split())
    return tuple(name for name in names if _is_light(name, output.type))


def _is_light(name: MetricName, feature_type: str) -> bool:
    seen = observed_of(find_metric(name, feature_type).entries[0])
    return seen is not None and seen.memory == _FIXED
