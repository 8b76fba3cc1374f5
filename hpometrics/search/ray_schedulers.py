"""Ray Tune schedulers by name, told the current value and the direction by us."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, NamedTuple

from ray.tune.schedulers import PopulationBasedTraining, TrialScheduler

from ..exceptions import ConfigError, ObjectiveError
from ..objective import Objective
from .plugins import PlugIn, find_class, read_spec
from .population import Population
from .ray_keys import EPOCH, VALUE
from .space import Space

_OURS = ("metric", "mode", "time_attr", "max_t")
_HALVING = {"min_epochs": "grace_period", "eta": "reduction_factor"}
_ASHA = "ray.tune.schedulers:AsyncHyperBandScheduler"

SCHEDULERS: Mapping[str, PlugIn] = {
    "none": PlugIn("ray.tune.schedulers:FIFOScheduler"),
    "asha": PlugIn(_ASHA, _HALVING, hidden=_OURS),
    "hyperband": PlugIn(_ASHA, _HALVING, hidden=_OURS),  # its brackets side by side; none has to wait
    "median": PlugIn(
        "ray.tune.schedulers:MedianStoppingRule",
        {"warmup": "grace_period", "min_trials": "min_samples_required"},
        hidden=_OURS,
    ),
    "pbt": PlugIn("hpometrics.search.population:Population", hidden=("space", "seed")),
}


class _Search(NamedTuple):
    """What a scheduler is to know of the search, and how it was called."""

    name: str
    epochs: int | None
    space: Space | None
    seed: int | None


def _halving(given: Mapping[str, Any], search: _Search) -> dict[str, Any]:
    if search.epochs is None:
        raise ConfigError(f"{search.name} needs to know the most epochs a run can have: give epochs=")
    brackets = 3 if search.name == "hyperband" else 1
    return {"brackets": brackets, "max_t": search.epochs, "time_attr": EPOCH, **given}


def _median(given: Mapping[str, Any], search: _Search) -> dict[str, Any]:
    grace = given.get("grace_period", 0) + 1  # our warm-up is epochs that are never stopped
    return {"min_samples_required": 5, **given, "grace_period": grace, "time_attr": EPOCH}


def _population(given: Mapping[str, Any], search: _Search) -> dict[str, Any]:
    if search.space is None:
        raise ConfigError("pbt changes params within their space; make its tuner by RayObjective.tuner")
    return {"space": search.space, "seed": search.seed, "mutate": (), **given}


_COMPLETED = {"asha": _halving, "hyperband": _halving, "median": _median, "pbt": _population}
"""Adds to the arguments of a scheduler what they do not say."""


def make_scheduler(
    spec: object,
    objective: Objective,
    epochs: int | None = None,
    space: Space | None = None,
    seed: int | None = None,
) -> TrialScheduler:
    """Build a scheduler that judges the current value in the metric's direction; a fresh one for every fit.

    Args:
        spec: a name (see `SCHEDULERS`), `{name: {argument: value}}`, `module:Class`, an object (it is
            copied) or None for no scheduling.
        objective: the metric's.
        epochs: the most epochs a run can have; halving needs them.
        space: what trials draw; `pbt` needs it.
        seed: of what `pbt` changes.

    Raises:
        ObjectiveError: an object states another metric or mode.
        ConfigError: no such scheduler or argument, or halving without `epochs`.
    """
    if isinstance(spec, PopulationBasedTraining) and not isinstance(spec, Population):
        kind = type(spec).__name__
        raise ConfigError(
            f"a {kind} of your own would change params that are recorded; give {{'pbt': {{'mutate': [...]}}}}"
        )
    if isinstance(spec, TrialScheduler):
        return _adopted(deepcopy(spec), objective)
    name, _ = read_spec("scheduler", "none" if spec is None else spec)
    found, arguments = find_class("scheduler", "none" if spec is None else spec, SCHEDULERS)
    if name in _COMPLETED:
        arguments = _COMPLETED[name](arguments, _Search(name, epochs, space, seed))
    try:
        return _adopted(found(**arguments), objective)
    except (AssertionError, TypeError, ValueError) as err:
        raise ConfigError(f"scheduler {name!r}: {err}") from err


def _adopted(scheduler: TrialScheduler, objective: Objective) -> TrialScheduler:
    metric, mode = getattr(scheduler, "_metric", None), getattr(scheduler, "_mode", None)
    kind = type(scheduler).__name__
    if mode is not None and Objective.parse(mode) is not objective:
        raise ObjectiveError(
            f"the metric is to {objective.value}, but the {kind} has mode={mode!r}; leave it out"
        )
    if metric not in (None, VALUE):
        raise ObjectiveError(
            f"the {kind} has metric={metric!r}; leave it out, it is given the metric's current value"
        )
    if metric is None:
        scheduler.set_search_properties(VALUE, None if mode else objective.mode)
    return scheduler
