from __future__ import annotations

import pytest
from forked import hpometrics
from sample_sweeps import SWEEP, changed, plan_of, problems_of

from hpometrics.config.document import parse_document
from hpometrics.config.plan import make_plan
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.metrics.features import Binary, Mask
from hpometrics.metrics.registry.groups import members_of

UNSAID = changed(", output: binary", "", changed("[accuracy]", "[default]"))


def tracked(text: str) -> list[str]:
    """The names of what a sweep tracks."""
    return [measure.name for measure in plan_of(text).track]


def test_a_group_is_tracked_metric_by_metric():
    """Each with its own direction; the one that is optimized stands once."""
    plan = plan_of(changed("[accuracy]", "[default]"))
    names = [str(name) for name in members_of("default", "binary") if str(name) != "roc_auc"]
    assert [measure.name for measure in plan.track] == names
    directions = {measure.name: measure.direction for measure in plan.track}
    assert (directions["accuracy"], directions["log_loss"]) == (MAXIMIZE, MINIMIZE)


@pytest.mark.parametrize(
    ("track", "some"),
    [
        ("[calibration]", "ece"),
        ("[calibration_family]", "ece"),
        ("[all]", "mcc"),
        ("[accuracy, 'test:default']", "test:log_loss"),
    ],
)
def test_every_kind_of_group_is_tracked(track, some):
    """Families, `all`, and a group on another split."""
    assert some in tracked(changed("[accuracy]", track))


def test_a_group_waits_for_the_output():
    """Where the file does not say what the engine predicts, the engine does, and the members are known."""
    assert tracked(UNSAID) == ["default"]
    settled = make_plan(parse_document(UNSAID, "sweep.yaml"), Binary(), settle=True)
    assert "log_loss" in [measure.name for measure in settled.track]


@pytest.mark.parametrize(
    ("name", "before", "reads", "settled"),
    [
        ("auc", "auc", "probabilities or logits", "roc_auc"),
        ("dice", "f1", "predictions", "f1"),
        ("iou", "iou", "predictions", "jaccard"),
        ("fall_out", "false_positive_rate", "predictions", "false_positive_rate"),
        ("accuracy", "accuracy", "predictions", "accuracy"),
    ],
)
def test_what_a_name_means_is_settled_by_the_engine(name, before, reads, settled):
    """A check accepts what any output can measure, and says so; the engine's output decides."""
    text = UNSAID.replace("optimize: roc_auc", f"optimize: {name}")
    checked = plan_of(text).optimize
    run = make_plan(parse_document(text, "sweep.yaml"), Binary(), settle=True).optimize
    assert (checked.name, checked.inputs, run.name) == (before, reads, settled)
    assert checked.direction is run.direction


def test_what_the_output_needs_is_asked_when_it_is_known():
    """A binary output has a dice without an average, a mask has not."""
    text = UNSAID.replace("optimize: roc_auc", "optimize: dice").replace("[default]", "[]")
    with pytest.raises(ValueError, match="dice of mask needs average="):
        make_plan(parse_document(text, "sweep.yaml"), Mask(3), settle=True)
    told = r"different metric for each output \(binary, .*; set engine.output.*{metric: f1, direction: max"
    with pytest.raises(ValueError, match=told):
        make_plan(parse_document(text, "sweep.yaml"), None, settle=True)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            changed("optimize: roc_auc", "optimize: default"),
            "default is a group of metrics, which can only be tracked; name one metric",
        ),
        (
            changed("[accuracy]", "[{metric: all, direction: minimize}]"),
            "all is a group of metrics, which can only be tracked",
        ),
        (changed("[accuracy]", "[defualt]"), "Did you mean 'default'?"),
        (changed("output: binary", "output: clusters"), "roc_auc"),
    ],
)
def test_what_is_no_group_to_track(text, problem):
    """One problem, at its place."""
    found = problems_of(text)
    assert any(problem in line for line in found), found


def test_a_group_that_nobody_can_settle_says_so():
    """Neither the file nor the engine says the output."""
    with pytest.raises(ValueError, match=r"the group 'default' differs .*; set engine.output"):
        make_plan(parse_document(UNSAID, "sweep.yaml"), None, settle=True)


