"""The direction of a value by its name, for the callbacks of a trainer that watch values of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..direction import MAXIMIZE, MINIMIZE, Direction
from ..exceptions import DirectionError, HpometricsError
from ..metrics.registry.aliases import meaning_elsewhere
from ..metrics.registry.lookup import possible_meanings
from ..metrics.registry.scope import direction_problem
from ..run.spec import Reported, RunSpec

_DATA = re.compile(r"\w+-|(?:val|valid|validation|eval|test|train)_(?:\d+_)?")
_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_STATED: Mapping[str, Mapping[object, Direction]] = {
    "mode": {"min": MINIMIZE, "max": MAXIMIZE},
    "lower_is_better": {True: MINIMIZE, False: MAXIMIZE},
    "greater_is_better": {True: MAXIMIZE, False: MINIMIZE},
    "comp": {"less": MINIMIZE, "greater": MAXIMIZE},  # a function of NumPy, by its name
}
"""How callbacks, schedulers and arguments of trainers state the direction of the value that they watch."""


def library_metric(name: str) -> Reported:
    """Return a value that a trainer's library measures itself, with the direction of its metric.

    >>> library_metric("validation-auc")
    Reported(name='validation-auc', direction=<Direction.MAXIMIZE: 'maximize'>)

    Args:
        name: as the callback records it: `validation-logloss` of a boosting library, `val_loss`, `eval_loss`.

    Raises:
        DirectionError: the name does not show the direction.
    """
    return Reported(name, _require(name, direction_of_name(name)))


def direction_of_name(name: str) -> Direction | None:
    """Return the direction of a value as libraries name it, after the name of its data; None if unknown.

    >>> [str(direction_of_name(name)) for name in ("val_loss", "valid_0-l2", "validation-BalancedAccuracy")]
    ['minimize', 'minimize', 'maximize']
    >>> direction_of_name("val_0_auc")  # pytorch-tabnet's, of its first validation set
    <Direction.MAXIMIZE: 'maximize'>
    >>> direction_of_name("val_gap")
    """
    word = _DATA.sub("", name, count=1).partition(":")[0]
    if word.lower().endswith("loss"):
        return MINIMIZE
    for spelling in (word, _CAPITAL.sub("_", word).lower()):
        try:
            meanings = possible_meanings(meaning_elsewhere(spelling) or spelling)
        except HpometricsError:
            continue
        directions = {entry.direction for _, entry in meanings}
        if len(directions) == 1:
            return directions.pop()
    return None


def monitor_of(spec: RunSpec, name: str | None) -> tuple[str, Direction]:
    """Return the name of a value that a callback is to watch, and its direction.

    Args:
        spec: of the run.
        name: of the value; by default that of the optimized metric.

    Raises:
        DirectionError: neither the run nor the name shows its direction.
    """
    name = name or spec.name
    return name, _require(name, spec.directions.get(name) or direction_of_name(name))


def monitor_and_mode(spec: RunSpec, name: str | None) -> dict[str, str]:
    """Return the arguments `monitor` and `mode` of a callback that watches a value, see `monitor_of`."""
    name, direction = monitor_of(spec, name)
    return {"monitor": name, "mode": direction.mode}


def check_watcher(spec: RunSpec, watcher: Any, name: Any = None) -> None:
    """Check that a callback of a trainer watches a value in the direction of its metric.

    If it states no name or no direction, there is nothing to check.

    Args:
        spec: of the run.
        watcher: the callback, or a scheduler, or the arguments of the trainer.
        name: of the value; by default the `monitor` of the watcher.

    Raises:
        DirectionError: the two differ.
    """
    name = name or getattr(watcher, "monitor", None)
    for word, directions in _STATED.items():
        stated = getattr(watcher, word, None)
        stated = getattr(stated, "__name__", stated)
        if isinstance(name, str) and isinstance(stated, (str, bool)) and stated in directions:
            check_monitor(spec, name, directions[stated], f"{type(watcher).__name__}({word}={stated!r})")


def check_monitor(spec: RunSpec, name: str, stated: Direction, where: str) -> None:
    """Check that a callback watches a value in the direction of its metric.

    Args:
        spec: of the run.
        name: of the value.
        stated: the direction of the callback.
        where: what states it, as in `EarlyStopping(mode='min')`.

    Raises:
        DirectionError: the two differ.
    """
    own = spec.directions.get(name) or direction_of_name(name)
    if problem := direction_problem(name, own, stated, where):
        raise DirectionError(
            f"{problem}; `monitor({name!r})` of the run's callback has the arguments. If it means "
            f"something else here, pass track=[Reported({name!r}, {stated.value!r})]"
        )


def _require(name: str, direction: Direction | None) -> Direction:
    if direction is None:
        raise DirectionError(
            f"the name {name!r} does not show which way is better; pass Reported({name!r}, 'minimize') if "
            f"lower is better, or Reported({name!r}, 'maximize') if higher is better, as the metric or in "
            "track="
        )
    return direction
