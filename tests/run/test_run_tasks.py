"""Several tasks and several outputs in one run: what is measured, what it is called, what steers."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from hpometrics import AverageMetric
from hpometrics.direction import MAXIMIZE, MINIMIZE
from hpometrics.exceptions import (
    HpometricsError,
    MetricInputError,
    MetricNameError,
    NoFiniteValueError,
    RunError,
    UnknownMetricError,
)
from hpometrics.metrics.combined import Combined
from hpometrics.metrics.features import Binary, Category, Number, Text
from hpometrics.run import Run, RunSpec
from hpometrics.run.reporter import ListReporter

ONE, FOUR = torch.tensor([1]), torch.tensor([1, 0, 1, 0])
BOTH = {"intent": Category(2), "price": Number()}


def two_tasks(run: Run) -> None:
    """Task `a` has one row, right; task `b` four, of which two are right."""
    run.update(task="a", predictions=ONE, target=ONE)
    run.update(task="b", predictions=FOUR, target=torch.tensor([1, 0, 0, 1]))


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("accuracy", 0.75),
        ("all/accuracy", 0.75),
        ("accuracy(tasks=macro)", 0.75),
        ("accuracy(tasks=micro)", 0.6),
        ("all/accuracy(tasks=micro)", 0.6),
        ("a/accuracy", 1.0),
        ("b/accuracy", 0.5),
    ],
)
def test_any_task_and_all_of_them_can_steer(metric, value):
    """(1/1 + 2/4) / 2 for the tasks alike, 3/5 for the rows alike; every row of the table is recorded."""
    reporter = ListReporter()
    with Run(reporter, metric=metric, output=Binary(), defaults=False) as run:
        two_tasks(run)
    assert (run.value, run.spec.direction) == (value, MAXIMIZE)
    assert reporter.reports[0].value == value
    assert {"a/accuracy", "b/accuracy"} <= set(run.values)


def test_one_task_has_the_same_structure():
    """A sweep that drops a task keeps its names: the task's own row and that of all tasks."""
    with Run(metric="accuracy", output=Binary(), defaults=False) as run:
        run.update(task="a", predictions=ONE, target=ONE)
    assert run.values == {"a/accuracy": 1.0, "accuracy": 1.0}


def test_what_follows_from_the_order_of_all_rows_is_pooled():
    """Two tasks of one class each have no area of their own; over all four rows there is one."""
    with Run(metric="roc_auc", output=Binary(), track=["confusion_matrix"], defaults=False) as run:
        run.update(task="a", probabilities=torch.tensor([0.9, 0.4]), target=torch.tensor([1, 1]))
        run.update(task="b", probabilities=torch.tensor([0.5, 0.1]), target=torch.tensor([0, 0]))
    assert run.value == 0.75
    assert run.values["confusion_matrix"] == [[2.0, 0.0], [1.0, 1.0]]
    assert math.isnan(run.values["a/roc_auc"])


def test_the_mean_of_tasks_is_nan_where_a_task_is_undefined():
    """Never the mean of the others; the reason names the task."""
    with Run(metric="roc_auc(tasks=macro)", output=Binary()) as run:
        run.update(task="a", probabilities=torch.tensor([0.9, 0.4]), target=torch.tensor([1, 1]))
        run.update(task="b", probabilities=torch.tensor([0.5, 0.1]), target=torch.tensor([1, 0]))
    with pytest.raises(NoFiniteValueError, match=r"a/roc_auc: .*class"):
        run.value  # noqa: B018


def test_a_batch_may_hold_rows_of_several_tasks():
    """Tensors, arrays and lists go by row; the same values as batches of one task each."""
    with Run(metric="accuracy", output=Binary(), defaults=False) as run:
        run.update(
            task=["b", "a", "b", "b", "b"],
            predictions=torch.tensor([1, 1, 0, 1, 0]),
            target=np.array([1, 1, 0, 0, 1]),
        )
    assert run.values == {"a/accuracy": 1.0, "b/accuracy": 0.5, "accuracy": 0.75}
    with Run(metric="accuracy", output=Text(), defaults=False) as run:
        run.update(task=["a", "b"], predictions=["yes", "no"], target=["yes", "yes"])
    assert run.values == {"a/accuracy": 1.0, "b/accuracy": 0.0, "accuracy": 0.5}


