"""The trials of a record as a study that Optuna can draw: in memory, whatever storage the sweep had."""

from __future__ import annotations

from collections.abc import Sequence

import optuna
from optuna.trial import FixedTrial, FrozenTrial, TrialState as OptunaState, create_trial

from ...exceptions import SpaceError
from ...search.record import TrialRecord, TrialState
from ...search.space import Space
from ..loader import Document
from ..resolved import Resolved
from ..searched import LIST, read_space
from ..structure import read_config


def space_of(resolved: Resolved) -> Space | None:
    """Give the space that was searched; None where a list of params was tried.

    Raises:
        SweepFileError: the record holds a config that this version does not read.
    """
    document = Document("sweep.resolved.yaml", data=dict(resolved.config))
    space = read_space(read_config(document), document)
    document.raise_problems()
    return None if space is None or LIST in space.dimensions else space


def study_of(
    records: Sequence[TrialRecord], resolved: Resolved, space: Space | None = None, infeasible: bool = False
) -> optuna.Study:
    """Give a study whose complete trials have the numbers and values of the record.

    Args:
        records: of the sweep.
        resolved: what it is about.
        space: gives the trials their params too; a complete trial whose params lie outside of it, as an
            earlier space allowed, is left out.
        infeasible: whether trials that break a constraint are there too, as complete ones that break it.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction=resolved.objective.value, study_name=resolved.name)
    known = {record.number: record for record in records}
    numbers = range(max(known, default=-1) + 1)
    states = (TrialState.COMPLETE, TrialState.INFEASIBLE) if infeasible else (TrialState.COMPLETE,)
    kept = {number: record for number, record in known.items() if record.state in states}
    study.add_trials([_trial(kept.get(number), space) for number in numbers])
    return study


def _trial(record: TrialRecord | None, space: Space | None) -> FrozenTrial:
    """Give the trial, or one that failed in the place of what is not drawn, so that numbers stay."""
    if record is None or record.value is None:
        return create_trial(state=OptunaState.FAIL)
    try:
        drawn = _with_params(record, space)
    except SpaceError:
        return create_trial(state=OptunaState.FAIL)
    return create_trial(
        value=record.value,
        params=drawn.params,
        distributions=drawn.distributions,
        constraints=dict(record.constraints),
    )


def _with_params(record: TrialRecord, space: Space | None) -> FixedTrial:
    if space is None:
        return FixedTrial({})
    space.check(record.params)
    drawn = FixedTrial(space.encode(record.params))
    space.suggest(drawn)
    return drawn
