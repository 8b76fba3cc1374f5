from __future__ import annotations

import json

import optuna
import pytest
from hypothesis import given, strategies as st

from hpometrics.backends.optuna.study import REASON, get_attribute, put_attribute, study_records, tell
from hpometrics.exceptions import RecordError
from hpometrics.records.trial_record import TrialRecord, TrialState

COLUMN = 65_535
"""Bytes that a text column of MySQL holds."""


def written(value: object) -> list[tuple[str, object]]:
    """The attributes of a value, in the order in which they are set."""
    told: list[tuple[str, object]] = []
    put_attribute(lambda key, one: told.append((key, one)), "key", value)
    return told


def test_a_short_value_is_as_it_was():
    """Under its own key, for whoever looks into the study."""
    assert written({"a": [1, 2.5]}) == [("key", {"a": [1, 2.5]})]
    assert get_attribute({}, "key") is None
    assert get_attribute({"key": "text"}, "key") == "text"


@given(st.text(), st.integers(0, 3))
def test_a_long_value_comes_back(text, more):
    """Quotes, line ends and any script; no attribute is too long for a column, the key comes last."""
    value = {"text": (text or "x") * (1 + (more * 40_000) // len(text or "x")), "more": None}
    told = written(value)
    assert all(len(json.dumps(one).encode()) <= COLUMN for _, one in told)
    assert [key for key, _ in told].index("key") == len(told) - 1
    assert get_attribute(dict(told), "key") == value


@pytest.mark.parametrize("worst", ['"' * 90_000, "\\" * 90_000, "\U0001f600" * 20_000])
def test_what_has_to_be_escaped_twice_fits_too(worst):
    """Characters of which JSON makes two and twelve, and of those JSON again."""
    told = written(worst)
    assert len(told) > 2
    assert all(len(json.dumps(one).encode()) <= COLUMN for _, one in told)
    assert get_attribute(dict(told), "key") == worst


def test_a_value_that_is_replaced_is_never_mixed_with_the_old_one():
    """Whoever reads before the key is set finds the old value, after it the new one."""
    study = optuna.create_study()
    put_attribute(study.set_user_attr, "key", "a" * 100_000)
    for key, one in written("b" * 100_000):
        assert get_attribute(study.user_attrs, "key") == "a" * 100_000
        study.set_user_attr(key, one)
    assert get_attribute(study.user_attrs, "key") == "b" * 100_000


@pytest.mark.parametrize("change", [None, "other"], ids=["missing", "changed"])
def test_a_damaged_piece_is_told(change):
    """It is no value; a program that reads on would read another one."""
    told = dict(written("x" * 100_000))
    piece = next(iter(told))
    if change is None:
        del told[piece]
    else:
        told[piece] = change
    with pytest.raises(RecordError, match="the attribute 'key' is damaged: its pieces differ from those"):
        get_attribute(told, "key")


def test_the_reason_of_a_failure_may_be_long():
    """A message of any length is no fault of the storage."""
    study = optuna.create_study()
    trial = study.ask()
    reason = "no " * 50_000
    tell(study, trial, TrialRecord(0, {}, TrialState.FAILED, reason=reason))
    told = study.trials[0].user_attrs
    assert all(len(json.dumps(value).encode()) <= COLUMN for value in told.values())
    assert study_records(study)[0].reason == get_attribute(told, REASON) == reason