def test_a_mixed_batch_that_is_refused_is_taken_by_no_task():
    """The rows of the first task are fine, the label of the second is not; neither is counted."""
    with Run(metric="accuracy", output=Category(2), defaults=False) as run:
        two_tasks(run)
        with pytest.raises(MetricInputError, match="7"):
            run.update(task=["a", "b"], predictions=torch.tensor([0, 0]), target=torch.tensor([1, 7]))
    assert run.values["a/accuracy"] == 1.0


@pytest.mark.parametrize(
    ("updates", "error", "text"),
    [
        ([{"task": "all"}], MetricNameError, "and not 'all'; got 'all'"),
        ([{"task": "a/b"}], MetricNameError, "text without '/', ':', "),
        ([{"task": ["a", "b"]}], MetricInputError, "are tasks for 2 rows, but predictions= has 1 rows"),
        ([{"task": "a"}, {}], MetricInputError, "some updates name a task and some do not"),
        ([{"feature": "intent"}], RunError, "one output, without a name; leave feature='intent' out"),
    ],
)
def test_an_update_that_says_no_clear_task_is_refused(updates, error, text):
    """Names that could not be read back, a wrong number of rows, rows that would be lost."""
    run = Run(metric="accuracy", output=Binary())
    with pytest.raises(error, match=text):
        for update in updates:
            run.update(predictions=ONE, target=ONE, **update)


def test_a_task_without_an_update_is_no_value():
    """The optimized task must come up in every epoch; the reason says which one did not."""
    run = Run(metric="b/accuracy", output=Binary())
    for _ in run.epochs(1):
        run.update(task="a", predictions=ONE, target=ONE)
    assert run.history[0].reasons["b/accuracy"] == "no update in this epoch names the task 'b'"


def of_both(run: Run) -> None:
    """Accuracy 3 of 4; absolute errors 1 and 2."""
    run.update(feature="intent", predictions=FOUR, target=torch.tensor([1, 0, 0, 0]))
    run.update(feature="price", predictions=torch.tensor([1.0, 2.0]), target=torch.tensor([2.0, 4.0]))


def test_several_outputs_are_measured_each_by_its_own_metrics():
    """`accuracy` and `mae` say which output they mean; each value carries the output's name."""
    with Run(metric="accuracy", output=BOTH, track=["mae", "test:rmse"], defaults=False) as run:
        of_both(run)
        run.update(split="test", feature="price", predictions=torch.tensor([3.0]), target=torch.tensor([0.0]))
    assert run.spec.name == "intent.accuracy"
    assert run.values == {"intent.accuracy": 0.75, "price.mae": 1.5, "test:price.rmse": 3.0}


def test_outputs_and_tasks_go_together():
    """`task/output.metric`, and over the tasks `output.metric`."""
    with Run(metric="b/intent.accuracy", output=BOTH, defaults=False) as run:
        run.update(task="a", feature="intent", predictions=ONE, target=ONE)
        run.update(task="b", feature="intent", predictions=FOUR, target=1 - FOUR)
    assert run.values == {"a/intent.accuracy": 1.0, "b/intent.accuracy": 0.0, "intent.accuracy": 0.5}


