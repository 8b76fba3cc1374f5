"""The laws that every metric keeps, each written once: for our own registry and for authors of metrics.

    @pytest.mark.parametrize("law", LAWS, ids=attrgetter("__name__"))
    @pytest.mark.parametrize("subject", subjects_of("my_metric", CATEGORY), ids=str)
    def test_my_metric(law, subject):
        law(subject)

A law draws its own data and raises `LawBroken` with what was expected and what came.
"""

from __future__ import annotations

import copy
import io
import itertools
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from .exceptions import HpometricsError, MetricInputError
from .metrics.collection import MetricCollection
from .metrics.facts import Param
from .metrics.features import (
    BINARY,
    CATEGORY,
    FEATURES,
    NUMBER,
    SEQUENCE,
    SET,
    TEXT,
    TIMESERIES,
    VECTOR,
    Category,
    OutputFeature,
    Sequence as SequenceOutput,
    Set,
    Text,
    Timeseries,
    Vector,
)
from .metrics.metric import Metric
from .metrics.names import MetricName, Scalar
from .metrics.outputs import Outputs
from .metrics.registry import MetricEntry, all_entries, find_metric, get_metric

Batch = dict[str, Tensor]
Draw = Callable[[OutputFeature, int, float, int], Batch]

OUTPUTS: Mapping[str, OutputFeature] = {
    CATEGORY: Category(4),
    SET: Set(3),
    VECTOR: Vector(3),
    TIMESERIES: Timeseries(5),
    SEQUENCE: SequenceOutput(7),
    TEXT: Text(7),
}
"""The output that the laws draw for a feature type; one without facts where none is listed."""

NOISE = (0.0, 0.3, 0.9)


class LawBroken(HpometricsError, AssertionError):
    """A metric does not keep a law; the message says which, what was expected and what came."""


def draw(output: OutputFeature, rows: int, noise: float = 0.3, seed: int = 0) -> Batch:
    """Draw a batch of a sure model that is right, but for a share `noise` of its answers, which are random.

    Returns:
        Keyword arguments for `update`: `logits` where the feature has any, else `predictions`, and `target`.

    Raises:
        MetricInputError: there is no recipe for the feature; give `Subject` a draw of its own.
    """
    recipe = _RECIPES.get(output.type)
    if recipe is None:
        raise MetricInputError(
            f"no batch can be drawn for a {output.type} output; give Subject(..., draw=) of your own"
        )
    return recipe(output, rows, noise, torch.Generator().manual_seed(seed))


@dataclass(frozen=True)
class Subject:
    """One metric as it is used: its entry, its full name, its output, and where its data comes from."""

    entry: MetricEntry
    name: MetricName
    output: OutputFeature
    source: Draw = draw

    def __str__(self) -> str:
        return f"{self.name}-{self.output.type}"

    @property
    def per_class(self) -> bool:
        """Whether its value is one number per class, which has no order."""
        return ("average", "none") in self.name.params

    def make(self) -> Metric:
        """Build the metric."""
        return get_metric(self.name, self.output)

    def draw(self, rows: int, noise: float = 0.3, seed: int = 0) -> Batch:
        """Draw a batch for it."""
        return self.source(self.output, rows, noise, seed)

    def measure(self, *batches: Batch) -> Tensor:
        """Measure batches from scratch."""
        return _fed(self.make(), *batches).compute()  # type: ignore[no-any-return]


def subjects_of(
    metric: str | MetricEntry, feature_type: str | None = None, source: Draw = draw
) -> tuple[Subject, ...]:
    """Every use of a metric that its parameters allow: each choice of a choice, 2 for a `k`, else defaults.

    Args:
        metric: its name or its entry.
        feature_type: which of its entries, where the name has several.
        source: draws batches, where `draw` has none that fit.
    """
    entries = (metric,) if isinstance(metric, MetricEntry) else _entries_named(metric, feature_type)
    return tuple(
        Subject(entry, find_metric(name, entry.feature_type).name, _output_of(entry), source)
        for entry in entries
        for name in _names_of(entry)
    )


def all_subjects(feature_type: str | None = None) -> tuple[Subject, ...]:
    """Every use of every registered metric; of one feature when asked."""
    return tuple(subject for entry in all_entries(feature_type) for subject in subjects_of(entry))


