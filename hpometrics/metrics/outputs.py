"""Outputs: one batch of model outputs and its target; every other form is derived from it at most once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..exceptions import MetricInputError
from .features import (
    BINARY,
    CATEGORY,
    LOGITS,
    PREDICTIONS,
    PROBABILITIES,
    SEQUENCE,
    SET,
    TEXT,
    InputType,
    OutputFeature,
)

T = TypeVar("T")

_SIGMOID = (BINARY, SET)
_SOFTMAX = (CATEGORY, SEQUENCE, TEXT)
_SHORT, _MANY = (
    64,
    64,
)  # where log_softmax over the first dimension of a transposed copy is several times faster


class Outputs:
    """One batch: what the model gave, what was right, and everything derived from them.

    Args:
        feature: what the model predicts.
        logits, probabilities, predictions: what it gave; any one of them, or several.
        target: what was right.
        extras: whatever else the caller passes; it reaches the metrics that ask for it.

    Which output a tensor is, is said by its keyword and never guessed from its values.

    >>> from hpometrics.metrics.features import Binary
    >>> batch = Outputs(Binary(), logits=torch.tensor([2.0, -1.0]), target=torch.tensor([1, 1]))
    >>> batch.predictions.tolist()
    [1, 0]
    """

    __slots__ = ("_blocks", "extras", "feature", "given", "target")

    def __init__(
        self,
        feature: OutputFeature,
        *,
        logits: Any = None,
        probabilities: Any = None,
        predictions: Any = None,
        target: Any = None,
        **extras: Any,
    ) -> None:
        given = ((LOGITS, logits), (PROBABILITIES, probabilities), (PREDICTIONS, predictions))
        self.feature = feature
        self.given: dict[InputType, Tensor] = {kind: as_tensor(x) for kind, x in given if x is not None}
        if not self.given or target is None:
            missing = "target=" if self.given else "one of logits=, probabilities=, predictions="
            raise MetricInputError(
                f"an update needs {missing}; got {', '.join(self.given) or 'no model output'}"
            )
        self.target = as_tensor(target)
        self.extras: Mapping[str, Any] = extras
        self._blocks: dict[str, Any] = {}

    def __getitem__(self, kind: InputType) -> Tensor:
        return getattr(self, kind.value)  # type: ignore[no-any-return]  # a property of that name

    def __len__(self) -> int:
        return self.target.shape[0] if self.target.ndim else 0

    def require(self, kind: InputType, reader: str) -> None:
        """Make sure that a model output is given or can be derived.

        Raises:
            MetricInputError: it cannot; the message names the reader, what came and what to do.
        """
        if not derivable(kind, frozenset(self.given), self.feature):
            raise MetricInputError(f"{reader} reads {kind}: {_underivable(kind, self.given, self.feature)}")

    def block(self, name: str, make: Callable[[Outputs], T]) -> T:
        """Return what is kept under this name, made by `make(self)` the first time it is asked for."""
        if name not in self._blocks:
            self._blocks[name] = make(self)
        made: T = self._blocks[name]
        return made

    @property
    def logits(self) -> Tensor:
        """What the last layer gave, before any sigmoid or softmax; half precision is widened to float32.

        Raises:
            MetricInputError: only probabilities or predictions were given: logits cannot be had from them.
        """
        if LOGITS not in self.given:
            raise MetricInputError(_underivable(LOGITS, self.given, self.feature))
        return self.block("logits", lambda batch: widen(batch.given[LOGITS]))

    @property
    def probabilities(self) -> Tensor:
        """Sigmoid (binary, set) or softmax (category, sequence, text) of the logits, unless given."""
        return self.block("probabilities", _probabilities)

    @property
    def predictions(self) -> Tensor:
        """The decided values: 0 or 1, a class index, token ids, or real numbers, unless given."""
        return self.block("predictions", _predictions)

    @property
    def log_probabilities(self) -> Tensor:
        """Natural logarithm of the class probabilities; from logits without leaving log space.

        From given probabilities, values below the dtype's machine epsilon are taken as epsilon, as
        scikit-learn does.
        """
        return self.block("log_probabilities", _log_probabilities)

    @property
    def scores(self) -> Tensor:
        """What ranks: the logits if given (a sigmoid would tie large ones), else the probabilities."""
        return self.logits if LOGITS in self.given else self.probabilities

    @property
    def index(self) -> Tensor:
        """The target as int64."""
        return self.block("index", lambda batch: batch.target.long())

    @property
    def counted(self) -> Tensor:
        """Which positions of a sequence count, (N, T) bool: those whose target is not `ignore_index`."""
        return self.block("counted", _counted)


def derivable(kind: InputType, given: frozenset[InputType], feature: OutputFeature) -> bool:
    """Say whether a model output can be had from those given."""
    if kind in given:
        return True
    if feature.type not in (*_SIGMOID, *_SOFTMAX):
        return False
    return kind is not LOGITS and bool(
        given & ({LOGITS} if kind is PROBABILITIES else {LOGITS, PROBABILITIES})
    )


def _underivable(kind: InputType, given: Mapping[InputType, Tensor], feature: OutputFeature) -> str:
    ways = {
        LOGITS: "pass logits=",
        PROBABILITIES: "pass logits= or probabilities=",
        PREDICTIONS: "pass logits=, probabilities= or predictions=",
    }
    softmaxed = feature.type in (*_SIGMOID, *_SOFTMAX)
    todo = ways[kind] if softmaxed else f"pass {kind}="
    return f"{kind} of a {feature.type} output cannot be had from {' and '.join(given)}; {todo}"


def as_tensor(value: Any) -> Tensor:
    """Take a tensor as it is (detached), an array or a list as a tensor that shares no memory with it.

    Raises:
        MetricInputError: the value holds no numbers, or is ragged.
    """
    if isinstance(value, Tensor):
        return value.detach()
    try:
        return torch.tensor(np.asarray(value))  # which keeps the float64 of a list
    except (TypeError, ValueError, RuntimeError) as err:
        raise MetricInputError(
            f"a batch is a tensor, an array or a list of numbers, got {type(value).__name__}: {err}"
        ) from err


def widen(values: Tensor) -> Tensor:
    """Raise half precision to float32 and whole numbers to float64; float32 and float64 stay."""
    if values.dtype in (torch.float16, torch.bfloat16):
        return values.float()
    return values if values.is_floating_point() else values.double()


def _probabilities(batch: Outputs) -> Tensor:
    if PROBABILITIES in batch.given:
        return widen(batch.given[PROBABILITIES])
    if LOGITS not in batch.given or batch.feature.type not in (*_SIGMOID, *_SOFTMAX):
        raise MetricInputError(_underivable(PROBABILITIES, batch.given, batch.feature))
    if batch.feature.type in _SIGMOID:
        return batch.logits.sigmoid()
    return batch.log_probabilities.exp()


def _predictions(batch: Outputs) -> Tensor:
    if PREDICTIONS in batch.given:
        return batch.given[PREDICTIONS]
    if batch.feature.type in _SOFTMAX and batch.given:
        return batch.scores.argmax(-1)
    if batch.feature.type in _SIGMOID:
        return _decide(batch)
    raise MetricInputError(_underivable(PREDICTIONS, batch.given, batch.feature))


def _counted(batch: Outputs) -> Tensor:
    ignored: int = batch.feature.ignore_index  # type: ignore[attr-defined]  # a sequence or text has one
    return batch.index != ignored


def _decide(batch: Outputs) -> Tensor:
    """Compare in logit space where there are logits: the sigmoid of a large one is exactly 1."""
    threshold: float = batch.feature.threshold  # type: ignore[attr-defined]  # binary, set
    if LOGITS in batch.given:
        threshold = torch.logit(torch.tensor(threshold, dtype=torch.float64)).item()
    return (batch.scores > threshold).long()


def _log_probabilities(batch: Outputs) -> Tensor:
    if batch.feature.type not in _SOFTMAX:
        raise MetricInputError(
            f"log probabilities are of a class per row, not of a {batch.feature.type} output"
        )
    if LOGITS not in batch.given:
        probabilities = batch.probabilities
        return probabilities.clamp(min=torch.finfo(probabilities.dtype).eps).log()
    logits = batch.logits
    if logits.ndim == 2 and logits.shape[1] <= _SHORT and logits.shape[0] >= _MANY:
        return logits.t().contiguous().log_softmax(0).t()
    return logits.log_softmax(-1)
