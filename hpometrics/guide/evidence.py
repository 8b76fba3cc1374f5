"""Evidence: every metric tried on drawn data, to show its direction, what it keeps and what that takes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from ..exceptions import HpometricsError
from ..metrics.features import FEATURES
from ..metrics.metric import Metric
from ..metrics.registry.entry import NOISE, MetricEntry, Observed
from ..metrics.registry.register import get_metric
from ..testing import ORDINARY, Subject, ordinary, subjects_of
from ..testing.subjects import fed, value_of

FAILED = "trying it failed: "
PER_CLASS = "its value is one number per class, which has no order"
_ROWS, _FEW = 400, 20
_PLAIN = (
    "logits",
    "probabilities",
    "predictions",
    "target",
    "target_probabilities",
    "sample_weight",
    "users",
)


def observe(entry: MetricEntry) -> Observed:
    """Try a metric on the draws of the laws: the same rows, so the same values, on every machine."""
    if entry.requires:
        return Observed(
            reason=f"it needs hpometrics[{entry.requires}], so the laws try it where that is installed"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            subject = _subject_of(entry)
            told = Observed(reason=PER_CLASS) if subject is None else _tried(subject)
            return replace(told, refuses=_refusal(entry))
    except Exception as err:  # told in the index, where a test finds it
        return Observed(reason=f"{FAILED}{_first_line(err)}")


def _subject_of(entry: MetricEntry) -> Subject | None:
    """Choose the use of a metric that its example shows, else the first one with one value."""
    subjects = [subject for subject in subjects_of(entry) if not subject.per_class]
    named = [subject for subject in subjects if subject.name == entry.example]
    return next(iter([*named, *subjects]), None)


def _tried(subject: Subject) -> Observed:
    values = [value_of(fed(subject.make(), subject.draw(_ROWS, noise))) for noise in NOISE]
    scalar = all(value.numel() == 1 for value in values)
    metric = fed(subject.make(), subject.draw(_ROWS))
    held = list(metric.kept.values())
    return Observed(
        subject=str(subject.name),
        values=tuple(_rounded(float(value)) for value in values) if scalar else (),
        reason="" if scalar else "its value is more than one number",
        statistics=tuple(dict.fromkeys(type(statistic).__name__ for statistic in held)),
        memory=_memory(metric, subject),
        weighted=metric.takes_weights,
        needs=_needs(subject),
        pools_tasks=metric.pools_tasks or values[0].ndim > 0,
    )


def _needs(subject: Subject) -> tuple[str, ...]:
    """Leave out each further keyword argument in its turn: those without which the update is refused."""
    batch = dict(subject.draw(_FEW))
    return tuple(name for name in batch if name not in _PLAIN and not _takes(subject, batch, name))


def _takes(subject: Subject, batch: Mapping[str, Any], without: str) -> bool:
    try:
        value_of(fed(subject.make(), {name: given for name, given in batch.items() if name != without}))
    except HpometricsError:
        return False
    return True


def _refusal(entry: MetricEntry) -> str:
    """Try it on a batch that was drawn for no metric; a few rows, as some take long to be measured."""
    output = ORDINARY.get(entry.feature_type) or FEATURES[entry.feature_type]()
    try:
        batch = ordinary(output, _FEW)
        read = {name: given for name, given in batch.items() if name in (*_PLAIN, *entry.extras)}
        value_of(fed(get_metric(entry.example, output), read))
    except HpometricsError as err:
        return _first_line(err)
    return ""


def _memory(metric: Metric, subject: Subject) -> str:
    """Say what it keeps: in the words of its statistics, else by comparing with the state of more rows."""
    held = list(metric.kept.values())
    told = [getattr(statistic, "memory", "") for statistic in held]
    if held and all(told):
        return "; ".join(dict.fromkeys(told))
    size, more = _bytes(_state(metric)), _bytes(_state(fed(subject.make(), subject.draw(2 * _ROWS))))
    if size == more:
        return "a fixed size"
    return f"grows with the data, {(more - size) / _ROWS:.3g} bytes per row in the experiment"


def _state(metric: Metric) -> list[Any]:
    return [metric.own_state(), *(statistic.state() for statistic in metric.kept.values())]


def _bytes(state: Any) -> int:
    if isinstance(state, torch.Tensor):
        return state.nbytes
    if isinstance(state, Mapping):
        return sum(map(_bytes, state.values()))
    if isinstance(state, str):
        return len(state)
    return sum(map(_bytes, state)) if isinstance(state, Iterable) else 0


def _first_line(err: Exception) -> str:
    return str(err).partition("\n")[0][:160]


def _rounded(value: float) -> float | None:
    """Keep three digits, so that another machine's last bits change nothing; None of what is not finite."""
    if not math.isfinite(value):
        return None
    return 0.0 if abs(value) < 1e-9 else float(f"{value:.3g}")
