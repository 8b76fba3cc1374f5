"""Derivations: how each form of a batch follows from what was given, the same however rows are cut."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..exceptions import MetricInputError
from ._device import on_host
from .features import (
    BINARY,
    CATEGORY,
    LOGITS,
    MASK,
    PREDICTIONS,
    PROBABILITIES,
    SEQUENCE,
    SET,
    TEXT,
    InputType,
    OutputFeature,
)

if TYPE_CHECKING:
    from .batch import Outputs

_IDS = (
    "pass token ids (logits= or predictions=, and target=) with the texts beside them as texts= and "
    "references=, or name metrics of texts, such as those of the group 'words'"
)
_SIGMOID = (BINARY, SET)
_SOFTMAX = (CATEGORY, SEQUENCE, TEXT, MASK)
_BY_POSITION = (SEQUENCE, TEXT, MASK)
_SHORT = 64  # classes up to which log_softmax over the first dimension of a copy is faster
_LOG_2 = math.log(2)
_WHOLE = 64  # a multiple of every width that a processor computes at once


class Decided(NamedTuple):
    """Target and predicted class of each position that counts, flat int64; weights if there are any."""

    target: Tensor
    preds: Tensor
    weight: Tensor | None


def class_dim(feature: OutputFeature) -> int:
    """The dimension of logits and probabilities that runs over classes or labels."""
    return 1 if feature.type == MASK else -1


def num_classes_of(batch: Outputs) -> int | None:
    """How many classes scores show; None if only predictions were given, or for yes or no."""
    if batch.feature.type not in _SOFTMAX:
        return None
    where = class_dim(batch.feature)
    return next((x.shape[where] for kind, x in batch.given.items() if kind is not PREDICTIONS), None)


def derivable(kind: InputType, given: frozenset[InputType], feature: OutputFeature) -> bool:
    """Say whether a model output can be had from those given."""
    if kind in given:
        return True
    if feature.type not in (*_SIGMOID, *_SOFTMAX):
        return False
    return kind is not LOGITS and bool(
        given & ({LOGITS} if kind is PROBABILITIES else {LOGITS, PROBABILITIES})
    )


def index_of(batch: Outputs) -> Tensor:
    """The target as int64; texts have none."""
    if "target" in batch.records:
        raise MetricInputError(f"token ids are wanted, got texts; {_IDS}")
    return batch.target.long()


def underivable(kind: InputType, given: Mapping[InputType, Tensor], feature: OutputFeature) -> str:
    """Say why a model output cannot be had from those given, and what to pass."""
    if not given:
        return f"{kind} cannot be had from texts; {_IDS}"
    ways = {
        LOGITS: "pass logits=",
        PROBABILITIES: "pass logits= or probabilities=",
        PREDICTIONS: "pass logits=, probabilities= or predictions=",
    }
    softmaxed = feature.type in (*_SIGMOID, *_SOFTMAX)
    todo = ways[kind] if softmaxed else f"pass {kind}="
    return f"{kind} of a {feature.type} output cannot be had from {' and '.join(given)}; {todo}"


def widen(values: Tensor) -> Tensor:
    """Raise half precision to float32 and whole numbers to float64; float32 and float64 stay."""
    if values.dtype in (torch.float16, torch.bfloat16):
        return values.float()
    return values if values.is_floating_point() else values.double()


def probabilities_of(batch: Outputs) -> Tensor:
    """The probabilities as given, or the sigmoid or softmax of the logits."""
    if PROBABILITIES in batch.given:
        return widen(batch.given[PROBABILITIES])
    if LOGITS not in batch.given or batch.feature.type not in (*_SIGMOID, *_SOFTMAX):
        raise MetricInputError(underivable(PROBABILITIES, batch.given, batch.feature))
    if batch.feature.type in _SIGMOID:
        return batch.logits.sigmoid()
    return exponential(batch.log_probabilities)


def exponential(values: Tensor) -> Tensor:
    """The exponential; on the CPU by NumPy: torch wakes every thread for it, however small the batch."""
    return torch.from_numpy(np.exp(values.numpy())) if on_host(values) else values.exp()


def predictions_of(batch: Outputs) -> Tensor:
    """The predictions as given, or what the scores decide."""
    if PREDICTIONS in batch.given:
        return batch.given[PREDICTIONS]
    if batch.feature.type in _SOFTMAX and batch.given:
        return _largest(batch.scores, class_dim(batch.feature))
    if batch.feature.type in _SIGMOID:
        return _decide(batch)
    raise MetricInputError(underivable(PREDICTIONS, batch.given, batch.feature))


def _largest(scores: Tensor, dim: int) -> Tensor:
    """Where the largest score is, the first of equals; NumPy finds it up to ten times faster."""
    if not on_host(scores):
        return scores.argmax(dim)
    return torch.from_numpy(scores.numpy().argmax(dim))


def counted_of(batch: Outputs) -> Tensor:
    """Which positions count: those whose target is not to be ignored."""
    ignored: int | None = getattr(batch.feature, "ignore_index", None)
    return torch.ones_like(batch.index, dtype=torch.bool) if ignored is None else batch.index != ignored


def known_of(batch: Outputs) -> Tensor | None:
    """Which labels of a set are known; None where nothing says that one is not."""
    ignored: int | None = getattr(batch.feature, "ignore_index", None)
    if ignored is None or batch.feature.type != SET or not batch.has_target:
        return None
    return batch.target != ignored


def column_weight_of(batch: Outputs, columns: int) -> Tensor | None:
    """How much each column of each row counts; None if each counts 1."""
    weight = None if batch.weight is None else batch.weight.unsqueeze(1).expand(-1, columns)
    if batch.known is None:
        return weight
    return batch.known.double() if weight is None else weight * batch.known


def decided_of(batch: Outputs) -> Decided:
    """The decided positions; on a device, where dropping some would wait, these get weight 0."""
    target, preds, weight = batch.index, batch.predictions.long(), batch.weight
    if batch.feature.type not in _BY_POSITION:
        return Decided(target, preds, weight)
    counted = batch.counted
    if weight is not None:
        weight = weight.view(-1, *[1] * (target.ndim - 1)).expand(target.shape)
    if on_host(target):
        return Decided(target[counted], preds[counted], None if weight is None else weight[counted])
    weight = counted.double() if weight is None else weight * counted
    return Decided(target.where(counted, 0).flatten(), preds.flatten(), weight.flatten())


def distance(predicted: Tensor, right: Tensor) -> Tensor:
    """In how many places rows of 0 and 1 differ; the difference is made once, and squared in place."""
    return (predicted - right).square_().sum(1)


def _decide(batch: Outputs) -> Tensor:
    """Compare in logit space where there are logits: the sigmoid of a large one is exactly 1."""
    return (batch.scores > _threshold(batch)).long()


def _threshold(batch: Outputs) -> float:
    threshold: float = batch.feature.threshold  # type: ignore[attr-defined]  # binary, set
    if LOGITS not in batch.given:
        return threshold
    return torch.logit(torch.tensor(threshold, dtype=torch.float64)).item()


def label_flags_of(batch: Outputs) -> tuple[Tensor, Tensor]:
    """The predicted and the right labels of a set, float32 of 0 and 1; one that is not known is 0 in both."""
    predicted, right = _predicted_flags(batch), batch.outcome.float()
    return (predicted, right) if batch.known is None else (predicted * batch.known, right)


def _predicted_flags(batch: Outputs) -> Tensor:
    if PREDICTIONS in batch.given:
        return batch.given[PREDICTIONS].float()
    scores = batch.scores
    return torch.gt(scores, _threshold(batch), out=torch.empty_like(scores)).float()


def log_probabilities_of(batch: Outputs) -> Tensor:
    """Log-probabilities of classes, from logits without leaving log space."""
    if batch.feature.type not in _SOFTMAX:
        raise MetricInputError(
            f"log probabilities are of a class per row, not of a {batch.feature.type} output"
        )
    if LOGITS not in batch.given:
        probabilities = batch.probabilities
        return probabilities.clamp(min=torch.finfo(probabilities.dtype).eps).log()
    logits = batch.logits
    if logits.ndim == 2 and logits.shape[1] <= _SHORT and on_host(logits):
        return batch.block("log_columns", _log_columns_of)[:, : len(logits)].t()
    return logits.log_softmax(class_dim(batch.feature))


def class_scores_of(batch: Outputs) -> Tensor:
    """What ranks the rows of a class, from logits: the log-probability up to 1/2, above it -log(4 - 4p).

    The two meet at 1/2. Log-probabilities alone tie where the model is sure, since p rounds to 1; the sum of
    the other classes does not round to 0. `probabilities_of_class_scores` is the inverse.
    """
    logits = batch.logits
    by_column = logits.shape[1] <= _SHORT and on_host(logits)
    logs = batch.block("log_columns", _log_columns_of) if by_column else batch.log_probabilities
    dim = 0 if by_column else 1
    sure = logs > -_LOG_2  # one class of a row at most
    rest = logs.flip(dim) if logits.shape[1] == 2 else _rest(logs, sure, dim)
    scores = torch.where(sure, -rest - 2 * _LOG_2, logs)
    return scores[:, : len(logits)].t() if by_column else scores


def _rest(logs: Tensor, sure: Tensor, dim: int) -> Tensor:
    """The logarithm of what the other classes of a sure row have together."""
    others = logs.masked_fill(sure, -torch.inf)
    largest = others.amax(dim, keepdim=True).clamp_(min=torch.finfo(logs.dtype).min)
    return exponential(others.sub_(largest)).sum(dim, keepdim=True).log_().add_(largest)


def probabilities_of_class_scores(scores: Tensor) -> Tensor:
    """The probabilities of what `class_scores_of` makes.

    >>> probabilities_of_class_scores(torch.tensor([0.25, 0.5]).log())
    tensor([0.2500, 0.5000])
    """
    return torch.where(scores > -_LOG_2, 1 - (-scores).exp() / 4, scores.exp())


def _log_columns_of(batch: Outputs) -> Tensor:
    """Log-softmax over few classes, (C, N or more), several times faster class by class.

    The rows are filled up to whole vectors: rows left over would be computed one by one, which rounds
    differently, and equal rows of different batches would no longer tie.
    """
    return _whole_columns(batch.logits).log_softmax(0)


def _whole_columns(logits: Tensor) -> Tensor:
    """The logits class by class, (C, N or more), filled up with rows of 0 to whole vectors."""
    rows, classes = logits.shape
    if rows % _WHOLE == 0:
        return logits.t()
    columns = logits.new_empty(classes, -(-rows // _WHOLE) * _WHOLE)
    columns[:, :rows] = logits.t()
    columns[:, rows:] = 0
    return columns
