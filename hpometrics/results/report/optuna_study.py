"""The trials of a record as an Optuna study in memory, whatever storage the sweep had."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.trial import FixedTrial, FrozenTrial, TrialState as OptunaState, create_trial

from ...backends.optuna.samplers import set_excesses
from ...backends.registry import BACKENDS
from ...config.document import Document
from ...config.space_section import read_space
from ...config.validate import read_config
from ...config.yaml_text import format_exact
from ...exceptions import SpaceError
from ...records.trial_record import TrialRecord, TrialState
from ...space.space import Space
from ...space.values import is_number
from ..manifest import Resolved

_ANY_ENGINE = "engine:train"  # a sweep has an engine; its space is the same for all but those of a choice


def space_of(resolved: Resolved) -> Space | None:
    """Return the search space without fixed params; None if a list of params was tried.

    Nothing else of the config is read, because only the machines of the trials need to have the variables
    that `${env:NAME}` stands for there.

    Raises:
        SweepFileError: the record holds a space that this version cannot read.
    """
    config = resolved.config
    if BACKENDS[resolved.backend].has_points and not config["space"]:
        return None
    choice = config["engine"].get("choice")
    engine = {"choice": choice} if choice else {"target": _ANY_ENGINE}
    data = {"engine": engine, "space": config["space"], "budget": {}}
    document = Document("sweep.resolved.yaml", data=data)
    space = read_space(read_config(document), document)
    document.raise_problems()
    return space


def study_of(
    records: Sequence[TrialRecord],
    resolved: Resolved,
    space: Space | None = None,
    *,
    infeasible: bool = False,
) -> optuna.Study:
    """Return a study of the first objective whose complete trials have the numbers and values of the record.

    Args:
        records: the trials of the sweep.
        resolved: the resolved sweep.
        space: the space of the params, which the trials then have too; a complete trial whose params lie
            outside of it, as an earlier space allowed, is left out.
        infeasible: whether to include trials that break a constraint, as complete ones that break it.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(direction=resolved.direction.value, study_name=resolved.name)
    included = {
        record.number: record
        for record in records
        if record.state is TrialState.COMPLETE or (infeasible and record.state.trained)
    }
    numbers = range(max((record.number for record in records), default=-1) + 1)
    study.add_trials([_trial(included.get(number), resolved, space) for number in numbers])
    return study


def _trial(record: TrialRecord | None, resolved: Resolved, space: Space | None) -> FrozenTrial:
    """Return the trial, or a failed one in the place of a trial that is left out, so that numbers stay."""
    scores = () if record is None else record.scores([resolved.metric])
    if record is None or not all(map(math.isfinite, scores)):
        return create_trial(state=OptunaState.FAIL)
    try:
        params = {name: value for name, value in record.params.items() if name not in resolved.fixed}
        params_trial = _with_params(params, space)
    except SpaceError:
        return create_trial(state=OptunaState.FAIL)
    distributions = {name: _by_name(one) for name, one in params_trial.distributions.items()}
    choices = {name for name, one in distributions.items() if one is not params_trial.distributions[name]}
    trial = create_trial(
        values=scores,
        params={
            name: format_exact(value) if name in choices else value
            for name, value in params_trial.params.items()
        },
        distributions=distributions,
    )
    set_excesses(trial, record.constraints)
    return trial


def _by_name(distribution: BaseDistribution) -> BaseDistribution:
    """Return choices as texts, null and "1" among them; numbers alone stay numbers, in their order."""
    if not isinstance(distribution, CategoricalDistribution):
        return distribution
    if all(map(is_number, distribution.choices)):
        return distribution
    return CategoricalDistribution([format_exact(one) for one in distribution.choices])


def _with_params(params: Mapping[str, Any], space: Space | None) -> FixedTrial:
    if space is None:
        return FixedTrial({})
    space.check(params)
    plain = space.plain  # with the values themselves, which the figures show
    trial = FixedTrial(plain.encode(params))
    plain.suggest(trial)
    return trial
