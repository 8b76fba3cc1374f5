"""The container of additive values."""

from __future__ import annotations

import pytest

from hpometrics.exceptions import AdditionError, MetricInputError, MetricNameError
from hpometrics.metrics.additive import AverageMetric, DistinctMetric, FixedMetric, SumMetric
from hpometrics.metrics.reports import Metrics


class CountedDistinct(DistinctMetric):
    """Counts how many n-grams were moved from set to set."""

    moved = 0

    def absorb(self, other):
        """Move those of the other."""
        type(self).moved += len(other.ngrams)
        return super().absorb(other)

    def plus(self, other):
        """Move those of both."""
        type(self).moved += len(self.ngrams)
        return super().plus(other)


def test_values_of_one_name_are_added():
    """Names are kept apart, as they print; None adds nothing."""
    metrics = Metrics()
    for name, value in [("f1(average=macro)", AverageMetric(1, 2)), ("exs", SumMetric(2)), ("exs", None)]:
        metrics.add(name, value)
    metrics.add("f1( average = macro )", AverageMetric(2, 2))
    assert metrics.report() == {"f1(average=macro)": AverageMetric(3, 4), "exs": SumMetric(2)}


def test_a_report_is_a_snapshot():
    """What is added, cleared or changed afterwards does not reach a report, nor the other way round."""
    metrics = Metrics()
    for text in ("a word", "two words"):
        metrics.add("distinct_1", DistinctMetric.of(text, 1))
    report = metrics.report()
    metrics.add("distinct_1", DistinctMetric.of("three", 1))
    assert report["distinct_1"].total == 3
    report.clear()
    assert metrics.report()["distinct_1"].total == 4
    metrics.clear()
    assert metrics.report() == {}


def test_containers_are_added():
    """The one that is added stays as it was, and is not changed by what is added to the other."""
    one, other = Metrics(), Metrics()
    for text in ("a word", "two words"):
        other.add("distinct_1", DistinctMetric.of(text, 1))
    one.add_metrics(other)
    other.add("distinct_1", DistinctMetric.of("four", 1))
    one.add("distinct_1", DistinctMetric.of("three", 1))
    assert one.report()["distinct_1"].ngrams == {("word",), ("two",), ("words",), ("three",)}
    assert other.report()["distinct_1"].ngrams == {("word",), ("two",), ("words",), ("four",)}


def test_distinct_accumulates_in_linear_time():
    """Of 1000, 2000 and 4000 texts of 20 words of their own each pair is moved once, not with every text."""
    moved = []
    for texts in (1000, 2000, 4000):
        CountedDistinct.moved = 0
        metrics = Metrics()
        for text in range(texts):
            metrics.add(
                "distinct_2", CountedDistinct.of(" ".join(f"w{text}x{word}" for word in range(20)), 2)
            )
        assert metrics.report()["distinct_2"].value() == 1.0
        moved.append(CountedDistinct.moved)
    assert moved == [19 * 1000, 19 * 2000, 19 * 4000]


@pytest.mark.parametrize("name", ["train:f1", "convai2/f1", "intent.f1"])
def test_a_name_is_a_metric_alone(name):
    """Which task or split a value belongs to is not for its name to say."""
    with pytest.raises(MetricNameError, match=r"under the plain name of a metric, as 'f1'"):
        Metrics().add(name, SumMetric(1))


@pytest.mark.parametrize("name", ["", "f1 score", "1f", None])
def test_a_name_follows_the_grammar(name):
    """What no metric could be called is refused."""
    with pytest.raises(MetricNameError, match="name"):
        Metrics().add(name, SumMetric(1))


def test_a_bare_number_is_refused():
    """The error names the metric and says what to write."""
    with pytest.raises(MetricInputError, match=r"'f1': add a value such as AverageMetric.*got 0.5"):
        Metrics().add("f1", 0.5)


def test_an_error_names_the_metric_and_leaves_what_was_there():
    """Another type under a name, and fixed values that differ."""
    metrics = Metrics()
    metrics.add("updates", FixedMetric(7))
    with pytest.raises(AdditionError, match=r"'updates': only values of one type can be added"):
        metrics.add("updates", SumMetric(1))
    with pytest.raises(MetricInputError, match=r"'updates': .* got 7 and 8"):
        metrics.add("updates", FixedMetric(8))
    assert metrics.report() == {"updates": FixedMetric(7)}
