"""Kept rows: the outputs and target of every row, held by a run that keeps all statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ..metrics.features import (
    BINARY,
    CATEGORY,
    NUMBER,
    PREDICTIONS,
    PROBABILITIES,
    SET,
    TIMESERIES,
    VECTOR,
    InputType,
    OutputFeature,
)
from ..metrics.metric import Metric
from ..metrics.statistics.pooled import Pooled
from ..metrics.statistics.scores import Scores
from ..metrics.statistics.statistic import Statistic
from ..objective import Objective


class _KeptRows(Metric):
    """Holds every row; its value is how many there are."""

    objective: ClassVar[Objective | None] = None

    @property
    def _class_name(self) -> str:
        return "kept_rows"


class KeptScores(_KeptRows):
    """The scores and target of every row; its value is how many there are."""

    inputs: ClassVar[InputType] = PROBABILITIES

    def statistics(self) -> Mapping[str, Statistic]:
        """Keep the scores of every row."""
        return {"rows": Scores()}

    def compute(self) -> Tensor:
        """Count them."""
        return torch.tensor(float(self.statistic(Scores).rows))


class KeptPairs(_KeptRows):
    """The predicted and the right numbers of every row; its value is how many there are."""

    inputs: ClassVar[InputType] = PREDICTIONS

    def statistics(self) -> Mapping[str, Statistic]:
        """Keep both numbers of every row."""
        return {"rows": Pooled()}

    def compute(self) -> Tensor:
        """Count them."""
        return torch.tensor(float(len(self.statistic(Pooled).rows.target)))


_KEEPERS: Mapping[str, type[Metric]] = {
    **dict.fromkeys((BINARY, CATEGORY, SET), KeptScores),
    **dict.fromkeys((NUMBER, VECTOR, TIMESERIES), KeptPairs),
}


def keeper_of(output: OutputFeature) -> tuple[type[Metric], ...]:
    """What keeps the rows of an output; nothing keeps those of texts, sequences and rankings."""
    keeper = _KEEPERS.get(output.type)
    return () if keeper is None else (keeper,)
