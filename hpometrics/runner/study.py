"""The study of a run directory: opened as it was left, with a slot per trial and a lock per worker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import optuna
from optuna.trial import TrialState as OptunaState

from ..backends.optuna.compatibility import check_origin
from ..backends.optuna.restore import check_trials, is_sound, put_aside_study, read_trials, restore
from ..backends.optuna.samplers import make_pruner, make_sampler
from ..backends.optuna.storage import close_storage, open_storage, storing, tells_of_damage
from ..backends.optuna.study import (
    PREFIX,
    check_study,
    get_attribute,
    open_study,
    put_attribute,
    study_records,
    tell,
)
from ..backends.optuna.trial_queue import open_trials, reclaim, reserve
from ..config.storage_url import is_shared, storage_of, url_of, written
from ..exceptions import ConfigError, NewerFormatError, ObjectiveError, RecordError
from ..records.recovery import StudyTrial
from ..records.trial_record import TrialRecord, TrialState
from ..results.manifest import Resolved, changes, parse_resolved
from .context import Job
from .leases import TrialLocks

SWEEP = f"{PREFIX}sweep"


def publish(study: optuna.Study, job: Job) -> None:
    """Write what the sweep is about into its study, unless it is there; a worker's word does not count.

    Raises:
        ConfigError: the trials of the study were made by another sweep; each difference is told.
        RecordError: what is there does not read.
    """
    before = published(study)
    if not job.leads:
        return
    _check_same(before, job)
    text = job.resolved.to_yaml()
    if get_attribute(study.user_attrs, SWEEP) != text:
        put_attribute(study.set_user_attr, SWEEP, text)


def published(study: optuna.Study) -> Resolved | None:
    """Read what a study says of its sweep; None if it says nothing.

    Raises:
        RecordError: it does not read.
    """
    text = get_attribute(study.user_attrs, SWEEP)
    return None if text is None else parse_resolved(str(text), f"the study {study.study_name}")


def check_published(job: Job, fresh: bool) -> None:
    """Refuse, before there is a directory, to join a study of another sweep, or to start over under others.

    Raises:
        ConfigError: the study in the shared storage is another one, or is there.
    """
    place, name = storage_of(job.plan.config.backend), job.plan.name
    if not is_shared(place):
        return
    with storing():
        storage = open_storage(url_of(place))
        try:
            there = job.plan.name in optuna.get_all_study_names(storage)
            before = (
                published(optuna.load_study(study_name=job.plan.name, storage=storage)) if there else None
            )
        finally:
            close_storage(storage)
    if there and fresh:
        raise ConfigError(
            f"--fresh: {written(place)} has a study {name!r}, at which others may work; give the "
            "sweep another name, or delete the study with: optuna delete-study"
        )
    _check_same(before, job)


def _check_same(before: Resolved | None, job: Job) -> None:
    found = [] if before is None else changes(before, job.resolved)
    fatal = any(change.fatal for change in found)
    if fatal or (found and not job.extend):
        lines = "\n".join(map(str, found))
        raise ConfigError(
            f"the study {job.plan.name}: its trials were made by another sweep:\n{lines}\n"
            f"{'give the sweep another name' if fatal else '--extend goes on'}"
        )


@contextmanager
def opened_study(job: Job, locks: TrialLocks, verbose: bool = False) -> Iterator[optuna.Study]:
    """Open the study of a job's directory, new or as it was left; Optuna's own log is for the verbose.

    Raises:
        HpometricsError: a sampler or pruner is not well formed, or the stored study is about something else.
        DiskError: at any time, the study cannot be read or written.
    """
    with _opened(job, verbose) as study:
        locks.attend(study)
        _tell_the_finished(study, job, locks)
        yield study


def read_study(job: Job) -> dict[int, StudyTrial] | None:
    """Read what the study of a run directory knows of its trials; None if it is damaged.

    Raises:
        DiskError: it is busy, or cannot be read at this moment.
    """
    path = study_file(job)
    if path is not None and not path.exists():
        return {}
    if path is None:
        if not job.directory.numbers():
            return {}
        with _opened(job) as study:
            return read_trials(study, job.plan.space, is_shared=True)
    try:
        if not is_sound(path):
            return None
        with _opened(job) as study:
            check_trials(study)
            return read_trials(study, job.plan.space)
    except Exception as err:  # what is damaged within a value, any part of Optuna may notice
        if not tells_of_damage(err) or _may_be_another(job, err):
            raise
        return None


def restore_study(job: Job, known: Mapping[int, StudyTrial] | None) -> str | None:
    """Make a study again that is damaged, contradicts the records, or has open trials of another space.

    Args:
        job: of the study.
        known: what it knows; None if it is damaged.

    Returns:
        What was done; None where nothing had to be.

    Raises:
        ConfigError: a worker is at work on a trial of it.
    """
    path, records = study_file(job), job.directory.records()
    is_current = known is not None and all(trial.is_current for trial in known.values())
    if known is not None and is_current and all(_agrees(known.get(one.number), one) for one in records):
        return None
    job.directory.check_no_worker()
    there = path is not None and path.exists()
    aside = f"; the old one is kept as {put_aside_study(path).name}" if path is not None and there else ""
    with _opened(job) as study:
        restore(study, records, job.plan.space, job.plan.points)
    name = f"the study {job.plan.name}" if path is None else job.directory.named(path)
    return (
        f"{name} was {'damaged' if known is None else 'not that of the trials'}, made again from them{aside}"
    )


def reserve_slots(study: optuna.Study, job: Job) -> None:
    """Add the slots that are missing; where only time or target end the sweep, one at a time."""
    total = job.plan.trials
    if total is None:
        there = study.get_trials(deepcopy=False)
        total = len(there) + all(trial.state is not OptunaState.WAITING for trial in there)
    reserve(study, total, job.plan.points)


def has_open_trials(study: optuna.Study, job: Job) -> bool:
    """Say whether a trial of the budget waits, or was left by a worker."""
    _, left = open_trials(study)
    return any(job.plan.trials is None or trial.number < job.plan.trials for trial in left)


def is_over(study: optuna.Study, job: Job) -> bool:
    """Say whether trials of any process have reached `budget.target`, or used up `budget.failures`."""
    budget = job.plan.config.budget
    if job.over:
        return True
    if budget.failures is not None:
        failed = study.get_trials(deepcopy=False, states=(OptunaState.FAIL,))
        if job.fails(len(failed)):
            return True
    return budget.target is not None and any(map(job.reaches, study_records(study)))


@contextmanager
def _opened(job: Job, verbose: bool = False) -> Iterator[optuna.Study]:
    optuna.logging.set_verbosity(optuna.logging.INFO if verbose else optuna.logging.WARNING)
    with storing():
        storage = open_storage(_place(job))
        try:
            yield _study(job, storage)
        finally:
            close_storage(storage)


def _may_be_another(job: Job, error: Exception) -> bool:
    """Say whether a study may be refused since the sweep has changed, which no file says any more."""
    refusals = (NewerFormatError, ObjectiveError, RecordError)
    return not job.directory.is_known and isinstance(error, refusals)


def _agrees(known: StudyTrial | None, record: TrialRecord) -> bool:
    """Say whether a study has a trial, has begun one that has ended, and knows the same of both's end."""
    if known is None:
        return False
    if not record.state.finished:
        return True
    other = known.record
    if not other.state.finished:
        return other.state is not TrialState.WAITING
    return (other.value, other.epoch, other.given) == (record.value, record.epoch, record.given)


