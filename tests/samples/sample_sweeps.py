"""Sweep files that the tests change, and what they do with them."""

from __future__ import annotations

import pytest
from matrix import EXHAUSTIVE

from hpometrics.config.document import SweepFileError, parse_document
from hpometrics.config.plan import Plan, make_plan

SWEEP = """\
engine: {target: toy_engine:train, output: binary}
space:
  lr: {float: [1e-4, 1e-1], log: true}
  size: {choice: {small: {depth: 1, width: 8}, large: {depth: 3, width: 32}}}
metrics: {optimize: roc_auc, track: [accuracy]}
search: {sampler: random, seed: 3}
budget: {trials: 4, epochs: 3}
"""
OBJECTIVES = "optimize: [roc_auc, {metric: cost, direction: minimize}]"
SEVERAL = f"""\
engine: {{target: toy_engine:trade, output: binary}}
space: {{size: {{int: [1, 9]}}}}
metrics: {{{OBJECTIVES}, track: [accuracy]}}
search: {{sampler: nsga2, seed: 3}}
budget: {{trials: 9, epochs: 2}}
"""
PRUNED = """\
engine: {target: toy_engine:trade, output: binary}
space: {size: {int: [1, 9]}}
metrics: {optimize: [roc_auc, {metric: cost, direction: minimize}], track: [accuracy]}
search:
  sampler: random
  seed: 3
  pruner: {median: {min_trials: 2}}
  prune_by: roc_auc
budget: {trials: 9, epochs: 3}
"""
DOMINATED = PRUNED.replace("median: {", "percentile: {percentile: 10, ").replace(
    "by: roc_auc", "by: dominance"
)
"""The dearer the better, so no trial dominates another: pruned is who is neither best nor cheapest."""
WORKERS = [2, pytest.param(3, marks=EXHAUSTIVE)]
"""How many processes share a sweep; each that is hired loads torch anew."""


def plan_of(text: str) -> Plan:
    """Check the text of a sweep file."""
    return make_plan(parse_document(text, "sweep.yaml"))


def problems_of(text: str) -> list[str]:
    """All problems of a sweep file, as they are printed; none if it is right."""
    try:
        plan_of(text)
    except SweepFileError as err:
        return [str(problem) for problem in err.problems]
    return []


def changed(old: str, new: str, text: str = SWEEP) -> str:
    """The sweep file with one piece of text replaced."""
    assert text.count(old) == 1
    return text.replace(old, new)
