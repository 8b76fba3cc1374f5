from __future__ import annotations

import pytest

from hpometrics._imports import installed_versions
from hpometrics.records.reproduction import Replayed


@pytest.mark.parametrize(
    ("value", "shown"), [(0.1, "0.1"), (3, "3"), (None, "None"), ([[0.0], [1.0]], "2 x 1")]
)
def test_what_came_out_is_the_same(value, shown):
    """Numbers, curves by their shape, and what was never finite."""
    replayed = Replayed({"rmse": value}, {"rmse": value}, {})
    assert (replayed.same, replayed.code) == (True, 0)
    assert str(replayed) == f"  rmse: {shown}  as recorded\nrmse matches the record, to the last digit"


@pytest.mark.parametrize(
    ("recorded", "again"), [(0.3, 0.1 + 0.2), (1, 1.0), (None, 0.0), (0.0, None), (0.0, -0.0)]
)
def test_the_last_digit_counts(recorded, again):
    """And so does the type."""
    replayed = Replayed({"rmse": recorded}, {"rmse": again}, {})
    assert (replayed.same, replayed.code) == (False, 1)
    assert str(replayed).splitlines()[:2] == [
        f"  rmse: {again}  recorded {recorded}",
        "rmse does not match the record",
    ]


def test_the_first_value_decides():
    """Others are shown: a time never comes out twice."""
    replayed = Replayed({"rmse": 0.1, "ups": 30.0}, {"rmse": 0.1, "ups": 31.0, "mae": 2.0}, {})
    assert replayed.same
    assert "  ups: 31.0  recorded 30.0\n  mae: 2.0\n" in str(replayed)


def test_a_failure_is_told():
    """With what was recorded."""
    told = str(Replayed({"rmse": 0.1}, {}, {}, "ValueError: no"))
    assert told.startswith("  failed: ValueError: no\n  rmse: -  recorded 0.1\nrmse does not match")


def test_versions_that_differ_are_named():
    """Those of the record are compared with those here; where none differs that is said too."""
    here = installed_versions()
    assert {"python", "numpy", "torch"} <= here.keys()
    other = Replayed({"rmse": 1}, {"rmse": 2}, {**here, "numpy": "0.9", "gone": "1.0"})
    assert str(other).endswith(
        f"versions that differ: numpy 0.9 -> {here['numpy']}, gone 1.0 -> (not installed)"
    )
    assert "all recorded versions match; " in str(Replayed({"rmse": 1}, {"rmse": 2}, here))


def test_without_a_record_nothing_is_compared():
    """As of a file that another program wrote."""
    replayed = Replayed({}, {"rmse": 2}, {})
    assert (replayed.code, str(replayed)) == (0, "  rmse: 2\nthere is no record to compare this with")
