"""A plan made from the record of a sweep is the plan that the sweep file made."""

from __future__ import annotations

from pathlib import Path

import pytest
from sample_sweeps import SWEEP, changed

from hpometrics.config.document import parse_document
from hpometrics.config.plan import Plan, make_plan, read_plan
from hpometrics.config.yaml_text import dump_yaml

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
LISTED = SWEEP.replace("search: {sampler: random, seed: 3}", "backend: {list: [{lr: 0.1, size: small}]}")


def again(plan: Plan) -> Plan:
    """Plan from the resolved config, as a worker and a replay do."""
    return make_plan(parse_document(dump_yaml(plan.to_config()), str(plan.file)))


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_every_shipped_sweep_can_be_planned_again(file):
    """Whatever its file leaves to defaults."""
    plan = read_plan(file)
    check(plan, again(plan))


@pytest.mark.parametrize(
    "text",
    [
        LISTED,
        changed("sampler: random", "sampler: tpe, pruner: {median: {warmup: 2}}"),
        changed("track: [accuracy]", "track: [f1], constraints: [accuracy >= 0.5, 'mb <= 3'], at: last"),
        changed("trials: 4, epochs: 3", "trials: 4, epochs: 3, time: 2h, target: 0.9, patience: 2"),
        changed("seed: 3}", "seed: 3, start: [{lr: 0.01}]}"),
        changed("optimize: roc_auc", "optimize: {combine: {roc_auc: 1, accuracy: 0.5}}"),
        changed("log: true}", "log: true}\n  most: {value: null}"),
    ],
)
def test_what_a_file_can_say_is_kept(text):
    """Points, plug-ins with options, durations, constraints, combinations."""
    plan = make_plan(parse_document(text, "sweep.yaml"))
    check(plan, again(plan))


def check(plan: Plan, other: Plan) -> None:
    """All that a plan comes to is the same."""
    assert other.to_config() == plan.to_config()
    assert (other.optimize, other.track, other.bounds) == (plan.optimize, plan.track, plan.bounds)
    assert (other.space.fingerprint(), other.points) == (plan.space.fingerprint(), plan.points)
    assert (other.sampler, other.pruner, other.trials) == (plan.sampler, plan.pruner, plan.trials)
