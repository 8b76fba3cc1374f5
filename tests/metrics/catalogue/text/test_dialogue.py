"""Dialogue state: joint goals and slots."""

from __future__ import annotations

import pytest
from drawn_texts import value

from hpometrics.exceptions import MetricInputError
from hpometrics.metrics.features import Text
from hpometrics.metrics.registry.register import get_metric

SAID = [{"area": "north"}, {"area": "north", "stars": 4}, {}, {"area": "south"}, {"stars": 3}]
RIGHT = [{"area": "north"}, {"area": "north", "stars": 5}, {}, {}, {"stars": 3, "area": "east"}]

EXPECTED = {
    "jga": 2 / 5,
    "jga_empty": 1 / 2,
    "jga_noempty": 1 / 3,
    "slot_p": 3 / 5,
    "slot_r": 3 / 5,
    "slot_f1": 3 / 5,
}


@pytest.mark.parametrize("name", EXPECTED)
def test_mappings(name):
    """Three of five predicted slots are right, and three of the five that are to be found."""
    blank = [""] * 5
    assert value(name, blank, blank, batch=2, slots=SAID, gold_slots=RIGHT) == pytest.approx(EXPECTED[name])


@pytest.mark.parametrize(
    "name, reason",
    [
        ("jga_noempty", "no rows were counted"),
        ("slot_p", "no slots were predicted"),
        ("slot_r", "no turn has a slot"),
        ("slot_f1", "there are no slots"),
    ],
)
def test_undefined_without_slots(name, reason):
    """Nothing to divide by is nan with the reason, not 0."""
    metric = get_metric(name, Text())
    metric.update([""], [""], slots=[{}], gold_slots=[{}])
    assert metric.compute().isnan()
    assert reason in metric.undefined_reason


@pytest.mark.parametrize(
    "extras, words",
    [
        ({"slots": [{}]}, "need .*; got no gold_slots="),
        ({}, "got no slots= and no gold_slots="),
        ({"slots": [{}, {}], "gold_slots": [{}]}, "slots must be a list of 1 mappings"),
        ({"slots": ["a"], "gold_slots": [{}]}, "got str in row 0"),
    ],
)
def test_what_is_refused(extras, words):
    """One side alone, none, another number of rows, no mappings."""
    with pytest.raises(MetricInputError, match=words):
        get_metric("jga", Text()).update([""], [""], **extras)
