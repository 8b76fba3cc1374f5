"""What an engine and its data sets record themselves: per example, of the run, by teachers."""

from __future__ import annotations

import math

import pytest
import torch

from hpometrics import AverageMetric, DistinctMetric, GlobalAverageMetric, SumMetric, Teacher
from hpometrics.exceptions import AdditionError, MetricInputError, MetricNameError, RunError
from hpometrics.metrics.features import Binary
from hpometrics.run import Reported, Run

TWO = torch.tensor([1, 0])


class Hello(Teacher):
    """How often the model says hello, as in ParlAI's guide."""

    def custom_evaluation(self, teacher_action, labels, model_response):
        if "text" not in model_response:
            return
        if "hello" in model_response["text"]:
            self.metrics.add("hello_avg", AverageMetric(1, 1))
        else:
            self.metrics.add("hello_avg", AverageMetric(0, 1))


def run_of(metric="accuracy", **facts) -> Run:
    """A run on a binary output that measures nothing unasked."""
    return Run(metric=metric, output=Binary(), defaults=False, **facts)


def test_local_values_know_their_tasks():
    """ParlAI's local_hello: 1 of 3 tokens and 0 of 4; over the tasks the mean of 1/3 and 0, not 1 of 7."""
    with run_of() as run:
        for task, hits, tokens in (("a", [0, 1], [2, 1]), ("b", [0, 0], [3, 1])):
            run.update(task=task, predictions=TWO, target=TWO)
            run.record_local("local_hello", AverageMetric.many(hits, tokens))
    assert {run.values["a/local_hello"], run.values["b/local_hello"]} == {1 / 3, 0.0}
    assert run.values["local_hello"] == 1 / 6


def test_local_values_of_a_mixed_batch_go_by_its_rows():
    """Each row's value belongs to the row's task."""
    with run_of() as run:
        run.update(task=["a", "b"], predictions=TWO, target=TWO)
        run.record_local("tokens", [SumMetric(3), SumMetric(4)])
    assert [run.values[name] for name in ("a/tokens", "b/tokens", "tokens")] == [3.0, 4.0, 7.0]


@pytest.mark.parametrize(
    ("metric", "value"),
    [
        ("hello_avg", 0.75),
        ("all/hello_avg", 0.75),
        ("hello_avg(tasks=micro)", 2 / 3),
        ("all/hello_avg(tasks=micro)", 2 / 3),
        ("a/hello_avg", 0.5),
    ],
)
def test_a_recorded_value_can_steer(metric, value):
    """Under every name that a measured one could have; its direction is stated."""
    run = run_of({"metric": metric, "direction": "maximize"})
    for _ in run.epochs(1):
        for task, said in (("a", [1, 0]), ("b", [1])):
            run.record_local("hello_avg", AverageMetric.many(said, [1] * len(said)), task=task)
    assert run.value == value


def test_a_teacher_measures_the_answers_to_its_data_set():
    """On the data set's class as the guide has it, or a function; who says nothing is skipped."""
    run = run_of(Reported("hello_avg", "maximize"))

    def shouting(teacher_action, labels, model_response, metrics):
        metrics.add("shouts", SumMetric(model_response["text"].count("!")))

    run.teach(Hello, task="daily")
    run.teach(shouting, task="loud")
    for _ in run.epochs(1):
        for answer in ({"text": "oh hello"}, {"text": "oh"}, {}):
            run.evaluate_response({"text": "hi", "labels": ("x",)}, ("x",), answer, task="daily")
        run.evaluate_response({"text": "hi"}, None, {"text": "no!!"}, task="loud")
    assert run.values == {"daily/hello_avg": 0.5, "hello_avg": 0.5, "loud/shouts": 2.0, "shouts": 2.0}


