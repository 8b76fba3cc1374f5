"""Trials planned without an engine: drawn as `run` draws them, added by a user, and drawn again from results.

Nothing here loads torch: while a command starts, the sampler goes on with the trials that it should add to.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from datetime import datetime
from inspect import signature
from pathlib import Path
from typing import Any

import optuna
from optuna.pruners import BasePruner
from optuna.samplers import BaseSampler
from optuna.storages import BaseStorage

from .._formatting import plural
from .._imports import import_modules
from ..backends.optuna.prior import Prior, first_points, with_prior
from ..backends.optuna.pruners import make_pruner
from ..backends.optuna.restore import tell_record
from ..backends.optuna.samplers import SeededSampler, make_sampler
from ..backends.optuna.storage import close_storage, open_storage, storing
from ..backends.optuna.study import open_study, without_notices
from ..backends.optuna.trial_queue import Ask, add_point, claim, read_asks, reserve
from ..backends.registry import BACKENDS, SAMPLERS, draws_blindly, find_class
from ..backends.storage_url import MEMORY, STORAGE_FILES, url_of
from ..config.document import parse_document
from ..config.metric_section import anything
from ..config.overrides import override
from ..config.plan import Plan, make_plan
from ..config.yaml_text import dump_yaml
from ..direction import MINIMIZE
from ..exceptions import ConfigError, RecordError
from ..records.trial_record import TrialRecord
from ..results.manifest import Resolved
from ..results.run_directory import RunDirectory

_DRAWN_ALIKE = ("random", "qmc")
"""The samplers that draw the first trials alike, whatever the number of trials and of workers."""
_OF_A_TRIAL = ("epochs", "steps", "every", "trial_time", "patience", "tol", "repeats", "retries")
"""The budgets that change the values of a trial."""


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


def sampler_of(plan: Plan) -> BaseSampler:
    """Create the sampler of a plan; one of the user's may be beside the file, as may a pruner."""
    if ":" in plan.sampler + plan.pruner:
        import_modules((), [str(plan.file.resolve().parent)])
    return make_sampler(plan.sampler_spec, plan.config.search.seed, bool(plan.bounds))


def pruner_of(plan: Plan) -> BasePruner:
    """Create the pruner of the study of a plan, which prunes nothing if the backend has schedulers."""
    if BACKENDS[plan.config.backend.name].schedules:
        return make_pruner(None, plan.config.budget.reports, None)
    return make_pruner(plan.pruner_spec, plan.config.budget.reports, plan.config.search.prune_by)


def file_of_study(home: RunDirectory, storage: str) -> Path | None:
    """Return the study's file in a run directory; None if the study is in memory or elsewhere."""
    return home.path / STORAGE_FILES[storage] if storage in STORAGE_FILES else None


@contextmanager
def opened_storage(place: str | Path) -> Iterator[BaseStorage]:
    """Open a storage, and close it at the end.

    Raises:
        DiskError: it cannot be read or written, at any time within the context.
    """
    with storing():
        storage = open_storage(place)
        try:
            yield storage
        finally:
            close_storage(storage)


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
    with opened_storage(file or url_of(storage)) as opened:
        study = optuna.load_study(study_name=plan.name, storage=opened)
        number = add_point(study, point, plan.trials, planned.points)
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


def search_again(
    plan: Plan, resolved: Resolved, first: Sequence[TrialRecord], added: Collection[int]
) -> dict[str, Any]:
    """Return a sweep of the first trials alone; the params of a sampler that learns are given to it.

    So are those of trials that were added by hand, among the draws of a sampler that does not learn.
    """
    config = deepcopy(dict(resolved.config))
    for key in ("confirm", "tags", "note"):
        config.pop(key, None)
    config["metrics"].pop("pick", None)
    budget = {name: value for name, value in config["budget"].items() if name in _OF_A_TRIAL}
    config["budget"] = {**budget, "trials": len(first)}
    search, learns = config["search"], _learns(plan)
    names = plan.space.params.keys() - plan.config.engine.params.keys()
    points: list[dict[str, Any]] = [] if learns else [*search.get("start", ())]
    for one in first[len(points) :]:
        given = learns or one.number in added
        points.append({name: value for name, value in one.given.items() if name in names and given})
    if learns:
        search = {"sampler": "random", "seed": search["seed"]}
    if any(points):
        search["start"] = points
    config["search"] = {key: value for key, value in search.items() if key != "prune_by"} | {"pruner": "none"}
    config["results"] |= {"checkpoints": "none", "loggers": []}
    config["results"].pop("copy_to", None)
    return config


def _learns(plan: Plan) -> bool:
    """Return whether the draws of a search depend on results, or on earlier searches."""
    return plan.sampler not in _DRAWN_ALIKE or bool(plan.earlier)


