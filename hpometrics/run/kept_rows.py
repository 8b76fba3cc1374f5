"""Kept rows: the outputs and target of every row, held by a run that keeps all statistics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ..direction import Objective
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
from ..metrics.statistics.scores import CLASS_SCORES, UNKNOWN, Scores
from ..metrics.statistics.statistic import Statistic
from .statistics_store import State


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


def rows_of(output: OutputFeature, statistics: Mapping[str, State]) -> dict[str, Tensor] | None:
    """Give the rows that were kept as an update takes them; None where none were.

    Args:
        output: whose rows.
        statistics: the states that were kept, by label.
    """
    scores, pairs = statistics.get(Scores().label), statistics.get(Pooled().label)
    if scores:
        given = "logits" if bool(scores["are_logits"][0]) else "probabilities"
        shown = scores["scores"][:, 0] if output.type == BINARY else scores["scores"]
        if scores["are_logits"][0] == CLASS_SCORES:
            shown = _log_probabilities(shown)
        target = _target_of(output, scores["target"])
        return {given: shown, "target": target, **_weights(scores["weight"])}
    if pairs:
        shown, target = pairs["values"].unbind(1)
        if output.type == NUMBER:
            shown, target = shown[:, 0], target[:, 0]
        return {"predictions": shown, "target": target, **_weights(pairs["weight"])}
    return None


def _log_probabilities(class_scores: Tensor) -> Tensor:
    """The logits of kept rows: log-probabilities of the same classes rank and are decided alike."""
    sure = torch.log1p((-class_scores).exp() / -4)
    return torch.where(class_scores > -math.log(2), sure, class_scores)


def _target_of(output: OutputFeature, kept: Tensor) -> Tensor:
    """The target as it was given: a label that is not known has the output's `ignore_index`."""
    ignored: int | None = getattr(output, "ignore_index", None)
    if output.type != SET or ignored is None:
        return kept
    return kept.masked_fill(kept == UNKNOWN, ignored)


def _weights(weight: Tensor) -> dict[str, Tensor]:
    """The weights of rows, unless all are 1."""
    return {} if bool((weight == 1).all()) else {"sample_weight": weight}