def test_what_a_data_set_calls_itself_is_taken_in_once():
    """A data set that calls its own custom_evaluation, as ParlAI's do, is read when the epoch closes."""
    run, teacher = run_of(Reported("hello_avg", "maximize")), Hello()
    run.teach(teacher)
    for _ in run.epochs(2):
        teacher.custom_evaluation({"text": "hi"}, None, {"text": "hello"})
    assert [epoch.values["hello_avg"] for epoch in run.history] == [1.0, 1.0]
    assert not teacher.metrics.report()


def test_a_global_value_is_of_the_run():
    """`global_metrics.add` as printed in the guide: 1 of 2; no task has a row of it."""
    with run_of() as run:
        run.update(task="a", predictions=TWO, target=TWO)
        run.global_metrics.add("my_metric", AverageMetric(1, 2))
        run.record_global("tpb", GlobalAverageMetric(10, 1))
        run.record_global("tpb", GlobalAverageMetric(20, 1))
    recorded = {name: value for name, value in run.values.items() if "accuracy" not in name}
    assert recorded == {"my_metric": 0.5, "tpb": 15.0}


def test_a_global_value_alone_is_an_epoch():
    """As by `record_global`; after the last epoch it is refused, whoever holds the container."""
    run = run_of(Reported("m", "maximize"))
    run.global_metrics.add("m", AverageMetric(1, 2))
    assert run.value == 0.5
    with pytest.raises(RunError, match=r"run\.global_metrics\.add\(\.\.\.\) comes after the last epoch"):
        run.global_metrics.add("m", AverageMetric(1, 2))


def test_recorded_values_begin_anew_with_every_epoch_and_have_their_split():
    """Counters too; a value of the training split carries its name."""
    run = run_of()
    for epoch in run.epochs(2):
        run.update(predictions=TWO, target=TWO)
        run.record_local("varied", [DistinctMetric.of("a b b", 1), DistinctMetric.of("b" * epoch, 1)])
        run.record_global("seen", SumMetric(epoch), split="train")
    assert [epoch.values["varied"] for epoch in run.history] == [0.5, 1 / 3]
    assert [epoch.values["train:seen"] for epoch in run.history] == [0.0, 1.0]


def test_an_undefined_value_is_nan_with_its_reason():
    """0 of 0 is nothing that was measured."""
    run = run_of()
    for _ in run.epochs(1):
        run.update(predictions=TWO, target=TWO)
        run.record_global("share", AverageMetric(0, 0))
    assert math.isnan(run.values["share"])
    assert run.history[0].reasons["share"] == "AverageMetric(numer=0, denom=0) is undefined"


@pytest.mark.parametrize(
    ("record", "error", "text"),
    [
        (
            lambda run: run.record_local("accuracy", [SumMetric(1)] * 2),
            RunError,
            "this run already measures 'accuracy'; log",
        ),
        (lambda run: run.record_global("accuracy", SumMetric(1)), RunError, "log yours under another name"),
        (lambda run: run.record_local("x", [SumMetric(1)]), RunError, "got 1 for the 2 rows of the last"),
        (lambda run: run.record_local("x", [SumMetric(1)], task=["a", "b"]), RunError, "got 1 for 2 tasks"),
        (
            lambda run: run.record_local("x", [SumMetric(1)], task="a"),
            RunError,
            "some recorded values name a",
        ),
        (lambda run: run.record_local("a/x", [SumMetric(1)] * 2), MetricNameError, "of a metric, as"),
        (lambda run: run.record_global("g", SumMetric(1)), AdditionError, "'g': only values of one type"),
        (lambda run: run.evaluate_response({}, None, {}), RunError, r"the run has no teacher \(none has\)"),
        (lambda run: run.teach(3), RunError, "or be a function of these and metrics; got int"),
    ],
)
def test_what_would_merge_silently_or_be_lost_is_refused(record, error, text):
    """A name is one value; a value is of one example of the last update."""
    run = run_of()
    run.update(predictions=TWO, target=TWO)
    run.record_local("n", [SumMetric(1)] * 2)
    run.record_global("g", AverageMetric(1))
    with pytest.raises(error, match=text):
        record(run)


