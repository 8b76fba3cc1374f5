"""Validation of each batch before any metric reads it, at once on the CPU and at `compute` on a device."""

from __future__ import annotations

import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from .._imports import outside_level
from ..exceptions import MetricInputError, NonFiniteError
from ._checks import Check, check_shapes, labels_of, value_checks
from ._device import on_host, send_to
from .batch import Outputs
from .features import BINARY, CATEGORY, LOGITS, RANKING, SEQUENCE, TEXT, OutputFeature
from .retrieval.ranking_batch import RankingBatch, finite_rows, ranking_checks


def batch_of(feature: OutputFeature, **arguments: Any) -> Outputs:
    """Create a batch from the keyword arguments of an update.

    Raises:
        MetricInputError: they are not a batch of this output.
    """
    kind = RankingBatch if feature.type == RANKING else Outputs
    return kind(feature, **arguments)


@functools.cache
def reads_pairs(function: Callable[..., Any]) -> bool:
    """Return whether a function takes at least `self, preds, target` by position."""
    kinds = [p.kind for p in inspect.signature(function).parameters.values()]
    return len(kinds) > 2 and all(k in (k.POSITIONAL_ONLY, k.POSITIONAL_OR_KEYWORD) for k in kinds[:3])


NonFinite = Literal["error", "propagate", "ignore"]

_OF_CLASSES = (CATEGORY, SEQUENCE, TEXT)
_ROUNDING = 1e-3  # of a softmax in half precision
_BY_ROW = (BINARY, CATEGORY)  # where `ignore_index` leaves out whole rows
_LOOSE = 512  # flags that are kept separate before they are joined into one


class BatchValidator:
    """Validates the batches of a metric or collection: on the CPU at once, on a device at `compute`.

    Args:
        non_finite: the policy for a batch with nan or infinite values: `error` refuses it, `propagate`
            makes the value nan with the reason, `ignore` leaves out the rows concerned.
    """

    def __init__(self, non_finite: NonFinite = "error") -> None:
        if non_finite not in get_args(NonFinite):
            raise MetricInputError(
                f"non_finite is one of {', '.join(get_args(NonFinite))}; got {non_finite!r}"
            )
        self.non_finite = non_finite
        self.reset()

    def reset(self) -> None:
        """Drop all flags and counts."""
        self._flags: list[Tensor] = []
        self._joined = 0
        self._rules: list[tuple[int, str]] = []
        self._complaint: str | None = None
        self._dropped: Tensor | int = 0

    @property
    def left_out(self) -> int:
        """The number of rows left out because they held nan or infinite values."""
        return int(self._dropped)

    def add_complaint(self, complaint: str | None, left_out: int = 0) -> None:
        """Add the complaint of another validator, whose batches were merged in, and its count of rows."""
        self._complaint = self._complaint or complaint
        self._dropped = self._dropped + left_out

    def handle_non_finite(self, error: NonFiniteError, number: int) -> None:
        """Apply the policy to an admitted batch in which a metric finds nan or infinite values.

        Args:
            error: the error of the metric.
            number: the number of batches before this one.

        Raises:
            NonFiniteError: the error itself, but under `propagate`; only the metric knows the rows concerned.
        """
        if self.non_finite != "propagate":
            raise error
        self.add_complaint(f"batch {number}: {error}")

    def validate(self, batch: Outputs, number: int = 0) -> Outputs | None:
        """Validate a batch and return its rows that count, or None if no row does.

        Args:
            batch: the whole batch.
            number: the number of batches before this one, by which a complaint names it.

        Raises:
            MetricInputError: its shapes or (on the CPU) its values are not those of the output feature.
        """
        check_shapes(batch)
        batch = self._counting(batch)
        if not len(batch):
            return None
        if not on_host(batch.target):
            self._defer(_checks(batch), number)
            return _within_range(batch)
        if not number:
            _warn_of_probabilities(batch)
        bad = next((check for check in _checks(batch) if check.bad), None)
        if bad is not None and (self.non_finite != "propagate" or bad.error is not NonFiniteError):
            raise bad.error(bad.explain())
        if bad is not None:
            self.add_complaint(f"batch {number}: {bad.explain()}")
        return None if bad is not None else batch

    def _counting(self, batch: Outputs) -> Outputs:
        """Return the batch without ignored rows and, with the policy `ignore`, without those not finite."""
        counting = counting_rows(batch)
        if counting is not None:
            batch = _only(batch, counting)
        if self.non_finite == "ignore" and len(batch):
            finite = _finite_rows(batch)
            self._dropped = self._dropped + (~finite).sum()
            batch = _only(batch, finite)
        return batch

    def _defer(self, checks: Iterator[Check], number: int) -> None:
        """Store flags and rules only, so that no tensor of the batch stays alive."""
        for check in checks:
            self._flags.append(torch.as_tensor(check.bad).view(1))
            self._rules.append((number, sys.intern(check.rule)))
        if len(self._flags) - self._joined > _LOOSE:  # each takes as much memory as hundreds of joined ones
            self._flags[self._joined :] = [_join(self._flags[self._joined :])]
            self._joined = len(self._flags)

    def verdict(self) -> str | None:
        """Read all flags at once, which waits for the device, and return the first complaint, if any."""
        if self._flags:
            bad = zip(self._rules, _join(self._flags).tolist(), strict=True)
            found = next((f"batch {number}: {rule}" for (number, rule), is_bad in bad if is_bad), None)
            self.add_complaint(found)
            self._flags, self._rules, self._joined = [], [], 0
        return self._complaint


