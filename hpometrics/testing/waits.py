"""Waits: what makes the host wait for a device, found on any machine by tensors that have no values.

On an accelerator the host runs ahead of the device, until it reads a value, asks for something whose size the
data decide, or copies between the two without `non_blocking`. There `torch.cuda.set_sync_debug_mode` tells of
these; here a `meta` tensor, which has a shape and no values, stands for one on a device.
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
"""Operations that read a value on an accelerator, though they can be tried without values."""
_READING_OF = {
    "index_fill": "value", "index_fill_": "value", "isin": "test_elements", "linspace": "start",
    "masked_fill": "value", "masked_fill_": "value", "searchsorted": "sorter",
}  # fmt: skip
"""The same of operations that read only what is given for this argument, if it is a tensor."""
_SHOWING = {"__format__", "__repr__"}
"""What shows a tensor, which one without values allows."""
_MAKING = {"as_tensor", "asarray", "new_tensor", "tensor"}
_PUTTING = {"_index_put_impl_", "index_put", "index_put_"}
_INDEXING = {"_unsafe_index", "index"} | _PUTTING
_OF_NO_VALUE = ("meta tensor", "register_meta", "meta device", "'meta' device", "sparsemeta")
_TORCH = f"{Path(torch.__file__).parent}{os.sep}"


def away(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch whose tensors are on a device; what is none, as texts and lists, stays on the host."""
    return {name: value.to("meta") if isinstance(value, Tensor) else value for name, value in batch.items()}


def waits_of(step: Callable[[], object]) -> list[str]:
    """Run a step over tensors that are `away`, and tell what in it would make the host wait.

    Returns:
        A line for each wait, in the order in which they come, with the line of code that makes it. A value
        that is read ends the step, as there is none, unless the step itself goes on after the error.

    Raises:
        Exception: what the step raises for another reason than a value that is missing.

    >>> scores = torch.ones(2, device="meta")
    >>> waits_of(lambda: scores.topk(1))
    []
    >>> waits_of(lambda: scores.max().item())[0].partition(", at ")[0]
    'a value is read: Tensor.item() cannot be called on meta tensors'
    """
    found: list[str] = []
    made = _Made(found)
    with made, _Moved(found):
        try:
            step()
        except Exception as err:
            if (missing := _missing(err)) is None:
                raise
            made.note(missing)
    return found


class _Made(TorchFunctionMode):
    """Watches for tensors that are made of numbers of the host, and for values that are read."""

    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self._found = found
        self._noted: BaseException | None = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        before = len(self._found)
        name = getattr(func, "__name__", "")
        try:
            if name in _SHOWING and _is_away(args[0]):
                raise NotImplementedError(f"Tensor.{name}() shows the values of meta tensors")
            made = func(*_as_on_a_device(name, args), **kwargs)
        except Exception as err:
            if (missing := _missing(err)) is not None:
                self.note(missing)
            raise
        if len(self._found) == before and (_makes(name, args, kwargs, made) or _takes_a_list(name, args)):
            self._found.append(f"{name} copies numbers to the device{_asked_at()}")
        return made

    def note(self, missing: BaseException) -> None:
        """Tell of a value that is read, once, however far its error goes."""
        if missing is not self._noted:
            said = str(missing).partition("\n")[0][:200]
            self._found.append(f"a value is read: {said}{_asked_at()}")
        self._noted = missing


class _Moved(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches for copies between host and device, for masks as indices, and for what reads a value."""

    def __init__(self, found: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        told = dict(zip((argument.name for argument in func._schema.arguments), args, strict=False))
        told |= kwargs or {}
        both = [*_tensors(told), *_tensors(made)]
        if _takes_numbers(func, name, told):
            both = [tensor for tensor in both if tensor.ndim or _is_away(tensor)]
        if any(map(_is_away, both)):
            if not (all(map(_is_away, both)) or told.get("non_blocking") or _is_shaped(name)):
                self._found.append(f"{name} copies between host and device{_asked_at()}")
            elif _reads(name, told):
                self._found.append(f"{name} reads a value{_asked_at()}")
        return made


def _as_on_a_device(name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    """Arguments of a function; a number that is put in places of a tensor goes there from the host."""
    if name != "__setitem__" or not _is_away(args[0]) or not isinstance(args[2], Number):
        return args
    return (*args[:2], torch.tensor(args[2], dtype=args[0].dtype, device="cpu"))


def _makes(name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], made: Any) -> bool:
    """Whether a tensor on a device is made of something that was not there."""
    if name not in _MAKING or not (isinstance(made, Tensor) and _is_away(made)):
        return False
    own = args[1:] if name == "new_tensor" else args
    given = own[0] if own else kwargs.get("data", kwargs.get("obj"))
    return not (isinstance(given, Tensor) and _is_away(given))


def _takes_a_list(name: str, args: tuple[Any, ...]) -> bool:
    """Whether places of a tensor on a device are told by a list or an array."""
    if name not in ("__getitem__", "__setitem__") or not _is_away(args[0]):
        return False
    places = args[1] if isinstance(args[1], tuple) else (args[1],)
    return any(isinstance(place, list | tuple | range | np.ndarray) for place in places)


def _takes_numbers(func: Any, name: str, told: Mapping[str, Any]) -> bool:
    """Whether a number of the host goes with the operation, without a copy."""
    if name in _PUTTING:
        return _fills(told)
    return name == "fill_" or (torch.Tag.pointwise in func.tags and name != "where")


def _is_shaped(name: str) -> bool:
    """Whether the operation reads nothing of a tensor but its shape, to make another one."""
    return name.endswith("_like") or name.startswith("new_")


def _reads(name: str, told: Mapping[str, Any]) -> bool:
    """Whether an accelerator reads a value for the operation."""
    if name in _INDEXING:
        return bool(_masks(told)) and not _fills(told)
    if name == "histc":
        return bool(told.get("min", 0) == told.get("max", 0))
    return name in _READING or isinstance(told.get(_READING_OF.get(name, "")), Tensor)


def _masks(told: Mapping[str, Any]) -> list[Tensor]:
    """The indices whose true places are to be counted."""
    given = (index for index in told["indices"] if index is not None)
    return [index for index in given if index.dtype in (torch.bool, torch.uint8)]


def _fills(told: Mapping[str, Any]) -> bool:
    """Whether the true places of a mask get one number of the host: nobody needs to count them."""
    value, places = told.get("values"), [index for index in told["indices"] if index is not None]
    one = isinstance(value, Tensor) and value.numel() == 1 and not _is_away(value)
    return one and len(places) == 1 == len(_masks(told)) and not told.get("accumulate")


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def _is_away(tensor: Tensor) -> bool:
    return not on_host(tensor)


def _missing(err: BaseException | None) -> BaseException | None:
    """The error of a value that a tensor does not have, of which another one comes; None if there is none."""
    while err is not None:
        said = str(err).lower()
        if any(words in said for words in _OF_NO_VALUE):
            return err
        err = err.__cause__ or err.__context__
    return None


def _asked_at() -> str:
    """The innermost line of code that is neither torch's nor here."""
    for frame in reversed(traceback.extract_stack()):
        if frame.filename != __file__ and not frame.filename.startswith(_TORCH):
            return f", at {frame.filename}:{frame.lineno}"
    return ""
