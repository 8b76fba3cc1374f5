"""Moments and extremes of real outputs, per column, from which R2 and correlations are computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor

from .._device import on_host
from ..batch import Outputs
from .errors import (
    ERROR,
    LEAST,
    MOST,
    PREDS,
    TARGET,
    WHOLE,
    Columns,
    check_width,
    columns,
    difference,
    exponent_of,
    first_counting,
    in_range,
    is_out_of_range,
    larger_unit,
    largest_of,
    over_rows,
    row_total,
    sum_of_products,
    times_power,
    unit_of,
)
from .statistic import NumberStatistic, Reduction, Statistic, block

_TINY = 2.0**-1022  # the divisor where the weights sum to 0
_NEAR = 100  # times the spread that squares may be before their difference from it loses more than 2 digits
_ROUNDED = 11  # bits of an int64 that float64 cannot hold
Of = Literal["error", "target"]


class Moments(NumberStatistic["ColumnMoments"]):
    """Count, means and centered second moments of predictions, target and error, per column.

    Everything is measured from `origin`, the first row, so that a large offset costs no digits: a target
    around 1e6 with a deviation of 1e-4 is as exact as one around 0, and a constant has a spread of exactly 0.
    Batches are joined by the parallel form of Welford's update; squares of the values are never summed.

    Where squares of a batch on the CPU leave the range of float64, the predictions, target and error of each
    column are stored in units of their own: the state then has an `exponent` of two for each.

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
    optional = ("exponent",)
    weighted: ClassVar[bool] = True
    regroups = True

    def check(self, batch: Outputs) -> None:
        """Check the number of columns.

        Raises:
            MetricInputError: naming both numbers.
        """
        check_width(batch, self._state.get("mean"))

    def shows_finite(self, batch: Outputs) -> bool:
        """Return whether the sums of squares are in range, which takes finite numbers."""
        return _raw_moments(batch) is not None

    def update(self, batch: Outputs) -> None:
        """Add one batch."""
        raw = _raw_moments(batch)
        if raw is not None and (self._numbers is not None or not self._tensors):
            self._numbers = raw if self._numbers is None else self._numbers.joined(raw)
            self._derived = {}
            return
        if raw is not None:
            self.add_state(raw.state())
            return
        values, weight = columns(batch), batch.weight
        part = _moments(*_from_one(batch, values), weight, row_total(batch))
        if is_out_of_range(part["spread"]):
            part = _in_own_units(part, values, weight)
        self.add_state(part)

    def tensors_of(self, numbers: ColumnMoments) -> dict[str, Tensor]:
        """Return the state that plain numbers stand for."""
        return numbers.state()

    @property
    def rows(self) -> float:
        """The number of rows, or the sum of their weights."""
        return float(self._state["rows"])

    def mean(self, of: int) -> Tensor:
        """Return the mean of each column of `PREDS`, `TARGET` or `ERROR`."""
        return times_power(self.center(of), self.exponent(of))

    def deviation(self, of: int) -> Tensor:
        """Return the standard deviation, over n, of each column of `PREDS`, `TARGET` or `ERROR`."""
        return times_power((self.spread(of) / self.rows).sqrt(), self.exponent(of))

    def center(self, of: int) -> Tensor:
        """Return the mean in units of `2 ** exponent(of)`."""
        return self._state["origin"][of] + self._state["mean"][of]

    def spread(self, of: int) -> Tensor:
        """Return the sum of squared deviations from the mean per column, in `2 ** (2 * exponent(of))`."""
        return self._state["spread"][of]

    @property
    def cross(self) -> Tensor:
        """The sum of products of the centered predictions and targets, per column, in both their units."""
        return self._state["cross"]

    def exponent(self, of: int) -> Tensor:
        """Return the exponent of two of each column's unit, shape (D,), int64; 0 except at extremes."""
        return exponent_of(self._state, "mean")[of]

    def in_one_unit(self) -> Moments:
        """Return the moments with predictions, target and error of each column in their largest unit."""
        if "exponent" not in self._state:
            return self
        one, exponent = self.fresh(), self._state["exponent"]
        largest = torch.where(_are_0(self._state), exponent.amin(0), exponent).amax(0)
        one._state = self._in_units(self._state, largest.expand_as(exponent))
        return one

    def _in_units(self, state: Mapping[str, Tensor], exponent: Tensor) -> dict[str, Tensor]:
        by = exponent_of(state, "mean") - exponent
        return {
            "rows": state["rows"],
            "origin": times_power(state["origin"], by),
            "mean": times_power(state["mean"], by),
            "spread": times_power(state["spread"], 2 * by),
            "cross": times_power(state["cross"], by[PREDS] + by[TARGET]),
            "exponent": exponent,
        }

    def add_state(self, other: Mapping[str, Tensor]) -> None:
        """Join the moments of other rows, each column in the larger of its two units."""
        self._derived = {}
        current = self._state
        on_cpu = on_host(other["rows"])
        if not current or (on_cpu and not current["rows"].item()):
            self._state = {name: value.clone() for name, value in other.items()}
            return
        units = {}
        if "exponent" in current or "exponent" in other:
            ours, theirs = exponent_of(current, "mean"), exponent_of(other, "mean")
            common = larger_unit(ours, theirs, _are_0(current), _are_0(other))
            current, other = self._in_units(current, common), self._in_units(other, common)
            units = {"exponent": common}
        rows = current["rows"] + other["rows"]
        share = other["rows"].double() / (rows if on_cpu else torch.where(rows > 0, rows, 1))
        origin = current["origin"]
        if not on_cpu:  # where no check of the weights has synchronized
            origin = torch.where(current["rows"] > 0, origin, other["origin"])
        gap = (other["origin"] - origin) + (other["mean"] - current["mean"])
        weight = current["rows"] * share
        self._state = {
            "rows": rows,
            "origin": origin,
            "mean": current["mean"] + gap * share,
            "spread": current["spread"] + other["spread"] + gap.square() * weight,
            "cross": current["cross"] + other["cross"] + gap[PREDS] * gap[TARGET] * weight,
            **units,
        }


