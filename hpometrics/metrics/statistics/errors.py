"""Sums over rows of an error measure of prediction and target, such as a Tweedie deviance, per column."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import ClassVar, Literal

import numpy as np
import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import number, on_host
from ..batch import Outputs
from .statistic import Reduction, Statistic, block

PREDS, TARGET, ERROR = range(3)
LEAST, MOST = 2.0**-900, 2.0**900  # between these a sum is exact enough and has room to grow
_FAR = 2000  # powers of two that take any float64 to 0 or infinity
WHOLE = {torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64}
"""The integer types that int64 can hold."""
_WRAPS = 2.0**62  # a difference of int64 may be wrong from about here
Measure = Literal[
    "absolute", "square", "power", "size", "percentage", "square_percentage", "symmetric", "square_log",
    "square_log_clipped", "log_cosh",
]  # fmt: skip
_DEGREES: Mapping[str, int] = {
    "absolute": 1, "size": 1, "square": 2, "square_log": 2, "square_log_clipped": 2,
}  # fmt: skip
"""The power by which a measure grows with the unit of the values, if its sum may leave float64's range."""
_LOGGED = {"square_log": {"predictions": -1.0, "target": -1.0}, "square_log_clipped": {"target": -1.0}}
"""The bounds above which log(1 + x) exists."""
_FAR_GAP = 2.0**-16  # mean square of the logarithmic gaps from which a quotient has 12 of their digits
_FAR_ERROR = 2.0**-8  # mean log-cosh from which a difference from log 2 has 13 of its digits
_FACTORS = 512


class Columns:
    """Predictions, target and error (predictions - target), (N, D) float64 each, converted when first read.

    They may share the memory of the batch, so nothing is written into them.
    """

    def __init__(self, preds: Tensor, target: Tensor) -> None:
        self._parts = [part if part.ndim > 1 else part.unsqueeze(-1) for part in (preds, target)]

    @cached_property
    def preds(self) -> Tensor:
        """The predictions."""
        return self._parts[PREDS].double()

    @cached_property
    def target(self) -> Tensor:
        """The target."""
        return self._parts[TARGET].double()

    @cached_property
    def error(self) -> Tensor:
        """The predictions minus the target."""
        preds, target = self._parts
        if not (preds.is_floating_point() or target.is_floating_point()):
            return difference(preds, target)
        if preds.dtype == torch.float64 or "preds" in vars(self):
            return self.preds - self.target
        return preds.double().sub_(self.target)  # a third array would not fit into the cache

    @cached_property
    def gap(self) -> Tensor:
        """The absolute error, in place of an error that nobody has read."""
        if "error" in vars(self):
            return self.error.abs()
        gap = self.error.abs_()
        del self.error
        return gap

    @property
    def width(self) -> int:
        """The number of columns."""
        return self._parts[TARGET].shape[-1]

    def __getitem__(self, of: int) -> Tensor:
        column: Tensor = getattr(self, ("preds", "target", "error")[of])
        return column

    def __iter__(self) -> Iterator[Tensor]:
        yield from (self.preds, self.target, self.error)

    def with_values(self, preds: Tensor, target: Tensor, error: Tensor) -> Columns:
        """Return columns of the same shape with other values."""
        columns = Columns(*self._parts)
        vars(columns).update(preds=preds, target=target, error=error)
        return columns


@block
def columns(batch: Outputs) -> Columns:
    """Return the block of predictions, target and error."""
    return Columns(batch.predictions, batch.target)


def check_width(batch: Outputs, state: Tensor | None) -> None:
    """Check that a batch has as many columns as the state, where there is one.

    Raises:
        MetricInputError: naming both numbers.
    """
    width = columns(batch).width
    if state is not None and state.shape[-1] != width:
        raise MetricInputError(
            f"earlier batches had {state.shape[-1]} columns, but this one has {width}; use one number"
        )


def row_total(batch: Outputs) -> Tensor:
    """Return the number of rows of a batch, or the sum of their weights."""
    return number(len(batch), batch.target, torch.int64) if batch.weight is None else batch.weight.sum()


def over_rows(values: Tensor, weight: Tensor | None) -> Tensor:
    """Sum values (..., N, D) over their rows, weighted if there are weights."""
    return values.sum(-2) if weight is None else torch.einsum("...nd,n->...d", values, weight)


