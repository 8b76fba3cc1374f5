"""The laws: what every metric keeps, each written once. A law draws its own data and raises `LawBroken`."""

from __future__ import annotations

import copy
import io
import itertools
import pickle
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from ..exceptions import HpometricsError, MetricInputError
from ..metrics.batches import batch_of
from ..metrics.collection import MetricCollection
from ..metrics.derivations import class_dim
from ..metrics.features import RANKING, OutputFeature
from ..metrics.metric import Metric
from ..metrics.names import MetricName
from ..metrics.outputs import Outputs
from .draws import Batch, Draw, cut, rows_of, size_of
from .subjects import Subject, all_subjects, fed, value_of

NOISE = (0.0, 0.3, 0.9)
_OUTPUTS = ("logits", "probabilities", "predictions")


class LawBroken(HpometricsError, AssertionError):
    """A metric does not keep a law; the message says which, what was expected and what came."""


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
        _same(subject, whole, subject.measure(*batches), how)


def check_merge(subject: Subject) -> None:
    """Parts merge into the value of the whole, in any order; the one that was merged stays as it was."""
    batch = subject.draw(90)
    whole = subject.measure(batch)
    shards = cut(batch, [50, 7, 33, 0])
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1), (1, 3, 0, 2)):
        parts = [fed(subject.make(), shards[i]) for i in order]
        for part in parts[1:]:
            parts[0].merge(part)
        _same(subject, whole, value_of(parts[0]), f"merged in the order {order}")
        _same(
            subject,
            subject.measure(shards[order[1]]),
            value_of(parts[1]),
            "a metric that was merged into another",
        )


def check_reset(subject: Subject) -> None:
    """After `reset` a metric is as new."""
    first, second = subject.draw(40, seed=1), subject.draw(30, seed=2)
    metric = fed(subject.make(), first)
    value_of(metric)
    metric.reset()
    _undefined(subject, metric, "after reset")
    _same(subject, subject.measure(second), value_of(fed(metric, second)), "after reset")


def check_pickle(subject: Subject) -> None:
    """A copy made in the middle goes on to the same value, and the original does not notice."""
    first, second = subject.draw(40, seed=1), subject.draw(30, seed=2)
    metric = fed(subject.make(), first)
    copies = {"unpickled": pickle.loads(pickle.dumps(metric)), "deep copied": copy.deepcopy(metric)}
    for how, twin in copies.items():
        _same(subject, subject.measure(first, second), value_of(fed(twin, second)), how)
    _same(subject, subject.measure(first), value_of(metric), "the original of a copy that went on")


