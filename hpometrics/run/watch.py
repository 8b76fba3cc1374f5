"""Watch: gradient norm, learning rate and updates per second of an optimizer, without a synchronisation."""

from __future__ import annotations

import time
from typing import Any

import torch
from torch import Tensor


class Watch:
    """Looks at an optimizer just before each of its steps.

    Args:
        model: whose gradients are measured.
        optimizer: whose steps are counted.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._model, self._optimizer = model, optimizer
        self._steps, self._began = 0, time.perf_counter()
        self._norms: Tensor | None = None
        self._hook = optimizer.register_step_pre_hook(self._before_step)

    def close(self) -> dict[str, float]:
        """Return this epoch's means and begin the next one.

        `gnorm`: mean norm of the gradient; `lr`: of the first parameter group; `ups`: updates per second.
        An epoch without an update has neither `gnorm` nor `ups`.
        """
        now = time.perf_counter()
        values = {"lr": float(self._optimizer.param_groups[0]["lr"])}
        if self._norms is not None:
            values["gnorm"] = self._norms.item() / self._steps
            values["ups"] = self._steps / max(now - self._began, 1e-9)
        self._steps, self._began, self._norms = 0, now, None
        return values

    def detach(self) -> None:
        """Stop looking."""
        self._hook.remove()

    def _before_step(self, *_: Any) -> None:
        grads = [p.grad.detach() for p in self._model.parameters() if p.grad is not None]
        if grads:
            norm = torch.nn.utils.get_total_norm(grads)
            self._norms = norm if self._norms is None else self._norms + norm
            self._steps += 1