@pytest.mark.parametrize(
    ("facts", "error", "text"),
    [
        ({"metric": "loss"}, MetricNameError, r"several outputs; choose one: intent.loss, price.loss"),
        ({"metric": "reply.mae"}, MetricNameError, "no output 'reply'; the outputs are intent, price"),
        (
            {"metric": "bleu_4"},
            Exception,
            r"no output has a metric 'bleu_4'; the metrics are intent \(category\)",
        ),
        ({"metric": "a/intent.accuracy(tasks=micro)"}, MetricNameError, "leave out either it or the task a"),
        ({"metric": "intent.accuracy(tasks=mean)"}, MetricNameError, "tasks= must be macro .* got 'mean'"),
        ({"metric": "mae", "output": {"combined": Number()}}, MetricNameError, "and not 'combined'"),
        ({"metric": "mae", "output": {}}, RunError, "name each output"),
    ],
)
def test_a_name_that_could_mean_several_things_is_refused(facts, error, text):
    """The error lists the choices."""
    with pytest.raises(error, match=text):
        RunSpec(**{"output": BOTH, **facts})


def test_an_update_says_which_output_it_is_of():
    """Where there is one, it need not; where there are several, the error lists them."""
    with Run(metric="mae", output={"price": Number()}, defaults=False) as run:
        run.update(predictions=torch.tensor([1.0]), target=torch.tensor([3.0]))
    assert run.values == {"price.mae": 2.0}
    run = Run(metric="mae", output=BOTH)
    for feature in (None, "reply"):
        with pytest.raises(RunError, match=rf"one of 'intent', 'price'; got {feature!r}"):
            run.update(feature=feature, predictions=ONE, target=ONE)


def test_the_default_group_is_measured_without_being_asked():
    """As far as the updates can be read by it, and only what is of a fixed size: no roc_auc."""
    with Run(metric="accuracy", output=Binary()) as run:
        run.update(predictions=FOUR, target=FOUR)
    assert set(run.values) == {"accuracy", "f1", "exs"}
    with Run(metric="brier", output=Binary()) as run:
        run.update(probabilities=torch.tensor([0.9, 0.2]), target=torch.tensor([1, 0]))
    assert set(run.values) == {"brier", "accuracy", "f1", "log_loss", "ece", "exs"}
    with Run(metric="accuracy", output=Binary(), defaults=False) as run:
        run.update(predictions=FOUR, target=FOUR)
    assert set(run.values) == {"accuracy"}


def test_a_family_is_tracked_beside_the_defaults():
    """`track: [rouge]` adds a family; the texts are measured as words, not as token ids."""
    with Run(metric="accuracy", output=Text(), track=["rouge"]) as run:
        run.update(predictions=["the cat sat"], target=["the cat"])
    assert {"rouge_1(measure=f)", "bleu_4", "f1", "accuracy"} <= set(run.values)
    assert "perplexity" not in run.values


def test_combined_loss_is_the_sum_over_all_outputs():
    """Ludwig's objective: each output's own criterion, over its rows: (1 x 2.0 + 3 x 4.0) / 4 and 0.5."""
    with Run(metric="combined.loss", output=BOTH, defaults=False) as run:
        for rows, loss in ((1, 2.0), (3, 4.0)):
            run.update(feature="price", predictions=torch.ones(rows), target=torch.ones(rows), loss=loss)
        run.update(feature="intent", predictions=FOUR, target=FOUR, loss=0.5)
    assert (run.value, run.spec.direction) == (4.0, MINIMIZE)
    assert run.spec.combined[0].formula == "intent.loss + price.loss"


def test_a_combination_respects_the_direction_of_each_term():
    """2 x 0.75 - 0.5 x 1.5: accuracy must be maximized, the absolute error minimized."""
    told = {"combine": {"accuracy": 2, "price.mae": 0.5}, "name": "worth"}
    with Run(metric=told, output=BOTH, defaults=False) as run:
        of_both(run)
    assert (run.spec.name, run.spec.direction) == ("combined.worth", MAXIMIZE)
    assert run.spec.combined[0].formula == "2 intent.accuracy - 0.5 price.mae"
    assert run.value == 2 * 0.75 - 0.5 * 1.5


