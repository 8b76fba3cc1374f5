"""Laws of inputs: a batch in any form, type or device is the same batch; an invalid one is refused."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from ...exceptions import MetricInputError
from ...metrics._validation import batch_of
from ...metrics.features import BINARY, CATEGORY, MASK, RANKING, SEQUENCE, SET
from ...metrics.metric import Metric
from ...metrics.sample_data import Batch, cut
from ..subjects import LawBroken, Subject, fed, require_same, require_undefined, value_of
from ..waits import away, waits_of

MODEL_OUTPUTS = ("logits", "probabilities", "predictions")
LABELED = (BINARY, CATEGORY, SET, SEQUENCE, MASK)
"""Features whose targets are labels."""


def check_refusal(subject: Subject) -> None:
    """A batch with nan, or whose rows do not match, is refused, and the state stays as it was."""
    good, next_one = subject.draw(30, seed=1), subject.draw(20, seed=2)
    metric, before = fed(subject.make(), good), subject.measure(good)
    for what, bad in spoiled(next_one).items():
        require_refusal(subject, metric, bad, before, what)
    require_same(
        subject, subject.measure(good, next_one), value_of(fed(metric, next_one)), "after all refusals"
    )


def require_refusal(subject: Subject, metric: Metric, bad: Batch, before: Tensor, what: str) -> None:
    """Raise unless a metric refuses a batch and keeps its value.

    Raises:
        LawBroken: it takes the batch, fails in another way, or has another value than `before`.
    """
    try:
        metric.update(**bad)
    except MetricInputError:
        require_same(subject, before, value_of(metric), f"after refusing {what}")
    except Exception as err:
        raise LawBroken(f"{subject} meets {what} with {type(err).__name__}, not MetricInputError") from err
    else:
        raise LawBroken(f"{subject} took a batch with {what}")


def check_half(subject: Subject) -> None:
    """Half precision inputs are accumulated wide: many rows give the value of the same numbers in float64."""
    batch = subject.draw(2100)
    for dtype in (torch.float16, torch.bfloat16) if has_floats(batch) else (torch.float16,):
        narrow = cast(batch, dtype)
        wide = subject.measure(cast(narrow, torch.float64))
        require_same(subject, wide, subject.measure(*cut(narrow, [700, 1400])), str(dtype), tolerance=1e-4)


def check_buffer(subject: Subject) -> None:
    """The caller may overwrite its tensors after `update`, and `update` does not write to them."""
    batch = subject.draw(40)
    buffers = copy.deepcopy(batch)
    metric = fed(subject.make(), buffers)
    for name, buffer in buffers.items():
        if not _equal(buffer, batch[name]):
            raise LawBroken(f"{subject} wrote to the {name} it was given")
        buffer.zero_() if isinstance(buffer, Tensor) else buffer.clear()
    require_same(subject, subject.measure(batch), value_of(metric), "after its inputs were overwritten")


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return all(_equal(value, other[key]) for key, value in one.items())
    return all(map(_equal, one, other)) if isinstance(one, (list, tuple)) else bool(one == other)


def check_forms(subject: Subject) -> None:
    """Tensors that are strided or want gradients, NumPy arrays and lists are the same batch."""
    batch = subject.draw(40)
    forms: dict[str, Callable[[Tensor], Any]] = {
        "strided": lambda x: x.repeat_interleave(2, dim=0)[::2],
        "gradients": lambda x: x.clone().requires_grad_(x.is_floating_point()),
        "arrays": lambda x: x.numpy(),
        "lists": lambda x: x.tolist(),
    }
    whole = subject.measure(batch)
    for how, form in forms.items():
        metric = subject.make()
        formed = over_tensors(batch, form)
        if how == "lists" and subject.output.type == RANKING:  # where a list names the relevant items
            formed["target"] = batch["target"]
        metric.update(**formed)
        value = value_of(metric)
        if value.requires_grad:
            raise LawBroken(f"{subject} keeps the graph of inputs that want gradients")
        require_same(subject, whole, value, how, tolerance=1e-6)  # a list of floats is float32


def check_inputs(subject: Subject) -> None:
    """The output that the metric reads may be passed itself, instead of the logits."""
    batch = subject.draw(60)
    outputs = batch_of(subject.output, **batch)
    metric = subject.make()
    beside = {name: value for name, value in batch.items() if name not in MODEL_OUTPUTS}
    metric.update(outputs[subject.entry.inputs], **beside)
    require_same(
        subject,
        subject.measure(batch),
        value_of(metric),
        f"{subject.entry.inputs} in the place of logits",
        1e-9,
    )


def check_sync_free(subject: Subject) -> None:
    """An update on a device never makes the host wait: it reads no value and waits for no copy."""
    metric = subject.make().to("meta")
    for seed in (0, 1):
        if waits := waits_of(partial(metric.update, **away(subject.draw(40, seed=seed)))):
            raise LawBroken(f"{subject}: an update on a device is waited for: {waits[0]}")


def check_division(subject: Subject) -> None:
    """No decision depends on the last digit of a quotient by a Python number, which accelerators round twice.

    They multiply by the reciprocal, which makes 49 / 49.0 less than 1. A metric then misses a threshold that
    the rate reaches exactly. Division by a 0-d tensor of the device is rounded once, as on the CPU.
    """
    for rows in (49, 98):
        batch = subject.draw(rows)
        expected = subject.measure(batch)
        with _Reciprocals():  # type: ignore[no-untyped-call]
            divided = subject.measure(batch)
        require_same(subject, expected, divided, "with quotients rounded as on an accelerator", 1e-9)


class _Reciprocals(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Rounds quotients of a tensor and a Python number down, where a reciprocal is not exact."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        quotient = func(*args, **(kwargs or {}))
        if func._schema.name not in ("aten::div", "aten::div_") or kwargs or isinstance(args[1], Tensor):
            return quotient
        if not quotient.is_floating_point() or math.frexp(abs(args[1]))[0] == 0.5:  # by a power of two
            return quotient
        less = torch.nextafter(quotient, torch.zeros_like(quotient))
        return quotient.copy_(less) if func._schema.name == "aten::div_" else less


def check_device(subject: Subject) -> None:
    """On an accelerator, if there is one, the value is that of the CPU; nan in gives nan with a reason.

    So does a label that is not a class: as an index it would end the process.
    """
    batch = subject.draw(90)
    for device in ("cuda",) if torch.cuda.is_available() else ():
        moved = over_tensors(batch, lambda tensor, device=device: tensor.to(device))  # type: ignore[misc]
        metric = fed(subject.make().to(device), *cut(moved, [60, 30]))
        require_same(subject, subject.measure(batch), value_of(metric).cpu(), device, tolerance=1e-9)
        require_same(
            subject, subject.measure(batch), value_of(metric.to("cpu")), f"moved from {device}", 1e-9
        )
        bad = {what: part for what, part in spoiled(moved).items() if "in its" in what}
        if subject.output.type in LABELED:
            bad["the label 99"] = with_value(moved, "target", 99)
        for what, part in bad.items():
            require_undefined(subject, fed(subject.make().to(device), part), f"after {what} on {device}")


def over_tensors(batch: Batch, form: Callable[[Tensor], Any]) -> Batch:
    """Return a batch with each of its tensors converted."""
    return {name: form(value) if isinstance(value, Tensor) else value for name, value in batch.items()}


def cast(batch: Batch, dtype: torch.dtype) -> Batch:
    """Return a batch with its floats in another precision."""
    return over_tensors(batch, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def has_floats(batch: Batch) -> bool:
    """Return whether a cast changes anything: texts are the same in any precision."""
    return any(isinstance(value, Tensor) and value.is_floating_point() for value in batch.values())


def spoiled(batch: Batch) -> dict[str, Batch]:
    """Return batches that must be refused, by what is wrong with them."""
    output = next(name for name in batch if name in MODEL_OUTPUTS)
    batches = {
        "one target less than rows": {**batch, "target": batch["target"][1:]},
        "no target": {name: value for name, value in batch.items() if name != "target"},
    }
    floats = isinstance(batch[output], Tensor) and batch[output].is_floating_point()
    for value in (torch.nan, torch.inf) if floats else ():
        batches[f"{value} in its {output}"] = with_value(batch, output, value)
    return batches


def with_value(batch: Batch, name: str, value: float) -> Batch:
    """Return the batch with another number at the end of one of its tensors."""
    broken = batch[name].clone()
    broken.view(-1)[-1] = value
    return {**batch, name: broken}
