"""Log loss and Kullback-Leibler divergence of predicted probabilities, and skill scores."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ..._device import on_host
from ...batch import Outputs
from ...features import BINARY, CATEGORY, LOGITS, PROBABILITIES, SET
from ...metric import MeanMetric, Metric
from ...registry.register import get_metric, register_metric
from ...statistics.confusion import TargetCounts
from ...statistics.statistic import Statistic
from .curves import ONE_CLASS


class ProbabilityLoss(MeanMetric):
    """Base class of mean losses of probabilities, against hard or soft labels."""

    direction = MINIMIZE
    inputs = PROBABILITIES
    reads_soft = True
    regroups = True


@register_metric(
    "log_loss",
    [CATEGORY, BINARY, SET],
    aliases=["neg_log_loss", "cross_entropy", "logloss", "nll", "negative_log_likelihood"],
)
class LogLoss(ProbabilityLoss):
    """Mean negative log-likelihood of the target, in nats; against soft labels, the cross-entropy.

    From logits it is computed in log space and exact; a probability below the machine epsilon of its dtype
    counts as epsilon, as in scikit-learn. For a set it is the mean over all labels.

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category, (N, L) of a set: probabilities (or
            logits by keyword).
        target: (N,) int, (N, L) of a set; or target_probabilities in the shape of the probabilities.
    Value: float from 0, in nats, 0 is best, log(classes) is chance; nan before the first row.
    Formula: mean of -sum over classes of target * log(p)
    Deviates: a fork of pytorch-tabnet takes a second softmax, of probabilities.
    Source: Good 1952, Journal of the Royal Statistical Society B 14(1).

    >>> from hpometrics.metrics.features import Binary
    >>> metric = LogLoss()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.1, 0.9]), torch.tensor([0, 1]))
    >>> round(metric.compute().item(), 5)  # -log(0.9)
    0.10536
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Return the cross-entropy of each row (or label)."""
        return cross_entropy(batch)


@register_metric("kl_divergence", [CATEGORY, BINARY, SET], aliases=["kld"])
class KullbackLeibler(ProbabilityLoss):
    """Mean Kullback-Leibler divergence of the predicted probabilities from the soft labels, in nats.

    It is the cross-entropy minus the entropy of the labels, hence 0 for a model that predicts exactly the
    labels. A hard target is a soft label of 0 and 1, of entropy 0: then it is the log loss.

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category, (N, L) of a set: probabilities (or
            logits by keyword).
        target: target_probabilities in the shape of the probabilities; or (N,) int, (N, L) of a set.
    Value: float from 0, in nats, 0 is best; nan before the first row.
    Formula: mean of sum over classes of target * (log(target) - log(p))
    Source: Kullback & Leibler 1951, Annals of Mathematical Statistics 22(1).

    >>> metric = KullbackLeibler()
    >>> soft = torch.tensor([[0.5, 0.5]])
    >>> metric.update(torch.tensor([[0.75, 0.25]]), target_probabilities=soft)
    >>> round(metric.compute().item(), 4)  # 0.5 * log(0.5 / 0.75) + 0.5 * log(0.5 / 0.25)
    0.1438
    """

    def measure(self, batch: Outputs) -> Tensor:
        """Subtract the entropy of the labels."""
        loss = cross_entropy(batch)
        if batch.soft is None:
            return loss
        soft = batch.soft.double()
        if batch.feature.type == CATEGORY:
            return loss - _entropy_terms(soft).sum(1)
        return loss - _entropy_terms(soft) - _entropy_terms(1 - soft)


class Skill(Metric):
    """Base class of skill scores: 1 minus a loss over that of predicting the target's class shares."""

    direction = MAXIMIZE
    inputs = PROBABILITIES
    loss: ClassVar[str]

    def statistics(self) -> dict[str, Statistic]:
        """Return the statistics of the loss and the shares of the classes."""
        loss = get_metric(self.loss, self.output)
        return {**loss.statistics(), "targets": TargetCounts(soft=loss.reads_soft)}

    def of_shares(self, shares: Tensor) -> Tensor:
        """Return the loss of predicting the shares for every row."""
        raise NotImplementedError(f"{type(self).__name__} needs of_shares(shares)")

    def compute(self) -> Tensor:
        """Return the skill; nan with a reason when the target holds one class only."""
        shares = self.statistic(TargetCounts).shares
        if not (shares > 0).sum() > 1:
            return self.undefined(ONE_CLASS)
        loss = get_metric(self.loss, self.output)
        loss.share({name: statistic for name, statistic in self.kept.items() if name != "targets"})
        value: Tensor = 1 - loss.compute() / self.of_shares(shares)
        return value


