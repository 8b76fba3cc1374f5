from __future__ import annotations

from contextlib import suppress

import pytest
from bare_optuna import BareOptuna
from injured import Injured

from hpometrics.exceptions import DiskError
from hpometrics.records._files import check_room
from hpometrics.records.trial_record import TrialState

MIB = 1 << 20


def test_a_sweep_whose_disk_is_full_stops_and_goes_on_when_there_is_room(small_disk, card):
    """The disk is named and no trial has failed; what was recorded is kept."""
    injured = Injured(small_disk)
    injured.harm("full disk")
    assert injured.run() == 5, injured.err()
    assert "earlier records are kept" in injured.err()
    assert not any(record.state.finished for record in injured.records()[2:])
    injured.note_finished()
    injured.heal()
    (small_disk / "runs/filler").unlink()
    survived = injured.run() == 0 and injured.whole() == set(range(6))
    card(injured.toll("a disk that is full, then freed", 1, survived))


@pytest.mark.thorough
def test_a_full_disk_of_bare_optuna(small_disk, card):
    """The same with Optuna alone."""
    bare = BareOptuna(small_disk)
    bare.harm("full disk")
    bare.run()
    bare.heal()
    (small_disk / "runs/filler").unlink()
    bare.run()
    card(bare.toll("a disk that is full, then freed", 1, 2 in bare.whole()))


def test_whether_there_is_room_is_told_by_writing(small_disk):
    """And nothing of it is left behind."""
    disk = small_disk / "runs"
    check_room(disk)
    filler = disk / "filler"
    with suppress(OSError):
        filler.write_bytes(bytes(4 * MIB))
    with pytest.raises(DiskError, match="No space left on device"):
        check_room(disk)
    filler.unlink()
    check_room(disk)
    assert not list(disk.iterdir())


def test_a_sweep_that_may_write_no_more_stops_and_goes_on_when_it_may(tmp_path, card):
    """RLIMIT_FSIZE stands in for a full disk where none may be mounted: the study cannot grow."""
    injured = Injured(tmp_path)
    injured.harm("file size limit")
    assert injured.run() == 5, injured.err()
    assert "the study cannot be read or written" in injured.err()
    injured.note_finished()
    injured.heal()
    survived = injured.run() == 0 and injured.whole() == set(range(6))
    card(injured.toll("a file size limit (for a full disk)", 1, survived))


@pytest.mark.thorough
def test_bare_optuna_that_may_write_no_more(tmp_path, card):
    """The same with Optuna alone."""
    bare = BareOptuna(tmp_path)
    bare.harm("file size limit")
    bare.run()
    bare.note_finished()
    bare.heal()
    survived = bare.run() == 0 and 2 in bare.whole()
    card(bare.toll("a file size limit (for a full disk)", 1, survived))


def test_a_record_that_cannot_be_written_is_no_fault_of_its_trial(tmp_path, card):
    """The file is named; what was written of the trial stands, and it goes on from there."""
    injured = Injured(tmp_path)
    injured.harm("full record")
    assert injured.run() == 5, injured.err()
    assert "epochs.jsonl: cannot be written: No space left on device" in injured.err()
    assert injured.records()[2].state is TrialState.INTERRUPTED
    injured.note_finished()
    injured.heal()
    survived = injured.run() == 0 and injured.whole() == set(range(6))
    card(injured.toll("a record that cannot be written", 1, survived))