def rows_of(batch: Batch, index: slice | Tensor) -> Batch:
    """Take some rows of a batch."""
    return {name: tensor[index] for name, tensor in batch.items()}


def cut(batch: Batch, sizes: Iterable[int]) -> list[Batch]:
    """Cut a batch into consecutive ones of these sizes."""
    ends = [0, *itertools.accumulate(sizes)]
    return [rows_of(batch, slice(start, end)) for start, end in itertools.pairwise(ends)]


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
        parts = [_fed(subject.make(), shards[i]) for i in order]
        for part in parts[1:]:
            parts[0].merge(part)
        _same(subject, whole, parts[0].compute(), f"merged in the order {order}")
        _same(
            subject,
            subject.measure(shards[order[1]]),
            parts[1].compute(),
            "a metric that was merged into another",
        )


def check_reset(subject: Subject) -> None:
    """After `reset` a metric is as new."""
    first, second = subject.draw(40, seed=1), subject.draw(30, seed=2)
    metric = _fed(subject.make(), first)
    metric.compute()
    metric.reset()
    _undefined(subject, metric, "after reset")
    _same(subject, subject.measure(second), _fed(metric, second).compute(), "after reset")


def check_pickle(subject: Subject) -> None:
    """A copy made in the middle goes on to the same value, and the original does not notice."""
    first, second = subject.draw(40, seed=1), subject.draw(30, seed=2)
    metric = _fed(subject.make(), first)
    copies = {"unpickled": pickle.loads(pickle.dumps(metric)), "deep copied": copy.deepcopy(metric)}
    for how, twin in copies.items():
        _same(subject, subject.measure(first, second), _fed(twin, second).compute(), how)
    _same(subject, subject.measure(first), metric.compute(), "the original of a copy that went on")


def check_state_dict(subject: Subject) -> None:
    """A state saved in the middle and read by `torch.load(weights_only=True)` goes on to the same value."""
    first, second = subject.draw(40, seed=1), subject.draw(30, seed=2)
    file = io.BytesIO()
    torch.save(_fed(subject.make(), first).state_dict(), file)
    file.seek(0)
    metric = _fed(subject.make(), second)
    metric.load_state_dict(torch.load(file, weights_only=True))
    _same(subject, subject.measure(first), metric.compute(), "loaded from a state_dict")
    _same(subject, subject.measure(first, second), _fed(metric, second).compute(), "loaded and gone on")


def check_row_order(subject: Subject) -> None:
    """The order of the rows does not matter."""
    batch = subject.draw(90, noise=0.6)
    shuffled = torch.randperm(90, generator=torch.Generator().manual_seed(3))
    for order in (shuffled, torch.arange(89, -1, -1)):
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
    metric = _fed(subject.make(), good)
    for what, bad in _spoiled(next_one).items():
        try:
            metric.update(**bad)
        except MetricInputError:
            _same(subject, subject.measure(good), metric.compute(), f"after refusing {what}")
        except Exception as err:
            raise LawBroken(
                f"{subject} meets {what} with {type(err).__name__}, not MetricInputError"
            ) from err
        else:
            raise LawBroken(f"{subject} took a batch with {what}")
    _same(subject, subject.measure(good, next_one), _fed(metric, next_one).compute(), "after all refusals")


def check_empty(subject: Subject) -> None:
    """Nothing measured is nan with a reason, never a number."""
    _undefined(subject, subject.make(), "before the first update")
    _undefined(subject, _fed(subject.make(), rows_of(subject.draw(3), slice(0))), "after an empty batch")


def check_half(subject: Subject) -> None:
    """Half precision inputs are accumulated wide: many rows give the value of the same numbers in float64."""
    for dtype in (torch.float16, torch.bfloat16):
        narrow = _cast(subject.draw(2100), dtype)
        wide = subject.measure(_cast(narrow, torch.float64))
        _same(subject, wide, subject.measure(*cut(narrow, [700, 1400])), str(dtype), tolerance=1e-4)


