"""Sums over rows of an error measure of prediction and target, such as a Tweedie deviance, per column."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import number, on_host
from ..batch import Outputs, as_tensor
from .statistic import Reduction, Statistic, block

PREDS, TARGET, ERROR = range(3)
_LEAST, _MOST = 2.0**-900, 2.0**900  # between these a sum is exact enough and has room to grow
_FITS = 900  # powers of two that float64 holds with room for sums
_FAR = 2000  # powers of two that take any float64 to 0 or infinity
WHOLE = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
"""The integer types that int64 can hold."""
_WRAPS = 2.0**62  # a difference of int64 may be wrong from about here
Measure = Literal[
    "absolute", "square", "power", "size", "percentage", "square_percentage", "symmetric", "square_log",
    "square_log_clipped",
]  # fmt: skip
_DEGREES: Mapping[str, int] = {
    "absolute": 1, "size": 1, "square": 2, "square_log": 2, "square_log_clipped": 2,
}  # fmt: skip
"""The power by which a measure grows with the unit of the values, if its sum may leave float64's range."""
_EPS = 1e-9


@block
def columns(batch: Outputs) -> Tensor:
    """Return the block of predictions, target and error (predictions - target): (3, N, D), float64."""
    parts = batch.predictions, batch.target
    block = torch.stack([*(part.double() for part in parts), difference(*parts)])
    return block.unsqueeze(-1) if block.ndim == 2 else block


def check_width(batch: Outputs, state: Tensor | None) -> None:
    """Check that a batch has as many columns as the state, where there is one.

    Raises:
        MetricInputError: naming both numbers.
    """
    width = columns(batch).shape[-1]
    if state is not None and state.shape[-1] != width:
        raise MetricInputError(
            f"the batches before had {state.shape[-1]} columns, this one has {width}; keep it the same"
        )


def rows_of(batch: Outputs) -> Tensor:
    """Return the number of rows of a batch, or the sum of their weights."""
    return number(len(batch), batch.target, torch.int64) if batch.weight is None else batch.weight.sum()


def over_rows(values: Tensor, weight: Tensor | None) -> Tensor:
    """Sum values (..., N, D) over their rows, weighted if there are weights."""
    return values.sum(-2) if weight is None else torch.einsum("...nd,n->...d", values, weight)


def difference(first: Tensor, second: Tensor) -> Tensor:
    """Subtract in float64, integers without the rounding that float64 has from 2^53 on."""
    gap = first.double() - second.double()
    if first.is_floating_point() or second.is_floating_point():
        return gap
    return (first.long() - second.long()).double().where(gap.abs() < _WRAPS, gap)


