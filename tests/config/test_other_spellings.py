"""Dimensions and keys in the spelling of other tools are answered with the line to write."""

from __future__ import annotations

import pytest

from hpometrics.config.document import SweepFileError, parse_document
from hpometrics.config.other_spellings import line_of_mapping, line_of_text
from hpometrics.config.overrides import override
from hpometrics.config.plan import make_plan

BASE = """\
engine: {target: "engine:train", output: binary}
space: {lr: %s}
metrics: {optimize: roc_auc}
budget: {trials: 2, epochs: 2}
"""

UNREAD = "{choice: [...]}, {float: [low, high]} or {int: [low, high]}"
MAPPINGS = {
    "{values: [4, 8, 16]}": "{choice: [4, 8, 16]}",
    "{values: [sgd, adam], probabilities: [0.9, 0.1]}": "{choice: [sgd, adam], weights: [0.9, 0.1]}",
    '{values: [true, "true", "1e-3"]}': '{choice: [true, "true", "1e-3"]}',
    "{min: 1, max: 8}": "{int: [1, 8]}",
    "{min: 0.1, max: 1}": "{float: [0.1, 1]}",
    "{distribution: log_uniform_values, min: 0.0001, max: 0.1}": "{float: [0.0001, 0.1], log: true}",
    "{distribution: uniform, min: 0, max: 1}": "{float: [0, 1]}",
    "{distribution: int_uniform, min: 0, max: 1}": "{int: [0, 1]}",
    "{distribution: log_uniform_values, min: 1, max: 1000}": "{float: [1, 1000], log: true}",
    "{space: uniform, lower: 0, upper: 1}": "{float: [0, 1]}",
    "{space: randint, lower: 1, upper: 10}": "{int: [1, 9]}",
    "{space: lograndint, lower: 1, upper: 10}": "{int: [1, 9], log: true}",
    "{space: qrandint, lower: 1, upper: 10, q: 3}": "{int: [1, 10], step: 3}",
    "{space: quniform, lower: 0, upper: 10, q: 2}": "{int: [0, 10], step: 2}",
    "{distribution: q_uniform, min: 0, max: 10, q: 2}": "{int: [0, 10], step: 2}",
    "{distribution: q_uniform, min: 0, max: 1, q: 0.25}": "{float: [0, 1], step: 0.25}",
    "{distribution: log_normal, mu: 0, sigma: 2}": "{normal: [0, 2], log: true}",
    "{space: loguniform, lower: 0.001, upper: 1}": "{float: [0.001, 1], log: true}",
    "{space: choice, categories: [8, 16]}": "{choice: [8, 16]}",
    "{min_value: 1, max_value: 9, step: 2}": "{int: [1, 9], step: 2}",
    "{suggest_float: [0.0001, 1], log: true}": "{float: [0.0001, 1], log: true}",
    "{suggest_int: [depth, 1, 8]}": "{int: [1, 8]}",
    "{suggest_categorical: [sgd, adam]}": "{choice: [sgd, adam]}",
    "{loguniform: [0.0001, 1]}": "{float: [0.0001, 1], log: true}",
    "{log_uniform_values: [0.0001, 1]}": "{float: [0.0001, 1], log: true}",
    "{uniform: [0, 1]}": "{float: [0, 1]}",
    "{uniform: {low: 0, high: 1}}": "{float: [0, 1]}",
    "{uniform: wide}": UNREAD,
    "{distribution: inv_log_uniform_values, min: 0.1, max: 1}": UNREAD,
}
TEXTS = {
    "interval(1e-4, 1e-1)": "{float: [0.0001, 0.1]}",
    "tag(log, interval(1e-4, 1e-1))": "{float: [0.0001, 0.1], log: true}",
    "int(interval(1, 8))": "{int: [1, 8]}",
    "range(1, 10, 2)": "{int: [1, 10], step: 2}",  # Hydra's Optuna sweeper includes the end
    "range(-5.5, 5.5, step=0.5)": "{float: [-5.5, 5.5], step: 0.5}",
    "range(8)": "{int: [0, 8]}",
    "choice(sgd, adam)": "{choice: [sgd, adam]}",
    "tune.loguniform(1e-4, 1e-1)": "{float: [0.0001, 0.1], log: true}",
    "tune.qrandint(4, 16, 4)": "{int: [4, 16], step: 4}",
    "tune.randint(4, 33)": "{int: [4, 32]}",
    "tune.grid_search([1, 2])": "{choice: [1, 2]}",
    "trial.suggest_int('depth', 1, 8, log=True)": "{int: [1, 8], log: true}",
    "suggest_categorical('optimizer', ['sgd', 'adam'])": "{choice: [sgd, adam]}",
    "suggest_categorical(['sgd', 'adam'])": "{choice: [sgd, adam]}",
    "suggest_int(1, 5)": "{int: [1, 5]}",
    "suggest_float(1e-3, 1e-1)": "{float: [0.001, 0.1]}",
    "trial.suggest_float('lr', low=1e-3, high=1e-1)": "{float: [0.001, 0.1]}",
    "hp.uniform('x', 0, 1)": "{float: [0, 1]}",
    "hp.uniform(0, 1)": "{float: [0, 1]}",
    "hp.choice('x', [1, 2])": "{choice: [1, 2]}",
    "hp.loguniform('lr', np.log(1e-4), np.log(0.1))": "{float: [0.0001, 0.1], log: true}",
    "hp.randint('x', 5)": "{int: [0, 4]}",
    "hp.quniform('x', 0, 1, 0.25)": "{float: [0, 1], step: 0.25}",
    "hp.Int('units', min_value=32, max_value=512, step=32)": "{int: [32, 512], step: 32}",
    "hp.Float('lr', max_value=0.1, min_value=1e-4, sampling='log')": "{float: [0.0001, 0.1], log: true}",
    "hp.Choice('size', values=[8, 16])": "{choice: [8, 16]}",
    "hp.Float('lr', 1e-4, 0.1, sampling='reverse_log')": UNREAD,
    "suggest_categorical('opt', choices=['sgd', 'adam'])": "{choice: [sgd, adam]}",
    "Float(1e-4, 1e-1, log=True)": "{float: [0.0001, 0.1], log: true}",
    "hpometrics.Int(16, 256, step=16)": "{int: [16, 256], step: 16}",
    "Choice(['sgd', 'adam'])": "{choice: [sgd, adam]}",
    "Normal(0, 1, log=True)": "{normal: [0, 1], log: true}",
    "Real(1e-4, 1e-1, prior='log-uniform')": "{float: [0.0001, 0.1], log: true}",
    "Categorical(['sgd', 'adam'])": "{choice: [sgd, adam]}",
    "UniformFloat(1, 2)": "{float: [1, 2]}",
    "Integer('depth', (1, 8), log=True)": "{int: [1, 8], log: true}",
    "suggest_float(lr)": UNREAD,
    "tune.uniform(low, high)": UNREAD,
}


