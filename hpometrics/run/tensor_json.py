"""Tensors as strict JSON: type, shape and little-endian bytes, exact to the last bit and without pickle."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from .._redaction import excerpt
from ..exceptions import RecordError
from ..records._json import whole

_TYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
        torch.float16, torch.bfloat16, torch.float32, torch.float64,
    )
}  # fmt: skip
_MOST_AXES = 16
_MOST_OF_A_ROW = 1 << 24  # values: an empty tensor has no bytes to check its shape against


def tensor_to_json(tensor: Tensor) -> dict[str, Any]:
    """Write a tensor.

    >>> tensor_to_json(torch.tensor([[3, 1]], dtype=torch.uint8))
    {'type': 'uint8', 'shape': [1, 2], 'bytes': 'AwE='}
    """
    raw = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    name = str(tensor.dtype).removeprefix("torch.")
    return {"type": name, "shape": list(tensor.shape), "bytes": base64.b64encode(raw).decode("ascii")}


def tensor_from_json(told: Mapping[str, Any]) -> Tensor:
    """Read what `tensor_to_json` wrote.

    Raises:
        RecordError: it is something else.
    """
    try:
        dtype, shape = _TYPES[told["type"]], [whole(size) for size in told["shape"]]
        raw = base64.b64decode(told["bytes"], validate=True)
    except (KeyError, TypeError, ValueError, binascii.Error) as err:
        raise RecordError(f"no tensor: {excerpt(told, 80)}") from err
    if len(shape) > _MOST_AXES or math.prod(shape) * dtype.itemsize != len(raw):
        raise RecordError(f"no tensor: {len(raw)} bytes are not {told['type']} of shape {excerpt(shape, 80)}")
    if not raw:
        if math.prod(filter(None, shape)) > _MOST_OF_A_ROW:
            raise RecordError(
                f"no tensor: no rows of shape {excerpt(shape, 80)}, of which one would fill the memory"
            )
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(bytearray(raw), dtype=dtype).reshape(shape)
