"""Trials that a user adds to the study of a run directory, which is planned again without its engine.

Nothing here loads torch: while a command starts, the sampler goes on with the trials that it should add to.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna

from ..backends.optuna.prior import Prior, first_points
from ..backends.optuna.storage import close_storage, open_storage, storing
from ..backends.optuna.trial_queue import add_point
from ..backends.registry import BACKENDS
from ..backends.storage_url import MEMORY, STORAGE_FILES, url_of
from ..config.document import parse_document
from ..config.metric_section import anything
from ..config.overrides import override
from ..config.plan import Plan, make_plan
from ..config.yaml_writer import dump_yaml
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
        raise RecordError(f"the trials of earlier sweeps do not read back: {err}") from err
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
        raise ConfigError(f"{home.label}: has no stored study to which a trial could be added")
    with storing():
        opened = open_storage(file or url_of(storage))
        try:
            study = optuna.load_study(study_name=plan.name, storage=opened)
            number = add_point(study, point, plan.trials, planned.points)
        finally:
            close_storage(opened)
    if number is None:
        more = f"hpometrics run FILE --set budget.trials={(plan.trials or 0) + 1} makes room"
        raise ConfigError(f"{home.label}: all {plan.trials} trials of its budget have begun; {more}")
    return number