@register_metric("d2_log_loss", [CATEGORY, BINARY], aliases=["d2_log_loss_score", "mcfadden_r2"])
class LogLossSkill(Skill):
    """Share by which the model reduces the log loss of predicting the class shares, an R2 of likelihoods.

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category: probabilities (or logits by keyword).
        target: (N,) int.
    Value: float up to 1, no unit, 1 is best, 0 is a model that knows the class shares only; nan when the
        target holds one class only.
    Formula: 1 - log_loss / (-sum over classes of share * log(share))
    Source: McFadden 1974, Frontiers in Econometrics; scikit-learn's d2_log_loss_score.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = LogLossSkill()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.25, 0.75]), torch.tensor([0, 1]))
    >>> round(metric.compute().item(), 4)  # 1 - log(0.75) / log(0.5)
    0.585
    """

    reads_soft = True
    loss = "log_loss"

    def of_shares(self, shares: Tensor) -> Tensor:
        """Return the entropy of the shares."""
        return _entropy_terms(shares).sum()


@register_metric("d2_brier", [CATEGORY, BINARY], aliases=["d2_brier_score", "brier_skill"])
class BrierSkill(Skill):
    """Share by which the model reduces the Brier score of predicting the class shares.

    Shape:
        preds: (N,) float of a binary output, (N, C) of a category: probabilities (or logits by keyword).
        target: (N,) int.
    Value: float up to 1, no unit, 1 is best, 0 is a model that knows the class shares only; nan when the
        target holds one class only.
    Formula: 1 - brier / sum over classes of share * (1 - share), halved for a binary output
    Source: Brier 1950, Monthly Weather Review 78(1); scikit-learn's d2_brier_score.

    >>> from hpometrics.metrics.features import Binary
    >>> metric = BrierSkill()
    >>> metric.output = Binary()
    >>> metric.update(torch.tensor([0.25, 0.75]), torch.tensor([0, 1]))
    >>> metric.compute().item()  # 1 - 0.25**2 / 0.5**2
    0.75
    """

    loss = "brier"

    def of_shares(self, shares: Tensor) -> Tensor:
        """Return the Gini impurity of the shares; half of it where one of two probabilities is scored."""
        impurity = (shares * (1 - shares)).sum()
        return impurity / 2 if self.output.type == BINARY else impurity


def cross_entropy(batch: Outputs) -> Tensor:
    """Return the cross-entropy of each row (of a set, each label) with its target or soft label, in nats."""
    if batch.soft is None:
        return batch.block("cross_entropy", _negative_log_likelihood)
    soft = batch.soft.double()
    if batch.feature.type == CATEGORY:
        return -(soft * batch.log_probabilities).sum(1)
    yes, no = batch.block("log_odds_parts", _log_odds_parts)
    return -(soft * yes + (1 - soft) * no)


def _negative_log_likelihood(batch: Outputs) -> Tensor:
    """Return the negative logarithm of the probability of the target."""
    if batch.feature.type == CATEGORY:
        right = batch.log_probabilities.gather(1, batch.index.unsqueeze(1))
        if LOGITS in batch.given and on_host(right) and right.dtype == torch.float32 and len(right):
            if right.amin().item() == -math.inf:  # the difference of two float32 logits may overflow
                right = batch.logits.double().log_softmax(1).gather(1, batch.index.unsqueeze(1))
        return -right.squeeze(1)
    if LOGITS in batch.given:
        logits = batch.logits
        # 1 or -1, at less cost than torch.where
        against = torch.sub(1, batch.outcome.to(logits.dtype), alpha=2)
        # not logsigmoid: it wakes all threads, however small the batch
        return torch.nn.functional.softplus(logits * against)
    probabilities = batch.probabilities
    return -_log(torch.where(batch.outcome.bool(), probabilities, 1 - probabilities))


def _log_odds_parts(batch: Outputs) -> tuple[Tensor, Tensor]:
    """Return the logarithms of the probabilities of 1 and of 0."""
    if LOGITS in batch.given:
        logits = batch.logits.double()
        return torch.nn.functional.logsigmoid(logits), torch.nn.functional.logsigmoid(-logits)
    probabilities = batch.probabilities
    return _log(probabilities), _log(1 - probabilities)


def _log(probabilities: Tensor) -> Tensor:
    return probabilities.clamp(min=torch.finfo(probabilities.dtype).eps).log()


def _entropy_terms(shares: Tensor) -> Tensor:
    """Return the term of each share in their entropy; 0 where the share is 0."""
    terms: Tensor = torch.special.entr(shares)
    return terms
