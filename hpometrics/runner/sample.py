"""Sampling: the params of the first trials of a sweep, drawn as `run` draws them, before anything is run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Any

from ..backends.optuna.samplers import SAMPLERS, make_sampler
from ..backends.optuna.storage import open_storage
from ..backends.optuna.study import open_study, without_notices
from ..backends.optuna.trial_queue import claim, reserve
from ..backends.plugins import find_class
from ..config.plan import Plan
from ..direction import MINIMIZE

_NEVER_LOOK = ("list", "grid", "random", "qmc")
_STARTUP = ("n_startup_trials", "population_size")
"""What samplers that learn call the number of trials that they draw before they look at a value."""
_UNSEEN = 0.0  # what a trial is told in the place of a value that no sampler looks at


@dataclass(frozen=True)
class Sample:
    """The params of trial 0, 1 and so on, as many as were asked for and depend on no value.

    `learner` is the sampler that draws the next trial from the values of those before; None where it was not
    asked for, or the budget has no more trials.
    """

    params: tuple[dict[str, Any], ...]
    learner: str | None


def sample(plan: Plan, count: int) -> Sample:
    """Draw the params of the first trials.

    Args:
        plan: of the sweep; its engine is not imported.
        count: of how many trials.
    """
    wanted = count if plan.trials is None else min(count, plan.trials)
    blind = wanted if plan.sampler in _NEVER_LOOK else min(wanted, max(1, _startup_trials(plan)))
    return Sample(tuple(_drawn(plan, blind)), plan.sampler if blind < wanted else None)


def _drawn(plan: Plan, count: int) -> Iterator[dict[str, Any]]:
    with without_notices():
        sampler = make_sampler(plan.sampler_spec, plan.config.search.seed)
        optimized = {measure.name: measure.objective or MINIMIZE for measure in plan.objectives}
        study = open_study(open_storage("memory"), plan.name, optimized, sampler)
        reserve(study, count, plan.points)
        while trial := claim(study):
            yield plan.space.suggest(trial)
            study.tell(trial, [_UNSEEN] * len(optimized))


def _startup_trials(plan: Plan) -> int:
    found, given = find_class("sampler", plan.sampler_spec, SAMPLERS)
    known = signature(found).parameters
    return next(int(given.get(name, known[name].default)) for name in _STARTUP if name in known)