def _join(flags: list[Tensor]) -> Tensor:
    device = next((flag.device for flag in flags if not on_host(flag)), flags[0].device)
    return torch.cat([send_to(flag, device) for flag in flags])


def counting_rows(batch: Outputs) -> Tensor | None:
    """Return which rows count, (N,) bool: those whose target is not `ignore_index`; None if every row does.

    A row of a set counts if any of its labels is known.
    """
    if batch.known is not None:
        return batch.known.any(1)
    ignored: int | None = getattr(batch.feature, "ignore_index", None)
    if ignored is None or batch.feature.type not in _BY_ROW or not batch.has_target:
        return None
    return batch.target != ignored


def _within_range(batch: Outputs) -> Outputs:
    """Return a batch whose labels are clamped to their range; a flagged one would be an invalid index."""
    names = (*batch.given, *(("target",) if batch.has_target else ()))
    tops = {name: top for name in names for is_label, top in [labels_of(batch, name)] if is_label}
    if not tops:
        return batch
    ignored = getattr(batch.feature, "ignore_index", None)
    tensors = zip((*batch.given, "target", "weight"), batch.tensors, strict=False)
    return batch.of(
        _clamped(tensor, tops[name], ignored) if name in tops else tensor for name, tensor in tensors
    )


def _clamped(labels: Tensor, top: float, ignored: int | None) -> Tensor:
    """Return labels clamped to their range; nan becomes 0, and ignored labels stay."""
    if labels.dtype is torch.bool:
        return labels
    whole = not labels.is_floating_point()
    numbers = labels if whole else labels.nan_to_num(nan=0.0)
    top = min(top, torch.iinfo(labels.dtype).max if whole else torch.finfo(labels.dtype).max)
    within = numbers.clamp(0, top)
    return within if ignored is None else torch.where(labels == ignored, labels, within)


def _checks(batch: Outputs) -> Iterator[Check]:
    return ranking_checks(batch) if isinstance(batch, RankingBatch) else value_checks(batch)


def _only(batch: Outputs, keep: Tensor) -> Outputs:
    """Return the rows to keep; on a device, where counting them would wait, the others get weight 0."""
    if not on_host(keep):
        return batch.masked(keep)
    return batch if bool(keep.all()) else batch.rows(keep)


def _finite_rows(batch: Outputs) -> Tensor:
    if isinstance(batch, RankingBatch):
        return finite_rows(batch)
    values = [*batch.given.values(), batch.target, batch.soft, batch.weight]
    rows = [
        x.isfinite().reshape(len(batch), -1).all(1)
        for x in values
        if x is not None and x.dtype.is_floating_point
    ]
    return torch.stack([torch.ones(len(batch), dtype=torch.bool, device=batch.target.device), *rows]).all(0)


def _warn_of_probabilities(batch: Outputs) -> None:
    """Warn of class logits that look like the result of a softmax; Python shows it once for each line."""
    logits = batch.given.get(LOGITS) if batch.feature.type in _OF_CLASSES else None
    if logits is None or logits.shape[-1] < 2:
        return
    first = logits[(0,) * (logits.ndim - 1)]  # which spares nearly every batch the look at all others
    if bool(((first < 0) | (first > 1)).any()):
        return
    low, high = logits.aminmax()
    one_hot = bool(((logits == 0) | (logits == 1)).all()) if low == 0 and high == 1 else False
    if low >= 0 and high <= 1 and not one_hot and bool(((logits.sum(-1) - 1).abs() < _ROUNDING).all()):
        warnings.warn(
            "every row that was passed as logits= lies in [0, 1] and sums to 1, as probabilities do; pass a "
            "softmax output as probabilities=, or the values before the softmax as logits=",
            stacklevel=outside_level(),
        )
