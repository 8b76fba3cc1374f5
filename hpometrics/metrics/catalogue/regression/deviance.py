"""Deviances of Tweedie distributions, for counts, amounts and durations."""

from __future__ import annotations

from typing import ClassVar

from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricNameError
from ...batch import Outputs
from ...features import PREDICTIONS
from ...metric import Metric
from ...registry.register import register_metric
from ...statistics.deviances import Dispersion, Residual, check_domain, deviance
from ...statistics.errors import TARGET
from ...statistics.moments import Moments
from ...statistics.statistic import Statistic
from .errors import REAL, ErrorMean
from .variation import no_variation_reason, squared_errors, unexplained_share


class Deviance(ErrorMean):
    """Base class of mean deviances of one power."""

    direction = MINIMIZE
    regroups = False
    power: float

    def measure(self, batch: Outputs) -> Tensor:
        """Check that the distribution can have the values, then return the deviance of each row."""
        check_domain(batch, self.power, self.name)
        return super().measure(batch)

    def of(self, preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
        """Return the deviance of each value."""
        return error.square() if self.power == 0 else deviance(target, preds, self.power)


@register_metric("tweedie_deviance", REAL, aliases=["mean_tweedie_deviance", "tweedie_deviance_score"])
class TweedieDeviance(Deviance):
    """Mean deviance of a Tweedie distribution: `power` 0 is mse, 1 Poisson, 2 Gamma.

    A power between 1 and 2 suits amounts that may be 0.

    The higher the power, the less an error on a large target counts.

    Shape:
        preds, target: (N,) or (N, D) real numbers; predictions above 0 unless the power is 0, targets from 0
            for a power from 1 and above 0 for one from 2.
    Value: float from 0, 0 is best; nan before the first row.

    Raises:
        MetricInputError: predictions or targets that the distribution cannot have.
    Formula: mean(2 * (y ** (2-p) / ((1-p) * (2-p)) - y * f ** (1-p) / (1-p) + f ** (2-p) / (2-p)))
    Source: Jorgensen 1987, Journal of the Royal Statistical Society B 49(2); scikit-learn's
        mean_tweedie_deviance.

    >>> import torch
    >>> metric = TweedieDeviance(power=1.0)
    >>> metric.update(torch.tensor([2.0, 3.0]), torch.tensor([1.0, 3.0]))
    >>> round(metric.compute().item(), 4)  # (2 * (log(1 / 2) + 1) + 0) / 2
    0.3069
    """

    def __init__(self, *, power: float = 0.0) -> None:
        super().__init__()
        self.power = check_power("tweedie_deviance", power)


@register_metric("poisson_deviance", REAL, aliases=["mean_poisson_deviance", "neg_mean_poisson_deviance"])
class PoissonDeviance(Deviance):
    """Mean deviance of a Poisson distribution, for counts.

    Shape:
        preds, target: (N,) or (N, D) real numbers; predictions above 0, targets from 0.
    Value: float from 0, 0 is best; nan before the first row.

    Raises:
        MetricInputError: a prediction is 0 or less, or a target below 0.
    Formula: mean(2 * (target * log(target / preds) - target + preds))
    Source: scikit-learn's mean_poisson_deviance.

    >>> import torch
    >>> metric = PoissonDeviance()
    >>> metric.update(torch.tensor([2.0, 3.0]), torch.tensor([0.0, 3.0]))
    >>> metric.compute().item()  # (2 * 2 + 0) / 2
    2.0
    """

    power: ClassVar[float] = 1.0  # type: ignore[misc]  # fixed here


@register_metric("gamma_deviance", REAL, aliases=["mean_gamma_deviance", "neg_mean_gamma_deviance"])
class GammaDeviance(Deviance):
    """Mean deviance of a Gamma distribution, for amounts and durations; only ratios count.

    Shape:
        preds, target: (N,) or (N, D) real numbers above 0.
    Value: float from 0, 0 is best; nan before the first row.

    Raises:
        MetricInputError: a prediction or a target is 0 or less.
    Formula: mean(2 * (log(preds / target) + target / preds - 1))
    Source: scikit-learn's mean_gamma_deviance.

    >>> import torch
    >>> metric = GammaDeviance()
    >>> metric.update(torch.tensor([2.0, 3.0]), torch.tensor([1.0, 3.0]))
    >>> round(metric.compute().item(), 4)  # (2 * (log(2) + 1 / 2 - 1) + 0) / 2
    0.1931
    """

    power: ClassVar[float] = 2.0  # type: ignore[misc]  # fixed here


@register_metric("d2_tweedie", REAL, aliases=["d2_tweedie_score"])
class D2Tweedie(Metric):
    """Share of the target's Tweedie deviance that the predictions explain; `power=0` is r2.

    Shape:
        preds, target: (N,) or (N, D) real numbers, in the range of `tweedie_deviance`.
    Value: float in (-inf, 1], no unit, 1 is best, 0 is what the target's mean gives; nan with fewer than 2
        rows or a target (column) that never varies.

    Raises:
        MetricInputError: predictions or targets that the distribution cannot have.
    Formula: 1 - deviance(target, preds) / deviance(target, mean(target))
    Deviates: of several columns it is the mean of their shares; scikit-learn takes one column.
    Source: Hastie, Tibshirani & Wainwright 2015, Statistical Learning with Sparsity, eq. 3.11; scikit-learn's
        d2_tweedie_score.

    >>> import torch
    >>> metric = D2Tweedie(power=0.0)
    >>> metric.update(torch.tensor([2.5, 0.0, 2.0, 8.0]), torch.tensor([3.0, -0.5, 2.0, 7.0]))
    >>> round(metric.compute().item(), 4)
    0.9486
    """

    direction = MAXIMIZE
    inputs = PREDICTIONS

    def __init__(self, *, power: float = 0.0) -> None:
        super().__init__()
        self.power = check_power("d2_tweedie", power)

    def statistics(self) -> dict[str, Statistic]:
        """Return the deviance from the target's mean and the deviance from the predictions."""
        if self.power == 0:
            return {"moments": Moments()}
        return {"dispersion": Dispersion(self.power), "total": Residual(self.power)}

    def compute(self) -> Tensor:
        """Compare both deviances per column; average the columns."""
        if self.power == 0:
            moments = self.statistic(Moments)
            reason = no_variation_reason(self.name, moments, TARGET)
            if reason is not None:
                return self.undefined(reason)
            return (1 - unexplained_share(moments, squared_errors(moments))).mean()
        dispersion, residual = self.statistic(Dispersion), self.statistic(Residual)
        flat = bool((dispersion.total <= 0).any())
        if flat and dispersion.rows < 2:
            return self.undefined(f"{self.name} needs at least 2 rows, got {dispersion.rows:g}")
        if flat:
            return self.undefined(f"{self.name} is a share of variation, but every target is the same number")
        exponent = residual.exponent - dispersion.exponent
        share = residual.in_unit(residual.total / dispersion.total, exponent)
        return (1 - share).mean()


def check_power(metric: str, power: float) -> float:
    """Check that there is a Tweedie distribution of a power, and return the power.

    Raises:
        MetricNameError: the power is between 0 and 1.
    """
    if 0 < power < 1:
        raise MetricNameError(
            f"{metric}: a Tweedie distribution cannot have a power between 0 and 1, got {power:g}"
        )
    return float(power)
