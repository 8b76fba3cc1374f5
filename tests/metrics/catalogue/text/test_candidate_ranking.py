"""Ranked candidates: hits, rank and reciprocal rank of the right text."""

from __future__ import annotations

import pytest
from drawn_texts import value

from hpometrics.exceptions import MetricInputError, MetricNameError
from hpometrics.metrics.features import Text
from hpometrics.metrics.registry.register import get_metric

CANDIDATES = [["Yes.", "no", "maybe"], ["no", "The cat!", "a cat"], ["no", "yes", "so"], ["x"]]
REFERENCES = [["yes"], ["cat", "dog"], ["never"], ["y", "x"]]
"""Ranks 1, 2, none of three, 1."""


@pytest.mark.parametrize(
    "name, expected",
    [
        ("hits@1", 2 / 4),
        ("hits@2", 3 / 4),
        ("hits@100", 3 / 4),
        ("rank", (1 + 2 + 4 + 1) / 4),
        ("mrr", 2.5 / 4),
    ],
)
def test_by_hand(name, expected):
    """Texts are normalized; a text that is not among the candidates is behind the last, and worth 0."""
    texts = [row[0] for row in CANDIDATES]
    assert value(name, texts, REFERENCES, batch=3, candidates=CANDIDATES) == pytest.approx(expected)


@pytest.mark.parametrize(
    "extras, words",
    [
        ({}, "need candidates=.*; got none"),
        ({"candidates": [["a"]]}, "1 rows, but the batch has 2"),
        ({"candidates": ["a", "b"]}, "a list of texts per row, got 'a' in row 0"),
        ({"candidates": [["a"], [3]]}, "in row 1"),
    ],
)
def test_what_is_refused(extras, words):
    """Missing candidates, too few of them, texts in the place of lists, numbers in the place of texts."""
    with pytest.raises(MetricInputError, match=words):
        get_metric("mrr", Text()).update(["a", "b"], ["a", "b"], **extras)


def test_a_k_below_one():
    """There is no zeroth candidate."""
    with pytest.raises(MetricNameError, match="k must be a whole number of at least 1, got 0"):
        get_metric("hits@0", Text())