def test_a_combination_has_a_value_of_every_task():
    """Of each task that has all its terms; a term that names a task is of no other."""
    metric = Combined({"accuracy": 1, "balanced_accuracy": 1})
    facts = {"output": Binary(), "track": [Combined({"a/accuracy": 3}, "first")], "defaults": False}
    with Run(metric=metric, **facts) as run:
        two_tasks(run)
    combined = {name: value for name, value in run.values.items() if "combined" in name}
    assert combined == {
        "combined.score": 1.5, "a/combined.score": 2.0, "b/combined.score": 1.0, "combined.first": 3.0,
    }  # fmt: skip


@pytest.mark.parametrize(("metric", "value"), [("a/combined.loss", 3.5), ("all/combined.loss", 3.0)])
def test_the_sum_over_all_outputs_of_one_task_can_steer(metric, value):
    """3.0 + 0.5 of task `a`, 1.0 + 1.5 of task `b`, and their mean; formula and record say whose it is."""
    with Run(metric=metric, output=BOTH, defaults=False) as run:
        for task, price, intent in (("a", 3.0, 0.5), ("b", 1.0, 1.5)):
            given = {"task": task, "predictions": ONE, "target": ONE}
            run.update(feature="price", **{**given, "predictions": ONE.float()}, loss=price)
            run.update(feature="intent", **given, loss=intent)
    assert (run.spec.name, run.value, run.spec.direction) == (metric, value, MINIMIZE)
    assert (run.values["combined.loss"], run.values["b/combined.loss"]) == (3.0, 2.5)
    row = metric.partition("/")[0]
    assert run.spec.objectives[0].combined.formula == f"{row}/intent.loss + {row}/price.loss"


def test_a_weighted_combination_of_one_task_can_steer():
    """2 x 1.0 + 1.0 of task `a`; of `b` it is recorded all the same."""
    told = {"combine": {"accuracy": 2, "balanced_accuracy": 1}, "task": "a"}
    with Run(metric=told, output=Binary(), defaults=False) as run:
        two_tasks(run)
    assert (run.spec.name, run.value) == ("a/combined.score", 3.0)
    assert (run.values["b/combined.score"], run.values["combined.score"]) == (1.5, 2.25)


def test_a_combination_of_a_task_that_was_not_met_is_nan():
    """The reason is the task, or else the term."""
    for task, reason in (
        ("c", "no update in this epoch names the task 'c'"),
        ("b", "cost was not logged in this epoch"),
    ):
        cost = {"weight": 1, "direction": "min"}
        run = Run(metric=Combined({"accuracy": 1, "cost": cost}, task=task), output=Binary())
        for _ in run.epochs(1):
            two_tasks(run)
        assert run.history[0].reasons[f"{task}/combined.score"] == reason


def test_diagnostics_and_values_of_the_engine_are_terms():
    """0.75 - 0.5 x 3 - 0.1 x 5: what the run has once counts for every task, what tasks have is their own."""
    terms = {
        "accuracy": 1,
        "cost": {"weight": 0.5, "direction": "minimize"},
        "exs": {"weight": 0.1, "direction": "minimize"},
    }
    with Run(metric=Combined(terms), output=Binary()) as run:
        two_tasks(run)
        run.log(cost=3.0)
    assert run.spec.combined[0].formula == "accuracy - 0.5 cost - 0.1 exs"
    assert run.value == pytest.approx(0.75 - 1.5 - 0.5)
    assert run.values["a/combined.score"] == pytest.approx(1.0 - 1.5 - 0.1)


def test_values_recorded_per_example_are_terms_of_each_task():
    """Means 1 and 3 of the tasks, 2 over them, 7 / 3 over all rows."""
    terms = {"accuracy": 1, "cost": {"weight": 1, "direction": "minimize"}}
    micro = {"cost(tasks=micro)": {"weight": 1, "direction": "minimize"}}
    facts = {"output": Binary(), "track": [Combined(micro, "micro")], "defaults": False}
    with Run(metric=Combined(terms, task="b"), **facts) as run:
        two_tasks(run)
        for task, values in (("a", [1.0]), ("b", [2.0, 4.0])):
            run.record_local("cost", AverageMetric.many(values), task=[task] * len(values))
    assert (run.value, run.values["a/combined.score"], run.values["combined.score"]) == (-2.5, 0.0, -1.25)
    assert run.values["combined.micro"] == pytest.approx(7 / 3)


