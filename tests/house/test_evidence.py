from __future__ import annotations

import pytest

from docs._generate.evidence import FAILED, observe
from hpometrics.metrics.registry.index import MetricEntry
from hpometrics.metrics.registry.lookup import find_metric


def seen(name: str, feature: str):
    """Try a metric."""
    return observe(find_metric(name, feature).entries[0])


def test_a_value_for_each_noise():
    """To three digits; what holds the state is named."""
    told = seen("accuracy", "binary")
    assert (told.subject, len(told.values), told.values[0]) == ("accuracy", 3, 1.0)
    assert all(value == float(f"{value:.3g}") for value in told.values)
    assert told.statistics
    assert told.weighted


def test_the_same_values_every_time():
    """The draws have seeds of their own."""
    assert seen("roc_auc", "category") == seen("roc_auc", "category")


def test_memory_is_found_by_trying():
    """A mean stays as small as it is, stored scores grow with the rows."""
    assert seen("mae", "number").memory == "a fixed size"
    assert seen("roc_auc", "binary").memory != "a fixed size"


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"requires": "audio"}, "it needs hpometrics[audio], so the laws try it where that is installed"),
        ({"path": "no.such:Thing", "feature_type": "boxes"}, FAILED),
    ],
)
def test_what_cannot_be_tried_says_why(facts, reason):
    """No values, and a reason."""
    entry = find_metric("mae", "number").entries[0]
    told = observe(MetricEntry(**{**vars(entry), "name": "mae", **facts}))
    assert told.values == ()
    assert told.reason.startswith(reason)


def test_what_is_needed_is_found_by_trying():
    """An update is refused without it."""
    assert seen("mase", "timeseries").needs == ("history",)
    assert seen("mae", "timeseries").needs == ()


def test_the_use_that_is_tried_is_the_example():
    """Where a metric needs a choice, the page shows the same one."""
    assert seen("f1_macro", "category").subject == "f1(average=macro)"


def test_an_ordinary_batch_is_tried_too():
    """The metric's own draw is made for it; what it says of data that is not is told."""
    assert seen("rmsle", "number").refuses.startswith("rmsle and msle need predictions and targets above -1")
    assert seen("mae", "number").refuses == ""
