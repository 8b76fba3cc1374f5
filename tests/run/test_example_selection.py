from __future__ import annotations

import pytest

from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import RunError
from hpometrics.metrics.features import Binary, Category, Number, Sequence, Text
from hpometrics.metrics.registry.register import get_metric
from hpometrics.run import Reported, RunSpec
from hpometrics.run.example_selection import ExamplePlan, has_row_values


def plan_of(asked, metric="log_loss", output=None, **facts):
    """What a spec has settled."""
    return RunSpec(metric, output=output or Binary(), track_examples=asked, **facts).track_examples


@pytest.mark.parametrize(
    ("asked", "worst", "best"),
    [(True, 20, 20), (3, 3, 3), ({}, 20, 20), ({"worst": 5}, 5, 20), ({"worst": 0, "best": 2}, 0, 2)],
)
def test_how_many_are_kept(asked, worst, best):
    """20 at either end unless said otherwise."""
    assert plan_of(asked) == ExamplePlan(worst, best, "log_loss", MINIMIZE, ("log_loss",))


@pytest.mark.parametrize("asked", [False, None])
def test_nothing_is_kept_unless_asked_for(asked):
    """No plan."""
    assert plan_of(asked) is None


@pytest.mark.parametrize(
    "asked", [0, -1, "yes", 2.5, {"worst": True}, {"worst": 0, "best": 0}, {"most": 3}, [3]]
)
def test_what_is_no_form_is_refused(asked):
    """And shown."""
    with pytest.raises(RunError, match=r"track_examples (must be true|expects whole numbers)"):
        plan_of(asked)


def test_a_metric_of_the_whole_names_those_that_have_a_value_per_example():
    """An area under a curve is no mean over rows; log_loss is, and shows more than right and wrong."""
    with pytest.raises(
        RunError,
        match=r"by roc_auc, which has no value per example.*log_loss.*brier.*accuracy.*\{metric: log_loss\}",
    ):
        plan_of(True, "roc_auc")


def test_another_metric_may_rank():
    """By any of its names, with its own direction; those that have a value per example stand beside it."""
    plan = plan_of({"metric": "accuracy_score"}, "f1(average=macro)", Category(3), track=["accuracy", "ece"])
    assert plan == ExamplePlan(20, 20, "accuracy", MAXIMIZE, ("accuracy",))


@pytest.mark.parametrize(
    ("metric", "facts", "text"),
    [
        ("rmse", {"output": Number()}, r"by rmse.*\{metric: mae\}"),
        ("perplexity", {"output": Sequence()}, r"by perplexity.*token_accuracy"),
        ("chrf", {"output": Text()}, r"by chrf.*accuracy, f1, bleu_4"),
        (Reported("loss", MINIMIZE), {}, "by loss, which the engine reports"),
    ],
)
def test_what_cannot_rank_is_said_before_the_first_trial(metric, facts, text):
    """With what can."""
    with pytest.raises(RunError, match=text):
        RunSpec(metric, track_examples=True, **facts)


def test_the_ranking_metric_is_measured_and_has_a_direction():
    """Both are errors of the spec."""
    with pytest.raises(RunError, match="by brier, which is not measured; track it, or name one of log_loss"):
        plan_of({"metric": "brier"})
    with pytest.raises(RunError, match="by bias, which has no direction"):
        plan_of({"metric": "bias"}, "mse", Number(), track=["bias"])


@pytest.mark.parametrize(
    ("name", "output", "verdict"),
    [
        ("accuracy", Category(7), True),
        ("f1(average=micro)", Category(3), True),
        ("f1(average=macro)", Category(3), False),
        ("f1(class=2)", Category(4), False),
        ("precision", Binary(), True),  # the mean over the rows that are predicted 1
        ("absolute_bias", Number(), False),  # of errors of one sign alone it is
        ("balanced_accuracy", Binary(), False),
        ("mse", Number(), True),
        ("rmse", Number(), False),
        ("rmsle", Number(), False),
        ("log_loss", Sequence(), True),
        ("rouge_l(measure=f)", Text(), True),
        ("cer", Text(), False),
    ],
)
def test_a_metric_has_a_value_per_example_if_it_is_their_mean(name, output, verdict):
    """Tried on drawn batches, right and wrong ones."""
    assert has_row_values(get_metric(name, output)) is verdict
