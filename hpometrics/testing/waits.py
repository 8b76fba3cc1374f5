"""Operations that make the host wait for a device, found on any machine with tensors that have no values.

On an accelerator the host runs ahead of the device, until it reads a value, needs something whose size
depends on the data, or copies between the two without `non_blocking`. There `torch.cuda.set_sync_debug_mode`
reports these; here a `meta` tensor, which has a shape and no values, represents one on a device.
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator, Mapping
from numbers import Number
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from ..metrics._device import on_host

_READING = {
    "_linalg_check_errors", "_linalg_eigh", "_linalg_svd", "cholesky", "linalg_eig", "linalg_matrix_exp",
    "linalg_pinv", "multinomial", "segment_reduce",
}  # fmt: skip
"""Operations that read a value on an accelerator, though they run without values."""
_READING_OF = {
    "index_fill": "value", "index_fill_": "value", "isin": "test_elements", "linspace": "start",
    "masked_fill": "value", "masked_fill_": "value", "searchsorted": "sorter",
}  # fmt: skip
"""Operations that do so only for this argument, if it is a tensor."""
_SHOWING = {"__format__", "__repr__"}
"""Methods that print a tensor, which a tensor without values allows."""
_MAKING = {"as_tensor", "asarray", "new_tensor", "tensor"}
_PUTTING = {"_index_put_impl_", "index_put", "index_put_"}
_INDEXING = {"_unsafe_index", "index"} | _PUTTING
_OF_NO_VALUE = ("meta tensor", "register_meta", "meta device", "'meta' device", "sparsemeta")
_TORCH = f"{Path(torch.__file__).parent}{os.sep}"


def away(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch with its tensors on a device; all else, such as texts and lists, stays on the host."""
    return {name: value.to("meta") if isinstance(value, Tensor) else value for name, value in batch.items()}


def waits_of(step: Callable[[], object]) -> list[str]:
    """Run a step over tensors that are `away`, and return what in it would make the host wait.

    Returns:
        A line for each wait, in their order, with the line of code that causes it. Reading a value ends the
        step, as there is none, unless the step itself catches the error.

    Raises:
        Exception: what the step raises for another reason than a missing value.

    >>> scores = torch.ones(2, device="meta")
    >>> waits_of(lambda: scores.topk(1))
    []
    >>> waits_of(lambda: scores.max().item())[0].partition(", at ")[0]
    'a value is read: Tensor.item() cannot be called on meta tensors'
    """
    waits: list[str] = []
    watch = _CreationWatch(waits)
    with watch, _CopyWatch(waits):
        try:
            step()
        except Exception as err:
            if (missing := _missing(err)) is None:
                raise
            watch.note(missing)
    return waits


class _CreationWatch(TorchFunctionMode):
    """Detects tensors that are created from numbers of the host, and values that are read."""

    def __init__(self, waits: list[str]) -> None:
        super().__init__()
        self._waits = waits
        self._last: BaseException | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        before = len(self._waits)
        name = getattr(func, "__name__", "")
        try:
            if name in _SHOWING and _is_away(args[0]):
                raise NotImplementedError(f"Tensor.{name}() shows the values of meta tensors")
            result = func(*_as_on_a_device(name, args), **kwargs)
        except Exception as err:
            if (missing := _missing(err)) is not None:
                self.note(missing)
            raise
        is_copy = _is_copied_from_host(name, args, kwargs, result) or _is_indexed_by_list(name, args)
        if is_copy and len(self._waits) == before:
            self._waits.append(f"{name} copies numbers to the device{_caller()}")
        return result

    def note(self, missing: BaseException) -> None:
        """Record a value that is read, once, however far its error propagates."""
        if missing is not self._last:
            text = str(missing).partition("\n")[0][:200]
            self._waits.append(f"a value is read: {text}{_caller()}")
        self._last = missing


class _CopyWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Detects copies between host and device, masks as indices, and operations that read a value."""

    def __init__(self, waits: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._waits = waits

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        arguments = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False))
        arguments |= kwargs or {}
        both = [*_tensors(arguments), *_tensors(result)]
        if _ignores_numbers(func, name, arguments):
            both = [tensor for tensor in both if tensor.ndim or _is_away(tensor)]
        if any(map(_is_away, both)):
            reads_shape = name.endswith("_like") or name.startswith("new_")
            if not (all(map(_is_away, both)) or arguments.get("non_blocking") or reads_shape):
                self._waits.append(f"{name} copies between host and device{_caller()}")
            elif _reads(name, arguments):
                self._waits.append(f"{name} reads a value{_caller()}")
        return result


def _as_on_a_device(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the arguments of a function as on a device; a number that is assigned comes from the host."""
    if name != "__setitem__" or not _is_away(args[0]) or not isinstance(args[2], Number):
        return args
    return (*args[:2], torch.tensor(args[2], dtype=args[0].dtype, device="cpu"))


def _is_copied_from_host(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], result: Any) -> bool:
    """Return whether a tensor on a device is created from something on the host."""
    if name not in _MAKING or not (isinstance(result, Tensor) and _is_away(result)):
        return False
    own = args[1:] if name == "new_tensor" else args
    source = own[0] if own else kwargs.get("data", kwargs.get("obj"))
    return not (isinstance(source, Tensor) and _is_away(source))


def _is_indexed_by_list(name: str, args: tuple[Any, ...]) -> bool:
    """Return whether a tensor on a device is indexed by a list or an array."""
    if name not in ("__getitem__", "__setitem__") or not _is_away(args[0]):
        return False
    places = args[1] if isinstance(args[1], tuple) else (args[1],)
    return any(isinstance(place, list | tuple | range | np.ndarray) for place in places)


def _ignores_numbers(func: Any, name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether an operation takes a number of the host along without a copy."""
    if name in _PUTTING:
        return _fills(arguments)
    return name == "fill_" or (torch.Tag.pointwise in func.tags and name != "where")


def _reads(name: str, arguments: Mapping[str, Any]) -> bool:
    """Return whether an accelerator reads a value for an operation."""
    if name in _INDEXING:
        return bool(_masks(arguments)) and not _fills(arguments)
    if name == "histc":
        return bool(arguments.get("min", 0) == arguments.get("max", 0))
    return name in _READING or isinstance(arguments.get(_READING_OF.get(name, "")), Tensor)


def _masks(arguments: Mapping[str, Any]) -> list[Tensor]:
    """Return the indices that are masks, whose true places must be counted."""
    indices = (index for index in arguments["indices"] if index is not None)
    return [index for index in indices if index.dtype in (torch.bool, torch.uint8)]


def _fills(arguments: Mapping[str, Any]) -> bool:
    """Return whether the true places of a mask get one number of the host, which needs no count of them."""
    value, places = arguments.get("values"), [index for index in arguments["indices"] if index is not None]
    one = isinstance(value, Tensor) and value.numel() == 1 and not _is_away(value)
    return one and len(places) == 1 == len(_masks(arguments)) and not arguments.get("accumulate")


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def _is_away(tensor: Tensor) -> bool:
    return not on_host(tensor)


def _missing(err: BaseException | None) -> BaseException | None:
    """Return the error of a missing value in a chain of errors; None if there is none."""
    while err is not None:
        text = str(err).lower()
        if any(words in text for words in _OF_NO_VALUE):
            return err
        err = err.__cause__ or err.__context__
    return None


def _caller() -> str:
    """Return the innermost line of code that is neither in torch nor in this module."""
    for frame in reversed(traceback.extract_stack()):
        if frame.filename != __file__ and not frame.filename.startswith(_TORCH):
            return f", at {frame.filename}:{frame.lineno}"
    return ""
