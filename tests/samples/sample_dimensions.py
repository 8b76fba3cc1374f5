"""Dimensions that are drawn in another form than their values, and draws of them."""

from __future__ import annotations

import optuna
import pytest

from hpometrics.backends.optuna.samplers import make_sampler
from hpometrics.space.dimensions import Choice, Dimension, Float, Int, Normal
from hpometrics.space.space import Space

DRAWS = 3000
CHANCE = 0.001
"""The share of seeds under which a right distribution fails a test."""
FORMS: dict[str, Dimension] = {
    "normal": Normal(0.9, 0.02),
    "log-normal": Normal(-3, 1.5, log=True),
    "steps of a normal": Normal(0, 0.3, step=0.1),
    "whole steps of a normal": Normal(100, 20, step=8),
    "steps of a log-normal": Normal(3, 1, log=True, step=4),
    "steps of a logarithm": Float(0.001, 1, log=True, step=0.001),
    "whole steps of a logarithm": Int(8, 512, log=True, step=8),
    "powers": Int(3, 1000, power=3),
    "weights": Choice(["a", None, 1, 2.5], weights=[1, 2, 6, 1]),
}
each = pytest.mark.parametrize("dimension", FORMS.values(), ids=FORMS)


def values(dimension: Dimension, sampler: str = "random", count: int = DRAWS) -> list:
    """The values that a sampler draws in trials of the same value."""
    space = Space({"x": dimension})
    study = optuna.create_study(sampler=make_sampler(sampler, 7))
    taken = []
    for _ in range(count):
        trial = study.ask()
        taken.append(space.suggest(trial)["x"])
        study.tell(trial, 0.0)
    return taken