def test_a_sweep_without_groups_is_as_it_was():
    """A metric is itself."""
    assert tracked(SWEEP) == ["accuracy"]


def test_no_near_names_are_looked_for_of_what_the_engine_reports(suggested_for):
    """That is no mistake; of a name that is one they are."""
    own = "track: [{metric: my_loss, direction: minimize}], constraints: ['my_cost <= 3']"
    plan = plan_of(changed("track: [accuracy]", own))
    assert [measure.name for measure in plan.track] == ["my_loss", "my_cost"]
    assert all(measure.reported for measure in plan.track)
    assert suggested_for == []
    assert "Did you mean 'accuracy'?" in problems_of(changed("[accuracy]", "[acuracy]"))[0]
    assert suggested_for == ["acuracy"]


OWN_ENGINE = """
import torch
from hpometrics import BINARY, MAXIMIZE, PREDICTIONS, Binary, MeanMetric, engine, register_metric

@register_metric("agree", [BINARY])
class Agree(MeanMetric):
    direction, inputs = MAXIMIZE, PREDICTIONS

    def get_current_value(self, preds, target):
        return (preds == target).float()

@engine(output=Binary())
def train(params, run):
    for _ in run.epochs(1):
        run.update(probabilities=torch.tensor([0.9, params["low"]]), target=torch.tensor([1, 1]))
"""
OWN_SWEEP = """
engine: {target: own_engine:train}
space: {low: {float: [0, 1]}}
metrics: {optimize: agree, track: [agree]}
budget: {trials: 2}
"""


def test_a_metric_that_the_engine_registers_is_a_name_like_any_other(tmp_path):
    """`run` imports the engine before it judges names; `check` says what it cannot judge without that."""

    def told(*arguments):
        return hpometrics(*arguments, folder=tmp_path).result()

    (tmp_path / "own_engine.py").write_text(OWN_ENGINE)
    (tmp_path / "s.yaml").write_text(OWN_SWEEP)
    checked = told("check", "s.yaml")
    assert checked.returncode == 0, checked.stderr
    assert "<- settled by run   reads what the engine or a plug-in registers" in checked.stdout
    ran = told("run", "s.yaml")
    assert ran.returncode == 0 and "agree: " in ran.stdout, ran.stdout + ran.stderr
    assert told("replay", "runs/s").returncode == 0
    wrong = (tmp_path / "s.yaml").read_text().replace("optimize: agree", "optimize: agre")
    (tmp_path / "s.yaml").write_text(wrong)
    for command in ("check", "run"):
        refused = told(command, "s.yaml")
        assert refused.returncode == 2 and "s.yaml:4:11: metrics.optimize: no metric 'agre'" in refused.stderr


def test_a_logged_name_is_the_metric_of_validation_rows():
    """Unless the file says that the engine reports it; a constraint is on what may be reported."""
    plan = plan_of(changed("{optimize: roc_auc, track: [accuracy]}", "{optimize: val_f1, track: [eval_ece]}"))
    assert (plan.optimize.name, plan.optimize.direction, plan.optimize.origin) == ("f1", MAXIMIZE, "registry")
    assert [measure.name for measure in plan.track] == ["ece"]
    own = plan_of(changed("optimize: roc_auc", "optimize: {metric: val_f1, direction: max}"))
    assert (own.optimize.name, own.optimize.reported) == ("val_f1", True)
    bounded = plan_of(changed("[accuracy]", "[accuracy], constraints: [val_f1 >= 0.5]"))
    assert [(bound.measure.name, bound.measure.reported) for bound in bounded.bounds] == [("val_f1", True)]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("val_loss", "Did you mean 'loss'?"),
        ("test_f1", "Did you mean 'test:f1'? It can be tracked; test data cannot steer a search."),
    ],
)
def test_a_logged_name_that_cannot_be_optimized_is_answered(name, problem):
    """The loss of an engine is its own, and test rows do not steer."""
    [found] = problems_of(changed("optimize: roc_auc", f"optimize: {name}"))
    assert problem in found and f"state {{metric: {name}, direction: ...}}" in found
