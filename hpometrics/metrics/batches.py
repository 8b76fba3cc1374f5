"""Batches: what an update was given, in the form of its output feature."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .batch import Outputs
from .features import RANKING, OutputFeature
from .retrieval.ranking_batch import RankingBatch


def batch_of(feature: OutputFeature, **given: Any) -> Outputs:
    """Make one batch of the keyword arguments of an update.

    Raises:
        MetricInputError: they do not make a batch of this output.
    """
    kind = RankingBatch if feature.type == RANKING else Outputs
    return kind(feature, **given)


@functools.cache
def reads_pairs(function: Callable[..., Any]) -> bool:
    """Whether a function takes at least `self, preds, target` by position."""
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    return len(kinds) > 2 and all(k in (k.POSITIONAL_ONLY, k.POSITIONAL_OR_KEYWORD) for k in kinds[:3])
