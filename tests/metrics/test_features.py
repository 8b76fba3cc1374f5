from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from hpometrics.exceptions import HpometricsError, MetricInputError
from hpometrics.metrics.features import (
    FEATURES,
    Binary,
    Category,
    Number,
    Ranking,
    Sequence,
    Set,
    Text,
    Timeseries,
    Vector,
    check_feature_type,
    parse_feature,
)


@pytest.mark.parametrize(
    ("feature", "text"),
    [
        (Binary(), "binary"),
        (Binary(0.3), "binary(threshold=0.3)"),
        (Category(10), "category(num_classes=10)"),
        (Set(3, 0.25), "set(num_labels=3, threshold=0.25)"),
        (Number(), "number"),
        (Vector(2), "vector(size=2)"),
        (Timeseries(12), "timeseries(horizon=12)"),
        (Sequence(50, ignore_index=0), "sequence(vocab_size=50, ignore_index=0)"),
        (Text(ignore_index=-1), "text(ignore_index=-1)"),
    ],
)
def test_a_feature_prints_as_it_parses(feature, text):
    """The text of a YAML file and the object of Python are the same feature."""
    assert str(feature) == text
    assert parse_feature(text) == feature
    assert parse_feature(feature) is feature


@pytest.mark.parametrize("name", FEATURES)
def test_every_feature_type_is_read_by_its_name(name):
    """The type constant alone is a feature without facts."""
    assert parse_feature(name) == FEATURES[name]()
    assert parse_feature(name).type == check_feature_type(name) == name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("catgory", "'catgory' is not an output feature; did you mean 'category'?"),
        ("category(num_clases=3)", "category has no 'num_clases'; it knows num_classes"),
        ("number(size=3)", "number has no 'size'; it knows no facts"),
        ("category(num_classes=0)", "num_classes must be a whole number of at least 1, got 0"),
        ("category(num_classes=2.5)", "at least 1, got 2.5"),
        ("category(num_classes=true)", "at least 1, got True"),
        ("set(num_labels=-1)", "num_labels must be a whole number of at least 1, got -1"),
        ("binary(threshold=0)", "threshold must be a probability between 0 and 1"),
        ("binary(threshold=1.0)", "threshold must be a probability .* got 1.0"),
        ("set(threshold=high)", "threshold must be a probability .* got 'high'"),
        ("sequence(ignore_index=0.5)", "ignore_index .* got 0.5"),
        ("text(ignore_index=pad)", "ignore_index .* got 'pad'"),
        ("ranking(empty=pos)", "empty must be `skip` or `neg`, .* got 'pos'"),
    ],
)
def test_a_wrong_fact_is_refused_with_its_value(text, message):
    """The message names the feature, what it knows and what came."""
    with pytest.raises(MetricInputError, match=message):
        parse_feature(text)


@pytest.mark.parametrize(
    "text", ["", "category@10", "test:category", "intent/category", "a.category", "Category(10)"]
)
def test_what_is_no_feature_is_refused_whole(text):
    """A part that a feature does not have is never dropped silently."""
    with pytest.raises(MetricInputError, match=r"output feature|category\(num_classes="):
        parse_feature(text)


def test_a_fact_may_be_a_number_of_numpy():
    """As `y.max() + 1` is; it is kept as one of Python's, which a saved state can have."""
    made = [
        (Category(np.int64(3), ignore_index=np.int8(-1)), "category(num_classes=3, ignore_index=-1)"),
        (Set(np.int32(3), threshold=np.float64(0.25)), "set(num_labels=3, threshold=0.25)"),
        (Sequence(np.int64(9), ignore_index=np.int64(0)), "sequence(vocab_size=9, ignore_index=0)"),
        (
            Ranking(np.int64(9), relevance_threshold=np.float32(1)),
            "ranking(num_items=9, relevance_threshold=1.0)",
        ),
    ]
    for output, text in made:
        assert str(output) == text and output == parse_feature(text)
        assert {type(fact) for fact in output.facts.values()} <= {str, int, float, bool, type(None)}
    with pytest.raises(MetricInputError, match=r"num_classes must be a whole number of at least 1, got 3\.0"):
        Category(np.float64(3))


def test_a_feature_cannot_change():
    """Metrics may share one feature object: it is a value."""
    with pytest.raises(AttributeError, match="num_classes"):
        Category(3).num_classes = 4  # type: ignore[misc]
    assert {Category(3), Category(3)} == {Category(3)}
    assert issubclass(MetricInputError, HpometricsError)


def seen_by_all() -> Ranking:
    """Ten thousand users who have seen one item each."""
    return Ranking(3, num_users=10_000, seen=(torch.arange(10_001), torch.zeros(10_000, dtype=torch.int64)))


def test_a_function_gives_the_output_once():
    """However often it is asked for, it is one call and one object; what it gives may be a text."""
    calls = []
    assert parse_feature(lambda: "set(num_labels=3)") == Set(3)

    def give():
        calls.append("called")
        return Ranking(num_items=3, item_popularity=[1, 2, 3])

    assert parse_feature(give) is parse_feature(give)
    assert (str(parse_feature(give)), calls) == ("ranking(num_items=3)", ["called"])


def test_a_function_that_gives_no_output_is_refused():
    """With what it gave instead."""
    with pytest.raises(
        MetricInputError, match=r"must return an output such as Ranking\(seen=\.\.\.\), got dict"
    ):
        parse_feature(dict)


def test_an_output_made_by_a_function_travels_as_the_function():
    """The side data stay behind, what has been changed since comes along, and equal is equal."""
    made = parse_feature(seen_by_all)
    stored = pickle.dumps(made)
    assert len(stored) < 1000 < len(pickle.dumps(seen_by_all()))
    assert pickle.loads(stored) is made
    sampled = pickle.loads(pickle.dumps(replace(made, num_negatives=2)))
    assert sampled == replace(made, num_negatives=2) != made


def test_a_ranking_pickles_with_its_side_data():
    """What was given as an object arrives as one."""
    again = pickle.loads(pickle.dumps(seen_by_all()))
    assert (again.num_items, again.num_users, len(again.seen[1])) == (3, 10_000, 10_000)
