"""Laws of rows: the value depends on the rows and their weights, whatever their order and batches."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ...metrics._derive import class_dim
from ...metrics._validation import batch_of
from ...metrics.batch import Outputs
from ...metrics.features import BINARY, CATEGORY, NUMBER, SET, TIMESERIES, VECTOR, Category
from ...metrics.registry.index import NOISE
from ...metrics.row_values.row_meter import MetricRows, NoRowValuesError, RowMeter
from ...metrics.sample_data import Batch, cut, rows_of, size_of
from ..subjects import LawBroken, Subject, fed, require_same, unless_refused, value_of
from .inputs import over_tensors

WEIGHT_SCALES = (2.0**-40, 2.0**-10, 2.0**332)
"""From 1e-12 to the largest weight: powers of two, which lose no digit."""

VALUE_SCALES = (2.0**-996, 2.0**-332, 2.0**332, 2.0**996)
"""From 1e-300 to 1e300, by powers of two."""
MARGINS = (16.0, 1024.0, 8192.0)
"""Factors of the logits of a model that is already certain."""
_NEAR = 1e-5  # some metrics measure in float32, and deleting a row multiplies what they round
_EXPONENTS = 1020  # of two: up to it, either way, a float64 has all its digits


def check_direction(subject: Subject) -> None:
    """The less noise a model has, the better its value, in the declared direction."""
    direction = subject.entry.direction
    if direction is None or subject.per_class:
        return
    values = [float(subject.measure(subject.draw(400, noise))) for noise in NOISE]
    for (noise, less), (more_noise, more) in itertools.pairwise(zip(NOISE, values, strict=True)):
        if not direction.better(less, more):
            raise LawBroken(
                f"{subject} says {direction}; noise {noise} gives {less:.6g}, {more_noise} gives {more:.6g}"
            )


def check_partition(subject: Subject) -> None:
    """The value does not depend on how the rows were cut into batches; an empty batch adds nothing."""
    batch = subject.draw(70)
    empty = rows_of(batch, slice(0))
    whole = subject.measure(batch)
    uneven = cut(batch, [1, 64, 0, 2, 3])
    cuts = {
        "uneven batches": uneven,
        "one row at a time": cut(batch, [1] * 70),
        "an empty batch first": [empty, batch],
        "empty batches first and last": [empty, *uneven, empty],
    }
    for how, batches in cuts.items():
        require_same(subject, whole, subject.measure(*batches), how)


def check_row_order(subject: Subject) -> None:
    """The order of the rows does not matter."""
    batch = subject.draw(90, noise=0.6)
    rows, whole = size_of(batch), subject.measure(batch)
    shuffled = torch.randperm(rows, generator=torch.Generator().manual_seed(3))
    for order in (shuffled, torch.arange(rows - 1, -1, -1)):
        require_same(subject, whole, subject.measure(rows_of(batch, order)), "rows in another order")


def check_repetition(subject: Subject) -> None:
    """The same data three times over has the same value."""
    batch = subject.draw(50)
    require_same(
        subject, subject.measure(batch), subject.measure(batch, batch, batch), "the same rows three times"
    )


def check_row_values(subject: Subject) -> None:
    """The mean of the row values is the value, however rows are cut; the jackknife equals deleting each row.

    A metric without row values says why.
    """
    batch = subject.draw(20)
    value = subject.measure(batch)
    name = subject.entry.name
    try:
        rows = _row_values(subject, value, batch)
    except NoRowValuesError as err:
        if name not in str(err):
            raise LawBroken(f"{subject} has no row values, and the reason does not name it: {err}") from err
        return
    if not math.isclose(rows.values.mean(), float(value), rel_tol=_NEAR, abs_tol=_NEAR):
        raise LawBroken(f"{subject}: the mean of the row values is {rows.values.mean()}, not {value}")
    got = torch.from_numpy(rows.values)
    size = size_of(batch)
    parts = cut(batch, [1, 0, size // 2, size - 1 - size // 2])
    apart = torch.from_numpy(_row_values(subject, value, *parts).values)
    near = _NEAR * max(1.0, float((got - got.mean()).abs().max()))
    require_same(subject, got, apart, "row values of several batches", near)
    if rows.method in ("cells", "groups"):
        without = [subject.measure(rows_of(batch, _but(size, row))) for row in range(size)]
        influence = (size - 1) * (value - torch.stack(without).double())
        expected = value + influence - influence.mean()
        require_same(subject, expected, got, "one row deleted after the other", near)


def _row_values(subject: Subject, value: Tensor, *batches: Batch) -> MetricRows:
    if subject.per_class or value.ndim:
        raise NoRowValuesError(f"{subject.entry.name} is more than one number")
    meter = RowMeter(subject.make())
    for batch in batches:
        meter.add(batch_of(meter.metric.output, **batch))
    return meter.close(float(value))


def _but(rows: int, row: int) -> Tensor:
    return torch.tensor([one for one in range(rows) if one != row])


def check_weights(subject: Subject) -> None:
    """A row of weight 2 counts twice, one of weight 0 not at all; a metric without weights refuses them."""
    batch = subject.draw(60)
    rows = size_of(batch)
    times = torch.tensor([2, 1, 0, 1, 3]).repeat(rows)[:rows]
    weighed = {**batch, "sample_weight": times.double()}
    repeated = rows_of(batch, torch.arange(rows).repeat_interleave(times))
    cuts = cut(weighed, [7, rows - 7])
    parts = unless_refused(subject, lambda: subject.measure(*cuts), "weights", "weigh")
    if parts is None:
        return
    expected = subject.measure(repeated)
    require_same(subject, expected, subject.measure(weighed), "rows weighed, not repeated", 1e-9)
    require_same(subject, expected, parts, "rows weighed in two batches", 1e-9)


def check_weight_scale(subject: Subject) -> None:
    """Only the ratio of weights counts: weights 1e-12 or 1e100 times as large give the same value."""
    batch = subject.draw(30, noise=0.6)
    rows = size_of(batch)
    weight = torch.tensor([1.0, 0.5, 0.75, 0.25, 0.125], dtype=torch.float64).repeat(rows)[:rows]
    try:
        expected = subject.measure({**batch, "sample_weight": weight})
    except MetricInputError:  # `check_weights` checks the refusal
        return
    for factor in WEIGHT_SCALES:
        got = subject.measure({**batch, "sample_weight": factor * weight})
        require_same(subject, expected, got, f"weights times {factor:g}", 1e-9)


def check_value_scale(subject: Subject) -> None:
    """In another unit, from 1e-300 to 1e300 times the first one, the value scales by a power of the unit.

    The power is measured between 1 and 4; a metric without one, such as a loss with a bound, may have any
    value, and so may a metric of numbers without a unit.
    """
    batch = subject.draw(30, noise=0.6)
    if subject.output.type not in (NUMBER, VECTOR, TIMESERIES) or "predictions" not in batch:
        return
    try:
        once, twice, four = (subject.measure(_in_unit(batch, unit)) for unit in (1.0, 2.0, 4.0))
    except MetricInputError:
        return
    degree = (twice / once).log2().round()
    if not bool(((four - once * 4**degree).abs() <= 1e-9 * four.abs()).all() and degree.isfinite().all()):
        return
    for unit in VALUE_SCALES:
        power = degree * math.log2(unit)
        expected = torch.ldexp(torch.ldexp(once, power // 2), power - power // 2)
        if bool((power.abs() + once.abs().log2().abs() < _EXPONENTS).all()):
            got = subject.measure(_in_unit(batch, unit))
            require_same(subject, torch.ones_like(once), got / expected, f"values times {unit:g}", 1e-9)


def check_whole_numbers(subject: Subject) -> None:
    """A metric of differences or orders has the same value for whole numbers near 2^60 as for small ones."""
    batch = subject.draw(30, noise=0.6)
    if subject.output.type not in (NUMBER, VECTOR, TIMESERIES) or "predictions" not in batch:
        return
    try:
        once, moved, further = (subject.measure(_in_whole_numbers(batch, far)) for far in (0, 1000, 3000))
    except MetricInputError:
        return
    if not bool(((moved - once).abs() + (further - once).abs() <= 1e-12 * once.abs()).all()):
        return
    got = subject.measure(_in_whole_numbers(batch, 2**60))
    require_same(subject, once, got, "whole numbers near 2^60", 1e-9)


def _in_whole_numbers(batch: Batch, offset: int) -> Batch:
    whole = {name: (batch[name].double() * 100).long() + offset for name in ("predictions", "target")}
    return {**batch, **whole}


def _in_unit(batch: Batch, unit: float) -> Batch:
    return over_tensors(batch, lambda tensor: tensor * unit if tensor.is_floating_point() else tensor)


def check_margin(subject: Subject) -> None:
    """A metric that depends on the order of scores alone keeps its value at any margin."""
    if subject.output.type == CATEGORY and "class" not in dict(subject.name.params):
        subject = replace(subject, output=Category(2))  # of more classes the order is another at each margin
    batch = subject.draw(30, noise=0.6)
    if subject.output.type not in (BINARY, SET, CATEGORY) or "logits" not in batch:
        return
    half, once, twice = (subject.measure(_with_margin(batch, margin)) for margin in (0.5, 1.0, 2.0))
    if not torch.equal(half, once) or not torch.equal(once, twice):
        return
    for margin in MARGINS:
        got = subject.measure(_with_margin(batch, margin))
        require_same(subject, once, got, f"logits times {margin:g}", 1e-12)


def _with_margin(batch: Batch, margin: float) -> Batch:
    return {**batch, "logits": batch["logits"].float() * margin}


def check_weightless(subject: Subject) -> None:
    """Rows that all have weight 0 do not count: the value is nan, a single number with a reason."""
    batch = subject.draw(6)
    weighed = {**batch, "sample_weight": torch.zeros(size_of(batch))}
    metric = unless_refused(subject, lambda: fed(subject.make(), weighed), "weights", "weigh")
    if metric is None:
        return
    value = value_of(metric)
    if not value.isnan().all() or not (value.ndim or metric.undefined_reason):
        reason = metric.undefined_reason or "without a reason"
        raise LawBroken(f"{subject} is {value.tolist()} of rows that weigh nothing, {reason}; must be nan")


def check_soft_labels(subject: Subject) -> None:
    """Soft labels of 0 and 1 give the value of the hard ones; a metric without soft labels refuses them."""
    batch = subject.draw(40)
    outputs = batch_of(subject.output, **batch)
    if not isinstance(batch.get("target"), Tensor) or not {"logits", "probabilities"} & batch.keys():
        return
    beside = {name: value for name, value in batch.items() if name != "target"}
    soft = {**beside, "target_probabilities": _sure(outputs)}
    value = unless_refused(subject, lambda: subject.measure(soft), "soft labels", "soft labels")
    if value is not None:
        require_same(subject, subject.measure(batch), value, "soft labels of 0 and 1", 1e-9)


def _sure(batch: Outputs) -> Tensor:
    """Return the target as probabilities of 0 and 1."""
    if batch.num_classes is None:
        return batch.target.double()
    index = batch.index.where(batch.counted, 0)
    hot = torch.nn.functional.one_hot(index, batch.num_classes).double()
    return hot.movedim(-1, class_dim(batch.feature))
