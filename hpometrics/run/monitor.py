"""Watch: gradients, learning rate and speed of an optimizer, without a synchronisation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from ..exceptions import MetricNameError, RunError
from ..metrics.registry.names import MetricName
from ..space.values import is_whole
from .gradients import Gradients
from .laps import Laps
from .resources import Resources

Values = dict[str, float]
Reasons = dict[str, str]

_TOTAL = "total_train_updates"
_TRAIN = "train"


class Watch:
    """Looks at an optimizer before and after each of its steps.

    Args:
        model: whose gradients are measured.
        optimizer: whose steps are counted.
        laps: told of each step, as time spent on training.
        max_norm: clips the gradients before each step; see `Gradients`.
        prefix: what the names of its values begin with.
        every: at which steps gradients are measured; see `Gradients`.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        laps: Laps,
        max_norm: float | None = None,
        prefix: str = "",
        every: int = 1,
    ) -> None:
        self.prefix = prefix
        self._optimizer = optimizer
        self._gradients = Gradients(model, max_norm, every)
        self._laps = laps
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
        seconds = self._laps.seconds.get(_TRAIN, 0.0)
        if steps and seconds > 0:
            values["ups"], values["step_time"] = steps / seconds, seconds / steps
        self._lr = None
        return {self.prefix + name: value for name, value in values.items()}, {
            self.prefix + name: reason for name, reason in reasons.items()
        }

    def detach(self) -> None:
        """Stop looking."""
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
        self._laps.mark(_TRAIN)


class Watches:
    """All watches of a run, and what is measured of the run once it has one.

    Attributes:
        laps: the seconds of this epoch by split; None unless the run is watched.
    """

    def __init__(self) -> None:
        self.laps: Laps | None = None
        self._resources: Resources | None = None
        self._watches: list[Watch] = []

    def __iter__(self) -> Iterator[Watch]:
        return iter(self._watches)

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
            told = "the run is watched" if name is None else f"a watch is called {name!r}"
            raise RunError(
                f"{told} already; give each further one a name of its own, watch(..., name='critic')"
            )
        if max_norm is not None and not (math.isfinite(max_norm) and max_norm > 0):
            raise RunError(f"max_norm is a finite number above 0, got {max_norm!r}")
        if not is_whole(every) or every < 1:
            raise RunError(f"every is a whole number of steps from 1 on, got {every!r}")
        if self.laps is None:
            self.laps, self._resources = Laps(), Resources()
        watch = Watch(model, optimizer, self.laps, max_norm, prefix, every)
        self._watches.append(watch)
        return watch

    def go_on_after(self, values: Mapping[str, Any]) -> None:
        """Count updates on from the values of an epoch before."""
        for watch in self._watches:
            watch.go_on_after(values)

    def restart(self) -> None:
        """Begin an epoch now: what came before the first one is no part of it."""
        if self.laps is not None and self._resources is not None:
            self.laps.restart()
            self._resources.restart()

    def close(self) -> tuple[Values, Reasons]:
        """Return the values of this epoch, with the reason of each that is nan, and begin the next one."""
        values: Values = {}
        reasons: Reasons = {}
        for watch in self._watches:
            own, why = watch.close()
            values |= own
            reasons |= why
        if self._resources is not None:
            values |= self._resources.close()
        if self.laps is not None:
            self.laps.restart()
        return values, reasons

    def detach(self) -> None:
        """Stop looking."""
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
        raise RunError(f"the name of a watch is a word of letters, digits, _ and -, got {name!r}")
    return f"{name}."
