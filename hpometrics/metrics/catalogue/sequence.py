"""Sequences of tokens: how many tokens are right, how many sequences, and how surprised the model is."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

from ...objective import MAXIMIZE, MINIMIZE
from ..features import PREDICTIONS, PROBABILITIES, SEQUENCE, TEXT
from ..metric import MeanMetric
from ..outputs import Outputs
from ..registry import register_metric


def right_tokens(batch: Outputs) -> Tensor:
    """The block of positions that count and are predicted right: (N, T), bool."""
    return batch.block("right_tokens", lambda b: (b.predictions == b.index) & b.counted)


@register_metric("token_accuracy", [SEQUENCE, TEXT], aliases=["token_acc"])
class TokenAccuracy(MeanMetric):
    """Share of tokens predicted right.

    Args:
        average: `token`, every token of the epoch weighs the same; or `sequence`, the mean over sequences
            of the share of each (Ludwig's form).

    Shape:
        preds, target: (N, T) int; positions whose target is the output's `ignore_index` do not count.
    Value: float in [0, 1], no unit, 1 is best; nan if no position counts.
    Source: Ludwig's token_accuracy, with `average=sequence`.

    >>> import torch
    >>> metric = TokenAccuracy()
    >>> metric.update(torch.tensor([[5, 6, 7], [8, 0, 0]]), torch.tensor([[5, 6, 9], [8, -100, -100]]))
    >>> metric.compute().item()  # 3 of 4 tokens; of the two sequences (2/3 + 1/1) / 2
    0.75
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS

    def __init__(self, *, average: Literal["token", "sequence"] = "token") -> None:
        super().__init__()
        self.average = average

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Give each token, or each sequence, and which of them count."""
        right = right_tokens(batch)
        if self.average == "token":
            return right, batch.counted
        tokens = batch.counted.sum(1)
        return right.sum(1).double() / tokens, tokens > 0


@register_metric("sequence_accuracy", [SEQUENCE, TEXT])
class SequenceAccuracy(MeanMetric):
    """Share of sequences predicted right in every token that counts.

    What is predicted at padded positions does not matter; a sequence that is all padding is left out.

    Shape:
        preds, target: (N, T) int; positions whose target is the output's `ignore_index` do not count.
    Value: float in [0, 1], no unit, 1 is best; nan if no position counts.
    Source: Ludwig's sequence_accuracy, which counts padding too.

    >>> import torch
    >>> metric = SequenceAccuracy()
    >>> metric.update(torch.tensor([[5, 6, 7], [8, 0, 0]]), torch.tensor([[5, 6, 9], [8, -100, -100]]))
    >>> metric.compute().item()
    0.5
    """

    objective = MAXIMIZE
    inputs = PREDICTIONS

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Give 1 for a sequence without a wrong token, and which sequences have tokens."""
        return (right_tokens(batch) == batch.counted).all(1), batch.counted.any(1)


@register_metric("perplexity", [SEQUENCE, TEXT], aliases=["ppl"])
class Perplexity(MeanMetric):
    """How many tokens the model wavers between: exp of the mean negative log-likelihood of a token.

    The mean is over all tokens of the epoch, and exp is taken once. From logits nothing leaves log space; a
    given probability below the machine epsilon of its dtype is taken as that.

    Shape:
        probabilities or logits: (N, T, V) float.
        target: (N, T) int; positions whose target is the output's `ignore_index` do not count.
    Value: float in [1, inf), in tokens, 1 is best, V is a blind guess; nan if no position counts.
    Source: Jelinek et al. 1977, Journal of the Acoustical Society of America 62(S1).

    >>> import torch
    >>> metric = Perplexity()
    >>> metric.update(torch.tensor([[[0.5, 0.5], [0.125, 0.875]]]), torch.tensor([[0, 0]]))
    >>> round(metric.compute().item(), 4)  # 1 / sqrt(0.5 * 0.125)
    4.0
    """

    objective = MINIMIZE
    inputs = PROBABILITIES

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Give each token's negative log-likelihood, and which tokens count."""
        true = batch.index.masked_fill(~batch.counted, 0).unsqueeze(-1)
        return -batch.log_probabilities.gather(-1, true).squeeze(-1), batch.counted

    def compute(self) -> Tensor:
        """Average over tokens, then take exp."""
        return super().compute().exp()