def check_buffer(subject: Subject) -> None:
    """The caller may overwrite its tensors after `update`, and `update` does not write to them."""
    batch = subject.draw(40)
    buffers = {name: tensor.clone() for name, tensor in batch.items()}
    metric = _fed(subject.make(), buffers)
    for name, buffer in buffers.items():
        if not torch.equal(buffer, batch[name]):
            raise LawBroken(f"{subject} wrote to the {name} it was given")
        buffer.zero_()
    _same(subject, subject.measure(batch), metric.compute(), "after its inputs were overwritten")


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
        metric.update(**{name: form(tensor) for name, tensor in batch.items()})
        value = metric.compute()
        if value.requires_grad:
            raise LawBroken(f"{subject} keeps the graph of inputs that want gradients")
        _same(subject, whole, value, how, tolerance=1e-6)  # a list of floats is float32


def check_inputs(subject: Subject) -> None:
    """The output that the metric reads may be handed over itself, in the place of the logits."""
    batch = subject.draw(60)
    target = batch["target"]
    outputs = Outputs(subject.output, **batch)
    metric = subject.make()
    metric.update(outputs[subject.entry.inputs], target)
    _same(
        subject,
        subject.measure(batch),
        metric.compute(),
        f"{subject.entry.inputs} in the place of logits",
        1e-9,
    )


def check_forward(subject: Subject) -> None:
    """Called like a module, a metric returns the value of that batch alone and goes on counting."""
    first, second = subject.draw(40, seed=1), subject.draw(30, seed=2)
    metric = subject.make()
    metric(**first)
    _same(subject, subject.measure(second), metric(**second), "the value of forward")
    _same(subject, subject.measure(first, second), metric.compute(), "compute after forward")


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
    _same(subject, subject.measure(batch), metric.compute(), "updates in and out of inference mode")


def check_company(subject: Subject) -> None:
    """In a collection of all metrics of its feature a metric has the value it has alone."""
    company = all_subjects(subject.output.type) if subject.source is draw else (subject,)
    batches = _company_batches(subject.output, subject.source)
    together = _values_together(tuple(s.name for s in company), subject.output, subject.source)
    alone = subject.measure(*batches)
    _same(subject, alone, together[str(subject.name)], "in a collection of all metrics")


def check_device(subject: Subject) -> None:
    """On an accelerator, where there is one, the value is that of the CPU; nan in gives nan with a reason."""
    batch = subject.draw(90)
    for device in ("cuda",) if torch.cuda.is_available() else ():
        moved = {name: tensor.to(device) for name, tensor in batch.items()}
        metric = _fed(subject.make().to(device), *cut(moved, [60, 30]))
        _same(subject, subject.measure(batch), metric.compute().cpu(), device, tolerance=1e-9)
        _same(subject, subject.measure(batch), metric.to("cpu").compute(), f"moved from {device}", 1e-9)
        for what, bad in _spoiled(moved).items():
            if "in its" in what:
                _undefined(subject, _fed(subject.make().to(device), bad), f"after {what} on {device}")


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
    check_device,
)


def _same(subject: Subject, expected: Tensor, got: Tensor, how: str, tolerance: float = 1e-12) -> None:
    if expected.shape != got.shape or not torch.allclose(
        got.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True
    ):
        raise LawBroken(f"{subject}: {how}: expected {expected.tolist()}, got {got.tolist()}")


def _undefined(subject: Subject, metric: Metric, when: str) -> None:
    value = metric.compute()
    if not value.isnan().all():
        raise LawBroken(f"{subject} is {value.tolist()} {when}, must be nan")
    if not metric.undefined_reason:
        raise LawBroken(f"{subject} is nan {when} without an undefined_reason")


def _fed(metric: Metric, *batches: Batch) -> Metric:
    for batch in batches:
        metric.update(**batch)
    return metric


def _spoiled(batch: Batch) -> dict[str, Batch]:
    given = next(name for name in batch if name != "target")
    spoiled = {
        "one target less than rows": {**batch, "target": batch["target"][1:]},
        "no target": {given: batch[given]},
    }
    for value in (torch.nan, torch.inf) if batch[given].is_floating_point() else ():
        broken = batch[given].clone()
        broken.view(-1)[-1] = value
        spoiled[f"{value} in its {given}"] = {**batch, given: broken}
    return spoiled


