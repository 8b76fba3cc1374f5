"""Errors: the sum over rows of a measure of prediction and target, a column at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from .._device import on_host
from ..batch import Outputs
from .columns import (
    ERROR,
    PREDS,
    TARGET,
    check_width,
    columns,
    exponent_of,
    in_range,
    is_out_of_range,
    larger_unit,
    largest_of,
    over_rows,
    rows_of,
    times_power,
    unit_of,
)
from .statistic import Reduction, Statistic

Measure = Literal[
    "absolute", "square", "power", "size", "percentage", "square_percentage", "symmetric", "square_log",
    "square_log_clipped",
]  # fmt: skip

_DEGREES: Mapping[str, int] = {
    "absolute": 1, "size": 1, "square": 2, "square_log": 2, "square_log_clipped": 2,
}  # fmt: skip
"""By how much a measure grows with the unit of the values, where its sum may leave the range of float64."""


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
    """The sum over rows of what a subclass measures of each value, per column.

    Where a sum of a batch on the CPU leaves the range of float64, as that of the squares of 1e200, the sum is
    kept in a unit of its own: the state then has an `exponent`, of two, for the values of each column.
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"rows": "sum", "total": "sum"}
    weighted: ClassVar[bool] = True
    degree: float = 0
    """By which power of the unit of the values a measure grows; 0 where it has none."""
    of: int = ERROR
    """Whose sizes set the unit: those of `PREDS`, `TARGET` or `ERROR`."""

    def columns(self, batch: Outputs) -> Tensor:
        """The block that is measured: predictions, target and error."""
        return columns(batch)

    def measure(self, batch: Outputs, values: Tensor) -> Tensor:
        """Measure each value, (N, D), of the columns of a batch, which may be in another unit."""
        raise NotImplementedError(f"{type(self).__name__} needs measure(batch, values)")

    def update(self, batch: Outputs) -> None:
        """Add one batch: each column is summed in float64."""
        part = {"total": self._total(batch, self.columns(batch))}
        if "rows" in self.reductions:
            part["rows"] = rows_of(batch)
        if self.degree and is_out_of_range(part["total"]):
            self._add_in_range(batch, part)
        else:
            self._add_in_units(part)

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Take in what `state()` of another one gave."""
        self._check_state(state)
        if state and self._state:
            self._check_shapes({name: state[name] for name in self.reductions})
            state = {name: value.to(self._state["total"].device) for name, value in state.items()}
        if state:
            self._add_in_units(state)

    @property
    def mean(self) -> Tensor:
        """The mean over rows of each column: shape (D,)."""
        mean = self._state["total"] / self._state["rows"]
        exponent = self._state.get("exponent")
        return mean if exponent is None else self.in_unit(mean, exponent)

    @property
    def root_mean(self) -> Tensor:
        """The power mean of each column, that of squares the root of their mean: shape (D,)."""
        mean = self._state["total"] / self._state["rows"]
        root = mean.sqrt() if self.degree == 2 else mean.pow(1 / self.degree)
        exponent = self._state.get("exponent")
        return root if exponent is None else times_power(root, exponent)

    @property
    def rows(self) -> float:
        """How many rows were seen, or what they weigh."""
        return float(self._state["rows"])

    @property
    def total(self) -> Tensor:
        """The sum of each column, shape (D,), in the unit's power of `degree`."""
        return self._state["total"]

    @property
    def exponent(self) -> Tensor:
        """The exponent of the unit, a power of two, of each column: shape (D,), int64; 0 but at extremes."""
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
        """Add a batch in a unit near its largest value, for the columns whose sum is out of range."""
        values, total = self.columns(batch), part["total"]
        largest = largest_of(values[self.of], batch.weight)
        exponent = unit_of(largest, in_range(total))
        if bool(exponent.any()):
            scaled = self._total(batch, times_power(values, -exponent))
            part = {**part, "total": scaled.where(exponent != 0, total), "exponent": exponent}
        self._add_in_units(part)

    def _add_in_units(self, other: Mapping[str, Tensor]) -> None:
        """Add sums, those of a column in the larger one of their two units."""
        held = self._state
        if not held or not ("exponent" in held or "exponent" in other):
            self.add(**other)
            return
        ours, theirs = exponent_of(held, "total"), exponent_of(other, "total")
        common = larger_unit(ours, theirs, held["total"] == 0, other["total"] == 0)
        self._state["exponent"] = common
        self._state["total"] = self.in_unit(held["total"], ours - common)
        scaled = {**other, "total": self.in_unit(other["total"], theirs - common)}
        self.add(**{name: scaled[name] for name in self.reductions})

    def _check_state(self, state: Mapping[str, Tensor]) -> None:
        super()._check_state({name: value for name, value in state.items() if name != "exponent"})


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
        self.regroups = not self._logged  # which looks at the values of every batch
        self.degree = _DEGREES.get(measure, 0) if p is None else p
        self.of = TARGET if measure == "size" else ERROR

    def check(self, batch: Outputs) -> None:
        """Refuse another number of columns and, on the CPU, a number that has no log(1 + x).

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
        """The block that is measured, of the logarithms of 1 + x where those are."""
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
