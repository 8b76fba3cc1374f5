"""Laws of the state: merging, copying, saving, resetting, calling, and measuring beside other metrics."""

from __future__ import annotations

import copy
import io
import pickle
import random
from contextlib import ExitStack
from functools import lru_cache, partial
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor

from ...metrics.collection import MetricCollection
from ...metrics.features import OutputFeature
from ...metrics.metric import Metric
from ...metrics.registry.index import all_entries
from ...metrics.registry.lookup import is_named_in_full
from ...metrics.registry.names import MetricName
from ...metrics.sample_data import Batch, Draw, cut, rows_of
from ..subjects import LawBroken, Subject, fed, require_same, require_undefined, subjects_of, value_of


def check_merge(subject: Subject) -> None:
    """Parts merge into the value of the whole, in any order; the one that was merged stays as it was."""
    batch = subject.draw(90)
    whole = subject.measure(batch)
    shards = cut(batch, [50, 7, 33, 0])
    for order in ((0, 1, 2, 3), (3, 2, 1, 0), (2, 0, 3, 1), (1, 3, 0, 2)):
        parts = [fed(subject.make(), shards[i]) for i in order]
        for part in parts[1:]:
            parts[0].merge(part)
        require_same(subject, whole, value_of(parts[0]), f"merged in the order {order}")
        require_same(
            subject,
            subject.measure(shards[order[1]]),
            value_of(parts[1]),
            "a metric that was merged into another",
        )


def check_reset(subject: Subject) -> None:
    """After `reset` a metric is like a new one."""
    first, second = subject.draw(40, seed=1), subject.draw(30, seed=2)
    metric = fed(subject.make(), first)
    value_of(metric)
    metric.reset()
    require_undefined(subject, metric, "after reset")
    require_same(subject, subject.measure(second), value_of(fed(metric, second)), "after reset")


def check_pickle(subject: Subject) -> None:
    """A copy made halfway continues to the same value, and does not change the original."""
    first, second = subject.draw(40, seed=1), subject.draw(30, seed=2)
    metric = fed(subject.make(), first)
    copies = {"unpickled": pickle.loads(pickle.dumps(metric)), "deep copied": copy.deepcopy(metric)}
    both = subject.measure(first, second)
    for how, twin in copies.items():
        require_same(subject, both, value_of(fed(twin, second)), how)
    require_same(subject, subject.measure(first), value_of(metric), "the original of a copy that went on")


def check_state_dict(subject: Subject) -> None:
    """A state saved halfway and read by `torch.load(weights_only=True)` continues to the same value."""
    first, second = subject.draw(40, seed=1), subject.draw(30, seed=2)
    saved, file = fed(subject.make(), first), io.BytesIO()
    state = saved.state_dict()
    fed(saved, second)  # a state is a snapshot: it does not follow the metric
    torch.save(state, file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    half, whole = subject.measure(first), subject.measure(first, second)
    for _ in range(2):
        metric = fed(subject.make(), second)
        metric.load_state_dict(state)
        require_same(subject, half, value_of(metric), "loaded from a state_dict")
        require_same(subject, whole, value_of(fed(metric, second)), "loaded and gone on")


def check_empty(subject: Subject) -> None:
    """Nothing measured is nan with a reason, never a number."""
    require_undefined(subject, subject.make(), "before the first update")
    require_undefined(
        subject, fed(subject.make(), rows_of(subject.draw(3), slice(0))), "after an empty batch"
    )


def check_forward(subject: Subject) -> None:
    """Called like a module, a metric returns the value of that batch alone and adds it to the state."""
    first, second = subject.draw(40, seed=1), subject.draw(30, seed=2)
    metric = subject.make()
    metric(**first)
    require_same(subject, subject.measure(second), metric(**second), "the value of forward")
    require_same(subject, subject.measure(first, second), value_of(metric), "compute after forward")


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
    require_same(subject, subject.measure(batch), value_of(metric), "updates in and out of inference mode")


def check_streams(subject: Subject) -> None:
    """No random stream of Python, NumPy or torch changes, and none of an accelerator is seeded or set.

    A metric that draws has a generator of its own.
    """
    batch = subject.draw(60)
    first, second = cut(batch, [40, 20])
    metric = subject.make()
    before, seeded = _streams(), list[str]()
    with ExitStack() as patched:
        for device in (torch.cuda, torch.xpu, torch.mps):
            for name in _SETTERS & vars(device).keys():
                note = partial(seeded.append, f"{device.__name__}.{name}")
                patched.enter_context(patch.object(device, name, lambda *_, note=note, **__: note()))
        metric.update(**first)
        metric.update(**second)
        value_of(metric)
    changed = [name for name, state in _streams().items() if state != before[name]]
    if changed or seeded:
        raise LawBroken(f"{subject} changed the random streams of {', '.join([*changed, *seeded])}")


_SETTERS = {"manual_seed", "manual_seed_all", "seed", "seed_all", "set_rng_state", "set_rng_state_all"}
"""The functions that set the random stream of an accelerator."""


def _streams() -> dict[str, object]:
    """Return the states of the streams, in a form that can be compared."""
    kind, keys, *rest = np.random.get_state(legacy=True)
    return {
        "random": random.getstate(),
        "numpy.random": (kind, np.asarray(keys).tobytes(), *rest),
        "torch": torch.get_rng_state().numpy().tobytes(),
    }


def check_company(subject: Subject) -> None:
    """In a collection of all metrics of the same batches a metric has the same value as alone.

    Its name tells it from all others: attributes have the values of its parameters, by the same names.
    """
    metric = subject.make()
    if not is_named_in_full(type(metric), vars(metric)):
        raise LawBroken(
            f"{subject}: each parameter must be an attribute of the same name, a number or a text"
        )
    ready = (entry for entry in all_entries(subject.output.type) if not entry.requires)
    classes = tuple((entry.name, entry.load()) for entry in ready)
    names = _company_of(classes, subject.output.type, subject.source) or (subject.name,)
    together = _values_together(names, subject.output, subject.source)
    batches = _company_batches(subject.output, subject.source)
    alone = subject.measure(*(subject.readable(batch) for batch in batches))
    require_same(subject, alone, together[str(subject.name)], "in a collection of all metrics")


@lru_cache(maxsize=64)
def _company_of(
    classes: tuple[tuple[str, type[Metric]], ...], feature_type: str, source: Draw
) -> tuple[MetricName, ...]:
    """Return all uses of the metrics of a feature with one source; `classes` is part of the cache key."""
    every = (one for entry in all_entries(feature_type) if not entry.requires for one in subjects_of(entry))
    return tuple(one.name for one in every if one.source is source)


@lru_cache(maxsize=32)
def _values_together(names: tuple[MetricName, ...], output: OutputFeature, source: Draw) -> dict[str, Tensor]:
    panel = MetricCollection(names, output)
    for batch in _company_batches(output, source):
        panel.update(**batch)
    return panel.compute()


def _company_batches(output: OutputFeature, source: Draw) -> list[Batch]:
    return [source(output, 40, 0.3, 1), source(output, 70, 0.3, 2)]