def _cast(batch: Batch, dtype: torch.dtype) -> Batch:
    return {
        name: tensor.to(dtype) if tensor.is_floating_point() else tensor for name, tensor in batch.items()
    }


@lru_cache(maxsize=32)
def _values_together(names: tuple[MetricName, ...], output: OutputFeature, source: Draw) -> dict[str, Tensor]:
    panel = MetricCollection(names, output)
    for batch in _company_batches(output, source):
        panel.update(**batch)
    return panel.compute()


def _company_batches(output: OutputFeature, source: Draw) -> list[Batch]:
    return [source(output, 40, 0.3, 1), source(output, 70, 0.3, 2)]


def _entries_named(name: str, feature_type: str | None) -> tuple[MetricEntry, ...]:
    chosen = tuple(entry for entry in all_entries(feature_type) if entry.name == name)
    return chosen or find_metric(name, feature_type).entries  # says that there is none


def _output_of(entry: MetricEntry) -> OutputFeature:
    return OUTPUTS.get(entry.feature_type) or FEATURES[entry.feature_type]()


def _names_of(entry: MetricEntry) -> list[MetricName]:
    varied = [param for param in entry.params if param.choices or param.required]
    return [
        MetricName(entry.name, tuple((p.name, value) for p, value in zip(varied, values, strict=True)))
        for values in itertools.product(*map(_settings, varied))
    ]


def _settings(param: Param) -> Sequence[Scalar]:
    """The values that a parameter is tried with."""
    by_kind: dict[str, Sequence[Scalar]] = {"int": (2,), "float": (0.5,), "bool": (True, False)}
    return param.choices or by_kind.get(param.kind, ("a",))


def _binary(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    return _yes_or_no((rows,), noise, random)


def _set(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    return _yes_or_no((rows, getattr(output, "num_labels", None) or 3), noise, random)


def _yes_or_no(shape: tuple[int, ...], noise: float, random: torch.Generator) -> Batch:
    target = (_uniform(shape, random) < 0.4).long()
    guess = (_uniform(shape, random) < 0.5).long()
    answer = torch.where(_uniform(shape, random) < noise, guess, target)
    return {"logits": (2 * answer - 1) * (4 + 4 * _uniform(shape, random)), "target": target}


def _category(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    return _one_of(getattr(output, "num_classes", None) or 4, (rows,), noise, random)


def _sequence(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    batch = _one_of(getattr(output, "vocab_size", None) or 7, (rows, 5), noise, random)
    length = torch.randint(1, 6, (rows, 1), generator=random)
    padding = torch.arange(5) >= length
    return {**batch, "target": batch["target"].masked_fill(padding, getattr(output, "ignore_index", -100))}


def _one_of(classes: int, shape: tuple[int, ...], noise: float, random: torch.Generator) -> Batch:
    target, guess = torch.randint(classes, (2, *shape), generator=random)
    answer = torch.where(_uniform(shape, random) < noise, guess, target)
    logits = 0.5 * torch.randn(*shape, classes, generator=random, dtype=torch.float64)
    return {"logits": logits + 8 * torch.nn.functional.one_hot(answer, classes), "target": target}


def _number(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    return _values((rows,), noise, random)


def _vector(output: OutputFeature, rows: int, noise: float, random: torch.Generator) -> Batch:
    width = getattr(output, "size", None) or getattr(output, "horizon", None) or 3
    return _values((rows, width), noise, random)


def _values(shape: tuple[int, ...], noise: float, random: torch.Generator) -> Batch:
    """Positive values around 200: squares of their errors do not fit into half precision."""
    target, guess = 100 + 200 * _uniform((2, *shape), random)
    return {"predictions": torch.where(_uniform(shape, random) < noise, guess, target), "target": target}


def _uniform(shape: tuple[int, ...], random: torch.Generator) -> Tensor:
    return torch.rand(*shape, generator=random, dtype=torch.float64)


_RECIPES: Mapping[str, Callable[[OutputFeature, int, float, torch.Generator], Batch]] = {
    BINARY: _binary,
    CATEGORY: _category,
    SET: _set,
    NUMBER: _number,
    VECTOR: _vector,
    TIMESERIES: _vector,
    SEQUENCE: _sequence,
    TEXT: _sequence,
}
