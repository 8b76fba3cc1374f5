"""Deviances of Tweedie distributions: of the target from its mean and from the predictions, per column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host
from ..batch import Outputs
from .errors import (
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
from .statistic import Reduction

_FITS = 900  # powers of two that float64 holds with room for sums


class Dispersion(ErrorSum):
    """Rows, mean and deviance from that mean of the target, per column.

    States merge by an identity of Bregman divergences: the deviance of rows from a point is their deviance
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


def _weighted_sum(each: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted sum over rows, of which those of weight 0 may have no deviance."""
    return weight @ torch.where(weight.unsqueeze(-1) > 0, each, 0.0)