@pytest.mark.parametrize(
    ("terms", "text"),
    [
        ({}, "needs a weight for each metric"),
        (
            {"gpu_mem": 0.001},
            r"gpu_mem has no direction.* state one: \{gpu_mem: \{weight: 0.001, direction: min",
        ),
        ({"cost": 1}, r"If the engine reports it, state its direction: \{cost: \{weight: 1, direction: min"),
        (
            {"exps": {"weight": 1, "direction": "min"}},
            "exps must be maximized, but direction minimizes it",
        ),
        ({"f1": 1, "all/f1": 2}, "f1 and all/f1 are the same value, f1; give it one weight"),
        ({"accuracy": {"weight": 1, "sign": -1}}, "accuracy must have a weight and a direction, got sign"),
        ({"test:cost": {"weight": 1, "direction": "min"}}, "uses validation values; write cost"),
        ({"accuracy": -1}, "the weight of accuracy must be a number above 0, got -1;"),
        ({"accuracy": True}, "got True"),
        ({"confusion_matrix": 1}, "has no direction"),
        ({"test:accuracy": 1}, "uses validation values"),
    ],
)
def test_a_combination_that_makes_no_sense_is_refused(terms, text):
    """A weight below 0 would flip a direction, which is the metric's own."""
    with pytest.raises(HpometricsError, match=text):
        RunSpec({"combine": terms}, output=Binary())


def test_an_unknown_metric_says_how_a_value_of_the_engine_is_named():
    """In a sentence of its own."""
    with pytest.raises(
        UnknownMetricError, match=r"lists all \d+\. If the engine reports it with run\.log, state"
    ):
        RunSpec("cost", output=Binary())


def test_a_combination_with_an_undefined_term_is_nan():
    """With the name of the term."""
    run = Run(metric={"combine": {"accuracy": 1, "roc_auc": 1}}, output=Binary())
    for _ in run.epochs(1):
        run.update(probabilities=torch.tensor([0.9]), target=ONE)
    assert run.history[0].reasons["combined.score"] == "roc_auc is not one finite number"


@pytest.mark.parametrize(
    ("weight", "gain", "cost", "reason"),
    [
        (1, math.inf, math.inf, "gain is not one finite number"),
        (1, 1.7e308, -1.7e308, "the sum of its terms is too large for a number"),
        (10, 1.7e308, 1.7e308, "the sum of its terms is too large for a number"),
    ],
)
def test_a_combination_that_diverges_is_nan(weight, gain, cost, reason):
    """What was good before stays good: infinite terms that cancel each other, and sums without end."""
    weights = {
        "gain": {"weight": weight, "direction": "maximize"},
        "cost": {"weight": weight, "direction": "minimize"},
    }
    run = Run(metric={"combine": weights})
    for epoch in run.epochs(2):
        run.log(**({"gain": gain, "cost": cost} if epoch else {"gain": 2.0, "cost": 1.0}))
    assert math.isnan(run.history[1].values["combined.score"])
    assert run.history[1].reasons["combined.score"] == reason
    assert run.best_epoch == 0


def test_rows_that_do_not_count_hide_no_default_metric():
    """Whether a default metric can read a batch is asked of the rows that count."""
    with Run(metric="accuracy", output=Category(2, ignore_index=-1)) as run:
        run.update(probabilities=torch.tensor([[0.9, 0.1], [0.5, 0.5]]), target=torch.tensor([0, -1]))
    assert run.values["log_loss"] == pytest.approx(-math.log(0.9))