def asks_of(home: RunDirectory, records: Iterable[TrialRecord]) -> dict[int, Ask]:
    """Return the asks of the trials of a run directory: by its study, or else by the times of the records."""
    with suppress(RecordError, StopIteration):
        return read_asks(next(filter(Path.exists, (home.study, home.journal))))
    return {one.number: Ask({}, one.started, _second(one.ended)) for one in records if one.state.finished}


def _second(moment: datetime | None) -> datetime | None:
    """Return a moment to the second, as records have the start of a trial."""
    return None if moment is None else moment.replace(microsecond=0)


@dataclass(frozen=True)
class Redraw:
    """The points of a search drawn again, each from the results that were recorded before it.

    Args:
        sampler: the name of the sampler.
        same: the number of drawn points that are as recorded.
        given: the number of points that no sampler drew.
        differences: for a trial what differs from its record; no later point is drawn.
        note: why later points were not drawn again.
    """

    sampler: str
    same: int = 0
    given: int = 0
    differences: Mapping[int, str] = field(default_factory=dict)
    note: str | None = None

    def lines(self) -> Iterator[str]:
        """Yield the lines to print."""
        yield f"points of {self.sampler}, drawn again one by one from the recorded results:"
        given = f", {self.given} not drawn but given" if self.given else ""
        yield f"  {plural(self.same, 'point')} as recorded{given}"
        for number, difference in self.differences.items():
            yield f"  trial {number}: {difference}; later points depend on it and were not drawn"
        if self.note is not None:
            yield f"  {self.note}"

    def to_json(self) -> dict[str, Any]:
        """Return the same as plain JSON."""
        differences = [{"trial": number, "difference": one} for number, one in self.differences.items()]
        facts = {"sampler": self.sampler, "as_recorded": self.same, "given": self.given, "note": self.note}
        return {**facts, "differences": differences}


def draw_again(home: RunDirectory, records: Iterable[TrialRecord], asks: Mapping[int, Ask]) -> Redraw | None:
    """Draw the points of a search again, up to the first that differs; nothing is trained.

    None where no draw depends on results: a second search then draws them (see `search_again`), or nobody.

    Args:
        home: its run directory.
        records: its trials.
        asks: see `asks_of`.
    """
    resolved = home.read()
    priors, plan = with_priors(planned_again(home), resolved.prior)
    if BACKENDS[resolved.backend].has_points or plan.sampler == "grid" or not _learns(plan):
        return None
    sampler = sampler_of(plan)
    if not isinstance(sampler, SeededSampler):
        return Redraw(plan.sampler, note="its class takes no seed, so it cannot draw its points again")
    with without_notices():
        study = open_study(
            open_storage(MEMORY),
            plan.name,
            resolved.optimized,
            with_prior(sampler, priors, plan.space),
            pruner_of(plan),
        )
        return _draw_all(study, plan, {record.number: record for record in records}, asks)


def _draw_all(
    study: optuna.Study, plan: Plan, records: Mapping[int, TrialRecord], asks: Mapping[int, Ask]
) -> Redraw:
    """Ask and tell in the order of the record, which is certain as long as one trial was open at a time."""
    drawn, live, is_certain = Redraw(plan.sampler), dict[int, optuna.Trial](), True
    for number, (point, began, _) in sorted(asks.items()):
        record = records.get(number)
        if record is None or began is None or number != len(study.trials):
            return replace(drawn, note=f"trial {number} is not recorded, and later points were not drawn")
        told = [(end, one) for one in live if (end := asks[one].ended) is not None and end <= began]
        for _, one in sorted(told):
            tell_record(study, live.pop(one), records[one])
        is_certain = is_certain and not live
        if not point and number < len(plan.points):
            point = plan.points[number]
        study.enqueue_trial(dict(point))
        trial = live[number] = study.ask()
        difference = difference_of_draws(plan.space.suggest(trial), record.given)
        if difference is not None and not is_certain:
            note = (
                f"from trial {number} on, points are not compared: several trials were trained at a time, "
                "and the record does not have which results the sampler knew"
            )
            return replace(drawn, note=note)
        if difference is not None:
            return replace(drawn, differences={number: difference})
        is_given = trial.params.keys() <= point.keys()
        drawn = replace(drawn, given=drawn.given + is_given, same=drawn.same + (not is_given))
    return drawn


def difference_of_draws(drawn: Mapping[str, Any], recorded: Mapping[str, Any]) -> str | None:
    """Return how drawn params differ from the recorded ones; None if they are the same."""
    name = next((name for name in drawn if drawn[name] != recorded.get(name)), None)
    if name is None:
        return None
    values = f"{drawn[name]!r}, recorded {recorded.get(name)!r}"
    return f"{name} was drawn as {values} (another version of the sampler, or added by hand)"
