"""Reports of tasks as one, and those of workers as one."""

from __future__ import annotations

import math

import pytest
from sample_values import Perplexity

from hpometrics.exceptions import AdditionError, MetricInputError, MetricNameError
from hpometrics.metrics.additive import (
    AverageMetric,
    DistinctMetric,
    FixedMetric,
    GlobalAverageMetric,
    MacroAverageMetric,
    SumMetric,
    TimerMetric,
)
from hpometrics.metrics.registry.scope import check_task
from hpometrics.metrics.reports import aggregate_named_reports, aggregate_unnamed_reports

A = {"f1": AverageMetric(1, 2), "exs": SumMetric(2), "ppl": Perplexity(2, 1), "lr": GlobalAverageMetric(0.1)}
B = {
    "f1": AverageMetric(9, 10),
    "exs": SumMetric(10),
    "ppl": Perplexity(4, 4),
    "lr": GlobalAverageMetric(0.1),
}

PRINTED = [
    (
        {"exs": 3434, "loss": 5.288, "ppl": 197.9, "token_acc": 0.2120},
        {"exs": 4982, "loss": 4.868, "ppl": 130.0, "token_acc": 0.2620},
        {"exs": 8416, "loss": 5.078, "ppl": 163.95, "token_acc": 0.2370},
    ),
    (
        {"exs": 3652, "loss": 4.659, "ppl": 105.5, "token_acc": 0.2651, "local_hello": 0.02793},
        {"exs": 1852, "loss": 4.587, "ppl": 98.17, "token_acc": 0.2863, "local_hello": 0.00054},
        {"exs": 5504, "loss": 4.623, "ppl": 101.835, "token_acc": 0.2757, "local_hello": 0.014235},
    ),
]
"""Two logs of training on convai2 and dailydialog: the rows of the tasks, and that of all."""


def values(report):
    """What a report comes to."""
    return {name: value.value() for name, value in report.items()}


def row(printed):
    """The report of a task with such a row; its means are of as many examples as it has."""
    exs = printed["exs"]
    report = {name: AverageMetric(value * exs, exs) for name, value in printed.items()}
    return report | {"exs": SumMetric(exs), "ppl": Perplexity(math.log(printed["ppl"]) * exs, exs)}


@pytest.mark.parametrize(
    ("micro_average", "f1", "ppl"),
    [(False, 0.7, 5.053669), (True, 0.833333, 3.320117)],
    ids=["macro", "micro"],
)
def test_two_tasks_by_hand(micro_average, f1, ppl):
    """f1: (1/2 + 9/10) / 2 or 10/12; ppl: (e^2 + e) / 2 or e^(6/5); what is counted is added either way."""
    found = values(aggregate_named_reports({"a": A, "b": B}, micro_average))
    assert found == pytest.approx(
        {"f1": f1, "a/f1": 0.5, "b/f1": 0.9, "exs": 12, "a/exs": 2, "b/exs": 10, "lr": 0.1,
         "ppl": ppl, "a/ppl": math.exp(2), "b/ppl": math.exp(1)},
        abs=5e-7,
    )  # fmt: skip


@pytest.mark.parametrize(("convai2", "dailydialog", "of_all"), PRINTED, ids=["global", "local"])
def test_the_printed_row_of_all_follows_from_those_of_the_tasks(convai2, dailydialog, of_all):
    """Means of the tasks' means, the sum of what is counted; ppl is no exp of the mean loss, 160.4."""
    report = aggregate_named_reports({"convai2": row(convai2), "dailydialog": row(dailydialog)})
    found = values(report)
    assert {name: found[name] for name in of_all} == pytest.approx(of_all, rel=1e-12)
    assert {name: found[f"convai2/{name}"] for name in convai2} == pytest.approx(convai2, rel=1e-12)


@pytest.mark.parametrize(("context", "label", "both"), [(9831, 1746, 11577), (3676, 436.2, 4112.2)])
def test_tokens_per_batch_are_added_over_workers(context, label, both):
    """Every worker reports its tokens, one of them the batches: tpb is ctpb and ltpb, per global batch."""
    batches = 4
    shares = [(0.25, batches), (0.5, 0), (0.25, 0)]
    workers = [
        {name: GlobalAverageMetric(share * tokens * batches, counted)
         for name, tokens in {"ctpb": context, "ltpb": label, "tpb": context + label}.items()}
        for share, counted in shares
    ]  # fmt: skip
    assert values(aggregate_unnamed_reports(workers)) == pytest.approx(
        {"ctpb": context, "ltpb": label, "tpb": both}
    )


def test_one_task_has_the_names_of_several():
    """Else a worker with one task could not be put together with others."""
    report = aggregate_named_reports({"a": A})
    assert set(report) == {"f1", "a/f1", "exs", "a/exs", "ppl", "a/ppl", "lr"}
    assert report["f1"] == MacroAverageMetric({"a": A["f1"]})


