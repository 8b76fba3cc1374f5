from __future__ import annotations

import json
import math
import os
import signal
from datetime import UTC, datetime

import pytest
from forked import Forked

from hpometrics.exceptions import RecordError
from hpometrics.records._files import atomic_write
from hpometrics.records.epoch_log import EpochLog, read_epochs, read_trial
from hpometrics.records.trial_record import EpochRecord, TrialRecord, TrialState, numbers_of, write_trial


def strict(text: str) -> object:
    """Parse JSON that has no NaN, as RFC 8259 wants it."""
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not valid JSON"))


def test_an_epoch_reads_back_to_the_last_digit():
    """Finite values come back exactly; what is not finite is null with its reason, and reads as nan."""
    epoch = EpochRecord(3, {"f1": 0.1 + 0.2, "auc": math.nan, "loss": math.inf}, {"auc": "one class"}, 1.5, 2)
    line = epoch.to_line()
    assert strict(line)["values"] == {"f1": 0.1 + 0.2, "auc": None, "loss": None}
    back = EpochRecord.from_line(line)
    assert (back.epoch, back.attempt, back.seconds, back.values["f1"]) == (3, 2, 1.5, 0.1 + 0.2)
    assert math.isnan(back.values["auc"]) and math.isnan(back.values["loss"])
    assert back.reasons == {"auc": "one class", "loss": "inf"}


def test_a_curve_reads_back_as_lists():
    """Its numbers in their rows, those that are not finite as nan; a host is told of single numbers only."""
    epoch = EpochRecord(0, {"f1": 0.5, "roc_curve": [[0.0, 1.0], [math.inf, 0.3]], "recall": [0.25]})
    line = epoch.to_line()
    assert strict(line)["values"] == {"f1": 0.5, "roc_curve": [[0.0, 1.0], [None, 0.3]], "recall": [0.25]}
    back = EpochRecord.from_line(line).values
    assert (back["roc_curve"][0], back["roc_curve"][1][1], back["recall"]) == ([0.0, 1.0], 0.3, [0.25])
    assert math.isnan(back["roc_curve"][1][0])
    assert numbers_of(back) == {"f1": 0.5}
    assert math.isnan(epoch.number("recall"))


def test_what_is_no_record_of_numbers_is_refused():
    """Words in the place of numbers, however deep."""
    line = EpochRecord(0, {"matrix": [[1.0]]}).to_line()
    with pytest.raises(RecordError, match="not an epoch record"):
        EpochRecord.from_line(line.replace("1.0", '"one"'))


def test_the_newest_attempt_wins_from_its_first_epoch_on(tmp_path):
    """A process that was taken for dead writes epochs 2 and 3 after attempt 2 wrote its 1 and 2."""
    old = EpochLog(tmp_path)
    for epoch in (0, 1):
        old.append(EpochRecord(epoch, {"loss": 0.0}))
    new = EpochLog(tmp_path)
    for epoch in (1, 2):
        new.append(EpochRecord(epoch, {"loss": 1.0}))
        old.append(EpochRecord(epoch + 1, {"loss": 2.0}))
    old.close()
    new.close()
    assert [(r.epoch, r.attempt) for r in read_epochs(tmp_path)] == [(0, 1), (1, 2), (2, 2)]


@pytest.mark.parametrize(("fsync", "forced"), [("epoch", [1, 2, 2]), ("trial", [0, 0, 1])])
def test_what_is_on_the_disk_is_not_forced_there_again(tmp_path, monkeypatch, fsync, forced):
    """Of two epochs each is, or the end is that forces both."""
    calls, found = [], []
    monkeypatch.setattr(os, "fsync", calls.append)
    log = EpochLog(tmp_path, fsync)
    for epoch in range(2):
        log.append(EpochRecord(epoch, {"loss": 1.0}))
        found.append(len(calls))
    log.close()
    assert [*found, len(calls)] == forced


def test_a_trial_reads_back(tmp_path):
    """All fields survive; the checkpoint is written relative, so that the directory may be moved."""
    record = TrialRecord(
        number=7,
        params={"lr": 1e-3, "layers": [8, 8], "optimizer": None},
        state=TrialState.COMPLETE,
        value=0.1 + 0.2,
        epoch=1,
        reason=None,
        seed=42,
        threads=1,
        started=datetime(2026, 11, 21, 1, 2, 3, tzinfo=UTC),
        seconds=2.5,
        checkpoint=tmp_path / "checkpoints" / "epoch-0001.pt",
        versions={"torch": "2.13"},
    )
    write_trial(tmp_path, record)
    told = strict((tmp_path / "trial.json").read_text())
    assert told["checkpoint"] == os.path.join("checkpoints", "epoch-0001.pt")
    assert read_trial(tmp_path) == record


def test_a_trial_that_never_began_has_no_record(tmp_path):
    """None, not an error: there is nothing wrong with an empty directory."""
    assert read_trial(tmp_path) is None
    assert read_epochs(tmp_path) == ()


