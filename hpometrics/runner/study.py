"""The study of a run directory: opened, published to a shared storage, checked and restored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import optuna
from optuna.trial import TrialState as OptunaState

from ..backends.optuna.fresh_study import FreshStudy
from ..backends.optuna.prior import with_prior
from ..backends.optuna.restore import check_trials, is_sound, read_trials, restore
from ..backends.optuna.samplers import OwnSampler
from ..backends.optuna.storage import FRESH_RUNS, is_damage
from ..backends.optuna.study import (
    PREFIX,
    check_origin,
    check_study,
    get_attribute,
    open_study,
    put_attribute,
    shared_record,
    study_records,
    tell,
)
from ..backends.optuna.trial_queue import FIXED, open_trials, reclaim, reserve
from ..backends.storage_url import MEMORY, is_shared, redact_storage, url_of
from ..config.space_section import arrange_points
from ..exceptions import ConfigError, DirectionError, NewerFormatError, RecordError
from ..records.recovery import StudyTrial, quarantine_study
from ..records.trial_record import TrialRecord, TrialState
from ..results.manifest import Resolved, changes, format_changes, parse_resolved
from .context import SweepContext
from .leases import LocalOwnership
from .planned_trials import file_of_study, opened_storage, pruner_of, sampler_of

SWEEP = f"{PREFIX}sweep"
FIRST = f"{PREFIX}first"  # the first trial whose fault counts


def publish(study: optuna.Study, context: SweepContext) -> None:
    """Write the resolved sweep into its study, unless it is stored already; a worker writes nothing.

    Raises:
        ConfigError: another sweep made the trials of the study; the message lists the differences.
        RecordError: the stored sweep cannot be parsed.
    """
    before = published(study)
    if not context.leads:
        return
    _check_same(before, context)
    text = context.resolved.to_yaml()
    if get_attribute(study.user_attrs, SWEEP) != text:
        put_attribute(study.set_user_attr, SWEEP, text)


def published(study: optuna.Study) -> Resolved | None:
    """Return the sweep that is stored in a study; None if there is none.

    Raises:
        RecordError: it cannot be parsed.
    """
    text = get_attribute(study.user_attrs, SWEEP)
    return None if text is None else parse_resolved(str(text), f"the study {study.study_name}")


def check_published(context: SweepContext, fresh: bool) -> Resolved | None:
    """Check the study in a shared storage before the run directory is created, and return its sweep.

    Raises:
        ConfigError: the study is of another sweep, or exists although `fresh` starts over, or was deleted
            without the fresh runs of its confirmation.
    """
    place, name = context.plan.config.backend.storage, context.plan.name
    if not is_shared(place):
        return None
    with opened_storage(url_of(place)) as storage:
        names = optuna.get_all_study_names(storage)
        exists = name in names
        before = published(optuna.load_study(study_name=name, storage=storage)) if exists else None
    if exists and fresh:
        raise ConfigError(
            f"--fresh: {redact_storage(place)} has a study {name!r} that others may be using; rename the "
            "sweep, or delete the study with: optuna delete-study"
        )
    if not exists and name + FRESH_RUNS in names:
        raise ConfigError(
            f"{redact_storage(place)} has no study {name!r}, but the fresh runs of its confirmation; rename "
            f"the sweep, or delete them with: optuna delete-study --study-name {name + FRESH_RUNS}"
        )
    _check_same(before, context)
    return before


def _check_same(before: Resolved | None, context: SweepContext) -> None:
    differences = [] if before is None else changes(before, context.resolved)
    fatal = any(change.fatal for change in differences)
    if fatal or (differences and not context.extend):
        lines = format_changes(differences)
        raise ConfigError(
            f"the study {context.plan.name}: its trials belong to another sweep:\n{lines}\n"
            f"{'give the sweep another name' if fatal else '--extend goes on'}"
        )


@contextmanager
def opened_study(
    context: SweepContext, ownership: LocalOwnership, verbose: bool = False
) -> Iterator[optuna.Study]:
    """Open or create the study of a sweep; only `verbose` shows Optuna's own log.

    Raises:
        HpometricsError: a sampler or pruner is not well formed, or the stored study is of another sweep.
        DiskError: the study cannot be read or written, at any time within the context.
    """
    with _opened(context, verbose) as study, closing(ownership):  # no heartbeat after the study is closed
        ownership.bind(study)
        _arrange_grid(study, context)
        _finish_trials(study, context, ownership)
        _share_first(study, context)
        yield study


@contextmanager
def opened_fresh_study(context: SweepContext) -> Iterator[FreshStudy | None]:
    """Open or create the study of the fresh runs of a sweep; None if that of its search is not stored.

    Raises:
        DiskError: the study cannot be read or written, at any time within the context.
    """
    path = study_file(context)
    if context.plan.config.backend.storage == MEMORY or (path is not None and not path.exists()):
        yield None
        return
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with opened_storage(_study_place(context)) as storage:
        yield FreshStudy(storage, context.plan.name, context.resolved.optimized, context.plan.space)


def _arrange_grid(study: optuna.Study, context: SweepContext) -> None:
    """Keep the grid points of the trials in the study, which this directory may not have.

    Every process then has the others in the same order, and each point is visited once.
    """
    if context.plan.sampler == "grid":
        trials = study.get_trials(deepcopy=False)
        existing = {trial.number: trial.system_attrs.get(FIXED) or trial.params for trial in trials}
        context.plan = replace(context.plan, points=arrange_points(context.plan.points, existing))


def _share_first(study: optuna.Study, context: SweepContext) -> None:
    """Share the number of the first trial whose fault counts with all processes of a shared study."""
    if is_shared(context.plan.config.backend.storage):
        before = int(study.user_attrs.get(FIRST, 0))
        if context.leads and context.faults.first > before:
            study.set_user_attr(FIRST, context.faults.first)
        context.faults.first = max(before, context.faults.first)


def read_study(context: SweepContext) -> dict[int, StudyTrial] | None:
    """Return the trials in the study of a run directory; None if the study is damaged.

    Raises:
        DiskError: the study is busy, or cannot be read at this moment.
    """
    path = study_file(context)
    if path is not None and not path.exists():
        return {}
    if path is None:
        if not context.directory.numbers():
            return {}
        with _opened(context) as study:
            return read_trials(study, context.plan.space, is_shared=True)
    try:
        if not is_sound(path):
            return None
        with _opened(context) as study:
            check_trials(study)
            return read_trials(study, context.plan.space)
    except Exception as err:  # any part of Optuna may notice a damaged value
        is_refusal = isinstance(err, (NewerFormatError, DirectionError, RecordError))
        if not is_damage(err) or (is_refusal and not context.directory.is_known):
            raise  # perhaps because of a change to the sweep that no file shows any more
        return None


def restore_study(
    context: SweepContext, trials: Mapping[int, StudyTrial] | None, records: Sequence[TrialRecord]
) -> str | None:
    """Create a study again that is damaged, contradicts the records, or has open trials of another space.

    Args:
        context: the context of the sweep.
        trials: the trials in the study; None if it is damaged.
        records: the records of the trials.

    Returns:
        A line on what was done; None if the study is fine.

    Raises:
        ConfigError: a worker is at work on a trial of it.
    """
    path = study_file(context)
    is_current = trials is not None and all(trial.is_current for trial in trials.values())
    if trials is not None and is_current and all(_agrees(trials.get(one.number), one) for one in records):
        return None
    context.directory.check_no_worker()
    exists = path is not None and path.exists()
    aside = f"; the old one is kept as {quarantine_study(path).name}" if path is not None and exists else ""
    with _opened(context) as study:
        judged = context.trials.spec.judged
        restore(study, records, context.plan.space, context.plan.points, judged)
    name = f"the study {context.plan.name}" if path is None else context.directory.display_path(path)
    return (
        f"{name} was {'damaged' if trials is None else 'inconsistent with the trials'}, rebuilt from the "
        f"trials{aside}"
    )


def reserve_slots(study: optuna.Study, context: SweepContext) -> None:
    """Add the missing slots; one at a time where only time or target end the sweep."""
    total = context.plan.trials
    if total is None:
        trials = study.get_trials(deepcopy=False)
        total = len(trials) + all(trial.state is not OptunaState.WAITING for trial in trials)
    reserve(study, total, context.plan.points)


def has_open_trials(study: optuna.Study, context: SweepContext) -> bool:
    """Return whether a trial of the budget is running, or waits and may start."""
    _, trials = open_trials(study)
    total = context.plan.trials
    ours = [trial for trial in trials if total is None or trial.number < total]
    if not ours or not is_used_up(study, context):
        return bool(ours)
    return any(trial.state is OptunaState.RUNNING or context.has_begun(trial.number) for trial in ours)


def is_over(study: optuna.Study, context: SweepContext) -> bool:
    """Return whether the trials of all processes end the sweep: by their target, failures or faults."""
    budget = context.plan.config.budget
    if context.judges_faults:
        _add_faults(study, context)
    if context.over:
        return True
    if budget.failures is not None:
        failed = study.get_trials(deepcopy=False, states=(OptunaState.FAIL,))
        if context.fails(len(failed)):
            return True
    return budget.target is not None and any(map(context.reaches, study_records(study, context.ended)))


def is_used_up(study: optuna.Study, context: SweepContext) -> bool:
    """Return whether `budget.stale` or `cost` is used up: no trial starts, but those of the dead resume."""
    budget = context.plan.config.budget
    if budget.stale is None and budget.cost is None:
        return False
    return context.resolved.is_used_up(study_records(study, context.ended))


def _add_faults(study: optuna.Study, context: SweepContext) -> None:
    """Add the trials of other processes to the faults of a sweep.

    Epochs settle it; where a logged cost may be missing in all of them, those of a trial that has ended.
    """
    is_logged = context.resolved.unit.logged is not None
    for trial in study.get_trials(deepcopy=False):
        record = shared_record(trial) if trial.state is OptunaState.FAIL else None
        if record is not None:
            context.faults.add(record)
        if (record is None or record.fault is None) and (trial.state.is_finished() or not is_logged):
            context.faults.settled = context.faults.settled or bool(trial.intermediate_values)


@contextmanager
def _opened(context: SweepContext, verbose: bool = False) -> Iterator[optuna.Study]:
    optuna.logging.set_verbosity(optuna.logging.INFO if verbose else optuna.logging.WARNING)
    with opened_storage(_study_place(context)) as storage:
        yield _open_study(context, storage)


def _agrees(trial: StudyTrial | None, record: TrialRecord) -> bool:
    """Return whether a study has a trial, has started it if it is finished, and has the same result."""
    if trial is None:
        return False
    if not record.state.finished:
        return True
    other = trial.record
    if not other.state.finished:
        return other.state is not TrialState.WAITING
    return (other.value, other.epoch, other.given) == (record.value, record.epoch, record.given)


def _open_study(context: SweepContext, storage: optuna.storages.BaseStorage) -> optuna.Study:
    plan, optimized = context.plan, context.resolved.optimized
    sampler = sampler_of(plan)
    if ":" in plan.sampler:
        sampler = OwnSampler(sampler, plan.sampler)
    study = open_study(
        storage,
        plan.name,
        optimized,
        with_prior(sampler, context.priors, plan.space),
        pruner_of(plan),
    )
    check_study(study, optimized)
    check_origin(study, list(optimized), plan.space, extend=context.extend)
    if is_shared(plan.config.backend.storage):
        publish(study, context)
    return study


def study_file(context: SweepContext) -> Path | None:
    """Return the study's file in the run directory; None if the study is in memory or elsewhere."""
    return file_of_study(context.directory, context.plan.config.backend.storage)


def _study_place(context: SweepContext) -> str | Path:
    storage = context.plan.config.backend.storage
    if storage == MEMORY and context.directory.records():
        raise ConfigError(
            f"{context.directory.label}: has trials that storage: memory has lost; --fresh starts over"
        )
    return study_file(context) or (url_of(storage) if is_shared(storage) else storage)


def _finish_trials(study: optuna.Study, context: SweepContext, ownership: LocalOwnership) -> None:
    """Write the results of trials to the study whose worker died after it had written their record."""
    finished = {record.number: record for record in context.directory.records() if record.state.finished}
    if finished and max(finished) >= open_trials(study)[0]:
        raise ConfigError(
            f"{context.directory.label}: the study does not have the {len(finished)} finished trials of "
            "the directory; hpometrics run adds them"
        )

    def take(number: int) -> bool:
        return number in finished and ownership.take_stale(number)

    while trial := reclaim(study, take, ownership.release):
        tell(study, trial, finished[trial.number])
        ownership.release(trial.number)
