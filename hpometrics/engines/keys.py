"""Structural keys: equal for two values only if no code could distinguish them, types included."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import fractions
import functools
import hashlib
import math
import pathlib
import sys
import types
import uuid
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np

from ..exceptions import EngineParamsError

_SIMPLE = (type(None), type(Ellipsis), bool, int, str, bytes)
_PRINTED = (
    complex,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    datetime.timezone,
    decimal.Decimal,
    fractions.Fraction,
    pathlib.PurePath,
    range,
    slice,
    uuid.UUID,
)
_NAMED = (type, types.FunctionType, types.BuiltinFunctionType, np.ufunc, type(np.mean))


def structural_key(value: Any, path: str = "value") -> Hashable:
    """Return a hashable key of the type and the content of a value.

    `True`, `1` and `1.0` differ, and so do 0.0 and -0.0, a list and a tuple, `np.float64(1)` and `1.0`: where
    a type could matter to a stage it counts, and a key too fine costs time, not a wrong score. nan equals
    nan. The order of a dict does not matter. Arrays, tensors, dataclasses, named tuples and estimators of
    scikit-learn are compared by value, functions and classes by the name they can be imported under. All
    other objects must compare by value (`__eq__` with `__hash__`) or have a method `cache_key()` that returns
    such a value.

    Raises:
        EngineParamsError: the value, or one inside it, has only its identity; the message has its path.

    >>> structural_key({"a": 1, "b": [math.nan]}) == structural_key({"b": [math.nan], "a": 1})
    True
    >>> structural_key(1) == structural_key(True)
    False
    """
    try:
        return _key(value, path)
    except RecursionError:
        raise EngineParamsError(f"{path} contains itself; engine params must be finite") from None


def _key(value: Any, path: str) -> Hashable:
    kind = type(value)
    if kind in _SIMPLE:
        return kind, value
    if isinstance(value, enum.Enum):
        return kind, value.name
    if isinstance(value, np.generic) or kind is np.ndarray:
        return _array_key(value, path)
    if isinstance(value, float) and kind is float:
        return kind, "nan" if math.isnan(value) else value.hex()
    if isinstance(value, _PRINTED):
        return kind, repr(value)
    if isinstance(value, (dict, list, tuple, set, frozenset)):
        return _container_key(value, path)
    return _object_key(value, path)


def _container_key(value: Any, path: str) -> Hashable:
    kind = type(value)
    if kind is OrderedDict:
        return kind, tuple((_key(k, path), _key(v, f"{path}.{k}")) for k, v in value.items())
    if isinstance(value, dict) and (kind is dict or hasattr(kind, "__frozen__")):
        return dict, frozenset((_key(k, path), _key(v, f"{path}.{k}")) for k, v in value.items())
    if kind in (set, frozenset):
        return kind, frozenset(_key(item, path) for item in value)
    if kind in (list, tuple) or hasattr(kind, "_fields"):
        return kind, tuple(_key(item, f"{path}[{i}]") for i, item in enumerate(value))
    return _object_key(value, path)


def _object_key(value: Any, path: str) -> Hashable:
    """Return the key of an object with a structure of its own, by its most explicit definition."""
    kind = type(value)
    if isinstance(value, _NAMED):
        return _name_key(value, path)
    if callable(getattr(value, "cache_key", None)):
        return kind, _key(value.cache_key(), f"{path}.cache_key()")
    if isinstance(value, functools.partial):
        return kind, _key((value.func, value.args, value.keywords), path)
    if isinstance(value, types.MethodType):
        return kind, _key(value.__self__, path), value.__name__
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, (torch.dtype, torch.device)):
        return kind, str(value)
    if torch is not None and isinstance(value, torch.Tensor):
        return kind, str(value.device), value.requires_grad, _tensor_key(value, torch)
    if dataclasses.is_dataclass(value) or _is_estimator(kind):
        return kind, frozenset((name, _key(part, f"{path}.{name}")) for name, part in _parts(value).items())
    if _compares_by_value(kind):
        return kind, value
    raise EngineParamsError(
        f"{path}: a {kind.__module__}.{kind.__qualname__} cannot be compared, so the cache cannot use it. "
        "Make it a dataclass, give it a method cache_key() that returns the values it is built from, or "
        "pass those values and build it in the stage"
    )


def _name_key(value: Any, path: str) -> Hashable:
    """Return the name that a function or class is imported under, and its content, which may change."""
    name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value)}"
    owner = getattr(value, "__self__", None)
    if "<" in name or not (owner is None or isinstance(owner, (types.ModuleType, type))):
        raise EngineParamsError(
            f"{path}: {name} is defined inside a function, so two of them can differ under one name; "
            "define it at the top level of a module, or pass the values it closes over and build it in the "
            "stage"
        )
    if not isinstance(value, types.FunctionType):
        return type(value), value  # one object has this name
    closed_over = tuple(cell.cell_contents for cell in value.__closure__ or ())
    captured = (closed_over, value.__defaults__, value.__kwdefaults__)
    return types.FunctionType, name, value.__code__, _key(captured, f"{path}.__closure__")


def _array_key(value: np.generic | np.ndarray[Any, Any], path: str) -> Hashable:
    if value.dtype.hasobject:
        return type(value), value.shape, _key(value.tolist(), path)
    array = np.array(value)
    if array.dtype.kind in "fc":
        array[np.isnan(array)] = np.nan
    layout = str(array.dtype.descr if array.dtype.names else array.dtype.str)
    return type(value), layout, array.shape, hashlib.sha256(array.tobytes()).digest()


def _tensor_key(value: Any, torch: Any) -> Hashable:
    """Return a key of the bytes of a tensor, as NumPy has no bfloat16."""
    flat = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return str(value.dtype), tuple(value.shape), hashlib.sha256(flat.tobytes()).digest()


def _compares_by_value(kind: Any) -> bool:
    """Return whether a class defines `__eq__` and also `__hash__`, which Python sets to None otherwise."""
    return kind.__eq__ is not object.__eq__ and kind.__hash__ not in (None, object.__hash__)


def _is_estimator(kind: type) -> bool:
    return any(
        base.__module__ == "sklearn.base" and base.__name__ == "BaseEstimator" for base in kind.__mro__
    )


def _parts(value: Any) -> dict[str, Any]:
    """Return all attributes of a dataclass or an estimator, what a fitted one has learned included."""
    if dataclasses.is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return dict(vars(value))