class ColumnMoments(NamedTuple):
    """The moments of one column as plain numbers, which are joined in a tenth of the time that tensors take.

    The numbers of predictions, target and error are lists; the means are measured from the origins.
    """

    rows: int
    origins: list[float]
    means: list[float]
    spreads: list[float]
    cross: float

    def joined(self, other: ColumnMoments) -> ColumnMoments:
        """Join the moments of other rows as `Moments.add_state` does."""
        rows = self.rows + other.rows
        share = other.rows / rows
        gaps = [
            (theirs - ours) + (their_mean - our_mean)
            for ours, theirs, our_mean, their_mean in zip(
                self.origins, other.origins, self.means, other.means, strict=True
            )
        ]
        weight = self.rows * share
        spreads = [
            ours + theirs + gap * gap * weight
            for ours, theirs, gap in zip(self.spreads, other.spreads, gaps, strict=True)
        ]
        means = [mean + gap * share for mean, gap in zip(self.means, gaps, strict=True)]
        cross = self.cross + other.cross + gaps[PREDS] * gaps[TARGET] * weight
        return ColumnMoments(rows, self.origins, means, spreads, cross)

    def state(self) -> dict[str, Tensor]:
        """Return the state of `Moments`."""
        numbers = torch.tensor([self.origins, self.means, self.spreads], dtype=torch.float64).unsqueeze(-1)
        origin, mean, spread = numbers.unbind()
        return {
            "rows": torch.tensor(self.rows), "origin": origin, "mean": mean, "spread": spread,
            "cross": torch.tensor([self.cross], dtype=torch.float64),
        }  # fmt: skip