def sum_of_products(first: Tensor, second: Tensor, weight: Tensor | None = None) -> Tensor:
    """Sum the products of two columns, (N, D) each, over their rows; in one pass for a single column."""
    if weight is None and first.shape[1] == 1 and on_host(first):
        return torch.dot(first.squeeze(1), second.squeeze(1)).view(1)
    return over_rows(first * second, weight)


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
    return not all(LEAST < number < MOST for number in sums.flatten().tolist())


def in_range(sums: Tensor) -> Tensor:
    """Return which sums are exact enough and have room to grow."""
    return (sums > LEAST) & (sums < MOST)


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


def _symmetric(values: Columns) -> Tensor:
    size = values.preds.abs() + values.target.abs()
    return torch.where(size == 0, 0.0, 2 * values.error.abs() / size)


def _log_cosh(values: Columns) -> Tensor:
    """Compute log(cosh) of each error: near 0 as log(1 + 2 sinh(e/2)^2), far away without exp(e)."""
    size = values.error.abs()
    near = torch.log1p(2 * torch.sinh(size.clamp(max=1.0) / 2).square())
    return torch.where(size < 1, near, size + torch.log1p(torch.exp(-2 * size)) - math.log(2))


_MEASURES: dict[str, Callable[[Columns], Tensor]] = {
    "absolute": lambda values: values.error.abs(),
    "square": lambda values: values.error.square(),
    "size": lambda values: values.target.abs(),
    "percentage": lambda values: (values.error / values.target).abs_(),
    "square_percentage": lambda values: (values.error / values.target).square_(),
    "symmetric": _symmetric,
    "square_log": lambda values: values.error.square(),
    "square_log_clipped": lambda values: values.error.square(),
    "log_cosh": _log_cosh,
}


def _in_place(function: np.ufunc, values: Tensor) -> Tensor:
    """Replace values by a function of NumPy, whose log and exp of float64 take half as long as torch's."""
    with np.errstate(all="ignore"):
        function(values.numpy(), out=values.numpy())
    return values


def _sum_of_squares(values: Columns) -> float:
    error = values.error.view(-1)
    return torch.dot(error, error).item()


def _sum_of_symmetric(values: Columns) -> float:
    """Sum without a look for values that are both 0, whose share is nan."""
    size = values.preds.abs().add_(values.target.abs())
    return 2 * torch.div(values.gap, size, out=size).sum().item()


def _sum_of_square_logs(values: Columns, clips: bool = False) -> float:
    """Sum with one logarithm, of a quotient; nan where small gaps lose digits."""
    base = values.preds.clamp(min=0).add_(1) if clips else values.preds + 1
    gap = _in_place(np.log, base.div_(values.target + 1).view(-1))
    total = torch.dot(gap, gap).item()
    return total if total > _FAR_GAP * len(gap) else math.nan


def _sum_of_log_cosh(values: Columns) -> float:
    """Sum |e| + log(1 + exp(-2 |e|)) - log 2, many with one logarithm; nan where small errors lose digits."""
    gap = values.gap.view(-1)
    total = gap.sum().item() - len(gap) * math.log(2)
    factors = _in_place(np.exp, gap * -2).add_(1)  # from 1 to 2, so a product of `_FACTORS` of them fits
    whole = len(factors) // _FACTORS * _FACTORS
    total += factors[:whole].view(_FACTORS, -1).prod(0).log_().sum().item()
    total += factors[whole:].prod().log().item()
    return total if total > _FAR_ERROR * len(gap) else math.nan