def first_counting(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return the first row of (..., N, D) with a weight above 0, or the first one if none has: (..., D)."""
    if weight is None or (on_host(weight) and weight[0].item() > 0):
        return values.select(-2, 0)
    return values.index_select(-2, (weight > 0).int().argmax().view(1)).squeeze(-2)


def times_power(values: Tensor, exponent: Tensor) -> Tensor:
    """Multiply by a power of two in two steps: 2^1100 overflows, 2^1100 * 2^-600 does not."""
    exponent = exponent.clamp(-_FAR, _FAR)  # 0 * inf is nan
    half = exponent // 2
    return torch.ldexp(torch.ldexp(values, half), exponent - half)


def is_out_of_range(sums: Tensor) -> bool:
    """Check on the CPU whether a sum may have lost digits or may soon overflow; devices are not read."""
    if not on_host(sums):
        return False
    least, most = sums.aminmax()
    return not (least.item() > _LEAST and most.item() < _MOST)


def in_range(sums: Tensor) -> Tensor:
    """Return which sums are exact enough and have room to grow."""
    return (sums > _LEAST) & (sums < _MOST)


def largest_of(values: Tensor, weight: Tensor | None) -> Tensor:
    """Return the largest absolute value over the rows with a weight above 0: (..., D) of (..., N, D)."""
    size = values.abs()
    return (size if weight is None else torch.where(weight.unsqueeze(-1) > 0, size, 0.0)).amax(-2)


def unit_of(largest: Tensor, fits: Tensor) -> Tensor:
    """Return the exponent of a unit near the largest values, int64; 0 where they fit or are not finite."""
    leaves = largest.isfinite() & (largest > 0) & ~fits
    return torch.where(leaves, torch.frexp(largest).exponent.long(), 0)


def exponent_of(state: Mapping[str, Tensor], name: str) -> Tensor:
    """Return the exponents of a state, in the shape of the tensor `name`; 0 where it has none."""
    exponent = state.get("exponent")
    return torch.zeros_like(state[name], dtype=torch.int64) if exponent is None else exponent


def larger_unit(ours: Tensor, theirs: Tensor, ours_are_0: Tensor, theirs_are_0: Tensor) -> Tensor:
    """Return the larger of two units; a number that is 0 fits any unit."""
    return torch.maximum(ours, theirs).where(~theirs_are_0, ours).where(~ours_are_0, theirs)


def _symmetric(preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
    size = preds.abs() + target.abs()
    return torch.where(size == 0, 0.0, 2 * error.abs() / size)


_MEASURES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "absolute": lambda preds, target, error: error.abs(),
    "square": lambda preds, target, error: error.square(),
    "size": lambda preds, target, error: target.abs(),
    "percentage": lambda preds, target, error: error.abs() / target.abs(),
    "square_percentage": lambda preds, target, error: (error / target).square(),
    "symmetric": _symmetric,
    "square_log": lambda preds, target, error: error.square(),
    "square_log_clipped": lambda preds, target, error: error.square(),
}


class ErrorSum(Statistic):
    """The sum over rows of a measure that a subclass defines, per column.

    Where a sum over a batch on the CPU leaves the range of float64, such as the squares of 1e200, it is kept
    in a unit of its own: the state then has an `exponent` of two for each column.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"rows": "sum", "total": "sum"}
    optional = ("exponent",)
    weighted: ClassVar[bool] = True
    degree: float = 0
    """The power by which the measure grows with the unit of the values; 0 where it does not."""
    of: int = ERROR
    """Whose absolute values set the unit: `PREDS`, `TARGET` or `ERROR`."""

    def columns(self, batch: Outputs) -> Tensor:
        """Return the measured block: predictions, target and error."""
        return columns(batch)

    def measure(self, batch: Outputs, values: Tensor) -> Tensor:
        """Measure each value, (N, D), of the columns of a batch, which may be scaled to another unit."""
        raise NotImplementedError(f"{type(self).__name__} needs measure(batch, values)")

    def update(self, batch: Outputs) -> None:
        """Add one batch; each column is summed in float64."""
        part = {"total": self._total(batch, self.columns(batch))}
        if "rows" in self.reductions:
            part["rows"] = rows_of(batch)
        if self.degree and is_out_of_range(part["total"]):
            self._add_in_range(batch, part)
        else:
            self.add_state(part)

    @property
    def mean(self) -> Tensor:
        """The mean over rows of each column: shape (D,)."""
        mean = self._state["total"] / self._state["rows"]
        exponent = self._state.get("exponent")
        return mean if exponent is None else self.in_unit(mean, exponent)

    @property
    def root_mean(self) -> Tensor:
        """The power mean of each column, for squares and shares the root of their mean: shape (D,)."""
        mean = self._state["total"] / self._state["rows"]
        root = mean.sqrt() if self.degree in (0, 2) else mean.pow(1 / self.degree)
        exponent = self._state.get("exponent")
        return root if exponent is None else times_power(root, exponent)

    @property
    def rows(self) -> float:
        """The number of rows, or the sum of their weights."""
        return float(self._state["rows"])

    @property
    def total(self) -> Tensor:
        """The sum of each column, shape (D,), in units to the power of `degree`."""
        return self._state["total"]

    @property
    def exponent(self) -> Tensor:
        """The exponent of two of each column's unit: shape (D,), int64; 0 except for extreme values."""
        return exponent_of(self._state, "total")

    def in_unit(self, sums: Tensor, exponent: Tensor) -> Tensor:
        """Multiply sums by a power of two to the power of the degree."""
        if float(self.degree).is_integer():
            return times_power(sums, int(self.degree) * exponent)
        power = self.degree * exponent.double()
        whole = power.floor()
        return times_power(sums * torch.exp2(power - whole), whole.long())

    def _total(self, batch: Outputs, values: Tensor) -> Tensor:
        measured = self.measure(batch, values)
        if batch.weight is not None:  # a row of weight 0 may have no measure
            measured = torch.where(batch.weight.unsqueeze(-1) > 0, measured, 0.0)
        return over_rows(measured, batch.weight)

    def _add_in_range(self, batch: Outputs, part: Mapping[str, Tensor]) -> None:
        """Add a batch, in a unit near its largest value for the columns whose sum is out of range."""
        values, total = self.columns(batch), part["total"]
        largest = largest_of(values[self.of], batch.weight)
        exponent = unit_of(largest, in_range(total))
        if bool(exponent.any()):
            scaled = self._total(batch, times_power(values, -exponent))
            part = {**part, "total": scaled.where(exponent != 0, total), "exponent": exponent}
        self.add_state(part)

    def add_state(self, other: Mapping[str, Tensor]) -> None:
        """Add sums, each column in the larger of its two units."""
        current = self._state
        if not current or not ("exponent" in current or "exponent" in other):
            self.add(**other)
            return
        ours, theirs = exponent_of(current, "total"), exponent_of(other, "total")
        common = larger_unit(ours, theirs, current["total"] == 0, other["total"] == 0)
        self._state["exponent"] = common
        self._state["total"] = self.in_unit(current["total"], ours - common)
        scaled = {**other, "total": self.in_unit(other["total"], theirs - common)}
        self.add(**{name: scaled[name] for name in self.reductions})


