"""The study of a confirmation's fresh runs, `NAME:confirm`, in the storage of the search.

As trials of the search, the fresh runs would count in its budget, teach its sampler one point many times, and
make the luckiest of them its best trial.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import RandomSampler
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial, Trial, TrialState

from ...direction import Direction
from ...exceptions import SpaceError
from ...records._files import STATISTICS_LIMIT, atomic_write, make_private, read_lines
from ...records._json import read_sealed, sealed
from ...records.epoch_log import STATISTICS_FILE
from ...records.trial_record import TrialRecord
from ...space.space import Space
from ._internals import storage_of, trial_id_of
from .database import repeats_turn
from .storage import FRESH_RUNS, exclusive_study
from .study import PREFIX, RESULT, get_attribute, open_study, put_attribute, shared_record, tell, write_shared
from .trial_queue import claim

Key = tuple[int, int]
"""The trial of the search that a fresh run trains again, and the number of its seed."""

_TRIAL = f"{PREFIX}confirms"
_SEED = f"{PREFIX}seed_number"
_ROWS = f"{PREFIX}rows"
_OVER = f"{PREFIX}over"
_FINISHED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)


def key_of(trial: Trial | FrozenTrial) -> Key:
    """Return which fresh run a trial is."""
    attributes = trial.user_attrs
    return int(attributes[_TRIAL]), int(attributes[_SEED])


class FreshStudy:
    """The fresh runs of a confirmation as trials of a study; each has its params, epochs and values.

    Args:
        storage: that of the search.
        name: the name of the search's study.
        optimized: the direction of each metric that is optimized.
        space: the space of the params.
    """

    def __init__(
        self, storage: BaseStorage, name: str, optimized: Mapping[str, Direction], space: Space
    ) -> None:
        self.study = open_study(storage, f"{name}{FRESH_RUNS}", optimized, RandomSampler(seed=0))
        self._metrics, self._space = list(optimized), space
        self._shown: set[Key] = set()

    @property
    def is_over(self) -> bool:
        """Whether the confirmation has ended, so that no further run begins."""
        return bool(self.study.user_attrs.get(_OVER))

    @property
    def is_open(self) -> bool:
        """Whether a run waits or is trained."""
        return any(not trial.state.is_finished() for trial in self.study.get_trials(deepcopy=False))

    @repeats_turn
    def offer(self, missing: Mapping[Key, Mapping[str, Any]]) -> None:
        """Enqueue the fresh runs, with the params of each, that the study does not have."""
        with exclusive_study(self.study):
            if self.study.user_attrs.get(_OVER) is not False:
                self.study.set_user_attr(_OVER, False)
            present = self._present()
            for key, params in missing.items():
                if key not in present:
                    self._enqueue(key, params)

    @repeats_turn
    def close(self) -> None:
        """Mark the confirmation as ended; runs that wait are withdrawn."""
        storage = storage_of(self.study)
        with exclusive_study(self.study):
            self.study.set_user_attr(_OVER, True)
            for trial in self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,)):
                with suppress(UpdateFinishedTrialError):
                    storage.set_trial_state_values(trial_id_of(trial), TrialState.FAIL)

    def show(self, ended: Mapping[Key, TrialRecord]) -> None:
        """Add the runs that have ended and that the study does not have, for a dashboard."""
        new = ended.keys() - self._shown
        for key in sorted(new - self._present() if new else new):
            self._enqueue(key, ended[key].given)
            waiting = self.study.get_trials(deepcopy=False, states=(TrialState.WAITING,))
            ours = {one.number for one in waiting if key_of(one) == key}  # others wait for their training
            trial = claim(self.study, ours.__contains__)
            if trial is not None:
                self.describe(trial, ended[key])
                tell(self.study, trial, ended[key])
        self._shown |= new

    def describe(self, trial: Trial, record: TrialRecord) -> None:
        """Write the params and the epochs of a run to its running trial."""
        with suppress(SpaceError):  # an extended sweep has changed the space since
            self._space.encode(record.given)
            self._space.suggest(trial)
        if len(self._metrics) == 1:
            for epoch in record.epochs:
                trial.report(epoch.number(self._metrics[0]), epoch.epoch)

    def finished(self) -> list[FrozenTrial]:
        """Return the trials of the runs that have ended."""
        return self.study.get_trials(deepcopy=False, states=_FINISHED)

    def _present(self) -> set[Key]:
        """Return the runs that wait, are trained or have ended; one that was withdrawn is missing."""
        trials = self.study.get_trials(deepcopy=False)
        return {key_of(one) for one in trials if not one.state.is_finished() or RESULT in one.user_attrs}

    def _enqueue(self, key: Key, params: Mapping[str, Any]) -> None:
        point: Mapping[str, Any] = {}
        with suppress(SpaceError):
            point = self._space.encode(params)
        self.study.enqueue_trial(dict(point), user_attrs={_TRIAL: key[0], _SEED: key[1]})


def send_rows(trial: Trial, home: Path) -> None:
    """Write the row values of a run, as its directory has them, to its running trial."""
    path, lines = home / STATISTICS_FILE, []
    if path.exists():
        for line in read_lines(path, STATISTICS_LIMIT):
            content = read_sealed(line.decode(), str(path))
            if "rows" in content:
                bare = {name: fact for name, fact in content.items() if name != "digest"}
                lines.append(sealed(json.dumps({**bare, "parts": []}, allow_nan=False)))
    if lines:
        put_attribute(trial.set_user_attr, _ROWS, lines)


def write_rows(home: Path, trial: FrozenTrial) -> None:
    """Write the row values of a trial that ended on another machine to its directory here, if it has some.

    Raises:
        RecordError: they are damaged.
    """
    lines = get_attribute(trial.user_attrs, _ROWS)
    if lines:
        make_private(home)
        with atomic_write(home / STATISTICS_FILE) as file:
            file.writelines(f"{line}\n".encode() for line in lines)


def write_fresh_run(home: Path, trial: FrozenTrial) -> None:
    """Write the files of a run that ended on another machine; one that was withdrawn has none.

    Raises:
        RecordError: the storage holds a record that cannot be parsed.
    """
    record = shared_record(trial)
    if record is not None:
        write_rows(home, trial)
        write_shared(home, replace(record, number=key_of(trial)[1]))