@block
def _raw_moments(batch: Outputs) -> ColumnMoments | None:
    """Compute the moments of one column of real rows on the CPU, without weights, from sums of squares.

    Nothing is subtracted from the rows, which would take a pass and a copy of each. The moments of the error
    follow from those of its parts, (p - t)^2 = p^2 + t^2 - 2 p t, unless that loses digits.

    Returns:
        None where the squares are so far above the spread that it would lose digits, or out of range.
    """
    values, rows = columns(batch), len(batch)
    is_real = batch.predictions.is_floating_point() and batch.target.is_floating_point()
    if batch.weight is not None or not is_real or values.width > 1 or not on_host(batch.target):
        return None
    preds, target = values.preds.view(-1), values.target.view(-1)
    ours, theirs = _RawColumn.of(preds), _RawColumn.of(target)
    if not (ours.has_digits and theirs.has_digits):
        return None
    cross = torch.dot(preds, target).item() - ours.total * theirs.mean
    square, spread = ours.square + theirs.square, ours.spread + theirs.spread - 2 * cross
    error = _RawColumn(ours.total - theirs.total, ours.mean - theirs.mean, square, spread)
    if not error.has_digits:
        error = _RawColumn.of(values.error.view(-1))
        if not error.has_digits:
            return None
    parts = (ours, theirs, error)
    means, spreads = [part.mean for part in parts], [part.spread for part in parts]
    return ColumnMoments(rows, means, [0.0] * 3, spreads, cross)


class _RawColumn(NamedTuple):
    """The sum, mean, sum of squares and spread of a column, or of the difference of two columns."""

    total: float
    mean: float
    square: float
    spread: float

    @classmethod
    def of(cls, column: Tensor) -> _RawColumn:
        """Compute them in two passes."""
        total, square = column.sum().item(), torch.dot(column, column).item()
        mean = total / len(column)
        return cls(total, mean, square, square - total * mean)

    @property
    def has_digits(self) -> bool:
        """Whether the spread has nearly all digits of the squares that it is a difference of."""
        return max(LEAST, self.square / _NEAR) < self.spread < MOST


def _from_one(batch: Outputs, values: Columns) -> tuple[Tensor, Columns]:
    """Return the first row with a weight above 0, (3, D), and the differences of all rows from it.

    For integers the origin is a nearby number that float64 can hold exactly, like the differences from it.
    """
    origin = torch.stack([first_counting(column, batch.weight) for column in values])
    parts = (batch.predictions, batch.target)
    if not all(part.dtype in WHOLE for part in parts) or all(map(_is_exact, values)):
        return origin, _minus(values, origin)
    whole = torch.stack([part.long() for part in parts]).view(2, *values.error.shape)
    near = first_counting(whole, batch.weight) >> _ROUNDED << _ROUNDED
    origin = torch.stack([*near.double(), origin[ERROR]])
    preds, target = difference(whole, near.unsqueeze(1))
    return origin, values.with_values(preds, target, values.error - origin[ERROR])


def _minus(values: Columns, points: Tensor) -> Columns:
    """Subtract a point, (3, D), from the rows of each column."""
    return values.with_values(*(column - point for column, point in zip(values, points, strict=True)))


def _is_exact(whole: Tensor) -> bool:
    """Check on the CPU whether float64 holds these integers exactly."""
    return on_host(whole) and max(map(abs, map(float, whole.aminmax()))) < 2.0**53


def _in_own_units(part: dict[str, Tensor], values: Columns, weight: Tensor | None) -> dict[str, Tensor]:
    """Compute moments again in units of their own where the spread is out of range, except for constants.

    A number that differs at all from one between 2^-450 and 2^450 has a spread in float64, so the rows are
    read again only where the spread is 0 around a number outside of this range, such as the errors of a
    perfect model.
    """
    spread, largest = part["spread"], part["origin"].abs()
    if not is_out_of_range(_extent(spread, largest)):
        return part
    for of, extent in enumerate(_extent(spread, largest)):
        if is_out_of_range(extent):
            largest[of] = largest_of(values[of], weight)
    extent = _extent(spread, largest)
    exponent = unit_of(largest, in_range(extent))
    if not bool(exponent.any()) and bool(spread.isfinite().all()):
        return part
    by, scaled = -exponent, []
    for of, column in enumerate(values):
        if weight is not None:
            column = torch.where(weight.unsqueeze(-1) > 0, column, part["origin"][of])  # 0 * inf is nan
        scaled.append(times_power(column, by[of]))
    origin = times_power(part["origin"], by)
    moments = _moments(origin, _minus(values.with_values(*scaled), origin), weight, part["rows"])
    return moments | {"exponent": exponent}