_SUMS: dict[str, Callable[[Columns], float]] = {
    "absolute": lambda values: values.gap.sum().item(),
    "square": _sum_of_squares,
    "size": lambda values: values.target.abs().sum().item(),
    "percentage": lambda values: (values.gap / values.target).abs_().sum().item(),
    "symmetric": _sum_of_symmetric,
    "square_log": _sum_of_square_logs,
    "square_log_clipped": lambda values: _sum_of_square_logs(values, clips=True),
    "log_cosh": _sum_of_log_cosh,
}
"""How a column without weights is summed faster than by its measure; not finite where that would not do."""


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

    def columns(self, batch: Outputs) -> Columns:
        """Return the measured block: predictions, target and error."""
        return columns(batch)

    def measure(self, batch: Outputs, values: Columns) -> Tensor:
        """Measure each value, (N, D), of the columns of a batch, which may be scaled to another unit."""
        raise NotImplementedError(f"{type(self).__name__} needs measure(batch, values)")

    def update(self, batch: Outputs) -> None:
        """Add one batch; each column is summed in float64."""
        part = {"total": self.total_of(batch)}
        if "rows" in self.reductions:
            part["rows"] = row_total(batch)
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

    def total_of(self, batch: Outputs) -> Tensor:
        """Return the sum of the measures of a batch: shape (D,)."""
        return self._total(batch, self.columns(batch))

    def _total(self, batch: Outputs, values: Columns) -> Tensor:
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
            in_unit = values.with_values(*(times_power(column, -exponent) for column in values))
            scaled = self._total(batch, in_unit)
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
            2 |e| / (|preds| + |target|) (0 where both are 0), `square_log`, the squared gap of
            log(1 + preds) and log(1 + target), in `square_log_clipped` with predictions below 0 taken as 0,
            or `log_cosh` log(cosh(e)).
        p: of `power`.

    >>> from hpometrics.metrics.features import Number
    >>> errors = Errors(measure="square")
    >>> errors.update(Outputs(Number(), predictions=[1.0, 2.0], target=[1.0, 4.0]))
    >>> errors.mean.tolist()
    [2.0]
    """

    regroups = True

    def __init__(self, measure: Measure, p: float | None = None) -> None:
        super().__init__(measure=measure, **({} if p is None else {"p": p}))
        self._block = f"sum of {self}"
        self.above = _LOGGED.get(measure, {})
        self.degree = _DEGREES.get(measure, 0) if p is None else p
        self.of = TARGET if measure == "size" else ERROR
        self._reads_all = measure not in ("size", "square_log_clipped")  # which drops what is below 0

    def check(self, batch: Outputs) -> None:
        """Check the number of columns and, on the CPU, that log(1 + x) exists.

        Raises:
            MetricInputError: naming what came.
        """
        check_width(batch, self._state.get("total"))
        if not self.above or not on_host(batch.target):
            return
        least = min(getattr(batch, name).min().item() for name in self.above)
        if least <= -1:
            raise MetricInputError(
                f"rmsle and msle need predictions and targets above -1, got {least:.3g}; clip the "
                "predictions with rmsle(clip=true), or choose rmse"
            )

    def columns(self, batch: Outputs) -> Columns:
        """Return the measured block, with log(1 + x) in the place of x for the logarithmic measures."""
        values = columns(batch)
        if not self.above:
            return values
        clips = self.params["measure"] == "square_log_clipped"
        preds, target = (values.preds.clamp(min=0) if clips else values.preds).log1p(), values.target.log1p()
        return values.with_values(preds, target, preds - target)

    def measure(self, batch: Outputs, values: Columns) -> Tensor:
        """Measure each value."""
        if self.params["measure"] == "power":
            return values.error.abs().pow(self.degree)
        return _MEASURES[self.params["measure"]](values)

    def measured(self, batch: Outputs) -> Tensor:
        """Measure the error of each value of a batch, (N, D) float64."""
        return self.measure(batch, self.columns(batch))

    def shows_finite(self, batch: Outputs) -> bool:
        """Return whether there is a sum of finite errors, which takes finite predictions and targets."""
        return self._reads_all and self._quick_total(batch) is not None

    def update(self, batch: Outputs) -> None:
        """Add one batch, by the faster formula where that has all digits."""
        total = self._quick_total(batch)
        if total is None or (self.degree and not LEAST < total < MOST):
            super().update(batch)
        elif self._state and "exponent" not in self._state:
            self._state["total"] += total  # a tensor of each number would take longer
            self._state["rows"] += len(batch)
            self._derived = {}
        else:
            self.add_state({"total": _as_column(total), "rows": row_total(batch)})

    def total_of(self, batch: Outputs) -> Tensor:
        """Return the sum of the measures of a batch, by the faster formula where that has all digits."""
        return super().total_of(batch) if (total := self._quick_total(batch)) is None else _as_column(total)

    def _quick_total(self, batch: Outputs) -> float | None:
        return batch.block(self._block, self._sum_quickly)

    def _sum_quickly(self, batch: Outputs) -> float | None:
        """Sum the one column of a batch on the CPU; None where only the measure itself has all digits."""
        quick, values = _SUMS.get(self.params["measure"]), columns(batch)
        if quick is None or batch.weight is not None or values.width > 1 or not on_host(batch.target):
            return None
        return total if math.isfinite(total := quick(values)) else None


def _as_column(total: float) -> Tensor:
    return torch.tensor([total], dtype=torch.float64)
