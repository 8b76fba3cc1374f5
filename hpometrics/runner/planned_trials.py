"""Trials planned without an engine: the first ones, drawn as `run` draws them, and those that a user adds.

Nothing here loads torch: while a command starts, the sampler goes on with the trials that it should add to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from inspect import signature
from pathlib import Path
from typing import Any

import optuna

from ..backends.optuna.prior import Prior, first_points
from ..backends.optuna.samplers import make_sampler
from ..backends.optuna.storage import close_storage, open_storage, storing
from ..backends.optuna.study import open_study, without_notices
from ..backends.optuna.trial_queue import add_point, claim, reserve
from ..backends.registry import BACKENDS, SAMPLERS, draws_blindly, find_class
from ..backends.storage_url import MEMORY, STORAGE_FILES, url_of
from ..config.document import parse_document
from ..config.metric_section import anything
from ..config.overrides import override
from ..config.plan import Plan, make_plan
from ..config.yaml_writer import dump_yaml
from ..direction import MINIMIZE
from ..exceptions import ConfigError, RecordError
from ..results.run_directory import RunDirectory


def planned_again(home: RunDirectory, assignments: Iterable[str] = ()) -> Plan:
    """Return the plan of a run directory, from the resolved sweep in it; errors name its file.

    Args:
        home: the run directory.
        assignments: `key=value` texts that change it.

    Raises:
        ConfigError: it is not a run directory.
        SweepFileError: its sweep can no longer be run.
    """
    resolved = home.read()
    document = parse_document(dump_yaml(resolved.config), resolved.file or str(home.resolved))
    override(document, assignments)
    return make_plan(document, registers=anything)


def with_priors(plan: Plan, prior: Mapping[str, str]) -> tuple[list[Prior], Plan]:
    """Return the trials of earlier sweeps, and a plan whose first points end with their best ones.

    Raises:
        RecordError: it is damaged.
    """
    try:
        priors = [Prior.from_json(json.loads(text)) for text in prior.values()]
    except ValueError as err:
        raise RecordError(f"cannot read the trials of earlier sweeps: {err}") from err
    points = first_points(priors, plan.space, plan.points)
    return priors, replace(plan, points=(*plan.points, *points))


def file_of_study(home: RunDirectory, storage: str) -> Path | None:
    """Return the study's file in a run directory; None if the study is in memory or elsewhere."""
    return home.path / STORAGE_FILES[storage] if storage in STORAGE_FILES else None


def add_trial(plan: Plan, home: RunDirectory, params: Mapping[str, Any]) -> int:
    """Enqueue params before what the sampler draws, and return the number of their trial.

    Args:
        plan: the plan of the sweep.
        home: its run directory; processes may be at work in it.
        params: all of them or some; the sampler draws the others.

    Raises:
        SpaceError: the space does not contain them.
        ConfigError: the sweep has a list or a grid, its study is not stored, or all its trials have begun.
        DiskError: the study cannot be written.
    """
    storage, point = plan.config.backend.storage, plan.space.encode(params)
    _, planned = with_priors(plan, home.read().prior)
    if BACKENDS[plan.config.backend.name].has_points or plan.sampler == "grid":
        raise ConfigError(f"{home.label}: has a list or a grid of params; add these to its sweep file")
    file = file_of_study(home, storage)
    if storage == MEMORY or (file is not None and not file.exists()):
        raise ConfigError(f"{home.label}: has no stored study to add a trial to")
    with storing():
        opened = open_storage(file or url_of(storage))
        try:
            study = optuna.load_study(study_name=plan.name, storage=opened)
            number = add_point(study, point, plan.trials, planned.points)
        finally:
            close_storage(opened)
    if number is None:
        more = f"raise the budget with hpometrics run FILE --set budget.trials={(plan.trials or 0) + 1}"
        raise ConfigError(f"{home.label}: all {plan.trials} trials of its budget have begun; {more}")
    return number


_STARTUP = ("n_startup_trials", "population_size")
"""The arguments by which samplers that learn name the number of trials before they use a value."""
_PLACEHOLDER = 0.0  # the value of every trial, which no sampler uses


@dataclass(frozen=True)
class Sample:
    """The params of trial 0, 1 and so on, as many as were requested and do not depend on a value.

    `learner` is the sampler that draws the next trial, from the values of earlier ones or by code of the
    user, which only a run imports; None if the next trial was not requested, or is beyond the budget.
    `earlier` are the sweeps whose params come first: only a run reads them, so nothing is drawn.
    """

    params: tuple[dict[str, Any], ...]
    learner: str | None
    earlier: tuple[str, ...] = ()


def sample(plan: Plan, count: int) -> Sample:
    """Draw the params of the first trials.

    Args:
        plan: the plan of the sweep, whose engine is not imported.
        count: the number of trials.
    """
    if plan.earlier:
        return Sample((), None, plan.earlier)
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
