"""Laws of edge cases: one row, one class, invalid labels, ignored rows, values that are not finite."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ...exceptions import MetricInputError
from ...metrics._validation import NonFinite
from ...metrics.features import BINARY, CATEGORY, MASK, SEQUENCE, SET, Ranking
from ...metrics.metric import Metric
from ...metrics.sample_data import Batch, rows_of, size_of
from ..subjects import LawBroken, Subject, fed, require_same, require_undefined, unless_refused, value_of
from .inputs import MODEL_OUTPUTS, require_refusal, with_value

_IGNORED = {BINARY: 7, CATEGORY: -1, SET: -1, SEQUENCE: -100, MASK: 255}
"""Features whose targets are labels, each with a label that an output may ignore."""
_BY_ROW = (BINARY, CATEGORY, SET)  # a row of ignored labels alone does not count
_NO_LABEL = 99


def check_single(subject: Subject) -> None:
    """One row, or rows of one class, have a finite value, or nan with a reason; nothing raises."""
    batch = subject.draw(12)
    few = {"one row": rows_of(batch, slice(1)), **_one_class(batch)}
    for what, part in few.items():
        metric = fed(subject.make(), part)
        value = value_of(metric)
        if value.isinf().any():
            raise LawBroken(f"{subject} is {value.tolist()} of {what}; must be finite or nan")
        if not value.ndim and value.isnan():
            require_undefined(subject, metric, f"of {what}")


def check_labels(subject: Subject) -> None:
    """A target that is not a class of the output is refused, and the state stays as it was."""
    if subject.output.type not in _IGNORED:
        return
    good, other = subject.draw(30, seed=1), subject.draw(20, seed=2)
    metric, before = fed(subject.make(), good), subject.measure(good)
    for label in (_NO_LABEL, -1):
        target = other["target"].clone()
        target.view(-1)[-1] = label
        require_refusal(subject, metric, {**other, "target": target}, before, f"the label {label}")


def check_shapes(subject: Subject) -> None:
    """A target whose shape would broadcast against the model's output is refused; the state stays."""
    good, other = subject.draw(30, seed=1), subject.draw(20, seed=2)
    target = other["target"]
    if not isinstance(target, Tensor) or target.ndim != 1:
        return
    metric, before = fed(subject.make(), good), subject.measure(good)
    for shape in ((1,), (20, 1), (1, 20)):
        wrong = target[:1] if shape == (1,) else target.reshape(shape)
        require_refusal(subject, metric, {**other, "target": wrong}, before, f"a target of shape {shape}")


def check_ignored(subject: Subject) -> None:
    """If the target is the `ignore_index` of the output, the row, label, token or pixel does not count."""
    feature = subject.output.type
    if feature not in _IGNORED:
        return
    batch, label = subject.draw(40, seed=1), _IGNORED[feature]
    spare = subject.draw(40, seed=2)
    ignored = {**spare, "target": torch.full_like(spare["target"], label)}
    parts = [batch, ignored] if feature in _BY_ROW else [_side_by_side(batch, ignored)]
    output: Any = subject.output  # each of these features has an ignore_index
    ignoring = replace(subject, output=replace(output, ignore_index=label))
    expected = subject.measure(batch)
    got = unless_refused(subject, lambda: ignoring.measure(*parts), "ignored rows", "ignore_index")
    if got is None:
        return
    require_same(subject, expected, got, f"beside what ignore_index={label} leaves out", 1e-9)
    if feature == SET:
        _check_unknown(ignoring, batch, spare, label)


def _check_unknown(ignoring: Subject, batch: Batch, other: Batch, label: int) -> None:
    """Check that the output of a model for an unknown label makes no difference."""
    random = torch.Generator().manual_seed(3)
    is_known = torch.rand(batch["target"].shape, generator=random) < 0.7
    target = batch["target"].where(is_known, label)

    def mask(name: str, value: Any) -> Any:
        return torch.where(is_known, value, other[name]) if name in MODEL_OUTPUTS else value

    expected = ignoring.measure({**batch, "target": target})
    got = ignoring.measure({**{name: mask(name, value) for name, value in batch.items()}, "target": target})
    require_same(ignoring, expected, got, "whatever the model says of labels that are not known", 1e-9)


def check_policy(subject: Subject) -> None:
    """Under `propagate`, nan in a batch makes the value nan with a reason; `ignore` leaves out its rows.

    Called like a module, a metric obeys its policy too, and a refused batch leaves its state as it was.
    """
    batch, good = subject.draw(30), subject.draw(10, seed=2)
    name = next((name for name in MODEL_OUTPUTS if name in batch), None)
    if name is None or not isinstance(batch[name], Tensor) or not batch[name].is_floating_point():
        return
    bad = with_value(batch, name, torch.nan)
    voided = _fed_under(subject, "propagate", bad, good)
    require_undefined(subject, voided, "after nan under propagate")
    voided(**good)
    require_undefined(subject, voided, "after nan under propagate and a call")
    called = fed(subject.make(), good)
    with suppress(MetricInputError):
        called(**bad)
    require_same(subject, subject.measure(good), value_of(called), "after a call with nan, which is refused")
    ignoring = _fed_under(subject, "ignore", bad)
    finite_rows = rows_of(batch, slice(size_of(batch) - 1))
    require_same(subject, subject.measure(finite_rows), value_of(ignoring), "nan under ignore", 1e-9)


def check_no_hits(subject: Subject) -> None:
    """With `empty="neg"` a user without a relevant item counts as one without a hit, or not at all."""
    output = subject.output
    if not isinstance(output, Ranking) or subject.entry.direction is None:
        return
    batch = subject.draw(30)
    target, scores = batch["target"].clone(), batch["logits"].clone()
    target[:10], scores[:10, -1] = 0, -torch.inf
    without = {**batch, "logits": scores, "target": target}
    counted = replace(subject, output=replace(output, empty="neg")).measure(without)
    if torch.allclose(counted.double(), subject.measure(without).double(), equal_nan=True):
        return
    missed = target.clone()
    missed[:10, -1] = 1
    expected = subject.measure({**without, "target": missed})
    require_same(subject, expected, counted, "users without a relevant item beside those with no hit", 1e-9)


def _fed_under(subject: Subject, policy: NonFinite, *batches: Batch) -> Metric:
    metric = subject.make()
    metric.non_finite = policy
    try:
        return fed(metric, *batches)
    except MetricInputError as err:
        raise LawBroken(f"{subject} refuses what is not finite under {policy}: {err}") from err


def _one_class(batch: Batch) -> dict[str, Batch]:
    """Return the rows of each class that the target has."""
    target = batch.get("target")
    if not isinstance(target, Tensor) or target.ndim != 1 or target.is_floating_point():
        return {}
    return {
        f"rows of class {label}": rows_of(batch, (target == label).nonzero().view(-1))
        for label in sorted(set(target.tolist()))
    }


def _side_by_side(batch: Batch, more: Batch) -> Batch:
    """Return the rows of a batch with the positions of another beside their own; what has none stays."""
    target = batch["target"]
    last, rank = target.shape[-1], target.ndim

    def widen(name: str, value: Any) -> Any:
        if not isinstance(value, Tensor) or value.ndim < rank:
            return value
        dim = next(dim for dim in range(value.ndim - 1, 0, -1) if value.shape[dim] == last)
        return torch.cat([value, more[name]], dim)

    return {name: widen(name, value) for name, value in batch.items()}