def test_local_values_are_given_once_and_after_their_update():
    """Twice for one batch would count it twice; before any update nobody knows whose they are."""
    run = run_of()
    with pytest.raises(RunError, match=r"must follow the run\.update\(\.\.\.\)"):
        run.record_local("n", [SumMetric(1)])
    run.update(predictions=TWO, target=TWO)
    run.record_local("n", [SumMetric(1)] * 2)
    with pytest.raises(RunError, match="this batch already has its values"):
        run.record_local("n", [SumMetric(1)] * 2)


def test_a_call_that_is_refused_leaves_nothing():
    """The call may be made again with what is right."""
    run = run_of()
    for _ in run.epochs(1):
        run.update(predictions=TWO, target=TWO)
        with pytest.raises(MetricInputError, match="'n': add a value such as"):
            run.record_local("n", [SumMetric(1), 1])
        run.record_local("n", [SumMetric(2)] * 2)
        with pytest.raises(RunError, match=r"log\(b=...\) expects one number"):
            run.log(a=1.0, b="x")
        with pytest.raises(RunError, match=r"undefined\(b=...\) expects the reason"):
            run.undefined(a="no row", b="")
        run.log(a=3.0)
    assert (run.values["n"], run.values["a"]) == (4.0, 3.0)


def test_a_name_recorded_both_ways_ends_the_epoch_with_an_error():
    """Per example and globally would be two values under one name."""
    run = run_of(Reported("n", "minimize"))
    run.record_local("n", [SumMetric(1)], task="a")
    run.global_metrics.add("n", SumMetric(1))
    with pytest.raises(RunError, match="n: recorded both per example and globally"):
        run.close()


def test_a_name_recorded_and_logged_ends_the_epoch_with_an_error():
    """One of the two would be lost."""
    run = run_of(Reported("n", "minimize"))
    run.record_local("n", [SumMetric(1)], task="a")
    run.log(n=2)
    with pytest.raises(RunError, match="n: both recorded and logged"):
        run.close()


def test_what_a_watch_measures_is_not_logged_as_well():
    """`lr` of the watch and of the engine would be two values under one name."""
    model = torch.nn.Linear(1, 1)
    run = run_of()
    run.watch(model, torch.optim.SGD(model.parameters(), lr=0.5))
    run.log(lr=0.1)
    with pytest.raises(RunError, match="lr: both watched and logged; use two names"):
        run.close()


def test_a_value_that_is_watched_is_neither_logged_nor_recorded():
    """Neither stands silently in the place of the other."""
    for note in (lambda run: run.log(lr=7.0), lambda run: run.record_global("lr", AverageMetric(7))):
        run = Run(metric="accuracy", output=Binary())
        model = torch.nn.Linear(1, 1)
        run.watch(model, torch.optim.SGD(model.parameters(), lr=0.1))
        run.update(predictions=torch.tensor([1]), target=torch.tensor([1]))
        note(run)
        with pytest.raises(RunError, match=r"lr: both .*watched"):
            run.value  # noqa: B018  # reading it closes the epoch


def test_two_combinations_of_one_name_are_refused():
    """The tracked one does not take the place of the one that is optimized."""
    with pytest.raises(RunError, match=r"combined\.score is accuracy .* and also 3 accuracy"):
        Run(metric={"combine": {"accuracy": 1}}, track=[{"combine": {"accuracy": 3}}], output=Binary())


def test_a_void_epoch_says_why_the_value_of_a_task_is_missing():
    """It was updated, so that is not the reason."""
    run = Run(metric="b/accuracy", output=Binary())
    for epoch in run.epochs(1):
        for task, first in (("b", float("nan")), ("a", 0.9)):
            run.update(task=task, probabilities=torch.tensor([first]), target=torch.tensor([1 + epoch]))
    assert "nan" in run.history[0].reasons["b/accuracy"]