def check_state_dict(subject: Subject) -> None:
    """A state saved in the middle and read by `torch.load(weights_only=True)` goes on to the same value."""
    first, second = subject.draw(40, seed=1), subject.draw(30, seed=2)
    saved, file = fed(subject.make(), first), io.BytesIO()
    state = saved.state_dict()
    fed(saved, second)  # a state is a snapshot: it does not follow the metric
    torch.save(state, file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    for _ in range(2):
        metric = fed(subject.make(), second)
        metric.load_state_dict(state)
        _same(subject, subject.measure(first), value_of(metric), "loaded from a state_dict")
        _same(subject, subject.measure(first, second), value_of(fed(metric, second)), "loaded and gone on")


def check_row_order(subject: Subject) -> None:
    """The order of the rows does not matter."""
    batch = subject.draw(90, noise=0.6)
    rows = size_of(batch)
    shuffled = torch.randperm(rows, generator=torch.Generator().manual_seed(3))
    for order in (shuffled, torch.arange(rows - 1, -1, -1)):
        _same(
            subject, subject.measure(batch), subject.measure(rows_of(batch, order)), "rows in another order"
        )


def check_repetition(subject: Subject) -> None:
    """The same data three times over has the same value."""
    batch = subject.draw(50)
    _same(subject, subject.measure(batch), subject.measure(batch, batch, batch), "the same rows three times")


def check_refusal(subject: Subject) -> None:
    """A batch with nan, or whose rows do not match, is refused, and the state stays as it was."""
    good, next_one = subject.draw(30, seed=1), subject.draw(20, seed=2)
    metric = fed(subject.make(), good)
    for what, bad in _spoiled(next_one).items():
        try:
            metric.update(**bad)
        except MetricInputError:
            _same(subject, subject.measure(good), value_of(metric), f"after refusing {what}")
        except Exception as err:
            raise LawBroken(
                f"{subject} meets {what} with {type(err).__name__}, not MetricInputError"
            ) from err
        else:
            raise LawBroken(f"{subject} took a batch with {what}")
    _same(subject, subject.measure(good, next_one), value_of(fed(metric, next_one)), "after all refusals")


def check_empty(subject: Subject) -> None:
    """Nothing measured is nan with a reason, never a number."""
    _undefined(subject, subject.make(), "before the first update")
    _undefined(subject, fed(subject.make(), rows_of(subject.draw(3), slice(0))), "after an empty batch")


def check_half(subject: Subject) -> None:
    """Half precision inputs are accumulated wide: many rows give the value of the same numbers in float64."""
    for dtype in (torch.float16, torch.bfloat16):
        narrow = _cast(subject.draw(2100), dtype)
        wide = subject.measure(_cast(narrow, torch.float64))
        _same(subject, wide, subject.measure(*cut(narrow, [700, 1400])), str(dtype), tolerance=1e-4)


def check_buffer(subject: Subject) -> None:
    """The caller may overwrite its tensors after `update`, and `update` does not write to them."""
    batch = subject.draw(40)
    buffers = copy.deepcopy(batch)
    metric = fed(subject.make(), buffers)
    for name, buffer in buffers.items():
        if not _equal(buffer, batch[name]):
            raise LawBroken(f"{subject} wrote to the {name} it was given")
        buffer.zero_() if isinstance(buffer, Tensor) else buffer.clear()
    _same(subject, subject.measure(batch), value_of(metric), "after its inputs were overwritten")


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
        formed = _over_tensors(batch, form)
        if how == "lists" and subject.output.type == RANKING:  # where a list names the relevant items
            formed["target"] = batch["target"]
        metric.update(**formed)
        value = value_of(metric)
        if value.requires_grad:
            raise LawBroken(f"{subject} keeps the graph of inputs that want gradients")
        _same(subject, whole, value, how, tolerance=1e-6)  # a list of floats is float32


def check_inputs(subject: Subject) -> None:
    """The output that the metric reads may be handed over itself, in the place of the logits."""
    batch = subject.draw(60)
    outputs = batch_of(subject.output, **batch)
    metric = subject.make()
    beside = {name: value for name, value in batch.items() if name not in _OUTPUTS}
    metric.update(outputs[subject.entry.inputs], **beside)
    _same(
        subject,
        subject.measure(batch),
        value_of(metric),
        f"{subject.entry.inputs} in the place of logits",
        1e-9,
    )


def check_forward(subject: Subject) -> None:
    """Called like a module, a metric returns the value of that batch alone and goes on counting."""
    first, second = subject.draw(40, seed=1), subject.draw(30, seed=2)
    metric = subject.make()
    metric(**first)
    _same(subject, subject.measure(second), metric(**second), "the value of forward")
    _same(subject, subject.measure(first, second), value_of(metric), "compute after forward")


def check_inference_mode(subject: Subject) -> None:
    """Updates inside and outside of `torch.inference_mode` mix."""
    batch = subject.draw(60)
    first, second, third = cut(batch, [20, 20, 20])
    metric = subject.make()
    with torch.inference_mode():
        metric.update(**first)
        metric.reset()
        metric.update(**first)
    metric.update(**second)
    with torch.inference_mode():
        metric.update(**third)
    _same(subject, subject.measure(batch), value_of(metric), "updates in and out of inference mode")


def check_company(subject: Subject) -> None:
    """In a collection of all metrics that measure the same batches a metric has the value it has alone."""
    others = (other for other in all_subjects(subject.output.type) if not other.entry.requires)
    company = tuple(other for other in others if other.source is subject.source) or (subject,)
    batches = _company_batches(subject.output, subject.source)
    together = _values_together(tuple(s.name for s in company), subject.output, subject.source)
    alone = subject.measure(*batches)
    _same(subject, alone, together[str(subject.name)], "in a collection of all metrics")


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
    _same(subject, subject.measure(repeated), subject.measure(weighed), "rows weighed, not repeated", 1e-9)
    _same(subject, subject.measure(repeated), parts, "rows weighed in two batches", 1e-9)


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
    _same(subject, subject.measure(batch), value, "soft labels of 0 and 1", 1e-9)


def check_device(subject: Subject) -> None:
    """On an accelerator, where there is one, the value is that of the CPU; nan in gives nan with a reason."""
    batch = subject.draw(90)
    for device in ("cuda",) if torch.cuda.is_available() else ():
        moved = _over_tensors(batch, lambda tensor, device=device: tensor.to(device))  # type: ignore[misc]
        metric = fed(subject.make().to(device), *cut(moved, [60, 30]))
        _same(subject, subject.measure(batch), value_of(metric).cpu(), device, tolerance=1e-9)
        _same(subject, subject.measure(batch), value_of(metric.to("cpu")), f"moved from {device}", 1e-9)
        for what, bad in _spoiled(moved).items():
            if "in its" in what:
                _undefined(subject, fed(subject.make().to(device), bad), f"after {what} on {device}")


LAWS: tuple[Callable[[Subject], None], ...] = (
    check_direction,
    check_partition,
    check_merge,
    check_reset,
    check_pickle,
    check_state_dict,
    check_row_order,
    check_repetition,
    check_refusal,
    check_empty,
    check_half,
    check_buffer,
    check_forms,
    check_inputs,
    check_forward,
    check_inference_mode,
    check_company,
    check_weights,
    check_weightless,
    check_soft_labels,
    check_device,
)


def _same(subject: Subject, expected: Tensor, got: Tensor, how: str, tolerance: float = 1e-12) -> None:
    if expected.shape != got.shape or not torch.allclose(
        got.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True
    ):
        raise LawBroken(f"{subject}: {how}: expected {expected.tolist()}, got {got.tolist()}")


def _undefined(subject: Subject, metric: Metric, when: str) -> None:
    value = value_of(metric)
    if not value.isnan().all():
        raise LawBroken(f"{subject} is {value.tolist()} {when}, must be nan")
    if not metric.undefined_reason:
        raise LawBroken(f"{subject} is nan {when} without an undefined_reason")


def _sure(batch: Outputs) -> Tensor:
    """Probabilities that say what the target is."""
    if batch.num_classes is None:
        return batch.target.double()
    index = batch.index.where(batch.counted, 0)
    hot = torch.nn.functional.one_hot(index, batch.num_classes).double()
    return hot.movedim(-1, class_dim(batch.feature))


def _over_tensors(batch: Batch, form: Callable[[Tensor], Any]) -> Batch:
    return {name: form(value) if isinstance(value, Tensor) else value for name, value in batch.items()}


def _equal(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return torch.equal(one, other)
    if isinstance(one, dict):
        return all(_equal(value, other[key]) for key, value in one.items())
    return all(map(_equal, one, other)) if isinstance(one, (list, tuple)) else bool(one == other)


def _spoiled(batch: Batch) -> dict[str, Batch]:
    given = next(name for name in batch if name in _OUTPUTS)
    spoiled = {
        "one target less than rows": {**batch, "target": batch["target"][1:]},
        "no target": {name: value for name, value in batch.items() if name != "target"},
    }
    floats = isinstance(batch[given], Tensor) and batch[given].is_floating_point()
    for value in (torch.nan, torch.inf) if floats else ():
        broken = batch[given].clone()
        broken.view(-1)[-1] = value
        spoiled[f"{value} in its {given}"] = {**batch, given: broken}
    return spoiled


def _cast(batch: Batch, dtype: torch.dtype) -> Batch:
    return _over_tensors(batch, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


@lru_cache(maxsize=32)
def _values_together(names: tuple[MetricName, ...], output: OutputFeature, source: Draw) -> dict[str, Tensor]:
    panel = MetricCollection(names, output)
    for batch in _company_batches(output, source):
        panel.update(**batch)
    return panel.compute()


def _company_batches(output: OutputFeature, source: Draw) -> list[Batch]:
    return [source(output, 40, 0.3, 1), source(output, 70, 0.3, 2)]
