"""Derive each form of a batch from its outputs and target, with the same result however rows are cut."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._redaction import excerpt
from ..exceptions import MetricInputError
from ._device import on_host
from .features import (
    BINARY,
    BOXES,
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

_ANY = "any"  # the output of a metric that was never registered


def records_in(feature: OutputFeature, **values: Any) -> dict[str, list[Any]]:
    """Return the values that are lists of texts or mappings, as lists; all others are tensors.

    Raises:
        MetricInputError: lists of different lengths.
    """
    if feature.type not in (TEXT, BOXES, _ANY):
        return {}
    if feature.type == TEXT:
        for name, value in values.items():
            _refuse_text(value, name)
    columns = {name: array_of_column(value) for name, value in values.items()}
    records_by_name = {
        name: list(value) for name, value in columns.items() if _is_list_of_records(value, feature)
    }
    if len({len(records) for records in records_by_name.values()}) > 1:
        lengths = ", ".join(f"{len(records)} {name}" for name, records in records_by_name.items())
        raise MetricInputError(f"a batch must have as many predictions as targets, got {lengths}")
    return records_by_name


def texts_of(values: Any, name: str) -> list[str]:
    """Check that every entry is a text.

    Raises:
        MetricInputError: naming the first that is not a text.
    """
    _refuse_text(values, name)
    if _all_plain(values):
        return list(values)
    for row, value in enumerate(values):
        if not isinstance(value, str):
            raise MetricInputError(f"{name} must be texts, got {type(value).__name__} in row {row}")
    return list(values)


def single_texts(values: Any) -> list[str] | None:
    """Return the right texts if each row has exactly one, given as a text; None if a row may have several."""
    return list(values) if not isinstance(values, str) and _all_plain(values) else None


def references_of(values: Any, name: str) -> list[tuple[str, ...]]:
    """Return the reference texts of each row, which has one or several that are equally right.

    Raises:
        MetricInputError: a row without a reference, or a reference that is not a text.
    """
    _refuse_text(values, name)
    rows = [
        tuple(row) if isinstance(row, Iterable) and not isinstance(row, str) else (row,) for row in values
    ]
    for number, row in enumerate(rows):
        if not row or not all(isinstance(text, str) for text in row):
            raise MetricInputError(
                f"each row of {name} must be a text or a list of at least one text, got {values[number]!r} "
                f"in row {number}"
            )
    return rows


def _refuse_text(values: Any, name: str) -> None:
    if isinstance(values, str):
        start = excerpt(values, 30)
        raise MetricInputError(f"{name} must be a list of texts, got one text; write [{start!r}]")


def _all_plain(values: Any) -> bool:
    """Return whether all values are plain strings; much faster than to look at one after the other."""
    return {*map(type, values)} <= {str}


def array_of_column(values: Any) -> Any:
    """Return a column of a table, such as one of pandas, as an array; anything else unchanged."""
    is_column = hasattr(values, "__array__") and not isinstance(values, (np.ndarray, np.generic, Tensor))
    return np.asarray(values) if is_column else values


def _is_list_of_records(values: Any, feature: OutputFeature) -> bool:
    if type(values) is list and values and type(values[0]) is str:  # a batch of texts pays for no other look
        return True
    if isinstance(values, np.ndarray):
        return values.dtype.kind in "UO"
    if isinstance(values, str) or not isinstance(values, Sequence):
        return False
    if not len(values):
        return feature.type != _ANY
    first = next((entry for entry in values if entry is not None), None)
    texts = isinstance(first, (list, tuple)) and any(isinstance(text, str) for text in first)
    return isinstance(first, (str, dict)) or texts or first == []


_IDS = (
    "pass token ids (logits= or predictions=, and target=) with the texts beside them as texts= and "
    "references=, or name metrics of texts, such as those of the group 'words'"
)
_SIGMOID = (BINARY, SET)
_SOFTMAX = (CATEGORY, SEQUENCE, TEXT, MASK)
_BY_POSITION = (SEQUENCE, TEXT, MASK)
_SHORT = 64  # classes up to which log_softmax over the first dimension of a copy is faster
_LOG_2 = math.log(2)
_HALF = (torch.float16, torch.bfloat16)
_WIDENED = 1 << 18  # scores in half precision that are widened at a time
_MANY = 1 << 12  # classes above which logits are read once, by their check
_AT_ONCE, _AT_ONCE_ON_DEVICE = 1 << 19, 1 << 26  # logits that are read at a time
_WHOLE = 64  # a multiple of every width that a processor computes at once


T = TypeVar("T")


class Decided(NamedTuple):
    """Target and predicted class of each position that counts, flat int64; weights if there are any."""

    target: Tensor
    preds: Tensor
    weight: Tensor | None


class Batch(Protocol):
    """The part of `Outputs` that the derivations read."""

    @property
    def feature(self) -> OutputFeature: ...
    @property
    def given(self) -> Mapping[InputType, Tensor]: ...
    @property
    def records(self) -> Mapping[str, list[Any]]: ...
    @property
    def target(self) -> Tensor: ...
    @property
    def weight(self) -> Tensor | None: ...
    @property
    def has_target(self) -> bool: ...
    @property
    def logits(self) -> Tensor: ...
    @property
    def probabilities(self) -> Tensor: ...
    @property
    def predictions(self) -> Tensor: ...
    @property
    def log_probabilities(self) -> Tensor: ...
    @property
    def scores(self) -> Tensor: ...
    @property
    def index(self) -> Tensor: ...
    @property
    def counted(self) -> Tensor: ...
    @property
    def known(self) -> Tensor | None: ...
    @property
    def outcome(self) -> Tensor: ...

    def __len__(self) -> int: ...

    def block(self, name: Hashable, make: Callable[[Any], T]) -> T:
        """Return the tensor stored under a name, made the first time."""
        ...


def class_dim(feature: OutputFeature) -> int:
    """Return the dimension of logits and probabilities that runs over classes or labels."""
    return 1 if feature.type == MASK else -1


def num_classes_of(batch: Batch) -> int | None:
    """Return the number of classes of the scores; None without scores, or for yes or no."""
    if batch.feature.type not in _SOFTMAX:
        return None
    for kind, scores in batch.given.items():
        if kind is not PREDICTIONS:
            return scores.shape[class_dim(batch.feature)]
    return None


def derivable(kind: InputType, outputs: frozenset[InputType], feature: OutputFeature) -> bool:
    """Return whether a model output is among some outputs, or can be derived from them."""
    if kind in outputs:
        return True
    if feature.type not in (*_SIGMOID, *_SOFTMAX):
        return False
    return kind is not LOGITS and bool(
        outputs & ({LOGITS} if kind is PROBABILITIES else {LOGITS, PROBABILITIES})
    )


def index_of(batch: Batch) -> Tensor:
    """Return the target as int64; a target of texts raises."""
    if "target" in batch.records:
        raise MetricInputError(f"expected token ids, got texts; {_IDS}")
    return batch.target.long()


def underivable(kind: InputType, outputs: Mapping[InputType, Tensor], feature: OutputFeature) -> str:
    """Return why a model output cannot be derived from some outputs, and what to pass."""
    if not outputs:
        return f"{kind} cannot be derived from texts; {_IDS}"
    ways = {
        LOGITS: "pass logits=",
        PROBABILITIES: "pass logits= or probabilities=",
        PREDICTIONS: "pass logits=, probabilities= or predictions=",
    }
    softmaxed = feature.type in (*_SIGMOID, *_SOFTMAX)
    todo = ways[kind] if softmaxed else f"pass {kind}="
    return f"{kind} of a {feature.type} output cannot be derived from {' and '.join(outputs)}; {todo}"


def widen(values: Tensor) -> Tensor:
    """Convert half precision to float32 and whole numbers to float64; float32 and float64 stay."""
    if values.dtype in _HALF:
        return values.float()
    return values if values.is_floating_point() else values.double()


def probabilities_of(batch: Batch) -> Tensor:
    """Return the probabilities of the batch, or the sigmoid or softmax of its logits."""
    if PROBABILITIES in batch.given:
        return widen(batch.given[PROBABILITIES])
    if LOGITS not in batch.given or batch.feature.type not in (*_SIGMOID, *_SOFTMAX):
        raise MetricInputError(underivable(PROBABILITIES, batch.given, batch.feature))
    if batch.feature.type in _SIGMOID:
        return batch.logits.sigmoid()
    return exponential(batch.log_probabilities)


def exponential(values: Tensor) -> Tensor:
    """Return the exponential; on the CPU by NumPy, as torch wakes all threads even for a small batch."""
    return torch.from_numpy(np.exp(values.numpy())) if on_host(values) else values.exp()


def predictions_of(batch: Batch) -> Tensor:
    """Return the predictions of the batch, or those that its scores decide."""
    if PREDICTIONS in batch.given:
        return batch.given[PREDICTIONS]
    found = expected_pass(batch)
    if found is not None and found.largest is not None:
        return found.largest.view(batch.given[LOGITS].shape[:-1])
    if batch.feature.type in _SOFTMAX and batch.given:
        scores = batch.given[LOGITS if LOGITS in batch.given else PROBABILITIES]
        return _largest(scores, class_dim(batch.feature))
    if batch.feature.type in _SIGMOID:
        return _decide(batch)
    raise MetricInputError(underivable(PREDICTIONS, batch.given, batch.feature))


class LogitsPass(NamedTuple):
    """The result of one pass over class logits, (rows, classes).

    Attributes:
        finite: whether all logits are finite; False on a device, and where their sum overflows.
        largest: (rows,) the class of the largest logit, the first of equals; None if it was not requested.
        losses: (rows, labels) -log p of some classes of each row; None if none were requested.
    """

    finite: bool
    largest: Tensor | None
    losses: Tensor | None


def expect(batch: Batch, reads: frozenset[str]) -> None:
    """Note what metrics will read of logits of many classes, so that one pass both checks and derives it.

    Args:
        batch: the batch, before any check.
        reads: `largest`, `losses`, both, or nothing.
    """
    logits = batch.given.get(LOGITS) if reads and batch.feature.type in (CATEGORY, SEQUENCE, TEXT) else None
    if logits is None or logits.ndim < 2 or logits.shape[-1] <= _MANY or not batch.has_target:
        return
    if on_host(logits) and logits.is_floating_point() and logits.is_contiguous():
        batch.block("expected", lambda _: reads)


def expected_pass(batch: Batch) -> LogitsPass | None:
    """Return the one pass over the logits of a batch of the right shapes; None if nothing expects it."""
    reads: frozenset[str] = batch.block("expected", lambda _: frozenset())
    return batch.block("expected pass", lambda batch: _expected_pass(batch, reads)) if reads else None


def _expected_pass(batch: Batch, reads: frozenset[str]) -> LogitsPass:
    logits, labels = batch.given[LOGITS], None
    if "losses" in reads:  # labels out of range have yet to be refused
        labels = token_pairs(batch).flatten(0, 1).clamp_(0, logits.shape[-1] - 1)
    return pass_over(logits.flatten(0, -2), labels, largest="largest" in reads)


def pass_over(logits: Tensor, labels: Tensor | None, *, largest: bool = False) -> LogitsPass:
    """Read class logits, (rows, classes), once, a few rows at a time.

    The plain formulas are `logits.isfinite().all()`, `logits.argmax(1)` and
    `-logits.log_softmax(1).gather(1, labels)`.
    """
    whole, classes = logits.shape
    rows = max(1, min(whole, (_AT_ONCE if on_host(logits) else _AT_ONCE_ON_DEVICE) // classes))
    wide = torch.empty(rows, classes, dtype=widen(logits[:0]).dtype, device=logits.device)
    room, losses, finite = torch.empty_like(wide), [], on_host(logits)
    places = np.empty(whole if largest else 0, np.int64)
    for start in range(0, max(1, whole), rows):
        part = logits[start : start + rows]
        part = part if part.dtype is wide.dtype else wide[: len(part)].copy_(part)
        if largest:
            part.numpy().argmax(1, out=places[start : start + rows])
        if labels is not None:
            logs = torch.log_softmax(part, -1, out=room[: len(part)])
            losses.append(logs.gather(-1, labels[start : start + rows]))
        finite = finite and math.isfinite(part.sum().item())
    of_rows = torch.from_numpy(places) if largest else None
    return LogitsPass(finite, of_rows, -torch.cat(losses) if losses else None)


def token_pairs(batch: Batch) -> Tensor:
    """Return the token at each position and the one after it, (N, T, 2) int64; 0 if it does not count."""
    true = batch.index.masked_fill(~batch.counted, 0)
    return torch.stack([true, true.roll(-1, 1)], -1)


def _largest(scores: Tensor, dim: int) -> Tensor:
    """Return the place of the largest score, the first of equals; NumPy finds it up to ten times faster.

    NumPy has no fast half precision: it is widened, of a large batch a block at a time.
    """
    if not on_host(scores):
        return scores.argmax(dim)
    if scores.dtype not in _HALF:
        return torch.from_numpy(scores.numpy().argmax(dim))
    return _largest_widened(scores, dim)


def _largest_widened(scores: Tensor, dim: int) -> Tensor:
    """Widen a few rows or positions at a time, always into the same memory: logits may be many."""
    places = scores.new_empty([*scores.shape[:dim], *scores.shape[dim:][1:]], dtype=torch.int64)
    by_position = dim < 0 and scores.ndim > 2
    width = scores.shape[-1:] if by_position else scores.shape[1:]
    rows = max(1, _WIDENED // max(1, width.numel()))
    room = torch.empty(min(rows, scores.numel()), *width)
    for whole, of_whole in zip(scores, places, strict=True) if by_position else ((scores, places),):
        for part, of_part in zip(whole.split(rows), of_whole.split(rows), strict=True):
            room[: len(part)].copy_(part).numpy().argmax(dim, out=of_part.numpy())
    return places


def counted_of(batch: Batch) -> Tensor:
    """Return which positions count, bool: those whose target is not `ignore_index`."""
    ignored: int | None = getattr(batch.feature, "ignore_index", None)
    return torch.ones_like(batch.index, dtype=torch.bool) if ignored is None else batch.index != ignored


def known_of(batch: Batch) -> Tensor | None:
    """Return which labels of a set are known, bool; None if all are."""
    ignored: int | None = getattr(batch.feature, "ignore_index", None)
    if ignored is None or batch.feature.type != SET or not batch.has_target:
        return None
    return batch.target != ignored


def column_weight_of(batch: Batch, columns: int) -> Tensor | None:
    """Return the weight of each column of each row; None if each counts 1."""
    weight = None if batch.weight is None else batch.weight.unsqueeze(1).expand(-1, columns)
    if batch.known is None:
        return weight
    return batch.known.double() if weight is None else weight * batch.known


def decided_of(batch: Batch) -> Decided:
    """Return the decided positions; on a device, where dropping some would wait, these get weight 0."""
    target, preds, weight = batch.index, batch.predictions.long(), batch.weight
    if batch.feature.type not in _BY_POSITION:
        return Decided(target, preds, weight)
    if weight is not None:
        weight = weight.view(-1, *[1] * (target.ndim - 1)).expand(target.shape)
    if getattr(batch.feature, "ignore_index", None) is None:
        return Decided(target.flatten(), preds.flatten(), None if weight is None else weight.flatten())
    counts = batch.counted
    if on_host(target):
        return Decided(target[counts], preds[counts], None if weight is None else weight[counts])
    weight = counts.double() if weight is None else weight * counts
    return Decided(target.where(counts, 0).flatten(), preds.flatten(), weight.flatten())


def distance(predicted: Tensor, right: Tensor) -> Tensor:
    """Count the places where rows of 0 and 1 differ; the difference is made once and squared in place."""
    return (predicted - right).square_().sum(1)


def _decide(batch: Batch) -> Tensor:
    """Compare in logit space where there are logits: the sigmoid of a large one is exactly 1."""
    return (batch.scores > _threshold(batch)).long()


def _threshold(batch: Batch) -> float:
    threshold: float = batch.feature.threshold  # type: ignore[attr-defined]  # binary, set
    if LOGITS not in batch.given:
        return threshold
    return torch.logit(torch.tensor(threshold, dtype=torch.float64)).item()


def label_flags_of(batch: Batch) -> tuple[Tensor, Tensor]:
    """Return predicted and right labels of a set, float32 of 0 and 1; an unknown label is 0 in both."""
    predicted, right = _predicted_flags(batch), batch.outcome.float()
    return (predicted, right) if batch.known is None else (predicted * batch.known, right)


def _predicted_flags(batch: Batch) -> Tensor:
    if PREDICTIONS in batch.given:
        return batch.given[PREDICTIONS].float()
    scores = batch.scores
    return torch.gt(scores, _threshold(batch), out=torch.empty_like(scores)).float()


def log_probabilities_of(batch: Batch) -> Tensor:
    """Return the log-probabilities of classes, from logits without leaving log space."""
    if batch.feature.type not in _SOFTMAX:
        raise MetricInputError(f"log probabilities need one class per row, not a {batch.feature.type} output")
    if LOGITS not in batch.given:
        probabilities = batch.probabilities
        return probabilities.clamp(min=torch.finfo(probabilities.dtype).eps).log()
    logits = batch.logits
    if logits.ndim == 2 and logits.shape[1] <= _SHORT and on_host(logits):
        return batch.block("log_columns", _log_columns_of)[:, : len(logits)].t()
    return logits.log_softmax(class_dim(batch.feature))


def class_scores_of(batch: Batch) -> Tensor:
    """Return scores that rank the rows of a class: the log-probability up to 1/2, above it -log(4 - 4p).

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
    """Return the logarithm of the summed probability of the other classes of a sure row."""
    others = logs.masked_fill(sure, -torch.inf)
    largest = others.amax(dim, keepdim=True).clamp_(min=torch.finfo(logs.dtype).min)
    return exponential(others.sub_(largest)).sum(dim, keepdim=True).log_().add_(largest)


def probabilities_of_class_scores(scores: Tensor) -> Tensor:
    """Return the probabilities of scores from `class_scores_of`.

    >>> probabilities_of_class_scores(torch.tensor([0.25, 0.5]).log())
    tensor([0.2500, 0.5000])
    """
    return torch.where(scores > -_LOG_2, 1 - (-scores).exp() / 4, scores.exp())


def _log_columns_of(batch: Batch) -> Tensor:
    """Compute the log-softmax over few classes, (C, N or more), which is several times faster class by class.

    The rows are filled up to whole vectors: the remaining rows would be computed one by one, which rounds
    differently, and equal rows of different batches would no longer tie.
    """
    logits = batch.logits
    rows, classes = logits.shape
    if rows % _WHOLE == 0:
        return logits.t().log_softmax(0)
    values = logits.numpy()
    columns = np.zeros((classes, -(-rows // _WHOLE) * _WHOLE), values.dtype)
    columns[:, :rows] = values.T
    return torch.from_numpy(columns).log_softmax(0)
