"""Losses of sequences whose labels are fewer than the positions that are seen."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ....direction import MINIMIZE
from ....exceptions import MetricInputError, MetricNameError
from ..._device import on_host
from ...batch import Outputs, as_tensor
from ...features import LOGITS, SEQUENCE, TEXT, OutputFeature
from ...metric import MeanMetric
from ...registry.register import register_metric
from .._data import Batch, normal, uniform


@register_metric("ctc", [SEQUENCE, TEXT], aliases=["ctc_loss"])
class CTC(MeanMetric):
    """-log p of the label sequence over all its alignments with the positions, per label; mean over rows.

    Shape:
        preds: (N, T, V) logits, of which the class `blank` is the one between labels.
        target: (N, T) int, the labels in order, then the output's `ignore_index` up to T.
        lengths: (N,) how many positions of each row the model saw; all T if not given.
    Value: float from 0, in nats a label, 0 is best; nan before the first row, or if a row has too few
        positions for its labels.

    Raises:
        MetricInputError: a target holds the blank, or a length lies outside 1..T.
    Formula: mean over rows of -log(sum of p(alignment) for all alignments) / max(labels, 1)
    Source: Graves, Fernandez, Gomez & Schmidhuber 2006, ICML; torch's ctc_loss.

    >>> metric = CTC()
    >>> metric.update(torch.zeros(1, 1, 4), torch.tensor([[3]]))
    >>> round(metric.compute().item(), 4)  # one position, one label: log(4)
    1.3863
    """

    objective = MINIMIZE
    inputs = LOGITS

    def __init__(self, *, blank: int = 0) -> None:
        super().__init__()
        if blank < 0:
            raise MetricNameError(f"ctc: blank is a class from 0, got {blank!r}")
        self.blank = blank

    def measure(self, batch: Outputs) -> Tensor:
        """Measure each row; what is ignored in the target becomes -1."""
        labels = torch.where(batch.counted, batch.index, -1)
        return self.get_current_value(batch.log_probabilities.double(), labels, **self.wanted(batch.extras))

    def get_current_value(self, preds: Tensor, target: Tensor, lengths: Any = None) -> Tensor:
        """Measure each row: preds are log-probabilities, target is -1 behind the labels."""
        self._check(target)
        labels = torch.where(target < 0, (self.blank + 1) % preds.shape[-1], target)
        count = (target >= 0).sum(1)
        seen = self._seen(lengths, target)
        loss = functional.ctc_loss(preds.transpose(0, 1), labels, seen, count, self.blank, reduction="none")
        return loss / count.clamp(min=1)

    def _check(self, target: Tensor) -> None:
        if not on_host(target):
            return
        if bool((target == self.blank).any()):
            raise MetricInputError(f"{self.name}: a target holds the blank, {self.blank}, which is no label")
        if bool(((target[:, 1:] >= 0) & (target[:, :-1] < 0)).any()):
            raise MetricInputError(f"{self.name}: labels come first in a row, what is ignored behind them")

    def _seen(self, given: Any, target: Tensor) -> Tensor:
        rows, steps = target.shape
        if given is None:
            return torch.full((rows,), steps, device=target.device)
        lengths = as_tensor(given).long()
        if lengths.shape != (rows,) or (
            on_host(lengths) and not bool(((lengths > 0) & (lengths <= steps)).all())
        ):
            raise MetricInputError(f"{self.name} reads lengths= of shape ({rows},), each in 1..{steps}")
        return lengths

    def compute(self) -> Tensor:
        """Divide once."""
        mean = super().compute()
        if self.undefined_reason is None and not mean.isfinite():
            return self.undefined("a row has fewer positions than its labels need")
        return mean

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Up to four labels in nine positions, blanks between them, but for the noise."""
        vocabulary = getattr(output, "vocab_size", None) or 7
        labels, guess = torch.randint(1, vocabulary, (2, rows, 4), generator=random)
        count = torch.randint(1, 5, (rows, 1), generator=random)
        held = torch.arange(4) < count
        seen = torch.where(uniform((rows, 4), random) < noise, guess, labels) * held
        path = torch.zeros(rows, 9, dtype=torch.int64)
        path[:, 1:8:2] = seen
        ignored = getattr(output, "ignore_index", -100)
        target = torch.full((rows, 9), ignored)
        target[:, :4] = labels.masked_fill(~held, ignored)
        logits = 8 * functional.one_hot(path, vocabulary) + 0.5 * normal((rows, 9, vocabulary), random)
        return {"logits": logits, "target": target}