def problems(dimension: str, *assignments: str) -> str:
    """What is wrong with a sweep file whose `lr` is this."""
    document = parse_document(BASE % dimension, "sweep.yaml")
    override(document, assignments)
    with pytest.raises(SweepFileError) as caught:
        make_plan(document)
    return str(caught.value)


@pytest.mark.parametrize(("theirs", "ours"), [*MAPPINGS.items(), *TEXTS.items()])
def test_a_dimension_of_another_tool_is_answered_with_ours(theirs, ours):
    """Its line is a dimension that a file may have."""
    written = theirs if theirs in MAPPINGS else f'"{theirs}"'
    assert "space.lr: " in (text := problems(written)) and f"write {ours}" in text
    if "..." not in ours:
        make_plan(parse_document(BASE % ours, "sweep.yaml"))


@pytest.mark.parametrize("text", ["sgd", "f(x)", "choice(", "hp.f(1)", "((" * 600, "x(" + "1," * 900])
def test_other_texts_are_constants(text):
    """A call that no tool has, or that is none, is the text itself."""
    assert line_of_text(text) is None
    plan = make_plan(parse_document(BASE % f'"{text}"', "sweep.yaml"))
    assert plan.config.space["lr"].value == text


@pytest.mark.parametrize(
    "value", [{}, {"distribution": "constant"}, {"min": "a", "max": 2}, {"min": True, "max": 2}]
)
def test_other_mappings_have_no_line(value):
    """Nothing is guessed."""
    assert line_of_mapping(value) is None


@pytest.mark.parametrize(
    ("assignment", "answer"),
    [
        (
            "method=bayes",
            "unknown key 'method', which belongs to a sweep of W&B; convert that file with hpometrics init",
        ),
        (
            "hyperopt=1",
            "unknown key 'hyperopt', which belongs to a config of Ludwig; convert that file with hpometrics",
        ),
        ("lr=3", "unknown key 'lr'; did you mean 'space.lr'?"),
    ],
)
def test_a_key_of_another_place_is_answered(assignment, answer):
    """That of another tool by the command that converts its file, a short one by the whole."""
    assert answer in problems("3", assignment)
