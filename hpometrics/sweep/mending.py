"""Mending a run directory: what is damaged is put aside and said, what is left of it goes on."""

from __future__ import annotations

from collections.abc import Iterator

from ..exceptions import RecordError
from ..search.epoch_log import read_trial
from ..search.mending import mend_trial
from .job import Job
from .studies import known_trials, restore_study


def mend(job: Job) -> Iterator[str]:
    """Mend the directory of a job, which no other run works in, and say each thing that was done.

    Raises:
        ConfigError: something is damaged, and a worker is at work.
    """
    damaged = list(_damaged(job))
    if damaged:
        job.directory.check_no_worker()
        known = known_trials(job)
        for number in damaged:
            done = mend_trial(job.directory.trial(number), known.get(number), job.resolved.metric)
            yield done.replace(str(job.directory.path), str(job.directory.label))
    restored = restore_study(job)
    if restored is not None:
        yield restored


def _damaged(job: Job) -> Iterator[int]:
    for path in job.directory.begun():
        try:
            read_trial(path)
        except RecordError:
            yield int(path.name)
