"""TargetDigest: which rows a validation pass measured, as one number free of their order and batches."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

_ODD = (0x9E3779B97F4A7C15 - 2**64, 0xBF58476D1CE4E5B9 - 2**64, 0x94D049BB133111EB - 2**64)
"""Factors of splitmix64 (Steele et al. 2014, OOPSLA), as int64."""
_WHOLE = 2**64


class TargetDigest:
    """The sum of a hash of each row's target, modulo 2^64, and the number of rows.

    Two passes over the same rows have the same digest, however they are ordered and cut; other rows have
    another one. Tensors stay on their device, and nobody waits for them before `sums`.
    """

    def __init__(self) -> None:
        self._rows = 0
        self._total: int | Tensor = 0
        self._readable = True

    def add(self, target: Any, output: str | None = None) -> None:
        """Add the targets of a batch, a dense tensor, an array, or a list of numbers or texts.

        Any other target ends the digest: `sums` is None.

        Args:
            target: (N, ...) of one output.
            output: its name, where there are several.
        """
        hashes = _hashes_of(target) if self._readable else None
        if hashes is None:
            self._readable = False
            return
        self._rows += len(hashes)
        self._total = self._total + _mixed(hashes + zlib.crc32((output or "").encode())).sum()

    def sums(self) -> tuple[int, int] | None:
        """The rows and the sum of their hashes; None where a target could not be read."""
        return (self._rows, int(self._total) % _WHOLE) if self._readable else None


def digest_of(sums: Sequence[tuple[int, int] | None]) -> str | None:
    """Print what several processes have together; None without a row, or where one could not read.

    >>> digest = TargetDigest()
    >>> digest.add(torch.tensor([1, 0, 1]))
    >>> digest_of([digest.sums()])
    '3 rows 6553aed60802458c'
    """
    known = [one for one in sums if one is not None]
    rows = sum(rows for rows, _ in known)
    if not rows or len(known) < len(sums):
        return None
    return f"{rows} rows {sum(total for _, total in known) % _WHOLE:016x}"


def _hashes_of(target: Any) -> Tensor | None:
    """A hash of each row, (N,) int64; None of what cannot be read."""
    if isinstance(target, np.ndarray) and target.dtype != object:
        plain = target.dtype.kind in "biuf"
        target = torch.from_numpy(np.ascontiguousarray(target)) if plain else target.tolist()
    if isinstance(target, (list, tuple)):
        target = _of_list(target)
    if not isinstance(target, Tensor) or target.layout is not torch.strided or not target.ndim:
        return None
    values = target.detach()
    if values.is_complex() or values.is_quantized or values.is_nested:
        return None
    whole = (values.double() + 0.0).view(torch.int64) if values.is_floating_point() else values.long()
    columns = whole.reshape(len(whole), -1) if len(whole) else whole.reshape(0, 1)
    places = torch.arange(1, columns.shape[1] + 1, device=columns.device) * _ODD[0]
    return _mixed(columns + places).sum(1)


def _of_list(rows: Sequence[Any]) -> Tensor | None:
    """A list as numbers; of texts, or of lists of texts, their checksums."""
    if all(isinstance(row, (str, list, tuple)) for row in rows) and any(_has_text(row) for row in rows):
        return torch.tensor([zlib.crc32(repr(row).encode("utf8", "surrogatepass")) for row in rows])
    try:
        return torch.as_tensor(np.asarray(rows)) if rows else torch.zeros(0)
    except (TypeError, ValueError, RuntimeError):  # ragged, or mappings
        return None


def _has_text(row: Any) -> bool:
    return isinstance(row, str) or any(isinstance(part, str) for part in row)


def _mixed(values: Tensor) -> Tensor:
    """The finalizer of splitmix64, whose every output bit depends on every input bit."""
    values = (values ^ (values >> 30)) * _ODD[1]
    values = (values ^ (values >> 27)) * _ODD[2]
    return values ^ (values >> 31)
