"""Waits: what makes the host wait for a device, found on any machine by tensors that have no values.

On an accelerator the host runs ahead of the device, until it reads a value, asks for something whose size the
data decide, or copies between the two without `non_blocking`. There `torch.cuda.set_sync_debug_mode` tells of
these; here a `meta` tensor, which has a shape and no values, stands for one on a device.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

_READING = {"_linalg_check_errors", "_linalg_eigh", "_linalg_svd", "isin", "linalg_eig"}
"""Operations that read a value on an accelerator, though they can be tried without values."""
_MAKING = {"as_tensor", "asarray", "new_tensor", "scalar_tensor", "tensor"}
_INDEXING = {"_index_put_impl_", "_unsafe_index", "index", "index_put", "index_put_"}


def away(batch: Mapping[str, Any]) -> dict[str, Any]:
    """Return a batch whose tensors are on a device; what is none, as texts and lists, stays on the host."""
    return {name: value.to("meta") if isinstance(value, Tensor) else value for name, value in batch.items()}


def waits_of(step: Callable[[], object]) -> list[str]:
    """Run a step over tensors that are `away`, and tell what in it would make the host wait.

    Returns:
        A line for each wait, in the order in which they come, with the line of code that makes it. A value
        that is read ends the step, as there is none.

    Raises:
        Exception: what the step raises for another reason than a value that is missing.

    >>> scores = torch.ones(2, device="meta")
    >>> waits_of(lambda: scores.topk(1))
    []
    >>> waits_of(lambda: scores.max().item())
    ['a value is read: Tensor.item() cannot be called on meta tensors']
    """
    found: list[str] = []
    with _Made(found), _Moved(found):
        try:
            step()
        except Exception as err:
            if (why := _missing(err)) is None:
                raise
            found.append(f"a value is read: {why}")
    return found


class _Made(TorchFunctionMode):
    """Watches for tensors that are made on the host, of numbers, to be copied to a device."""

    def __init__(self, found: list[str]) -> None:
        super().__init__()
        self._found = found

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = len(self._found)
        made = func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "")
        if len(self._found) == before and (_makes(name, args, made) or _takes_a_list(name, args)):
            self._found.append(f"{name} copies numbers to the device{_asked_at()}")
        return made


class _Moved(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Watches for copies between host and device, for masks as indices, and for what reads a value."""

    def __init__(self, found: list[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._found = found

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        made = func(*args, **kwargs)
        name = func._schema.name.partition("::")[2]
        both = [*_tensors((args, kwargs)), *_tensors(made)]
        if torch.Tag.pointwise in func.tags:  # a number of the host goes with the operation
            both = [tensor for tensor in both if tensor.ndim or _is_away(tensor)]
        if any(map(_is_away, both)):
            if not (all(map(_is_away, both)) or kwargs.get("non_blocking")):
                self._found.append(f"{name} copies between host and device{_asked_at()}")
            elif name in _READING or (name in _INDEXING and _counts(args)):
                self._found.append(f"{name} reads a value{_asked_at()}")
        return made


def _makes(name: str, args: tuple[Any, ...], made: Any) -> bool:
    """Whether a tensor on a device is made of something that was not there."""
    given = args[1 if name == "new_tensor" else 0] if name in _MAKING else None
    there = isinstance(given, Tensor) and _is_away(given)
    return name in _MAKING and isinstance(made, Tensor) and _is_away(made) and not there


def _takes_a_list(name: str, args: tuple[Any, ...]) -> bool:
    """Whether places of a tensor on a device are told by a list or an array."""
    if name not in ("__getitem__", "__setitem__") or not _is_away(args[0]):
        return False
    places = args[1] if isinstance(args[1], tuple) else (args[1],)
    return any(isinstance(place, list | np.ndarray) for place in places)


def _tensors(tree: Any) -> Iterator[Tensor]:
    return (leaf for leaf in tree_leaves(tree) if isinstance(leaf, Tensor))


def _is_away(tensor: Tensor) -> bool:
    return tensor.device.type != "cpu"


def _counts(args: tuple[Any, ...]) -> bool:
    """Whether the true places of a mask are counted: to fill them all with one number nobody needs to."""
    masks = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in args[1])
    return masks and not (len(args) > 2 and args[2].numel() == 1)


def _missing(err: BaseException | None) -> str | None:
    """What an exception says of a value that a tensor does not have; None if it is about something else."""
    while err is not None:
        if "meta tensor" in (said := str(err)).lower() or "register_meta" in said or "meta device" in said:
            return said.partition("\n")[0][:200]
        err = err.__cause__
    return None


def _asked_at() -> str:
    """The innermost line of code that is neither torch's nor here."""
    for frame in reversed(traceback.extract_stack()):
        if frame.filename != __file__ and "/torch/" not in frame.filename.replace("\\", "/"):
            return f", at {frame.filename}:{frame.lineno}"
    return ""
