"""Accuracies, likelihoods and perplexity of sequences of tokens."""

from __future__ import annotations

import math
from typing import Any, Literal, cast

import torch
from torch import Tensor
from torch.nn import functional

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricInputError, MetricNameError
from ..._derive import expected_pass, pass_over, token_pairs
from ..._device import on_host
from ...batch import Outputs, as_tensor
from ...features import LOGITS, PREDICTIONS, PROBABILITIES, SEQUENCE, TEXT, OutputFeature
from ...metric import MeanMetric
from ...registry.register import register_metric
from ...statistics.statistic import block
from .._batches import Batch, confident_logits, uniform


def right_tokens(batch: Outputs) -> Tensor:
    """Return the block of positions that count and are predicted right, (N, T) bool."""
    return batch.block("right_tokens", lambda b: (b.predictions == b.index) & b.counted)


def token_losses(batch: Outputs) -> Tensor:
    """Return the block of -log p of each token, in nats, (N, T); arbitrary at positions that do not count."""
    return _losses(batch)[0]


def next_token_losses(batch: Outputs) -> Tensor:
    """Return -log p of the token after each position but the last, in nats, (N, T - 1)."""
    return _losses(batch)[1][:, :-1]


@block
def _losses(batch: Outputs) -> Tensor:
    """Return the block of -log p of the token at each position and of the token after it, (2, N, T).

    From logits, no log-probability of the whole vocabulary is stored for more than a few positions.
    """
    pairs = token_pairs(batch)
    if LOGITS not in batch.given:
        return -batch.log_probabilities.gather(-1, pairs).movedim(-1, 0)
    found = expected_pass(batch)
    losses = None if found is None else found.losses
    if losses is None:
        losses = pass_over(batch.given[LOGITS].flatten(0, 1), pairs.flatten(0, 1)).losses
    return cast(Tensor, losses).view(pairs.shape).movedim(-1, 0)


class TokenMetric(MeanMetric):
    """Base class of shares of tokens or sequences that are predicted correctly."""

    direction = MAXIMIZE
    inputs = PREDICTIONS
    expects = frozenset({"largest"})


@register_metric("token_accuracy", [SEQUENCE, TEXT], aliases=["token_acc"])
class TokenAccuracy(TokenMetric):
    """Share of tokens that are predicted correctly.

    Args:
        average: `token`, every token of the epoch weighs the same; or `sequence`, the mean over sequences
            of the share of each (Ludwig's form).

    Shape:
        preds, target: (N, T) int; positions whose target is the output's `ignore_index` do not count.
    Value: float in [0, 1], no unit, 1 is best; nan if no position counts.
    Formula: right tokens / tokens
    Deviates: Ludwig's token_accuracy is `average=sequence`, and the mean of batch means there.
    Source: ParlAI's token_acc.

    >>> metric = TokenAccuracy()
    >>> metric.update(torch.tensor([[5, 6, 7], [8, 0, 0]]), torch.tensor([[5, 6, 9], [8, -100, -100]]))
    >>> metric.compute().item()  # 3 of 4 tokens; of the two sequences (2/3 + 1/1) / 2
    0.75
    """

    def __init__(self, *, average: Literal["token", "sequence"] = "token") -> None:
        super().__init__()
        self.average = average

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Return the value of each token, or of each sequence, and which of them count."""
        right = right_tokens(batch)
        if self.average == "token":
            return right, batch.counted
        tokens = batch.counted.sum(1)
        return right.sum(1).double() / tokens, tokens > 0


@register_metric("sequence_accuracy", [SEQUENCE, TEXT], aliases=["token_em"])
class SequenceAccuracy(TokenMetric):
    """Share of sequences in which every token that counts is predicted correctly.

    Predictions at padded positions do not matter; a sequence that is all padding is left out.

    Shape:
        preds, target: (N, T) int; positions whose target is the output's `ignore_index` do not count.
    Value: float in [0, 1], no unit, 1 is best; nan if no position counts.
    Formula: sequences without a wrong token / sequences with a token
    Deviates: Ludwig compares padded positions too, so that a right sequence with anything behind it is wrong.
    Source: ParlAI's token_em; Ludwig's sequence_accuracy.

    >>> metric = SequenceAccuracy()
    >>> metric.update(torch.tensor([[5, 6, 7], [8, 0, 0]]), torch.tensor([[5, 6, 9], [8, -100, -100]]))
    >>> metric.compute().item()
    0.5
    """

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Return 1 for each sequence without a wrong token, and which sequences have tokens."""
        return (right_tokens(batch) == batch.counted).all(1), batch.counted.any(1)


