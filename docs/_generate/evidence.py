"""Try every metric on drawn data, to observe its direction, its state and its arguments."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from hpometrics.exceptions import HpometricsError
from hpometrics.metrics.features import FEATURES
from hpometrics.metrics.metric import Metric
from hpometrics.metrics.registry.index import NOISE, MetricEntry, Observed
from hpometrics.metrics.registry.register import get_metric
from hpometrics.testing import ORDINARY, Subject, ordinary, subjects_of
from hpometrics.testing.subjects import fed, value_of

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
            observed = Observed(reason=PER_CLASS) if subject is None else _experiment(subject)
            return replace(observed, refuses=_refusal(entry))
    except Exception as err:  # the index records it, and a test finds it there
        return Observed(reason=f"{FAILED}{_first_line(err)}")


def _subject_of(entry: MetricEntry) -> Subject | None:
    """Return the use of a metric that its example shows, else the first one with one value."""
    subjects = [subject for subject in subjects_of(entry) if not subject.per_class]
    preferred = [subject for subject in subjects if subject.name == entry.example]
    return next(iter([*preferred, *subjects]), None)


def _experiment(subject: Subject) -> Observed:
    values = [value_of(fed(subject.make(), subject.draw(_ROWS, noise))) for noise in NOISE]
    scalar = all(value.numel() == 1 for value in values)
    metric = fed(subject.make(), subject.draw(_ROWS))
    statistics = list(metric.kept.values())
    return Observed(
        subject=str(subject.name),
        values=tuple(_rounded(float(value)) for value in values) if scalar else (),
        reason="" if scalar else "its value is more than one number",
        statistics=tuple(dict.fromkeys(type(statistic).__name__ for statistic in statistics)),
        memory=_memory(metric, subject),
        weighted=metric.takes_weights,
        needs=_needs(subject),
        pools_tasks=metric.pools_tasks or values[0].ndim > 0,
    )


def _needs(subject: Subject) -> tuple[str, ...]:
    """Return the keyword arguments without which the update raises, by leaving each out in turn."""
    batch = dict(subject.draw(_FEW))
    return tuple(name for name in batch if name not in _PLAIN and not _accepts(subject, batch, name))


def _accepts(subject: Subject, batch: Mapping[str, Any], without: str) -> bool:
    try:
        value_of(fed(subject.make(), {name: value for name, value in batch.items() if name != without}))
    except HpometricsError:
        return False
    return True


def _refusal(entry: MetricEntry) -> str:
    """Return the error of the metric on an ordinary batch; a few rows, as some metrics are slow."""
    output = ORDINARY.get(entry.feature_type) or FEATURES[entry.feature_type]()
    try:
        batch = ordinary(output, _FEW)
        arguments = {name: value for name, value in batch.items() if name in (*_PLAIN, *entry.extras)}
        value_of(fed(get_metric(entry.example, output), arguments))
    except HpometricsError as err:
        return _first_line(err)
    return ""


def _memory(metric: Metric, subject: Subject) -> str:
    """Return the state in the words of its statistics, else by comparing with the state of more rows."""
    statistics = list(metric.kept.values())
    descriptions = [getattr(statistic, "memory", "") for statistic in statistics]
    if statistics and all(descriptions):
        return "; ".join(dict.fromkeys(descriptions))
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
    """Round to three digits, so that another machine's last bits change nothing; None if not finite."""
    if not math.isfinite(value):
        return None
    return 0.0 if abs(value) < 1e-9 else float(f"{value:.3g}")
