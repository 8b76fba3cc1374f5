"""Deviance: the Tweedie deviance of pairs of numbers, and that of the target from its own mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..devices import on_host
from ..outputs import Outputs
from .moments import ERROR, check_width, columns
from .statistic import Reduction, Statistic


def deviance(target: Tensor, preds: Tensor, power: float) -> Tensor:
    """Twice the gap of log-likelihoods of a Tweedie distribution of this power, elementwise.

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
    base = target.clamp(min=0) if power < 0 else target
    return 2 * (base.pow(two) / (one * two) - target * preds.pow(one) / one + preds.pow(two) / two)


def check_domain(batch: Outputs, power: float, reader: str) -> None:
    """Refuse, on the CPU, predictions and targets that a Tweedie distribution of this power cannot have.

    Raises:
        MetricInputError: naming what came and what to do.
    """
    if not on_host(batch.target) or power == 0:
        return
    preds, target = columns(batch)[:ERROR]
    if preds.min() <= 0:
        raise MetricInputError(
            f"{reader} of power {power:g} reads predictions above 0, got {preds.min():.3g}; clip them, or "
            "choose power=0"
        )
    if power >= 1 and (target.min() < 0 or (power >= 2 and target.min() == 0)):
        least = "above 0" if power >= 2 else "from 0"
        raise MetricInputError(f"{reader} of power {power:g} reads targets {least}, got {target.min():.3g}")


class Dispersion(Statistic):
    """Rows, mean and deviance from that mean of the target, per column.

    Merged by the identity of all Bregman divergences: the deviance of rows from a point is that from their
    own mean and, for each row, that of the mean from the point.

    Args:
        power: of the Tweedie distribution.

    >>> from hpometrics.metrics.features import Number
    >>> dispersion = Dispersion(power=0.0)
    >>> dispersion.update(Outputs(Number(), predictions=[1.0, 1.0], target=[1.0, 3.0]))
    >>> dispersion.total.tolist()  # (1 - 2) ** 2 + (3 - 2) ** 2
    [2.0]
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"rows": "own", "mean": "own", "total": "own"}
    weighted: ClassVar[bool] = True

    def __init__(self, power: float) -> None:
        super().__init__(power=power)

    @property
    def rows(self) -> float:
        """How many rows were seen, or what they weigh."""
        return float(self._state["rows"])

    @property
    def total(self) -> Tensor:
        """The deviance of all rows from the mean, per column."""
        return self._state["total"]

    def check(self, batch: Outputs) -> None:
        """Refuse another number of columns and values outside the distribution.

        Raises:
            MetricInputError: naming what came.
        """
        check_width(batch, self._state.get("mean"))
        check_domain(batch, self.params["power"], "d2_tweedie")

    def update(self, batch: Outputs) -> None:
        """Add one batch."""
        _, target, _ = columns(batch)
        weight = batch.weights
        rows = weight.sum()
        origin = target[0]
        mean = origin + (weight @ (target - origin)) / torch.where(rows > 0, rows, 1.0)
        self.merge_state({"rows": rows, "mean": mean, "total": _weighed(self._from(target, mean), weight)})

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Take in other rows."""
        self._check_state(state)
        if not state:
            return
        self._derived = {}
        if not self._state:
            self._state = {name: value.clone() for name, value in state.items()}
            return
        self._check_shapes(state)
        held = self._state
        other = {name: value.to(held["rows"].device) for name, value in state.items()}
        rows = held["rows"] + other["rows"]
        share = other["rows"] / torch.where(rows > 0, rows, 1.0)
        mean = held["mean"] + (other["mean"] - held["mean"]) * share
        apart = sum(
            torch.where(side["rows"] > 0, side["rows"] * self._from(side["mean"], mean), 0.0)
            for side in (held, other)
        )
        self._state = {"rows": rows, "mean": mean, "total": held["total"] + other["total"] + apart}

    def _from(self, values: Tensor, point: Tensor) -> Tensor:
        return deviance(values, point, self.params["power"])


class Residual(Statistic):
    """Deviance of the target from the predictions, summed over rows, per column.

    Args:
        power: of the Tweedie distribution.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"total": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, power: float) -> None:
        super().__init__(power=power)

    @property
    def total(self) -> Tensor:
        """The deviance of all rows, per column."""
        return self._state["total"]

    def update(self, batch: Outputs) -> None:
        """Add one batch."""
        preds, target, _ = columns(batch)
        each = deviance(target, preds, self.params["power"])
        self.add(total=each.sum(0) if batch.weight is None else _weighed(each, batch.weight))


def _weighed(each: Tensor, weight: Tensor) -> Tensor:
    """The weighted sum over rows; one of weight 0 may have no deviance."""
    return weight @ torch.where(weight.unsqueeze(-1) > 0, each, 0.0)
