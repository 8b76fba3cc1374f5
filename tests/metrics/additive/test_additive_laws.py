"""What every additive value keeps, so that batches, tasks and workers can be added in any order."""

from __future__ import annotations

import copy
import pickle
from itertools import product

import pytest
from hypothesis import assume, given, settings, strategies as st
from matrix import covering
from sample_values import DYADIC, FLOATS, INTS, TASKS, TYPES, Perplexity, drawn

import hpometrics
from hpometrics.loggers.table import nice_report
from hpometrics.metrics.additive import Additive, AverageMetric, SumMetric, TimerMetric
from hpometrics.metrics.reports import Metrics, aggregate_named_reports, aggregate_unnamed_reports

NUMBERS = {"dyadic": DYADIC, "ints": INTS}
"""Numbers that float64 adds exactly."""

exact = pytest.mark.parametrize(
    ("kind", "numbers"),
    covering(product(TYPES, NUMBERS), list, ids=lambda case: f"{case[0].__name__}-{case[1]}"),
)
few = settings(max_examples=25, deadline=None)


def test_no_type_escapes_the_laws():
    """Every public type of additive value is drawn here."""
    public = {getattr(hpometrics, name) for name in hpometrics.__all__ if name.endswith("Metric")}
    assert {kind for kind in public if issubclass(kind, Additive)} <= set(TYPES)


@exact
@few
@given(data=st.data())
def test_adding_is_associative_and_commutative(kind, numbers, data):
    """Neither brackets nor order change a sum of numbers that float64 holds exactly."""
    a, b, c = data.draw(st.tuples(*[drawn(NUMBERS[numbers])[kind]] * 3))
    assert (a + b) + c == a + (b + c)
    assert a + b == b + a
    assert type(a + b) is kind


@exact
@few
@given(data=st.data())
def test_none_adds_nothing(kind, numbers, data):
    """None is the identity on both sides, so that `sum` may begin with it, or with its own 0."""
    values = data.draw(st.lists(drawn(NUMBERS[numbers])[kind], min_size=1))
    first = values[0]
    assert first + None == None + first == first
    assert sum(values) == sum(values, None)


@exact
@few
@given(data=st.data())
def test_a_report_prints_as_its_numbers(kind, numbers, data):
    """`nice_report` prints reports of one and of several tasks, whatever type their values are of."""
    value, other = data.draw(st.tuples(*[drawn(NUMBERS[numbers])[kind]] * 2))
    assume(kind is not Perplexity or not any(AverageMetric.value(one) > 700 for one in (value, other)))
    reports = [{"name": value}, aggregate_named_reports({"a": {"name": value}, "b": {"other": other}})]
    for report in reports:
        assert nice_report(report) == nice_report({name: held.value() for name, held in report.items()})


@exact
@few
@given(data=st.data())
def test_adding_leaves_the_operands_alone(kind, numbers, data):
    """Values are worth the same after any addition, those of a container's report after more is added."""
    a, b = data.draw(st.tuples(*[drawn(NUMBERS[numbers])[kind]] * 2))
    before = copy.deepcopy((a, b))
    metrics = Metrics()
    for value in (a, b, a, b):
        metrics.add("x", value)
    report = metrics.report()
    snapshot = copy.deepcopy(report)
    metrics.add("x", a + b)
    assert (a, b) == before
    assert report == snapshot


@exact
@few
@given(data=st.data())
def test_any_sharding_is_one_pass(kind, numbers, data):
    """Values dealt to workers and batches in any order add up to what one pass over them does."""
    values = data.draw(st.lists(drawn(NUMBERS[numbers])[kind], min_size=1, max_size=12))
    workers = [Metrics() for _ in range(3)]
    for value in data.draw(st.permutations(values)):
        data.draw(st.sampled_from(workers)).add("x", value)
    together = aggregate_unnamed_reports([pickle.loads(pickle.dumps(worker.report())) for worker in workers])
    assert together["x"] == sum(values)


@pytest.mark.parametrize("kind", [SumMetric, AverageMetric, TimerMetric])
@few
@given(data=st.data())
def test_the_order_of_floats_changes_the_last_digits_alone(kind, data):
    """Sums of any floats agree to 1e-12 of what they are made of."""
    values = data.draw(st.lists(drawn(FLOATS)[kind], min_size=1, max_size=50))
    other = data.draw(st.permutations(values))
    cut = data.draw(st.integers(0, len(values)))
    sharded = sum([sum(part) for part in (other[:cut], other[cut:]) if part])
    for name, total in vars(sum(values)).items():
        size = sum(abs(getattr(value, name)) for value in values)
        assert getattr(sharded, name) == pytest.approx(total, rel=0, abs=1e-12 * size)


@pytest.mark.parametrize("micro_average", [False, True])
@few
@given(
    st.lists(
        st.tuples(st.sampled_from(TASKS), st.integers(0, 2), st.integers(), st.integers()),
        min_size=1,
        max_size=20,
    )
)
def test_tasks_dealt_to_workers_are_one_pass(micro_average, rows):
    """Each worker puts its tasks together, the workers are added: the same report as of one worker."""

    def report_of(rows):
        tasks = {task: Metrics() for task, *_ in rows}
        for task, _, numer, denom in rows:
            tasks[task].add("f1", AverageMetric(numer, denom))
            tasks[task].add("exs", SumMetric(1))
        reports = {task: metrics.report() for task, metrics in tasks.items()}
        return aggregate_named_reports(reports, micro_average)

    workers = [[row for row in rows if row[1] == worker] for worker in range(3)]
    assert aggregate_unnamed_reports([report_of(mine) for mine in workers if mine]) == report_of(rows)


@exact
@few
@given(data=st.data())
def test_a_value_crosses_processes(kind, numbers, data):
    """A copy that was sent elsewhere is equal, hashes alike and comes to the same."""
    value = data.draw(drawn(NUMBERS[numbers])[kind])
    sent = pickle.loads(pickle.dumps(value))
    assert sent == value
    assert hash(sent) == hash(value)
    assert type(sent) is kind
