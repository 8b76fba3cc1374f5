"""Watch the gradients, the learning rate and the speed of an optimizer without synchronizing."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from ..exceptions import MetricNameError, RunError
from ..metrics.registry.diagnostics import diagnostic
from ..metrics.registry.names import MetricName
from ..space.values import is_whole
from .throughput import Timer

try:
    import resource
except ImportError:  # there is none on Windows
    resource = None  # type: ignore[assignment]

_MIB = 2**20
_MAXRSS_UNIT = 1 if sys.platform == "darwin" else 2**10  # bytes there, KiB elsewhere

_AT_ONCE = 256  # norms that wait to be added up, so that a step adds nothing
_SKIPPED = -1.0  # stands for the norm of a step that a gradient scaler skips; no norm is negative
_ROUNDED = (torch.float16, torch.bfloat16)
RankValues = tuple[Mapping[str, float], Mapping[str, str]]
"""The values of one process, and why some are nan."""
_RULES: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": math.fsum,
    "mean": fmean,
    "max": max,
    "min": min,
    "first": lambda values: values[0],
}
Values = dict[str, float]
Reasons = dict[str, str]
_TOTAL = "total_train_updates"
_TRAIN = "train"


class Resources:
    """Measures epochs, one after the other."""

    def __init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        """Begin an epoch; the peak of the GPU memory is that of this epoch, so `torch`'s own is reset."""
        self._began = time.perf_counter()
        for device in _gpus_in_use():
            torch.cuda.reset_peak_memory_stats(device)

    def close(self) -> dict[str, float]:
        """Return this epoch's values and begin the next one.

        `epoch_time` in seconds; `peak_rss`, of the process since it began, in MiB, if the system reports it;
        `gpu_mem`, peak of what torch had allocated as a share of the GPUs it has used, where it has used any.
        """
        values = {"epoch_time": time.perf_counter() - self._began}
        if resource is not None:
            values["peak_rss"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _MAXRSS_UNIT / _MIB
        if gpus := _gpus_in_use():
            total = sum(torch.cuda.get_device_properties(gpu).total_memory for gpu in gpus)
            values["gpu_mem"] = sum(torch.cuda.max_memory_allocated(gpu) for gpu in gpus) / total
        self.restart()
        return values


def _gpus_in_use() -> list[int]:
    """Return the devices on which torch has allocated memory, without starting CUDA where it is not used."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return []
    return [gpu for gpu in range(torch.cuda.device_count()) if torch.cuda.max_memory_allocated(gpu)]


class Gradients:
    """The norms of a model's gradients over an epoch.

    Args:
        model: whose gradients are measured.
        max_norm: gradients are scaled down to this norm, as `torch.nn.utils.clip_grad_norm_` does; None
            leaves them as they are.
        every: measure one of so many steps that have gradients, and each one at which they are clipped or
            scaled. A norm that is not finite at another step is missed.
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

        A fused optimizer under a gradient scaler gets gradients that are still scaled, and the scale.
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
    """Return the L2 norm of all gradients as one vector, in at least 32 bits.

    As torch does, but gradients of one kind, as they nearly always are, are not sorted by kind.

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


def over_ranks(states: Sequence[RankValues]) -> RankValues:
    """Combine the values of processes in the order of ranks; those that lack a value do not count for it.

    A value that is nan on one rank is nan, with the rank in the reason.

    >>> over_ranks([({"gnorm": 1.0, "ups": 3.0}, {}), ({"gnorm": 2.0, "ups": 2.0}, {}), ({}, {})])
    ({'gnorm': 1.5, 'ups': 2.0}, {})
    """
    names = dict.fromkeys(name for values, _ in states for name in values)
    values = {name: _together(name, [own[name] for own, _ in states if name in own]) for name in names}
    reasons: dict[str, str] = {}
    for rank, (_, why) in enumerate(states):
        for name, reason in why.items():
            reasons.setdefault(name, f"rank {rank}: {reason}")
    return values, reasons


def _together(name: str, values: Sequence[float]) -> float:
    if any(map(math.isnan, values)):
        return math.nan
    entry = diagnostic(name)
    return _RULES["first" if entry is None else entry.over_ranks](values)


class Watch:
    """Measures an optimizer before and after each of its steps.

    Args:
        model: whose gradients are measured.
        optimizer: whose steps are counted.
        timer: counts the time of each step as training.
        max_norm: clips the gradients before each step; see `Gradients`.
        prefix: what the names of its values begin with.
        every: at which steps gradients are measured; see `Gradients`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        timer: Timer,
        max_norm: float | None = None,
        prefix: str = "",
        every: int = 1,
    ) -> None:
        self.prefix = prefix
        self._optimizer = optimizer
        self._gradients = Gradients(model, max_norm, every)
        self._timer = timer
        self._steps = self._steps_before = 0
        self._lr: Any = None
        self._hooks = (
            optimizer.register_step_pre_hook(self._before_step),
            optimizer.register_step_post_hook(self._after_step),
        )

    def go_on_after(self, values: Mapping[str, Any]) -> None:
        """Count updates on from the values of an epoch before."""
        self._steps_before = int(values.get(self.prefix + _TOTAL, 0))

    def close(self) -> tuple[Values, Reasons]:
        """Return this epoch's values, with the reason of each that is nan, and begin the next one.

        Always `lr`, of the first parameter group at the last step, and `total_train_updates`; after a step
        `ups` and `step_time`; after a step with gradients `gnorm`, and `clip` where they are clipped.
        """
        values, reasons, skipped = self._gradients.close()
        steps, self._steps = self._steps - skipped, 0
        self._steps_before += steps
        values["lr"] = float(self._rate() if self._lr is None else self._lr)
        values[_TOTAL] = float(self._steps_before)
        seconds = self._timer.seconds.get(_TRAIN, 0.0)
        if steps and seconds > 0:
            values["ups"], values["step_time"] = steps / seconds, seconds / steps
        self._lr = None
        return {self.prefix + name: value for name, value in values.items()}, {
            self.prefix + name: reason for name, reason in reasons.items()
        }

    def detach(self) -> None:
        """Remove the hooks from the optimizer."""
        for hook in self._hooks:
            hook.remove()

    def _rate(self) -> Any:
        rate = self._optimizer.param_groups[0]["lr"]
        return rate.detach().clone() if isinstance(rate, torch.Tensor) else rate

    def _before_step(self, *_: Any) -> None:
        self._gradients.take(self._optimizer)

    def _after_step(self, *_: Any) -> None:
        self._lr = self._rate()  # now: at the end of the epoch a schedule may have moved on
        self._steps += 1
        self._timer.mark(_TRAIN)