class Errors(ErrorSum):
    """The sum over rows of one measure of the error, per column.

    Args:
        measure: `absolute` |e|, `square` e^2, `power` |e|^p, `size` |target|, `percentage` |e| / |target| and
            `square_percentage` its square (not finite where the target is 0), `symmetric`
            2 |e| / (|preds| + |target|) (0 where both are 0), or `square_log`, the squared gap of
            log(1 + preds) and log(1 + target), in `square_log_clipped` with predictions below 0 taken as 0.
        p: of `power`.

    >>> from hpometrics.metrics.features import Number
    >>> errors = Errors(measure="square")
    >>> errors.update(Outputs(Number(), predictions=[1.0, 2.0], target=[1.0, 4.0]))
    >>> errors.mean.tolist()
    [2.0]
    """

    def __init__(self, measure: Measure, p: float | None = None) -> None:
        super().__init__(measure=measure, **({} if p is None else {"p": p}))
        self._logged = measure.startswith("square_log")
        self.regroups = not self._logged  # its check reads the values of every batch
        self.degree = _DEGREES.get(measure, 0) if p is None else p
        self.of = TARGET if measure == "size" else ERROR

    def check(self, batch: Outputs) -> None:
        """Check the number of columns and, on the CPU, that log(1 + x) exists.

        Raises:
            MetricInputError: naming what came.
        """
        check_width(batch, self._state.get("total"))
        logged = {"square_log": slice(0, ERROR), "square_log_clipped": slice(TARGET, ERROR)}
        if self.params["measure"] not in logged or not on_host(batch.target):
            return
        least = columns(batch)[logged[self.params["measure"]]].min()
        if least <= -1:
            raise MetricInputError(
                f"rmsle and msle read predictions and targets above -1, got {least:.3g}; clip the "
                "predictions, as rmsle(clip=true) does, or choose rmse"
            )

    def columns(self, batch: Outputs) -> Tensor:
        """Return the measured block, with log(1 + x) in the place of x for the logarithmic measures."""
        values = columns(batch)
        if not self._logged:
            return values
        preds, target = values[PREDS], values[TARGET]
        clipped = preds.clamp(min=0) if self.params["measure"] == "square_log_clipped" else preds
        logs = clipped.log1p(), target.log1p()
        return torch.stack([*logs, logs[PREDS] - logs[TARGET]])

    def measure(self, batch: Outputs, values: Tensor) -> Tensor:
        """Measure each value."""
        if self.params["measure"] == "power":
            return values[ERROR].abs().pow(self.degree)
        return _MEASURES[self.params["measure"]](*values)

    def measured(self, batch: Outputs) -> Tensor:
        """Measure the error of each value of a batch, (N, D) float64."""
        return self.measure(batch, self.columns(batch))


class MaskedSquares(ErrorSum):
    """Sum over rows of mask * error ** 2 / (how many columns the row's mask has), per column; and the rows.

    The mask is the extra `mask`, (N, D) of 0 and 1. A row without a masked column adds 0.
    """

    degree = 2

    def check(self, batch: Outputs) -> None:
        """Check the number of columns and the mask.

        Raises:
            MetricInputError: naming what came.
        """
        check_width(batch, self._state.get("total"))
        if batch.extras.get("mask") is None:
            raise MetricInputError(
                "unsup_loss reads mask=, 1 where a column was hidden and is to be reconstructed, beside "
                "predictions and target; mask= is missing"
            )
        mask = batch.block("mask", _mask)
        if mask.shape != batch.target.shape:
            raise MetricInputError(
                f"unsup_loss reads mask= of shape {tuple(batch.target.shape)}, got {tuple(mask.shape)}"
            )
        if on_host(mask) and not bool(((mask == 0) | (mask == 1)).all()):
            raise MetricInputError(
                f"unsup_loss reads mask= of 0 and 1, got values up to {mask.abs().max():g}"
            )

    def measure(self, batch: Outputs, values: Tensor) -> Tensor:
        """Measure each value."""
        mask = batch.block("mask", _mask)
        return mask * values[ERROR].square() / (mask.sum(1, keepdim=True) + _EPS)


def _mask(batch: Outputs) -> Tensor:
    return as_tensor(batch.extras["mask"]).double()


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
        target, weight = columns(batch)[TARGET], batch.weights
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

    def measure(self, batch: Outputs, values: Tensor) -> Tensor:
        """Measure each value."""
        return deviance(values[TARGET], values[PREDS], self.params["power"])


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
    preds, target = columns(batch)[:ERROR]
    if preds.min() <= 0:
        raise MetricInputError(
            f"{reader} of power {power:g} reads predictions above 0, got {preds.min():.3g}; clip them, or "
            "choose power=0"
        )
    if power >= 1 and (target.min() < 0 or (power >= 2 and target.min() == 0)):
        least = "above 0" if power >= 2 else "from 0"
        raise MetricInputError(f"{reader} of power {power:g} reads targets {least}, got {target.min():.3g}")


def _weighted_sum(each: Tensor, weight: Tensor) -> Tensor:
    """Return the weighted sum over rows, of which those of weight 0 may have no deviance."""
    return weight @ torch.where(weight.unsqueeze(-1) > 0, each, 0.0)