@register_metric("last_accuracy", [SEQUENCE, TEXT])
class LastAccuracy(TokenMetric):
    """Share of sequences whose last token that counts is predicted correctly.

    A sequence that is all padding is left out.

    Shape:
        preds, target: (N, T) int; positions whose target is the output's `ignore_index` do not count.
    Value: float in [0, 1], no unit, 1 is best; nan if no position counts.
    Formula: sequences with a right last token / sequences with a token
    Source: Ludwig's last_accuracy (documented until its version 0.5).

    >>> metric = LastAccuracy()
    >>> metric.update(torch.tensor([[5, 6, 7], [8, 9, 0]]), torch.tensor([[5, 6, 9], [7, 9, -100]]))
    >>> metric.compute().item()
    0.5
    """

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Return 1 for each sequence with a right last token, and which sequences have tokens."""
        places = torch.arange(batch.index.shape[1], device=batch.index.device)
        last = (batch.counted * places).amax(1, keepdim=True)
        return right_tokens(batch).gather(1, last).squeeze(1), batch.counted.any(1)


class TokenLoss(MeanMetric):
    """Base class of functions of the mean negative log-likelihood of a token.

    Shape:
        probabilities or logits: (N, T, V) float.
        target: (N, T) int; positions whose target is the output's `ignore_index` do not count.
    """

    direction = MINIMIZE
    inputs = PROBABILITIES
    expects = frozenset({"losses"})

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Return the negative log-likelihood of each token, and which tokens count."""
        return token_losses(batch), batch.counted


@register_metric(
    "log_loss",
    [SEQUENCE, TEXT],
    aliases=["cross_entropy", "loss", "sequence_softmax_cross_entropy", "token_loss", "token_nll"],
)
class TokenLogLoss(TokenLoss):
    """Mean negative log-likelihood of the right token over all tokens, in nats.

    From logits nothing leaves log space; a probability below the machine epsilon of its dtype counts as
    epsilon.

    Value: float from 0, in nats, 0 is best, log(V) is a blind guess; nan if no position counts.
    Formula: -(sum of log p of the right tokens) / tokens
    Deviates: Ludwig's sequence_softmax_cross_entropy leaves out each batch's first row and averages batches.
    Source: ParlAI's loss.

    >>> metric = TokenLogLoss()
    >>> metric.update(torch.tensor([[[0.5, 0.5], [0.125, 0.875]]]), torch.tensor([[0, 0]]))
    >>> round(metric.compute().item(), 4)  # (log 2 + log 8) / 2
    1.3863
    """


@register_metric("bits_per_token", [SEQUENCE, TEXT])
class BitsPerToken(TokenLoss):
    """Mean negative log-likelihood of the right token in bits: the code length of a token under the model.

    Value: float from 0, in bits, 0 is best, log2(V) is a blind guess; nan if no position counts.
    Formula: -(sum of log2 p of the right tokens) / tokens
    Source: Shannon 1951, Bell System Technical Journal 30(1).

    >>> metric = BitsPerToken()
    >>> metric.update(torch.tensor([[[0.5, 0.5], [0.125, 0.875]]]), torch.tensor([[0, 0]]))
    >>> round(metric.compute().item(), 4)  # (1 + 3) / 2
    2.0
    """

    def compute(self) -> Tensor:
        """Return the mean over tokens, in bits."""
        return super().compute() / math.log(2)


@register_metric("perplexity", [SEQUENCE, TEXT], aliases=["ppl"])
class Perplexity(TokenLoss):
    """Perplexity: the exponential of the mean negative log-likelihood of a token.

    The mean is over all tokens of the epoch, and exp is taken once. From logits nothing leaves log space; a
    probability below the machine epsilon of its dtype counts as epsilon.

    Value: float in [1, inf), in tokens, 1 is best, V is a blind guess; nan if no position counts.
    Formula: exp(-(sum of log p of the right tokens) / tokens)
    Deviates: Ludwig applies a softmax to probabilities, so that a perfect model has about 19.
    Source: Jelinek et al. 1977, Journal of the Acoustical Society of America 62(S1).

    >>> metric = Perplexity()
    >>> metric.update(torch.tensor([[[0.5, 0.5], [0.125, 0.875]]]), torch.tensor([[0, 0]]))
    >>> round(metric.compute().item(), 4)  # 1 / sqrt(0.5 * 0.125)
    4.0
    """

    def compute(self) -> Tensor:
        """Return exp of the mean over tokens."""
        return super().compute().exp()


class NextTokenLoss(TokenLoss):
    """Base class of functions of the mean negative log-likelihood of the next token.

    Shape:
        probabilities or logits: (N, T, V) float, of the token at t + 1 given those up to t.
        target: (N, T) int, the tokens; those that are the output's `ignore_index` do not count.
    """

    def measure(self, batch: Outputs) -> tuple[Tensor, Tensor]:
        """Return the negative log-likelihood of each next token, and which of them count."""
        return next_token_losses(batch), batch.counted[:, 1:]

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Draw a batch for the laws: each position's logits favor the next token, apart from the noise."""
        tokens = getattr(output, "vocab_size", None) or 7
        target, guess = torch.randint(tokens, (2, rows, 6), generator=random)
        answer = torch.where(torch.rand(rows, 6, generator=random) < noise, guess, target).roll(-1, 1)
        return {"logits": confident_logits(answer, tokens, random), "target": target}