def test_uneven_workers():
    """One has tasks a (1) and b (0), one has c (0): each puts its own together first, and all are 1/3."""
    one = aggregate_named_reports({"a": {"f1": AverageMetric(1, 1)}, "b": {"f1": AverageMetric(0, 1)}})
    other = aggregate_named_reports({"c": {"f1": AverageMetric(0, 1)}})
    assert values(aggregate_unnamed_reports([one, other])) == {
        "f1": pytest.approx(1 / 3), "a/f1": 1.0, "b/f1": 0.0, "c/f1": 0.0,
    }  # fmt: skip


def test_what_is_not_averaged_over_tasks_is_added():
    """Sums, rates, fixed values and n-grams are of all tasks together, whatever the averages are."""
    a = {
        "exps": TimerMetric(10, 0, 2),
        "updates": FixedMetric(7),
        "distinct_1": DistinctMetric.of("to be", 1),
    }
    b = {
        "exps": TimerMetric(10, 2, 4),
        "updates": FixedMetric(7),
        "distinct_1": DistinctMetric.of("or to", 1),
    }
    found = values(aggregate_named_reports({"a": a, "b": b}))
    assert (found["exps"], found["updates"], found["distinct_1"]) == (5.0, 7.0, 0.75)
    assert (found["a/exps"], found["b/updates"], found["a/distinct_1"]) == (5.0, 7.0, 1.0)


def test_the_mean_is_over_the_tasks_that_have_it():
    """A metric of one task is not 0 in the others."""
    found = aggregate_named_reports({"a": {"slot_f1": AverageMetric(1, 2)}, "b": {"f1": AverageMetric(1, 1)}})
    assert values(found) == {"slot_f1": 0.5, "a/slot_f1": 0.5, "f1": 1.0, "b/f1": 1.0}


def test_global_values_are_added_and_of_no_task():
    """What two tasks measured counts as one run's, not the first task's alone."""
    a, b = {"gnorm": GlobalAverageMetric(1, 1)}, {"gnorm": GlobalAverageMetric(6, 3)}
    assert values(aggregate_named_reports({"a": a, "b": b})) == {"gnorm": 1.75}


@pytest.mark.parametrize(
    "task", ["all", "", "a/b", "train:a", "a b", "a@1", "a(b)", "a\n", " a", None, "x" * 253]
)
def test_a_task_can_stand_in_front_of_a_name(task):
    """`all` is the name of all of them; what would not parse, or parse as something else, is refused."""
    told = r"the name of a task must be text without .*, of at most 252 characters, and not 'all'"
    with pytest.raises(MetricNameError, match=told):
        aggregate_named_reports({task: A})
    assert check_task("x" * 252)


def test_names_of_tasks_and_metrics_do_not_meet():
    """The metric `a/x` of task b would be taken for the metric x of task a."""
    with pytest.raises(MetricNameError, match=r"'a/x': add a value under the plain name of a metric"):
        aggregate_named_reports({"a": {"x": SumMetric(1)}, "b": {"a/x": SumMetric(2)}})


@pytest.mark.parametrize("other", [SumMetric(1), GlobalAverageMetric(1, 2)], ids=["sum", "global"])
def test_a_name_is_of_one_type_in_every_task(other):
    """The error names the metric, both types and both tasks."""
    with pytest.raises(
        AdditionError, match=rf"'f1': .* AverageMetric by 'a' and {type(other).__name__} by 'b'"
    ):
        aggregate_named_reports({"a": {"f1": AverageMetric(1, 2)}, "b": {"f1": other}})


def test_fixed_values_of_tasks_agree():
    """The error names the metric and both values."""
    with pytest.raises(MetricInputError, match=r"'updates': .* got 7 and 8"):
        aggregate_named_reports({"a": {"updates": FixedMetric(7)}, "b": {"updates": FixedMetric(8)}})


@pytest.mark.parametrize("aggregate", [aggregate_named_reports, aggregate_unnamed_reports])
def test_there_is_a_report(aggregate):
    """Of nothing there is no report; an empty one is one."""
    with pytest.raises(MetricInputError, match="needs at least one report, got none"):
        aggregate({})
    assert aggregate_named_reports({"a": {}}) == aggregate_unnamed_reports([{}]) == {}


def test_numbers_are_not_reports():
    """A bare number would be summed where it should be averaged."""
    with pytest.raises(MetricInputError, match=r"'f1': add a value such as .* got 0.5"):
        aggregate_unnamed_reports([{"f1": 0.5}])
    with pytest.raises(MetricInputError, match=r"'f1': add a value such as .* got 0.5"):
        aggregate_named_reports({"a": {"f1": 0.5}})
