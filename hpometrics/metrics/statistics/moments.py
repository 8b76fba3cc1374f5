"""Errors and moments of real outputs, a column at a time: what every regression metric is a function of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ..devices import number, on_host
from ..outputs import Outputs
from .statistic import Reduction, Statistic

Measure = Literal[
    "absolute", "square", "size", "percentage", "square_percentage", "symmetric", "square_log",
    "square_log_clipped",
]  # fmt: skip

_DEGREES: Mapping[str, int] = {"absolute": 1, "size": 1, "square": 2}
"""By how much a measure grows with the unit of the values, where its sum may leave the range of float64."""

PREDS, TARGET, ERROR = range(3)
_LEAST, _MOST = 2.0**-900, 2.0**900  # between these a sum has lost nothing that matters, and can grow on
_WRAPS = 2.0**62  # a difference of int64 may be wrong from about here


def columns(batch: Outputs) -> Tensor:
    """The block of predictions, target and error (predictions - target): shape (3, N, D), float64."""
    return batch.block("regression_columns", _columns)


def check_width(batch: Outputs, held: Tensor | None) -> None:
    """Refuse a batch of another number of columns than is held.

    Raises:
        MetricInputError: naming both numbers.
    """
    width = columns(batch).shape[-1]
    if held is not None and held.shape[-1] != width:
        raise MetricInputError(
            f"the batches before had {held.shape[-1]} columns, this one has {width}; keep it the same"
        )


def _rows(batch: Outputs) -> Tensor:
    """How many rows a batch has, or what they weigh."""
    return number(len(batch), batch.target, torch.int64) if batch.weight is None else batch.weight.sum()


def _over_rows(values: Tensor, weight: Tensor | None) -> Tensor:
    """Sum values (..., N, D) over their rows, with weights if there are any."""
    return values.sum(-2) if weight is None else torch.einsum("...nd,n->...d", values, weight)


def _columns(batch: Outputs) -> Tensor:
    pair = torch.stack([batch.predictions.double(), batch.target.double()])
    if pair.ndim == 2:
        pair = pair.unsqueeze(-1)
    error = pair[0] - pair[1]
    if not (batch.predictions.is_floating_point() or batch.target.is_floating_point()):
        exact = (batch.predictions.long() - batch.target.long()).double().view_as(error)
        error = exact.where(error.abs() < _WRAPS, error)  # float64 rounds whole numbers from 2^53
    return torch.cat([pair, error.unsqueeze(0)])


def _symmetric(preds: Tensor, target: Tensor, error: Tensor) -> Tensor:
    size = preds.abs() + target.abs()
    return torch.where(size == 0, 0.0, 2 * error.abs() / size)


def _times(values: Tensor, exponent: Tensor) -> Tensor:
    """Multiply by a power of two in two steps: 2^1100 is no float64, but 2^1100 * 2^-600 is."""
    half = exponent // 2
    return torch.ldexp(torch.ldexp(values, half), exponent - half)


_MEASURES: dict[str, Callable[[Tensor, Tensor, Tensor], Tensor]] = {
    "absolute": lambda preds, target, error: error.abs(),
    "square": lambda preds, target, error: error.square(),
    "size": lambda preds, target, error: target.abs(),
    "percentage": lambda preds, target, error: error.abs() / target.abs(),
    "square_percentage": lambda preds, target, error: (error / target).square(),
    "symmetric": _symmetric,
    "square_log": lambda preds, target, error: (preds.log1p() - target.log1p()).square(),
    "square_log_clipped": lambda preds, target, error: (preds.clamp(min=0).log1p() - target.log1p()).square(),
}


class Errors(Statistic):
    """The sum over rows of one measure of the error, per column.

    Args:
        measure: `absolute` |e|, `square` e^2, `size` |target|, `percentage` |e| / |target| and
            `square_percentage` its square (not finite where the target is 0), `symmetric`
            2 |e| / (|preds| + |target|) (0 where both are 0), or `square_log`, the squared gap of
            log(1 + preds) and log(1 + target), in `square_log_clipped` with predictions below 0 taken as 0.

    Where a sum of a batch on the CPU leaves the range of float64, as that of the squares of 1e200, the sum is
    kept in a unit of its own: the state then has an `exponent`, of two, for the values of each column.

    >>> from hpometrics.metrics.features import Number
    >>> errors = Errors(measure="square")
    >>> errors.update(Outputs(Number(), predictions=[1.0, 2.0], target=[1.0, 4.0]))
    >>> errors.mean.tolist()
    [2.0]
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"rows": "sum", "total": "sum"}
    weighted: ClassVar[bool] = True

    def __init__(self, measure: Measure) -> None:
        super().__init__(measure=measure)
        self.regroups = not measure.startswith("square_log")  # which looks at the values of every batch

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

    def measured(self, batch: Outputs) -> Tensor:
        """Measure the error of each value, (N, D) float64."""
        return _MEASURES[self.params["measure"]](*columns(batch))

    def update(self, batch: Outputs) -> None:
        """Add one batch: each column is summed in float64."""
        measured = self.measured(batch)
        if batch.weight is not None:  # a row of weight 0 may have no measure
            measured = torch.where(batch.weight.unsqueeze(-1) > 0, measured, 0.0)
        rows, total = _rows(batch), _over_rows(measured, batch.weight)
        if self._degree and on_host(total):
            for one in total.tolist():
                if not _LEAST < one < _MOST:
                    return self._add_in_range(batch, rows, total)
        if "exponent" in self._state:
            self._add_in_units({"rows": rows, "total": total})
        else:
            self.add(rows=rows, total=total)
        return None

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Take in what `state()` of another one gave."""
        self._check_state(state)
        if state and self._state:
            self._check_shapes({name: state[name] for name in self.reductions})
            state = {name: value.to(self._state["rows"].device) for name, value in state.items()}
        if state:
            self._add_in_units(state)

    @property
    def mean(self) -> Tensor:
        """The mean over rows of each column: shape (D,)."""
        mean = self._state["total"] / self._state["rows"]
        exponent = self._state.get("exponent")
        return mean if exponent is None else _times(mean, self._degree * exponent)

    @property
    def root_mean(self) -> Tensor:
        """The root of the mean of squares of each column: shape (D,)."""
        root = (self._state["total"] / self._state["rows"]).sqrt()
        exponent = self._state.get("exponent")
        return root if exponent is None else _times(root, exponent)

    @property
    def _degree(self) -> int:
        return _DEGREES.get(self.params["measure"], 0)

    def _add_in_range(self, batch: Outputs, rows: Tensor, total: Tensor) -> None:
        """Add a batch in a unit near its largest value, for the columns whose sum is out of range."""
        values = columns(batch)
        size = values[TARGET if self.params["measure"] == "size" else ERROR].abs()
        largest = size.amax(0) if len(size) else torch.zeros_like(total)
        leaves = largest.isfinite() & (largest > 0) & ~((total > _LEAST) & (total < _MOST))
        if not bool(leaves.any()):
            return self._add_in_units({"rows": rows, "total": total})
        exponent = torch.where(leaves, torch.frexp(largest).exponent.long(), 0)
        measured = _MEASURES[self.params["measure"]](*_times(values, -exponent))
        total = torch.where(leaves, _over_rows(measured, batch.weight), total)
        return self._add_in_units({"rows": rows, "total": total, "exponent": exponent})

    def _add_in_units(self, other: Mapping[str, Tensor]) -> None:
        """Add sums, those of a column in the larger one of their two units."""
        held = self._state
        if not held or not ("exponent" in held or "exponent" in other):
            self.add(**other)
            return
        none = torch.zeros_like(held["total"], dtype=torch.int64)
        ours, theirs = held.get("exponent", none), other.get("exponent", none)
        larger = torch.maximum(ours, theirs)
        common = larger.where(other["total"] != 0, ours).where(held["total"] != 0, theirs)
        self._state["exponent"] = common
        self._state["total"] = _times(held["total"], self._degree * (ours - common))
        self.add(rows=other["rows"], total=_times(other["total"], self._degree * (theirs - common)))

    def _check_state(self, state: Mapping[str, Tensor]) -> None:
        super()._check_state({name: value for name, value in state.items() if name != "exponent"})


class Moments(Statistic):
    """Count, means and centred second moments of predictions, target and error, per column.

    Everything is measured from `origin`, the first row seen, so that a large offset costs no digits: a target
    around 1e6 with a deviation of 1e-4 is as exact as one around 0, and a constant has a spread of exactly 0.
    Batches are joined by the parallel form of Welford's update; squares of the values are never summed.

    Source: Chan, Golub & LeVeque 1979, Stanford University STAN-CS-79-773.

    >>> from hpometrics.metrics.features import Number
    >>> moments = Moments()
    >>> moments.update(Outputs(Number(), predictions=[1.0, 2.0, 3.0], target=[1.0, 2.0, 6.0]))
    >>> moments.spread(TARGET).tolist()  # (1-3)^2 + (2-3)^2 + (6-3)^2
    [14.0]
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {
        "rows": "sum", "origin": "own", "mean": "own", "spread": "own", "cross": "own",
    }  # fmt: skip
    weighted: ClassVar[bool] = True
    regroups = True

    def check(self, batch: Outputs) -> None:
        """Refuse another number of columns.

        Raises:
            MetricInputError: naming both numbers.
        """
        check_width(batch, self._state.get("mean"))

    def update(self, batch: Outputs) -> None:
        """Add one batch."""
        values, weight, rows = columns(batch), batch.weight, _rows(batch)
        origin = values[:, 0]
        shifted = values - origin.unsqueeze(1)
        mean = _over_rows(shifted, weight) / torch.where(rows > 0, rows, 1)
        gaps = shifted - mean.unsqueeze(1)
        self._join({
            "rows": rows,
            "origin": origin,
            "mean": mean,
            "spread": _over_rows(gaps.square(), weight),
            "cross": _over_rows(gaps[PREDS] * gaps[TARGET], weight),
        })  # fmt: skip

    def merge_state(self, state: Mapping[str, Tensor]) -> None:
        """Take in what `state()` of another one gave."""
        self._check_state(state)
        if self._state:
            self._check_shapes(state)
        if state:
            self._join(state)

    @property
    def rows(self) -> float:
        """How many rows were seen, or what they weigh."""
        return float(self._state["rows"])

    def mean(self, of: int) -> Tensor:
        """The mean of each column of `PREDS`, `TARGET` or `ERROR`."""
        return self._state["origin"][of] + self._state["mean"][of]

    def spread(self, of: int) -> Tensor:
        """The sum of squared gaps from the mean, of each column of `PREDS`, `TARGET` or `ERROR`."""
        return self._state["spread"][of]

    @property
    def cross(self) -> Tensor:
        """The sum of products of the gaps of predictions and target, per column."""
        return self._state["cross"]

    def _join(self, other: Mapping[str, Tensor]) -> None:
        self._derived = {}
        if not self._state:
            self._state = {name: value.clone() for name, value in other.items()}
            return
        held = self._state
        other = {name: value.to(held["rows"].device) for name, value in other.items()}
        rows = held["rows"] + other["rows"]
        share = other["rows"].double() / torch.where(rows > 0, rows, 1)
        gap = (other["origin"] - held["origin"]) + (other["mean"] - held["mean"])
        weight = held["rows"] * share
        self._state = {
            "rows": rows,
            "origin": held["origin"],
            "mean": held["mean"] + gap * share,
            "spread": held["spread"] + other["spread"] + gap.square() * weight,
            "cross": held["cross"] + other["cross"] + gap[PREDS] * gap[TARGET] * weight,
        }
