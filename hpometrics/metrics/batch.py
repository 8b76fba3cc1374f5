"""A batch of model outputs and its target, from which every other form is derived at most once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from .._redaction import excerpt
from ..exceptions import MetricInputError
from ._derive import (
    Decided,
    array_of_column,
    class_scores_of,
    column_weight_of,
    counted_of,
    decided_of,
    derivable,
    distance,
    index_of,
    known_of,
    label_flags_of,
    log_probabilities_of,
    num_classes_of,
    predictions_of,
    probabilities_of,
    records_in,
    references_of,
    single_texts,
    texts_of,
    underivable,
    widen,
)
from ._device import on_host, send_to
from .features import LOGITS, PREDICTIONS, PROBABILITIES, InputType, OutputFeature

T = TypeVar("T")

_UNSIGNED = {torch.uint16, torch.uint32, torch.uint64}
_EIGHT_BITS = {
    torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz,
    getattr(torch, "float8_e8m0fnu", torch.float8_e5m2),  # torch 2.7 brings it
}  # fmt: skip
_PLAIN = {
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.bfloat16,
    torch.float32, torch.float64, torch.complex32, torch.complex64, torch.complex128,
}  # fmt: skip
"""Types that torch computes with; what reads real numbers refuses the complex ones itself."""
_NUMBERS = (bool, int, float, complex, np.number, np.bool_, Tensor)
_MISSING = ("NAType", "NaTType")  # of pandas

KEYWORDS = ("logits", "probabilities", "predictions", "target", "target_probabilities", "sample_weight")
"""The keyword arguments of an update that a batch reads itself; all others are extras."""
Kind = tuple[tuple[str, torch.dtype, torch.Size, torch.device], ...]
"""The name, dtype, shape of a row and device of each tensor of a batch."""


class Outputs:
    """One batch: the outputs of the model, the target, and everything derived from them.

    Args:
        feature: the output feature, which is what the model predicts.
        logits, probabilities, predictions: the outputs of the model: any one of them, or several forms of
            the same output. Each form is then read as it is; a metric that ranks, decides or takes a
            logarithm reads the logits where there are logits and probabilities. Texts are passed as
            `predictions`, a list of strings; boxes as a list of mappings.
        target: the right answers; of texts a list of strings, or a list of references for each.
        target_probabilities: soft labels, in the shape of the probabilities, beside `target` or alone.
        sample_weight: the weight of each row, (N,) from 0; without it each row counts 1.
        extras: all other keyword arguments, which reach the metrics that ask for them.

    The keyword says which output a tensor is; this is never guessed from the values.

    >>> from hpometrics.metrics.features import Binary
    >>> batch = Outputs(Binary(), logits=torch.tensor([2.0, -1.0]), target=torch.tensor([1, 1]))
    >>> batch.predictions.tolist()
    [1, 0]
    """

    __slots__ = ("_blocks", "_kind", "extras", "feature", "given", "records", "soft", "target", "weight")

    def __init__(
        self,
        feature: OutputFeature,
        *,
        logits: Any = None,
        probabilities: Any = None,
        predictions: Any = None,
        target: Any = None,
        target_probabilities: Any = None,
        sample_weight: Any = None,
        **extras: Any,
    ) -> None:
        self.feature = feature
        self.records: dict[str, list[Any]] = records_in(feature, predictions=predictions, target=target)
        predictions = None if "predictions" in self.records else predictions
        outputs = ((LOGITS, logits), (PROBABILITIES, probabilities), (PREDICTIONS, predictions))
        self.given: dict[InputType, Tensor] = {
            kind: as_tensor(x, f"{kind}=") for kind, x in outputs if x is not None
        }
        soft, weight = target_probabilities, sample_weight
        self.soft: Tensor | None = None if soft is None else as_tensor(soft, "target_probabilities=")
        self.extras: Mapping[str, Any] = extras
        self.target: Tensor = self._target_of(target)
        self.weight: Tensor | None = None
        if weight is not None:  # a loader may have left them on the host
            self.weight = send_to(as_tensor(weight, "sample_weight="), self.target.device).double()
        self._blocks: dict[Hashable, Any] = {}
        self._kind: Kind | Literal[False] | None = None

    def _target_of(self, target: Any) -> Tensor:
        """Return the target tensor, or a tensor in its place with the right number of rows."""
        outputs = [*self.given, *(name for name in self.records if name == PREDICTIONS)]
        if not outputs:
            raise MetricInputError(
                "an update needs one of logits=, probabilities=, predictions=; got no model output"
                + (f" but {', '.join(f'{name}=' for name in self.extras)}" if self.extras else "")
            )
        if "target" in self.records:
            return torch.zeros(len(self.records["target"]), dtype=torch.int64)
        if target is None and self.soft is None:
            raise MetricInputError(f"an update needs target=; got {', '.join([*outputs, *self.extras])}")
        return self.soft if target is None else as_tensor(target, "target=")  # type: ignore[return-value]  # one is given

    def __getitem__(self, kind: InputType) -> Any:
        return self.records[kind] if kind in self.records else getattr(self, kind.value)

    def __len__(self) -> int:
        return self.target.shape[0] if self.target.ndim else 0

    @property
    def weights(self) -> Tensor:
        """The weight of each row, (N,) float64: 1 where no weights were passed."""
        if self.weight is not None:
            return self.weight
        return torch.ones(len(self), dtype=torch.float64, device=self.target.device)

    @property
    def has_target(self) -> bool:
        """Whether a target tensor was passed; otherwise soft labels or texts are the right answers."""
        return self.target is not self.soft and "target" not in self.records

    @property
    def answer(self) -> Any:
        """The target in the form in which it was passed: a tensor, or a list of texts or mappings."""
        return self.records.get("target", self.target)

    @property
    def texts(self) -> list[str]:
        """The predicted texts: the predictions, or the extra `texts` beside token ids.

        Raises:
            MetricInputError: neither was passed, or an entry is not a text.
        """
        return self.block("texts", lambda batch: texts_of(*batch._listed("predictions", "texts")))

    @property
    def references(self) -> list[tuple[str, ...]]:
        """The right texts of each row: the target, or the extra `references` beside token ids.

        Raises:
            MetricInputError: neither was passed, or a row has no reference.
        """
        single = self.single_references
        if single is not None:
            return self.block("references", lambda batch: [(text,) for text in single])
        return self.block("references", lambda batch: references_of(*batch._listed("target", "references")))

    @property
    def single_references(self) -> list[str] | None:
        """The right text of each row if every row has one, passed as a text; None if a row has a list.

        Raises:
            MetricInputError: as for `references`, if there are none at all.
        """
        return self.block(
            "single references", lambda batch: single_texts(batch._listed("target", "references")[0])
        )

    def _listed(self, name: str, extra: str) -> tuple[Any, str]:
        if extra in self.extras and name in self.records:
            raise MetricInputError(f"texts were passed twice, as {name}= and as {extra}=; leave one out")
        for texts_by_name, key in ((self.extras, extra), (self.records, name)):
            if key in texts_by_name:
                return texts_by_name[key], key
        raise MetricInputError(
            f"expected texts as {name}=[...], or beside token ids as {extra}=[...]; got token ids only"
        )

    @property
    def elements(self) -> int:
        """The number of elements of the largest output."""
        return max([output.numel() for output in self.given.values()], default=0)

    @property
    def kind(self) -> Kind | None:
        """The kind of the batch: rows of one kind may be joined; None if it has more than plain tensors.

        It is the name, dtype, device and shape, but for the number of rows, of outputs, target and weight.
        """
        if self._kind is None:
            self._kind = _kind_of(self) or False
        return self._kind or None

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The tensors of a batch that has a kind: outputs, target, and weights if there are any."""
        parts = (*self.given.values(), self.target)
        return parts if self.weight is None else (*parts, self.weight)

    def of(self, tensors: Iterable[Tensor]) -> Self:
        """Return a batch of the same kind with other tensors, in the order of `tensors`."""
        *parts, last = tensors
        weight = None if self.weight is None else last
        part = self._with(target=last if weight is None else parts.pop(), weight=weight)
        part.given = dict(zip(self.given, parts, strict=True))
        part._kind = self._kind
        return part

    def blocks(self, elements: int) -> Iterator[Self]:
        """Yield the rows of a batch of plain tensors in blocks of about so many elements."""
        if self.elements <= elements:
            yield self
            return
        rows = max(1, len(self) * elements // self.elements)
        for parts in zip(*(torch.split(tensor, rows) for tensor in self.tensors), strict=True):
            yield self.of(parts)

    def rows(self, keep: Tensor) -> Self:
        """Return the batch of the rows for which `keep`, (N,) bool, is true."""
        cut = partial(select_rows, places=keep.nonzero().squeeze(1), size=len(self))
        alone = self.target is self.soft
        part = self._with(target=cut(self.target), weight=cut(self.weight))
        part.given = {kind: cut(tensor) for kind, tensor in self.given.items()}
        part.records = {name: cut(records) for name, records in self.records.items()}
        part.extras = {name: cut(value) for name, value in self.extras.items()}
        part.soft = part.target if alone else cut(self.soft)
        return part

    def masked(self, keep: Tensor) -> Self:
        """Return the same rows, where those not to keep have weight 0; this does not wait for the device."""
        weight = keep.double() if self.weight is None else torch.where(keep, self.weight, 0.0)
        share = 1 / self.num_classes if self.num_classes else 0  # probabilities still sum to 1

        def blank(values: Tensor, number: float = 0) -> Tensor:
            number = number if values.is_floating_point() else 0
            return values.masked_fill(~keep.view(-1, *[1] * (values.ndim - 1)), number)

        soft = None if self.soft is None else blank(self.soft, share)
        target = blank(self.target) if soft is None or self.target is not self.soft else soft
        part = self._with(target=target, weight=weight)
        part.given = {kind: blank(x, share if kind is PROBABILITIES else 0) for kind, x in self.given.items()}
        part.soft = soft
        return part

    def _with(self, *, target: Tensor, weight: Tensor | None) -> Self:
        part = type(self).__new__(type(self))  # copy.copy would cost more than many a batch
        part.feature, part.given, part.soft = self.feature, self.given, self.soft
        part.records, part.extras = self.records, self.extras
        part.target, part.weight, part._blocks, part._kind = target, weight, {}, None
        return part

    def require(self, kind: InputType, reader: str) -> None:
        """Raise unless the batch has a model output or can derive it.

        Raises:
            MetricInputError: it cannot; the message names the reader, the outputs and how to mend them.
        """
        if kind not in self.records and not derivable(kind, frozenset(self.given), self.feature):
            raise MetricInputError(f"{reader} reads {kind}: {underivable(kind, self.given, self.feature)}")

    def block(self, name: Hashable, make: Callable[[Outputs], T]) -> T:
        """Return the value stored under a name; the first call stores `make(self)`."""
        if name not in self._blocks:
            self._blocks[name] = make(self)
        value: T = self._blocks[name]
        return value

    @property
    def logits(self) -> Tensor:
        """The output of the last layer, before any sigmoid or softmax; half precision becomes float32.

        Raises:
            MetricInputError: there are only probabilities or predictions, from which logits do not follow.
        """
        if LOGITS not in self.given:
            raise MetricInputError(underivable(LOGITS, self.given, self.feature))
        return self.block("logits", lambda batch: widen(batch.given[LOGITS]))

    @property
    def probabilities(self) -> Tensor:
        """The probabilities; else the sigmoid (binary, set) or softmax (classes) of the logits."""
        return self.block("probabilities", probabilities_of)

    @property
    def predictions(self) -> Tensor:
        """The predictions, or those that scores decide: 0 or 1, a class index, token ids or real numbers."""
        predictions = self.given.get(PREDICTIONS)
        return self.block("predictions", predictions_of) if predictions is None else predictions

    @property
    def log_probabilities(self) -> Tensor:
        """The natural logarithm of the class probabilities; from logits without leaving log space.

        Without logits, probabilities below the dtype's machine epsilon count as epsilon, as in scikit-learn.
        """
        return self.block("log_probabilities", log_probabilities_of)

    @property
    def scores(self) -> Tensor:
        """The scores that rank: logits if there are any (a sigmoid ties large ones), else probabilities."""
        return self.logits if LOGITS in self.given else self.probabilities

    @property
    def class_scores(self) -> Tensor:
        """The scores that rank the rows of each class, from logits: monotone in p, but never saturated."""
        return self.block("class_scores", class_scores_of)

    @property
    def index(self) -> Tensor:
        """The target as int64."""
        return self.block("index", index_of)

    @property
    def counted(self) -> Tensor:
        """Which positions count, bool in the target's shape: those whose target is not `ignore_index`."""
        return self.block("counted", counted_of)

    @property
    def known(self) -> Tensor | None:
        """Which labels of a set are known, (N, L) bool: all but `ignore_index`; None where every one is."""
        return self.block("known", known_of)

    @property
    def outcome(self) -> Tensor:
        """The target of yes-or-no questions, 0 or 1; an unknown label is 0."""
        known_labels = self.known
        if known_labels is None:
            return self.target
        return self.block("outcome", lambda batch: batch.target.masked_fill(~known_labels, 0))

    def column_weight(self, columns: int) -> Tensor | None:
        """Return the weight of each class or label of each row, (N, columns) float64; None if each counts 1.

        An unknown label has weight 0.
        """
        return column_weight_of(self, columns)

    @property
    def decided(self) -> Decided:
        """Target and predicted class of every position that counts, with their weights."""
        return self.block("decided", decided_of)

    @property
    def label_flags(self) -> tuple[Tensor, Tensor]:
        """Predicted and right labels of a set, (N, L) float32 of 0 and 1, which add up faster than bools.

        An unknown label is 0 in both.
        """
        return self.block("label_flags", label_flags_of)

    @property
    def wrong_labels(self) -> Tensor:
        """The number of wrongly predicted labels in each row of a set, (N,) float32."""
        return self.block("wrong_labels", lambda batch: distance(*batch.label_flags))

    @property
    def num_classes(self) -> int | None:
        """The number of classes of the scores; None without scores, or for yes or no."""
        return num_classes_of(self)


def _kind_of(batch: Outputs) -> Kind | None:
    """Return the kind of a batch; None if its tensors differ in their number of rows."""
    if batch.extras or batch.records or batch.soft is not None:
        return None
    tensors = list(zip((*batch.given, "target", "weight"), batch.tensors, strict=False))
    rows = batch.target.shape[:1]
    if any(tensor.shape[:1] != rows or not rows for _, tensor in tensors):
        return None
    return tuple((name, tensor.dtype, tensor.shape[1:], tensor.device) for name, tensor in tensors)


def select_rows(value: Any, places: Tensor, size: int) -> Any:
    """Return some rows of a value with an entry per row of a batch; any other value unchanged.

    Args:
        value: a tensor, an array, a column of a table, a list, or a value of the batch as a whole.
        places: (M,) the numbers of the rows.
        size: the number of rows of the batch.
    """
    array = array_of_column(value)
    if isinstance(array, (Tensor, np.ndarray)):
        return array[places] if array.ndim and len(array) == size else value
    by_row = isinstance(value, (list, tuple)) and len(value) == size
    return [value[i] for i in places.tolist()] if by_row else value


def as_tensor(value: Any, name: str = "a batch") -> Tensor:
    """Return a tensor detached, and an array or a list as a new tensor that shares no memory with it.

    Unsigned integers of more than 8 bits become int64 and floats of 8 bits float32: torch cannot compute
    with them.

    Raises:
        MetricInputError: the value has no numbers, is ragged, nested, sparse, masked or quantized, or has
            integers from 2**63; the message begins with `name`.
    """
    if isinstance(value, Tensor):
        if value.is_nested:
            raise MetricInputError(f"{name} must be a dense tensor, got a nested one; pad its rows")
        if value.layout is not torch.strided:
            layout = str(value.layout).removeprefix("torch.")
            raise MetricInputError(f"{name} must be a dense tensor, got a {layout} one; pass x.to_dense()")
        return _computable(value.detach().resolve_neg(), name)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        hidden = int(np.ma.getmaskarray(value).sum())
        raise MetricInputError(f"{name} is an array with {hidden} masked values; leave out their rows")
    if isinstance(value, (list, tuple)) and value and isinstance(value[0], Tensor):
        return _stacked(value, name)
    try:
        array = np.asarray(value, order="C")  # which keeps the float64 of a list; torch reads no other order
        if array.dtype == object and array.ndim:  # as a column of pandas may be, whatever it holds
            array = np.asarray(array.tolist())
        tensor = torch.tensor(array.astype(array.dtype.newbyteorder("="), copy=False))
    except (TypeError, ValueError, RuntimeError) as err:
        got = f"{name} must be a tensor, an array or a list of numbers, got {type(value).__name__}"
        if "inhomogeneous" in str(err):
            raise MetricInputError(f"{got} whose rows differ in length; pad the shorter ones") from err
        raise MetricInputError(f"{got}{_lacking(value) or f' ({err})'}") from err
    return _computable(tensor, name)


def _stacked(tensors: Sequence[Any], name: str) -> Tensor:
    """Stack tensors as rows, on the device where they are.

    Raises:
        MetricInputError: they differ in shape, or are on several devices.
    """
    rows = [as_tensor(tensor, name) for tensor in tensors]
    kinds = {"shape": {str(tuple(row.shape)) for row in rows}, "device": {str(row.device) for row in rows}}
    for kind, values in kinds.items():
        if len(values) > 1:
            first_values = " and ".join(sorted(values)[:4])
            raise MetricInputError(f"{name} must be a list of tensors of one {kind}, got {first_values}")
    return torch.stack(rows)


def _computable(tensor: Tensor, name: str) -> Tensor:
    """Convert numbers to a type that torch computes with: unsigned ones to int64, 8-bit floats to float32.

    On a device the check of labels finds unsigned numbers that are too large.
    """
    if tensor.dtype in _PLAIN:
        return tensor
    if tensor.dtype in _EIGHT_BITS:
        return tensor.float()
    if tensor.dtype not in _UNSIGNED:
        dtype = str(tensor.dtype).removeprefix("torch.")
        hint = "x.dequantize()" if tensor.is_quantized else "them as float32 or int64"
        raise MetricInputError(f"{name} holds numbers of type {dtype}, which are not supported; pass {hint}")
    signed = tensor.long()
    if tensor.dtype is torch.uint64 and on_host(tensor) and (signed < 0).any():
        raise MetricInputError(
            f"{name} must hold whole numbers below 2**63, got {int(signed[signed < 0][0]) + 2**64}; number "
            "labels from 0, and pass larger numbers as float64"
        )
    return signed


def _lacking(value: Any) -> str | None:
    """Return what stands in the place of a number and a hint; None if the numbers themselves are at fault."""
    if getattr(getattr(value, "dtype", None), "kind", None) in ("m", "M"):
        return f" of {value.dtype}; pass times as numbers, such as seconds"
    entries = value if isinstance(value, (list, tuple, np.ndarray)) else np.asarray(value, dtype=object)
    if isinstance(entries, np.ndarray) and not entries.ndim:
        return "; pass it as a list or an array" if isinstance(value, Iterable) else None
    odd: Any = next((entry for entry in _entries(entries) if not isinstance(entry, _NUMBERS)), 0)
    if isinstance(odd, str):
        return (
            f" with the text {excerpt(odd, 30)!r}; map each text to a whole number, the same in every batch"
        )
    if odd is None or type(odd).__name__ in _MISSING:
        return f" with {odd}; leave out missing values"
    if isinstance(odd, _NUMBERS):
        return None
    return f" with {excerpt(odd, 30)}, a {type(odd).__name__}; use a float instead"


def _entries(value: Any) -> Iterator[Any]:
    """Yield the entries of a list of lists, one after the other."""
    if isinstance(value, (list, tuple, np.ndarray)):
        for part in value:
            yield from _entries(part)
    else:
        yield value
