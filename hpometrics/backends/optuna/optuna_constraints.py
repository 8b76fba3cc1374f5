"""Constraints as Optuna keeps them: by name in Optuna 5, before as a list that a sampler asks for."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import signature
from typing import Any, TypeVar

from optuna.trial import BaseTrial, FrozenTrial, Trial

T = TypeVar("T")

_LISTED = "constraints"  # the system attribute of Optuna 4
HAS_NAMES = hasattr(Trial, "set_constraint")
"""Whether this Optuna keeps constraints by name."""


def set_excesses(trial: BaseTrial, excesses: Mapping[str, float]) -> None:
    """Keep with a trial by how much it exceeds each bound; one above 0 makes it infeasible."""
    if not excesses:
        return
    if not HAS_NAMES:
        with warnings.catch_warnings(action="ignore", category=FutureWarning):  # Optuna 5 takes it away
            trial.set_system_attr(_LISTED, list(excesses.values()))  # type: ignore[attr-defined]
        return
    for text, excess in excesses.items():
        trial.set_constraint(text, excess)


def is_infeasible(trial: FrozenTrial) -> bool:
    """Check whether a trial breaks a constraint; one that knows of none breaks none."""
    excesses = trial.constraints.values() if HAS_NAMES else _listed(trial)
    return any(excess > 0 for excess in excesses)


def minding_constraints(make: Callable[..., T]) -> Callable[..., T]:
    """Have a sampler mind what `set_excesses` keeps: Optuna 4 wants a function, Optuna 5 reads it itself.

    Args:
        make: its class, with arguments; one that knows no constraints stays as it is.
    """
    found: Any = make.func if isinstance(make, partial) else make
    given = make.keywords if isinstance(make, partial) else {}
    if HAS_NAMES or "constraints_func" in given or "constraints_func" not in signature(found).parameters:
        return make
    return partial(make, constraints_func=_listed)


def _listed(trial: FrozenTrial) -> Sequence[float]:
    return tuple(trial.system_attrs.get(_LISTED) or ())
