"""A sample of the first trials of a sweep: their params, drawn before a run exactly as `run` draws them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from inspect import signature
from typing import Any

from ..backends.optuna.samplers import make_sampler
from ..backends.optuna.storage import open_storage
from ..backends.optuna.study import open_study, without_notices
from ..backends.optuna.trial_queue import claim, reserve
from ..backends.registry import SAMPLERS, draws_blindly, find_class
from ..backends.storage_url import MEMORY
from ..config.plan import Plan
from ..direction import MINIMIZE

_STARTUP = ("n_startup_trials", "population_size")
"""The arguments by which samplers that learn name the number of trials before they use a value."""
_PLACEHOLDER = 0.0  # the value of every trial, which no sampler uses


@dataclass(frozen=True)
class Sample:
    """The params of trial 0, 1 and so on, as many as were requested and do not depend on a value.

    `learner` is the sampler that draws the next trial, from the values of earlier ones or by code of the
    user, which only a run imports; where a sweep begins with the params of an earlier one, which only a run
    reads, it is that one. None if the next trial was not requested, or is beyond the budget.
    """

    params: tuple[dict[str, Any], ...]
    learner: str | None


def sample(plan: Plan, count: int) -> Sample:
    """Draw the params of the first trials.

    Args:
        plan: the plan of the sweep, whose engine is not imported.
        count: the number of trials.
    """
    if plan.earlier:
        return Sample((), ", ".join(plan.earlier))
    requested = count if plan.trials is None else min(count, plan.trials)
    if ":" in plan.sampler:  # code of the user, which only a run imports
        return Sample((), plan.sampler)
    blind = (
        requested
        if plan.sampler == "list" or draws_blindly(plan.sampler)
        else min(requested, max(1, _startup_trials(plan)))
    )
    return Sample(tuple(_draw(plan, blind)), plan.sampler if blind < requested else None)


def _draw(plan: Plan, count: int) -> Iterator[dict[str, Any]]:
    with without_notices():
        sampler = make_sampler(plan.sampler_spec, plan.config.search.seed)
        optimized = {measure.name: measure.direction or MINIMIZE for measure in plan.objectives}
        study = open_study(open_storage(MEMORY), plan.name, optimized, sampler)
        reserve(study, count, plan.points)
        while trial := claim(study):
            yield plan.space.suggest(trial)
            study.tell(trial, [_PLACEHOLDER] * len(optimized))


def _startup_trials(plan: Plan) -> int:
    sampler_class, arguments = find_class("sampler", plan.sampler_spec, SAMPLERS)
    parameters = signature(sampler_class).parameters
    named = [name for name in _STARTUP if name in parameters]
    return next((int(arguments.get(name, parameters[name].default)) for name in named), 1)
