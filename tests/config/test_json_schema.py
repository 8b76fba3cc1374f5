from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from sample_sweeps import SWEEP, changed

from hpometrics.config.document import parse_document, read_document
from hpometrics.config.json_schema import json_schema
from hpometrics.metrics.registry.index import all_entries

CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
SCHEMA = json_schema()
DIALECTS = [jsonschema.Draft7Validator, jsonschema.Draft202012Validator]
TEXTS = {
    "the sample": SWEEP,
    "parametrized metrics": changed("roc_auc", "f1(average=macro)").replace(
        "[accuracy]", "[hits@5, {metric: f1}]"
    ),
    "options": changed("sampler: random", "sampler: {tpe: {n_startup_trials: 3}}, pruner: none"),
    "a short engine": changed("{target: toy_engine:train, output: binary}", "toy_engine:train"),
    "scalars and values": changed("{float: [1e-4, 1e-1], log: true}", "0.1"),
    "durations": changed("trials: 4", "time: 1.5h"),
    "a list": SWEEP + "backend: {list: [{lr: 0.1, size: small}]}\n",
    "examples": changed("[accuracy]", "[accuracy], track_examples: 5"),
    "examples by another metric": changed(
        "[accuracy]", "[accuracy], track_examples: {metric: accuracy, best: 0}"
    ),
    "ray": SWEEP + "backend: {ray: {workers: 2, resources: {cpu: 1}}}\nversion: 1\n",
}


def is_valid(dialect: type, data: object) -> bool:
    """Whether a validator of this dialect accepts the data."""
    return bool(dialect(SCHEMA).is_valid(data))


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_schema_is_a_schema(dialect):
    """Of the old dialect that editors read and of the new one."""
    dialect.check_schema(SCHEMA)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda path: path.name)
def test_shipped_configs_are_valid(config, dialect):
    """Every one of them."""
    dialect(SCHEMA).validate(read_document(config).data)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", TEXTS)
def test_every_form_is_valid(name, dialect):
    """Short and long forms, metrics with parameters, every backend."""
    dialect(SCHEMA).validate(parse_document(TEXTS[name], "sweep.yaml").data)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("trials: 4", "trails: 4"),
        ("{float: [1e-4", "{flaot: [1e-4"),
        ("log: true", "log: 1"),
        ("trials: 4", "time: 10"),
        ("sampler: random", "sampler: randm"),
        ("sampler: random", "sampler: {randm: {}}"),
        ("sampler: random", "pruner: mediann"),
        ("track: [accuracy]", "constraints: [ece < 0.1]"),
        ("budget:", "results: {loggers: [csvv]}\nbudget:"),
        ("budget:", "results: {loggers: [{mlflw: {}}]}\nbudget:"),
    ],
)
def test_a_mistake_is_seen_by_the_editor_too(old, new):
    """Unknown keys and names, wrong types, a duration without a unit, a bound that is strict."""
    data = parse_document(changed(old, new), "sweep.yaml").data
    assert not any(is_valid(dialect, data) for dialect in DIALECTS)


def test_a_class_of_ones_own_is_no_mistake():
    """A sampler or a pruner may be any, by module and class."""
    for plugin in ("sampler: my.module:Sampler", "pruner: {my_module:Pruner: {patience: 3}}"):
        data = parse_document(changed("sampler: random", plugin), "sweep.yaml").data
        assert all(is_valid(dialect, data) for dialect in DIALECTS)


def test_metrics_are_suggested():
    """Every metric of the registry is among the suggestions in one way or another."""
    texts = SCHEMA["definitions"]["Metrics"]["properties"]["optimize"]["anyOf"][0]["anyOf"]
    suggested = {name.partition("(")[0].partition("@")[0] for name in texts[0]["enum"]}
    needing_numbers = {e.name for e in all_entries() if any(p.required and not p.choices for p in e.params)}
    assert {entry.name for entry in all_entries()} - needing_numbers <= suggested
