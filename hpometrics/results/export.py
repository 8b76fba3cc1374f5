"""Write `trials.csv` with every trial, and `best.yaml` with the best params and their provenance."""

from __future__ import annotations

import math
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .._formatting import number, shape_of
from .._redaction import mask_secrets
from ..config.yaml_text import dump_yaml
from ..direction import Direction
from ..loggers.csv import csv_text
from ..records._json import FORMAT, FORMAT_KEY
from ..records.trial_record import Reading, TrialRecord
from ..selection.confirmation import Standing
from ..selection.front_confirmation import AnyConfirmation, FrontConfirmation, FrontMember
from ..selection.intervals import Significance
from ..selection.rules import Constraint
from ..selection.selection import Best
from .annotations import NOTE_LENGTH
from .manifest import Resolved

_TEST = "test:"


@dataclass(frozen=True)
class HeldOut:
    """The optimized metric on the test split, if the engine updates that split.

    Attributes:
        name: its name in the record.
        value: its value at the picked epoch, on whose choice it had no influence.
        optimism: by how much it is worse than the validation value; below 0 it is better.
    """

    name: str
    value: float
    optimism: float

    @property
    def words(self) -> str:
        """The comparison of the two values in words."""
        gap = number(abs(self.optimism))
        if self.optimism > 0:
            return f"{gap} worse than on validation, because the pick is optimistic"
        return f"{gap} better than on validation: no optimism" if self.optimism else "as on validation"

    def to_json(self) -> dict[str, Any]:
        """Return the value and the optimism as plain JSON."""
        return {"value": self.value, "optimism": self.optimism}


def held_out(
    values: Mapping[str, Reading], metric: str, direction: Direction, value: float | None
) -> HeldOut | None:
    """Return the test value among those of an epoch; None if there is no finite one.

    >>> found = held_out({"accuracy": 0.75, "test:accuracy": 0.5}, "accuracy", Direction.MAXIMIZE, 0.75)
    >>> found.words
    '0.25 worse than on validation, because the pick is optimistic'
    """
    name = f"{_TEST}{metric}"
    tested = values.get(name)
    if value is None or tested is None or isinstance(tested, list) or not math.isfinite(tested):
        return None
    return HeldOut(name, tested, direction.worse_by(tested, value))


def values_shown(records: Iterable[TrialRecord], resolved: Resolved) -> dict[str, Direction | None]:
    """Return the values in tables, each with its direction: optimized, then its test value, then tracked."""
    name = f"{_TEST}{resolved.metric}"
    tested = any(name in record.picked_values for record in records)
    beside = {name: resolved.direction} if tested else {}
    return {resolved.metric: resolved.direction, **beside, **resolved.beside}


def trials_csv(
    records: Sequence[TrialRecord], resolved: Resolved, confirmation: AnyConfirmation | None = None
) -> str:
    """Return the table of trials as CSV."""
    return csv_text(trial_table(records, resolved, confirmation))


def trial_table(
    records: Sequence[TrialRecord], resolved: Resolved, confirmation: AnyConfirmation | None = None
) -> list[list[Any]]:
    """Return a head and a row per trial, with `params.name`, and `values.name` of its picked epoch.

    Before the params are tags and notes, if there are some. Where the winner was confirmed, a contender also
    has the mean and the number of its fresh runs, and the number of seeds after which it left. Where a front
    was, its trials have the mean of each objective.
    """
    params = list(resolved.ordered({name: None for record in records for name in record.params}))
    values = list(values_shown(records, resolved))
    steps = any(record.step is not None for record in records)
    facts = f"trial state value deviation repeats epoch{' step' * steps} epochs seconds seed reason".split()
    facts += ["cost"] if resolved.weighs_cost else []
    standings = {} if confirmation is None else {one.trial: _standing(one) for one in confirmation.standings}
    if isinstance(confirmation, FrontConfirmation):
        facts += [f"confirmed_mean.{name}" for name in confirmation.objectives]
        facts += ["confirmed_seeds", "beaten_by"]
    elif confirmation is not None:
        facts += ["confirmed_mean", "confirmed_seeds", "left_at"]
    empty = [None] * len(next(iter(standings.values()), ()))
    noted = resolved.annotations.columns([record.number for record in records], NOTE_LENGTH)
    heads = [*noted, *(f"params.{name}" for name in params), *(f"values.{name}" for name in values)]
    rows = [
        [
            record.number,
            record.state.value,
            record.value,
            record.deviation,
            max(1, len(record.repeats)),
            record.epoch,
            *([record.step] if steps else []),
            len(record.epochs),
            round(record.seconds, 3),
            record.seed,
            record.reason,
            *cost_fact(record, resolved).values(),
            *standings.get(record.number, empty),
            *(cells[index] for cells in noted.values()),
            *(mask_secrets(record.params.get(name)) for name in params),
            *(_scalar(record.picked_values.get(name)) for name in values),
        ]
        for index, record in enumerate(records)
    ]
    return [[*facts, *heads], *rows]