def test_a_later_attempt_voids_what_it_trains_again(tmp_path):
    """Attempt 1 wrote epochs 0 to 3; attempt 2 goes on at 2 and ends there: 0, 1 and the new 2 count."""
    log = EpochLog(tmp_path)
    for epoch in range(4):
        log.append(EpochRecord(epoch, {"loss": float(epoch)}))
    log.close()
    again = EpochLog(tmp_path)
    assert again.attempt == 2
    again.append(EpochRecord(2, {"loss": 9.0}))
    again.close()
    assert [(r.epoch, r.attempt, r.values["loss"]) for r in read_epochs(tmp_path)] == [
        (0, 1, 0.0),
        (1, 1, 1.0),
        (2, 2, 9.0),
    ]
    assert len((tmp_path / "epochs.jsonl").read_text().splitlines()) == 5


@pytest.mark.parametrize("torn", [b'{"attempt": 1, "ep', b"\x00" * 40, b'{"a": 1}', b"\xff"])
def test_a_torn_last_line_is_cut_off(tmp_path, torn):
    """A crash in the middle of a line loses that epoch and no other; the next line is whole."""
    log = EpochLog(tmp_path)
    log.append(EpochRecord(0, {"loss": 1.0}))
    log.close()
    with (tmp_path / "epochs.jsonl").open("ab") as file:
        file.write(torn)
    assert len(read_epochs(tmp_path)) == 1
    again = EpochLog(tmp_path)
    again.append(EpochRecord(1, {"loss": 0.5}))
    again.close()
    assert [r.epoch for r in read_epochs(tmp_path)] == [0, 1]


def test_damage_in_the_middle_names_file_and_line(tmp_path):
    """What no crash of ours explains is not repaired in silence."""
    (tmp_path / "epochs.jsonl").write_text(f"{EpochRecord(0, {}).to_line()}\nrubbish\n")
    with pytest.raises(RecordError, match=r"epochs\.jsonl:2: not an epoch record: 'rubbish'"):
        EpochLog(tmp_path)
    (tmp_path / "epochs.jsonl").unlink()
    (tmp_path / "trial.json").write_text("{")
    with pytest.raises(RecordError, match=r"trial\.json: is not valid JSON"):
        read_trial(tmp_path)
    (tmp_path / "trial.json").write_text('{"number": 1}')
    with pytest.raises(RecordError, match=r"trial\.json: not a trial record"):
        read_trial(tmp_path)


def append_and_die(directory):
    """Write one epoch, and no more."""
    EpochLog(directory).append(EpochRecord(0, {"loss": 0.25}))
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_epoch_is_on_disk_before_the_next_one_begins(tmp_path):
    """A process killed right after `append` has left the whole line."""
    assert Forked(tmp_path, append_and_die, tmp_path).ended() == -signal.SIGKILL
    assert [r.values["loss"] for r in read_epochs(tmp_path)] == [0.25]


def test_an_atomic_write_that_fails_leaves_the_old_file(tmp_path):
    """The old content stays and no draft is left behind."""
    path = tmp_path / "best.yaml"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="disk"), atomic_write(path) as file:
        file.write(b"half of the n")
        raise RuntimeError("disk")
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["best.yaml"]


@pytest.mark.parametrize(
    ("state", "finished"),
    [(state, state.value in {"complete", "pruned", "failed", "infeasible"}) for state in TrialState],
)
def test_an_interrupted_trial_is_not_finished(state, finished):
    """Only what will never go on is finished."""
    assert state.finished is finished


def test_of_an_epoch_that_an_attempt_wrote_twice_the_later_line_counts(tmp_path):
    """And what lay behind it counts no more."""
    with (tmp_path / "epochs.jsonl").open("w") as file:
        for epoch, loss in ((0, 0.75), (1, 0.5), (2, 0.25), (1, 0.125)):
            file.write(EpochRecord(epoch, {"loss": loss}).to_line() + "\n")
    assert [(r.epoch, r.values["loss"]) for r in read_epochs(tmp_path)] == [(0, 0.75), (1, 0.125)]


def test_whatever_byte_of_an_epoch_is_turned_it_is_found():
    """A digit of a value, of the epoch, of the attempt; a letter of a name; the digest, the format."""
    line = EpochRecord(1, {"auc": 0.75, "loss": math.nan}, {"loss": "no row"}, 0.25, 2).to_line()
    assert EpochRecord.from_line(line).values["auc"] == 0.75
    for place, letter in enumerate(line):
        for bit in range(7):
            turned = line[:place] + chr(ord(letter) ^ 1 << bit) + line[place + 1 :]
            with pytest.raises(RecordError):
                EpochRecord.from_line(turned)


def test_a_line_without_a_digest_is_of_an_earlier_version():
    """Which wrote no number of its format either."""
    line = '{"attempt": 1, "epoch": 0, "reasons": {}, "seconds": 0.5, "values": {"auc": 0.5}}'
    assert EpochRecord.from_line(line) == EpochRecord(0, {"auc": 0.5}, {}, 0.5)
    with pytest.raises(RecordError):
        EpochRecord.from_line(line.replace('"reasons"', '"format": 1, "reasons"'))


@pytest.mark.parametrize("name", ["digest", "format"])
def test_a_value_may_be_called_as_a_key_of_the_line(name):
    """In a line of this version and in one of an earlier version, which has no digest."""
    record = EpochRecord(0, {"auc": 0.5, name: math.nan}, {name: "no row"}, 0.5)
    line = record.to_line()
    told = {key: value for key, value in json.loads(line).items() if key not in ("digest", "format")}
    for text in (line, json.dumps(told)):
        assert EpochRecord.from_line(text).reasons == {name: "no row"}
