"""Dialogue state tracking: joint goal accuracy of turns, and precision, recall and F1 of slots.

States are mappings from slot to value: the predicted ones are passed as the list `slots=`, the right ones as
`gold_slots=`, beside the texts of the turns.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ....direction import MAXIMIZE
from ...batch import Outputs
from ...features import PREDICTIONS, TEXT, OutputFeature
from ...metric import MeanMetric, Metric
from ...registry.register import register_metric
from ...statistics.statistic import Statistic
from ...statistics.totals import SlotCounts, states
from .words import per_row


def draw_states(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> dict[str, Any]:
    """Draw states of up to four slots, of which a share `noise` is predicted at random or not at all."""
    predicted, right = [], []
    for _ in range(rows):
        values, guesses = torch.randint(6, (2, 4), generator=random)
        wrong = torch.rand(4, generator=random) < noise
        predicted.append(_state(torch.where(wrong, guesses, values)))
        right.append(_state(values))
    return {"predictions": [""] * rows, "target": [""] * rows, "slots": predicted, "gold_slots": right}


def _state(values: Tensor) -> dict[str, int]:
    """Return a state without the slots whose value is 3 or more."""
    return {f"slot{slot}": value for slot, value in enumerate(values.tolist()) if value < 3}


def _right_turns(batch: Outputs) -> Tensor:
    """Return 1 for each turn whose predicted state is the right one, else 0."""
    return per_row(np.array([slots == right for slots, right in zip(*states(batch), strict=True)]), batch)


def _empty_turns(batch: Outputs) -> Tensor:
    """Return 1 for each turn whose right state has no slot, else 0."""
    return per_row(np.array([not right for right in states(batch).right]), batch)


class DialogueMetric(Metric):
    """Base class of metrics of dialogue states.

    Shape:
        slots, gold_slots: N mappings from slot to value, predicted and right; beside N texts.

    Raises:
        MetricInputError: one of the two is missing, or not a mapping per row.
    """

    direction = MAXIMIZE
    inputs = PREDICTIONS
    extras: ClassVar[tuple[str, ...]] = ("texts", "references", "slots", "gold_slots")
    draw_batch = staticmethod(draw_states)


class JointGoal(DialogueMetric, MeanMetric):
    """Base class of shares of turns whose whole state is right."""


@register_metric("jga", [TEXT], aliases=["joint_goal_accuracy"])
class JointGoalAccuracy(JointGoal):
    """Joint goal accuracy: the share of turns with exactly the right slots and values.

    Value: float in [0, 1], no unit, 1 is best; nan before the first row.
    Formula: turns whose slots equal the right ones / turns
    Source: Williams et al. 2013, SIGDIAL; ParlAI's jga.

    >>> metric = JointGoalAccuracy()
    >>> gold = [{"area": "north"}, {"stars": 4}]
    >>> metric.update(["", ""], ["", ""], slots=[{"area": "north"}, {}], gold_slots=gold)
    >>> metric.compute().item()
    0.5
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Return 1 for each turn whose state is right, else 0."""
        return _right_turns(batch)


@register_metric("jga_empty", [TEXT])
class EmptyGoalAccuracy(JointGoal):
    """Share of the turns without a slot in which none is predicted.

    Value: float in [0, 1], no unit, 1 is best; nan if every turn has a slot.
    Formula: turns without a slot, right or predicted / turns without a right slot
    Source: ParlAI's jga_empty.

    >>> metric = EmptyGoalAccuracy()
    >>> texts, gold = ["...", "...", "..."], [{}, {}, {"stars": 3}]
    >>> metric.update(texts, texts, slots=[{}, {"area": "north"}, {"stars": 4}], gold_slots=gold)
    >>> metric.compute().item()  # the first two turns
    0.5
    """

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Return 1 for each right turn, and as its weight 1 for a turn without a right slot."""
        return _right_turns(batch), _empty_turns(batch)


