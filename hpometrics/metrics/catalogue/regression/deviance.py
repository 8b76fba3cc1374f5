"""Deviances of Tweedie distributions, for counts, amounts and durations, and the statistics of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ....direction import MAXIMIZE, MINIMIZE
from ....exceptions import MetricInputError, MetricNameError
from ..._device import on_host
from ...batch import Outputs
from ...features import PREDICTIONS
from ...metric import Metric
from ...registry.register import register_metric
from ...statistics.errors import (
    TARGET,
    Columns,
    ErrorSum,
    check_width,
    columns,
    exponent_of,
    first_counting,
    is_out_of_range,
    larger_unit,
    largest_of,
    times_power,
    unit_of,
)
from ...statistics.moments import Moments
from ...statistics.statistic import Reduction, Statistic
from .errors import REAL, ErrorMean
from .variation import no_variation_reason, squared_errors, unexplained_share

_FITS = 900  # powers of two that float64 holds with room for sums


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


class Dispersion(ErrorSum):
    """Rows, mean and deviance from that mean of the target, per column.

    States merge by an identity of Bregman divergences. The deviance of rows from a point is their deviance
    from their own mean plus, for each row, the deviance of that mean from the point.

    Args:
        power: of the Tweedie distribution.

    >>> from hpometrics.metrics.features import Number
    >>> dispersion = Dispersion(power=0.0)
    >>> dispersion.update(Outputs(Number(), predictions=[1.0, 1.0], target=[1.0, 3.0]))
    >>> dispersion.total.tolist()  # (1 - 2) ** 2 + (3 - 2) ** 2
    [2.0]
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"rows": "own", "mean": "own", "total": "own"}

    def __init__(self, power: float) -> None:
        super().__init__(power=power)
        self.degree = 2 - power

    def check(self, batch: Outputs) -> None:
        """Check the number of columns and that the values lie in the domain of the distribution.

        Raises:
            MetricInputError: naming what came.
        """
        check_width(batch, self._state.get("mean"))
        check_domain(batch, self.params["power"], "d2_tweedie")

    def update(self, batch: Outputs) -> None:
        """Add one batch."""
        target, weight = columns(batch).target, batch.weights
        part = self._part(target, weight)
        if self.degree and is_out_of_range(part["total"]):
            largest = largest_of(target, weight)
            exponent = unit_of(largest, abs(self.degree) * largest.log2().abs() < _FITS)
            if bool(exponent.any()):
                part = {**self._part(times_power(target, -exponent), weight), "exponent": exponent}
        self.merge_state(part)

    def add_state(self, other: Mapping[str, Tensor]) -> None:
        """Join the rows of another state, each column in the larger of its two units."""
        self._derived = {}
        current = self._state
        if not current:
            self._state = {name: value.clone() for name, value in other.items()}
            return
        units = {}
        if "exponent" in current or "exponent" in other:
            ours, theirs = exponent_of(current, "mean"), exponent_of(other, "mean")
            common = larger_unit(ours, theirs, current["mean"] == 0, other["mean"] == 0)
            current, other = self._in_common(current, ours - common), self._in_common(other, theirs - common)
            units = {"exponent": common}
        rows = current["rows"] + other["rows"]
        share = other["rows"] / torch.where(rows > 0, rows, 1.0)
        mean = current["mean"] + (other["mean"] - current["mean"]) * share
        between = sum(
            torch.where(side["rows"] > 0, side["rows"] * self._from(side["mean"], mean), 0.0)
            for side in (current, other)
        )
        self._state = {
            "rows": rows,
            "mean": mean,
            "total": current["total"] + other["total"] + between,
            **units,
        }

    def _part(self, target: Tensor, weight: Tensor) -> dict[str, Tensor]:
        rows, origin = weight.sum(), first_counting(target, weight)
        mean = origin + _weighted_sum(target - origin, weight) / torch.where(rows > 0, rows, 1.0)
        mean = torch.where(rows > 0, mean, 0.0)
        return {"rows": rows, "mean": mean, "total": _weighted_sum(self._from(target, mean), weight)}

    def _in_common(self, state: Mapping[str, Tensor], by: Tensor) -> dict[str, Tensor]:
        mean, total = times_power(state["mean"], by), self.in_unit(state["total"], by)
        return {"rows": state["rows"], "mean": mean, "total": total}

    def _from(self, values: Tensor, point: Tensor) -> Tensor:
        return deviance(values, point, self.params["power"])


class Residual(ErrorSum):
    """Deviance of the target from the predictions, summed over rows, per column.

    Args:
        power: of the Tweedie distribution.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"total": "sum"}
    of = TARGET

    def __init__(self, power: float) -> None:
        super().__init__(power=power)
        self.degree = 2 - power

    def measure(self, batch: Outputs, values: Columns) -> Tensor:
        """Measure each value."""
        return deviance(values.target, values.preds, self.params["power"])


def deviance(target: Tensor, preds: Tensor, power: float) -> Tensor:
    """Compute twice the difference of log-likelihoods of a Tweedie distribution, elementwise.

    A power of 0 is the squared error, 1 Poisson, 2 Gamma, 3 inverse Gaussian.

    >>> round(deviance(torch.tensor(1.0), torch.tensor(2.0), 1.0).item(), 4)  # 2 * (log(1 / 2) + 1)
    0.6137
    """
    if power == 0:
        return (target - preds).square()
    excess = (target - preds) / preds  # exact to its own digits where target and prediction are near
    if power == 1:
        gap: Tensor = torch.special.xlog1py(1 + excess, excess) - excess
        return 2 * preds * gap
    if power == 2:
        return 2 * (excess - torch.log1p(excess))
    one, two = 1 - power, 2 - power
    share = target / preds
    base = share.clamp(min=0) if power < 0 else share
    return 2 * preds.pow(two) * (base.pow(two) / (one * two) - share / one + 1 / two)


def check_domain(batch: Outputs, power: float, reader: str) -> None:
    """Check, on the CPU, that a Tweedie distribution of this power can have these predictions and targets.

    Raises:
        MetricInputError: naming what came and what to do.
    """
    if not on_host(batch.target) or power == 0:
        return
    preds, target, _ = columns(batch)
    if preds.min() <= 0:
        raise MetricInputError(
            f"{reader} of power {power:g} needs predictions above 0, got {preds.min():.3g}; clip them, or "
            "choose power=0"
        )
    if power >= 1 and (target.min() < 0 or (power >= 2 and target.min() == 0)):
        least = "above 0" if power >= 2 else "from 0"
        raise MetricInputError(f"{reader} of power {power:g} needs targets {least}, got {target.min():.3g}")


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


def _weighted_sum(each: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted sum over rows, of which those of weight 0 may have no deviance."""
    return weight @ torch.where(weight.unsqueeze(-1) > 0, each, 0.0)
