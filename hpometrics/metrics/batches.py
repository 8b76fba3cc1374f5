"""Batches: what an update was given, in the form of its output feature."""

from __future__ import annotations

from typing import Any

from .features import RANKING, OutputFeature
from .outputs import Outputs
from .ranking.batch import RankingBatch


def batch_of(feature: OutputFeature, **given: Any) -> Outputs:
    """Make one batch of the keyword arguments of an update.

    Raises:
        MetricInputError: they do not make a batch of this output.
    """
    kind = RankingBatch if feature.type == RANKING else Outputs
    return kind(feature, **given)
