"""Symmetries of a metric: exchanging predictions and target, and renaming the classes.

Found by experiment: after either change the value is the same for every draw, or differs for some.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ..exceptions import MetricInputError
from ..metrics.batch import Outputs
from ..metrics.features import BINARY, CATEGORY, LOGITS, PREDICTIONS, PROBABILITIES
from ..metrics.sample_data import Batch
from .subjects import Subject, is_close

_ROWS, _NOISE, _SEEDS = 12, 0.5, range(5)
_CLOSE = 1e-6  # torchmetrics' own classes count in float32
_CLASSES = 4  # of a category whose batch has no logits
_TARGET = "target"
_SCORES = (LOGITS.value, PROBABILITIES.value)
_NUMBERS = (PREDICTIONS.value, _TARGET)

Change = Callable[[Subject, Batch], tuple[Batch, Batch] | None]
"""Returns a batch before and after a change; None if the change is not possible."""


def is_kept(subject: Subject, change: Change) -> bool | None:
    """Return whether a change keeps the value; None if the change is not possible, or there is no value."""
    measured = []
    for seed in _SEEDS:
        pair = change(subject, subject.draw(_ROWS, _NOISE, seed))
        if pair is None:
            return None
        try:
            before, after = (subject.measure(batch).double() for batch in pair)
        except MetricInputError:  # it does not take its predictions as a target
            return None
        if not is_close(before, after, max(_CLOSE, subject.tolerance)):
            return False
        measured.append(bool(before.isfinite().any()))
    return any(measured) or None


def exchanged(subject: Subject, batch: Batch) -> tuple[Batch, Batch] | None:
    """Exchange predictions and target, if a metric reads those two alone and they have one form."""
    if subject.entry.inputs is not PREDICTIONS or not batch.keys() <= {*_SCORES, *_NUMBERS}:
        return None
    target = batch[_TARGET]
    if not isinstance(target, Tensor):
        texts = batch[PREDICTIONS.value]
        if not all(isinstance(text, str) for text in texts):  # boxes, whose predictions have scores
            return None
        return _exchanged_texts(texts, [references[0] for references in target])
    preds = Outputs(subject.output, **batch).predictions
    if target.shape != preds.shape:
        return None
    ignored = getattr(subject.output, "ignore_index", None)
    if ignored is not None:  # a prediction cannot be the ignored label
        left_out = target == ignored
        preds, target = preds.masked_fill(left_out, 0), target.masked_fill(left_out, 0)
    return _batch(preds, target), _batch(target, preds)


def renamed(subject: Subject, batch: Batch) -> tuple[Batch, Batch] | None:
    """Rename every class: yes becomes no, each of several becomes the next."""
    if subject.output.type == BINARY:
        return batch, {name: _contradicted(name, value) for name, value in batch.items()}
    if subject.output.type == CATEGORY:
        classes = batch[LOGITS.value].shape[1] if LOGITS.value in batch else _CLASSES
        return batch, {name: _shifted(name, value, classes) for name, value in batch.items()}
    return None


def _exchanged_texts(preds: list[str], target: list[str]) -> tuple[Batch, Batch]:
    """Exchange texts, every other prediction shortened: equal lengths would hide which one is divided by."""
    preds = [text.rsplit(" ", 1)[0] if row % 2 else text for row, text in enumerate(preds)]
    return _batch(preds, [[text] for text in target]), _batch(target, [[text] for text in preds])


def _batch(preds: Any, target: Any) -> Batch:
    return {PREDICTIONS.value: preds, _TARGET: target}


def _contradicted(name: str, value: Tensor) -> Tensor:
    if name == LOGITS.value:
        return -value
    return 1 - value if name in (PROBABILITIES.value, *_NUMBERS) else value


def _shifted(name: str, value: Tensor, classes: int) -> Tensor:
    if name in _SCORES:
        return value.roll(1, dims=1)
    return (value + 1) % classes if name in _NUMBERS else value