@register_metric("next_token_log_loss", [SEQUENCE, TEXT], aliases=["next_token_softmax_cross_entropy"])
class NextTokenLogLoss(NextTokenLoss):
    """Mean negative log-likelihood of the next token, in nats: each position predicts the token after it.

    The last position predicts nothing, and no position predicts the first token.

    Value: float from 0, in nats, 0 is best, log(V) is a blind guess; nan if no position counts.
    Formula: -(sum over t of log p_t of the token at t + 1) / tokens behind the first
    Deviates: Ludwig averages the means of batches.
    Source: Ludwig's next_token_softmax_cross_entropy.

    >>> metric = NextTokenLogLoss()
    >>> metric.update(torch.tensor([[[0.5, 0.5], [0.9, 0.1]]]), torch.tensor([[1, 0]]))
    >>> round(metric.compute().item(), 4)  # log 2: the second position predicts nothing
    0.6931
    """


@register_metric("next_token_perplexity", [SEQUENCE, TEXT])
class NextTokenPerplexity(NextTokenLoss):
    """Perplexity of the next token: the exponential of `next_token_log_loss`.

    Value: float in [1, inf), in tokens, 1 is best, V is a blind guess; nan if no position counts.
    Formula: exp(-(sum over t of log p_t of the token at t + 1) / tokens behind the first)
    Deviates: Ludwig applies a softmax to probabilities and averages the means of batches before exp.
    Source: Ludwig's next_token_perplexity.

    >>> metric = NextTokenPerplexity()
    >>> metric.update(torch.tensor([[[0.5, 0.5], [0.9, 0.1]]]), torch.tensor([[1, 0]]))
    >>> round(metric.compute().item(), 4)  # 1 / 0.5
    2.0
    """

    def compute(self) -> Tensor:
        """Return exp of the mean over tokens."""
        return super().compute().exp()


@register_metric("ctc", [SEQUENCE, TEXT], aliases=["ctc_loss"])
class CTC(MeanMetric):
    """Connectionist temporal classification loss per label, averaged over rows.

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

    direction = MINIMIZE
    inputs = LOGITS

    def __init__(self, *, blank: int = 0) -> None:
        super().__init__()
        if blank < 0:
            raise MetricNameError(f"ctc: blank must be a class of at least 0, got {blank!r}")
        self.blank = blank

    def measure(self, batch: Outputs) -> Tensor:
        """Return the loss of each row; ignored positions of the target become -1."""
        labels = torch.where(batch.counted, batch.index, -1)
        return self.get_current_value(batch.log_probabilities.double(), labels, **self.wanted(batch.extras))

    def get_current_value(self, preds: Tensor, target: Tensor, lengths: Any = None) -> Tensor:
        """Return the loss of each row: preds are log-probabilities, target is -1 after the labels."""
        self._check(target)
        labels = torch.where(target < 0, (self.blank + 1) % preds.shape[-1], target)
        count = (target >= 0).sum(1)
        steps = self._lengths(lengths, target)
        loss = functional.ctc_loss(preds.transpose(0, 1), labels, steps, count, self.blank, reduction="none")
        return loss / count.clamp(min=1)

    def _check(self, target: Tensor) -> None:
        if not on_host(target):
            return
        if bool((target == self.blank).any()):
            raise MetricInputError(
                f"{self.name}: a target contains the blank, {self.blank}, which is not a label"
            )
        if bool(((target[:, 1:] >= 0) & (target[:, :-1] < 0)).any()):
            raise MetricInputError(f"{self.name}: labels must come first in a row, before ignored positions")

    def _lengths(self, extra: Any, target: Tensor) -> Tensor:
        rows, steps = target.shape
        if extra is None:
            return torch.full((rows,), steps, device=target.device)
        lengths = as_tensor(extra).long()
        if lengths.shape != (rows,) or (
            on_host(lengths) and not bool(((lengths > 0) & (lengths <= steps)).all())
        ):
            raise MetricInputError(f"{self.name} needs lengths= of shape ({rows},), each in 1..{steps}")
        return lengths

    def compute(self) -> Tensor:
        """Return the mean; nan with a reason where a row has too few positions."""
        mean = super().compute()
        if self.undefined_reason is None and not mean.isfinite():
            return self.undefined("a row has fewer positions than its labels need")
        return mean

    @staticmethod
    def draw_batch(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
        """Return up to four labels in nine positions, blanks between them, apart from the noise."""
        vocabulary = getattr(output, "vocab_size", None) or 7
        labels, guess = torch.randint(1, vocabulary, (2, rows, 4), generator=random)
        count = torch.randint(1, 5, (rows, 1), generator=random)
        present = torch.arange(4) < count
        answer = torch.where(uniform((rows, 4), random) < noise, guess, labels) * present
        path = torch.zeros(rows, 9, dtype=torch.int64)
        path[:, 1:8:2] = answer
        ignored = getattr(output, "ignore_index", -100)
        target = torch.full((rows, 9), ignored)
        target[:, :4] = labels.masked_fill(~present, ignored)
        return {"logits": confident_logits(path, vocabulary, random), "target": target}
