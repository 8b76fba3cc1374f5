"""The warm start of a sweep: the trials of the earlier sweeps in `search.from`, read once and then recorded.

The record is in `sweep.resolved.yaml`, so a sweep goes on alike after an earlier one has grown or is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna

from ..backends.optuna.prior import Prior, gather, name_values
from ..backends.optuna.storage import opened_copy, search_names
from ..backends.optuna.study import check_direction, metrics_of, study_records
from ..backends.registry import learns
from ..config.models import WarmStart
from ..exceptions import ConfigError, DirectionError, HpometricsError
from ..records.trial_record import EpochRecord, TrialRecord, TrialState
from ..results.best import repick_epochs
from ..results.manifest import Change, Resolved, changes
from ..results.rescoring import rescore
from ..results.run_directory import RunDirectory, changed_sources
from .context import SweepContext

_SAME = ("metric", "formula", "at", "constraints", "others")
_MEASURED = ("engine.target", "engine.choice", "engine.program", "engine.command", "engine.params.", "output")
"""Keys of the engine whose change makes other values of the same params."""
_LENGTH = ("epochs", "steps", "every")
_SAID = (*_MEASURED, *(f"budget.{key}" for key in (*_LENGTH, "patience", "repeats")), "space.")


def warm_start(context: SweepContext, published: Resolved | None) -> list[str]:
    """Read the earlier sweeps of a sweep, as far as no record has them.

    Args:
        context: holds what its directory has recorded, and receives the rest.
        published: the sweep in a shared storage, if it has begun there.

    Returns:
        A line for each of them.

    Raises:
        ConfigError: one cannot be read, or has another metric or direction.
    """
    warm = context.plan.config.search.warm_start
    if warm is None:
        return []
    before = (context.resolved if published is None else published).prior
    prior = {
        source: before.get(source) or json.dumps(_read(source, warm, context).to_json())
        for source in warm.sweeps
    }
    context.learn(prior)
    return [f"warm start  {one.line}" for one in context.priors]


def _read(source: str, warm: WarmStart, context: SweepContext) -> Prior:
    try:
        path, _, name = source.partition("#")
        read = _read_directory if Path(path).is_dir() else _read_study
        return read(Path(path), name, source, warm, context)
    except DirectionError as err:
        text = str(err).partition("; create it")[0]
        raise DirectionError(f"search.from: {source}: {text}; leave it out of search.from") from err
    except HpometricsError as err:
        raise ConfigError(f"search.from: {source}: {err}") from err


def _read_directory(path: Path, name: str, source: str, warm: WarmStart, context: SweepContext) -> Prior:
    """Read a run directory, whose trials get the values of this sweep's metric at its epoch."""
    home, now = RunDirectory(path), context.resolved
    if path.absolute() == context.directory.path:
        raise ConfigError("is the directory of this sweep; name another one")
    if name:
        raise ConfigError(f"a run directory has only one sweep; leave #{name} out")
    before = home.read()
    _check_objectives(before, now)
    differences = [
        *(change for change in changes(before, now) if change.key.startswith(_SAID)),
        *([Change("output", before.output, now.output, False)] if before.output != now.output else []),
    ]
    lines = [f"differs: {str(change).strip()}" for change in differences]
    lines += [f"differs: {file} has changed" for file in changed_sources(before.sources, now.sources)]
    if (seed := now.config["search"]["seed"]) == before.config["search"]["seed"]:
        lines.append(f"both searches have seed {seed}, so random draws repeat: set another search.seed")
    measured = [change for change in differences if change.key.startswith(_MEASURED)]
    reason = f"its values are not used, because {measured[0].key} differs" if measured else None
    records = _rescored(home, before, now)
    prior = _gather(source, records, warm, context, reason, before.fixed)
    return replace(prior, line=prior.line + "".join(f"\n  {text}" for text in lines))


def _check_objectives(before: Resolved, now: Resolved) -> None:
    """Check that what both sweeps measure under one name is the same.

    Raises:
        DirectionError: a metric has another direction.
        ConfigError: the terms of a combined metric differ.
    """
    directions = {**before.track, **before.optimized}
    for name, direction in now.optimized.items():
        other = directions.get(name)
        if other is not None and other is not direction:
            raise DirectionError(f"{name} must be {direction.value}d, and was {other.value}d there")
        if before.formulas.get(name) != now.formulas.get(name) and name in directions:
            raise ConfigError(f"{name} was {before.formulas.get(name)}, now it is {now.formulas.get(name)}")


def _rescored(home: RunDirectory, before: Resolved, now: Resolved) -> Sequence[TrialRecord]:
    """Return the trials of an earlier sweep, each with its value by the metrics and rules of this one."""
    records: Sequence[TrialRecord] = home.records()
    was, budget = before.config["budget"], now.config["budget"]
    is_as_long = all(was.get(key) == budget.get(key) for key in _LENGTH)
    if is_as_long and all(getattr(before, key) == getattr(now, key) for key in _SAME):
        return records
    trained = [epoch for record in records for epoch in record.epochs]
    for name in now.optimized:
        if all(name in epoch.values for epoch in trained):
            continue
        try:
            records = rescore(home, before, records, name).records
        except HpometricsError as err:
            raise ConfigError(f"it has no values of {name} to compare: {err}") from err
    if was.get("every") != budget.get("every"):  # the reports of a pruned trial are at other steps
        records = [record for record in records if record.state is not TrialState.PRUNED]
    return repick_epochs([replace(one, epochs=_as_long(one.epochs, budget)) for one in records], now)


def _as_long(epochs: Sequence[EpochRecord], budget: Mapping[str, Any]) -> tuple[EpochRecord, ...]:
    """Return the epochs, or the reports, that a trial of a budget has."""
    if (steps := budget.get("steps")) is not None:
        return tuple(epoch for epoch in epochs if epoch.place <= steps)
    return tuple(epochs[: budget.get("epochs")])


def _read_study(path: Path, name: str, source: str, warm: WarmStart, context: SweepContext) -> Prior:
    """Read a study in a file; its trials have the values that it stores."""
    now = context.resolved
    if not path.is_file():
        raise ConfigError("is neither a run directory nor a study file such as study.db#name")
    with opened_copy(path) as storage:
        names = search_names(storage)
        if name not in names and (name or len(names) != 1):
            listing = ", ".join(names) or "none"
            raise ConfigError(f"name one of its studies, as in {path}#NAME; there are {listing}")
        study = optuna.load_study(study_name=name or names[0], storage=storage)
        check_direction(study, now.optimized)
        records = name_values(study_records(study), metrics_of(study), list(now.optimized))
    reason = None if warm.values else "its values are not used, because a study does not name its engine"
    return _gather(source, records, warm, context, reason)


def _gather(
    source: str,
    records: Sequence[TrialRecord],
    warm: WarmStart,
    context: SweepContext,
    reason: str | None,
    fixed: Iterable[str] = (),
) -> Prior:
    plan = context.plan
    if warm.values:
        reason = None
    elif warm.values is False:
        reason = "its values are not used"
    elif not learns(plan.sampler_spec):
        reason = f"{plan.sampler} learns from its own trials alone"
    return gather(
        source,
        records,
        plan.space,
        context.resolved.optimized,
        enqueue=warm.enqueue,
        unlearned=reason,
        fixed=tuple(fixed),
        bounds=context.resolved.constraints,
    )
