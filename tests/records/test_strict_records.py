from __future__ import annotations

import json
import math

import pytest

from hpometrics.exceptions import RecordError
from hpometrics.records._json import read_json, real, sealed, whole
from hpometrics.records.epoch_log import EPOCHS_FILE, read_epochs, read_trial
from hpometrics.records.trial_record import TRIAL_FILE, EpochRecord, TrialRecord

EPOCH = EpochRecord(0, {"loss": 0.5, "auc": math.nan}, {"auc": "one class"}, 0.25).to_line()


@pytest.mark.parametrize(
    "text", ["NaN", "[Infinity]", '{"a": -Infinity}', "[" * 100_000, "1" * 5000, "", "{"]
)
def test_what_is_not_strict_json_is_a_value_error(text):
    """Python's own reader takes the first three, and ends at the fourth in a way that nobody catches."""
    with pytest.raises(ValueError):
        read_json(text)


@pytest.mark.parametrize("value", [1.7, "3", True, None, -1, 3.0, [3]])
def test_a_step_is_a_whole_number(value):
    """It is never cut to one, nor read from text."""
    with pytest.raises(ValueError, match="a whole number of at least 0 was expected"):
        whole(value)
    assert whole(3) == 3


@pytest.mark.parametrize("value", ["0.3", True, None, [0.3], 10**400])
def test_a_value_is_a_number(value):
    """As it stands: text that looks like one is none."""
    with pytest.raises(ValueError, match=r"a number (of at most 1\.8e308 )?was expected"):
        real(value)
    assert real(3) == 3.0


@pytest.mark.parametrize(
    "changed",
    [
        {"epoch": 1.7},
        {"epoch": "1"},
        {"epoch": -1},
        {"epoch": True},
        {"attempt": 0.5},
        {"seconds": "0.1"},
        {"values": {"loss": "0.3"}},
        {"values": {"loss": True}},
        {"values": {"loss": {"a": 1}}},
        {"values": {"loss": [[0.3], "x"]}},
        {"values": {"loss": 10**400}},
        {"values": [1]},
        {"reasons": "text"},
    ],
    ids=str,
)
def test_a_line_of_another_kind_is_refused_with_its_place(changed, tmp_path):
    """A record is not repaired by reading it generously."""
    told = {**json.loads(EPOCH), **changed}
    del told["digest"]
    line = sealed(json.dumps(told))
    (tmp_path / EPOCHS_FILE).write_text(f"{EPOCH}\n{line}\n")
    with pytest.raises(RecordError, match=rf"{EPOCHS_FILE}:2: not an epoch record: "):
        read_epochs(tmp_path)


@pytest.mark.parametrize(
    "changed",
    [
        {"number": "7"},
        {"number": True},
        {"params": [1]},
        {"value": "0.3"},
        {"epoch": 1.5},
        {"reason": 3},
        {"seconds": None},
        {"versions": "x"},
        {"constraints": [0]},
        {"state": "won"},
        {"started": "yesterday"},
        {"checkpoint": 3},
    ],
    ids=str,
)
def test_a_trial_of_another_kind_is_refused_with_its_file(changed, tmp_path):
    """Whoever reads a record can rely on what its fields are."""
    told = {**TrialRecord(0, {"lr": 0.1}).to_json(), **changed}
    (tmp_path / TRIAL_FILE).write_text(json.dumps(told))
    with pytest.raises(RecordError, match=rf"{TRIAL_FILE}: not a trial record \("):
        read_trial(tmp_path)


def test_what_was_written_reads_back(tmp_path):
    """With what is not finite as null and its reason."""
    (tmp_path / EPOCHS_FILE).write_text(f"{EPOCH}\n")
    [record] = read_epochs(tmp_path)
    assert record.to_line() == EPOCH
    assert (record.values["loss"], record.reasons) == (0.5, {"auc": "one class"})
