"""Laws of the rows: a value follows from the rows and their weights, however they come."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ...metrics.batches import batch_of
from ...metrics.derivations import class_dim
from ...metrics.draws import cut, rows_of, size_of
from ...metrics.outputs import Outputs
from ..subjects import Subject, value_of
from .verdict import LawBroken, require_same

NOISE = (0.0, 0.3, 0.9)
WEIGHT_SCALES = (2.0**-40, 2.0**-10, 2.0**332)
"""From 1e-12 to the largest weight there is: powers of two, which cost no digit."""


def check_direction(subject: Subject) -> None:
    """The less noise a model has, the better its value, in the declared objective."""
    objective = subject.entry.objective
    if objective is None or subject.per_class:
        return
    values = [float(subject.measure(subject.draw(400, noise))) for noise in NOISE]
    for (noise, less), (more_noise, more) in itertools.pairwise(zip(NOISE, values, strict=True)):
        if not objective.better(less, more):
            raise LawBroken(
                f"{subject} says {objective}; noise {noise} gives {less:.6g}, {more_noise} gives {more:.6g}"
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


def check_weights(subject: Subject) -> None:
    """A row of weight 2 counts as twice that row, one of weight 0 not at all; who cannot weigh says so."""
    batch = subject.draw(60)
    rows = size_of(batch)
    times = torch.tensor([2, 1, 0, 1, 3]).repeat(rows)[:rows]
    weighed = {**batch, "sample_weight": times.double()}
    repeated = rows_of(batch, torch.arange(rows).repeat_interleave(times))
    try:
        parts = subject.measure(*cut(weighed, [7, rows - 7]))
    except MetricInputError as err:
        if "weigh" not in str(err):
            raise LawBroken(f"{subject} refuses weights without saying so: {err}") from err
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
    except MetricInputError:  # who cannot weigh says so by the law of weights
        return
    for factor in WEIGHT_SCALES:
        got = subject.measure({**batch, "sample_weight": factor * weight})
        require_same(subject, expected, got, f"weights times {factor:g}", 1e-9)


def check_weightless(subject: Subject) -> None:
    """Rows that all weigh nothing are no rows: nan, one number of it with a reason."""
    batch = subject.draw(6)
    metric = subject.make()
    try:
        metric.update(**batch, sample_weight=torch.zeros(size_of(batch)))
    except MetricInputError as err:
        if "weigh" not in str(err):
            raise LawBroken(f"{subject} refuses weights without saying so: {err}") from err
        return
    value = value_of(metric)
    if not value.isnan().all() or not (value.ndim or metric.undefined_reason):
        said = metric.undefined_reason or "without a reason"
        raise LawBroken(f"{subject} is {value.tolist()} of rows that weigh nothing, {said}; must be nan")


def check_soft_labels(subject: Subject) -> None:
    """Soft labels that are sure give the value of the hard ones; who cannot read them says so."""
    batch = subject.draw(40)
    shown = batch_of(subject.output, **batch)
    if not isinstance(batch.get("target"), Tensor) or not {"logits", "probabilities"} & batch.keys():
        return
    beside = {name: value for name, value in batch.items() if name != "target"}
    soft = {**beside, "target_probabilities": _sure(shown)}
    try:
        value = subject.measure(soft)
    except MetricInputError as err:
        if "soft labels" not in str(err):
            raise LawBroken(f"{subject} refuses soft labels without saying so: {err}") from err
        return
    require_same(subject, subject.measure(batch), value, "soft labels of 0 and 1", 1e-9)


def _sure(batch: Outputs) -> Tensor:
    """Probabilities that say what the target is."""
    if batch.num_classes is None:
        return batch.target.double()
    index = batch.index.where(batch.counted, 0)
    hot = torch.nn.functional.one_hot(index, batch.num_classes).double()
    return hot.movedim(-1, class_dim(batch.feature))