def _study(job: Job, storage: optuna.storages.BaseStorage) -> optuna.Study:
    plan, search = job.plan, job.plan.config.search
    optimized = job.resolved.optimized
    on_ray = plan.config.backend.name == "ray"  # there a scheduler stops trials
    pruner = None if on_ray or search.pruner is None else search.pruner.spec
    study = open_study(
        storage,
        plan.name,
        optimized,
        make_sampler(plan.sampler_spec, search.seed, bool(job.resolved.constraints)),
        make_pruner(pruner, plan.config.budget.epochs),
    )
    check_study(study, optimized)
    check_origin(study, list(optimized), plan.space, extend=job.extend)
    if is_shared(storage_of(plan.config.backend)):
        publish(study, job)
    return study


def study_file(job: Job) -> Path | None:
    """Give the file of the run directory that the study is in; None if it is in memory or elsewhere."""
    files = {"sqlite": job.directory.study, "journal": job.directory.journal}
    return files.get(storage_of(job.plan.config.backend))


def _place(job: Job) -> str | Path:
    storage = storage_of(job.plan.config.backend)
    if storage == "memory" and job.directory.records():
        path = job.directory.label
        raise ConfigError(f"{path}: has trials that storage: memory has forgotten; --fresh starts over")
    return study_file(job) or (url_of(storage) if is_shared(storage) else storage)


def _tell_the_finished(study: optuna.Study, job: Job, locks: TrialLocks) -> None:
    """Tell the study of trials whose worker died after it wrote their end, before it told."""
    finished = {record.number: record for record in job.directory.records() if record.state.finished}
    if finished and max(finished) >= open_trials(study)[0]:
        raise ConfigError(
            f"{job.directory.label}: the study does not know the {len(finished)} finished trials that are "
            "here: hpometrics run makes them known to it"
        )

    def take(number: int) -> bool:
        return number in finished and locks.take_orphan(number)

    while trial := reclaim(study, take, locks.release):
        tell(study, trial, finished[trial.number])
        locks.release(trial.number)
