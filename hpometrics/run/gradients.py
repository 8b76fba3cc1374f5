"""Gradients: their norm at each step, clipped if asked for, without a synchronisation."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

_AT_ONCE = 256  # norms that wait to be added up, so that a step adds nothing
_SKIPPED = -1.0  # stands for the norm of a step that a gradient scaler skips; no norm is negative
_ROUNDED = (torch.float16, torch.bfloat16)


class Gradients:
    """The norms of a model's gradients over an epoch.

    Args:
        model: whose gradients are measured.
        max_norm: gradients are scaled down to this norm, as `torch.nn.utils.clip_grad_norm_` does; None
            leaves them as they are.
        every: measure at the first of so many steps that have gradients, and at each one where they are
            clipped or scaled. What is not finite at another step is not seen.
    """

    _wait: int
    _parameters: list[torch.nn.Parameter] | None
    _waiting: list[Tensor]
    _sums: Tensor | None

    def __init__(self, model: torch.nn.Module, max_norm: float | None = None, every: int = 1) -> None:
        self._model, self._max_norm, self._every = model, max_norm, every
        self._forget()

    @torch.no_grad()
    def take(self, optimizer: torch.optim.Optimizer) -> None:
        """Measure the gradients that an optimizer is about to use, then clip them.

        A fused optimizer under a gradient scaler is given gradients that are still scaled, and the scale.
        """
        scale: Any = getattr(optimizer, "grad_scale", None)
        found_inf: Any = getattr(optimizer, "found_inf", None)
        self._wait -= 1
        if self._wait > 0 and self._max_norm is None and scale is None and found_inf is None:
            return
        if self._parameters is None:
            self._parameters = list(self._model.parameters())
        grads = [p.grad for p in self._parameters if p.grad is not None]
        if not grads:
            return
        self._wait = self._every
        norm = total_norm(grads)
        if scale is not None:
            norm = norm / scale.to(norm.device)
        if self._max_norm is not None:
            torch.nn.utils.clip_grads_with_norm_(self._parameters, self._max_norm, norm)
        if found_inf is not None:
            norm = torch.where(found_inf.to(norm.device) > 0, _SKIPPED, norm)
        self._waiting.append(norm.reshape(()))
        if len(self._waiting) == _AT_ONCE:
            self._add_up()

    def close(self) -> tuple[dict[str, float], dict[str, str], int]:
        """Return this epoch's `gnorm` and `clip`, why one is nan, and how many steps were skipped.

        Both are means over the steps that were measured.
        """
        self._add_up()
        sums = self._sums
        self._forget()
        if sums is None:
            return {}, {}, 0
        total, count, infinite, above, skipped = sums.tolist()
        values, reasons = {}, {}
        if count:
            values["gnorm"] = total / count if not infinite else torch.nan
            if self._max_norm is not None:
                values["clip"] = above / count
        if infinite:
            reasons["gnorm"] = f"the norm was not finite in {infinite:.0f} of {count:.0f} updates"
        return values, reasons, int(skipped)

    def _forget(self) -> None:
        self._wait = 0  # steps until one is measured
        self._parameters = None  # listed anew: layers may be replaced between epochs
        self._waiting = []
        self._sums = None

    @torch.no_grad()
    def _add_up(self) -> None:
        if not self._waiting:
            return
        norms = torch.stack(self._waiting).double()
        skipped = norms < 0
        sums = torch.stack(
            [
                norms.masked_fill(skipped, 0).sum(),
                (~skipped).sum(),
                (~norms.isfinite()).sum(),
                (norms > (torch.inf if self._max_norm is None else self._max_norm)).sum(),
                skipped.sum(),
            ]
        )
        self._sums = sums if self._sums is None else self._sums + sums
        self._waiting = []


def total_norm(grads: list[Tensor]) -> Tensor:
    """The L2 norm of all gradients as one vector, in at least 32 bits.

    What torch does, but for gradients of one kind, as they nearly always are, without sorting them by kind.

    >>> total_norm([torch.tensor([3.0, 0.0]), torch.tensor([[4.0]])])
    tensor(5.)
    """
    first = grads[0]
    if any(g.dtype is not first.dtype or g.device != first.device or g.is_sparse for g in grads):
        dense = [g.coalesce().values() if g.is_sparse else g for g in grads]
        return torch.nn.utils.get_total_norm(dense)
    dtype = torch.float32 if first.dtype in _ROUNDED else None
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(grads, 2, dtype=dtype)))
    return norm