class Watches:
    """All watches of a run that has one, and the time and memory of its epochs.

    Attributes:
        timer: the seconds of this epoch by split.
    """

    def __init__(self) -> None:
        self.timer, self._resources = Timer(), Resources()
        self._watches: list[Watch] = []

    def add(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        max_norm: float | None = None,
        name: str | None = None,
        every: int = 1,
    ) -> Watch:
        """Watch an optimizer; its values are called `gnorm` ..., those of a named one `name.gnorm` ...

        Raises:
            RunError: another watch has the name, it cannot be part of one, or a number is out of range.
        """
        prefix = _prefix(name)
        if any(watch.prefix == prefix for watch in self._watches):
            head = "the run is already watched" if name is None else f"a watch is called {name!r}"
            raise RunError(f"{head}; give each further watch a name, as in watch(..., name='critic')")
        if max_norm is not None and not (math.isfinite(max_norm) and max_norm > 0):
            raise RunError(f"max_norm must be a finite number above 0, got {max_norm!r}")
        if not is_whole(every) or every < 1:
            raise RunError(f"every must be a whole number of steps, at least 1, got {every!r}")
        watch = Watch(model, optimizer, self.timer, max_norm, prefix, every)
        self._watches.append(watch)
        return watch

    def go_on_after(self, values: Mapping[str, Any]) -> None:
        """Count updates on from the values of an epoch before."""
        for watch in self._watches:
            watch.go_on_after(values)

    def restart(self) -> None:
        """Begin an epoch now, without the time before it."""
        self.timer.restart()
        self._resources.restart()

    def close(self) -> tuple[Values, Reasons]:
        """Return the values of this epoch, with the reason of each that is nan, and begin the next one."""
        values: Values = {}
        reasons: Reasons = {}
        for watch in self._watches:
            own, why = watch.close()
            values |= own
            reasons |= why
        values |= self._resources.close()
        self.timer.restart()
        return values, reasons

    def detach(self) -> None:
        """Remove the hooks from all optimizers."""
        for watch in self._watches:
            watch.detach()


def _prefix(name: str | None) -> str:
    if name is None:
        return ""
    try:
        read = MetricName.parse(f"{name}.{_TOTAL}")
    except MetricNameError:
        read = None
    if read != MetricName(_TOTAL, feature=name):
        raise RunError(f"the name of a watch must be letters, digits, _ and -, got {name!r}")
    return f"{name}."