@register_metric("jga_noempty", [TEXT])
class FilledGoalAccuracy(JointGoal):
    """Share of the turns with a slot whose predicted state is exactly right.

    Value: float in [0, 1], no unit, 1 is best; nan if no turn has a slot.
    Formula: turns with a right slot whose slots equal the right ones / turns with a right slot
    Source: ParlAI's jga_noempty.

    >>> metric = FilledGoalAccuracy()
    >>> texts, gold = ["...", "...", "..."], [{}, {"area": "north"}, {"stars": 3}]
    >>> metric.update(texts, texts, slots=[{}, {"area": "north"}, {"stars": 4}], gold_slots=gold)
    >>> metric.compute().item()  # the last two turns
    0.5
    """

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Return 1 for each right turn, and as its weight 1 for a turn with a right slot."""
        return _right_turns(batch), 1 - _empty_turns(batch)


class SlotMetric(DialogueMetric):
    """Base class of ratios of slots counted over all turns."""

    def statistics(self) -> dict[str, Statistic]:
        """Return the counts of slots."""
        return {"slots": SlotCounts()}

    def ratio(self, hits: Tensor, whole: Tensor, reason: str) -> Tensor:
        """Return hits / whole; nan with the reason where the denominator is 0."""
        return hits / whole if whole else self.undefined(reason)


@register_metric("slot_p", [TEXT], aliases=["slot_precision"])
class SlotPrecision(SlotMetric):
    """Share of the predicted slots that have the right value.

    Value: float in [0, 1], no unit, 1 is best; nan if no slot is predicted.
    Formula: slots predicted with the right value / slots predicted, over all turns
    Source: ParlAI's slot_p.

    >>> metric = SlotPrecision()
    >>> slots = [{"area": "north", "stars": 4}]
    >>> metric.update(["..."], ["..."], slots=slots, gold_slots=[{"area": "north"}])
    >>> metric.compute().item()
    0.5
    """

    def compute(self) -> Tensor:
        """Divide hits by predicted slots."""
        hits, predicted, _ = self.statistic(SlotCounts).total
        return self.ratio(hits, predicted, "no slots were predicted")


@register_metric("slot_r", [TEXT], aliases=["slot_recall"])
class SlotRecall(SlotMetric):
    """Share of the right slots that are predicted with the right value.

    Value: float in [0, 1], no unit, 1 is best; nan if no turn has a slot.
    Formula: slots predicted with the right value / right slots, over all turns
    Source: ParlAI's slot_r.

    >>> metric = SlotRecall()
    >>> gold = [{"area": "north", "stars": 4}]
    >>> metric.update(["..."], ["..."], slots=[{"area": "north"}], gold_slots=gold)
    >>> metric.compute().item()
    0.5
    """

    def compute(self) -> Tensor:
        """Divide hits by right slots."""
        hits, _, right = self.statistic(SlotCounts).total
        return self.ratio(hits, right, "no turn has a slot")


@register_metric("slot_f1", [TEXT])
class SlotF1(SlotMetric):
    """F1 of slots with their values, counted over all turns.

    Value: float in [0, 1], no unit, 1 is best; nan if no slot is predicted and no turn has one.
    Formula: 2 slots predicted with the right value / (slots predicted + right slots), over all turns
    Deviates: where no predicted slot is right ParlAI gives nan, not 0.
    Source: ParlAI's slot_f1.

    >>> metric = SlotF1()
    >>> slots = [{"area": "north", "stars": 4}]
    >>> metric.update(["..."], ["..."], slots=slots, gold_slots=[{"area": "north"}])
    >>> round(metric.compute().item(), 4)  # 2 * 1 / (2 + 1)
    0.6667
    """

    def compute(self) -> Tensor:
        """Divide twice the hits by all slots."""
        hits, predicted, right = self.statistic(SlotCounts).total
        return self.ratio(2 * hits, predicted + right, "there are no slots, predicted or correct")
