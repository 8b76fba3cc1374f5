"""Compatibility of a stored study with a search: the space of its trials, and their metrics."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import optuna
from optuna.trial import TrialState

from ...exceptions import RecordError, SpaceError
from ...space.space import Space
from .study import PREFIX, RESULT, panel_of

SPACE = f"{PREFIX}space"


def check_origin(study: optuna.Study, metrics: Sequence[str], space: Space, extend: bool = False) -> None:
    """Refuse a study whose trials have another space or metric; write the space to a new one.

    Args:
        study: new, stored, or created by hand.
        metrics: the canonical names of what is optimized.
        space: the space from which its next trials are drawn.
        extend: accept a changed space and store it.

    Raises:
        RecordError: the metrics differ, or the space; the message has each difference.
    """
    name = study.study_name
    if study.metric_names is not None and list(study.metric_names) != list(metrics):
        stored, requested = ", ".join(study.metric_names), ", ".join(metrics)
        raise RecordError(f"the study {name!r} is of {stored}, not of {requested}; create another one for it")
    before: Mapping[str, Any] | None = study.user_attrs.get(SPACE)
    now = json.loads(json.dumps(space.to_json(), allow_nan=False))
    if before is None:
        _check_unmarked(study, metrics, space)
    elif before != now and not extend:
        lines = "\n".join(_differences(before, now))
        raise RecordError(
            f"the study {name!r} was made with another space:\n{lines}\n"
            "create another study, or give it the space that it has"
        )
    if before != now:
        study.set_user_attr(SPACE, now)


def _check_unmarked(study: optuna.Study, metrics: Sequence[str], space: Space) -> None:
    """Refuse trials of another objective, unless they fit and the user has named their metrics."""
    finished = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    unmarked = [trial for trial in finished if RESULT not in trial.user_attrs]
    for trial in unmarked:
        try:
            space.decode(trial.params)
        except SpaceError as err:
            raise RecordError(
                f"trial {trial.number} of the study {study.study_name!r} is of another space: {err}; "
                "create another study"
            ) from None
    panels = [panel_of(trial) for trial in unmarked]  # of runs in a user's own objective
    foreign = [panel for panel in panels if panel is None or list(panel["metrics"]) != list(metrics)]
    if foreign and study.metric_names is None:
        raise RecordError(
            f"the study {study.study_name!r} has {len(foreign)} finished trials that do not say which metric "
            f"their values are of; if they are, study.set_metric_names({list(metrics)}) says so, "
            "if not, create another study"
        )


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    for name in dict.fromkeys([*before, *now]):
        if before.get(name) != now.get(name):
            old, new = _format_dimension(before.get(name)), _format_dimension(now.get(name))
            yield f"  space.{name}: {old} -> {new}"


def _format_dimension(dimension: Mapping[str, Any] | None) -> str:
    """Format a dimension as it is written in Python, without defaults such as `log=false`."""
    if dimension is None:
        return "(not there)"
    facts = {name: fact for name, fact in dimension.items() if name != "kind" and fact is not False}
    return f"{dimension['kind']}({', '.join(f'{name}={json.dumps(fact)}' for name, fact in facts.items())})"
