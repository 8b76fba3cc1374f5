"""Edit distance, BLEU and length of decoded sequences of token ids."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricNameError
from ...batch import Outputs
from ...features import PREDICTIONS, SEQUENCE, TEXT
from ...metric import MeanMetric, Metric
from ...registry.register import register_metric
from ...statistics.edits import align
from ...statistics.statistic import Statistic
from ...statistics.token_ids import SequenceBleuCounts, decode_sequences
from ...statistics.totals import RowTotals
from .bleu import ORDERS, brevity


def sequence_edits(batch: Outputs, end: int | None) -> Tensor:
    """Return the block of edits between each decoded prediction and its target, (N,)."""
    return batch.block(f"sequence edits {end}", lambda b: align(*decode_sequences(b, end))[0])


class SequenceEditCounts(RowTotals):
    """Counts of edits and of the tokens of the target."""

    def __init__(self, end: int | None) -> None:
        super().__init__(end=end)

    def columns(self, batch: Outputs) -> Tensor:
        """Return the counts of each row."""
        end = self.params["end"]
        return torch.stack(
            [sequence_edits(batch, end), decode_sequences(batch, end).target_lengths], 1
        ).double()


class DecodedMetric(Metric):
    """Base class of metrics of sequences that end where the target does, or each before its first `end`."""

    inputs = PREDICTIONS

    def __init__(self, *, end: int | None = None) -> None:
        super().__init__()
        self.end = end


@register_metric("edit_distance", [SEQUENCE])
class SequenceEditDistance(DecodedMetric, MeanMetric):
    """Mean number of token edits that turn a predicted sequence into its target.

    Args:
        end: the id that ends a sequence. Without it, prediction and target are read where the target counts;
            with it, each up to its first `end`, so that they may differ in length.

    Shape:
        preds, target: (N, T) int; positions whose target is the output's `ignore_index` do not count.
    Value: float from 0, in edits, 0 is best; nan before the first row.
    Formula: mean over rows of the fewest substitutions + deletions + insertions
    Deviates: Ludwig's edit_distance (documented until its version 0.5) divides by the length of the target.
    Source: Levenshtein 1966, Soviet Physics Doklady 10(8).

    >>> metric = SequenceEditDistance(end=0)
    >>> metric.update(torch.tensor([[5, 6, 0]]), torch.tensor([[4, 5, 6]]))
    >>> metric.compute().item()  # 4 is inserted
    1.0
    """

    direction = MINIMIZE

    def measure(self, batch: Outputs) -> Tensor:
        """Return the distance of each sequence."""
        return sequence_edits(batch, self.end).double()


@register_metric("token_error_rate", [SEQUENCE, TEXT])
class TokenErrorRate(DecodedMetric):
    """Token error rate: token edits that turn predictions into targets, per token of the targets.

    Args:
        end: the id that ends a sequence. Without it, prediction and target are read where the target counts;
            with it, each up to its first `end`, so that they may differ in length.

    Shape:
        preds, target: (N, T) int; positions whose target is the output's `ignore_index` do not count.
    Value: float from 0, edits per token, 0 is best; nan if the targets hold no token.
    Formula: (substitutions + deletions + insertions) / tokens of the targets, both pooled
    Source: Levenshtein 1966, Soviet Physics Doklady 10(8); `wer` over token ids.

    >>> metric = TokenErrorRate(end=0)
    >>> metric.update(torch.tensor([[5, 6, 0, 9]]), torch.tensor([[4, 5, 6, 7]]))
    >>> metric.compute().item()  # 4 and 7 are inserted
    0.5
    """

    direction = MINIMIZE

    def statistics(self) -> dict[str, Statistic]:
        """Return the edits and lengths."""
        return {"edits": SequenceEditCounts(self.end)}

    def compute(self) -> Tensor:
        """Divide edits by tokens."""
        edits, tokens = self.statistic(SequenceEditCounts).total
        return edits / tokens if tokens else self.undefined("the targets contain no tokens")


@register_metric(
    "fairseq_bleu",
    [SEQUENCE, TEXT],
    aliases={f"fairseq_bleu{order}": f"fairseq_bleu(order={order})" for order in range(1, ORDERS + 1)},
)
class FairseqBleu(Metric):
    """BLEU of a corpus of token ids, one reference each, in percent, not smoothed.

    Args:
        order: the longest n-grams, 1 to 4.
        end: the id that ends a sequence. Without it, prediction and target are read where the target counts;
            with it, each up to its first `end`, so that they may differ in length.
        unk: the id of unknown tokens; in a target it matches nothing.

    Shape:
        preds, target: (N, T) int; positions whose target is the output's `ignore_index` do not count.
    Value: float in [0, 100], in percent, 100 is best, 0 if an order has no match; nan if no token is
        predicted.

    Raises:
        MetricNameError: an order outside 1 to 4.
    Formula: 100 * min(1, exp(1 - r / c)) * (p1 * ... * p4)^(1/4), all counts over the corpus
    Deviates: ParlAI's containers add in place and count a batch twice.
    Source: Papineni et al. 2002, ACL; fairseq's scorer and ParlAI's fairseq_bleu1 to fairseq_bleu4.

    >>> metric = FairseqBleu(order=2)
    >>> metric.update(torch.tensor([[3, 4, 5, 6]]), torch.tensor([[3, 4, 7, 6]]))
    >>> round(metric.compute().item(), 4)  # sqrt(3/4 * 1/3)
    50.0
    """

    direction = MAXIMIZE
    inputs = PREDICTIONS

    def __init__(self, *, order: int = ORDERS, end: int | None = None, unk: int | None = None) -> None:
        super().__init__()
        if order not in range(1, ORDERS + 1):
            raise MetricNameError(f"fairseq_bleu: order must be from 1 to {ORDERS}, got {order}")
        self.order, self.end, self.unk = order, end, unk

    def statistics(self) -> dict[str, Statistic]:
        """Return the counts of the corpus, of all orders, so that metrics can share them."""
        return {"counts": SequenceBleuCounts(ORDERS, self.end, self.unk)}

    def compute(self) -> Tensor:
        """Return the BLEU of the pooled counts."""
        predicted, right, *counts = self.statistic(SequenceBleuCounts).total.tolist()
        if not predicted:
            return self.undefined("no tokens were predicted")
        matched, possible = counts[: self.order], counts[ORDERS : ORDERS + self.order]
        if not all(matched):
            return torch.zeros((), dtype=torch.float64)
        logs = sum(math.log(hits / whole) for hits, whole in zip(matched, possible, strict=True))
        bleu = 100 * brevity(predicted, right) * math.exp(logs / self.order)
        return torch.tensor(bleu, dtype=torch.float64)


@register_metric("gen_n_toks", [SEQUENCE, TEXT])
class GeneratedTokens(DecodedMetric, MeanMetric):
    """Mean number of tokens generated per sequence, which has no direction.

    Args:
        end: the id that ends a sequence and does not count itself. Without it, every position that counts is
            a generated token.

    Shape:
        preds, target: (N, T) int; positions whose target is the output's `ignore_index` do not count.
    Value: float from 0, in tokens; nan before the first row.
    Formula: tokens before the end / sequences
    Deviates: ParlAI counts the end token and the start token as well.
    Source: ParlAI's gen_n_toks.

    >>> metric = GeneratedTokens(end=0)
    >>> metric.update(torch.tensor([[5, 6, 0], [5, 0, 0]]), torch.tensor([[5, 6, 7], [5, 6, 7]]))
    >>> metric.compute().item()
    1.5
    """

    direction = None

    def measure(self, batch: Outputs) -> Tensor:
        """Return the length of each sequence."""
        return decode_sequences(batch, self.end).preds_lengths.double()