def _standing(one: Standing | FrontMember) -> list[float | None]:
    if isinstance(one, Standing):
        return [one.mean, one.seeds, one.left_at]
    return [*(value.value for value in one.values.values()), one.seeds, one.beaten_by]


def _scalar(value: Reading | None) -> float | str | None:
    """Return a number as it is, and the shape of an array, which only `epochs.jsonl` holds."""
    return shape_of(value) if isinstance(value, list) else value


def best_facts(
    best: Best,
    record: TrialRecord,
    resolved: Resolved,
    home: pathlib.Path,
    verdict: Significance | None = None,
    confirmed: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return the optimal engine params with their provenance; `engine.params` accepts `params`."""
    tested = held_out(best.values, best.metric, best.direction, best.value)
    annotation = resolved.annotations.trial(best.trial)
    return {
        FORMAT_KEY: FORMAT,
        "params": resolved.ordered(best.params),
        **_objective_facts(best, resolved),
        "metric": best.metric,
        "objective": best.direction.value,
        "value": best.value,
        "deviation": best.deviation,
        "repeats": [{"seed": r.seed, "value": r.value, "epoch": r.epoch} for r in best.runs],
        "exploits": [one.to_json() for one in record.exploits],
        "test": None if tested is None else tested.to_json(),
        "at": resolved.at,
        "epoch": best.epoch,
        **step_fact(best),
        "trial": best.trial,
        **(annotation.facts() if annotation else {}),
        "values": {name: None if value != value else _scalar(value) for name, value in best.values.items()},
        "verdict": None if verdict is None else verdict.to_json(),
        **({} if confirmed is None else {"confirmed": confirmed}),
        **cost_fact(record, resolved),
        "checkpoint": None if best.checkpoint is None else os.path.relpath(best.checkpoint, home),
        "seed": best.seed,
        "sweep": resolved.name,
        "engine": resolved.engine,
        "output": resolved.output,
        "space": resolved.space,
        "versions": dict(record.versions),
    }


def step_fact(picked: Best | TrialRecord) -> dict[str, int]:
    """Return the steps done at the end of the picked epoch, as a fact; none where no steps are counted."""
    return {} if picked.step is None else {"step": picked.step}


def cost_fact(record: TrialRecord, resolved: Resolved) -> dict[str, float | None]:
    """Return what a trial has cost, as a fact; none where no cost counts."""
    cost = resolved.unit.cost_of(record)
    return {"cost": cost if math.isfinite(cost) else None} if resolved.weighs_cost else {}


def least_facts(record: TrialRecord, resolved: Resolved, reason: str) -> dict[str, Any]:
    """Return the trial that breaks the constraints least, and by how much, if none is feasible."""
    values = values_shown([record], resolved)
    return {
        "feasible": False,
        "reason": reason,
        "trial": record.number,
        "epoch": record.epoch,
        **step_fact(record),
        "params": resolved.ordered(record.params),
        "metric": resolved.metric,
        "objective": resolved.direction.value,
        "value": record.value,
        "values": {name: _number(record.picked_values.get(name)) for name in values},
        "violations": [
            {
                "constraint": text,
                "value": _number(record.picked_values.get(Constraint.parse(text).name)),
                "excess": _number(excess),
            }
            for text, excess in record.constraints.items()
            if excess > 0
        ],
        "sweep": resolved.name,
    }


def _number(value: Reading | None) -> float | str | None:
    scalar = _scalar(value)
    return scalar if not isinstance(scalar, float) or math.isfinite(scalar) else None


def _objective_facts(best: Best, resolved: Resolved) -> dict[str, Any]:
    """Return how a trial was picked from the front of several objectives, and its values there."""
    if not resolved.others:
        return {}
    scores = zip(resolved.optimized.items(), best.scores, strict=True)
    objectives = {name: {"objective": way.value, "value": value} for (name, way), value in scores}
    return {"pick": resolved.pick, "objectives": objectives}


def best_yaml(facts: dict[str, Any]) -> str:
    """Return the text of `best.yaml`."""
    return "# The optimal engine params and where they come from; epochs count from 0.\n" + dump_yaml(facts)