def _extent(spread: Tensor, size: Tensor) -> Tensor:
    """Return the spread, or `size` squared where it is 0, which shows whether rounding may have made it 0."""
    return torch.where(spread == 0, size.square(), spread)


def _moments(origin: Tensor, shifted: Columns, weight: Tensor | None, rows: Tensor) -> dict[str, Tensor]:
    """Compute the moments of rows given as differences from an origin, (3, D); 0 if all weights are 0."""
    if weight is not None:
        origin = torch.where(rows > 0, origin, 0.0)
        if not on_host(weight):  # on the CPU a spread of nan is measured again
            counts = weight.unsqueeze(-1) > 0
            shifted = shifted.with_values(*(torch.where(counts, column, 0.0) for column in shifted))
    sums = torch.stack([over_rows(column, weight) for column in shifted])
    mean = sums / (rows if weight is None else rows.clamp(min=_TINY))
    gaps = _minus(shifted, mean)
    return {
        "rows": rows,
        "origin": origin,
        "mean": mean,
        "spread": torch.stack([sum_of_products(gap, gap, weight) for gap in gaps]),
        "cross": sum_of_products(gaps.preds, gaps.target, weight),
    }


def _are_0(state: Mapping[str, Tensor]) -> Tensor:
    return (state["origin"] == 0) & (state["mean"] == 0) & (state["spread"] == 0)


class Extremes(Statistic):
    """The least and the greatest value of each column, over the rows with a weight above 0.

    Args:
        of: `error` (prediction - target) or `target`.

    >>> from hpometrics.metrics.features import Number
    >>> extremes = Extremes(of="target")
    >>> extremes.update(Outputs(Number(), predictions=[1.0, 2.0], target=[1.0, 4.0]))
    >>> extremes.low.item(), extremes.high.item()
    (1.0, 4.0)
    """

    reductions: ClassVar[Mapping[str, Reduction]] = {"low": "own", "high": "own"}
    weighted: ClassVar[bool] = True
    jackknifes: ClassVar[bool] = False
    regroups = True

    def __init__(self, of: Of) -> None:
        super().__init__(of=of)

    @property
    def low(self) -> Tensor:
        """The least value of each column: shape (D,); infinite when no row has a weight above 0."""
        return self._state["low"]

    @property
    def high(self) -> Tensor:
        """The greatest value of each column: shape (D,); minus infinite when no row has a weight above 0."""
        return self._state["high"]

    def check(self, batch: Outputs) -> None:
        """Check the number of columns.

        Raises:
            MetricInputError: naming both numbers.
        """
        check_width(batch, self._state.get("low"))

    def update(self, batch: Outputs) -> None:
        """Compare one batch with the extremes so far."""
        values = columns(batch)[ERROR if self.params["of"] == "error" else TARGET]
        if batch.weight is None:
            low, high = values.view(-1).aminmax() if values.shape[1] == 1 else values.aminmax(dim=0)
            self.add_state({"low": low.view(-1), "high": high.view(-1)})
            return
        counts = (batch.weight > 0).unsqueeze(-1)
        low, high = torch.where(counts, values, torch.inf), torch.where(counts, values, -torch.inf)
        self.add_state({"low": low.amin(0), "high": high.amax(0)})

    def add_state(self, state: Mapping[str, Tensor]) -> None:
        """Compare with the extremes of other rows."""
        low, high = state["low"], state["high"]
        current = self._state or state
        self._state = {
            "low": torch.minimum(current["low"], low),
            "high": torch.maximum(current["high"], high),
        }
        self._derived = {}