def test_a_batch_without_a_row_that_counts_decides_nothing():
    """What the default group can read is found out by the first batch that shows it, in any epoch."""
    run = Run(metric="accuracy", output=Category(2, ignore_index=-1))
    for epoch in run.epochs(2):
        run.update(probabilities=torch.tensor([[0.9, 0.1]]), target=torch.tensor([epoch - 1]))
    assert run.values["log_loss"] == pytest.approx(-math.log(0.9))


def test_rows_with_weights_are_measured_by_the_default_group_too():
    """What was tried on the first batch is measured from its first row on, with its weights."""
    with Run(metric="brier", output=Binary()) as run:
        run.update(
            probabilities=torch.tensor([0.9, 0.9]),
            target=torch.tensor([1, 0]),
            sample_weight=torch.tensor([3.0, 1.0]),
        )
    assert run.values["accuracy"] == 0.75


def test_a_nan_voids_the_values_that_its_task_enters():
    """Those of the task and those over all, whose reason names it; the other task keeps its own."""
    run = Run(metric="b/log_loss", output=Binary(), track=["log_loss(tasks=micro)"], defaults=False)
    for _ in run.epochs(1):
        for task, first in (("a", math.nan), ("b", 0.5), ("a", 0.5)):
            run.update(task=task, probabilities=torch.tensor([first]), target=ONE)
    record = run.history[0]
    assert run.value == record.values["b/log_loss"] == pytest.approx(math.log(2))
    assert record.reasons.keys() == {"a/log_loss", "log_loss", "log_loss(tasks=micro)"}
    assert "nan" in record.reasons["a/log_loss"]
    assert record.reasons["log_loss"] == f"task a: {record.reasons['a/log_loss']}"


def test_a_nan_in_a_mixed_batch_is_that_of_its_task():
    """The rows of the other task are counted."""
    run = Run(metric="b/log_loss", output=Binary(), defaults=False)
    for _ in run.epochs(2):
        batch = torch.tensor([0.5, math.nan if not run.history else 0.5, 0.25])
        run.update(task=["b", "a", "b"], probabilities=batch, target=torch.tensor([1, 1, 1]))
    assert run.history[0].values["b/log_loss"] == pytest.approx((math.log(2) + math.log(4)) / 2)
    assert run.history[0].reasons.keys() == {"a/log_loss", "log_loss"}
    assert not run.history[1].reasons


def test_a_nan_of_one_output_leaves_the_others():
    """What it does not enter has its value, what combines the two has none."""
    run = Run(metric="combined.loss", output=BOTH, track=["price.mae"], defaults=False)
    for _ in run.epochs(1):
        run.update(feature="price", predictions=torch.tensor([1.0]), target=torch.tensor([3.0]), loss=2.0)
        run.update(feature="intent", logits=torch.tensor([[math.nan, 1.0]]), target=ONE, loss=1.0)
    assert run.history[0].values["price.mae"] == 2.0
    assert run.history[0].reasons["combined.loss"] == "intent.loss is not one finite number"


def test_one_value_has_no_second_name():
    """`all/accuracy` is `accuracy`, whichever of the two was asked for, and so with what is combined."""
    for metric in ("accuracy", "all/accuracy", "combined.accuracy"):
        run = Run(metric=metric, output=Binary(), defaults=False)
        for name in ("accuracy", "all/accuracy"):
            with pytest.raises(RunError, match=f"this run already measures '{name}'"):
                run.log(**{name: 1.0})
    with pytest.raises(RunError, match=r"already measures 'all/combined\.accuracy'"):
        run.log(**{"all/combined.accuracy": 1.0})
    run.log(**{"all/exs": 3})
    run.update(predictions=ONE, target=ONE)
    run.close()


def test_a_logged_name_of_what_was_recorded_ends_the_epoch():
    """`all/n` is the sum over the tasks that is there as `n`."""
    run = Run(metric="accuracy", output=Binary())
    run.record_local("n", [AverageMetric(1)], task="a")
    run.log(**{"all/n": 3})
    with pytest.raises(RunError, match="n: both recorded and logged"):
        run.close()
