"""Publication: a sweep in the attributes of its study, for workers that see nothing but the storage."""

from __future__ import annotations

import optuna

from ..backends.optuna.long_attributes import get_attribute, put_attribute
from ..backends.optuna.storage import close_storage, open_storage, storing
from ..backends.optuna.study import PREFIX
from ..config.storage_url import is_shared, storage_of, url_of, written
from ..exceptions import ConfigError
from ..results.manifest import Resolved, changes, parse_resolved
from .context import Job

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
